//! `scontrol show job -d`, as a real one printed it and as users would like it to be read.

use import::slurm::live::{Asked, Live, read};
use import::{Outcome, Problem, Reason};
use proptest::prelude::*;
use record::accounting::Placed;

const JOBS: &[u8] = include_bytes!("data/slurm-22.05/jobs.txt");
const ONE_LINE: &[u8] = include_bytes!("data/slurm-22.05/jobs_one_line.txt");
const MIB: u64 = 1 << 20;

fn collect(text: &[u8], asked: Asked) -> (Vec<Live>, Vec<(String, Reason)>) {
    let mut problems = Vec::new();
    let mut report = |problem: Problem<'_>| {
        assert_eq!(problem.outcome, Outcome::Rejected);
        problems.push((format!("{}", problem.at), problem.reason));
    };
    (read(text, "jobs", asked, &mut report), problems)
}

/// `job: host cpus/MB/gpus, …`
fn shown(job: &Live) -> String {
    let place = |placed: &Placed| {
        let memory = placed.memory.map_or("-".into(), |bytes| (bytes / MIB).to_string());
        let cpus = placed.cpus.as_deref().unwrap_or("-");
        format!("{} {cpus}/{memory}/{}", placed.host, placed.gpus.join("+"))
    };
    format!("{}: {}", job.job, job.placed.iter().map(place).collect::<Vec<_>>().join(", "))
}

fn all_shown(text: &[u8], asked: Asked) -> String {
    let (jobs, problems) = collect(text, asked);
    let jobs = jobs.iter().map(shown);
    let problems = problems.iter().map(|(at, reason)| format!("{at}! {reason}"));
    jobs.chain(problems).collect::<Vec<_>>().join("; ")
}

#[test]
fn what_a_real_cluster_printed() {
    let unsure = Reason::Unsure;
    for (name, text) in [("several lines", JOBS), ("one line", ONE_LINE)] {
        let (jobs, problems) = collect(text, Asked::All);
        let shown: Vec<String> = jobs.iter().map(shown).collect();
        assert_eq!(
            shown,
            [
                "1: n1 0-1/100/, n2 0/100/",
                "8: n1 2/50/",
                "4: n2 1/50/",
                "5: n3 0/60/",
                "6: ",
                "7: ",
                "2: ",
                "10: n1 0-3/10/, n2 0-3/10/",
            ],
            "{name}"
        );
        // A comment has job 777 in it, twice; the name of job 3 has job 4444; job 9 is behind the second comment.
        let reasons: Vec<&Reason> = problems.iter().map(|(_, reason)| reason).collect();
        let twice = Reason::Twice(777);
        assert_eq!(reasons, [&twice, &unsure, &unsure, &twice, &unsure], "{name}");
        let of = |number| jobs.iter().find(|job| job.job == number).unwrap();
        let ids = |job: &Live| (job.array_job, job.array_task, job.array_waiting.clone());
        assert_eq!(ids(of(8)), (Some(2), Some(1), None), "{name}");
        assert_eq!(ids(of(2)), (Some(2), None, Some("2-3%1".into())), "{name}");
        assert_eq!(ids(of(1)), (None, None, None), "{name}");
        assert_eq!((of(5).het_job, of(5).het_offset, of(1).het_job), (Some(4), Some(1), None), "{name}");
    }
}

/// The text from one job up to another.
fn between<'a>(text: &'a [u8], from: &str, to: &str) -> &'a [u8] {
    let of = |job: &str| text.windows(job.len()).position(|window| window == job.as_bytes());
    &text[of(from).unwrap()..of(to).unwrap_or(text.len())]
}

#[test]
fn one_job_is_read_whatever_its_name_is() {
    for text in [JOBS, ONE_LINE] {
        for (from, to, job, expected) in [
            ("JobId=1 ", "JobId=8 ", 1, "1: n1 0-1/100/, n2 0/100/"),
            ("JobId=3 ", "JobId=4 ", 3, "3: n1 3/50/"),
            ("JobId=8 ", "JobId=3 ", 8, "8: n1 2/50/"),
            // What is behind it is of the same heterogeneous job.
            ("JobId=4 ", "JobId=6 ", 4, "4: n2 1/50/"),
            ("JobId=9 ", "JobId=10 ", 9, "9: n3 0-3/50/0+1+2"),
            ("JobId=1 ", "JobId=3 ", 1, "1! UNSURE"),
        ] {
            let expected = expected.replace("UNSURE", &Reason::Unsure.to_string());
            assert_eq!(all_shown(between(text, from, to), Asked::One(job)), expected, "{from}");
        }
        let (jobs, problems) = collect(between(text, "JobId=4 ", "JobId=6 "), Asked::One(5));
        assert!(jobs.is_empty());
        assert_eq!(problems, [("1".to_owned(), Reason::OtherJob { asked: 5, found: 4 })]);
    }
}

/// A job with this name, these lines of places and this comment.
fn job(number: &str, name: &str, places: &str, comment: &str) -> String {
    format!(
        "JobId={number} JobName={name}\n   UserId=ann(1001) GroupId=ann(1001) MCS_label=N/A\n   \
         NodeList=n1\n   JOB_GRES=(null)\n   {places}MinCPUsNode=1 MinMemoryNode=50M MinTmpDiskNode=0\n   \
         Comment={comment}\n   Power=\n   \n\n"
    )
}

#[test]
fn places_of_every_version() {
    for (places, expected) in [
        (
            "  Nodes=n[1-2] CPU_IDs=0-3,8 Mem=1024 GRES=gpu:a100:2(IDX:0-1)\n   ",
            "1: n1 0-3,8/1024/0+1, n2 0-3,8/1024/0+1",
        ),
        ("  Nodes=n1 CPU_IDs=0 Mem=1 GRES_IDX=gpu(IDX:0)\n   ", "1: n1 0/1/0"),
        ("  Nodes=n1 CPU_IDs=0 Mem=1 GRES_IDX=\n   ", "1: n1 0/1/"),
        ("  Nodes=n1 CPU_IDs=0 Mem=1\n   ", "1: n1 0/1/"),
        (
            "  Nodes=n2 CPU_IDs=0 Mem=1 GRES=\n     Nodes=n1 CPU_IDs=1 Mem=2 GRES=gpu:4(IDX:0,2-3)\n   ",
            "1: n2 0/1/, n1 1/2/0+2+3",
        ),
        // Memory is not shared out, or was not told.
        ("  Nodes=n1 CPU_IDs=0 Mem=0 GRES=\n   ", "1: n1 0/-/"),
        ("  Nodes=n1 CPU_IDs=0 Mem=18446744073709551614 GRES=\n   ", "1: n1 0/-/"),
        ("  Nodes=n1 CPU_IDs= Mem=5 GRES=\n   ", "1: n1 -/5/"),
        ("", "1: "),
        // Not right before what follows.
        ("  Nodes=n1 CPU_IDs=0 Mem=1 GRES=\n   TresBind=x\n   ", "1: "),
        ("  Nodes=n[1 CPU_IDs=0 Mem=1 GRES=\n   ", "1! Nodes cannot be `n[1`"),
        ("  Nodes= CPU_IDs=0 Mem=1 GRES=\n   ", "1! Nodes cannot be ``"),
        ("  Nodes=n1 CPU_IDs=0x1 Mem=1 GRES=\n   ", "1! CPU_IDs cannot be `0x1`"),
        ("  Nodes=n1 CPU_IDs=0 Mem=1G GRES=\n   ", "1! Mem cannot be `1G`"),
        ("  Nodes=n1 CPU_IDs=0 Mem=1 GRES=gpu(IDX:x)\n   ", "1! GRES cannot be `gpu(IDX:x)`"),
        ("  Nodes=n1 Mem=1 GRES=\n   ", "1! Mem cannot be `1`"),
    ] {
        assert_eq!(all_shown(job("1", "a", places, "").as_bytes(), Asked::All), expected, "{places}");
    }
}

#[test]
fn heads_of_every_kind() {
    let job = |head: &str| job(head, "a", "", "");
    for (head, expected) in [
        ("7", Live { job: 7, ..Live::default() }),
        (
            "7 ArrayJobId=5 ArrayTaskId=0",
            Live { job: 7, array_job: Some(5), array_task: Some(0), ..Live::default() },
        ),
        // All its tasks were cancelled.
        (
            "7 ArrayJobId=7 ArrayTaskId=4294967294 ArrayTaskThrottle=1",
            Live { job: 7, array_job: Some(7), ..Live::default() },
        ),
        ("7 ArrayJobId=7 ArrayTaskId=N/A", Live { job: 7, array_job: Some(7), ..Live::default() }),
        (
            "7 SLUID=sX HetJobId=6 HetJobOffset=1",
            Live { job: 7, het_job: Some(6), het_offset: Some(1), ..Live::default() },
        ),
    ] {
        assert_eq!(collect(job(head).as_bytes(), Asked::All), (vec![expected], vec![]), "{head}");
    }
    for head in ["x", "-7", "7 ArrayJobId=x", "99999999999999999999"] {
        let (jobs, problems) = collect(job(head).as_bytes(), Asked::All);
        assert!(jobs.is_empty() && problems.len() == 1, "{head}");
    }
}

#[test]
fn users_cannot_move_a_job() {
    let place = "  Nodes=n1 CPU_IDs=0 Mem=1 GRES=\n   ";
    let lie = "  Nodes=n9 CPU_IDs=0-99 Mem=9 GRES=gpu:1(IDX:0)";
    let full_lie = job("2", "b", &format!("{lie}\n   "), "");
    for (name, comment, all, one) in [
        (format!("a\n   {lie}"), String::new(), "1: n1 0/1/", "1: n1 0/1/"),
        (format!("a {lie} MinMemoryNode=1"), String::new(), "1: n1 0/1/", "1: n1 0/1/"),
        (String::new(), format!("c\n   {lie}\n   "), "1: n1 0/1/", "1: n1 0/1/"),
        ("HetJobId=9 ArrayJobId=9".into(), "JobId=2".into(), "1: n1 0/1/", "1: n1 0/1/"),
        // It can be read in two ways.
        (format!("a\n   {lie}\n   MinCPUsNode=1"), String::new(), "1! UNSURE", "1! UNSURE"),
        (String::new(), format!("c {lie} MinCPUsNode=1"), "1! UNSURE", "1! UNSURE"),
        ("a\nJobId=2 JobName=b".into(), String::new(), "1! UNSURE; 2! UNSURE", "1: n1 0/1/"),
        // A lie about a job that is in the list: nobody knows which of the two is true.
        (
            String::new(),
            format!("c\n\n{}", full_lie.replace("JobId=2", "JobId=1")),
            "1! TWICE; 9! TWICE",
            "1! UNSURE",
        ),
        // About one that is not in it; who asks for one does not get it.
        (String::new(), format!("c\n\n{full_lie}"), "1: n1 0/1/; 2: n9 0-99/9/0", "1! UNSURE"),
    ] {
        let text = job("1", &name, place, &comment);
        for (asked, expected) in [(Asked::All, all), (Asked::One(1), one)] {
            let expected = expected
                .replace("UNSURE", &Reason::Unsure.to_string())
                .replace("TWICE", &Reason::Twice(1).to_string());
            assert_eq!(all_shown(text.as_bytes(), asked), expected, "{text}");
        }
    }
}

#[test]
fn what_else_a_command_may_print() {
    for (text, expected) in [
        ("", ""),
        ("No jobs in the system\n", ""),
        ("slurm_load_jobs error: Invalid job id specified\n", "1! not what this command prints"),
        ("JobId=1 JobName=a\n   UserId=ann(1001)", "1! UNSURE"),
    ] {
        let expected = expected.replace("UNSURE", &Reason::Unsure.to_string());
        assert_eq!(all_shown(text.as_bytes(), Asked::All), expected, "{text}");
    }
}

#[test]
fn there_is_a_bound_on_what_is_made_of_a_text() {
    let line = "  Nodes=n[1-200000] CPU_IDs=0 Mem=1 GRES=\n   ";
    let (jobs, problems) = collect(job("1", "a", &line.repeat(9), "").as_bytes(), Asked::All);
    assert!(jobs.is_empty());
    assert!(matches!(problems[..], [(_, Reason::TooManyNodes(_))]));
    let gpus = "  Nodes=n[1-20000] CPU_IDs=0 Mem=1 GRES=gpu:1000(IDX:0-999)\n   ";
    let cpus = format!("  Nodes=n[1-20000] CPU_IDs={} Mem=1 GRES=\n   ", "0,".repeat(5000));
    for places in [gpus, &cpus] {
        let (jobs, problems) = collect(job("1", "a", places, "").as_bytes(), Asked::All);
        assert!(jobs.is_empty() && matches!(problems[..], [(_, Reason::TooManyNodes(_))]));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        words in proptest::collection::vec(prop_oneof![
            Just("JobId=1 "), Just("\nJobId=2 "), Just("ArrayTaskId=1-2"), Just(" JobName="), Just(" Nodes=n[1-2]"),
            Just(" CPU_IDs=0-1"), Just(" Mem=5"), Just(" GRES=gpu(IDX:0)"), Just(" MinCPUsNode=1"), Just("\n   "), Just("="),
        ], 0..30),
    ) {
        let text = words.concat();
        for text in [&bytes[..], text.as_bytes()] {
            for asked in [Asked::All, Asked::One(1)] {
                let _ = collect(text, asked);
            }
        }
    }

    #[test]
    fn no_name_gives_a_job_other_places(name in "[a-zA-Z= \n]{0,40}|(JobId=|Nodes=|Mem=|MinCPUsNode=|\n| |[0-9]){0,9}") {
        let place = "  Nodes=n1 CPU_IDs=0 Mem=1 GRES=\n   ";
        let (jobs, _) = collect(job("1", &name, place, &name).as_bytes(), Asked::One(1));
        for job in jobs {
            prop_assert_eq!(shown(&job), "1: n1 0/1/");
        }
    }
}
