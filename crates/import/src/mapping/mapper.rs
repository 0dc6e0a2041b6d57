//! Applies the table to readings.

use std::sync::Arc;

use record::entry::Nanos;
use record::metric::{Kind, Metric};

use super::rates::{Rates, Told, Unused};
use super::shares::{Host, Shares};
use super::table::{Join, Purpose, Rule, Table};
use crate::monitor::{Counts, Reading, Value};
use crate::recent::Recent;

/// No machine has more.
const CORES_MAX: f64 = 65_536.0;

/// A value of ours, or a part of one.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    pub host: String,
    pub cluster: Option<String>,
    pub time: Nanos,
    pub target: Target,
    /// Which part of it; empty for all of it.
    pub part: String,
    pub join: Join,
    /// The parts without which the whole is unknown. None named: all that there ever were.
    pub needs: Vec<String>,
    /// What it counts, where it is nothing in our catalogue.
    pub unit: Option<String>,
    pub amount: Amount,
}

/// What a value is of.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    Metric(&'static Metric),
    /// Nothing in our catalogue: a name of the table, or the series' own.
    Own(String),
}

/// How much, in the unit of the metric; of what has none, as it was told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    Level(f64),
    /// Each second, since the last value where that is known.
    Rate {
        per_second: f64,
        since: Option<Nanos>,
    },
}

/// Why a reading gave no point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Skipped {
    #[error("{0}")]
    Unused(Unused),
    #[error("the table says to leave it out")]
    Ignored,
    #[error("it only says how many cores there are")]
    Learned,
    #[error("a share of all cores, and nobody has said how many there are")]
    CoresUnknown,
    #[error("neither a sum nor a rate, where one is needed, or the other way round")]
    WrongKind,
}

/// Turns readings into points, and keeps what it must know for that of each series and host.
pub struct Mapper {
    /// Shared with itself: what is looked up stays while the rest changes.
    table: Arc<Table>,
    rates: Rates,
    /// How many cores each host has.
    cores: Recent<Host, f64>,
    /// What was told before that.
    shares: Shares,
    skipped: Counts<Skipped>,
    unmapped: u64,
}

impl Mapper {
    /// Remembers at most so many series, and as many hosts.
    pub fn new(table: Table, bound: usize) -> Self {
        let (rates, cores, shares) = (Rates::new(bound), Recent::new(bound), Shares::default());
        Mapper { table: Arc::new(table), rates, cores, shares, skipped: Counts::default(), unmapped: 0 }
    }

    /// What gave no point, or none yet, by reason.
    pub fn skipped(&self) -> Counts<Skipped> {
        let mut skipped = self.skipped.clone();
        skipped.add(Skipped::CoresUnknown, self.shares.waiting() + self.shares.dropped());
        skipped
    }

    /// How many readings the table has no row for; they keep their own names.
    pub fn unmapped(&self) -> u64 {
        self.unmapped
    }

    /// How many series are remembered, and how many were forgotten for want of room.
    pub fn series(&self) -> (usize, u64) {
        (self.rates.len(), self.rates.forgotten())
    }

    /// The points of a reading: none, one, or one for each metric that it is a part of.
    pub fn map(&mut self, reading: &Reading) -> Vec<Point> {
        let table = Arc::clone(&self.table);
        let rules: Vec<&Rule> = table.rules(&reading.path).collect();
        if rules.is_empty() {
            self.unmapped += 1;
            let target = Target::Own(reading.path.to_string());
            let told = self.rates.see(reading, false).map_err(Skipped::Unused);
            return self.kept(told.map(|told| vec![point(reading, target, None, amount(told, 1.0))]));
        }
        let mut points = Vec::new();
        for rule in &rules {
            points.extend(self.learn(rule, reading));
        }
        let measuring: Vec<&Rule> = rules.iter().copied().filter(|rule| rule.measures(reading)).collect();
        if measuring.is_empty() {
            let is_learned = rules.iter().any(|rule| rule.learns());
            self.skipped.count(if is_learned { Skipped::Learned } else { Skipped::Ignored });
            return points;
        }
        let is_sum = measuring.iter().any(|rule| self.is_sum(rule, reading));
        let told = match self.rates.see(reading, is_sum) {
            Ok(told) => told,
            Err(why) => {
                self.skipped.count(Skipped::Unused(why));
                return points;
            }
        };
        for rule in measuring {
            let made = self.measure(rule, reading, told);
            points.extend(self.kept(made));
        }
        points
    }

    /// What waits for a number of cores that nobody will say: what was counted of them has to do.
    pub fn finish(&mut self) -> Vec<Point> {
        let hosts = self.shares.hosts();
        let known = hosts.into_iter().filter_map(|host| Some((self.cores.get(&host).copied()?, host)));
        let known: Vec<(f64, Host)> = known.collect();
        known.iter().flat_map(|(cores, host)| self.shares.of(host, *cores)).collect()
    }

    fn kept(&mut self, made: Result<Vec<Point>, Skipped>) -> Vec<Point> {
        made.unwrap_or_else(|why| {
            self.skipped.count(why);
            Vec::new()
        })
    }

    /// A state that a row says is a sum: the metric is one, and the unit is not that of a rate.
    fn is_sum(&self, rule: &Rule, reading: &Reading) -> bool {
        let is_rate = self.table.unit(rule, reading.unit.as_deref()).is_some_and(|unit| unit.each_second);
        match &rule.purpose {
            Purpose::Metric(metric) => metric.kind == Kind::Counter && !is_rate,
            Purpose::Own { is_counter, .. } => *is_counter,
            _ => false,
        }
    }

    /// How many cores there are; if somebody says so, what has waited for that.
    fn learn(&mut self, rule: &Rule, reading: &Reading) -> Vec<Point> {
        let key = (reading.cluster.clone(), reading.host.clone());
        let cores = match (&rule.purpose, reading.value) {
            (Purpose::LearnCores, Value::Gauge(cores)) => Some(cores),
            (Purpose::LearnCore, _) => {
                let known = self.cores.get(&key).copied().unwrap_or(0.0);
                core(&rule.part_of(&reading.path)).map(|core| known.max(core + 1.0))
            }
            _ => None,
        };
        let Some(cores) = cores.filter(|cores| (1.0..=CORES_MAX).contains(cores)) else { return Vec::new() };
        // The first of those that are told apart says nothing of how many follow.
        let is_said = matches!(rule.purpose, Purpose::LearnCores);
        let points = if is_said { self.shares.of(&key, cores) } else { Vec::new() };
        self.cores.insert(key, cores);
        points
    }

    fn measure(&mut self, rule: &Rule, reading: &Reading, told: Told) -> Result<Vec<Point>, Skipped> {
        let unit = self.table.unit(rule, reading.unit.as_deref());
        let mut times = unit.map_or(1.0, |unit| unit.times);
        let (is_rate, is_share) = unit.map_or((false, false), |unit| (unit.each_second, unit.of_all_cores));
        if rule.is_minus {
            times = -times;
        }
        let target = match &rule.purpose {
            Purpose::Metric(metric) => Target::Metric(metric),
            Purpose::Own { name, .. } => Target::Own(name.clone()),
            _ => return Err(Skipped::Ignored),
        };
        let told = match told {
            Told::Level(level) if is_rate => Told::Rate { per_second: level, since: None },
            told => told,
        };
        let wanted = match &target {
            Target::Metric(metric) => Some(metric.kind),
            Target::Own(_) => None,
        };
        match (wanted, told) {
            (Some(Kind::Gauge), Told::Rate { .. }) | (Some(Kind::Counter), Told::Level(_)) => {
                Err(Skipped::WrongKind)
            }
            _ if is_share => Ok(self.share(point(reading, target, Some(rule), amount(told, times)))),
            _ => Ok(vec![point(reading, target, Some(rule), amount(told, times))]),
        }
    }

    /// Of all cores, whose number may be said later; with what has waited for it.
    fn share(&mut self, point: Point) -> Vec<Point> {
        let host = (point.cluster.clone(), point.host.clone());
        let Some(cores) = self.cores.get(&host).copied() else {
            self.shares.wait(host, point);
            return Vec::new();
        };
        let mut points = self.shares.of(&host, cores);
        points.push(Point { amount: point.amount.times(cores), ..point });
        points
    }
}

impl Rule {
    fn label(&self) -> Option<String> {
        match &self.purpose {
            Purpose::Own { label, .. } => label.clone(),
            _ => None,
        }
    }

    fn learns(&self) -> bool {
        matches!(self.purpose, Purpose::LearnCores | Purpose::LearnCore)
    }

    fn measures(&self, reading: &Reading) -> bool {
        let is_measured = matches!(self.purpose, Purpose::Metric(_) | Purpose::Own { .. });
        is_measured && !self.excepts(&self.part_of(&reading.path))
    }
}

impl Amount {
    pub(super) fn times(self, times: f64) -> Amount {
        match self {
            Amount::Level(level) => Amount::Level(level * times),
            Amount::Rate { per_second, since } => Amount::Rate { per_second: per_second * times, since },
        }
    }
}

fn amount(told: Told, times: f64) -> Amount {
    let plain = match told {
        Told::Level(level) => Amount::Level(level),
        Told::Rate { per_second, since } => Amount::Rate { per_second, since },
    };
    plain.times(times)
}

fn point(reading: &Reading, target: Target, rule: Option<&Rule>, amount: Amount) -> Point {
    Point {
        host: reading.host.clone(),
        cluster: reading.cluster.clone(),
        time: reading.time,
        target,
        part: rule.map_or(String::new(), |rule| rule.part_of(&reading.path).into_owned()),
        join: rule.map_or(Join::Each, |rule| rule.join),
        needs: rule.map_or(Vec::new(), |rule| rule.needs.clone()),
        unit: rule.map_or_else(|| reading.unit.clone(), Rule::label),
        amount,
    }
}

/// The number at the end of `cpu12`.
fn core(part: &str) -> Option<f64> {
    let digits = part.trim_start_matches(|byte: char| !byte.is_ascii_digit());
    digits.parse::<u32>().ok().map(f64::from)
}
