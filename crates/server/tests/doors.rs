//! Closed doors: who may not, may not; what is broken changes nothing; the others are served meanwhile.

mod common;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{Server, batch, gap, image};
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

/// The most memory that the server had.
fn peak_mib(server: &Server) -> u64 {
    let status = String::from_utf8(fs::read(format!("/proc/{}/status", server.child.id())).unwrap()).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

/// Sixty million entries without a byte in each, two kilobytes when compressed; and the same as arguments of one program.
#[test]
fn what_a_batch_says_takes_bounded_memory() {
    let server = Server::start(&[]);
    let token = server.command(&["token", "create", "--host", "n1"]);
    let array = |count: usize| [&[0x9b][..], &(count as u64).to_be_bytes(), &vec![0x40; count]].concat();
    let batch = |entries: &[u8]| {
        let head = [&[0x88, 1, 0x60, 0x62][..], b"n1", &[0x50], &[1; 16], &[1]].concat();
        [&head, entries, &[0x80, 0][..]].concat()
    };
    let before = peak_mib(&server);
    let mut ranks = image("eve", 1, 1);
    if let Entry::Image(image) = &mut ranks {
        let used = record::entry::Used::default();
        let rank = record::entry::RankUse { rank: 1, pid: 1, start: 1, end: None, used, count: 1, key: None };
        image.ranks = vec![rank; 200_000];
    }
    let ranks = common::batch("n1", 1, &[ranks]);
    for batch in [batch(&array(60_000_000)), batch(&array(15_000_000)), ranks] {
        let compressed = zstd::bulk::compress(&batch, 3).unwrap();
        let (status, answer) = server.post(&compressed, &token, &[("content-encoding", "zstd")]);
        assert!([200, 400, 413].contains(&status.as_u16()), "{answer}");
        let grown = peak_mib(&server) - before;
        assert!(grown < 256, "{grown} MiB for a request of {} bytes", compressed.len());
    }
}

/// Two at the same time, each of which takes a while.
#[test]
fn a_host_has_one_batch_decoded_at_a_time() {
    let server = Server::start(&[]);
    let token = server.command(&["token", "create", "--host", "n1"]);
    // The arguments of a program, each empty: they take a while.
    let mut entry = image("eve", 1, 1);
    if let Entry::Image(image) = &mut entry {
        image.argv = Some(vec![record::bytes::Bytes(Vec::new()); 6_000_000]);
    }
    let (first, second) = (batch("n1", 1, &[entry.clone()]), batch("n1", 1, &[entry]));
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let sent = [&first, &second].map(|batch| scope.spawn(|| server.post(batch, &token, &[]).0.as_u16()));
        sent.map(|sent| sent.join().unwrap()).into()
    });
    assert!(statuses.contains(&429), "{statuses:?}");
    assert_eq!(
        server.post(&batch("n1", 3, &[gap()]), &token, &[]).0,
        200,
        "when it is done, the next is taken"
    );
}

/// What cannot be used counts as well: it is known by the token whose it is.
#[test]
fn broken_batches_count_in_their_hosts_share() {
    let server = Server::start(&["--host-rate", "0.1", "--host-burst", "3"]);
    let token = server.command(&["token", "create", "--host", "n1"]);
    let statuses: Vec<u16> = (0..4).map(|_| server.post(b"no batch", &token, &[]).0.as_u16()).collect();
    assert_eq!(statuses, [400, 400, 400, 429]);
}

/// Names come from programs and from users' environments, and some have every byte there is.
#[test]
fn texts_with_zeros_cost_no_batch() {
    let server = Server::start(&[]);
    let token = server.token("ingest");
    let odd = || record::bytes::Bytes(b"/a\0b\x1b[2J\xff".to_vec());
    let text = || Some("a\0b".to_owned());
    let mut entry = image("eve\0", 1, 1);
    if let Entry::Image(image) = &mut entry {
        (image.exe, image.cwd) = (Some(odd()), Some(odd()));
        image.argv = Some(vec![odd()]);
        image.env = Some(vec![odd()]);
        (image.modules, image.module_files) = (Some(vec![odd()]), Some(vec![odd()]));
        image.container = Some(record::entry::Container { kind: text().unwrap(), image: Some(odd()) });
        image.objects = Some(7);
        image.place = record::entry::Place {
            cluster: text(),
            job: text(),
            step: text(),
            node: text(),
            claimed_job: text(),
            session: text(),
            ..record::entry::Place::default()
        };
    }
    let object = record::entry::Object {
        path: odd(),
        build_id: Some(odd()),
        signature: None,
        file: None,
        claimed: true,
    };
    let list = Entry::Objects(record::entry::ObjectList { id: 7, objects: vec![object] });
    let job = record::reading::JobReading {
        job: text(),
        user: text(),
        node: text(),
        cluster: text(),
        commands: vec![record::reading::CommandReading { command: odd(), ..Default::default() }],
        ..Default::default()
    };
    let reading = record::reading::Reading { host: "n1".into(), jobs: vec![job], ..Default::default() };
    let (status, answer) =
        server.post(&batch("n1", 1, &[list, entry, Entry::Reading(Box::new(reading))]), &token, &[]);
    assert_eq!(status, 200, "{answer}");
    let (status, answer) = server.get("/api/v1/processes", Some(&server.token("admin"))).unwrap();
    assert_eq!(status, 200, "{answer}");
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

/// One user's requests, whose bodies do not come, on all connections there are.
#[test]
fn requests_without_their_bodies_keep_nobody_out() {
    let server = Server::start(&["--connections", "20"]);
    let eve = server.command(&["token", "create", "--user", "eve"]);
    let head = format!(
        "POST /api/v1/notes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {eve}\r\nContent-Length: 100\r\n\r\n{{"
    );
    let _held: Vec<TcpStream> = (0..20)
        .map(|_| {
            let mut stream = TcpStream::connect(server.address).unwrap();
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    let token = server.token("ingest");
    for first in 1..=3 {
        assert_eq!(server.try_post(&batch("n1", first, &[gap()]), &token), Some(200), "batch {first}");
    }
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = &(payload.len() as u32).to_be_bytes()[1..];
    [length, &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// `GET /health`, as HTTP/2 writes it: three fields of its table, and the path.
fn health(stream: u32) -> Vec<u8> {
    let headers = [&[0x82, 0x86, 0x04, 7][..], b"/health", &[0x01, 1], b"x"].concat();
    frame(1, 5, stream, &headers)
}

/// With HTTP/2, several requests of a connection end beside one another; then it is gone.
#[test]
fn connections_that_had_many_requests_keep_nobody_out() {
    let server = Server::start(&["--connections", "20"]);
    let hello = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(4, 0, 0, &[])].concat();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(&hello).unwrap();
        stream.set_read_timeout(Some(testkit::LIMIT)).unwrap();
        for turn in 0..5 {
            let requests: Vec<u8> = (0..4).flat_map(|n| health(8 * turn + 2 * n + 1)).collect();
            stream.write_all(&requests).unwrap();
            // The last frame of an answer ends its stream.
            let (mut ended, mut head) = (0, [0; 9]);
            while ended < 4 {
                stream.read_exact(&mut head).unwrap();
                let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
                stream.read_exact(&mut vec![0; length]).unwrap();
                ended += usize::from(head[3] <= 1 && head[4] & 1 != 0);
            }
        }
    }
    // Nobody says anything on those that come then.
    let _held: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    let token = server.token("ingest");
    for first in 1..=3 {
        assert_eq!(server.try_post(&batch("n1", first, &[gap()]), &token), Some(200), "batch {first}");
    }
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
