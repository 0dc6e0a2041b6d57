//! `sacct` as text, of every kind that was seen.

use std::io::{BufReader, Write};

use import::slurm::text::{Options, read};
use import::{At, Collected, Error, Outcome, Problem, Reason, Sink};
use jiff::tz::TimeZone;
use proptest::prelude::*;
use record::accounting::{Accounting, Canceller, Exit, MemoryPer, RequestedMemory, State, TimeLimit, Tres};
use record::bytes::Bytes;

const SECOND: u64 = 1_000_000_000;
const MIB: u64 = 1 << 20;

fn options() -> Options {
    Options::new(TimeZone::UTC)
}

fn listed(fields: &str) -> Options {
    Options { fields: Some(fields.split(',').map(str::to_owned).collect()), ..options() }
}

fn collect(text: &[u8], options: &Options) -> Collected {
    let mut found = Collected::default();
    // A small buffer, so that lines lie across its end.
    read(BufReader::with_capacity(7, text), "log", options, &mut found).unwrap();
    found
}

/// Reads one line of one field (and the job's number).
fn one(field: &str, text: &str) -> Collected {
    collect(format!("JobIDRaw|{field}\n1|{text}\n").as_bytes(), &options())
}

/// Jobs as `number/name`, problems as `line outcome`.
fn shown(found: &Collected) -> String {
    let name =
        |name: &Option<Bytes>| name.as_ref().map_or("-".into(), ToString::to_string).replace('\n', "\\n");
    let jobs = found.jobs.iter().map(|job| {
        let steps: String =
            job.steps.iter().map(|step| format!(" .{}/{}", step.step, name(&step.name))).collect();
        format!("{}/{}{steps}", job.shown, name(&job.name))
    });
    let problems = found.problems.iter().map(|(at, outcome, _)| format!("{at} {outcome:?}"));
    jobs.chain(problems).collect::<Vec<_>>().join("; ")
}

fn gres(name: &str, count: u64) -> Tres {
    Tres { kind: "gres".into(), name: Some(name.into()), count }
}

fn tres(kind: &str, count: u64) -> Tres {
    Tres { kind: kind.into(), name: None, count }
}

const FULL: &[u8] = b"\
JobID|JobIDRaw|Cluster|Account|User|UID|Group|GID|Partition|QOS|Reservation|WCKey|JobName|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|State|ExitCode|DerivedExitCode|Reason|Restarts|NNodes|NCPUS|ReqCPUS|NTasks|ReqTRES|AllocTRES|NodeList|ReqMem|MaxRSS|MaxRSSNode|MaxRSSTask|AveRSS|TotalCPU|UserCPU|SystemCPU|TRESUsageInTot|TRESUsageOutMax|ConsumedEnergyRaw|Priority|Flags|Comment|AdminComment|SystemComment|Extra|SubmitLine|WorkDir|StdOut|Container|Constraints|Licenses|SLUID
70_4|74|deep|physics|ann|1001|staff|50|gpu|high|res1|*default|md|2024-02-29T10:00:00|2024-02-29T10:00:01|2024-02-29T11:00:00|2024-02-29T12:00:00|3600|120|OUT_OF_MEMORY|0:125|0:9|QOSLimit|2|2|16|8||billing=16,cpu=8,gres/gpu=4,mem=64G,node=2|billing=16,cpu=16,gres/gpu:a100=4,gres/gpu=4,mem=64G,node=2|n[01-02]|64G|||||01:23.456|00:59.000|00:24.456|||0|4294901758|SchedMain,StartRecieved|c1|c2|c3|x=1|sbatch -p gpu job.sh|/home/ann|/home/ann/%j|oci|a100&ib|matlab:1|sEKN
70_4.batch|74.batch|deep|physics|||||||||batch|2024-02-29T11:00:00|2024-02-29T11:00:00|2024-02-29T11:00:00|2024-02-29T12:00:00|3600||OUT_OF_MEMORY|0:125||||1|8|8|1||cpu=8,mem=32G,node=1|n01||1.5G|n01|0|1024K|00:00:00|00:59.000|00:24.456|cpu=00:01:23,fs/disk=10.5M,mem=1.5G|fs/disk=3K|1500|||||||||||||
70_4.0|74.0|deep|physics|||||||||a.out|2024-02-29T11:00:10|2024-02-29T11:00:10|2024-02-29T11:00:10|2024-02-29T11:10:10|600||CANCELLED by 1001|0:15||||2|16|16|16||cpu=16,mem=64G,node=2|n[01-02]||0|||0|00:00:00|00:00:00|00:00:00||||||||||srun ./a.out||||||
";

#[test]
fn a_job_with_everything() {
    let found = collect(FULL, &options());
    assert_eq!(found.problems, []);
    let [job] = &found.jobs[..] else { panic!("{:?}", found.jobs) };
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let names = [
        &job.cluster,
        &job.job,
        &job.account,
        &job.user,
        &job.group,
        &job.partition,
        &job.qos,
        &job.reservation,
        &job.wckey,
        &job.reason,
        &job.node_list,
        &job.constraints,
        &job.licenses,
        &job.sluid,
    ];
    let expected = "deep 74 physics ann staff gpu high res1 *default QOSLimit n[01-02] a100&ib matlab:1 sEKN";
    assert_eq!(names.map(text).join(" "), expected);
    let written = [
        &job.name,
        &job.comment,
        &job.admin_comment,
        &job.system_comment,
        &job.extra,
        &job.submit_line,
        &job.work_dir,
        &job.stdout,
        &job.container,
    ];
    let expected = "md c1 c2 c3 x=1 sbatch -p gpu job.sh /home/ann /home/ann/%j oci";
    assert_eq!(written.map(|text| text.as_ref().unwrap().to_string()).join(" "), expected);
    assert_eq!((&*job.shown, job.array_job, job.array_task), ("70_4", Some(70), Some(4)));
    assert_eq!((job.uid, job.gid, job.restarts), (Some(1001), Some(50), Some(2)));
    assert_eq!((job.nodes, job.cpus, job.requested_cpus, job.tasks), (Some(2), Some(16), Some(8), Some(16)));
    let day = 1_709_200_800 * SECOND;
    assert_eq!((job.submit, job.eligible), (Some(day), Some(day + SECOND)));
    assert_eq!((job.start, job.end), (Some(day + 3600 * SECOND), Some(day + 7200 * SECOND)));
    assert_eq!((job.elapsed, job.time_limit), (Some(3600 * SECOND), Some(TimeLimit::Nanos(7200 * SECOND))));
    assert_eq!((job.state, &job.cancelled_by), (Some(State::OutOfMemory), &None));
    assert_eq!(job.exit, Some(Exit { code: Some(0), signal: Some(125) }));
    assert_eq!(job.derived_exit, Some(Exit { code: Some(0), signal: Some(9) }));
    assert_eq!(job.requested_memory, Some(RequestedMemory { bytes: 65536 * MIB, per: MemoryPer::Job }));
    let memory = tres("mem", 65536 * MIB);
    let cpus =
        [tres("billing", 16), tres("cpu", 16), gres("gpu:a100", 4), gres("gpu", 4), memory, tres("node", 2)];
    assert_eq!(job.allocated, cpus);
    assert_eq!(record::accounting::gpus(&job.requested), Some(4));
    assert_eq!((job.priority, job.flags.join(" ").as_str()), (Some(4294901758), "SchedMain StartRecieved"));
    assert_eq!(job.used.total_cpu, Some(83_456_000_000));
    assert_eq!((job.used.energy, job.used.max_rss), (None, Some(1536 * MIB)));
}

#[test]
fn steps_are_the_jobs() {
    let found = collect(FULL, &options());
    let [batch, srun] = &found.jobs[0].steps[..] else { panic!("{:?}", found.jobs) };
    assert_eq!((&*batch.step, batch.tasks, batch.cpus), ("batch", Some(1), Some(8)));
    let used = &batch.used;
    assert_eq!(
        (used.max_rss, used.max_rss_node.as_deref(), used.max_rss_task),
        (Some(1536 * MIB), Some("n01"), Some(0))
    );
    assert_eq!((used.average_rss, used.energy), (Some(MIB), Some(1500)));
    // Slurm 25.05 says that the sum of both is zero.
    assert_eq!((used.total_cpu, used.system_cpu), (Some(83_456_000_000), Some(24_456_000_000)));
    let disk = |count| Tres { kind: "fs".into(), name: Some("disk".into()), count };
    assert_eq!(used.in_total, [tres("cpu", 83 * SECOND), disk(10752 * 1024), tres("mem", 1536 * MIB)]);
    assert_eq!(used.out_max, [disk(3072)]);
    assert_eq!((&*srun.step, srun.state), ("0", Some(State::Cancelled)));
    assert_eq!(srun.cancelled_by, Some(Canceller::Uid(1001)));
    assert_eq!(srun.submit_line.as_ref().unwrap().to_string(), "srun ./a.out");
    // It ended before anybody looked.
    assert_eq!((srun.used.max_rss, srun.used.total_cpu, srun.used.user_cpu), (None, None, None));
}

#[test]
fn fields_mean_what_they_say() {
    let memory = |bytes, per| Some(RequestedMemory { bytes, per });
    for (text, expected) in [
        ("31000Mn", memory(31000 * MIB, MemoryPer::Node)),
        ("4Gc", memory(4096 * MIB, MemoryPer::Cpu)),
        // 3000 and the bit for "per processor", as versions before 17.02 have it.
        ("2147486648Mn", memory(3000 * MIB, MemoryPer::Cpu)),
        ("1.50T", memory(1536 * 1024 * MIB, MemoryPer::Job)),
        ("3P", memory(3 << 50, MemoryPer::Job)),
        ("250", memory(250 * MIB, MemoryPer::Job)),
        ("512Kn", memory(512 * 1024, MemoryPer::Node)),
        ("0n", None),
        ("?", None),
        ("", None),
    ] {
        let found = one("ReqMem", text);
        assert_eq!((found.jobs[0].requested_memory, &found.problems[..]), (expected, &[][..]), "{text}");
    }
    for (text, expected) in [
        ("UNLIMITED", Some(TimeLimit::Unlimited)),
        ("Partition_Limit", Some(TimeLimit::OfPartition)),
        ("1-06:00:00", Some(TimeLimit::Nanos(108_000 * SECOND))),
        ("INVALID", None),
        ("", None),
    ] {
        assert_eq!(one("Timelimit", text).jobs[0].time_limit, expected, "{text}");
    }
    for (text, expected, by) in [
        ("COMPLETED", Some(State::Completed), None),
        ("CANCELLED", Some(State::Cancelled), None),
        ("CANCELLED by 380693", Some(State::Cancelled), Some(Canceller::Uid(380693))),
        ("NODE_FAIL", Some(State::NodeFail), None),
    ] {
        let job = &one("State", text).jobs[0];
        assert_eq!((job.state, &job.cancelled_by), (expected, &by), "{text}");
    }
    for (text, expected) in [("None assigned", None), ("n[1-2]", Some("n[1-2]")), ("", None)] {
        assert_eq!(one("NodeList", text).jobs[0].node_list.as_deref(), expected, "{text}");
    }
    for (text, expected) in [("12.50K", Some(12_500)), ("0", None), ("4294967294", None)] {
        assert_eq!(one("ConsumedEnergy", text).jobs[0].used.energy, expected, "{text}");
    }
    assert_eq!(one("NNodes", "1.5K").jobs[0].nodes, Some(1536));
    assert_eq!(one("UID", "4294967294").jobs[0].uid, None);
}

#[test]
fn numbers_of_jobs_are_known_or_absent() {
    let read = |text: &str| collect(format!("JobID\n{text}\n").as_bytes(), &options()).jobs.remove(0);
    for (text, job, array, het) in [
        ("12", Some("12"), (None, None), (None, None)),
        ("12_3", None, (Some(12), Some(3)), (None, None)),
        ("12_[4-9%2]", Some("12"), (Some(12), None), (None, None)),
        ("12+0", Some("12"), (None, None), (Some(12), Some(0))),
        ("12+1", None, (None, None), (Some(12), Some(1))),
    ] {
        let found = read(text);
        let (array_found, het_found) =
            ((found.array_job, found.array_task), (found.het_job, found.het_offset));
        assert_eq!((found.job.as_deref(), array_found, het_found), (job, array, het), "{text}");
        assert_eq!(found.shown, text);
    }
    assert_eq!(read("12_[4-9%2]").array_waiting.as_deref(), Some("4-9%2"));
}

/// `sacct` ends the list after 64 bytes, wherever that is.
#[test]
fn an_array_whose_list_was_cut_short_counts_the_tasks_that_are_left() {
    let text = "JobID|JobIDRaw|State\n7_[1,3,5,7,9,11-20,2...%4]|7|PENDING\n8_[1,3,...]|8|PENDING\n";
    let found = collect(text.as_bytes(), &options());
    assert_eq!(found.problems, []);
    let told: Vec<_> = found.jobs.iter().map(|job| (&*job.shown, job.tasks_waiting())).collect();
    assert_eq!(told, [("7_[1,3,5,7,9,11-20,2...%4]", Some(16)), ("8_[1,3,...]", Some(2))]);
}

#[test]
fn what_cannot_be_true_is_left_out_and_said() {
    for (field, text, is_known) in [
        ("ReqMem", "4294970296Mn", (|job| job.requested_memory.is_some()) as fn(&Accounting) -> bool),
        ("ReqMem", "9223372036854779808M", |job| job.requested_memory.is_some()),
        ("Start", "9999-12-31T23:59:59", |job| job.start.is_some()),
        ("Submit", "1970-01-01T00:00:00", |job| job.submit.is_some()),
        ("State", "LEVITATING", |job| job.state.is_some()),
        ("AllocTRES", "energy=-1", |job| !job.allocated.is_empty()),
        ("Start|End", "2024-02-02T00:00:00|2024-02-01T00:00:00", |job| {
            job.end.is_some() || job.start.is_none()
        }),
    ] {
        let found = one(field, text);
        assert!(!is_known(&found.jobs[0]), "{field} {text}: {:?}", found.jobs);
        assert!(matches!(found.problems[..], [(At::Line(2), Outcome::Doubted, _)]), "{field} {text}");
    }
}

#[test]
fn what_has_not_its_form_rejects_the_line() {
    for (field, text) in [
        ("Start", "yesterday"),
        ("Start", "2024-02-30T00:00:00"),
        ("Elapsed", "24"),
        ("ElapsedRaw", "-1"),
        ("State", "all done"),
        ("State", "CANCELLED of 5"),
        ("ExitCode", "1"),
        ("ReqMem", "much"),
        ("ReqMem", "12abn"),
        ("NCPUS", "many"),
        ("UID", "-1"),
        ("UID", "5000000000"),
        ("AllocTRES", "cpu"),
        ("NodeList", "n1 n2"),
        ("JobID", "x"),
        ("Timelimit", "soon"),
    ] {
        let found = one(field, text);
        assert!(found.jobs.is_empty(), "{field} {text}: {:?}", found.jobs);
        let expected = Reason::Unreadable { field: found_name(field), text: Bytes::from(text.as_bytes()) };
        assert_eq!(found.problems, [(At::Line(2), Outcome::Rejected, expected)], "{field} {text}");
    }
}

fn found_name(field: &str) -> &'static str {
    let names =
        ["Start", "Elapsed", "ElapsedRaw", "State", "ExitCode", "ReqMem", "NCPUS", "UID", "AllocTRES"];
    names.into_iter().chain(["NodeList", "JobID", "Timelimit"]).find(|name| *name == field).unwrap()
}

#[test]
fn broken_lines_are_mended_where_that_is_certain() {
    for (text, expected) in [
        // The delimiter in the name.
        ("JobID|JobName|State\n1|a|b|COMPLETED\n2|c|COMPLETED\n", "1/a|b; 2/c; 2 Mended"),
        ("JobID|JobName|State\n1|||COMPLETED\n", "1/|; 2 Mended"),
        ("JobName|JobID\na|7|1\n", "1/a|7; 2 Mended"),
        ("JobID|JobName\n1|a|b\n", "1/a|b; 2 Mended"),
        ("JobID|JobName|\n1|a|b|\n", "1/a|b; 2 Mended"),
        ("JobID|State|JobName|NCPUS|Comment\n1|FAILED|a|b|3|c\n", "1/a|b; 2 Mended"),
        ("JobID|State|JobName|NCPUS|Comment\n1|FAILED|a|3|c|d\n", "1/a; 2 Mended"),
        // Either could be it.
        ("JobID|JobName|Comment\n1|a|b|c\n", "2 Rejected"),
        ("JobID|JobName|NCPUS|Comment\n1|a|2|3|c\n", "2 Rejected"),
        // No field that could be it.
        ("JobID|State\n1|COMPLETED|x\n", "2 Rejected"),
        // The line break in the name.
        ("JobID|JobName|State\n1|a\nb|COMPLETED\n2|c|FAILED\n", "1/a\\nb; 2/c; 2 Mended"),
        ("JobID|JobName|State\n1|a\n\nb|x|COMPLETED\n", "1/a\\n\\nb|x; 2 Mended"),
        ("JobID|JobName|\n1|a\nb|\n2|c|\n", "1/a\\nb; 2/c; 2 Mended"),
        ("JobID|JobName\n1|a\nb\nc\n2|d\n", "1/a\\nb\\nc; 2/d; 3 Mended; 4 Mended"),
        ("JobID|JobName\n1|a\n1.0|x\ny\n", "1/a .0/x\\ny; 4 Mended"),
        // Not in a field that Slurm writes.
        ("JobID|JobName|User|State\n1|a|an\nn|FAILED\n", "2 Rejected; 3 Rejected"),
        // A line that is cut short stays alone.
        ("JobID|JobName|State\n1|a\n2|c|FAILED\n", "2/c; 2 Rejected"),
        ("JobID|JobName|State\n1|a\n2|b\n3|c|FAILED\n", "3/c; 2 Rejected; 3 Rejected"),
        ("JobID|JobName|State\nsacct: error\n1|a|FAILED\n", "1/a; 2 Rejected"),
        ("JobID|JobName|State\n1|a|FAILED\n2|b", "1/a; 3 Rejected"),
        ("JobID|State\n1|COMPLETED\nx\n", "1/-; 3 Rejected"),
        // Enough delimiters in the first line of a name to look like a record without a state.
        ("JobID|JobName|State\n1|a|\nb|FAILED\n2|c|FAILED\n", "1/a|\\nb; 2/c; 2 Mended"),
        ("JobID|JobName|State\n1|a||\nb|FAILED\n", "1/a||\\nb; 2 Mended"),
        ("JobID|JobName|State\n1|a|\n2|c|FAILED\n", "2/c; 2 Rejected"),
    ] {
        assert_eq!(shown(&collect(text.as_bytes(), &options())), expected, "{text}");
    }
}

/// A record with one value that nobody knows is a record, and not what the job before it is called.
#[test]
fn a_line_with_all_its_fields_is_not_added_to_the_text_before_it() {
    for (odd, columns, is_strict) in [
        ("x|COMPLETED|b", "JobID|State|JobName", false),
        ("x|COMPLETED|b", "JobID|State|JobName", true),
        ("2|all done|b", "JobID|State|WorkDir", false),
        ("2|all done|b", "JobID|State|WorkDir", true),
        ("x|COMPLETED|b|", "JobID|State|JobName|", false),
    ] {
        let end = if columns.ends_with('|') { "|" } else { "" };
        let text = format!("{columns}\n1|FAILED|a{end}\n{odd}\n3|FAILED|c{end}\n");
        let found = collect(text.as_bytes(), &Options { is_strict, ..options() });
        let text_of = |job: &Accounting| job.name.as_ref().or(job.work_dir.as_ref()).unwrap().to_string();
        let jobs: Vec<_> = found.jobs.iter().map(|job| (&*job.shown, text_of(job))).collect();
        assert_eq!(jobs, [("1", "a".to_owned()), ("3", "c".to_owned())], "{is_strict}: {text}");
        let [(At::Line(3), Outcome::Rejected, Reason::Unreadable { .. })] = &found.problems[..] else {
            panic!("{:?}", found.problems)
        };
    }
}

#[test]
fn a_name_of_many_lines_ends_somewhere() {
    let text = format!("JobID|JobName|State\n1|{}b|FAILED\n", "a\n".repeat(40));
    let found = collect(text.as_bytes(), &options());
    assert_eq!((found.jobs.len(), found.problems.len()), (0, 41));
    let text = format!("JobID|JobName\n1|a\n{}", "b\n".repeat(40));
    let found = collect(text.as_bytes(), &options());
    let rejected = found.problems.iter().filter(|problem| problem.1 == Outcome::Rejected).count();
    assert_eq!((found.jobs.len(), rejected), (1, 24));
}

#[test]
fn files_of_every_kind() {
    let star = Options { delimiter: "☃".into(), ..options() };
    let two = Options { delimiter: b"||".to_vec(), ..options() };
    let deep = Options { cluster: Some("deep".into()), ..listed("jobid,jobname") };
    for (text, options, expected) in [
        (&b"JobID|JobName\r\n1|a\r\n2|b\r\n"[..], &options(), "1/a; 2/b"),
        (b"\xef\xbb\xbfJobID|JobName\n1|a\n", &options(), "1/a"),
        (b"\n\nJobID|JobName\n\n1|a\n\n", &options(), "1/a"),
        (b"JobID|JobName\n1|a\nJobID|JobName\n2|b\n", &options(), "1/a; 2/b"),
        (b"JobID|JobName|\n1|a|\n2|b|\n", &options(), "1/a; 2/b"),
        (b"1|a\n2|b\n", &deep, "1/a; 2/b"),
        (b"1|a|\n2|b|\n", &deep, "1/a; 2/b"),
        (b"JobID|JobName\n1|a\n", &deep, "1/a"),
        (b"JobID|JobName|\n1|a|\n", &deep, "1/a"),
        (b"1|\xff\n", &deep, "1/\\xff; 1 Doubted"),
        ("JobID☃JobName☃State\n1☃a|b☃FAILED\n".as_bytes(), &star, "1/a|b"),
        (b"JobID||JobName||State\n1||a|b||FAILED\n", &two, "1/a|b"),
        (b"JobID|JobName\n", &options(), ""),
        (b"", &deep, ""),
    ] {
        assert_eq!(shown(&collect(text, options)), expected, "{}", String::from_utf8_lossy(text));
    }
    let three = listed("jobid,jobname,state");
    for (text, expected) in [
        ("1|a|b|FAILED|\n2|c|FAILED|\n", "1/a|b; 2/c; 1 Mended"),
        ("1|a|b|FAILED\n2|c|FAILED\n", "1/a|b; 2/c; 1 Mended"),
        ("1|a\nb|FAILED|\n2|c|FAILED|\n", "1/a\\nb; 2/c; 1 Mended"),
    ] {
        assert_eq!(shown(&collect(text.as_bytes(), &three)), expected, "{text}");
    }
    assert_eq!(collect(b"1|a\n", &deep).jobs[0].cluster.as_deref(), Some("deep"));
    assert_eq!(collect(b"1|\xfe\n", &listed("jobid,user")).jobs[0].user.as_deref(), Some("\\xfe"));
}

#[test]
fn steps_without_their_job_are_rejected() {
    for (text, expected) in [
        ("JobID|JobName\n1|a\n1.batch|b\n1.0|c\n2|d\n2.0|e\n", "1/a .batch/b .0/c; 2/d .0/e"),
        ("JobID|JobName\n1.batch|b\n2|d\n", "2/d; 2 Rejected"),
        ("JobID|JobName\n1|a\n2.0|b\n1.0|c\n", "1/a .0/c; 3 Rejected"),
        ("JobID|JobIDRaw|JobName\n7_1|8|a\n7_1.0|8.0|b\n7_2|7|c\n7_2.0|7.0|d\n", "7_1/a .0/b; 7_2/c .0/d"),
        ("JobIDRaw|JobName\n1|a\n11.0|b\n", "1/a; 3 Rejected"),
        ("JobID|JobName\n7_1|a\n7_1.0|b\n7_2.0|c\n", "7_1/a .0/b; 4 Rejected"),
        ("JobID|JobName\n7+0|a\n7+0.0|b\n7+1|c\n7+1.0|d\n", "7+0/a .0/b; 7+1/c .0/d"),
    ] {
        assert_eq!(shown(&collect(text.as_bytes(), &options())), expected, "{text}");
    }
}

#[test]
fn times_are_local() {
    let berlin = Options { zone: TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap(), ..options() };
    for (elapsed, hours) in [("01:00:00", 1), ("02:00:00", 2)] {
        let text = format!("JobID|Start|End|Elapsed\n1|2026-10-25T01:30:00|2026-10-25T02:30:00|{elapsed}\n");
        let job = &collect(text.as_bytes(), &berlin).jobs[0];
        assert_eq!(job.start, Some(1_792_884_600 * SECOND));
        assert_eq!(job.end.unwrap() - job.start.unwrap(), hours * 3600 * SECOND);
    }
}

#[test]
fn a_file_that_cannot_be_read_says_why() {
    let known = |options| Options { rejects_unknown_fields: true, ..options };
    for (text, options, expected) in [
        (
            "JobID|Color\n",
            known(options()),
            "log: no field is called `Color`; there are Account, AdminComment, ",
        ),
        ("State|User\n", options(), "log: neither JobID nor JobIDRaw is among the fields"),
        ("", options(), "log: it is empty"),
        ("1|a\n", known(listed("jobid,colour")), "log: no field is called `colour`; there are "),
        ("1\n", Options { delimiter: vec![], ..options() }, "log: a delimiter must not be empty"),
    ] {
        let error = read(text.as_bytes(), "log", &options, &mut Collected::default()).unwrap_err();
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}

#[test]
fn a_file_without_a_header_says_what_to_do() {
    let tabs = Options { delimiter: b"\t".to_vec(), ..options() };
    for (text, options) in [
        ("163485|163485|phillips|black|COMPLETED\n", options()),
        // A name may be that of a field.
        ("1|Account|ann|FAILED\n", options()),
        // Another delimiter.
        ("JobID,JobName,State\n1,a,FAILED\n", options()),
        ("JobID|JobName|State\n1|a|FAILED\n", tabs),
        ("JobId=1 JobName=a UserId=ann(1001)\n", options()),
        ("\n\nsacct: error: slurm_persist_conn_open\n", options()),
    ] {
        let error = read(text.as_bytes(), "log", &options, &mut Collected::default()).unwrap_err();
        assert_eq!(error.to_string(), "log: no header: use --fields, --xdmod or --delimiter", "{text}");
    }
}

#[test]
fn text_of_squeue_is_rejected() {
    for text in [
        "JOBID|PARTITION|NAME|USER|ST|TIME|NODES|NODELIST(REASON)\n5|main|a|ann|R|1:00|1|n1\n",
        "JOBID|USER|ST\n5|ann|PD\n",
    ] {
        let error = read(text.as_bytes(), "log", &options(), &mut Collected::default()).unwrap_err();
        assert!(error.to_string().starts_with("log: this is from the controller (squeue"), "{error}");
    }
}

/// As people see it, with `OUT_OF_ME+` and names cut off.
#[test]
fn columns_of_fixed_width_are_rejected_by_their_name() {
    for text in [
        "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode \n\
         ------------ ---------- ---------- ---------- ---------- ---------- -------- \n\
         17           a_long_na+       main    physics          4 OUT_OF_ME+    0:125 \n",
        "       JobID    JobName  MaxRSS  Unheard\n",
        "JobID      State \n",
    ] {
        let error = read(text.as_bytes(), "log", &options(), &mut Collected::default()).unwrap_err();
        let expected = "log: its columns have a fixed width, in which sacct cuts values off: import what sacct -P prints";
        assert_eq!(error.to_string(), expected, "{text}");
    }
    let error = read(&b"JobID\tUser\tState\n"[..], "log", &options(), &mut Collected::default()).unwrap_err();
    assert!(error.to_string().contains("no header: use --fields, --xdmod or --delimiter"), "{error}");
    let text = "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n";
    let error = read(text.as_bytes(), "log", &options(), &mut Collected::default()).unwrap_err();
    assert!(error.to_string().starts_with("log: this is from the controller (squeue"), "{error}");
}

#[test]
fn an_unknown_column_is_ignored_with_a_warning() {
    let text = "JobID|Color|JobName|State\n1|red|a|FAILED\n2|blue|b|COMPLETED\n";
    let warning = (At::Line(1), Outcome::Ignored, Reason::UnknownField("Color".into()));
    for is_strict in [true, false] {
        let found = collect(text.as_bytes(), &Options { is_strict, ..options() });
        assert_eq!(found.jobs.len(), 2);
        assert_eq!(found.jobs[1].name.as_ref().unwrap().to_string(), "b");
        assert_eq!(found.problems, std::slice::from_ref(&warning));
    }
    let found = collect(b"Color|JobID|State\n1|2|FAILED\n", &listed("color,jobid,state"));
    assert_eq!((&*found.jobs[0].shown, found.problems.len()), ("2", 1));
    // What is in it is not known, so it may be what is too long.
    let either = b"JobID|Color|JobName|State\n1|a|b|c|FAILED\n";
    assert_eq!(shown(&collect(either, &options())), "1 Ignored; 2 Rejected");
    let known = Options { rejects_unknown_fields: true, ..options() };
    let error = read(text.as_bytes(), "log", &known, &mut Collected::default()).unwrap_err();
    assert!(error.to_string().starts_with("log: no field is called `Color`; there are Account, "), "{error}");
}

/// As a spreadsheet or a CSV writer leaves them.
#[test]
fn doubled_quotes_are_mended() {
    let quoted = Options { may_have_quotes: true, ..options() };
    for (line, expected) in [
        (r#"1|"say ""hi"""|FAILED"#, r#"1/say "hi"; 2 Mended"#),
        (r#"1|"a|b ""c"""|FAILED"#, r#"1/a|b "c"; 2 Mended"#),
        (r#"1|""two words""|FAILED"#, r#"1/"two words"; 2 Mended"#),
        (r#"1|say ""hi""|FAILED"#, r#"1/say "hi"; 2 Mended"#),
        (r#""1"|"a"|"FAILED""#, "1/a; 2 Mended"),
        (r#""1"|""|"FAILED""#, "1/-; 2 Mended"),
        // These may have been written so.
        (r#"1|"a"|FAILED"#, r#"1/"a""#),
        (r#"1|run --with ""|FAILED"#, r#"1/run --with """#),
        (r#"1|run "" --x "" y|FAILED"#, r#"1/run "" --x "" y"#),
        (r#"1|say "hi"|FAILED"#, r#"1/say "hi""#),
        (r#"1|{"a": "", "b": ""}|FAILED"#, r#"1/{"a": "", "b": ""}"#),
        (r#"1|["",""]|FAILED"#, r#"1/["",""]"#),
    ] {
        let text = format!("JobID|JobName|State\n{line}\n");
        assert_eq!(shown(&collect(text.as_bytes(), &quoted)), expected, "{line}");
    }
    let csv = Options { delimiter: b",".to_vec(), ..quoted.clone() };
    let text = "\"JobID\",\"JobName\",\"State\"\n\"1\",\"a,\"\"b\"\"\",\"FAILED\"\n";
    assert_eq!(shown(&collect(text.as_bytes(), &csv)), r#"1/a,"b"; 2 Mended"#);
    // What sacct prints here has no quotes but those of its users.
    let text = "JobID|JobName|State\n1|\"say \"\"hi\"\"\"|FAILED\n";
    assert_eq!(shown(&collect(text.as_bytes(), &options())), r#"1/"say ""hi""""#);
    let strict = Options { is_strict: true, ..quoted };
    let found = collect(text.as_bytes(), &strict);
    assert_eq!(found.jobs, []);
    assert_eq!(found.problems, [(At::Line(2), Outcome::Rejected, Reason::Quoted)]);
}

#[test]
fn a_job_without_elapsed_ran_from_start_to_end() {
    let text = "JobID|Start|End|Suspended|AllocTRES|State\n\
                1|2024-02-01T10:00:00|2024-02-01T11:00:00|00:10:00|cpu=4|FAILED\n";
    let job = &collect(text.as_bytes(), &options()).jobs[0];
    assert_eq!((job.elapsed, job.cpus), (Some(3000 * SECOND), Some(4)));
}

/// As old versions print jobs that were cancelled while they waited: with what they wanted in `AllocTRES`.
#[test]
fn what_was_never_assigned_was_not_allocated() {
    let text = "JobID|State|NNodes|NCPUS|AllocTRES|NodeList\n\
                1|CANCELLED by 5|1|8|cpu=8,mem=24000M,node=1|None assigned\n";
    let job = &collect(text.as_bytes(), &options()).jobs[0];
    assert_eq!((job.cpus, job.nodes, job.allocated.len()), (None, None, 0));
    assert_eq!((job.requested_cpus, job.requested_nodes), (Some(8), Some(1)));
    // Of whatever has no start the number of nodes is what it wants, also where neither state nor nodes are in the file.
    let waits = collect(b"JobID|Start|NNodes|NCPUS\n1|Unknown|2|0\n", &options());
    assert_eq!((waits.jobs[0].nodes, waits.jobs[0].requested_nodes), (None, Some(2)));
    let zero = collect(b"JobID|State|NNodes|NCPUS|NodeList\n1|RUNNING|0|0|n[1-3]\n", &options());
    assert_eq!((zero.jobs[0].cpus, zero.jobs[0].nodes), (None, Some(3)));
}

#[test]
fn a_long_line_is_rejected_alone() {
    let text = format!("JobID|JobName\n1|{}\n2|b\n", "x".repeat(2 << 20));
    assert_eq!(shown(&collect(text.as_bytes(), &options())), "2/b; 2 Rejected");
}

/// A sink that is full ends the reading.
#[test]
fn who_takes_the_jobs_may_end_it() {
    struct Full;
    impl Sink for Full {
        fn job(&mut self, _: Accounting) -> std::io::Result<()> {
            Err(std::io::Error::other("full"))
        }
        fn problem(&mut self, _: Problem<'_>) {}
    }
    let result = read(&b"JobID\n1\n2\n3\n"[..], "log", &options(), &mut Full);
    assert!(matches!(result, Err(Error::Io { error, .. }) if error.to_string() == "full"));
}

/// `cargo test -p jobglass-import -- --ignored --nocapture speed` says how long a million lines take.
#[test]
#[ignore = "a measurement"]
fn speed_of_a_million_lines() {
    let mut text = Vec::new();
    for job in 0..1_000_000u64 {
        let (hour, second) = (job / 3600 % 24, job % 60);
        writeln!(
            text,
            "{job}|{job}|deep|regular|normal|physics|staff|50|ann|1001|2024-02-01T{hour:02}:00:{second:02}|\
             2024-02-01T{hour:02}:00:{second:02}|2024-02-01T{hour:02}:10:{second:02}|2024-02-01T{hour:02}:40:{second:02}|\
             00:30:00|0:0|COMPLETED|4|64|64|4000Mc|billing=64,cpu=64,mem=250G,node=4|\
             billing=64,cpu=64,gres/gpu=8,mem=250G,node=4|1-00:00:00|n[{:04}-{:04}]|job_{job}",
            job % 9000,
            job % 9000 + 3
        )
        .unwrap();
    }
    struct Count(u64);
    impl Sink for Count {
        fn job(&mut self, _: Accounting) -> std::io::Result<()> {
            self.0 += 1;
            Ok(())
        }
        fn problem(&mut self, problem: Problem<'_>) {
            panic!("{problem}");
        }
    }
    let begin = std::time::Instant::now();
    let mut count = Count(0);
    let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
    read(&text[..], "log", &Options::xdmod(zone), &mut count).unwrap();
    eprintln!("{} jobs, {} MB in {:?}", count.0, text.len() >> 20, begin.elapsed());
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(lines in proptest::collection::vec("[0-9]{0,3}[|\\n]{0,2}[a-z.|=:,_+-]{0,9}|.{0,9}", 0..12)) {
        let text = lines.join("\n");
        for fields in ["jobid,jobname,state", "jobname,jobid", "jobid,start,end,comment", "jobid,alloctres,reqmem,jobname"] {
            let mut found = Collected::default();
            let _ = read(text.as_bytes(), "log", &listed(fields), &mut found);
        }
        let _ = read(text.as_bytes(), "log", &options(), &mut Collected::default());
    }

    #[test]
    fn names_with_anything_in_them_are_mended(names in proptest::collection::vec("[a-z|\\n]{1,12}", 1..6)) {
        let mut text = String::from("JobID|JobName|State|ExitCode\n");
        for (job, name) in names.iter().enumerate() {
            text += &format!("{job}|x{name}|COMPLETED|0:0\n");
        }
        let found = collect(text.as_bytes(), &options());
        let read: Vec<_> = found.jobs.iter().map(|job| job.name.as_ref().unwrap().to_string()).collect();
        prop_assert_eq!(read, names.iter().map(|name| format!("x{name}")).collect::<Vec<_>>());
    }
}

#[test]
fn strictly_nothing_is_mended_and_nothing_left_out() {
    let strict = Options { is_strict: true, ..options() };
    for (text, expected) in [
        ("JobID|JobName|State\n1|a|b|COMPLETED\n2|c|COMPLETED\n", "2/c; 2 Rejected"),
        ("JobID|JobName|State\n1|a\nb|COMPLETED\n2|c|FAILED\n", "2/c; 2 Rejected"),
        ("JobID|JobName\n1|a\nb\n2|d\n", "2/d; 2 Rejected"),
        ("JobID|JobName\n1|a\nb\nc\n2|d\n", "2/d; 2 Rejected; 4 Rejected"),
        ("JobID|JobName|State\n1|a|DANCING\n2|c|FAILED\n", "2/c; 2 Rejected"),
        ("JobID|JobName|State\n1|caf\u{e9}|FAILED\n2|c|FAILED\n", "1/caf\u{e9}; 2/c"),
        // The steps of a job that is not there, and a step alone.
        ("JobID|JobName|State\n1|a|DANCING\n1.0|x|FAILED\n2|c|FAILED\n", "2/c; 2 Rejected; 3 Rejected"),
        ("JobID|JobName|State\n1|a|FAILED\n1.0|x|DANCING\n1.1|y|FAILED\n", "1/a .1/y; 3 Rejected"),
    ] {
        assert_eq!(shown(&collect(text.as_bytes(), &strict)), expected, "{text}");
    }
}
