//! Who sees what: a real server is asked everything, by those whose jobs they are and by others.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use common::{Server, batch, image};
use jiff::Timestamp;
use record::accounting::{Accounting, Placed, State, Step};
use record::entry::{Entry, Object, ObjectList, Place};
use record::measure::{Job, Measures, Name, Told};
use record::metric::id;
use record::reading::{CommandReading, JobReading, Reading, Reserved, Values};
use record::site::{Association, SiteData};
use serde_json::Value;

const SECOND: u64 = 1_000_000_000;

/// Whatever belongs to Zora has one of these in it, and nothing else has.
const HERS: [&str; 3] = ["zora", "Zora", "424242"];

struct Cluster {
    server: Server,
    now: u64,
}

impl Cluster {
    fn start(site: &str, options: &[&str]) -> Cluster {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("data")).unwrap();
        fs::write(dir.path().join("data/site.toml"), site).unwrap();
        let server = Server::start_in(dir, options);
        let cluster = Cluster { server, now: Timestamp::now().as_nanosecond() as u64 };
        cluster.fill();
        cluster
    }

    fn token_of(&self, user: &str) -> String {
        self.server.command(&["token", "create", "--user", user])
    }

    fn send(&self, method: &str, path: &str, body: Vec<u8>) {
        let url = format!("http://{}/api/v1/{path}", self.server.address);
        let agent = Server::agent();
        let request = if method == "PUT" { agent.put(url) } else { agent.post(url) };
        let request = request.header("authorization", format!("Bearer {}", self.server.token("admin")));
        let mut answer = request.header("content-type", "application/cbor").send(&body[..]).unwrap();
        let text = answer.body_mut().read_to_string().unwrap();
        assert_eq!(answer.status(), 200, "{path}: {text}");
    }

    /// A job of Zora's, with everything that can be known of a job, and one of Otto's.
    fn fill(&self) {
        let associations = [("zoology-zora", "zora"), ("physics", "otto"), ("physics", "pia")];
        let association = |(account, user): (&str, &str)| Association {
            cluster: "tiny".into(),
            account: account.into(),
            user: Some(user.into()),
            ..Association::default()
        };
        let site = SiteData {
            cluster: Some("tiny".into()),
            associations: associations.map(association).into(),
            ..SiteData::default()
        };
        self.send("PUT", "site", minicbor::to_vec(&site).unwrap());
        let jobs = [self.job("424242", "zora", "zoology-zora"), self.job("7", "otto", "physics")];
        self.send("POST", "accounting", minicbor::to_vec(&jobs).unwrap());
        let told = |number: &str, metric: &str| Told {
            job: Job { cluster: Some("tiny".into()), number: number.into(), ..Job::default() },
            metric: Name::Own(metric.into()),
            avg: Some(1.0),
            ..Told::default()
        };
        let told = vec![told("424242", "zoras_metric"), told("7", "ottos_metric")];
        self.send("POST", "measures", minicbor::to_vec(&Measures { told, ..Measures::default() }).unwrap());
        self.send("POST", "notes", br#"{"job": "424242", "text": "Zora says it converges slowly"}"#.to_vec());
        self.send(
            "POST",
            "notes",
            br#"{"program": "/home/zora/*", "text": "a note on a program of Zora"}"#.to_vec(),
        );
        self.send("POST", "cases", br#"{"job": "424242", "reason": "Zora reserves too much"}"#.to_vec());
        self.send("POST", "cases/1", br#"{"text": "Zora was called"}"#.to_vec());
        let entries = [self.programs("424242", "zora", 1), self.programs("7", "otto", 2)].concat();
        assert_eq!(self.server.post(&batch("n1", 1, &entries), &self.server.token("ingest"), &[]).0, 200);
    }

    fn job(&self, number: &str, user: &str, project: &str) -> Accounting {
        let text = |what: &str| Some(format!("{user}-{what}").as_bytes().into());
        Accounting {
            cluster: Some("tiny".into()),
            job: Some(number.into()),
            shown: number.into(),
            user: Some(user.into()),
            account: Some(project.into()),
            partition: Some("cpu".into()),
            name: text("name"),
            comment: text("comment"),
            work_dir: text("dir"),
            submit: Some(self.now - 100 * SECOND),
            start: Some(self.now - 90 * SECOND),
            end: Some(self.now),
            elapsed: Some(90 * SECOND),
            state: Some(State::Completed),
            nodes: Some(1),
            cpus: Some(2),
            node_list: Some("n1".into()),
            steps: vec![Step { step: "0".into(), name: text("step"), ..Step::default() }],
            placed: vec![Placed { host: "n1".into(), ..Placed::default() }],
            ..Accounting::default()
        }
    }

    fn programs(&self, job: &str, user: &str, list: u64) -> Vec<Entry> {
        let bytes = |text: String| text.as_bytes().into();
        let objects = vec![Object {
            path: bytes(format!("/home/{user}/lib{user}.so")),
            build_id: None,
            signature: None,
            file: None,
        }];
        let mut program = image(user, list as u32, self.now - 80 * SECOND);
        if let Entry::Image(image) = &mut program {
            image.exe = Some(bytes(format!("/home/{user}/{user}-program")));
            image.argv = Some(vec![bytes(format!("{user}-argument"))]);
            image.env = Some(vec![bytes(format!("SECRET_OF={user}"))]);
            image.modules = Some(vec![bytes(format!("{user}-module/1"))]);
            image.objects = Some(list);
            image.place = Place { cluster: Some("tiny".into()), job: Some(job.into()), ..Place::default() };
        }
        let mut session = image(user, 10 + list as u32, self.now - 70 * SECOND);
        if let Entry::Image(image) = &mut session {
            image.exe = Some(bytes(format!("/home/{user}/{user}-shell")));
            image.place.session = Some(format!("{user}-session"));
        }
        let mut values = Values::default();
        values.put(id::CPU, Some(2 * SECOND));
        let command = CommandReading { command: bytes(format!("{user}-command")), values: values.clone() };
        let reading = JobReading {
            cluster: Some("tiny".into()),
            job: Some(job.into()),
            user: Some(user.into()),
            start: self.now - 90 * SECOND,
            every: 30 * SECOND,
            values,
            reserved: Some(Reserved { cpus: Some(2), memory: None, gpus: None }),
            commands: vec![command],
            ..JobReading::default()
        };
        let reading =
            Reading { time: self.now, host: "n1".into(), jobs: vec![reading], ..Reading::default() };
        let objects = Entry::Objects(ObjectList { id: list, objects });
        vec![objects, program, session, Entry::Reading(Box::new(reading))]
    }

    /// Status and text of everything that can be asked.
    fn ask_all(&self, token: &str) -> Vec<(String, u16, String)> {
        let ask = |path: String| {
            let (status, text) = self.server.get(&path, Some(token)).unwrap_or_else(|| panic!("{path}"));
            (path, status.as_u16(), text)
        };
        questions().into_iter().map(ask).collect()
    }
}

/// Everything of the API that reads, with filters, orders and groups that point at Zora's job.
fn questions() -> Vec<String> {
    let mut all: Vec<String> = [
        "processes",
        "programs",
        "libraries",
        "modules",
        "env-check",
        "env-check/rules",
        "jobs",
        "jobs/columns",
        "top",
        "nodes",
        "short-jobs",
        "site",
        "tags",
        "tags/run",
        "searches",
        "export",
        "whoami",
        "openapi.json",
        "uses?pattern=*",
        "jobs?count=true",
        "jobs?limit=0",
        "tags/count?by=user",
        "tags/count?by=project",
        "jobs/424242",
        "jobs/424242/tags",
        "jobs/424242/tags?why_not=true",
        "jobs/424242/series/cpu",
        "jobs/424242/series/zoras_metric",
        "jobs/424242/rate",
        "jobs/zora-session",
        "jobs?node=n1",
        "tags/try?condition=cores%20%3E%200",
        "tags/try?condition=user%20%3D%20'zora'",
        "tags/try?condition=uses('libzora*')",
        "tags/try?condition=runs('zora*')",
        "jobs?search=single-process",
        "export?where=user%20%3D%20'zora'",
        "processes?job=424242",
        "processes?host=n1",
        "notes",
        "notes?job=424242",
        "notes?text=converges",
        "notes?program=/home/zora/solver",
        "cases",
        "cases?user=zora",
        "cases?job=424242",
        "cases?text=called",
        "cases?open=true",
    ]
    .map(|path| format!("/api/v1/{path}"))
    .into();
    for question in
        ["processes", "programs", "libraries", "modules", "uses?pattern=*&", "env-check", "short-jobs"]
    {
        let mark = if question.contains('?') { "" } else { "?" };
        all.push(format!("/api/v1/{question}{mark}user=zora"));
    }
    for by in ["job", "user", "program", "library"] {
        all.push(format!("/api/v1/uses?pattern=libzora*&group_by={by}"));
    }
    for by in ["cluster", "user", "project", "partition", "state", "day", "hour", "weekday"] {
        all.push(format!("/api/v1/jobs?group_by={by}"));
    }
    for column in ["user", "project", "name", "comment", "zoras_metric_avg", "work_dir", "cpu_avg"] {
        all.push(format!("/api/v1/jobs?sort=-{column}&columns=job,{column}"));
        all.push(format!("/api/v1/jobs?count=true&where={column}%20is%20not%20null"));
    }
    for condition in [
        "user = 'zora'",
        "project like 'zoo*'",
        "name like 'z*' or true",
        "uses('libzora*')",
        "runs('zora*')",
        "zoras_metric_avg > 0",
    ] {
        all.push(format!("/api/v1/jobs?where={}", condition.replace(' ', "%20").replace('>', "%3E")));
    }
    all
}

/// What was asked comes back in errors: that tells nothing.
fn without_question(text: &str, path: &str) -> String {
    let mut text = text.to_owned();
    if path.contains("424242") {
        text = text.replace("424242", "");
    }
    if path.contains("zora") {
        for word in ["zora-session", "zoras_metric_avg", "zoras_metric", "'zora'", "libzora", "zora*"] {
            text = text.replace(word, "");
        }
    }
    text
}

const SITE: &str = "[people]\nadministrators = ['ada']\nsupport = ['sven']\n[[project]]\nname = 'physics'\nmanagers = ['pia']\n";

#[test]
fn nobody_sees_the_jobs_of_others_through_any_question() {
    let cluster = Cluster::start(SITE, &[]);
    let count = |user: &str| {
        let (_, text) = cluster.server.get("/api/v1/jobs?count=true", Some(&cluster.token_of(user))).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["count"].as_u64()
    };
    for (user, jobs) in [("zora", 1), ("otto", 1), ("pia", 1), ("eve", 0), ("sven", 2), ("ada", 2)] {
        assert_eq!(count(user), Some(jobs), "{user}");
    }
    for user in ["otto", "pia", "eve"] {
        for (path, status, text) in cluster.ask_all(&cluster.token_of(user)) {
            let text = without_question(&text, &path);
            for word in HERS {
                let at = text
                    .find(word)
                    .map(|at| text[at.saturating_sub(100)..].chars().take(300).collect::<String>());
                assert_eq!(at, None, "{user} asks {path}: {status}");
            }
            assert!(status < 500, "{user} asks {path}: {status} {text}");
        }
    }
    // The test can fail: she herself sees it in most of them, and so does whoever sees all.
    for user in ["zora", "sven"] {
        let seen = cluster.ask_all(&cluster.token_of(user)).into_iter().filter(|(path, _, text)| {
            let text = without_question(text, path);
            HERS.iter().any(|word| text.contains(word))
        });
        assert!(seen.count() > 25, "{user}");
    }
    assert!(!cluster.server.stop().contains("ERROR"));
}

#[test]
fn a_role_says_what_somebody_may_do() {
    let cluster = Cluster::start(SITE, &[]);
    let server = &cluster.server;
    let status = |path: &str, token: &str| server.get(path, Some(token)).unwrap().0.as_u16();
    for (user, role, nodes, own) in [
        ("otto", "user", 403, 200),
        ("pia", "manager", 403, 200),
        ("eve", "user", 403, 404),
        ("sven", "support", 200, 200),
        ("ada", "administrator", 200, 200),
    ] {
        let token = cluster.token_of(user);
        let (_, text) = server.get("/api/v1/whoami", Some(&token)).unwrap();
        let who: Value = serde_json::from_str(&text).unwrap();
        assert_eq!([&who["user"], &who["role"]], [user, role]);
        assert_eq!(status("/api/v1/nodes", &token), nodes, "{user}");
        assert_eq!(status("/api/v1/jobs/7", &token), own, "{user}");
        let begun = Server::agent()
            .post(format!("http://{}/api/v1/tags/run", server.address))
            .header("authorization", format!("Bearer {token}"))
            .send_empty()
            .unwrap();
        assert_eq!(begun.status() == 200, role == "administrator", "{user}");
    }
}

#[test]
fn owners_managers_and_administrators_set_tags() {
    let cluster = Cluster::start(SITE, &[]);
    let server = &cluster.server;
    let say = |user: &str, job: &str, tag: &str, more: &str| {
        let tag = tag.replace(' ', "%20");
        let url = format!("http://{}/api/v1/jobs/{job}/tags?tag={tag}&has=true{more}", server.address);
        let request =
            Server::agent().post(url).header("authorization", format!("Bearer {}", cluster.token_of(user)));
        let mut answer = request.send_empty().unwrap();
        (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
    };
    let iterative = "job_behavior ITERATIVE";
    for (user, job, tag, more, status, said) in [
        ("otto", "7", iterative, "", 200, "\"is_new\":true"),
        ("pia", "7", "job_bug DEADLOCK", "", 200, "\"is_new\":true"),
        ("ada", "424242", iterative, "", 200, "\"is_new\":true"),
        ("ada", "7", iterative, "", 200, "\"is_new\":false"),
        ("sven", "7", iterative, "", 403, "may not tag job 7"),
        ("sven", "7", iterative, "&personal=true", 200, "\"is_new\":true"),
        // Whoever does not see a job hears what they would hear of one that there is not.
        ("eve", "7", iterative, "", 404, "no batch system told of job 7"),
        ("eve", "7777", iterative, "", 404, "no batch system told of job 7777"),
        ("otto", "424242", iterative, "&personal=true", 404, "no batch system"),
        ("otto", "7", "no such tag", "", 400, "there is no tag"),
        ("otto", "7", iterative, "&reason=%00", 400, "zero byte"),
    ] {
        let (is, text) = say(user, job, tag, more);
        assert!(is == status && text.contains(said), "{user} {job} {tag}: {is} {text}");
    }
    let found = |user: &str, query: &str| {
        let path = format!("/api/v1/jobs?columns=job&{query}");
        let (_, text) = server.get(&path, Some(&cluster.token_of(user))).unwrap();
        let answer: Value = serde_json::from_str(&text).unwrap();
        let jobs = answer["rows"].as_array().unwrap_or_else(|| panic!("{text}")).iter();
        jobs.map(|row| row["job"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let tagged = "all=job_behavior%20ITERATIVE&sort=job";
    for (user, query, jobs) in [
        ("ada", tagged, vec!["424242", "7"]),
        ("otto", tagged, vec!["7"]),
        ("zora", tagged, vec!["424242"]),
        // His own personal one.
        ("sven", tagged, vec!["7"]),
        ("eve", tagged, vec![]),
        ("ada", "tagged_by=otto", vec!["7"]),
        ("ada", "tagged_by=project:physics", vec!["7"]),
        ("ada", "tagged_by=sven", vec![]),
        ("zora", "tagged_by=otto", vec![]),
        ("ada", "tagged=manual&sort=job", vec!["424242", "7"]),
    ] {
        assert_eq!(found(user, query), jobs, "{user} {query}");
    }
}

#[test]
fn a_token_that_is_forged_ended_or_revoked_is_refused() {
    let cluster = Cluster::start(SITE, &[]);
    let server = &cluster.server;
    let status = |token: &str| server.get("/api/v1/jobs", Some(token)).unwrap();
    let good = cluster.token_of("otto");
    assert_eq!(status(&good).0, 200);
    let mut other = good.clone().into_bytes();
    let last = other.len() - 1;
    other[last] = if other[last] == b'0' { b'1' } else { b'0' };
    let other = String::from_utf8(other).unwrap();
    // An administrator's name does not make an administrator's token.
    let renamed = good.replacen("jgu_", "jga_", 1);
    let expired = server.command(&["token", "create", "--user", "ada", "--expires", "2020-01-01T00:00:00Z"]);
    let list = server.command(&["token", "list"]);
    let id = list.lines().find(|line| line.contains("user otto")).unwrap().split(' ').next().unwrap();
    server.command(&["token", "revoke", id]);
    for (token, said) in [
        (&*other, "not known"),
        (&renamed, "not known"),
        (&expired, "expired"),
        (&good, "revoked"),
        ("", "no token"),
        ("jgu_", "not known"),
    ] {
        let (status, text) = status(token);
        assert!(status == 401 && text.contains(said), "{token}: {status} {text}");
    }
}

#[test]
fn an_answer_that_takes_too_long_is_ended() {
    let server = Server::start(&["--answer-within", "0.000001"]);
    let token = server.command(&["token", "create", "--user", "otto"]);
    let began = Instant::now();
    // Several queries, of which none is ready at once.
    let (status, text) = server.get("/api/v1/tags/try?condition=uses('libotto*')", Some(&token)).unwrap();
    assert!(status == 504 && text.contains("ask for less"), "{status} {text}");
    assert!(began.elapsed() < Duration::from_secs(10));
    // Nothing is left of it that would keep others waiting.
    assert_eq!(server.get("/health", None).unwrap().0, 200);
}

#[test]
fn whoever_is_at_the_socket_gets_their_own_token() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("login.sock");
    let cluster = Cluster::start(SITE, &["--login-socket", socket.to_str().unwrap()]);
    let mut line = String::new();
    BufReader::new(UnixStream::connect(&socket).unwrap()).read_line(&mut line).unwrap();
    let answer: Value = serde_json::from_str(&line).unwrap();
    let me = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap().name;
    assert_eq!(answer["user"], *me);
    let (status, text) =
        cluster.server.get("/api/v1/whoami", Some(answer["token"].as_str().unwrap())).unwrap();
    let who: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status.as_u16(), &who["user"]), (200, &answer["user"]));
    // However often somebody asks, their tokens are few.
    for _ in 0..40 {
        BufReader::new(UnixStream::connect(&socket).unwrap()).read_line(&mut line).unwrap();
    }
    assert!(cluster.server.command(&["token", "list"]).lines().count() < 24);
}

/// Asks until the answer is as expected, or some seconds are over.
fn until(mut is_so: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    while !is_so() {
        if began.elapsed() > Duration::from_secs(15) {
            return false;
        }
        std::thread::park_timeout(Duration::from_millis(50));
    }
    true
}

#[test]
fn a_rule_that_an_administrator_changes_counts_without_a_restart() {
    let cluster = Cluster::start(SITE, &[]);
    let server = &cluster.server;
    let admin = server.token("admin");
    let get = |path: &str, token: &str| -> Value {
        let (_, text) = server.get(path, Some(token)).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let site = |cores: u32| {
        format!(
            "{SITE}[[tag]]\nid = 1001\nname = 'site WIDE'\ngroup = 'site'\ncriterion = 'cores >= {cores}'\ndescription = 'Wide.'\n"
        )
    };
    let file = server.data().join("site.toml");
    let version = || {
        let rows = get("/api/v1/tags", &admin)["rows"].clone();
        rows.as_array()
            .unwrap()
            .iter()
            .find(|row| row["tag"] == "site WIDE")
            .map(|row| row["version"].clone())
    };
    assert_eq!(version(), None);
    // Of these two nothing was measured that could come late and have them judged again.
    let told = |number: &str| {
        cluster.send(
            "POST",
            "accounting",
            minicbor::to_vec([cluster.job(number, "otto", "physics")]).unwrap(),
        );
    };
    let is_wide = |number: &str| {
        let rows = get("/api/v1/jobs?all=site%20WIDE&columns=job", &admin)["rows"].clone();
        rows.as_array().is_some_and(|rows| rows.iter().any(|row| row["job"] == number))
    };
    told("6");
    assert!(until(|| get("/api/v1/jobs/6/tags", &admin)["is_judged"] == true));
    fs::write(&file, site(2)).unwrap();
    assert!(until(|| version() == Some(1.into())), "{}", server.log());
    told("8");
    assert!(until(|| is_wide("8")), "{}", server.log());
    assert!(!is_wide("6"), "it was judged before there was the rule");
    // A rule that makes no sense changes nothing, and is said.
    fs::write(&file, site(2).replace("cores >=", "no_such_column >=")).unwrap();
    assert!(until(|| server.log().contains("no_such_column")));
    assert_eq!(version(), Some(1.into()));
    fs::write(&file, site(3)).unwrap();
    assert!(until(|| version() == Some(2.into())), "{}", server.log());
    let why = get("/api/v1/jobs/8/tags?tag=site%20WIDE", &admin);
    assert_eq!([&why["tags"][0]["version"], &why["tags"][0]["newest_version"]], [&Value::from(1), &2.into()]);
    assert!(is_wide("8"), "the history is judged when somebody asks");
    let begun = Server::agent().post(format!("http://{}/api/v1/tags/run", server.address));
    assert_eq!(begun.header("authorization", format!("Bearer {admin}")).send_empty().unwrap().status(), 200);
    assert!(until(|| !is_wide("8")), "{}", server.log());
    assert_eq!(get("/api/v1/jobs/8/tags?tag=site%20WIDE", &admin)["tags"][0]["version"], 2);
    // So does a search, and so does who may do what.
    let search = "[[search]]\nname = 'mine'\ndescription = 'x'\nall = ['site WIDE']\nwhere = 'cores > 1'\n";
    let broken = search.replace("mine", "broken").replace("WIDE", "NARROW");
    fs::write(&file, site(2) + search + &broken).unwrap();
    let asked = |name: &str| server.get(&format!("/api/v1/jobs?search={name}"), Some(&admin)).unwrap().0;
    assert!(until(|| asked("mine") == 200), "{}", server.log());
    assert_eq!(asked("broken"), 400);
    assert!(server.log().contains("search `broken`: there is no tag `site NARROW`"));
    let nodes = |user: &str| server.get("/api/v1/nodes", Some(&cluster.token_of(user))).unwrap().0;
    assert_eq!(nodes("otto"), 403);
    fs::write(&file, site(3).replace("support = ['sven']", "support = ['sven', 'otto']")).unwrap();
    assert!(until(|| nodes("otto") == 200));
}

#[test]
fn a_condition_is_no_way_to_the_database() {
    let cluster = Cluster::start(SITE, &[]);
    let token = cluster.token_of("otto");
    let file = cluster.server.data().join("written");
    let copy = format!("COPY accounting TO '{}'", file.display());
    let attach = format!("ATTACH '{}'", file.display());
    for condition in [
        "cores > 0; DROP TABLE accounting",
        "cores > 0 -- and user = 'otto'",
        "cores > 0 /* */ or true",
        "cores > (SELECT max(cores) FROM accounting)",
        "user = 'otto' UNION SELECT * FROM process",
        "read_csv('/etc/passwd') is not null",
        "read_text('/etc/passwd') = ''",
        "getvariable('x') = 1",
        &copy,
        &attach,
        "pragma_version() = ''",
        "PRAGMA database_list",
        "repeat('a', 1000000000) = name",
        "range(1000000000) = 1",
        "cores > 1e999",
        "\"jobglass\".main.accounting = 1",
        "main.accounting.user = 'zora'",
        "c.user = 'zora'",
        "name = '\u{0}'",
    ] {
        let encoded: String = condition.bytes().map(|byte| format!("%{byte:02X}")).collect();
        for path in [
            "jobs?where=",
            "jobs?count=true&where=",
            "tags/try?condition=",
            "export?where=",
            "tags/count?by=user&where=",
        ] {
            let (status, text) =
                cluster.server.get(&format!("/api/v1/{path}{encoded}"), Some(&token)).unwrap();
            assert_eq!(status, 400, "{path} {condition}: {text}");
            assert!(
                !text.contains("Binder") && !text.contains("Parser"),
                "the database saw {condition}: {text}"
            );
        }
    }
    assert!(!file.exists());
    assert!(!cluster.server.stop().contains("ERROR"));
}

#[test]
fn notes_and_cases_have_the_sight_of_their_jobs() {
    let cluster = Cluster::start(SITE, &[]);
    let server = &cluster.server;
    let send = |user: &str, method: &str, path: &str, body: &str| {
        let url = format!("http://{}/api/v1/{path}", server.address);
        let token = format!("Bearer {}", cluster.token_of(user));
        let agent = Server::agent();
        let answer = if method == "DELETE" {
            agent.delete(url).header("authorization", token).call()
        } else {
            agent.post(url).header("authorization", token).send(body)
        };
        let mut answer = answer.unwrap();
        (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
    };
    let (note, case) =
        (r#"{"job": "7", "text": "stops after 500 steps"}"#, r#"{"job": "7", "reason": "idle"}"#);
    for (user, method, path, body, status, said) in [
        ("otto", "POST", "notes", note, 200, "\"note\":3"),
        ("pia", "POST", "notes", note, 200, "\"note\":4"),
        ("eve", "POST", "notes", note, 404, "no batch system told of job 7"),
        ("eve", "POST", "notes", r#"{"program": "/bin/x", "text": "a shell"}"#, 200, "\"note\":5"),
        ("otto", "POST", "notes", r#"{"job": "7", "text": "  "}"#, 400, "no text"),
        ("otto", "POST", "notes", r#"{"text": "about nothing"}"#, 400, "either on a `job` or on a `program`"),
        ("otto", "POST", "notes", "not JSON", 400, "not as it should be"),
        ("otto", "DELETE", "notes/4", "", 403, "note 4 is pia's"),
        ("otto", "DELETE", "notes/1", "", 404, "there is no note 1"),
        ("pia", "DELETE", "notes/4", "", 200, "true"),
        ("pia", "DELETE", "notes/4", "", 404, "there is no note 4"),
        ("otto", "POST", "cases", case, 403, "needs support"),
        ("sven", "POST", "cases", case, 200, "\"case\":2"),
        ("sven", "POST", "cases", r#"{"reason": "of nobody"}"#, 400, "about a `user`"),
        ("sven", "POST", "cases/2", r#"{"text": "called him"}"#, 200, "\"is_open\":true"),
        (
            "sven",
            "POST",
            "cases/2",
            r#"{"text": "uses fewer cores now", "close": true}"#,
            200,
            "\"is_open\":false",
        ),
        ("sven", "POST", "cases/2", r#"{"text": "again"}"#, 404, "no case 2 that is open"),
        ("sven", "POST", "cases/99", r#"{"text": "again"}"#, 404, "no case 99"),
    ] {
        let (is, text) = send(user, method, path, body);
        assert!(is == status && text.contains(said), "{user} {method} {path} {body}: {is} {text}");
    }
    let seen = |user: &str, path: &str, key: &str| {
        let (_, text) = server.get(&format!("/api/v1/{path}"), Some(&cluster.token_of(user))).unwrap();
        let answer: Value = serde_json::from_str(&text).unwrap();
        answer["rows"].as_array().unwrap().iter().map(|row| row[key].as_u64().unwrap()).collect::<Vec<_>>()
    };
    for (user, path, key, expected) in [
        ("otto", "notes", "note", vec![3]),
        ("pia", "notes", "note", vec![3]),
        ("eve", "notes", "note", vec![5]),
        ("zora", "notes", "note", vec![1]),
        ("sven", "notes", "note", vec![5, 3, 2, 1]),
        ("sven", "notes?program=/bin/x", "note", vec![5]),
        ("sven", "notes?program=/home/zora/solver", "note", vec![2]),
        ("sven", "notes?text=500%20STEPS", "note", vec![3]),
        ("otto", "cases", "case", vec![2]),
        ("pia", "cases", "case", vec![2]),
        ("eve", "cases", "case", vec![]),
        ("sven", "cases", "case", vec![2, 1]),
        ("sven", "cases?open=true", "case", vec![1]),
        ("sven", "cases?open=false&text=fewer", "case", vec![2]),
        ("sven", "cases?text=called%20him", "case", vec![2]),
        ("otto", "cases?text=called", "case", vec![2]),
    ] {
        assert_eq!(seen(user, path, key), expected, "{user} {path}");
    }
}

#[test]
fn a_tag_that_is_proposed_is_there_when_it_is_approved() {
    let cluster = Cluster::start(SITE, &[]);
    let server = &cluster.server;
    let send = |user: &str, path: &str, body: &str| {
        let url = format!("http://{}/api/v1/{path}", server.address);
        let request =
            Server::agent().post(url).header("authorization", format!("Bearer {}", cluster.token_of(user)));
        let mut answer = request.send(body).unwrap();
        (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
    };
    let proposed = |name: &str, criterion: &str| {
        format!(
            r#"{{"name": "{name}", "description": "It makes a mesh.", "motivation": "to find them", "criterion": {criterion}}}"#
        )
    };
    for (user, path, body, status, said) in [
        ("otto", "proposals", proposed("site MESH", "null"), 200, "\"proposal\":1"),
        ("eve", "proposals", proposed("site WIDE", "\"cores >= 2\""), 200, "\"proposal\":2"),
        ("eve", "proposals", proposed("site X", "\"no_column > 2\""), 400, "no_column"),
        (
            "eve",
            "proposals",
            proposed("job_bug_deadlock", "null"),
            400,
            "there is a tag `job_bug DEADLOCK` already",
        ),
        ("eve", "proposals", proposed("; drop", "null"), 400, "no name for a tag"),
        (
            "eve",
            "proposals",
            r#"{"name": "site Y", "description": " ", "motivation": "x"}"#.to_owned(),
            400,
            "no text",
        ),
        ("otto", "proposals/1", r#"{"approve": true}"#.to_owned(), 403, "needs administrator"),
        ("ada", "proposals/1", r#"{"approve": false}"#.to_owned(), 400, "`reason`"),
        ("ada", "proposals/1", r#"{"approve": false, "reason": "there is one"}"#.to_owned(), 200, "rejected"),
        ("ada", "proposals/1", r#"{"approve": true}"#.to_owned(), 404, "no proposal 1 that waits"),
        ("ada", "proposals/2", r#"{"approve": true, "criterion": "cores >"}"#.to_owned(), 400, "cores >"),
        (
            "ada",
            "proposals/2",
            r#"{"approve": true, "name": "site BROAD", "reason": "a better name"}"#.to_owned(),
            200,
            "approved",
        ),
        ("ada", "proposals/2", r#"{"approve": true}"#.to_owned(), 404, "no proposal 2 that waits"),
    ] {
        let (is, text) = send(user, path, &body);
        assert!(is == status && text.contains(said), "{user} {path} {body}: {is} {text}");
    }
    let rows = |user: &str| {
        let (_, text) = server.get("/api/v1/proposals", Some(&cluster.token_of(user))).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["rows"].as_array().unwrap().clone()
    };
    assert_eq!((rows("otto").len(), rows("eve").len(), rows("ada").len(), rows("sven").len()), (1, 1, 2, 2));
    let seen = &rows("eve")[0];
    assert_eq!([&seen["name"], &seen["tag"], &seen["state"]], ["site WIDE", "site BROAD", "approved"]);
    assert_eq!(rows("otto")[0]["reason"], "there is one");
    // The next job that is told has it.
    cluster.send("POST", "accounting", minicbor::to_vec([cluster.job("9", "otto", "physics")]).unwrap());
    let token = cluster.token_of("otto");
    let found = || server.get("/api/v1/jobs?all=site%20BROAD&columns=job", Some(&token)).unwrap().1;
    assert!(until(|| found().contains("\"9\"")), "{}", found());
}
