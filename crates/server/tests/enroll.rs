//! Agents that get their own tokens with an enrollment token: each host once, many at once, whatever is killed meanwhile.

mod common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use common::{Server, batch, gap, run};
use serde_json::{Value, json};
use testkit::{wait_for, wait_until};

/// The token that an agent makes; the same name gives the same one.
fn own_token(name: &str) -> String {
    let mut random = [0; 32];
    random.iter_mut().zip(name.bytes().cycle()).for_each(|(to, from)| *to = from);
    record::enroll::token(&random)
}

/// The status and the answer, if there is one.
fn try_enroll(server: &Server, with: &str, host: &str, own: &str) -> Option<(u16, Value)> {
    let request = Server::agent().post(format!("http://{}/api/v1/enroll", server.address));
    let body = json!({"host": host, "token": own}).to_string();
    let mut answer = request.header("authorization", format!("Bearer {with}")).send(body).ok()?;
    let text = answer.body_mut().read_to_string().ok()?;
    Some((answer.status().as_u16(), serde_json::from_str(&text).unwrap_or(Value::String(text))))
}

fn enroll(server: &Server, with: &str, host: &str, own: &str) -> (u16, Value) {
    try_enroll(server, with, host, own).unwrap()
}

/// Whether a token sends for a host.
fn sends(server: &Server, token: &str, host: &str) -> u16 {
    server.post(&batch(host, 1, &[gap()]), token, &[]).0.as_u16()
}

fn create(server: &Server, hosts: &str, more: &[&str]) -> String {
    server.command(&[&["token", "create", "--enroll", "--host", hosts], more].concat())
}

/// The line of `token list` that begins with this.
fn listed(server: &Server, start: &str) -> String {
    let list = server.command(&["token", "list"]);
    let line = list.lines().find(|line| line.starts_with(start));
    line.unwrap_or_else(|| panic!("no {start} in:\n{list}")).to_owned()
}

#[test]
fn an_agent_gets_a_token_of_its_own_once() {
    let server = Server::start(&[]);
    let with = create(&server, "n[1-3]", &[]);
    let (own, other) = (own_token("a"), own_token("b"));
    let answer = enroll(&server, &with, "n1", &own);
    assert_eq!(answer, (200, json!({"id": "t2"})));
    assert_eq!((sends(&server, &own, "n1"), sends(&server, &own, "n2")), (200, 403));
    assert_eq!(sends(&server, &with, "n2"), 403, "the enrollment token itself sends nothing");
    assert_eq!(server.get("/api/v1/processes", Some(&with)).unwrap().0, 403, "and reads nothing");
    // The answer was lost: the agent asks again.
    assert_eq!(enroll(&server, &with, "n1", &own), answer);
    assert!(listed(&server, "t1 ").contains("enrolling n[1-3], 1 of 3 used"));
    assert!(listed(&server, "t2 ").contains("node n1, enrolled by t1 from 127.0.0.1"));
    for (what, host, token, expected) in [
        ("a name that is not in the list", "n4", other.as_str(), 403),
        ("a token that can be guessed", "n2", "jgn_0123", 400),
        ("another host's", "n2", own.as_str(), 409),
    ] {
        let (status, answer) = enroll(&server, &with, host, token);
        assert_eq!(status, expected, "{what}: {answer}");
        assert!(answer["error"].as_str().is_some_and(|error| error.len() > 20), "{what}: {answer}");
    }
    let log = server.stop();
    assert!(log.contains(r#"enrolled host="n1" token="t2" by="t1" from=127.0.0.1"#), "{log}");
    for secret in [with, own, other] {
        assert!(!log.contains(&secret), "a secret in the log");
    }
}

#[test]
fn a_name_that_is_enrolled_needs_approval() {
    let server = Server::start(&[]);
    let with = create(&server, "n[1-3]", &["--expires", "1h"]);
    let (first, second, thief) = (own_token("first"), own_token("second"), own_token("thief"));
    assert_eq!(enroll(&server, &with, "n1", &first).0, 200);
    let (status, answer) = enroll(&server, &with, "n1", &second);
    let reason = answer["error"].as_str().unwrap_or_default();
    assert_eq!(status, 409, "{reason}");
    let request = reason.rsplit(' ').next().unwrap().trim_end_matches('`');
    assert!(reason.contains("token approve --host n1"), "{reason}");
    assert!(server.command(&["token", "list"]).contains("waiting for approval"));
    assert!(listed(&server, "n1 ").contains(request), "{request}");
    // Somebody else wants to be n1, too: an administrator must say who it is.
    assert_eq!(enroll(&server, &with, "n1", &thief).0, 409);
    let approve =
        |more: &[&str]| run(&[&["token", "approve", "--host", "n1"], more].concat(), &server.data());
    assert_eq!(approve(&[]).status.code(), Some(2));
    assert_eq!(sends(&server, &first, "n1"), 200);
    assert!(approve(&["--request", request]).status.success());
    assert_eq!(sends(&server, &first, "n1"), 401, "the old token is revoked");
    assert_eq!(enroll(&server, &with, "n1", &thief).0, 409);
    assert_eq!(enroll(&server, &with, "n1", &second).0, 200);
    assert_eq!((sends(&server, &second, "n1"), sends(&server, &thief, "n1")), (200, 401));
    assert_eq!(enroll(&server, &with, "n1", &first).0, 409, "once");
    assert!(listed(&server, "t1 ").contains("1 of 3 used"), "the same host counts once");
    assert_eq!(run(&["token", "approve", "--host", "n2"], &server.data()).status.code(), Some(2));
}

#[test]
fn enrollment_tokens_end_and_are_revoked_alone_or_with_their_hosts() {
    let server = Server::start(&[]);
    let late = create(&server, "n[1-3]", &["--expires", "2020-01-01T00:00:00Z"]);
    assert_eq!(enroll(&server, &late, "n1", &own_token("1")).0, 401);
    let with = create(&server, "n[1-3]", &["--uses", "2"]);
    let days = |line: &str| {
        let end: jiff::Timestamp =
            line.split_once("until ").unwrap().1.split(' ').next().unwrap().parse().unwrap();
        end.duration_since(jiff::Timestamp::now()).as_hours() as f64 / 24.0
    };
    assert!((6.9..=7.0).contains(&days(&listed(&server, "t2 "))));
    for (host, expected) in [("n1", 200), ("n2", 200), ("n3", 403)] {
        assert_eq!(enroll(&server, &with, host, &own_token(host)).0, expected, "{host}");
    }
    server.command(&["token", "revoke", "t2"]);
    assert_eq!(enroll(&server, &with, "n1", &own_token("n1")).0, 401);
    assert_eq!(sends(&server, &own_token("n1"), "n1"), 200, "what it gave is still good");
    server.command(&["token", "revoke", "t2", "--with-hosts"]);
    assert_eq!(["n1", "n2"].map(|host| sends(&server, &own_token(host), host)), [401, 401]);
}

/// A cluster has booted: all its agents ask at once, and each token counts.
#[test]
fn hundreds_of_agents_enroll_at_once_and_no_use_is_lost() {
    const HOSTS: usize = 400;
    let server = Server::start(&[]);
    let with = create(&server, "n[1-400]", &["--uses", "350"]);
    let (enrolled, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for host in 1..=HOSTS {
            let (server, with, enrolled, refused) = (&server, &with, &enrolled, &refused);
            scope.spawn(move || {
                let host = format!("n{host}");
                // Twice at the same time: one of them may be a request that was given up.
                let ask = || enroll(server, with, &host, &own_token(&host)).0;
                let (one, two) = thread::scope(|scope| {
                    let other = scope.spawn(ask);
                    (ask(), other.join().unwrap())
                });
                assert_eq!(one, two, "{host}");
                let counted = if one == 200 { enrolled } else { refused };
                counted.fetch_add(1, Ordering::Relaxed);
            });
        }
    });
    assert_eq!((enrolled.into_inner(), refused.into_inner()), (350, 50));
    assert!(listed(&server, "t1 ").contains("350 of 350 used"));
    let list = server.command(&["token", "list"]);
    assert_eq!(list.matches("enrolled by t1").count(), 350, "a token for each");
}

/// What was acknowledged is there after a kill; what was not, the agent asks for again with the same token.
#[test]
fn a_server_that_is_killed_meanwhile_enrolls_each_host_once() {
    const HOSTS: usize = 60;
    let mut server = Server::start(&[]);
    let with = create(&server, "n[1-60]", &[]);
    let acknowledged: Vec<AtomicBool> = (0..HOSTS).map(|_| AtomicBool::new(false)).collect();
    for round in 0..3 {
        thread::scope(|scope| {
            let (server_, with) = (&server, &with);
            for (at, known) in acknowledged.iter().enumerate() {
                scope.spawn(move || {
                    let host = format!("n{}", at + 1);
                    let answer = try_enroll(server_, with, &host, &own_token(&host));
                    known.fetch_or(answer.is_some_and(|(status, _)| status == 200), Ordering::Relaxed);
                });
            }
            let pid = rustix::process::Pid::from_child(&server.child);
            let count = || acknowledged.iter().filter(|known| known.load(Ordering::Relaxed)).count();
            wait_until("some to be enrolled", || count() > round * HOSTS / 4);
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        });
        server.child.wait().unwrap();
        let dir = std::mem::replace(&mut server.dir, tempfile::tempdir().unwrap());
        server = Server::start_in(dir, &[]);
        for (at, known) in acknowledged.iter().enumerate() {
            let host = format!("n{}", at + 1);
            let status = sends(&server, &own_token(&host), &host);
            assert!(status == 200 || !known.load(Ordering::Relaxed), "{host} was acknowledged: {status}");
        }
    }
    for host in (1..=HOSTS).map(|at| format!("n{at}")) {
        assert_eq!(enroll(&server, &with, &host, &own_token(&host)).0, 200);
    }
    assert!(listed(&server, "t1 ").contains("60 of 60 used"));
    assert_eq!(server.command(&["token", "list"]).matches("enrolled by t1").count(), HOSTS);
}

/// A command beside the server changes the same file.
#[test]
fn tokens_made_while_agents_enroll_are_all_kept() {
    let server = Server::start(&[]);
    let with = create(&server, "n[1-100]", &[]);
    thread::scope(|scope| {
        for host in 1..=100 {
            let (server, with) = (&server, &with);
            scope.spawn(move || {
                let host = format!("n{host}");
                assert_eq!(enroll(server, with, &host, &own_token(&host)).0, 200);
            });
        }
        for _ in 0..10 {
            server.command(&["token", "create", "--user", "alice"]);
        }
    });
    let list = server.command(&["token", "list"]);
    assert_eq!((list.matches("enrolled by t1").count(), list.matches("user alice").count()), (100, 10));
}

#[test]
fn wrong_tokens_are_slowed_and_keep_nobody_out() {
    let server = Server::start(&[]);
    let with = create(&server, "n[1-2]", &[]);
    let guess = |at: usize| enroll(&server, &format!("jge_{at:064x}"), "n1", &own_token("x")).0;
    let statuses: Vec<u16> = (0..60).map(guess).collect();
    assert!(statuses[..20].iter().all(|status| *status == 401), "{statuses:?}");
    let slowed = statuses.iter().filter(|status| **status == 429).count();
    assert!(slowed > 20, "{statuses:?}");
    // An agent at the same address, which has done nothing wrong.
    assert_eq!(enroll(&server, &with, "n1", &own_token("n1")).0, 200);
    wait_for("the log", || server.log().contains("enrolled host").then_some(()));
    let told = server.log().matches("not enrolled").count();
    assert_eq!(told, statuses.len() - slowed, "what is slowed does not fill the log");
}
