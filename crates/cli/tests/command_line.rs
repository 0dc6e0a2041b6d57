//! What users type, and what they get: pipes, shapes of output, errors with suggestions.

#[path = "../../store/tests/common/mod.rs"]
#[allow(dead_code, reason = "only what batches are made of is used here")]
mod batches;
mod common;
#[path = "common/server.rs"]
#[allow(dead_code, reason = "only the server is used here")]
mod server;

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use batches::{HOST, SECOND, batch, entry, image, stream};
use common::{Row, jobglass, new_dir, parse};
use record::batch::MEDIA_TYPE;
use record::entry::{EndedBy, Entry, Image, Used};
use record::metric::id;
use record::reading::{JobReading, Reading, Reserved, Values};
use server::{Server, jobglass_server};

/// Jobs of two users in the shape of sacct.
const JOBS: &str = "JobID|Cluster|User|Account|Partition|JobName|Submit|Start|End|Elapsed|State|NNodes|NCPUS|NodeList|ReqMem|AllocTRES
7|tiny|ann|chem|main|fold|2026-01-01T10:00:00|2026-01-01T10:01:00|2026-01-01T12:01:00|02:00:00|COMPLETED|2|8|n[0001-0002]|16G|cpu=8,mem=16G,node=2
7.0|tiny|||||2026-01-01T10:01:00|2026-01-01T10:01:00|2026-01-01T12:01:00|02:00:00|COMPLETED|2|8|n[0001-0002]||cpu=8,mem=16G,node=2
8|tiny|bob|bio|gpu|train|2026-01-02T10:00:00|2026-01-02T10:00:30|2026-01-02T10:10:30|00:10:00|TIMEOUT|1|4|n0003|32G|cpu=4,mem=32G,node=1
";

/// A server that knows [`JOBS`].
fn start(dir: &Path) -> Server {
    let server = Server::start(dir.to_owned(), None);
    server.wait_ready();
    let log = dir.join("sacct.txt");
    fs::write(&log, JOBS).unwrap();
    tell(&server, &["import", "slurm", "--time-zone", "UTC", "--file", log.to_str().unwrap()]);
    server
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a command that must do what it is told.
fn tell(server: &Server, arguments: &[&str]) -> Output {
    let output = server.ask(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    output
}

fn jobs(server: &Server, arguments: &[&str]) -> Vec<Row> {
    parse(&server.ask(&[&["jobs", "--json", "--all-time"], arguments].concat()).output().unwrap())
}

/// The end of a pipe that nobody reads.
fn closed() -> Stdio {
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// How a command ends whose output, or output and errors, nobody reads.
fn unread(mut command: Command, with_errors: bool) -> Option<i32> {
    command.stdin(Stdio::null()).stdout(closed());
    command.stderr(if with_errors { closed() } else { Stdio::null() });
    command.status().unwrap().code()
}

#[test]
fn a_closed_pipe_is_success() {
    let dir = new_dir();
    let server = start(dir.path());
    for arguments in [
        "jobs --all-time",
        "jobs --all-time --json",
        "jobs --all-time --csv",
        "jobs --all-time --csv --limit 1",
        "jobs --all-time --count",
        "jobs --fmt help --json",
        "job 7",
        "job 7 --json",
        "tags list --json",
        "tags list --csv",
        "whoami",
        "whoami --json",
        "sample --once",
        "sample --once --json",
        "sample --once --stats",
        "--help",
        "--version",
    ] {
        for with_errors in [false, true] {
            let arguments: Vec<&str> = arguments.split(' ').collect();
            assert_eq!(unread(server.ask(&arguments), with_errors), Some(0), "{arguments:?} {with_errors}");
        }
    }
    for arguments in ["token list", "token create --host n1"] {
        let mut command = Command::new(jobglass_server());
        command.args(arguments.split(' ')).arg("--data").arg(&server.data);
        assert_eq!(unread(command, true), Some(0), "{arguments}");
    }
}

/// To have no place for an error is no reason to abort, and an error stays one.
#[test]
fn an_error_that_nobody_reads_keeps_its_exit_code() {
    let dir = new_dir();
    let server = start(dir.path());
    for (arguments, code) in
        [("jobs --all-time --user nobody", 1), ("job 99", 1), ("jobs --where (", 2), ("doctor --jsom", 2)]
    {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        assert_eq!(unread(server.ask(&arguments), true), Some(code), "{arguments:?}");
    }
    let mut command = Command::new(jobglass_server());
    command.args(["token", "revoke", "nothing", "--data"]).arg(&server.data);
    assert_eq!(unread(command, true), Some(2));
}

/// Only our own reader has read enough: a server that hangs up has not answered.
#[test]
fn a_server_that_hangs_up_is_an_error() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // Connections are accepted by the kernel, and closed with what was sent unread.
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let dir = new_dir();
    let token = dir.path().join("token");
    fs::write(&token, "secret").unwrap();
    let mut command = Command::new(jobglass());
    command.env("JOBGLASS_SERVER", format!("http://{address}")).env("JOBGLASS_TOKEN_FILE", token);
    let output = command.args(["jobs", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
}

/// Its log may go to a pipe whose reader ends before it.
#[test]
fn a_server_runs_on_when_nobody_reads_its_log() {
    let dir = new_dir();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = Command::new(jobglass_server());
    command.args(["--least-free", "16", "--listen", &port.to_string(), "--data"]).arg(dir.path().join("d"));
    let mut server = common::Killed(command.stdin(Stdio::null()).stderr(closed()).spawn().unwrap());
    common::wait_until("the server to listen, or to end", || {
        std::net::TcpStream::connect(port).is_ok() || server.0.try_wait().unwrap().is_some()
    });
    assert_eq!(server.0.try_wait().unwrap().and_then(|status| status.code()), None);
    assert!(std::net::TcpStream::connect(port).is_ok());
}

fn token(server: &Server, arguments: &[&str]) -> Output {
    let mut command = Command::new(jobglass_server());
    command.arg("token").args(arguments).arg("--data").arg(&server.data).output().unwrap()
}

#[test]
fn token_create_expands_a_list_of_hosts() {
    let dir = new_dir();
    let server = Server::start(dir.path().to_owned(), None);
    server.wait_ready();
    let one = text(&token(&server, &["create", "--host", "login1"]).stdout);
    assert!(one.starts_with("jgn_") && one.lines().count() == 1 && !one.trim().contains(' '), "{one}");
    let many = text(&token(&server, &["create", "--host", "n[0001-0003],n0002,gpu1"]).stdout);
    let hosts: Vec<&str> = many.lines().map(|line| line.split_once(" jgn_").unwrap().0).collect();
    assert_eq!(hosts, ["n0001", "n0002", "n0003", "gpu1"]);
    let listed = text(&token(&server, &["list"]).stdout);
    for host in ["login1", "n0001", "n0002", "n0003", "gpu1"] {
        assert_eq!(
            listed.lines().filter(|line| line.contains(&format!("node {host} "))).count(),
            1,
            "{listed}"
        );
    }
    // None is made where one cannot be.
    for list in ["n[0001", "n[1-x]", ""] {
        let output = token(&server, &["create", "--host", list]);
        assert_eq!(output.status.code(), Some(2), "{list}");
        assert!(text(&output.stderr).contains(list), "{}", text(&output.stderr));
    }
    assert_eq!(text(&token(&server, &["list"]).stdout), listed);
}

#[test]
fn token_list_has_headers_and_the_last_use() {
    let dir = new_dir();
    let server = Server::start(dir.path().to_owned(), None);
    server.wait_ready();
    token(&server, &["create", "--user", "ann"]);
    let list = || text(&token(&server, &["list"]).stdout);
    let before = list();
    let header: Vec<&str> =
        before.lines().next().unwrap().split("  ").filter(|title| !title.is_empty()).collect();
    assert_eq!(
        header.iter().map(|title| title.trim()).collect::<Vec<_>>(),
        ["TOKEN", "GOOD FOR", "STATE", "CREATED", "LAST USED"]
    );
    assert!(before.lines().skip(1).all(|line| line.ends_with("never")), "{before}");
    tell(&server, &["whoami"]);
    common::wait_until("the use of the administrator's token to be listed", || {
        list().lines().filter(|line| !line.ends_with("never")).count() == 2
    });
    let after = list();
    assert!(after.lines().any(|line| line.contains(" admin ") && line.ends_with('Z')), "{after}");
    assert!(after.lines().any(|line| line.contains("user ann") && line.ends_with("never")), "{after}");
}

/// Numbers of the jobs that are found, in the order of their submission.
fn found(server: &Server, arguments: &[&str]) -> Vec<String> {
    let rows = jobs(server, &[arguments, &["--sort", "submit"]].concat());
    rows.iter().map(|row| row["job"].as_str().unwrap().to_owned()).collect()
}

/// What is said of a command that is refused.
fn refused(server: &Server, arguments: &[&str]) -> String {
    let output = server.ask(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stderr)
}

#[test]
fn unknown_states_are_errors_and_codes_of_slurm_are_understood() {
    let dir = new_dir();
    let server = start(dir.path());
    for (typed, expected) in
        [("COMPLETED", vec!["7"]), ("CD", vec!["7"]), ("to,Cd", vec!["7", "8"]), ("R", vec![])]
    {
        assert_eq!(found(&server, &["--state", typed]), expected, "{typed}");
    }
    assert_eq!(found(&server, &["--where", "state = 'cd' or state in ('OOM')"]), ["7"]);
    for (arguments, said) in [
        (["--state", "COMPLETD"], "`COMPLETD` is no state; is it `COMPLETED`?"),
        (["--state", "CD,zzz"], "`zzz` is no state"),
        (["--where", "state != 'runing'"], "`runing` is no state; is it `RUNNING`?"),
    ] {
        let error = refused(&server, &[&["jobs", "--all-time"], &arguments[..]].concat());
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn unknown_nodes_are_errors_and_lists_and_globs_are_understood() {
    let dir = new_dir();
    let server = start(dir.path());
    for (typed, expected) in [
        ("n0001", vec!["7"]),
        ("n000?", vec!["7", "8"]),
        ("*3", vec!["8"]),
        ("n[0002-0003]", vec!["7", "8"]),
        ("n0003,n0001", vec!["7", "8"]),
    ] {
        assert_eq!(found(&server, &["--node", typed]), expected, "{typed}");
    }
    for shape in [
        &["jobs", "--all-time"][..],
        &["jobs", "--all-time", "--count"],
        &["jobs", "--all-time", "--group-by", "user"],
    ] {
        for (typed, said) in [
            ("n001", "no node `n001` is known here; is it `n0001`?"),
            ("gpu*", "no node `gpu*` is known here"),
            ("n[0001", "does not close"),
        ] {
            let error = refused(&server, &[shape, &["--node", typed]].concat());
            assert!(error.contains(said), "{error}");
        }
    }
    for question in ["nodes", "processes"] {
        let error = refused(&server, &[question, "--host", "n0004x"]);
        assert!(error.contains("no node `n0004x` is known here; is it `n000"), "{error}");
        assert_eq!(server.ask(&[question, "--host", "n0001"]).output().unwrap().status.code(), Some(1));
    }
    // One that is known, and has none of what is asked for.
    let output = server.ask(&["jobs", "--all-time", "--node", "n0001", "--user", "bob"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
}

#[test]
fn unknown_columns_are_errors_and_names_of_sacct_are_understood() {
    let dir = new_dir();
    let server = start(dir.path());
    let rows =
        jobs(&server, &["--fmt", "JobID,Elapsed,NNodes,AllocCPUS,Account,State", "--sort", "-Elapsed"]);
    let expected = "{\"job_id\":\"7\",\"elapsed_s\":7200.0,\"nodes\":2,\"cores\":8,\"project\":\"chem\",\"state\":\"COMPLETED\"}";
    assert_eq!(rows[0].to_string(), expected);
    assert_eq!(found(&server, &["--where", "Elapsed > 1h and NCPUS = 8 and JobName like 'f%'"]), ["7"]);
    for (arguments, said) in [
        (["--fmt", "job,elapsd"], "no column `elapsd`; is it `elapsed`?"),
        (["--sort", "-sumbit"], "no column `sumbit`; is it `submit`?"),
        (["--where", "elapsd > 2h"], "no column `elapsd`; is it `elapsed`?"),
        (["--fmt", "zzzzzzz"], "no column `zzzzzzz` (jobglass jobs --fmt help lists them)"),
    ] {
        let error = refused(&server, &[&["jobs", "--all-time"], &arguments[..]].concat());
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn conditions_take_memory_as_slurm_writes_it_and_quoted_dates_and_the_end() {
    let dir = new_dir();
    let server = start(dir.path());
    for (condition, expected) in [
        ("memory = 16G", vec!["7"]),
        ("memory > 16G", vec!["8"]),
        ("memory >= 16384M and memory <= 0.03125T", vec!["7", "8"]),
        ("submit < '2026-01-02'", vec!["7"]),
        ("submit >= \"2026-01-02 10:00\"", vec!["8"]),
        ("start between '2026-01-01T10:00' and '2026-01-01T11:00Z'", vec!["7"]),
        ("end > '2026-01-01T12:00'", vec!["7", "8"]),
        ("end - start > 1h and END is known", vec!["7"]),
        ("case when end < 2026-01-02 then true else false end", vec!["7"]),
    ] {
        assert_eq!(found(&server, &["--where", condition]), expected, "{condition}");
    }
    let error = refused(&server, &["jobs", "--where", "submit > 'soon'"]);
    assert!(error.contains("no such time") && error.contains("^^^^^^"), "{error}");
}

#[test]
fn an_imported_job_is_shown_in_every_shape() {
    let dir = new_dir();
    let server = start(dir.path());
    let job = &parse(&tell(&server, &["job", "7", "--json"]))[0];
    assert_eq!(
        (&job["account"]["state"], &job["account"]["user"]),
        (&"COMPLETED".into(), &"ann".into()),
        "{job}"
    );
    assert_eq!((&job["job"], job["steps"].as_array().map(Vec::len)), (&"7".into(), Some(1)), "{job}");
    assert_eq!(job["processes"], Row::Array(vec![]));
    let csv = text(&tell(&server, &["job", "7", "--csv"]).stdout);
    let mut lines = csv.lines();
    let (names, row): (Vec<&str>, &str) = (lines.next().unwrap().split(',').collect(), lines.next().unwrap());
    assert_eq!(lines.next(), None, "{csv}");
    for name in ["job", "user", "state", "nodes", "node_list", "elapsed_s", "name"] {
        assert_eq!(names.iter().filter(|found| **found == name).count(), 1, "{name}: {csv}");
    }
    assert!(row.contains("COMPLETED") && row.contains("ann") && row.contains("fold"), "{csv}");
    // There is nothing to print of a job that is not there.
    for shape in ["--json", "--csv"] {
        let output = server.ask(&["job", "99", shape]).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    }
}

#[test]
fn rate_warns_of_an_unknown_job_and_of_a_value_below_the_floor() {
    let dir = new_dir();
    let server = start(dir.path());
    let (unknown, floor) =
        ("warning: nothing is known of job", "warning: agents read a job every 1 s at most");
    for (arguments, warnings) in [
        (&["7", "5s"][..], [false, false]),
        (&["7", "500ms"], [false, true]),
        (&["99", "1s"], [true, false]),
        (&["99", "100ms", "--json"], [true, true]),
        (&["99", "--comment", "jobglass:rate=5s"], [false, false]),
    ] {
        let output = tell(&server, &[&["rate"], arguments].concat());
        let said = text(&output.stderr);
        assert_eq!([unknown, floor].map(|warning| said.contains(warning)), warnings, "{arguments:?}: {said}");
        assert!(!output.stdout.is_empty());
    }
}

/// What a command prints on a terminal of this width, its lines without the spaces at their ends.
fn on_terminal(server: &Server, columns: usize, arguments: &[&str]) -> Vec<String> {
    let quoted: Vec<String> = arguments.iter().map(|word| format!("'{word}'")).collect();
    let typed = format!("stty cols {columns} rows 500; exec {} {}", jobglass().display(), quoted.join(" "));
    let mut command = Command::new("script");
    command.args(["-qec", &typed, "/dev/null"]).stdin(Stdio::null()).env("NO_COLOR", "1").env("PAGER", "cat");
    command.env("JOBGLASS_SERVER", server.url()).env("JOBGLASS_TOKEN_FILE", server.data.join("admin.token"));
    let output = command.output().unwrap();
    text(&output.stdout).lines().map(|line| line.trim_end().to_owned()).collect()
}

#[test]
fn tables_fit_the_terminal_and_keep_the_name() {
    let dir = new_dir();
    let server = start(dir.path());
    let piped = text(&tell(&server, &["jobs", "--all-time"]).stdout);
    let header = piped.lines().next().unwrap().to_owned();
    for title in ["JOB ID", "PROJECT", "SUBMIT", "WAIT", "CORE HOURS", "NAME"] {
        assert!(header.contains(title), "{header}");
    }
    assert_eq!(on_terminal(&server, 250, &["jobs", "--all-time"])[0], header, "a wide one has all");
    for columns in [120, 80, 40] {
        let lines = on_terminal(&server, columns, &["jobs", "--all-time"]);
        let all = lines.join("\n");
        assert!(lines.iter().all(|line| line.chars().count() <= columns), "{columns}: {all}");
        assert!(lines[0].starts_with("JOB ID") && lines[0].ends_with("NAME"), "{columns}: {all}");
        assert!(lines[2].ends_with("fold") && lines[3].starts_with("(no room for "), "{columns}: {all}");
        assert!(lines[3..].join(" ").contains("WAIT") && !lines[0].contains("WAIT"), "{columns}: {all}");
    }
}

#[test]
fn help_for_columns_searches_and_wraps() {
    let dir = new_dir();
    let server = start(dir.path());
    for arguments in [&["jobs", "--fmt", "help", "gpu", "MEMORY"][..], &["jobs", "--fmt", "help gpu memory"]]
    {
        let found = text(&tell(&server, arguments).stdout);
        let lines: Vec<&str> = found.lines().skip(1).collect();
        assert!(!lines.is_empty() && lines.len() < 40, "{found}");
        for line in lines {
            let line = line.to_lowercase();
            assert!(line.contains("gpu") && line.contains("memory"), "{line}");
        }
    }
    let whole: Vec<Row> = parse(&tell(&server, &["jobs", "--fmt", "help", "cpu_ids", "--json"]));
    assert_eq!(whole.len(), 1);
    let narrow = on_terminal(&server, 60, &["jobs", "--fmt", "help", "cpu_ids"]);
    assert!(narrow.iter().all(|line| line.chars().count() <= 60), "{narrow:?}");
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let wrapped = words(&narrow[1..].join(" "));
    assert!(
        narrow.len() > 2 && wrapped.ends_with(&words(whole[0]["meaning"].as_str().unwrap())),
        "{narrow:?}"
    );
    let output = server.ask(&["jobs", "--fmt", "help", "nosuchthing"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let output = server.ask(&["jobs", "--fmt", "job", "user"]).output().unwrap();
    assert!(output.status.code() == Some(2) && text(&output.stderr).contains("commas"));
}

#[test]
fn tables_have_units_for_people_and_json_has_plain_numbers() {
    let dir = new_dir();
    let server = start(dir.path());
    let arguments = ["jobs", "--all-time", "--job", "7", "--fmt", "memory,elapsed,submit,core_hours,cores"];
    let table = text(&tell(&server, &arguments).stdout);
    let row = table.lines().nth(1).unwrap();
    let cells: Vec<&str> = row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    assert_eq!((cells[0], cells[1], cells[3], cells[4]), ("16G", "02:00:00", "16.00", "8"), "{table}");
    let rows = jobs(&server, &["--job", "7", "--fmt", "memory,elapsed"]);
    assert_eq!((&rows[0]["memory"], &rows[0]["elapsed_s"]), (&17_179_869_184u64.into(), &7200.0.into()));
}

/// Brings what an agent of `n1` saw.
fn bring(server: &Server, entries: &[Entry]) {
    let token = text(&fs::read(server.data.join("ingest.token")).unwrap());
    let request = ureq::post(format!("{}/api/v1/ingest", server.url()));
    let request = request.header("authorization", format!("Bearer {}", token.trim()));
    request.header("content-type", MEDIA_TYPE).send(&batch(stream(1), 1, entries, &[])[..]).unwrap();
}

#[test]
fn failed_processes_are_found() {
    let dir = new_dir();
    let server = Server::start(dir.path().to_owned(), None);
    server.wait_ready();
    let killed =
        Image { ended_by: EndedBy::Signal, exit_code: None, signal: Some(9), ..image(12, "/bin/killed") };
    let runs = Image { ended_by: EndedBy::Unknown, end: None, exit_code: None, ..image(13, "/bin/runs") };
    let failed = Image { exit_code: Some(3), ..image(11, "/bin/failed") };
    bring(&server, &[image(10, "/bin/good"), failed, killed, runs].map(entry));
    assert_eq!(parse(&tell(&server, &["processes", "--host", HOST, "--json"])).len(), 4);
    let rows = parse(&tell(&server, &["processes", "--failed", "--json"]));
    let found: Vec<&str> = rows.iter().map(|row| row["exe"].as_str().unwrap()).collect();
    assert_eq!(found, ["/bin/failed", "/bin/killed"]);
    assert_eq!(parse(&tell(&server, &["processes", "--host", "n?", "--failed", "--json"])).len(), 2);
}

/// A program of job 17 below another one, which took a second and next to no CPU time.
fn below(parent: u32, pid: u32, exe: &str) -> Image {
    let used = Used { user_ns: Some(1000), system_ns: Some(1000), ..Used::default() };
    Image { ppid: Some(parent), used, ..image(pid, exe) }
}

#[test]
fn short_programs_of_the_shell_are_one_line_and_the_user_of_the_job_is_named() {
    let dir = new_dir();
    let server = Server::start(dir.path().to_owned(), None);
    server.wait_ready();
    let long = |image: Image| Image { end: image.end.map(|end| end + 100 * SECOND), ..image };
    let prolog = Image { uid: Some(0), user: Some("root".into()), ..below(1, 9, "/etc/slurm/prolog") };
    let failed = Image { exit_code: Some(1), ..below(10, 13, "/usr/bin/tty") };
    let sed = Image { count: 30, ..below(10, 12, "/usr/bin/sed") };
    let all = [
        prolog,
        long(below(1, 10, "/usr/bin/bash")),
        below(10, 11, "/usr/bin/uname"),
        sed,
        failed,
        long(below(10, 14, "/usr/bin/sort")),
        long(below(10, 15, "/home/alice/solver")),
        below(10, 16, "/usr/bin/tput"),
        below(10, 17, "/home/alice/bin/ls"),
    ];
    bring(&server, &all.map(entry));
    let shown = |arguments: &[&str]| text(&tell(&server, &[&["job", "17"], arguments].concat()).stdout);
    let tree = shown(&[]);
    assert!(tree.contains("├─ + 32 short system programs of the shell and module system"), "{tree}");
    for kept in
        ["/usr/bin/tty", "/usr/bin/sort", "/home/alice/solver", "/home/alice/bin/ls", "/etc/slurm/prolog"]
    {
        assert!(tree.contains(kept), "{kept}: {tree}");
    }
    for folded in ["uname", "sed", "tput"] {
        assert!(!tree.contains(folded), "{folded}: {tree}");
        assert!(shown(&["--all"]).contains(folded), "{folded}");
    }
    assert!(tree.contains("User      alice\n") && !tree.contains("root"), "{tree}");
    let whole = &parse(&tell(&server, &["job", "17", "--json"]))[0];
    assert_eq!(whole["processes"].as_array().map(Vec::len), Some(9));
    assert_eq!(whole["users"], serde_json::json!(["alice", "root"]));
}

/// Samples of a job on two nodes every minute for an hour, of which a quarter is missing.
fn bring_series(server: &Server) {
    let start = 1_800_000_000 * SECOND;
    let reading = |minute: u64| {
        let time = start + minute * 60 * SECOND;
        let job = |node: &str, cores: u64| {
            let mut values = Values::default();
            values.put(id::CPU, Some(minute * 60 * SECOND * cores));
            values.put(id::MEMORY, Some(minute << 26));
            JobReading {
                job: Some("17".into()),
                node: Some(node.into()),
                user: Some("alice".into()),
                start,
                end: (minute == 60).then_some(time),
                every: 60 * SECOND,
                values,
                reserved: Some(Reserved { cpus: Some(4), memory: Some(8 << 30), gpus: None }),
                ..JobReading::default()
            }
        };
        let jobs = if (20..35).contains(&minute) { vec![] } else { vec![job("a1", 1), job("a2", 3)] };
        Entry::Reading(Box::new(Reading { time, host: HOST.into(), jobs, ..Reading::default() }))
    };
    bring(server, &(1..=60).map(reading).collect::<Vec<_>>());
}

#[test]
fn a_series_is_plotted_on_a_terminal_and_a_table_elsewhere() {
    let dir = new_dir();
    let server = Server::start(dir.path().to_owned(), None);
    server.wait_ready();
    bring_series(&server);
    let series = |metric: &str, arguments: &[&str], locale: &str| {
        let mut command = server.ask(&[&["series", "17", metric], arguments].concat());
        let output = command.env("LC_ALL", locale).env("TZ", "UTC").output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    // Pipes get what they got before.
    assert!(series("cpu", &[], "C.UTF-8").starts_with("NODE "));
    assert_eq!(series("cpu", &[], "C"), series("cpu", &["--table"], "C"));
    let plot = series("cpu", &["--plot"], "C.UTF-8");
    assert!(plot.starts_with("cpu (cores) of job 17, on 2 nodes\n"), "{plot}");
    assert!(plot.chars().any(|c| ('\u{2801}'..='\u{28ff}').contains(&c)), "{plot}");
    assert!(
        plot.contains("2027-01-15 08:00:00 to 2027-01-15 09:00:00 UTC\nLine: average. Dots: min"),
        "{plot}"
    );
    let one = series("cpu", &["--plot", "--node", "a2"], "C");
    assert!(one.is_ascii() && one.starts_with("cpu (cores) of job 17, on a2\n"), "{one}");
    assert!(one.lines().any(|line| line.starts_with("3 +****")), "{one}");
    assert!(one.lines().all(|line| line.chars().count() <= 80), "{one}");
    for time in ["08:15", "08:30", "08:45"] {
        assert!(one.contains(time), "{time}: {one}");
    }
    // A counter is known over the time that was missed, a level is not.
    let gap = |plot: &str| {
        let columns =
            plot.lines().skip(1).take(12).map(|line| line.chars().skip(46).take(2).collect::<String>());
        columns.collect::<String>().trim().is_empty()
    };
    let memory = series("memory", &["--plot", "--node", "a1"], "C");
    assert!(gap(&memory) && !gap(&one), "{memory}{one}");
    assert!(memory.contains("2048M +") && memory.contains("0K +"), "{memory}");
    let output = server.ask(&["series", "17", "cpu", "--plot", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    // On a terminal without being asked, and as wide as that is.
    for columns in [60, 100] {
        let lines = on_terminal(&server, columns, &["series", "17", "cpu"]);
        let widths: Vec<usize> = lines.iter().map(|line| line.chars().count()).collect();
        assert!(lines.len() > 12 && widths.iter().all(|width| *width <= columns), "{lines:#?}");
        assert!(widths.iter().any(|width| *width + 6 > columns), "{lines:#?}");
    }
    assert!(on_terminal(&server, 80, &["series", "17", "cpu", "--table"])[0].starts_with("NODE"));
}

#[test]
fn a_sparkline_says_what_it_is_scaled_to() {
    let dir = new_dir();
    let server = Server::start(dir.path().to_owned(), None);
    server.wait_ready();
    bring_series(&server);
    let shown = text(&tell(&server, &["job", "17", "--resources"]).stdout);
    let line = |title: &str| shown.lines().find(|line| line.starts_with(title)).unwrap().to_owned();
    // Four of eight cores, and at last half of the memory, with a gap where nothing was heard.
    assert!(line("CPU").contains("0 to 8 cores  ▅") && line("CPU").ends_with('▅'), "{shown}");
    assert!(line("Memory").contains("  0 to 16G  ") && line("Memory").ends_with('▄'), "{shown}");
    assert!(line("Memory").contains("▂    "), "{shown}");
}

#[test]
fn a_case_is_shown_from_its_beginning_to_its_end() {
    let dir = new_dir();
    let server = start(dir.path());
    tell(&server, &["cases", "open", "--job", "7", "GPUs not used"]);
    tell(&server, &["cases", "open", "--user", "bob", "another one"]);
    tell(&server, &["cases", "add", "1", "wrote a mail"]);
    let shown = text(&tell(&server, &["cases", "show", "1"]).stdout);
    for part in ["Case 1, open: user ann, because of job 7", "GPUs not used", "wrote a mail"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("another one"), "{shown}");
    tell(&server, &["cases", "close", "1", "a course helped"]);
    let shown = text(&tell(&server, &["cases", "show", "1"]).stdout);
    assert!(shown.contains("Case 1, closed") && shown.trim_end().ends_with("a course helped"), "{shown}");
    let case = &parse(&tell(&server, &["cases", "show", "1", "--json"]))[0];
    assert_eq!(
        (&case["outcome"], case["entries"].as_array().map(Vec::len)),
        (&"a course helped".into(), Some(1))
    );
    assert_eq!(server.ask(&["cases", "show", "9"]).output().unwrap().status.code(), Some(1));
}

/// A server that knows [`JOBS`] and one of 48 hours with four cores, half a day of which was in January.
fn start_with_long(dir: &Path) -> Server {
    let server = start(dir);
    let log = dir.join("long.txt");
    let header =
        "JobID|Cluster|User|Partition|JobName|Submit|Start|End|Elapsed|State|NNodes|NCPUS|NodeList\n";
    let long = "9|tiny|ann|main|fold|2026-01-30T10:00:00|2026-01-31T12:00:00|2026-02-02T12:00:00|2-00:00:00|COMPLETED|2|4|n[0001-0002]\n";
    fs::write(&log, format!("{header}{long}")).unwrap();
    tell(&server, &["import", "slurm", "--time-zone", "UTC", "--file", log.to_str().unwrap()]);
    server
}

/// Groups, each with one of its columns.
fn groups(server: &Server, by: &str, column: &str, arguments: &[&str]) -> Vec<(String, f64)> {
    let rows = jobs(server, &[&["--group-by", by], arguments].concat());
    rows.iter()
        .map(|row| {
            (
                row[by].as_str().unwrap_or("-").to_owned(),
                (row[column].as_f64().unwrap_or(-1.0) * 100.0).round() / 100.0,
            )
        })
        .collect()
}

fn expected(groups: &[(&str, f64)]) -> Vec<(String, f64)> {
    groups.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}

#[test]
fn groups_are_sorted_by_any_of_their_columns_or_refused() {
    let dir = new_dir();
    let server = start_with_long(dir.path());
    let (ann, bob) = (("ann", 208.0), ("bob", 0.67));
    for (sort, order) in [
        (None, [ann, bob]),
        (Some("core_hours"), [bob, ann]),
        (Some("-jobs"), [ann, bob]),
        (Some("-user"), [bob, ann]),
        (Some("wait_avg"), [bob, ann]),
        (Some("-wait_max_s"), [ann, bob]),
    ] {
        let sort: Vec<&str> = sort.map(|sort| ["--sort", sort]).into_iter().flatten().collect();
        assert_eq!(groups(&server, "user", "core_hours", &sort), expected(&order), "{sort:?}");
    }
    let error = refused(&server, &["jobs", "--all-time", "--group-by", "user", "--sort", "-submit"]);
    assert!(
        error.contains("groups have no column `submit`; they have user, jobs, started, core_hours"),
        "{error}"
    );
    let output = tell(&server, &["jobs", "--all-time", "--group-by", "day", "--limit", "2"]);
    assert!(text(&output.stderr).contains("showing 2 of 5 groups"), "{}", text(&output.stderr));
}

#[test]
fn groups_of_time_add_up_to_the_whole() {
    let dir = new_dir();
    let server = start_with_long(dir.path());
    let core_hours = |by: &str| groups(&server, by, "core_hours", &[]);
    assert_eq!(core_hours("month"), expected(&[("2026-01", 64.67), ("2026-02", 144.0)]));
    assert_eq!(core_hours("week"), expected(&[("2026-W01", 16.67), ("2026-W05", 144.0), ("2026-W06", 48.0)]));
    let days = [
        ("2026-01-01", 16.0),
        ("2026-01-02", 0.67),
        ("2026-01-31", 48.0),
        ("2026-02-01", 96.0),
        ("2026-02-02", 48.0),
    ];
    assert_eq!(core_hours("day"), expected(&days));
    let weekdays =
        [("Monday", 48.0), ("Thursday", 16.0), ("Friday", 0.67), ("Saturday", 48.0), ("Sunday", 96.0)];
    assert_eq!(core_hours("weekday"), expected(&weekdays));
    let hours = core_hours("hour");
    assert_eq!((hours.len(), &hours[3]), (24, &("03".to_owned(), 8.0)));
    // 12:00 to 13:00 of two days, and a minute of the first job.
    assert_eq!(hours[12], ("12".to_owned(), 8.13));
    assert_eq!(groups(&server, "hour", "jobs", &[])[3], ("03".to_owned(), 1.0), "one job, on two days");
    for by in ["month", "week", "day", "weekday", "hour", "node", "user", "name", "program"] {
        let sum: f64 = core_hours(by).iter().map(|(_, hours)| hours).sum();
        assert!((sum - 208.67).abs() < 0.1, "{by}: {sum}");
        let started: f64 = groups(&server, by, "started", &[]).iter().map(|(_, started)| started).sum();
        assert_eq!(started, if by == "node" { 5.0 } else { 3.0 }, "{by}");
    }
    assert_eq!(groups(&server, "month", "jobs", &[]), expected(&[("2026-01", 3.0), ("2026-02", 1.0)]));
}

#[test]
fn with_a_time_range_a_job_counts_for_the_time_it_ran_in_it() {
    let dir = new_dir();
    let server = start_with_long(dir.path());
    let between = |since: &str, until: &str| {
        let rows = parse(
            &server
                .ask(&["jobs", "--json", "--group-by", "user", "--since", since, "--until", until])
                .output()
                .unwrap(),
        );
        rows.iter().map(|row| row["core_hours"].as_f64().unwrap()).sum::<f64>()
    };
    let (first, second, third) = ("2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z");
    assert_eq!(format!("{:.2}", between(first, second)), "64.67");
    assert_eq!(format!("{:.2}", between(second, third)), "144.00");
    assert_eq!(format!("{:.2}", between("2026-02-01T06:00:00Z", "2026-02-01T07:00:00Z")), "4.00");
    let days =
        ["--group-by", "day", "--since", "2026-02-01T06:00:00Z", "--until", "2026-02-02T01:00:00Z", "--json"];
    let rows = parse(&server.ask(&[&["jobs"], &days[..]].concat()).output().unwrap());
    let found: Vec<(&str, f64, u64)> = rows
        .iter()
        .map(|row| {
            (
                row["day"].as_str().unwrap(),
                row["core_hours"].as_f64().unwrap(),
                row["started"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(found, [("2026-02-01", 72.0, 0), ("2026-02-02", 4.0, 0)]);
}

#[test]
fn jobs_are_grouped_by_node_name_and_program() {
    let dir = new_dir();
    let server = start_with_long(dir.path());
    let nodes = [("n0001", 104.0), ("n0002", 104.0), ("n0003", 0.67)];
    assert_eq!(groups(&server, "node", "core_hours", &[]), expected(&nodes));
    assert_eq!(groups(&server, "name", "jobs", &[]), expected(&[("fold", 2.0), ("train", 1.0)]));
    let log = dir.path().join("seen.txt");
    let header = "JobID|User|Submit|Start|End|Elapsed|State|NNodes|NCPUS|NodeList\n";
    let seen =
        "17|alice|2027-01-15T07:00:00|2027-01-15T08:00:00|2027-01-15T09:00:00|01:00:00|COMPLETED|1|4|n1\n";
    fs::write(&log, format!("{header}{seen}")).unwrap();
    tell(&server, &["import", "slurm", "--time-zone", "UTC", "--file", log.to_str().unwrap()]);
    bring(&server, &[image(10, "/bin/sh"), image(11, "/opt/gromacs/gmx"), image(12, "/bin/sh")].map(entry));
    let programs = groups(&server, "program", "core_hours", &["--job", "17"]);
    assert_eq!(programs, expected(&[("gmx", 4.0), ("sh", 4.0)]));
    wait_for_tag(&server);
    let tags = groups(&server, "tag", "jobs", &["--job", "7"]);
    assert!(tags.contains(&("job_status COMPLETED".to_owned(), 1.0)), "{tags:?}");
}

/// Jobs are judged within seconds.
fn wait_for_tag(server: &Server) {
    common::wait_until("the job to be judged", || {
        let row = &jobs(server, &["--job", "7", "--fmt", "tags"])[0];
        row["tags"].as_str().is_some_and(|tags| tags.contains("job_status COMPLETED"))
    });
}

#[test]
fn tags_are_listed_by_the_hours_of_recent_jobs_or_of_all() {
    let dir = new_dir();
    let server = start(dir.path());
    let log = dir.path().join("more.txt");
    let header =
        "JobID|Cluster|User|Partition|Submit|Start|End|Elapsed|State|NNodes|NCPUS|NodeList|AllocTRES\n";
    let old = "9|tiny|ann|gpu|2026-01-03T10:00:00|2026-01-03T10:00:00|2026-01-03T20:00:00|10:00:00|COMPLETED|1|1|n0003|cpu=1,gres/gpu=4\n";
    let hour = |ago: i64| {
        let time = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(ago);
        time.strftime("%FT%T").to_string()
    };
    let recent =
        format!("10|tiny|ann|main|{0}|{0}|{1}|01:00:00|COMPLETED|1|2|n0003|cpu=2\n", hour(3), hour(2));
    fs::write(&log, format!("{header}{old}{recent}")).unwrap();
    tell(&server, &["import", "slurm", "--time-zone", "UTC", "--file", log.to_str().unwrap()]);
    tell(&server, &["tags", "set", "9", "job_accel GPU"]);
    let list = |arguments: &[&str]| parse(&tell(&server, &[&["tags", "list", "--json"], arguments].concat()));
    common::wait_until("all jobs to be judged", || list(&["--all-time"])[0]["judged_jobs"] == 4);
    let of = |rows: &[Row], tag: &str| -> (u64, f64) {
        let row = rows.iter().find(|row| row["tag"] == tag).unwrap();
        (row["jobs"].as_u64().unwrap(), row["core_hours"].as_f64().unwrap())
    };
    for (arguments, single) in [
        (&[][..], (1, 2.0)),
        (&["--since", "2026-01-02", "--until", "2026-01-04"], (2, 10.0 + 4.0 / 6.0)),
        (&["--all-time"], (3, 12.0 + 4.0 / 6.0)),
        (&["--until", "2000-01-01"], (0, 0.0)),
    ] {
        let found = of(&list(arguments), "job_nnodes SINGLE");
        assert!(found.0 == single.0 && (found.1 - single.1).abs() < 1e-6, "{arguments:?}: {found:?}");
    }
    // Those that jobs have come first, by GPU hours where they are about GPUs.
    let rows = list(&["--all-time"]);
    let hours = |row: &Row| {
        let column = if row["group"] == "accelerators" { "gpu_hours" } else { "core_hours" };
        row[column].as_f64().unwrap()
    };
    let (with, without): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row["jobs"] != 0);
    assert!(rows[..with.len()].iter().eq(with.iter().copied()) && !without.is_empty(), "{rows:?}");
    assert!(with.windows(2).all(|pair| hours(pair[0]) >= hours(pair[1])), "{with:?}");
    assert_eq!((&with[0]["tag"], hours(with[0])), (&"job_accel GPU".into(), 40.0));
    let table = text(&tell(&server, &["tags", "list", "--all-time"]).stdout);
    assert!(table.lines().nth(1).is_some_and(|line| line.contains("40.0 GPU-h")), "{table}");
    // Of a time without jobs, nobody knows what rules could decide.
    let none = tell(&server, &["tags", "list", "--until", "2000-01-01"]);
    assert!(!text(&none.stdout).contains('%'), "{}", text(&none.stdout));
}

#[test]
fn jobs_without_a_submission_are_listed_by_their_start() {
    let dir = new_dir();
    let server = start(dir.path());
    let log = dir.path().join("seen.txt");
    let rows = "JobID|User|Start|End|State\n\
        20|eve|2026-01-02T00:00:00|2026-01-02T09:00:00|COMPLETED\n\
        21|eve|2026-01-03T00:00:00|2026-01-03T09:00:00|COMPLETED\n";
    fs::write(&log, rows).unwrap();
    tell(&server, &["import", "slurm", "--time-zone", "UTC", "--file", log.to_str().unwrap()]);
    let listed = |arguments: &[&str]| {
        let rows = jobs(&server, arguments);
        rows.iter().map(|row| row["job"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(listed(&[]), ["21", "8", "20", "7"]);
    assert_eq!(listed(&["--limit", "3"]), ["21", "8", "20"]);
    assert_eq!(
        listed(&["--sort", "-submit"])[..2],
        ["8", "7"],
        "what is not known is last where it is asked for"
    );
}
