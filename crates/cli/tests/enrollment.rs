//! An agent that gets its own token with an enrollment token, from a real server.

mod common;
#[path = "common/server.rs"]
#[allow(dead_code, reason = "without its network and its proxy")]
mod server;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agent::ship::Cursor;
use common::{Node, jobglass, must, wait_until};
use server::{Server, jobglass_server};

fn on_server(server: &Server, arguments: &[&str]) -> String {
    must(Command::new(jobglass_server()).args(arguments).arg("--data").arg(&server.data))
}

/// A server, an enrollment token for these hosts in a file of root's, and an agent that is not started yet.
fn prepared(hosts: &str, url: impl FnOnce(&Server) -> String) -> (Server, Node, PathBuf) {
    let dir = common::new_dir();
    let server = Server::start(dir.path().to_owned(), None);
    server.wait_ready();
    let enroll = dir.path().join("enroll.token");
    fs::write(&enroll, on_server(&server, &["token", "create", "--enroll", "--host", hosts])).unwrap();
    fs::set_permissions(&enroll, fs::Permissions::from_mode(0o600)).unwrap();
    let config = format!(
        "host = \"n0001\"\n[server]\nurl = \"{}\"\ntoken_file = \"{}\"\nenroll_token_file = \"{}\"\n",
        url(&server),
        dir.path().join("absent.token").display(),
        enroll.display()
    );
    // The server's directory lives as long as the agent's.
    let mut node = Node::prepared(&config);
    let spool = dir.keep();
    node.args.extend(["--enroll-token-file".into(), enroll.display().to_string()]);
    (server, node, spool)
}

fn has_shipped(node: &Node) -> bool {
    Cursor::peek(&node.spool()).ok().flatten().is_some()
}

fn own_token(node: &Node) -> PathBuf {
    node.spool().join("token")
}

fn list(server: &Server) -> String {
    on_server(server, &["token", "list"])
}

#[test]
fn an_agent_enrolls_once_and_uses_its_token_from_then_on() {
    let (server, mut node, dir) = prepared("n[0001-0003]", Server::url);
    node.start_agent();
    wait_until("the first records to be sent", || has_shipped(&node));
    let (token, meta) =
        (fs::read(own_token(&node)).unwrap(), fs::symlink_metadata(own_token(&node)).unwrap());
    assert!(meta.is_file() && meta.mode() & 0o7777 == 0o600, "{:o}", meta.mode());
    assert_eq!(meta.uid(), rustix::process::getuid().as_raw());
    assert!(!node.spool().join("token.asked").exists());
    assert!(list(&server).contains("1 of 3 used"), "{}", list(&server));
    // The enrollment token is of no use any more, and not needed.
    on_server(&server, &["token", "revoke", "t1"]);
    fs::remove_file(dir.join("enroll.token")).unwrap();
    node.stop_agent();
    node.start_agent();
    let sent = Cursor::peek(&node.spool()).unwrap();
    wait_until("more to be sent", || Cursor::peek(&node.spool()).unwrap() > sent);
    assert_eq!(fs::read(own_token(&node)).unwrap(), token);
    assert_eq!(list(&server).matches("enrolled by t1").count(), 1);
    let log = format!("{}{}", node.log(), server.log());
    assert!(node.log().contains("enrolled as n0001 with token t2"), "{log}");
    for secret in [&token, &fs::read(server.data.join("admin.token")).unwrap()] {
        assert!(!log.contains(String::from_utf8_lossy(secret).trim()));
    }
    let _ = fs::remove_dir_all(dir);
}

#[test]
fn an_agent_without_its_token_waits_for_approval_and_goes_on_when_it_has_it() {
    let (server, mut node, dir) = prepared("n0001", Server::url);
    node.start_agent();
    wait_until("the first records to be sent", || has_shipped(&node));
    node.stop_agent();
    // The node was installed anew.
    fs::remove_file(own_token(&node)).unwrap();
    node.start_agent();
    wait_until("the refusal", || node.log().contains("n0001 has been enrolled before"));
    wait_until("the list", || list(&server).contains("waiting for approval"));
    assert!(node.log().contains("token approve --host n0001"), "{}", node.log());
    assert!(!own_token(&node).exists());
    on_server(&server, &["token", "approve", "--host", "n0001"]);
    wait_until("a token of its own", || own_token(&node).exists());
    let sent = Cursor::peek(&node.spool()).unwrap();
    wait_until("more to be sent", || Cursor::peek(&node.spool()).unwrap() > sent);
    // An administrator revokes it while the agent runs: it waits, with what it has, and gets the next one.
    let before = fs::read(own_token(&node)).unwrap();
    on_server(&server, &["token", "approve", "--host", "n0001"]);
    wait_until("another token", || fs::read(own_token(&node)).unwrap() != before);
    let sent = Cursor::peek(&node.spool()).unwrap();
    wait_until("more to be sent", || Cursor::peek(&node.spool()).unwrap() > sent);
    let _ = fs::remove_dir_all(dir);
}

/// Passes on what comes, and what the server answers only if that is allowed.
struct Deaf {
    address: SocketAddr,
    passed: Arc<AtomicUsize>,
}

impl Deaf {
    /// Whoever asks through it hears nothing.
    fn start(server: SocketAddr) -> Deaf {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, passed) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        let counted = passed.clone();
        std::thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                let (mut request, mut buf) = (Vec::new(), [0; 4096]);
                while !String::from_utf8_lossy(&request).ends_with('}') {
                    match client.read(&mut buf) {
                        Ok(read) if read > 0 => request.extend_from_slice(&buf[..read]),
                        _ => break,
                    }
                }
                let mut there = TcpStream::connect(server).unwrap();
                there.write_all(&request).unwrap();
                // The server has answered: what it has said is gone.
                let _ = there.read(&mut buf);
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        Deaf { address, passed }
    }
}

#[test]
fn an_agent_that_is_killed_before_it_has_the_answer_is_enrolled_once() {
    let mut deaf = None;
    let (server, mut node, dir) = prepared("n[0001-0003]", |server| {
        let started = Deaf::start(server.address);
        let url = format!("http://{}", started.address);
        deaf = Some(started);
        url
    });
    let deaf = deaf.unwrap();
    node.start_agent();
    wait_until("the server to hear it twice", || deaf.passed.load(Ordering::SeqCst) >= 2);
    node.kill_agent();
    assert!(list(&server).contains("1 of 3 used"), "{}", list(&server));
    assert!(!own_token(&node).exists());
    let asked = fs::read(node.spool().join("token.asked")).unwrap();
    node.args.extend(["--server".into(), server.url()]);
    node.start_agent();
    let is_refused = || node.log().contains("has been enrolled before");
    wait_until("the server's answer", || has_shipped(&node) || is_refused());
    assert!(!is_refused(), "{}", node.log());
    assert_eq!(fs::read(own_token(&node)).unwrap(), asked);
    let list = list(&server);
    assert!(list.contains("1 of 3 used") && list.matches("enrolled by").count() == 1, "{list}");
    let _ = fs::remove_dir_all(dir);
}

#[test]
fn users_of_a_node_read_neither_token_and_doctor_says_so_if_they_could() {
    const NAME: &str = "users_of_a_node_read_neither_token_and_doctor_says_so_if_they_could";
    if !common::is_root(NAME) {
        return;
    }
    let (_server, mut node, dir) = prepared("n0001", Server::url);
    node.start_agent();
    wait_until("the first records to be sent", || has_shipped(&node));
    let (enroll, own) = (dir.join("enroll.token"), own_token(&node));
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
    let can_read = |path: &Path| {
        let mut cat = Command::new("setpriv");
        let output = cat.args(["--reuid=65534", "--regid=65534", "--clear-groups", "cat"]).arg(path).output();
        output.unwrap().status.success()
    };
    assert!(can_read(&node.dir.path().join("agent.toml")));
    assert!(!can_read(&enroll) && !can_read(&own));
    let doctor = || {
        let mut doctor = Command::new(jobglass());
        doctor.args(["doctor", "--json", "--socket", &node.socket, "--config"]);
        doctor.arg(node.dir.path().join("agent.toml")).arg("--spool").arg(node.spool());
        let output = doctor.output().unwrap();
        let checks = common::parse(&output);
        let of = |name: &str| checks.iter().find(|check| check["check"] == name).unwrap().clone();
        (of("enrollment"), of("token"))
    };
    let (enrollment, token) = doctor();
    assert_eq!((&enrollment["state"], &token["state"]), (&"ok".into(), &"ok".into()), "{enrollment} {token}");
    for path in [&enroll, &own] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o640)).unwrap();
        let (enrollment, _) = doctor();
        assert_eq!(enrollment["state"], "warn", "{enrollment}");
        let finding = enrollment["finding"].as_str().unwrap();
        assert!(finding.starts_with(&path.display().to_string()) && finding.contains("0640"), "{finding}");
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    let _ = fs::remove_dir_all(dir);
}
