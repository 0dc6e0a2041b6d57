//! The tags that are shipped, over the columns that jobs have: each at, just below and just above its threshold, and with what it
//! needs unknown.

#[allow(dead_code, reason = "other tests use the rest of it")]
mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{SECOND, batch, entry, image, library, list, stream};
use condition::{Condition, Row, Step, Value};
use record::accounting::{Accounting, State};
use record::batch::Batch;
use record::site::{Gpus, Node, Partition, SiteData};
use store::jobs::{FIXED, Page, USUAL, Which, column};
use store::{Accounts, Limits, Store};
use tags::{Tag, shipped};

fn all() -> Vec<Tag> {
    let declared = shipped::shipped().unwrap_or_else(|error| panic!("{error}"));
    tags::tag::check(&declared, &tags::Site::default(), &FIXED.catalogue)
        .unwrap_or_else(|error| panic!("{error}"))
}

/// A number, a text or true and false; anything else is unknown.
fn value(text: &str) -> Value {
    match text {
        "?" => Value::Unknown,
        "true" => Value::Boolean(true),
        "false" => Value::Boolean(false),
        _ => text.parse().map_or_else(|_| Value::Text(text.into()), Value::Number),
    }
}

/// `name=value` by `name=value`; questions that are answered are written as in conditions.
fn row(text: &str) -> Row {
    let mut row = Row::new();
    for part in text.split("; ").filter(|part| !part.is_empty()) {
        let (name, said) = part.split_once('=').unwrap();
        if name.contains('(') {
            row.answer(name, said == "true");
        } else {
            row.set(FIXED.catalogue.get(name).unwrap_or_else(|| panic!("{name}")), value(said)).unwrap();
        }
    }
    row
}

const T: Option<bool> = Some(true);
const F: Option<bool> = Some(false);

/// A tag, what is the same in all rows, and what differs with what it makes of the criterion.
type Case = (&'static str, &'static str, &'static [(&'static str, Option<bool>)]);

const CASES: &[Case] = &[
    (
        "avg_CPU_user LOW",
        "",
        &[
            ("cpu_user_util_avg=19.99", T),
            ("cpu_user_util_avg=20", T),
            ("cpu_user_util_avg=20.01", F),
            ("", None),
        ],
    ),
    (
        "avg_CPU_user HIGH",
        "",
        &[
            ("cpu_user_util_avg=39.99", F),
            ("cpu_user_util_avg=40", F),
            ("cpu_user_util_avg=40.01", T),
            ("", None),
        ],
    ),
    (
        "avg_CPU_idle TOO HIGH",
        "",
        &[
            ("cpu_idle_util_avg=24.99", F),
            ("cpu_idle_util_avg=25", F),
            ("cpu_idle_util_avg=25.01", T),
            ("", None),
        ],
    ),
    ("avg_LA LOW", "", &[("load_avg=0.74", T), ("load_avg=0.75", F), ("load_avg=1", F), ("", None)]),
    (
        "avg_LA SINGLE CORE",
        "load_cores=2",
        &[
            ("load_avg=0.74", F),
            ("load_avg=0.75", T),
            ("load_avg=1", T),
            ("load_avg=1.25", T),
            ("load_avg=1.26", F),
            ("", None),
            ("load_avg=1; load_cores=1", F),
            ("load_avg=1; load_cores=?", None),
        ],
    ),
    (
        "avg_LA NORMAL",
        "load_cores=64",
        &[
            ("load_avg=47.9", F),
            ("load_avg=48", T),
            ("load_avg=64", T),
            ("load_avg=80", T),
            ("load_avg=80.1", F),
            ("", None),
            ("load_avg=64; load_cores=?", None),
            ("load_avg=0.75; load_cores=1", T),
        ],
    ),
    (
        "avg_LA HYPERTHREADED",
        "load_cores=64",
        &[
            ("load_avg=95.9", F),
            ("load_avg=96", T),
            ("load_avg=128", T),
            ("load_avg=160", T),
            ("load_avg=160.1", F),
            ("", None),
        ],
    ),
    (
        "avg_Flops HIGH",
        "node_peak_flops=1e12",
        &[
            ("flops_avg=99e9", F),
            ("flops_avg=100e9", F),
            ("flops_avg=101e9", T),
            ("", None),
            ("flops_avg=1e12; node_peak_flops=?", None),
        ],
    ),
    (
        "avg_IB_packages_num LOW",
        "",
        &[
            ("ib_packets_sent_avg=999", T),
            ("ib_packets_sent_avg=1000", T),
            ("ib_packets_sent_avg=1001", F),
            ("", None),
        ],
    ),
    (
        "avg_IB_packages_size TOO LOW",
        "ib_packets_sent_avg=1001",
        &[
            ("ib_packet_size_avg=255", T),
            ("ib_packet_size_avg=256", F),
            ("ib_packet_size_avg=257", F),
            ("", None),
            ("ib_packet_size_avg=1; ib_packets_sent_avg=1000", F),
        ],
    ),
    (
        "avg_IB_speed HIGH",
        "",
        &[
            ("ib_sent_avg=199999999", F),
            ("ib_sent_avg=2e8", F),
            ("ib_sent_avg=200000001", T),
            ("ib_sent_avg=1e9", T),
            ("ib_sent_avg=1000000001", F),
            ("", None),
        ],
    ),
    (
        "avg_IB_speed TOO HIGH",
        "",
        &[("ib_sent_avg=999999999", F), ("ib_sent_avg=1e9", F), ("ib_sent_avg=1000000001", T), ("", None)],
    ),
    (
        "avg_cache_L1/L3 TOO LOW",
        "last_level_misses_avg=100",
        &[
            ("l1_misses_avg=499", T),
            ("l1_misses_avg=500", F),
            ("l1_misses_avg=501", F),
            ("", None),
            ("l1_misses_avg=1; last_level_misses_avg=0", None),
        ],
    ),
    (
        "avg_cache_L1/L3 LOW",
        "last_level_misses_avg=100",
        &[
            ("l1_misses_avg=499", F),
            ("l1_misses_avg=500", T),
            ("l1_misses_avg=501", T),
            ("l1_misses_avg=999", T),
            ("l1_misses_avg=1000", F),
            ("l1_misses_avg=1001", F),
            ("", None),
        ],
    ),
    (
        "avg_cache_L1/L3 HIGH",
        "last_level_misses_avg=100",
        &[("l1_misses_avg=999", F), ("l1_misses_avg=1000", F), ("l1_misses_avg=1001", T), ("", None)],
    ),
    (
        "avg_mem/cache_L1 LOW",
        "l1_misses_avg=100; stores_avg=500",
        &[("loads_avg=999", T), ("loads_avg=1000", T), ("loads_avg=1001", F), ("", None)],
    ),
    (
        "avg_memload HIGH",
        "stores_avg=5e8",
        &[("loads_avg=499999999", F), ("loads_avg=5e8", F), ("loads_avg=500000001", T), ("", None)],
    ),
    ("job_status COMPLETED", "", &[("state=COMPLETED", T), ("state=FAILED", F), ("", None)]),
    ("job_status FAILED", "", &[("state=FAILED", T), ("state=COMPLETED", F), ("", None)]),
    (
        "job_status CANCELED",
        "",
        &[("state=CANCELLED", T), ("state=PREEMPTED", T), ("state=COMPLETED", F), ("", None)],
    ),
    (
        "job_status TIMEOUT",
        "",
        &[("state=TIMEOUT", T), ("state=DEADLINE", T), ("state=COMPLETED", F), ("", None)],
    ),
    (
        "job_status NODE_FAIL",
        "",
        &[("state=NODE_FAIL", T), ("state=BOOT_FAIL", T), ("state=COMPLETED", F), ("", None)],
    ),
    (
        "job_time_limit CUSTOM",
        "default_time_limit=3600",
        &[
            ("time_limit=3599", T),
            ("time_limit=3600", F),
            ("time_limit=3601", T),
            ("", None),
            ("time_limit=1; default_time_limit=?", None),
        ],
    ),
    (
        "job_cores_requested FEW",
        "nodes=2; node_cores=64",
        &[("cores=127", T), ("cores=128", F), ("cores=129", F), ("", None)],
    ),
    (
        "job_cores_requested SINGLE",
        "nodes=2; node_cores=64",
        &[("cores=1", F), ("cores=2", T), ("cores=3", F), ("", None), ("cores=2; node_cores=1", F)],
    ),
    ("job_nnodes SINGLE", "", &[("nodes=0", F), ("nodes=1", T), ("nodes=2", F), ("", None)]),
    ("job_nnodes FEW", "", &[("nodes=1", F), ("nodes=2", T), ("nodes=8", T), ("nodes=9", F), ("", None)]),
    ("job_nnodes MANY", "", &[("nodes=8", F), ("nodes=9", T), ("nodes=10", T), ("", None)]),
    (
        "job_partition EXCEPT TEST",
        "",
        &[("is_test_partition=false", T), ("is_test_partition=true", F), ("", None)],
    ),
    (
        "job_priority HIGH",
        "",
        &[("is_high_priority_partition=true", T), ("is_high_priority_partition=false", F), ("", None)],
    ),
    (
        "job_accel GPU",
        "",
        &[
            ("gpu_max=0; gpu_avg=0", F),
            ("gpu_max=0.01; gpu_avg=0.001", T),
            // Of some only the average is known.
            ("gpu_avg=0.01", T),
            ("gpu_avg=0", None),
            ("", None),
        ],
    ),
    (
        "job_accel GPU UNUSED",
        "partition_has_gpus=true",
        &[
            ("gpu_max=0", T),
            ("gpu_max=0.01", F),
            ("", None),
            ("gpu_avg=0", T),
            ("gpu_avg=0.01", F),
            ("gpu_max=0; partition_has_gpus=false; gpus=0", F),
            ("gpu_max=0; partition_has_gpus=?; gpus=1", T),
            ("gpu_max=0; partition_has_gpus=?", None),
        ],
    ),
    (
        "job_disks UNUSED",
        "partition_has_disks=true",
        &[
            ("local_io_total=0", T),
            ("local_io_total=1", F),
            ("", None),
            ("local_io_total=0; partition_has_disks=false", F),
        ],
    ),
    (
        "job_disks TOO LOW",
        "partition_has_disks=true; local_io_total=1",
        &[
            ("local_io_avg=999", T),
            ("local_io_avg=1000", F),
            ("local_io_avg=1001", F),
            ("", None),
            ("local_io_avg=0; local_io_total=0", F),
        ],
    ),
    (
        "job_MPI OpenMPI",
        "uses('libopen-rte.so*')=false",
        &[("uses('libopen-pal.so*')=true", T), ("uses('libopen-pal.so*')=false", F), ("", None)],
    ),
    (
        "job_sw GROMACS",
        "runs('mdrun*')=false; uses('libgromacs*')=false",
        &[("runs('gmx*')=true", T), ("runs('gmx*')=false", F), ("", None)],
    ),
    ("job_mathlib MKL", "", &[("uses('libmkl*')=true", T), ("uses('libmkl*')=false", F), ("", None)]),
    (
        "job_memory UNUSED",
        "memory=17179869184",
        &[
            ("memory_util_max=24.9", T),
            ("memory_util_max=25", F),
            ("memory_util_max=25.1", F),
            ("", None),
            ("memory_util_max=1; memory=17179869183", F),
        ],
    ),
    (
        "job_time_limit TOO LONG",
        "state=COMPLETED; time_limit=14400",
        &[
            ("elapsed=1439", T),
            ("elapsed=1440", F),
            ("elapsed=1441", F),
            ("", None),
            ("elapsed=1; time_limit=14399", F),
            ("elapsed=1; state=TIMEOUT", F),
        ],
    ),
    (
        "job_accel GPU MEMORY ONLY",
        "gpu_max=0",
        &[("gpu_memory_max=0", F), ("gpu_memory_max=1", T), ("", None), ("gpu_memory_max=1; gpu_max=0.5", F)],
    ),
    ("job_memory OOM", "", &[("oom_kills_total=0", F), ("oom_kills_total=1", T), ("", None)]),
    ("job_status OUT_OF_MEMORY", "", &[("state=OUT_OF_MEMORY", T), ("state=FAILED", F), ("", None)]),
    (
        "job_nodes IMBALANCED",
        "nodes=2; cpu_node_max=10",
        &[
            ("cpu_node_min=4.9", T),
            ("cpu_node_min=5", F),
            ("cpu_node_min=5.1", F),
            ("", None),
            ("cpu_node_min=0; nodes=1", F),
            ("cpu_node_min=0; cpu_node_max=1", F),
        ],
    ),
    (
        "avg_CPU_iowait HIGH",
        "",
        &[
            ("cpu_iowait_util_avg=9.9", F),
            ("cpu_iowait_util_avg=10", F),
            ("cpu_iowait_util_avg=10.1", T),
            ("", None),
        ],
    ),
    (
        "job_threads TOO FEW",
        "nodes=2; cores=16",
        &[("threads_max=7", T), ("threads_max=8", F), ("threads_max=9", F), ("", None)],
    ),
    ("job_swap USED", "", &[("memory_swap_max=0", F), ("memory_swap_max=1", T), ("", None)]),
    (
        "job_duration SHORT",
        "state=COMPLETED",
        &[
            ("elapsed=59", T),
            ("elapsed=60", F),
            ("elapsed=61", F),
            ("", None),
            ("elapsed=1; state=FAILED", F),
        ],
    ),
];

#[test]
fn each_tag_at_its_threshold() {
    let tags = all();
    for (name, always, cases) in CASES {
        let tag = tags.iter().find(|tag| tag.is_called(name)).unwrap_or_else(|| panic!("{name}"));
        let criterion = tag.criterion.as_ref().unwrap();
        for (values, expected) in *cases {
            let text = format!("{always}; {values}");
            assert_eq!(
                criterion.holds(&row(text.trim_matches([';', ' ']))),
                *expected,
                "{name}: {criterion}: {values}"
            );
        }
    }
}

/// What is known by programs, libraries and variables has its cases in `software_tags`.
#[test]
fn each_automatic_tag_has_its_case() {
    let has_case = |tag: &Tag| CASES.iter().any(|(name, ..)| tag.is_called(name));
    for tag in all().iter().filter(|tag| tag.available) {
        let is_asked = |criterion: &Condition| criterion.questions().next().is_some();
        let is_elsewhere = tag.criterion.as_ref().is_none_or(is_asked);
        assert!(is_elsewhere || has_case(tag), "{}", tag.declared.name);
    }
}

/// An exclusive group, and for each column of its criteria the values at, below and above its bounds.
type Bounds = (&'static str, &'static [(&'static str, &'static [&'static str])]);

const BOUNDS: &[Bounds] = &[
    ("CPU user", &[("cpu_user_util_avg", &["19.99", "20", "20.01", "39.99", "40", "40.01", "?"])]),
    (
        "load",
        &[
            ("load_cores", &["1", "2", "64", "?"]),
            (
                "load_avg",
                &[
                    "0", "0.74", "0.75", "0.76", "0.99", "1", "1.01", "1.24", "1.25", "1.26", "1.49", "1.5",
                    "1.51", "1.99", "2", "2.01", "2.49", "2.5", "2.51", "2.99", "3", "3.01", "4", "4.99",
                    "5", "5.01", "47.9", "48", "48.1", "64", "79.9", "80", "80.1", "95.9", "96", "96.1",
                    "128", "159.9", "160", "160.1", "?",
                ],
            ),
        ],
    ),
    (
        "caches",
        &[
            ("last_level_misses_avg", &["0", "100", "?"]),
            ("l1_misses_avg", &["499", "500", "501", "999", "1000", "1001", "?"]),
        ],
    ),
    (
        "InfiniBand speed",
        &[("ib_sent_avg", &["199999999", "2e8", "200000001", "999999999", "1e9", "1000000001", "?"])],
    ),
    (
        "InfiniBand packets",
        &[
            ("ib_packets_sent_avg", &["999", "1000", "1001", "?"]),
            ("ib_packet_size_avg", &["255", "256", "257", "?"]),
        ],
    ),
    (
        "disks",
        &[
            ("partition_has_disks", &["true", "false", "?"]),
            ("local_io_total", &["0", "1", "?"]),
            ("local_io_avg", &["0", "999", "1000", "1001", "?"]),
        ],
    ),
    ("nodes", &[("nodes", &["0", "1", "2", "3", "7", "8", "9", "10", "?"])]),
    (
        "status",
        &[(
            "state",
            &[
                "COMPLETED",
                "FAILED",
                "CANCELLED",
                "PREEMPTED",
                "REVOKED",
                "TIMEOUT",
                "DEADLINE",
                "NODE_FAIL",
                "BOOT_FAIL",
                "OUT_OF_MEMORY",
                "RUNNING",
                "SUSPENDED",
                "?",
            ],
        )],
    ),
];

/// Every combination of values.
fn combinations(columns: &[(&str, &[&str])]) -> Vec<String> {
    columns.iter().fold(vec![String::new()], |rows, (column, values)| {
        let with = |row: &String| {
            values.iter().map(move |value| format!("{row}; {column}={value}")).collect::<Vec<_>>()
        };
        rows.iter().flat_map(with).collect()
    })
}

#[test]
fn criteria_of_an_exclusive_group_never_hold_together() {
    let tags = all();
    let groups = shipped::exclusive_groups().unwrap();
    assert_eq!(
        BOUNDS.iter().map(|(group, _)| *group).collect::<BTreeSet<_>>(),
        groups.iter().map(String::as_str).collect()
    );
    for bounds in BOUNDS {
        assert_eq!(overlaps(&tags, bounds), [""; 0]);
        let (group, columns) = bounds;
        let mut hit = BTreeSet::new();
        let criteria = || tags.iter().filter(|tag| tag.declared.group == *group && tag.criterion.is_some());
        for text in combinations(columns) {
            hit.extend(holding(criteria(), &text));
        }
        assert_eq!(hit.len(), criteria().count(), "{group}: {hit:?}");
    }
}

/// The tags whose criterion holds for a row.
fn holding<'a>(tags: impl Iterator<Item = &'a Tag>, text: &str) -> Vec<&'a str> {
    let row = row(text.trim_start_matches("; "));
    let holds = |tag: &&Tag| tag.criterion.as_ref().is_some_and(|criterion| criterion.holds(&row) == T);
    tags.filter(holds).map(|tag| tag.declared.name.as_str()).collect()
}

/// The rows of a group's table for which more than one of its criteria holds.
fn overlaps(tags: &[Tag], (group, columns): &Bounds) -> Vec<String> {
    let of_group = || tags.iter().filter(|tag| tag.declared.group == *group);
    let rows = combinations(columns).into_iter();
    let held = rows.map(|text| (holding(of_group(), &text), text)).filter(|(held, _)| held.len() > 1);
    held.map(|(held, text)| format!("{group}: {text}: {held:?}")).collect()
}

/// A tag of each exclusive group, and what of its criterion or parameters becomes what: a bound that reaches into that of another tag.
const MISTAKES: &[(&str, &str, &str)] = &[
    ("avg_CPU_user LOW", "20%", "41%"),
    ("avg_LA SINGLE CORE", " and load_cores > 1", ""),
    ("avg_cache_L1/L3 LOW", "10", "11"),
    ("avg_IB_speed HIGH", "1GB/s", "1.1GB/s"),
    ("avg_IB_packages_num LOW", "1000", "1001"),
    ("job_disks UNUSED", "= 0", ">= 0"),
    ("job_nnodes MANY", "9", "8"),
    ("job_status FAILED", "= 'FAILED'", "in ('FAILED', 'CANCELLED')"),
];

#[test]
fn a_mistake_in_any_exclusive_group_is_found_by_its_table() {
    let mut groups = BTreeSet::new();
    for (name, from, to) in MISTAKES {
        let mut declared = shipped::shipped().unwrap();
        let tag = declared.iter_mut().find(|tag| tag.name.as_str() == *name).unwrap();
        let criterion = tag.criterion.iter_mut();
        for text in criterion.chain(tag.parameters.values_mut()) {
            *text = text.replace(from, to);
        }
        let group = tag.group.clone();
        let tags = tags::tag::check(&declared, &tags::Site::default(), &FIXED.catalogue).unwrap();
        for bounds in BOUNDS {
            assert_eq!(!overlaps(&tags, bounds).is_empty(), bounds.0 == group, "{name}: {}", bounds.0);
        }
        groups.insert(group);
    }
    assert_eq!(groups.len(), BOUNDS.len());
}

/// Where the rows of a table lie beside the bounds of one comparison.
#[derive(Default)]
struct Sides {
    /// The values of its columns on a bound.
    on: BTreeSet<String>,
    holds: BTreeSet<String>,
    does_not: BTreeSet<String>,
    has_margins: bool,
}

impl Sides {
    fn add(&mut self, step: &Step) {
        let seen = step.seen.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        self.has_margins |= step.margin.is_some();
        match (step.margin.is_some_and(|margin| margin.amount == 0.0), step.holds) {
            (true, _) => drop(self.on.insert(seen)),
            (false, Some(true)) => drop(self.holds.insert(seen)),
            (false, Some(false)) => drop(self.does_not.insert(seen)),
            (false, None) => {}
        }
    }

    /// Whether there are rows on each bound of this comparison and on each side of them.
    fn are_all(&self, text: &str) -> bool {
        let (on, holds, does_not) = (self.on.len(), self.holds.len(), self.does_not.len());
        if text.contains(" between ") {
            // Two bounds, and two sides on which it does not hold.
            on > 1 && holds > 0 && does_not > 1
        } else if !self.has_margins {
            holds > 0 && does_not > 0
        } else {
            // Of what is counted, nothing is below zero.
            let (is_equality, is_of_zero) = (text.contains(" = "), is_over_zero(text));
            on > 0 && (holds > 0 || is_equality) && (does_not > 0 || is_of_zero)
        }
    }
}

fn is_over_zero(text: &str) -> bool {
    let is_unit = |rest: &str| !rest.starts_with(|next: char| next == '.' || next.is_ascii_digit());
    text.split_once("> 0").is_some_and(|(_, rest)| is_unit(rest))
}

/// Whatever the bounds are, with 1, 2 and 64 cores: one that is changed must be changed in the table, too.
#[test]
fn the_table_of_exclusive_groups_has_rows_at_below_and_above_each_bound() {
    let tags = all();
    let cores_of = |row: &Row| row.value(FIXED.catalogue.get("load_cores").unwrap());
    for (group, columns) in BOUNDS {
        let mut sides: BTreeMap<(String, String), Sides> = BTreeMap::new();
        let rows = combinations(columns).into_iter().map(|text| row(text.trim_start_matches("; ")));
        for row in rows.filter(|row| *group != "load" || cores_of(row) != Value::Unknown) {
            let criteria = tags.iter().filter(|tag| tag.declared.group == *group);
            for step in
                criteria.filter_map(|tag| tag.criterion.as_ref()).flat_map(|one| one.explain(&row).steps)
            {
                // Of cores these three numbers are all.
                if step.seen.iter().any(|seen| seen.column.name != "load_cores") {
                    let key = (format!("{:?}", cores_of(&row)), step.text.clone());
                    sides.entry(key).or_default().add(&step);
                }
            }
        }
        assert!(!sides.is_empty(), "{group}");
        for ((cores, text), sides) in sides {
            let Sides { on, holds, does_not, .. } = &sides;
            assert!(
                sides.are_all(&text),
                "{group}, cores {cores}: {text}: on a bound {on:?}, holds {holds:?}, does not {does_not:?}"
            );
        }
    }
}

fn open(dir: &tempfile::TempDir) -> Store {
    Store::open(dir.path(), &Limits::default()).unwrap()
}

fn job(number: &str, partition: &str, nodes: &str) -> Accounting {
    // Programs of the tests run at that time.
    let start = 1_800_000_000 * SECOND;
    Accounting {
        cluster: Some("tiny".into()),
        job: Some(number.into()),
        shown: number.into(),
        partition: Some(partition.into()),
        node_list: Some(nodes.into()),
        submit: Some(start),
        start: Some(start),
        end: Some(start + 3600 * SECOND),
        elapsed: Some(3600 * SECOND),
        state: Some(State::Completed),
        nodes: Some(2),
        cpus: Some(8),
        ..Accounting::default()
    }
}

/// The numbers of the jobs for which a condition holds.
fn found(store: &Store, condition: &str) -> Vec<String> {
    let condition = Condition::parse(condition, &FIXED.catalogue).unwrap_or_else(|error| panic!("{error}"));
    let which = Which { conditions: vec![condition], ..Which::default() };
    let columns = USUAL.iter().map(|name| column(name).unwrap().clone()).collect();
    let page =
        Page { columns, sort: column("job").unwrap().clone(), is_ascending: true, limit: None, after: None };
    let rows = store.reader().unwrap().jobs(&which, &page).unwrap().rows();
    assert_eq!(store.reader().unwrap().count_jobs(&which).unwrap(), rows.len() as u64);
    rows.iter().map(|row| row["job"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn programs_and_libraries_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir);
    let mut writer = store.writer().unwrap();
    let jobs = [job("17", "a", "n1"), job("18", "a", "n1"), job("19", "a", "n1")];
    writer.account(&Accounts::of(&jobs).unwrap()).unwrap();
    let at_start =
        list(1, vec![library("/opt/bin/gmx_mpi", None), library("/opt/mkl/libmkl_core.so.2", None)]);
    let later = list(2, vec![library("/usr/lib/lib_blas.so.3", None)]);
    let mut first = image(1, "/opt/bin/gmx_mpi");
    (first.objects, first.late_objects) = (Some(1), Some(2));
    let mut second = image(2, "/usr/bin/sleep");
    second.place.job = Some("18".into());
    let bytes = batch(stream(1), 1, &[entry(first), entry(second)], &[at_start, later]);
    let prepared = store::prepare(&Batch::from_bytes(&bytes).unwrap(), &writer.catalogue()).unwrap();
    writer.apply(vec![prepared], 1).unwrap();
    for (condition, expected) in [
        ("uses('libmkl*')", vec!["17"]),
        ("uses('lib_blas.so*')", vec!["17"]),
        ("uses('lib?blas.so*')", vec!["17"]),
        ("uses('libXblas.so*')", vec![]),
        ("uses('/opt/mkl/*')", vec!["17"]),
        ("uses('mkl*')", vec![]),
        // Of 19 nobody knows.
        ("not uses('libmkl*')", vec!["18"]),
        ("uses('libmkl*') is unknown", vec!["19"]),
        ("runs('gmx*') or runs('sleep')", vec!["17", "18"]),
        ("runs('*/bin/sleep')", vec!["18"]),
        ("runs('bin*')", vec![]),
        ("not runs('gmx*')", vec!["18"]),
        ("runs('gmx*') and uses('libmkl*') and nodes > 1", vec!["17"]),
    ] {
        assert_eq!(found(&store, condition), expected, "{condition}");
    }
}

#[test]
fn what_the_site_says_stands_beside_jobs() {
    let dir = tempfile::tempdir().unwrap();
    let told = "[[partition]]\nname = 'test'\nis_test = true\n[[partition]]\nname = 'hdd'\nhas_local_disk = true\n\
                default_time_limit_seconds = 600\n[[nodes]]\nnames = 'n2'\ncores = 48\npeak_flops = 1e12\n";
    let store = open(&dir).with_site(store::Site::parse(told).unwrap());
    let mut writer = store.writer().unwrap();
    let partition = |name: &str| Partition { name: name.into(), ..Partition::default() };
    let node = |name: &str, cores, gpus: &[u64]| Node {
        name: name.into(),
        cores: Some(cores),
        gpus: gpus.iter().map(|count| Gpus { model: None, count: *count }).collect(),
        partitions: vec![if gpus.is_empty() { "hdd" } else { "gpu" }.into()],
        ..Node::default()
    };
    let site = SiteData {
        cluster: Some("tiny".into()),
        partitions: vec![partition("test"), partition("hdd"), partition("gpu"), partition("gpu")],
        nodes: vec![node("n1", 64, &[]), node("n2", 64, &[]), node("n3", 32, &[4])],
        ..SiteData::default()
    };
    writer.keep_site(&site, 1).unwrap();
    let jobs =
        [job("1", "test", "n1"), job("2", "hdd", "n[1-2]"), job("3", "gpu", "n3"), job("4", "gone", "n9")];
    writer.account(&Accounts::of(&jobs).unwrap()).unwrap();
    for (condition, expected) in [
        ("is_test_partition", vec!["1"]),
        ("not is_test_partition", vec!["2", "3"]),
        ("is_test_partition is unknown", vec!["4"]),
        ("is_high_priority_partition is known", vec![]),
        ("partition_has_gpus", vec!["3"]),
        ("partition_has_disks", vec!["2"]),
        ("default_time_limit = 10m", vec!["2"]),
        ("node_cores = 48 and node_peak_flops = 1e12", vec!["2"]),
        ("node_cores = 64", vec!["1"]),
        ("node_cores is unknown", vec!["4"]),
        ("cores / nodes < node_cores", vec!["1", "2", "3"]),
    ] {
        assert_eq!(found(&store, condition), expected, "{condition}");
    }
    let shown = store.reader().unwrap().site(None).unwrap();
    let of_gpu =
        shown["partitions"].as_array().unwrap().iter().find(|row| row["partition"] == "gpu").unwrap();
    assert_eq!(
        (&of_gpu["has_gpus"], &of_gpu["is_test"]),
        (&true.into(), &false.into()),
        "as jobs are judged"
    );
    // A writer that begins later has the site as it is then.
    drop((writer, store));
    let other = "[[partition]]\nname = 'gpu'\nis_test = true\n";
    let store = open(&dir).with_site(store::Site::parse(other).unwrap());
    drop(store.writer().unwrap());
    assert_eq!(found(&store, "is_test_partition"), ["3"]);
}

#[test]
fn site_data_counts_for_partitions_and_nodes_that_no_batch_system_reported() {
    let dir = tempfile::tempdir().unwrap();
    let told = "[[partition]]\nname = 'gpu'\nhas_gpus = true\n[[nodes]]\nnames = 'n[1-2]'\ncores = 48\n";
    let store = open(&dir).with_site(store::Site::parse(told).unwrap());
    let mut writer = store.writer().unwrap();
    let elsewhere = Accounting { cluster: None, ..job("2", "gpu", "n[1-2]") };
    let jobs = [job("1", "gpu", "n1"), elsewhere, job("3", "work", "n3")];
    writer.account(&Accounts::of(&jobs).unwrap()).unwrap();
    while !writer.judge_due(store::tags::PIECE).unwrap().is_last {}
    for (condition, expected) in [
        ("partition_has_gpus", vec!["1", "2"]),
        ("partition_has_gpus is unknown", vec!["3"]),
        ("node_cores = 48", vec!["1", "2"]),
        ("node_cores is unknown", vec!["3"]),
    ] {
        assert_eq!(found(&store, condition), expected, "{condition}");
    }
    let shown = store.reader().unwrap().site(None).unwrap();
    assert_eq!(shown["unmatched"], serde_json::json!([]));
    drop((writer, store));
    // A site that says more of them when the server starts again.
    let more = format!("{told}[[nodes]]\nnames = 'n3'\ncores = 4\npeak_flops = 1e12\n");
    let store = open(&dir).with_site(store::Site::parse(&more).unwrap());
    drop(store.writer().unwrap());
    assert_eq!(found(&store, "node_cores = 4 and node_peak_flops = 1e12"), ["3"]);
}

#[test]
fn what_agents_measured_of_nodes_counts_where_the_site_says_nothing() {
    use record::entry::Entry;
    use record::reading::{Hardware, Reading};
    let dir = tempfile::tempdir().unwrap();
    let told = "[[nodes]]\nnames = 'n1'\ncores = 48\n";
    let store = open(&dir).with_site(store::Site::parse(told).unwrap());
    let mut writer = store.writer().unwrap();
    writer
        .account(&Accounts::of(&[job("1", "work", common::HOST), job("2", "work", "n9")]).unwrap())
        .unwrap();
    let hardware =
        Hardware { cores: Some(64), memory: Some(1 << 30), peak_flops: Some(1 << 40), ..Hardware::default() };
    let reading = Entry::Reading(Box::new(Reading {
        time: 1_800_000_000 * SECOND,
        host: common::HOST.into(),
        hardware: Some(Box::new(hardware)),
        ..Reading::default()
    }));
    let bytes = batch(stream(1), 1, &[reading], &[]);
    let prepared = store::prepare(&Batch::from_bytes(&bytes).unwrap(), &writer.catalogue()).unwrap();
    writer.apply(vec![prepared], 1).unwrap();
    while !writer.judge_due(store::tags::PIECE).unwrap().is_last {}
    let measured = "node_cores = 48 and node_memory = 1GiB and node_peak_flops > 1e12";
    assert_eq!(found(&store, measured), ["1"]);
    assert_eq!(found(&store, "node_memory is unknown"), ["2"]);
}
