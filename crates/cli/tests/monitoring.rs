//! A centre that keeps its own monitoring: real gmond and collectd measure, their values reach the store within an interval, and are
//! bound to a job of a real Slurm that runs on the nodes they speak of. There is no agent.

#[path = "common/cluster.rs"]
#[allow(dead_code, reason = "not all of it is used here")]
mod cluster;
mod common;
#[path = "common/server.rs"]
#[allow(dead_code, reason = "only the server is used here")]
mod server;

use std::collections::BTreeSet;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use cluster::Cluster;
use common::{Gate, Row, is_root, parse, skip, wait_until};
use server::Server;

const TEST: &str = "values_of_real_daemons_are_those_of_the_job";
/// Of four nodes together.
const READINGS: usize = 20;

/// A daemon or an importer; ends with the test, however that ends.
struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    fn start(mut command: Command, log: PathBuf) -> Running {
        let out = fs::File::create(&log).unwrap();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(out).spawn().unwrap();
        Running { child, log }
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap()).into_owned()
    }

    /// Asks it to end; its exit code and what it said.
    fn stop(mut self) -> (Option<i32>, String) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let code = self.child.wait().unwrap().code();
        (code, self.said())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn installed(program: &str) -> Option<PathBuf> {
    let found =
        ["/usr/sbin", "/usr/bin"].iter().map(|dir| Path::new(dir).join(program)).find(|path| path.is_file());
    if found.is_none() {
        skip(TEST, format_args!("{program} is not installed"));
    }
    found
}

/// The directory below `/usr/lib` that a package has its plugins in.
fn plugins(name: &str) -> PathBuf {
    let inside = fs::read_dir("/usr/lib").unwrap().flatten().map(|entry| entry.path().join(name));
    [Path::new("/usr/lib").join(name)].into_iter().chain(inside).find(|path| path.is_dir()).unwrap()
}

fn free_port() -> u16 {
    let is_free = |port: &u16| UdpSocket::bind(("127.0.0.1", *port)).is_ok();
    let port = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    std::iter::repeat_with(port).find(is_free).unwrap()
}

/// A gmond that says it is a node, and measures each second.
fn gmond(program: PathBuf, node: &str, port: u16, dir: &Path) -> Running {
    let config = dir.join("gmond.conf");
    let modules = plugins("ganglia");
    let text = format!(
        r#"globals {{ daemonize = no setuid = no module_dir = "{}" override_hostname = "{node}" send_metadata_interval = 5 }}
cluster {{ name = "any" }}
udp_send_channel {{ host = 127.0.0.1 port = {port} }}
udp_recv_channel {{ bind = 127.0.0.1 port = {port} }}
tcp_accept_channel {{ bind = 127.0.0.1 port = {port} }}
modules {{
  module {{ name = "core_metrics" }}
  module {{ name = "load_module" path = "modload.so" }}
  module {{ name = "mem_module" path = "modmem.so" }}
}}
collection_group {{
  collect_every = 1
  time_threshold = 1
  metric {{ name = "load_one" }}
  metric {{ name = "load_fifteen" }}
  metric {{ name = "mem_total" }}
}}
"#,
        modules.display()
    );
    fs::write(&config, text).unwrap();
    let mut command = Command::new(program);
    command.arg("-f").arg("-c").arg(config);
    Running::start(command, dir.join("gmond.log"))
}

/// A collectd that says it is a node, measures each second, and sends to ports with these settings of security.
fn collectd(program: &Path, node: &str, servers: &[(u16, &str)], dir: &Path) -> Running {
    let base = dir.join(node);
    fs::create_dir(&base).unwrap();
    let server = |(port, security): &(u16, &str)| {
        format!("<Server \"127.0.0.1\" \"{port}\">\n{security}\n</Server>\n")
    };
    let text = format!(
        "Hostname \"{node}.example.org\"\nFQDNLookup false\nBaseDir \"{base}\"\nPIDFile \"{base}/pid\"\nPluginDir \"{}\"\n\
         TypesDB \"/usr/share/collectd/types.db\"\nInterval 1\nLoadPlugin load\nLoadPlugin memory\nLoadPlugin network\n\
         <Plugin network>\n{}</Plugin>\n",
        plugins("collectd").display(),
        servers.iter().map(server).collect::<String>(),
        base = base.display(),
    );
    let config = base.join("collectd.conf");
    fs::write(&config, text).unwrap();
    let mut command = Command::new(program);
    command.arg("-f").arg("-C").arg(config);
    Running::start(command, dir.join(format!("{node}.log")))
}

fn importer(server: &Server, name: &str, arguments: &[&str], dir: &Path) -> Running {
    let command = server.ask(&[&["import"], arguments].concat());
    Running::start(command, dir.join(format!("import-{name}.log")))
}

/// Whether a summary has this part as a whole: 100 values end in `0 values`, too.
fn has_part(summary: &str, part: &str) -> bool {
    summary.split([',', ';', ':', '\n']).any(|own| own.trim() == part)
}

#[test]
fn counts_in_a_summary_are_compared_whole() {
    let summary = "jobglass: 180 readings, 100 values, 40 of them under their own names; 100 values stored, 0 waiting, 10 lost\n";
    assert!(has_part(summary, "0 waiting") && has_part(summary, "100 values stored"));
    assert!(
        !has_part(summary, "0 values stored")
            && !has_part(summary, "0 lost")
            && !has_part(summary, "0 values")
    );
}

/// The nodes of which a series of the job has values.
fn nodes(server: &Server, job: &str, metric: &str) -> BTreeSet<String> {
    series(server, job, metric).iter().map(|row| row["host"].as_str().unwrap().to_owned()).collect()
}

fn series(server: &Server, job: &str, metric: &str) -> Vec<Row> {
    parse(&server.ask(&["series", job, metric, "--json"]).output().unwrap())
}

#[test]
fn values_of_real_daemons_are_those_of_the_job() {
    let (Some(ganglia), Some(collect)) = (installed("gmond"), installed("collectd")) else { return };
    if !is_root(TEST) {
        return;
    }
    // collectd creates nothing below a directory whose name begins with a dot.
    let dir = tempfile::Builder::new().prefix("jobglass-monitoring-").tempdir().unwrap();
    let dir = dir.path();
    let server = Server::start(dir.to_owned(), None);
    server.wait_ready();
    let [gmond_port, plain, signed, encrypted, wrong] = std::array::from_fn(|_| free_port());
    let of_user =
        |level: &str| format!("SecurityLevel {level}\nUsername \"ann\"\nPassword \"not very secret\"");
    let (sign, encrypt) = (of_user("Sign"), of_user("Encrypt"));
    fs::write(dir.join("passwd"), "ann: not very secret\n").unwrap();
    fs::write(dir.join("other"), "ann: something else\n").unwrap();
    let listen = |port: u16| format!("127.0.0.1:{port}");
    let file = |name: &str| dir.join(name).display().to_string();
    let collectd_from = |name: &str, port: u16, level: &str, users: &str| {
        let (listen, users) = (listen(port), file(users));
        let own = ["collectd", "--listen", &listen, "--security", level, "--auth-file", &users];
        importer(&server, name, &own, dir)
    };
    let importers = [
        collectd_from("plain", plain, "none", "passwd"),
        collectd_from("signed", signed, "sign", "passwd"),
        collectd_from("encrypted", encrypted, "encrypt", "passwd"),
        importer(&server, "ganglia", &["ganglia", "--poll", &listen(gmond_port), "--every", "1"], dir),
    ];
    let refused = collectd_from("wrong", wrong, "sign", "other");
    let _daemons = [
        gmond(ganglia, "n1", gmond_port, dir),
        collectd(&collect, "n2", &[(plain, "")], dir),
        collectd(&collect, "n3", &[(signed, &sign), (wrong, &sign)], dir),
        collectd(&collect, "n4", &[(encrypted, &encrypt)], dir),
    ];
    let cluster = Cluster::start_in(dir, &[]);
    let state = file("import.state");
    let follow = server.ask(&["import", "slurm", "--follow", "--every", "1s", "--state", &state]);
    let _follower = Running::start(cluster.with_slurm(follow), dir.join("follow.log"));
    let gate = Gate::new(&cluster.dir.join("home/jgalice/gate"));
    let job = cluster.submit("jgalice", &["--nodes=4", "--ntasks-per-node=1"], "cat gate");
    wait_until("the job in the list", || {
        let asked = ["jobs", "--job", &job, "--state", "RUNNING", "--count", "--json"];
        parse(&server.ask(&asked).output().unwrap())[0]["count"] == 1
    });
    // Two seconds: the interval of the daemons, and the second in which values are put together.
    let all: BTreeSet<String> = ["n1", "n2", "n3", "n4"].map(str::to_owned).into();
    let began = Instant::now();
    wait_until("values of all nodes", || nodes(&server, &job, "node_load") == all);
    eprintln!("values of all four nodes {:.1} s after the job was there", began.elapsed().as_secs_f64());
    let known = |condition: &str| {
        let asked = ["jobs", "--job", &job, "--where", condition, "--count", "--json"];
        parse(&server.ask(&asked).output().unwrap())[0]["count"] == 1
    };
    wait_until("several values of each node", || series(&server, &job, "node_load").len() >= READINGS);
    gate.open();
    cluster.wait_for_end(&job);
    // Characteristics are made when it has ended, without a sampler of ours.
    wait_until("the characteristics", || {
        known("ended is known and node_load_avg is known and node_memory_total_min > 0")
    });
    let row = &parse(&server.ask(&["job", &job, "--resources", "--json"]).output().unwrap())[0];
    let load = row["measures"].as_array().unwrap().iter().find(|of| of["metric"] == "node_load").unwrap();
    assert_eq!(load["nodes"], 4, "{row}");
    assert!(load["readings"].as_u64().unwrap() >= READINGS as u64, "{load}");
    // What is not in our catalogue keeps its name.
    let own: Vec<&str> =
        row["measures"].as_array().unwrap().iter().filter_map(|of| of["metric"].as_str()).collect();
    assert!(own.contains(&"ganglia/load_fifteen"), "{own:?}");
    let (code, said) = refused.stop();
    assert_eq!(code, Some(1), "{said}");
    assert!(has_part(&said, "0 values"), "{said}");
    assert!(said.contains("the signature or the checksum is wrong"), "{said}");
    for importer in importers {
        let (code, said) = importer.stop();
        assert_eq!(code, Some(0), "{said}");
        assert!(!has_part(&said, "0 values stored") && has_part(&said, "0 lost"), "{said}");
    }
}
