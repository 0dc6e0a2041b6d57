//! How often a job is to be read, and by which sensors: as people write it, and as it travels to the agents.
//!
//! A comment of a job asks with the word `jobglass:rate=5s`, or `jobglass:rate=5s,sensors=cpu+ib,for=10m`, anywhere among other
//! words; it ends at a space or a semicolon.

use serde::{Deserialize, Serialize};

use crate::metric::{Metric, Of};

/// With this header of a request an agent says which jobs it has, with commas between them: only their rates are answered.
pub const JOBS_HEADER: &str = "jobglass-jobs";
/// The header is no longer than this: some hundreds of jobs on one node.
pub const JOBS_MAX: usize = 8 * 1024;
/// A job's name is no longer than this.
pub const JOB_MAX: usize = 64;
/// A rate lasts at most so long, and this long unless somebody says otherwise.
pub const LASTS_MAX_S: u64 = 30 * 86_400;
pub const LASTS_S: u64 = 3600;

const NS: f64 = 1e9;

/// Sensors that are asked for together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    Cpu,
    Memory,
    Io,
    Network,
    Ib,
    Gpu,
    Energy,
    Counters,
}

impl Group {
    pub const ALL: [Group; 8] = [
        Group::Cpu,
        Group::Memory,
        Group::Io,
        Group::Network,
        Group::Ib,
        Group::Gpu,
        Group::Energy,
        Group::Counters,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Group::Cpu => "cpu",
            Group::Memory => "memory",
            Group::Io => "io",
            Group::Network => "network",
            Group::Ib => "ib",
            Group::Gpu => "gpu",
            Group::Energy => "energy",
            Group::Counters => "counters",
        }
    }

    fn by_name(name: &str) -> Option<Group> {
        Group::ALL.into_iter().find(|group| group.name() == name)
    }

    /// The group of a metric, by the beginning of its name; what is in no other counts events of the hardware.
    pub fn of(metric: &Metric) -> Group {
        let name = metric.name.strip_prefix("node_").unwrap_or(metric.name);
        let found = BEGINNINGS.iter().find(|(beginning, _)| name.starts_with(beginning));
        found.map_or(Group::Counters, |(_, group)| *group)
    }

    /// Whether no job has values of its own in it, only the node.
    fn is_of_nodes(self) -> bool {
        matches!(self, Group::Network | Group::Ib | Group::Energy | Group::Counters)
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// How the names of metrics begin, without `node_`.
const BEGINNINGS: [(&str, Group); 26] = [
    ("cpu", Group::Cpu),
    ("processes", Group::Cpu),
    ("threads", Group::Cpu),
    ("job_load", Group::Cpu),
    ("load", Group::Cpu),
    ("switches", Group::Cpu),
    ("involuntary", Group::Cpu),
    ("memory", Group::Memory),
    ("swap", Group::Memory),
    ("minor_faults", Group::Memory),
    ("major_faults", Group::Memory),
    ("oom", Group::Memory),
    ("read_", Group::Io),
    ("write_", Group::Io),
    ("io_", Group::Io),
    ("disk", Group::Io),
    ("nfs", Group::Io),
    ("lustre", Group::Io),
    ("net_", Group::Network),
    ("ib_", Group::Ib),
    ("gpu", Group::Gpu),
    ("card_", Group::Gpu),
    ("energy", Group::Energy),
    ("power", Group::Energy),
    ("temperature", Group::Energy),
    ("fan", Group::Energy),
];

/// A set of groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sensors(u8);

impl Sensors {
    pub const ALL: Sensors = Sensors(u8::MAX);
    pub const NONE: Sensors = Sensors(0);

    pub fn is_all(self) -> bool {
        self == Sensors::ALL
    }

    pub fn is_empty(self) -> bool {
        self == Sensors::NONE
    }

    /// Whether values of this metric are wanted.
    pub fn has(self, metric: &Metric) -> bool {
        self.0 & Group::of(metric).bit() != 0
    }

    pub fn and(self, other: Sensors) -> Sensors {
        Sensors(self.0 | other.0)
    }

    /// Those of which jobs have values of their own.
    pub fn of(self, of: Of) -> Sensors {
        let wanted = Group::ALL.into_iter().filter(|group| group.is_of_nodes() == (of == Of::Node));
        Sensors(self.0 & wanted.fold(0, |bits, group| bits | group.bit()))
    }

    /// The names of the groups; none of them means all.
    pub fn names(self) -> Vec<&'static str> {
        let named = |group: &Group| !self.is_all() && self.0 & group.bit() != 0;
        Group::ALL.iter().filter(|group| named(group)).map(|group| group.name()).collect()
    }

    /// What people write: names of groups.
    pub fn parse<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Sensors, RateError> {
        let mut sensors = Sensors::NONE;
        for name in names.into_iter().map(str::trim) {
            let group = Group::by_name(name).ok_or_else(|| RateError::Sensors(name.to_owned()))?;
            sensors.0 |= group.bit();
        }
        Ok(if sensors.is_empty() { Sensors::ALL } else { sensors })
    }

    /// What a server tells: without any name all are meant, and a name of the future is none that could be read here.
    pub fn told(names: &[String]) -> Sensors {
        if names.is_empty() {
            return Sensors::ALL;
        }
        let known = names.iter().filter_map(|name| Group::by_name(name));
        Sensors(known.fold(0, |bits, group| bits | group.bit()))
    }
}

/// Why a rate cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    #[error("`{0}` is no rate: write 500ms, 5s or 2m, from 1ms to a day")]
    Every(String),
    #[error("`{0}` is no time: write 90s, 10m, 2h or 1d, from a second to 30 days")]
    Lasts(String),
    #[error("`{0}` is no group of sensors; there are: cpu, memory, io, network, ib, gpu, energy, counters")]
    Sensors(String),
    #[error("`{0}` is not understood: write jobglass:rate=5s, with ,sensors=cpu+ib or ,for=10m behind it")]
    Comment(String),
    #[error("the comment asks more than once: `{0}`")]
    Twice(String),
}

/// A number and one of these units, in nanoseconds.
fn parse_time(text: &str, units: &[(&str, f64)], least: f64, most: f64) -> Option<u64> {
    let text = text.trim();
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let scale = units.iter().find(|(name, _)| *name == unit)?.1;
    let nanos = number.parse::<f64>().ok()? * scale;
    (nanos.is_finite() && (least..=most).contains(&nanos)).then_some(nanos as u64)
}

/// `5s`, `500ms`, `2m`, or seconds; in nanoseconds.
pub fn parse_every(text: &str) -> Result<u64, RateError> {
    let units = [("ms", 1e6), ("", NS), ("s", NS), ("m", 60.0 * NS), ("min", 60.0 * NS)];
    parse_time(text, &units, 1e6, 86_400.0 * NS).ok_or_else(|| RateError::Every(text.to_owned()))
}

/// `90s`, `10m`, `2h`, `1d`, or seconds; in seconds.
pub fn parse_lasts(text: &str) -> Result<u64, RateError> {
    let units =
        [("", NS), ("s", NS), ("m", 60.0 * NS), ("min", 60.0 * NS), ("h", 3600.0 * NS), ("d", 86_400.0 * NS)];
    let nanos = parse_time(text, &units, NS, LASTS_MAX_S as f64 * NS);
    nanos.map(|nanos| nanos / 1_000_000_000).ok_or_else(|| RateError::Lasts(text.to_owned()))
}

/// What somebody asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Nanoseconds.
    pub every: u64,
    pub sensors: Sensors,
    pub lasts_s: Option<u64>,
}

/// What a job's comment asks for, if it does.
pub fn in_comment(comment: &str) -> Result<Option<Request>, RateError> {
    let words = comment.split(|c: char| c.is_whitespace() || c == ';');
    let mut asked = words.filter_map(|word| Some((word, word.strip_prefix("jobglass:")?)));
    let Some((word, request)) = asked.next() else { return Ok(None) };
    if let Some((again, _)) = asked.next() {
        return Err(RateError::Twice(again.to_owned()));
    }
    let misread = || RateError::Comment(word.to_owned());
    let (mut every, mut sensors, mut lasts_s) = (None, None, None);
    for part in request.split(',') {
        let (name, value) = part.split_once('=').ok_or_else(misread)?;
        let is_again = match name {
            "rate" => every.replace(parse_every(value)?).is_some(),
            "sensors" if value.is_empty() => return Err(misread()),
            "sensors" => sensors.replace(Sensors::parse(value.split('+'))?).is_some(),
            "for" => lasts_s.replace(parse_lasts(value)?).is_some(),
            _ => return Err(misread()),
        };
        if is_again {
            return Err(misread());
        }
    }
    let every = every.ok_or_else(misread)?;
    Ok(Some(Request { every, sensors: sensors.unwrap_or(Sensors::ALL), lasts_s }))
}

/// A job's name, as it can stand in a header: without commas, and not long.
pub fn is_job_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'+');
    (1..=JOB_MAX).contains(&name.len()) && name.bytes().all(is_plain)
}

/// Names of jobs as the value of [`JOBS_HEADER`], as many as it holds.
pub fn jobs_header<'a>(jobs: impl IntoIterator<Item = &'a str>) -> String {
    let mut text = String::new();
    for job in jobs.into_iter().filter(|job| is_job_name(job)) {
        if text.len() + job.len() < JOBS_MAX {
            if !text.is_empty() {
                text.push(',');
            }
            text.push_str(job);
        }
    }
    text
}

/// A job's rate, on its way to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRate {
    pub job: String,
    /// On this cluster only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    pub every_ms: u64,
    /// Names of groups; without any, all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensors: Vec<String>,
    /// How long it still holds. Not until when: clocks differ.
    pub left_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::{METRICS, by_name};
    use proptest::prelude::*;

    const S: u64 = 1_000_000_000;

    fn sensors(names: &[&str]) -> Sensors {
        Sensors::parse(names.iter().copied()).unwrap()
    }

    #[test]
    fn every_kind_of_metric_has_its_group() {
        for (name, expected) in [
            ("cpu_user", Group::Cpu),
            ("node_load", Group::Cpu),
            ("memory_peak", Group::Memory),
            ("node_lustre_read", Group::Io),
            ("node_net_sent", Group::Network),
            ("node_ib_sent", Group::Ib),
            ("gpu_memory", Group::Gpu),
            ("card_power", Group::Gpu),
            ("node_energy", Group::Energy),
            ("node_flops_256", Group::Counters),
        ] {
            assert_eq!(by_name(name).map(Group::of), Some(expected), "{name}");
        }
    }

    #[test]
    fn rates_as_people_write_them() {
        for (text, expected) in [
            ("5s", Some(5 * S)),
            ("5", Some(5 * S)),
            (" 5s ", Some(5 * S)),
            ("500ms", Some(S / 2)),
            ("2m", Some(120 * S)),
            ("2min", Some(120 * S)),
            ("0.5", Some(S / 2)),
            ("", None),
            ("s", None),
            ("0s", None),
            ("-1s", None),
            ("5h", None),
            ("5 s", None),
            ("1e9", None),
            ("1.2.3s", None),
            ("999999999", None),
        ] {
            assert_eq!(parse_every(text).ok(), expected, "{text}");
        }
        for (text, expected) in [
            ("90s", Some(90)),
            ("10m", Some(600)),
            ("1.5h", Some(5400)),
            ("30d", Some(LASTS_MAX_S)),
            ("31d", None),
            ("0", None),
            ("500ms", None),
            ("ever", None),
        ] {
            assert_eq!(parse_lasts(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn what_comments_ask_for() {
        let asks =
            |every, names: &[&str], lasts_s| Ok(Some(Request { every, sensors: sensors(names), lasts_s }));
        for (comment, expected) in [
            ("", Ok(None)),
            ("chr20, second try", Ok(None)),
            ("http://jobglass:8765/", Ok(None)),
            ("notjobglass:rate=5s", Ok(None)),
            ("jobglass rate=5s", Ok(None)),
            ("jobglass:rate=5s", asks(5 * S, &[], None)),
            ("first jobglass:rate=500ms last", asks(S / 2, &[], None)),
            ("energy=1;jobglass:rate=2m;x=y", asks(120 * S, &[], None)),
            ("jobglass:rate=5s,sensors=cpu+ib", asks(5 * S, &["cpu", "ib"], None)),
            ("\tjobglass:sensors=gpu,rate=1,for=10m\n", asks(S, &["gpu"], Some(600))),
            ("jobglass:", Err(RateError::Comment("jobglass:".into()))),
            ("jobglass:rate", Err(RateError::Comment("jobglass:rate".into()))),
            ("jobglass:rate=", Err(RateError::Every(String::new()))),
            ("jobglass:rate=fast", Err(RateError::Every("fast".into()))),
            ("jobglass:rate=5s,", Err(RateError::Comment("jobglass:rate=5s,".into()))),
            ("jobglass:rate=5s,rate=6s", Err(RateError::Comment("jobglass:rate=5s,rate=6s".into()))),
            ("jobglass:rate=5s,speed=6", Err(RateError::Comment("jobglass:rate=5s,speed=6".into()))),
            ("jobglass:sensors=cpu", Err(RateError::Comment("jobglass:sensors=cpu".into()))),
            ("jobglass:rate=5s,sensors=", Err(RateError::Comment("jobglass:rate=5s,sensors=".into()))),
            ("jobglass:rate=5s,sensors=cpu+disc", Err(RateError::Sensors("disc".into()))),
            ("jobglass:rate=5s,for=ever", Err(RateError::Lasts("ever".into()))),
            ("jobglass:rate=5s jobglass:rate=6s", Err(RateError::Twice("jobglass:rate=6s".into()))),
        ] {
            assert_eq!(in_comment(comment), expected, "{comment:?}");
        }
    }

    proptest! {
        #[test]
        fn any_comment_is_read_without_a_panic(text in "\\PC*") {
            let _ = in_comment(&text);
            let _ = in_comment(&format!("jobglass:{text}"));
        }

        #[test]
        fn a_request_is_found_among_other_words(
            before in "[a-z =,]{0,20}", after in "[a-z =,]{0,20}",
            seconds in 1u64..80_000, bits in 0u8..=255, lasts in proptest::option::of(1u64..LASTS_MAX_S),
        ) {
            let sensors = Sensors(bits);
            let mut text = format!("{before} jobglass:rate={seconds}s");
            if !sensors.names().is_empty() {
                text += &format!(",sensors={}", sensors.names().join("+"));
            }
            text += &lasts.map_or(String::new(), |lasts| format!(",for={lasts}s"));
            let sensors = if sensors.is_empty() { Sensors::ALL } else { sensors };
            let found = in_comment(&format!("{text} {after}")).unwrap();
            prop_assert_eq!(found, Some(Request { every: seconds * S, sensors, lasts_s: lasts }));
        }
    }

    #[test]
    fn every_metric_has_its_group() {
        for (name, expected) in [
            ("cpu", Group::Cpu),
            ("job_load", Group::Cpu),
            ("node_load", Group::Cpu),
            ("memory_peak", Group::Memory),
            ("major_faults", Group::Memory),
            ("read_chars", Group::Io),
            ("io_pressure", Group::Io),
            ("node_lustre_write", Group::Io),
            ("node_net_sent", Group::Network),
            ("node_ib_received", Group::Ib),
            ("node_energy", Group::Energy),
            ("node_temperature", Group::Energy),
        ] {
            assert_eq!(Group::of(by_name(name).unwrap()), expected, "{name}");
        }
        // A group that is only of nodes has no metric of jobs: it would never be read at a finer rate.
        for metric in METRICS {
            assert!(!Group::of(metric).is_of_nodes() || metric.of == Of::Node, "{}", metric.name);
        }
    }

    #[test]
    fn sets_of_groups() {
        let some = sensors(&["ib", " cpu"]);
        assert_eq!(some.names(), ["cpu", "ib"]);
        assert_eq!((some.of(Of::Job), some.of(Of::Node)), (sensors(&["cpu"]), sensors(&["ib"])));
        assert!(some.has(by_name("cpu_user").unwrap()) && !some.has(by_name("memory").unwrap()));
        assert!(sensors(&[]).is_all() && sensors(&[]).names().is_empty());
        let told =
            |names: &[&str]| Sensors::told(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(told(&["cpu", "smell"]), sensors(&["cpu"]));
        assert_eq!((told(&[]), told(&["smell"])), (Sensors::ALL, Sensors::NONE));
        let error = Sensors::parse(["cpu", "smell"]).unwrap_err().to_string();
        let all: Vec<&str> = Group::ALL.iter().map(|group| group.name()).collect();
        assert!(error.contains("smell") && error.contains(&all.join(", ")), "{error}");
    }

    #[test]
    fn jobs_in_a_header() {
        let header = jobs_header(["17", "a,b", "", "18_2", "\u{e9}", &"9".repeat(65)]);
        assert_eq!(header, "17,18_2");
        let many: Vec<String> = (0..5000).map(|n| format!("{n:06}")).collect();
        let header = jobs_header(many.iter().map(String::as_str));
        assert!((JOBS_MAX - 8..=JOBS_MAX).contains(&header.len()), "{}", header.len());
    }
}
