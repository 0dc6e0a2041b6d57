//! No user keeps others waiting, fills the server's memory or its disk: each attack is made by one user while another works.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::cluster::{Cluster, SECOND, SITE};
use common::{Server, batch, gap, image};
use record::accounting::Accounting;
use record::batch::MEDIA_TYPE;
use record::entry::{Entry, Object, ObjectList, Place};
use serde_json::Value;

/// Others wait at most so many times as long as on a quiet server, and this is not worth measuring.
const TIMES: u32 = 3;
const FLOOR: Duration = Duration::from_millis(1500);

/// How long the slowest of some requests takes.
fn slowest(count: usize, request: impl Fn()) -> Duration {
    let time = |_| {
        let began = Instant::now();
        request();
        began.elapsed()
    };
    (0..count).map(time).max().unwrap()
}

/// What `work` takes while `attack` goes on, on some threads, beside what it takes on a quiet server.
fn beside(attackers: usize, attack: impl Fn(usize) + Sync, work: impl Fn()) {
    let quiet = slowest(5, &work);
    let (stop, begun) = (AtomicBool::new(false), AtomicBool::new(false));
    let busy = thread::scope(|scope| {
        for number in 0..attackers {
            let (attack, stop, begun) = (&attack, &stop, &begun);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    begun.store(true, Ordering::Relaxed);
                    attack(number);
                }
            });
        }
        testkit::wait_until("the attack to begin", || begun.load(Ordering::Relaxed));
        let busy = slowest(10, &work);
        stop.store(true, Ordering::Relaxed);
        busy
    });
    eprintln!("quiet {quiet:?}, under attack {busy:?}");
    assert!(busy < (TIMES * quiet).max(FLOOR), "quiet {quiet:?}, under attack {busy:?}");
}

/// Eve's jobs and programs have names that fit a hostile pattern in very many ways.
fn of_eve(cluster: &Cluster) {
    let name = "a".repeat(300);
    let job = |number: u64| Accounting {
        name: Some(name.as_bytes().into()),
        ..cluster.job(&(1000 + number).to_string(), "eve", "evil")
    };
    let jobs: Vec<Accounting> = (0..1000).map(job).collect();
    cluster.send("POST", "accounting", minicbor::to_vec(&jobs).unwrap());
    let program = |number: u64| {
        let mut entry = image("eve", number as u32, cluster.now - 80 * SECOND);
        if let Entry::Image(image) = &mut entry {
            image.exe = Some(format!("/{name}").as_bytes().into());
        }
        entry
    };
    let entries: Vec<Entry> = (1..1000).map(program).collect();
    let sent = cluster.server.post(&batch("n1", 1000, &entries), &cluster.server.token("ingest"), &[]);
    assert_eq!(sent.0, 200, "{}", sent.1);
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[test]
fn patterns_of_one_user_keep_nobody_waiting() {
    let cluster = Cluster::start(SITE, &[]);
    of_eve(&cluster);
    let (eve, otto) = (cluster.token_of("eve"), cluster.token_of("otto"));
    let like =
        |bomb: &str| format!("/api/v1/jobs?count=true&where={}", encoded(&format!("name like '{bomb}'")));
    let glob = |bomb: &str| encoded(&bomb.replace('%', "*").replace('_', "?"));
    let bomb = "%_a".repeat(15) + "b";
    let attacks = [
        like(&bomb),
        like(&("%a".repeat(31) + "b")),
        format!("/api/v1/processes?exe={}", glob(&bomb)),
        format!("/api/v1/uses?pattern={}", glob(&bomb)),
        format!(
            "/api/v1/tags/try?condition={}",
            encoded(&format!("runs('{}')", bomb.replace('%', "*").replace('_', "?")))
        ),
    ];
    for attack in &attacks {
        let (status, answer) =
            cluster.server.get(attack, Some(&eve)).unwrap_or_else(|| panic!("no answer: {attack}"));
        assert_eq!(status, 200, "{answer}");
    }
    beside(
        4,
        |number| drop(cluster.server.get(&attacks[number], Some(&eve))),
        || {
            let (status, answer) = cluster.server.get("/api/v1/jobs?columns=job,tags", Some(&otto)).unwrap();
            assert_eq!(status, 200, "{answer}");
        },
    );
}

/// A note with a pattern is tried on every program that somebody asks about.
#[test]
fn a_stored_pattern_keeps_nobody_waiting() {
    let cluster = Cluster::start(SITE, &[]);
    let bomb = format!("/{}b", "*?a".repeat(15));
    let body = format!(r#"{{"program": "{bomb}", "text": "boo"}}"#);
    assert_eq!(cluster.change("eve", "POST", "notes", &body).0, 200);
    let program = "a".repeat(3000);
    let began = Instant::now();
    let found = cluster.get("ada", &format!("notes?program=/{program}"));
    assert_eq!(found["rows"].as_array().map(Vec::len), Some(0), "{found}");
    let found = cluster.get("ada", &format!("notes?program=/{program}b"));
    assert_eq!(found["rows"][0]["by"], "eve", "{found}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let long = format!(r#"{{"program": "/*{}", "text": "boo"}}"#, "a".repeat(300));
    let (status, answer) = cluster.change("eve", "POST", "notes", &long);
    assert!(status == 400 && answer.contains("256 characters"), "{answer}");
}

#[test]
fn what_is_too_much_for_one_question_is_refused_in_words() {
    let cluster = Cluster::start(SITE, &[]);
    let eve = cluster.token_of("eve");
    let many = |part: &str, count: usize, between: &str| encoded(&vec![part; count].join(between));
    for (path, status, said) in [
        (format!("jobs?where={}", many("uses('libz*')", 500, " or ")), 400, "at most 8"),
        (format!("jobs?where={}", many("name like 'a_b%c'", 33, " or ")), 400, "at most 32"),
        (format!("jobs?where={}", many("cores+1>2", 500, " or ")), 400, "at most 1000"),
        (format!("jobs?where={}", encoded(&"(".repeat(3000))), 400, "nested"),
        (format!("jobs?all={}", many("x", 101, ",")), 400, "at most 100"),
        (format!("jobs?columns={}", many("job", 1001, ",")), 400, "at most 1000"),
        (format!("jobs?after={}", encoded("w1.x")), 400, "is no place in this list"),
        ("processes?after=1".into(), 400, "is no place in this list"),
        (format!("processes?exe={}", many("*a", 40, "")), 400, "32 wildcards"),
        (format!("processes?user={}", "a".repeat(5000)), 400, "at most 4096 bytes"),
        ("processes?limit=1000001".into(), 400, "not between 1 and 1000000"),
    ] {
        let (found, answer) = cluster.server.get(&format!("/api/v1/{path}"), Some(&eve)).unwrap();
        assert_eq!(found, status, "{answer}");
        assert!(answer.contains(said), "{said}: {answer}");
    }
    // A head that is too long is not read to its end.
    let mut stream = TcpStream::connect(cluster.server.address).unwrap();
    let head = format!("GET /api/v1/jobs HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "a".repeat(200_000));
    let _ = stream.write_all(head.as_bytes());
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
}

/// A request whose head is complete and whose body never comes; the status, if there is one in this time.
fn without_body(server: &Server, token: &str, method: &str, path: &str, within: Duration) -> Option<u16> {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(within)).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Type: {MEDIA_TYPE}\r\n\
         Content-Length: 8000000\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).ok()?;
    String::from_utf8_lossy(&answer).strip_prefix("HTTP/1.1 ")?.parse().ok()
}

/// Every operation of the API, with the token of a user: whoever may not hears it before the body comes.
#[test]
fn whether_a_token_permits_it_is_decided_before_the_body() {
    /// What a user may do, and for which the body is needed.
    const ALLOWED: [(&str, &str); 4] =
        [("post", "/notes"), ("post", "/proposals"), ("post", "/searches"), ("post", "/tags")];
    const FORBIDDEN: [(&str, &str); 11] = [
        ("post", "/ingest"),
        ("post", "/enroll"),
        ("post", "/accounting"),
        ("post", "/measures"),
        ("put", "/site"),
        ("post", "/cases"),
        ("post", "/cases/{number}"),
        ("post", "/proposals/{number}"),
        ("post", "/tags/run"),
        ("put", "/jobs/{id}/rate"),
        ("delete", "/jobs/{id}/rate"),
    ];
    let server = Server::start(&[]);
    let eve = server.command(&["token", "create", "--user", "eve"]);
    let (_, text) = server.get("/api/v1/openapi.json", None).unwrap();
    let api: Value = serde_json::from_str(&text).unwrap();
    let mut tried = Vec::new();
    for (path, methods) in api["paths"].as_object().unwrap() {
        let short = path.strip_prefix("/api/v1").unwrap_or(path);
        for method in methods.as_object().unwrap().keys().filter(|name| name.as_str() != "parameters") {
            let operation = (method.as_str(), short);
            if ALLOWED.contains(&operation) {
                continue;
            }
            let named = path
                .replace("{number}", "1")
                .replace("{id}", "7")
                .replace("{name}", "x")
                .replace("{metric}", "cpu");
            let within = Duration::from_secs(20);
            let status = without_body(&server, &eve, &method.to_uppercase(), &named, within);
            let status = status.unwrap_or_else(|| panic!("{method} {path} waits for a body"));
            if FORBIDDEN.contains(&operation) {
                assert_eq!(status, 403, "{method} {path}");
                tried.push(operation.1.to_owned());
            }
        }
    }
    assert_eq!(tried.len(), FORBIDDEN.len(), "{tried:?}");
    // Where the body is needed, it has its time, too.
    thread::scope(|scope| {
        for (method, path) in ALLOWED {
            let (server, eve) = (&server, &eve);
            scope.spawn(move || {
                let path = format!("/api/v1{path}");
                let status =
                    without_body(server, eve, &method.to_uppercase(), &path, Duration::from_secs(60));
                assert!(matches!(status, Some(408 | 413)), "{path}: {status:?}");
            });
        }
    });
}

#[test]
fn large_bodies_of_a_user_do_not_delay_agents() {
    let server = Server::start(&["--host-rate", "100000", "--host-burst", "100000"]);
    let (eve, ingest) = (server.command(&["token", "create", "--user", "eve"]), server.token("ingest"));
    let (large, next) = (vec![0; 8 << 20], std::sync::atomic::AtomicU64::new(1));
    beside(
        40,
        |number| {
            let path = ["ingest", "accounting", "measures"][number % 3];
            let request = Server::agent().post(format!("http://{}/api/v1/{path}", server.address));
            let request = request.header("authorization", format!("Bearer {eve}"));
            if let Ok(answer) = request.header("content-type", MEDIA_TYPE).send(&large[..]) {
                assert_eq!(answer.status(), 403);
            }
        },
        || {
            let first = next.fetch_add(1, Ordering::Relaxed);
            assert_eq!(server.post(&batch("n1", first, &[gap()]), &ingest, &[]).0, 200);
        },
    );
}

/// What a process has in memory, and had at most, in MiB.
fn memory(server: &Server, name: &str) -> u64 {
    let status = fs::read(format!("/proc/{}/status", server.child.id())).unwrap();
    let status = String::from_utf8(status).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

/// All rows of a list, part by part.
fn all_parts(server: &Server, path: &str, token: &str) -> (Vec<Value>, usize) {
    let (mut rows, mut after, mut parts) = (Vec::new(), String::new(), 0);
    loop {
        let (status, text) = server.get(&format!("{path}{after}"), Some(token)).unwrap();
        assert_eq!(status, 200, "{text}");
        assert!(text.len() < 12 << 20, "a part of {} bytes", text.len());
        let mut answer: Value = serde_json::from_str(&text).unwrap();
        let Value::Array(part) = answer["rows"].take() else { panic!("{text}") };
        assert_eq!(answer["more"], Value::Bool(answer["next"].is_string()));
        rows.extend(part);
        parts += 1;
        match answer["next"].as_str() {
            Some(next) => after = format!("&after={}", encoded(next)),
            None => return (rows, parts),
        }
    }
}

/// What follows of the head of an answer.
fn head(mut stream: &TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    String::from_utf8(head).unwrap().to_lowercase()
}

#[test]
fn answers_that_nobody_reads_are_bounded() {
    const ROWS: u64 = 100_000;
    // It was 3.6 GB. The database may have 256 MB of it.
    const MOST_MIB: u64 = 700;
    let server = Server::start(&["--host-rate", "100000", "--host-burst", "100000", "--memory", "256"]);
    let (eve, ingest) = (server.command(&["token", "create", "--user", "eve"]), server.token("ingest"));
    let otto = server.command(&["token", "create", "--user", "otto"]);
    for first in (0..ROWS).step_by(10_000) {
        let program = |number: u64| {
            // Many began at the same time.
            let mut entry = image("eve", number as u32, 1_700_000_000_000_000_000 + number / 1000);
            if let Entry::Image(image) = &mut entry {
                image.argv = Some(vec![format!("{:0200}", number).as_bytes().into()]);
            }
            entry
        };
        let entries: Vec<Entry> = (first + 1..=first + 10_000).map(program).collect();
        let (status, answer) = server.post(&batch("n1", first + 1, &entries), &ingest, &[]);
        assert_eq!(status, 200, "{answer}");
    }
    let path = format!("/api/v1/processes?limit={ROWS}");
    let (rows, parts) = all_parts(&server, &path, &eve);
    let mut pids: Vec<u64> = rows.iter().map(|row| row["pid"].as_u64().unwrap()).collect();
    pids.sort_unstable();
    assert!(pids.into_iter().eq(1..=ROWS), "each process once");
    assert!(parts > 5, "{parts} parts");
    let quiet = memory(&server, "VmHWM");
    let asked: Vec<TcpStream> = (0..12)
        .map(|_| {
            let mut stream = TcpStream::connect(server.address).unwrap();
            let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {eve}\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    // Each is answered or refused: nobody reads, so the first bytes are all that comes.
    for mut stream in &asked {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200") || answer.starts_with(b"HTTP/1.1 429"), "{answer:?}");
        // It was complete when this was written.
        assert!(head(stream).contains("content-length: "));
    }
    let (status, answer) = server.get("/api/v1/processes", Some(&otto)).unwrap();
    assert_eq!(status, 200, "others are answered meanwhile: {answer}");
    // What is sent has no reader any more: there is one for the same user's next question.
    let (status, answer) = server.get("/api/v1/processes?limit=1", Some(&eve)).unwrap();
    assert_eq!(status, 200, "so is the same user: {answer}");
    let (busy, now) = (memory(&server, "VmHWM"), memory(&server, "VmRSS"));
    eprintln!("MiB: {quiet} at most with one reader, {busy} with 12 that do not read, {now} now");
    assert!(busy < quiet + 300 && busy < MOST_MIB, "{quiet} MiB, then {busy} MiB");
    drop(asked);
}

/// A few rows are large when each names all libraries of its process.
#[test]
fn parts_of_a_list_are_bounded_in_bytes_whatever_a_row_holds() {
    const ROWS: u64 = 150;
    let server = Server::start(&[]);
    let (eve, ingest) = (server.command(&["token", "create", "--user", "eve"]), server.token("ingest"));
    let program = |number: u64| {
        let mut entry = image("eve", number as u32, 1_700_000_000_000_000_000);
        if let Entry::Image(image) = &mut entry {
            image.objects = Some(1);
        }
        entry
    };
    let entries: Vec<Entry> = std::iter::once(libraries(1, 2000)).chain((1..=ROWS).map(program)).collect();
    assert_eq!(server.post(&batch("n1", 1, &entries), &ingest, &[]).0, 200);
    let (rows, parts) = all_parts(&server, "/api/v1/processes?limit=1000", &eve);
    let pids: BTreeSet<u64> = rows.iter().map(|row| row["pid"].as_u64().unwrap()).collect();
    assert!(pids.into_iter().eq(1..=ROWS), "each process once");
    assert!(rows.iter().all(|row| row["objects"].as_array().map(Vec::len) == Some(2000)));
    assert!((4..40).contains(&parts), "{parts} parts");
}

/// A list of so many libraries.
fn libraries(id: u64, count: usize) -> Entry {
    let object = |number: usize| Object {
        path: format!("/lib/{id}/{number:0100}").into_bytes().into(),
        build_id: None,
        signature: None,
        file: None,
        claimed: false,
    };
    Entry::Objects(ObjectList { id, objects: (0..count).map(object).collect() })
}

/// What ran in a job comes in one answer: of a job with very much to tell, the first processes.
#[test]
fn what_a_job_tells_is_bounded_in_bytes() {
    const ROWS: u64 = 400;
    const MOST: u64 = 40 << 20;
    let server = Server::start(&["--host-rate", "100000", "--host-burst", "100000"]);
    let (eve, ingest) = (server.command(&["token", "create", "--user", "eve"]), server.token("ingest"));
    let mut number = 1;
    let mut send = |entries: &[Entry]| {
        let (status, answer) = server.post(&batch("n1", number, entries), &ingest, &[]);
        assert_eq!(status, 200, "{answer}");
        number += entries.len() as u64;
    };
    let program = |pid: u64, job: &str| {
        let mut entry = image("eve", pid as u32, 1_700_000_000_000_000_000 + pid);
        let Entry::Image(image) = &mut entry else { unreachable!() };
        image.place = Place { cluster: Some("tiny".into()), job: Some(job.into()), ..Place::default() };
        match job {
            // One environment, of which each process has a copy in the answer.
            "1" => image.env = Some(vec![[b"OMP_X=", &[b'x'; 120_000][..]].concat().into()]),
            _ => image.objects = Some(pid),
        }
        entry
    };
    for first in (1..=ROWS).step_by(40) {
        let pids = first..first + 40;
        send(&pids.clone().map(|pid| program(pid, "1")).collect::<Vec<_>>());
        send(&pids.flat_map(|pid| [libraries(pid, 700), program(pid, "2")]).collect::<Vec<_>>());
    }
    for job in ["1", "2"] {
        let request = Server::agent().get(format!("http://{}/api/v1/jobs/{job}", server.address));
        let mut answer = request.header("authorization", format!("Bearer {eve}")).call().unwrap();
        assert_eq!(answer.status(), 200);
        let bounded = answer.body_mut().with_config().limit(MOST).read_to_vec();
        let bytes = bounded.unwrap_or_else(|error| panic!("job {job}: {error}"));
        let answer: Value = serde_json::from_slice(&bytes).unwrap();
        let told = answer["processes"].as_array().unwrap().len();
        assert!((50..ROWS as usize).contains(&told), "job {job}: {told} processes");
        assert_eq!(answer["rows"], ROWS, "how many there are is said");
        let (rows, _) = all_parts(&server, &format!("/api/v1/processes?job={job}&limit=1000"), &eve);
        assert_eq!(rows.len() as u64, ROWS);
    }
}

#[test]
fn lists_of_jobs_go_on_where_they_ended() {
    let cluster = Cluster::start(SITE, &[]);
    let eve = cluster.token_of("eve");
    let job = |number: u64| Accounting {
        // Many are alike, and of some it is not known.
        cpus: (!number.is_multiple_of(7)).then_some(number % 5),
        name: Some(format!("{}{:0900}", number % 3, 0).as_bytes().into()),
        ..cluster.job(&number.to_string(), "eve", "evil")
    };
    for first in [10_000, 15_000] {
        let jobs: Vec<Accounting> = (first..first + 5000).map(job).collect();
        cluster.send("POST", "accounting", minicbor::to_vec(&jobs).unwrap());
    }
    for sort in ["-submit", "submit", "cores", "-cores", "name", "-name", "elapsed_s", "job"] {
        let path = format!("/api/v1/jobs?limit=0&columns=job,name,cores&sort={sort}");
        let (rows, parts) = all_parts(&cluster.server, &path, &eve);
        let mut jobs: Vec<u64> =
            rows.iter().map(|row| row["job"].as_str().unwrap().parse().unwrap()).collect();
        jobs.sort_unstable();
        assert!(jobs.into_iter().eq(10_000..20_000), "{sort}: {} rows", rows.len());
        assert!(parts > 1, "{sort}: {parts}");
        if let Some(column) = sort.strip_prefix('-').filter(|column| *column == "cores") {
            let known: Vec<u64> = rows.iter().filter_map(|row| row[column].as_u64()).collect();
            assert!(known.is_sorted_by(|a, b| a >= b) && rows.last().unwrap()[column].is_null());
        }
    }
    let (rows, _) = all_parts(&cluster.server, "/api/v1/jobs?limit=0&group_by=user", &eve);
    assert_eq!(rows.len(), 1);
}

#[test]
fn what_people_keep_has_limits_of_the_site() {
    let limits = "[limits]\nnotes = { each = 2, all = 5 }\nproposals = { each = 1, all = 9 }\ntags = { each = 1, all = 9 }\n\
                  searches = { each = 1, all = 9 }\nassignments = { each = 1, all = 9 }\ncases = { each = 1, all = 9 }\n\
                  entries = { each = 1, all = 9 }\nfeedback = { each = 0, all = 9 }\n";
    let cluster = Cluster::start(&format!("{SITE}{limits}"), &[]);
    let change = |user: &str, path: &str, body: &str| cluster.change(user, "POST", path, body);
    let refused = |(status, answer): (u16, String), key: &str| {
        assert_eq!(status, 409, "{answer}");
        assert!(answer.contains(&format!("limits.{key} in site.toml")), "{key}: {answer}");
    };
    let note = r#"{"program": "/bin/x", "text": "y"}"#;
    // The administrator has two already.
    for _ in 0..2 {
        assert_eq!(change("eve", "notes", note).0, 200);
    }
    refused(change("eve", "notes", note), "notes.each");
    assert_eq!(change("otto", "notes", note).0, 200);
    refused(change("otto", "notes", note), "notes.all");
    // Taking one back makes room in all, but not for the same user on the same day.
    let own = cluster.get("eve", "notes");
    let number = own["rows"][0]["note"].as_u64().unwrap();
    assert_eq!(cluster.change("eve", "DELETE", &format!("notes/{number}"), "").0, 200);
    refused(change("eve", "notes", note), "notes.each");
    assert_eq!(change("otto", "notes", note).0, 200);
    let proposal = |name: &str| format!(r#"{{"name": "{name}", "description": "d", "motivation": "m"}}"#);
    assert_eq!(change("eve", "proposals", &proposal("one new")).0, 200);
    refused(change("eve", "proposals", &proposal("two new")), "proposals.each");
    let tag = |name: &str| format!(r#"{{"name": "{name}", "description": "d"}}"#);
    assert_eq!(change("otto", "tags", &tag("mine A")).0, 200);
    refused(change("otto", "tags", &tag("mine B")), "tags.each");
    assert_eq!(cluster.say("otto", "7", "mine A", "").0, 200);
    refused(cluster.say("otto", "7", "mine A", "&reason=again"), "assignments.each");
    let search = |name: &str| format!(r#"{{"name": "{name}", "where": "cores > 1"}}"#);
    assert_eq!(change("eve", "searches", &search("a")).0, 200);
    refused(change("eve", "searches", &search("b")), "searches.each");
    let case = r#"{"user": "otto", "reason": "r"}"#;
    assert_eq!(change("sven", "cases", case).0, 200);
    refused(change("sven", "cases", case), "cases.each");
    assert_eq!(change("sven", "cases/1", r#"{"text": "t"}"#).0, 200);
    refused(change("sven", "cases/1", r#"{"text": "t"}"#), "entries.each");
}

#[test]
fn nothing_in_the_data_directory_is_for_others() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("site.toml"), "").unwrap();
    fs::set_permissions(&data, fs::Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(data.join("site.toml"), fs::Permissions::from_mode(0o666)).unwrap();
    // Children inherit it.
    let before = rustix::process::umask(rustix::fs::Mode::empty());
    let server = Server::start_in(dir, &[]);
    rustix::process::umask(before);
    let ingest = server.token("ingest");
    assert_eq!(server.post(&batch("n1", 1, &[gap()]), &ingest, &[]).0, 200);
    let backup = server.dir.path().join("backup");
    server.command(&["backup", backup.to_str().unwrap()]);
    fn walk(path: &Path, seen: &mut Vec<String>) {
        let meta = fs::symlink_metadata(path).unwrap();
        assert_eq!(meta.mode() & 0o077, 0, "{} has mode {:o}", path.display(), meta.mode());
        seen.push(path.file_name().unwrap().to_string_lossy().into_owned());
        if meta.is_dir() {
            fs::read_dir(path).unwrap().for_each(|entry| walk(&entry.unwrap().path(), seen));
        }
    }
    let mut seen = Vec::new();
    [&data, &backup].into_iter().for_each(|dir| walk(dir, &mut seen));
    for name in ["jobglass.duckdb", "jobglass.duckdb.wal", "control.sock", "admin.token", "site.toml"] {
        assert!(seen.iter().any(|seen| seen == name), "{name}: {seen:?}");
    }
}

#[test]
fn a_directory_of_somebody_else_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    fs::create_dir(&home).unwrap();
    fs::write(home.join("thesis.tex"), "").unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o755)).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_jobglass-server"))
        .args(["--listen", "127.0.0.1:0", "--data"])
        .arg(&home)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("is no data directory"), "{said}");
    assert_eq!(fs::metadata(&home).unwrap().mode() & 0o777, 0o755);
}
