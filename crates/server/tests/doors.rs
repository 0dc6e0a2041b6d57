//! Closed doors: who may not, may not; what is broken changes nothing; the others are served meanwhile.

mod common;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{Server, batch, gap};
use record::batch::MEDIA_TYPE;
use record::entry::{Entry, Health};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use ureq::http::StatusCode;

#[test]
fn who_may_not_may_not() {
    let server = Server::start(&[]);
    let (admin, ingest) = (server.token("admin"), server.token("ingest"));
    let node = server.command(&["token", "create", "--host", "n1"]);
    let late = server.command(&["token", "create", "--host", "n1", "--expires", "2020-01-01T00:00:00Z"]);
    let body = batch("n1", 1, &[gap()]);
    for (what, token, host, expected) in [
        ("none", "", "n1", 401),
        ("wrong", "jgi_0123", "n1", 401),
        ("expired", &late, "n1", 401),
        ("a reader's", &admin, "n1", 403),
        ("another host's", &node, "n2", 403),
        ("its own", &node, "n1", 200),
        ("anyone's, from here", &ingest, "n7", 200),
    ] {
        let body = if host == "n1" { body.clone() } else { batch(host, 1, &[gap()]) };
        let (status, answer) = server.post(&body, token, &[]);
        assert_eq!(status, expected, "{what}: {answer}");
        assert_eq!(answer["error"].is_string(), expected != 200, "{what}: {answer}");
    }
    // A batch of one host with a row of another in it.
    let health = Entry::Health(Health { host: "n2".into(), ..Health::default() });
    assert_eq!(server.post(&batch("n1", 9, &[health]), &node, &[]).0, 403);
    // Who may not hears why, also in the middle of a long body.
    let long = vec![0; 7 << 20];
    for _ in 0..5 {
        assert_eq!(server.post(&long, "jgi_0123", &[]).0, 401);
    }
    // A revoked token is refused from the next request on.
    server.command(&["token", "revoke", "t1"]);
    assert_eq!(server.post(&body, &node, &[]).0, 401);
    assert!(server.command(&["token", "list"]).contains("revoked"));
    for path in ["processes", "programs", "libraries", "modules", "uses?pattern=x", "jobs/1"] {
        let path = format!("/api/v1/{path}");
        assert_eq!(server.get(&path, None).unwrap().0, 401, "{path}");
        assert_eq!(server.get(&path, Some(&ingest)).unwrap().0, 403, "{path}");
        let (status, text) = server.get(&path, Some(&admin)).unwrap();
        assert_eq!(status, if path.ends_with("jobs/1") { 404 } else { 200 }, "{path}: {text}");
    }
    let log = server.stop();
    for secret in [admin, ingest, node, late] {
        assert!(!log.contains(&secret), "a secret in the log");
    }
}

#[test]
fn what_is_broken_changes_nothing() {
    let server = Server::start(&[]);
    let token = server.token("ingest");
    let good = batch("n1", 1, &[gap(), gap()]);
    let compressed = zstd::bulk::compress(&good, 3).unwrap();
    let zstd = ("content-encoding", "zstd");
    let bomb = zstd::bulk::compress(&vec![0; 65 << 20], 9).unwrap();
    let mut changed = good.clone();
    changed[40] ^= 1;
    let mut newer = good.clone();
    newer[1] = 2;
    for (what, body, headers, expected) in [
        ("nothing", &b""[..], &[][..], 400),
        ("no batch", b"hello", &[], 400),
        ("half a batch", &good[..good.len() / 2], &[], 400),
        ("a changed batch", &changed, &[], 400),
        ("a newer protocol", &newer, &[], 400),
        ("not compressed", &good, &[zstd], 400),
        ("half of what was compressed", &compressed[..compressed.len() / 2], &[zstd], 400),
        ("a bomb", &bomb, &[zstd], 413),
        ("too large", &vec![0; 9 << 20], &[], 413),
        ("another encoding", &good, &[("content-encoding", "gzip")], 415),
        ("another kind", &good, &[("content-type", "application/json")], 415),
    ] {
        let (status, answer) = server.post(body, &token, headers);
        assert_eq!(status, expected, "{what}: {answer}");
        assert!(answer["error"].as_str().is_some_and(|error| error.len() > 10), "{what}: {answer}");
    }
    assert_eq!(server.counter("entries_stored"), 0);
    let (status, answer) = server.post(&compressed, &token, &[zstd]);
    assert_eq!((status, &answer["stored"]), (StatusCode::OK, &2.into()));
    let (_, answer) = server.post(&good, &token, &[]);
    assert_eq!((&answer["stored"], &answer["duplicate"]), (&0.into(), &2.into()));
}

#[test]
fn a_host_that_sends_too_much_waits_and_others_do_not() {
    let server = Server::start(&["--host-rate", "0.1", "--host-burst", "3"]);
    let token = server.token("ingest");
    let send = |host: &str, first| server.post(&batch(host, first, &[gap()]), &token, &[]).0.as_u16();
    assert_eq!([1, 2, 3, 4].map(|first| send("n1", first)), [200, 200, 200, 429]);
    assert_eq!(send("n2", 1), 200);
    assert_eq!(server.counter("refused_rate"), 1);
}

#[test]
fn many_idle_connections_keep_nobody_out() {
    let server = Server::start(&["--connections", "200"]);
    let token = server.token("ingest");
    // Half a request each, and then silence.
    let mut idle = Vec::new();
    for _ in 0..1000 {
        if let Ok(mut stream) = TcpStream::connect(server.address) {
            let _ = stream.write_all(b"POST /api/v1/ingest HTTP/1.1\r\nHost: x\r\n");
            idle.push(stream);
        }
    }
    let began = Instant::now();
    for first in 1..=5 {
        assert_eq!(server.post(&batch("n1", first, &[gap()]), &token, &[]).0, 200);
    }
    assert!(
        began.elapsed() < Duration::from_secs(9),
        "served while the idle ones wait for their time to end"
    );
    assert!(server.counter("connections_evicted") >= 800);
}

/// Without a token, with a request that never ends, with nothing at all: ten thousand of them, and agents are served.
#[test]
fn ten_thousand_connections_keep_nobody_out() {
    const CONNECTIONS: u64 = 10_000;
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if maximum.is_some_and(|most| most < CONNECTIONS + 500) {
        let why = format!("only {maximum:?} open files are allowed here");
        return testkit::skip("ten_thousand_connections_keep_nobody_out", why);
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(CONNECTIONS + 500), maximum }).unwrap();
    let server = Server::start(&[]);
    let token = server.token("ingest");
    let began = Instant::now();
    let (mut held, mut slowest, mut next) = (Vec::new(), Duration::ZERO, 1);
    for n in 0..CONNECTIONS {
        let mut stream = TcpStream::connect(server.address).unwrap();
        let words: &[u8] = match n % 3 {
            0 => b"",
            1 => b"GET /api/v1/processes HTTP/1.1\r\nHost: x\r\n",
            _ => b"POST /api/v1/ingest HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n",
        };
        let _ = stream.write_all(words);
        held.push(stream);
        if n % 500 == 499 {
            let began = Instant::now();
            let (status, answer) = server.post(&batch("n1", next, &[gap()]), &token, &[]);
            assert_eq!(status, 200, "{answer}");
            (slowest, next) = (slowest.max(began.elapsed()), next + 1);
        }
    }
    eprintln!(
        "{CONNECTIONS} connections in {:?}; the slowest of 20 batches took {slowest:?}",
        began.elapsed()
    );
    assert_eq!(server.counter("entries_stored"), 20);
    assert!(slowest < Duration::from_secs(10), "{slowest:?}");
    assert!(server.counter("connections") >= CONNECTIONS);
    server.stop();
}

/// Agents that send a beginning and then nothing, with a token that is good.
#[test]
fn slow_bodies_keep_nobody_out() {
    let server = Server::start(&[]);
    let token = server.token("ingest");
    let head = format!(
        "POST /api/v1/ingest HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: {MEDIA_TYPE}\r\nContent-Length: 4000000\r\n\r\n"
    );
    let mut slow: Vec<TcpStream> = (0..400)
        .map(|_| {
            let mut stream = TcpStream::connect(server.address).unwrap();
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(&[0; 100]).unwrap();
            stream
        })
        .collect();
    let began = Instant::now();
    for first in 1..=20 {
        assert_eq!(server.post(&batch("n1", first, &[gap()]), &token, &[]).0, 200);
    }
    assert!(began.elapsed() < Duration::from_secs(10), "nobody waits for the slow: {:?}", began.elapsed());
    // In the end they hear that it took too long.
    let mut answer = String::new();
    slow[0].set_read_timeout(Some(Duration::from_secs(40))).unwrap();
    let _ = slow[0].read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer:?}");
}

#[test]
fn a_slow_client_is_cut_off() {
    let server = Server::start(&[]);
    let mut slow = TcpStream::connect(server.address).unwrap();
    slow.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    slow.write_all(b"GET /health HTTP/1.1\r\n").unwrap();
    let mut answer = Vec::new();
    let began = Instant::now();
    let _ = slow.read_to_end(&mut answer);
    assert!(began.elapsed() < Duration::from_secs(15), "the head has ten seconds");
}

#[test]
fn one_server_for_a_directory() {
    let server = Server::start(&[]);
    let output = Command::new(env!("CARGO_BIN_EXE_jobglass-server"))
        .args(["--listen", "127.0.0.1:0", "--data"])
        .arg(server.data())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("in use by another jobglass-server"));
    let mode = |path: &Path| std::os::unix::fs::MetadataExt::mode(&fs::metadata(path).unwrap()) & 0o777;
    assert_eq!(mode(&server.data()), 0o700);
    assert_eq!(mode(&server.data().join("admin.token")), 0o600);
}
