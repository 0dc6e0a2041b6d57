//! Jobs grouped by who ran them, where, when, or what they are.
//!
//! With a time range, and in groups of time, a job counts for the time that it ran in it: what it used is taken to be spread evenly over
//! its run, so that the sums of a year's months are the sum of the year. A job on several nodes is on each of them with an equal part;
//! one with several programs or tags is with all of it in the group of each.

use serde_json::{Map, Value, json};

use super::columns::STARTED;
use super::tagged::SET;
use super::{ACCOUNTED, COUNTED, OF_JOB, Rows, Snapshot, Which};
use crate::StoreError;
use crate::kind::Kind;
use crate::query::running::RUNS;
use crate::tags::TAGS;

const HOUR_NS: i64 = 3_600_000_000_000;
const DAY_NS: i64 = 24 * HOUR_NS;
const WEEK_NS: i64 = 7 * DAY_NS;
/// From the Monday before 1970, which began with a Thursday.
const MONDAY_NS: i64 = 3 * DAY_NS;

/// What the jobs of a row have in common. Times are those of UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobsBy {
    Cluster,
    Kind,
    User,
    Project,
    Partition,
    State,
    Name,
    Node,
    Program,
    Tag,
    Month,
    Week,
    Day,
    /// Of the day.
    Hour,
    Weekday,
}

impl JobsBy {
    pub const ALL: [JobsBy; 15] = [
        JobsBy::Cluster,
        JobsBy::Kind,
        JobsBy::User,
        JobsBy::Project,
        JobsBy::Partition,
        JobsBy::State,
        JobsBy::Name,
        JobsBy::Node,
        JobsBy::Program,
        JobsBy::Tag,
        JobsBy::Month,
        JobsBy::Week,
        JobsBy::Day,
        JobsBy::Hour,
        JobsBy::Weekday,
    ];

    pub fn name(self) -> &'static str {
        match self {
            JobsBy::Cluster => "cluster",
            JobsBy::Kind => "kind",
            JobsBy::User => "user",
            JobsBy::Project => "project",
            JobsBy::Partition => "partition",
            JobsBy::State => "state",
            JobsBy::Name => "name",
            JobsBy::Node => "node",
            JobsBy::Program => "program",
            JobsBy::Tag => "tag",
            JobsBy::Month => "month",
            JobsBy::Week => "week",
            JobsBy::Day => "day",
            JobsBy::Hour => "hour",
            JobsBy::Weekday => "weekday",
        }
    }

    /// Whether a job is in one group only, which its own row says.
    pub(in crate::query) fn is_of_job(self) -> bool {
        !matches!(self, JobsBy::Node | JobsBy::Program | JobsBy::Tag)
    }

    /// The group of a job; of time, the one in which it began, or was submitted where it has not begun.
    pub(in crate::query) fn key(self) -> String {
        match self.interval() {
            Some(interval) => interval.key(self, &interval.number("coalesce(c.start_ns, c.submit_ns)")),
            None if self == JobsBy::Kind => Kind::SQL.to_owned(),
            None if self.is_of_job() => format!("c.\"{}\"", self.name()),
            None => "k.name".to_owned(),
        }
    }

    fn interval(self) -> Option<Interval> {
        match self {
            JobsBy::Month => Some(Interval::Month),
            JobsBy::Week => Some(Interval::Every { ns: WEEK_NS, before: MONDAY_NS }),
            JobsBy::Day | JobsBy::Weekday => Some(Interval::Every { ns: DAY_NS, before: 0 }),
            JobsBy::Hour => Some(Interval::Every { ns: HOUR_NS, before: 0 }),
            _ => None,
        }
    }

    /// What a job may have several of: `k` has a row for each.
    fn beside(self) -> String {
        let of = match self {
            JobsBy::Node => {
                return "LEFT JOIN (SELECT list, host AS name, count(*) OVER (PARTITION BY list) AS size FROM node_list) k \
                        ON k.list = c.node_list"
                    .to_owned();
            }
            JobsBy::Program => format!(
                "SELECT DISTINCT c.id, regexp_extract(q.exe, '[^/]*$') AS name FROM {ACCOUNTED} JOIN {RUNS} q ON {OF_JOB} \
                 WHERE q.exe IS NOT NULL"
            ),
            JobsBy::Tag => {
                let words = TAGS.iter().enumerate().map(|(at, word)| format!("WHEN {at} THEN c.{word}"));
                format!(
                    "SELECT c.id, g.name FROM {ACCOUNTED}, tag g WHERE g.is_available \
                       AND (CASE g.bit // 64 {} END >> (g.bit % 64)::UBIGINT) & 1::UBIGINT = 1 \
                     UNION SELECT h.id, g.name FROM assignment h JOIN tag g ON g.id = h.tag WHERE g.is_available AND {SET}",
                    words.collect::<Vec<_>>().join(" ")
                )
            }
            _ => return String::new(),
        };
        format!("LEFT JOIN ({of}) k ON k.id = c.id")
    }

    pub(in crate::query) fn word(self, key: Option<String>) -> Value {
        const DAYS: [&str; 7] =
            ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
        match (self, key) {
            (JobsBy::Weekday, Some(key)) => {
                json!(key.parse::<usize>().ok().and_then(|day| DAYS.get(day.wrapping_sub(1))))
            }
            (_, key) => json!(key),
        }
    }
}

/// The stretches of time into which jobs are divided, by numbers that follow each other.
#[derive(Debug, Clone, Copy)]
enum Interval {
    /// All of this length; the first begins so long before 1970.
    Every {
        ns: i64,
        before: i64,
    },
    Month,
}

impl Interval {
    /// Of a time.
    fn number(self, at: &str) -> String {
        match self {
            Interval::Every { ns, before } => format!("(({at}) + {before}) // {ns}"),
            Interval::Month => {
                let time = format!("make_timestamp(({at}) // 1000)");
                format!("(year({time}) * 12 + month({time}) - 1)")
            }
        }
    }

    /// When it begins.
    fn begin(self, number: &str) -> String {
        match self {
            Interval::Every { ns, before } => format!("(({number}) * {ns} - {before})"),
            Interval::Month => {
                format!("epoch_ns(make_timestamp(({number}) // 12, ({number}) % 12 + 1, 1, 0, 0, 0.0))")
            }
        }
    }

    /// What it is called.
    fn key(self, by: JobsBy, number: &str) -> String {
        let written =
            |form: &str| format!("strftime(make_timestamp({} // 1000), '{form}')", self.begin(number));
        match by {
            JobsBy::Month => written("%Y-%m"),
            JobsBy::Week => written("%G-W%V"),
            JobsBy::Hour => format!("lpad(CAST(({number}) % 24 AS VARCHAR), 2, '0')"),
            JobsBy::Weekday => format!("CAST((({number}) + 3) % 7 + 1 AS VARCHAR)"),
            _ => written("%Y-%m-%d"),
        }
    }
}

/// Of a row. `JOBS` is how many there are, `PART` how much of a job's run counts, `STARTED` whether it began here and then, `RAN` whether it
/// began at all. Sums are over those of which it is known.
const TOGETHER: [(&str, &str); 10] = [
    ("jobs", "JOBS"),
    ("started", "count(*) FILTER (STARTED)"),
    ("core_hours", "sum(c.elapsed_ns::DOUBLE * c.coresPART) / 3.6e12"),
    ("node_hours", "sum(c.elapsed_ns::DOUBLE * c.nodesPART) / 3.6e12"),
    ("gpu_hours", "sum(c.elapsed_ns::DOUBLE * c.gpusPART) / 3.6e12"),
    ("elapsed_hours", "sum(c.elapsed_ns::DOUBLEPART) / 3.6e12"),
    ("wait_avg_s", "avg(c.start_ns - c.submit_ns) FILTER (STARTED) / 1e9"),
    ("wait_median_s", "median(c.start_ns - c.submit_ns) FILTER (STARTED) / 1e9"),
    ("wait_max_s", "max(c.start_ns - c.submit_ns) FILTER (STARTED) / 1e9"),
    ("cores_avg", "avg(c.cores) FILTER (RAN)"),
];

/// The order of groups: by what they have in common, or by one of their sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupSort {
    column: Option<&'static str>,
    is_ascending: bool,
}

impl GroupSort {
    /// By the name of a column; `-` before it is from the most to the least.
    pub fn named(text: &str, by: JobsBy) -> Option<GroupSort> {
        let name = text.trim_start_matches('-');
        let is_ascending = !text.starts_with('-');
        if name.eq_ignore_ascii_case(by.name()) {
            return Some(GroupSort { column: None, is_ascending });
        }
        let is_meant = |column: &&str| {
            column.eq_ignore_ascii_case(name)
                || column.strip_suffix("_s").is_some_and(|short| short.eq_ignore_ascii_case(name))
        };
        let column = TOGETHER.iter().map(|(column, _)| *column).find(is_meant)?;
        Some(GroupSort { column: Some(column), is_ascending })
    }

    /// The names there are.
    pub fn names(by: JobsBy) -> impl Iterator<Item = &'static str> {
        [by.name()].into_iter().chain(TOGETHER.iter().map(|(column, _)| *column))
    }

    /// Groups of time in their order, others with those first that used most.
    fn usual(by: JobsBy) -> GroupSort {
        let column = by.interval().is_none().then_some("core_hours");
        GroupSort { column, is_ascending: column.is_none() }
    }

    fn sql(self) -> String {
        let way = if self.is_ascending { "ASC" } else { "DESC" };
        match self.column {
            None => format!("key {way} NULLS LAST"),
            Some(column) => format!("{column} {way} NULLS LAST, key"),
        }
    }
}

/// From where rows of groups come, and how much of a job is in one.
struct Source {
    /// After `FROM`.
    from: String,
    key: String,
    jobs: &'static str,
    part: String,
    started: String,
}

/// As [`COUNTED`] of rows in which a job may be several times.
const COUNTED_ONCE: &str = "(count(DISTINCT c.id) + coalesce(sum(c.waiting_tasks - 1), 0))::UBIGINT";

/// When a job that began has ended, as far as is known. A damaged record may have any time, and the sum of two must not be too large.
const END: &str =
    "coalesce(c.end_ns, least(c.start_ns, 4000000000000000000) + least(c.elapsed_ns, 4000000000000000000))";

/// The last time that can be true, in 2096: what is behind it counts as unknown, or ends then.
const LAST_NS: i64 = 4_000_000_000_000_000_000;
/// Into so many intervals a job is divided at most: two years of hours, or fifty of days. One that seems to have run longer counts as a whole
/// where it began, since a few damaged records would be more rows than all others.
const INTERVALS: i64 = 20_000;

impl Source {
    fn new(which: &Which, by: JobsBy, conditions: &str) -> Source {
        let beside = format!("{} {}", which.beside(std::iter::empty()), by.beside());
        let jobs = format!("{ACCOUNTED} {beside} {conditions}");
        if let Some(interval) = by.interval() {
            return Source::of_intervals(which, by, interval, &jobs);
        }
        let has_range = which.since_ns.is_some() || which.until_ns.is_some();
        let mut parts = Vec::new();
        if has_range {
            let (from, to) = (later("c.start_ns", which.since_ns), earlier(END, which.until_ns));
            parts.push(share(&from, &to));
        }
        if by == JobsBy::Node {
            parts.push("(1.0 / coalesce(k.size, 1))".to_owned());
        }
        let part = parts.iter().map(|part| format!(" * {part}")).collect();
        Source { from: jobs, key: by.key(), jobs: COUNTED, part, started: started_within(which) }
    }

    /// Each job as often as there are intervals in which it ran. One that did not begin is in that of its submission, one of which no
    /// time is known in none that has a name.
    fn of_intervals(which: &Which, by: JobsBy, interval: Interval, jobs: &str) -> Source {
        let at = format!("nullif(least(coalesce(c.start_ns, c.submit_ns), {LAST_NS}), {LAST_NS})");
        let from = later(&at, which.since_ns);
        let to = earlier(
            &format!(
                "CASE WHEN c.start_ns IS NULL THEN {at} ELSE least(coalesce({END}, {at}), {LAST_NS}) END"
            ),
            which.until_ns,
        );
        let (first, last) = (interval.number("c.from_"), interval.number("greatest(c.from_, c.to_ - 1)"));
        // What ends with an interval is not in the next one.
        const NUMBERS: &str = "CASE WHEN c.from_ IS NULL THEN [NULL::BIGINT] WHEN c.is_whole_ THEN [c.first_] \
             ELSE range(c.first_, c.last_ + 1) END";
        let from = format!(
            "(SELECT c.*, unnest({NUMBERS}) AS interval_ \
              FROM (SELECT c.*, c.last_ - c.first_ >= {INTERVALS} AS is_whole_ \
                FROM (SELECT c.*, {first} AS first_, {last} AS last_ \
                  FROM (SELECT c.*, {from} AS from_, {to} AS to_ FROM {jobs}) c) c) c) c"
        );
        let (begin, end) = (interval.begin("c.interval_"), interval.begin("c.interval_ + 1"));
        let until = format!("CASE WHEN c.is_whole_ THEN c.to_ ELSE least(c.to_, {end}) END");
        let part = share(&format!("greatest(c.from_, {begin})"), &until);
        let started =
            format!("{STARTED} AND c.start_ns >= c.from_ AND c.start_ns >= {begin} AND c.start_ns < {end}");
        // A job of several days is in the same hour of each.
        let comes_again = matches!(by, JobsBy::Hour | JobsBy::Weekday);
        let jobs = if comes_again { COUNTED_ONCE } else { COUNTED };
        Source { from, key: interval.key(by, "c.interval_"), jobs, part: format!(" * {part}"), started }
    }

    fn columns(&self) -> String {
        let column = |(name, sql): (&str, &str)| {
            let (part, started) = (self.part.as_str(), self.started.as_str());
            let words = [("JOBS", self.jobs), ("PART", part), ("STARTED", started), ("RAN", STARTED)];
            let sql = words.iter().fold(sql.to_owned(), |sql, (word, meant)| sql.replace(word, meant));
            format!("{sql} AS {name}")
        };
        TOGETHER.map(column).join(", ")
    }
}

/// The part of a job's run that is between two times; all of one that took no time.
fn share(from: &str, to: &str) -> String {
    format!("coalesce(greatest(({to}) - ({from}), 0)::DOUBLE / nullif({END} - c.start_ns, 0), 1)")
}

fn later(at: &str, since_ns: Option<i64>) -> String {
    // Beside something unknown, the greatest would be the other one.
    let bounded = |since| format!("CASE WHEN ({at}) IS NOT NULL THEN greatest(({at}), {since}) END");
    since_ns.map_or(format!("({at})"), bounded)
}

fn earlier(at: &str, until_ns: Option<i64>) -> String {
    until_ns.map_or(format!("({at})"), |until| format!("least(({at}), {until})"))
}

/// A job that began before the time range did not begin in it.
fn started_within(which: &Which) -> String {
    which.since_ns.map_or(STARTED.to_owned(), |since| format!("{STARTED} AND c.start_ns >= {since}"))
}

impl Snapshot<'_> {
    pub(super) fn group_jobs(
        &self,
        which: &Which,
        by: JobsBy,
        sort: Option<GroupSort>,
    ) -> Result<Rows, StoreError> {
        let conditions = which.conditions();
        let source = Source::new(which, by, &conditions.sql());
        let sql = format!(
            "SELECT {} AS key, {} FROM {} GROUP BY key ORDER BY {}",
            source.key,
            source.columns(),
            source.from,
            sort.unwrap_or_else(|| GroupSort::usual(by)).sql()
        );
        self.rows(&sql, &conditions.values, |row| {
            let mut made = Map::new();
            made.insert(by.name().to_owned(), by.word(row.get(0)?));
            for (at, (name, _)) in TOGETHER.iter().enumerate() {
                let value = match *name {
                    "jobs" | "started" => json!(row.get::<_, u64>(at + 1)?),
                    _ => json!(row.get::<_, Option<f64>>(at + 1)?),
                };
                made.insert((*name).to_owned(), value);
            }
            Ok(made)
        })
    }
}
