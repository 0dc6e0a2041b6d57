//! Cleo's short log and its rows.

use import::cleo::{log, rows};
use import::{At, Collected, Outcome};
use jiff::tz::TimeZone;
use proptest::prelude::*;
use record::accounting::{Accounting, Canceller, Exit, State, TimeLimit};

const SECOND: u64 = 1_000_000_000;
/// 2015-05-28 10:00 in Moscow.
const TEN: u64 = 1_432_796_400;

fn moscow() -> TimeZone {
    TimeZone::posix("MSK-3").unwrap()
}

fn read_log(text: &str, zone: &TimeZone) -> Collected {
    let mut found = Collected::default();
    log::read(text.as_bytes(), "cleo-short.log", zone, Some("lom"), &mut found).unwrap();
    found
}

/// Lines at minutes past ten.
fn at_ten(lines: &[(u64, &str)]) -> String {
    lines.iter().map(|(minute, rest)| format!("[Thu May 28 10:{minute:02}:00 2015] {rest}\n")).collect()
}

/// Times in minutes past ten.
fn times(job: &Accounting) -> [Option<i64>; 3] {
    [job.submit, job.start, job.end]
        .map(|time| time.map(|time| (time / SECOND) as i64 / 60 - TEN as i64 / 60))
}

fn shown(job: &Accounting) -> String {
    let state = job.state.map_or("-", State::name);
    let [submit, start, end] = times(job).map(|time| time.map_or("-".into(), |time| time.to_string()));
    let nodes = job.node_list.as_deref().unwrap_or("-");
    format!(
        "{}:{} {state} {submit} {start} {end} {nodes}",
        job.partition.as_deref().unwrap_or("-"),
        job.shown
    )
}

#[test]
fn a_task_from_its_first_line_to_its_last() {
    let text = at_ten(&[
        (0, "main    :ADD request ann; main; 4; ./a.out 1; 2"),
        (0, "main    :ADDED 7; ;0; ann; 4; ./a.out 1; 2"),
        (5, "main    :RUN 7; ann; 4; ./a.out 1; 2"),
        (5, "main    :RUN_NODES 7; ann; 4; 0; n1:1,n1:2,n2:1,n2:2; "),
        (9, "main    :END_TASK0 7"),
        (10, "main    :END_TASK 7; ann; 1; 9; 0:05:00"),
        (10, "main    :END_TASK_NODES 7; n1,n1,n2,n2"),
    ]);
    let found = read_log(&text, &moscow());
    assert_eq!(found.problems, []);
    let [job] = &found.jobs[..] else { panic!("{found:?}") };
    assert_eq!(shown(job), "main:7 FAILED 0 5 10 n[1-2]");
    assert_eq!(
        (job.cluster.as_deref(), job.job.as_deref(), job.user.as_deref()),
        (Some("lom"), Some("7"), Some("ann"))
    );
    assert_eq!((job.nodes, job.cpus, job.requested_cpus), (Some(2), Some(4), Some(4)));
    assert_eq!((job.elapsed, job.exit), (Some(300 * SECOND), Some(Exit { code: Some(1), signal: Some(9) })));
    assert_eq!(job.submit_line.as_ref().unwrap().to_string(), "./a.out 1; 2");
}

#[test]
fn tasks_that_the_log_cuts_are_kept() {
    for (lines, expected) in [
        (
            vec![(9, "q:END_TASK 1; ann; 0; 0; 1:09:00"), (9, "q:END_TASK_NODES 1; n1")],
            "q:1 COMPLETED - -60 9 n1",
        ),
        (vec![(9, "q:END_TASK_NODES 1; n1"), (9, "q:END_TASK 1; ann; 0; 0; 60")], "q:1 COMPLETED - 8 9 n1"),
        (vec![(9, "q:END_TASK 1; ann; 0; 0; 60")], "q:1 COMPLETED - 8 9 -"),
        (vec![(1, "q:RUN 1; ann; 1; x"), (9, "q:END_TASK0 1")], "q:1 - - 1 9 -"),
        (vec![(9, "q:END_TASK 1; ann; -1; 0; 60")], "q:1 FAILED - 8 9 -"),
        (vec![(9, "q:END_TASK_NODES 1; n1,n2")], "q:1 - - - - n[1-2]"),
        (vec![(1, "q:RUN 1; ann; 1; x")], "q:1 RUNNING - 1 - -"),
        (vec![(1, "q:RUN_NODES 1; ann; 1; 1; n1; n3")], "q:1 PENDING - - - n[1,3]"),
        (vec![(1, "q:ADDED 1; ;0; ann; 1; x")], "q:1 PENDING 1 - - -"),
    ] {
        let found = read_log(&at_ten(&lines), &moscow());
        assert_eq!(found.problems, [], "{lines:?}");
        assert_eq!(found.jobs.iter().map(shown).collect::<Vec<_>>(), [expected], "{lines:?}");
    }
}

#[test]
fn numbers_belong_to_queues() {
    for (lines, expected) in [
        // From one queue to another, with a new number.
        (
            vec![
                (0, "main:ADDED 1; ;0; ann; 1; x"),
                (1, "sub:ADDED 9; main;1; ann; 1; x"),
                (2, "sub:RUN 9; ann; 1; x"),
            ],
            "sub:9 RUNNING 0 2 - -",
        ),
        // The same number in two queues.
        (
            vec![(0, "a:RUN 1; ann; 1; x"), (1, "b:RUN 1; bob; 1; y")],
            "a:1 RUNNING - 0 - -; b:1 RUNNING - 1 - -",
        ),
        // The same number again.
        (
            vec![(0, "a:RUN 1; ann; 1; x"), (1, "a:ADDED 1; ;0; bob; 1; y")],
            "a:1 RUNNING - 0 - -; a:1 PENDING 1 - - -",
        ),
        (
            vec![
                (0, "a:END_TASK 1; ann; 0; 0; 60"),
                (1, "a:ADDED 1; ;0; bob; 1; y"),
                (2, "a:END_TASK 1; bob; 0; 0; 30"),
                (2, "a:END_TASK_NODES 1; n1"),
            ],
            "a:1 COMPLETED - -1 0 -; a:1 COMPLETED 1 1 2 n1",
        ),
    ] {
        let found = read_log(&at_ten(&lines), &moscow());
        assert_eq!(found.jobs.iter().map(shown).collect::<Vec<_>>().join("; "), expected);
    }
}

#[test]
fn who_asked_for_the_end_is_known() {
    let by = |lines: &[(u64, &str)]| {
        let job = read_log(&at_ten(lines), &moscow()).jobs.remove(0);
        (job.state, job.cancelled_by)
    };
    let run = (0, "q:RUN 1; ann; 1; x");
    let del = (1, "q:DEL request root; q; 1");
    let root = Some(Canceller::User("root".into()));
    assert_eq!(by(&[run, del, (2, "q:END_TASK 1; ann; 0; 15; 60")]), (Some(State::Cancelled), root.clone()));
    assert_eq!(by(&[run, del, (2, "q:END_TASK 1; ann; 0; 0; 60")]), (Some(State::Completed), None));
    assert_eq!(by(&[run, del]), (Some(State::Running), None));
    assert_eq!(by(&[(0, "q:ADDED 1; ;0; ann; 1; x"), del]), (Some(State::Cancelled), root));
}

#[test]
fn what_is_no_event_is_rejected() {
    for line in [
        "garbage",
        "[Thu May 28 10:00:00 2015] q",
        "[Thu May 28 10:00:00 2015] q:DANCE 1",
        "[Thu May 99 10:00:00 2015] q:RUN 1; ann; 1; x",
        "[Thu May 28 10:00 2015] q:RUN 1; ann; 1; x",
        "[Thu Mai 28 10:00:00 2015] q:RUN 1; ann; 1; x",
        "[Thu May 28 10:00:00 1915] q:RUN 1; ann; 1; x",
        "[Thu May 28 10:00:00 2015] q:RUN x; ann; 1; x",
        "[Thu May 28 10:00:00 2015] q:RUN 1; ann",
        "[Thu May 28 10:00:00 2015] q:END_TASK 1; ann; 0; 0; long",
        "[Thu May 28 10:00:00 2015] q:END_TASK 1; ann; bad; 0; 60",
        "[Thu May 28 10:00:00 2015] q:DEL everything",
    ] {
        let found = read_log(&format!("{line}\n"), &moscow());
        assert!(matches!(found.problems[..], [(At::Line(1), Outcome::Rejected, _)]), "{line}: {found:?}");
        assert!(found.jobs.is_empty(), "{line}: {found:?}");
    }
    for line in ["q:VIEW x", "q:CANCEL: 5", "q:RUN_FAIL 5", "q:PRI request ann; q; 1; 2", "q:RUN2 1; x"] {
        let found = read_log(&at_ten(&[(0, line)]), &moscow());
        assert!(found.problems.is_empty() && found.jobs.is_empty(), "{line}: {found:?}");
    }
}

#[test]
fn an_hour_that_comes_twice_is_told_apart() {
    let zone = TimeZone::posix("MSK-3MSD,M3.5.0,M10.5.0/3").unwrap();
    let line = |clock: &str, rest: &str| format!("[Sun Oct 31 {clock}:00 2010] q:{rest}\n");
    let text = line("02:50", "RUN 1; ann; 1; x") + &line("02:10", "END_TASK 1; ann; 0; 0; 0:20:00");
    let job = &read_log(&text, &zone).jobs[0];
    assert_eq!(job.end.unwrap() - job.start.unwrap(), 20 * 60 * SECOND);
}

#[test]
fn tasks_without_nodes_do_not_pile_up() {
    let text: String =
        (0..3000).map(|id| format!("[Thu May 28 10:00:00 2015] q:END_TASK {id}; a; 0; 0; 1\n")).collect();
    let found = read_log(&text, &moscow());
    let ids: Vec<_> = found.jobs.iter().map(|job| job.shown.parse::<u64>().unwrap()).collect();
    assert_eq!(ids, (0..3000).collect::<Vec<_>>());
}

/// The number of a task that ended without nodes was given to another, which runs on while many others end.
#[test]
fn a_number_given_again_is_not_given_out_early() {
    let end = |id: u64| format!("q:END_TASK {id}; a; 0; 0; 60");
    let others: Vec<String> = (2..1500).map(end).collect();
    let (first, last) = (end(1), end(1));
    let mut lines = vec![(0, first.as_str()), (1, "q:ADDED 1; ;0; bob; 1; y"), (2, "q:RUN 1; bob; 1; y")];
    lines.extend(others.iter().map(|line| (3, line.as_str())));
    lines.push((9, last.as_str()));
    let found = read_log(&at_ten(&lines), &moscow());
    let of_one: Vec<_> = found.jobs.iter().filter(|job| job.shown == "1").map(shown).collect();
    assert_eq!(of_one, ["q:1 COMPLETED - -1 0 -", "q:1 COMPLETED 1 2 9 -"]);
}

fn read_rows(text: &[u8]) -> Collected {
    let mut found = Collected::default();
    rows::read(text, "rows", &moscow(), Some("lom"), &mut found).unwrap();
    found
}

#[test]
fn rows_of_tasks() {
    let found = read_rows(
        b"12;ann;./run; fast;/home/ann;main;1432796400;1432796460;1432796760;n2:1,n1:1,n1:2;3;86400;0\r\n",
    );
    assert_eq!(found.problems, []);
    let job = &found.jobs[0];
    assert_eq!(shown(job), "main:12 COMPLETED 0 1 6 n[1-2]");
    assert_eq!(job.submit_line.as_ref().unwrap().to_string(), "./run; fast");
    assert_eq!(job.work_dir.as_ref().unwrap().to_string(), "/home/ann");
    assert_eq!((job.cpus, job.nodes, job.elapsed), (Some(3), Some(2), Some(300 * SECOND)));
    assert_eq!(
        (job.time_limit, job.cluster.as_deref()),
        (Some(TimeLimit::Nanos(86400 * SECOND)), Some("lom"))
    );
    for (row, expected) in [
        (";;;m;1432796400;0;0;;1;0;pending", "m:1 PENDING 0 - - -"),
        (";;;m;2015-05-28T10:00:00;0;0;;1;0;5", "m:1 FAILED 0 - - -"),
    ] {
        let found = read_rows(format!("1;ann{row}").as_bytes());
        assert_eq!(found.jobs.iter().map(shown).collect::<Vec<_>>(), [expected], "{:?}", found.problems);
    }
}

#[test]
fn a_row_that_waits_has_requested_its_cores_and_has_none() {
    let found = read_rows(
        b"1;ann;./run;/home;m;1432796400;0;0;;8;0;pending\n2;ann;./run;/home;m;1432796400;0;0;;0;0;pending\n",
    );
    let cores: Vec<_> = found.jobs.iter().map(|job| (job.cpus, job.requested_cpus)).collect();
    assert_eq!(cores, [(None, Some(8)), (None, None)]);
}

#[test]
fn rows_that_are_broken() {
    for (row, outcome) in [
        ("1;ann;x;/h;m;0;0;0;;1;0", Outcome::Rejected),
        ("x;ann;x;/h;m;0;0;0;;1;0;0", Outcome::Rejected),
        ("1;ann;x;/h;m;soon;0;0;;1;0;0", Outcome::Rejected),
        ("1;ann;x;/h;m;0;0;0;n[1;1;0;0", Outcome::Rejected),
        ("1;ann;x;y;h;m;0;0;0;;1;0;0", Outcome::Rejected),
        ("1;ann;x;/h;m;0;0;0;;many;0;0", Outcome::Rejected),
        ("1;ann;x;/h;m;0;1432796460;1432796400;;1;0;0", Outcome::Doubted),
        ("1;ann;x;/h;m;99999999999;0;0;;1;0;0", Outcome::Doubted),
        ("1;ann;x;/h;m;0;0;0;;1;0;odd", Outcome::Doubted),
    ] {
        let found = read_rows(row.as_bytes());
        assert_eq!(found.problems.iter().map(|problem| problem.1).collect::<Vec<_>>(), [outcome], "{row}");
        assert_eq!(found.jobs.len(), usize::from(outcome == Outcome::Doubted), "{row}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), events in proptest::collection::vec("(ADDED|RUN|RUN_NODES|END_TASK|END_TASK_NODES|DEL request) [0-9a-z;:, ]{0,30}", 0..9)) {
        let _ = read_rows(&bytes);
        let _ = log::read(&bytes[..], "log", &moscow(), None, &mut Collected::default());
        let text: String = events.iter().map(|event| format!("[Thu May 28 10:00:00 2015] q:{event}\n")).collect();
        let _ = read_log(&text, &moscow());
        let _ = read_rows(text.replace(' ', ";").as_bytes());
    }
}
