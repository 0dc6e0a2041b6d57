//! The rates that somebody asked for: through the server, or in the job's environment.

use std::collections::HashMap;

use record::metric::{Of, by_id, id};
use record::rate::{JobRate, Sensors, parse_every};
use record::reading::{JobReading, Values};

use crate::table::Account;

/// How often a job is to be read, and by which sensors where that is more often than usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Nanoseconds.
    pub every: u64,
    pub sensors: Sensors,
}

/// What the server told, by job.
#[derive(Debug, Default)]
pub struct Rates {
    told: HashMap<String, Told>,
}

#[derive(Debug)]
struct Told {
    cluster: Option<String>,
    rate: Rate,
    /// Monotonic. It ends here, whether or not the server can still be reached.
    until: u64,
}

impl Rates {
    /// Takes the server's word: these rates and no others.
    pub fn hear(&mut self, told: Vec<JobRate>, now: u64) {
        let kept = |told: JobRate| {
            let every = told.every_ms.saturating_mul(1_000_000);
            let rate = Rate { every, sensors: Sensors::told(&told.sensors) };
            let until = now.saturating_add(told.left_ms.saturating_mul(1_000_000));
            (told.job, Told { cluster: told.cluster, rate, until })
        };
        self.told = told.into_iter().map(kept).collect();
    }

    /// What the server told about a job.
    pub fn told(&self, job: &str, cluster: Option<&str>, now: u64) -> Option<Rate> {
        let told = self.told.get(job).filter(|told| now < told.until)?;
        let is_other = told.cluster.as_deref().zip(cluster).is_some_and(|(asked, own)| asked != own);
        (!is_other).then_some(told.rate)
    }

    /// The rate of a job. Whoever asks while it runs knows more than whoever wrote its script.
    pub fn of(&self, account: &Account, now: u64) -> Option<Rate> {
        let job = account.subject.job.as_deref()?;
        let in_environment = || {
            let text = std::str::from_utf8(account.rate.as_deref()?).ok()?;
            Some(Rate { every: parse_every(text).ok()?, sensors: Sensors::ALL })
        };
        self.told(job, account.cluster.as_deref(), now).or_else(in_environment)
    }
}

/// Leaves what was asked for in a reading.
pub fn keep(reading: &mut JobReading, sensors: Sensors) {
    reading.values = of_sensors(&reading.values, sensors, Of::Job);
    for command in &mut reading.commands {
        command.values = of_sensors(&command.values, sensors, Of::Job);
    }
    reading.commands.retain(|command| !command.values.is_empty());
    if !by_id(id::GPU).is_some_and(|gpu| sensors.has(gpu)) {
        reading.cards.clear();
    }
}

/// The values of these sensors. Of a node only those that no job has of its own: the others are read at the usual times.
pub fn of_sensors(values: &Values, sensors: Sensors, of: Of) -> Values {
    let sensors = sensors.of(of);
    let mut kept = Values::default();
    for (id, value) in values.iter() {
        if by_id(id).is_some_and(|metric| metric.of == of && sensors.has(metric)) {
            kept.put(id, Some(value));
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Subject;
    use record::metric::id;
    use record::reading::CommandReading;

    const S: u64 = 1_000_000_000;

    fn account(job: Option<&str>, cluster: Option<&str>, rate: Option<&str>) -> Account {
        let subject = Subject { job: job.map(Into::into), node: None, session: None };
        let cluster = cluster.map(Into::into);
        Account { cluster, rate: rate.map(Into::into), ..Account::new(subject, 0) }
    }

    fn told(job: &str, cluster: Option<&str>, every_ms: u64, left_ms: u64) -> JobRate {
        let cluster = cluster.map(Into::into);
        JobRate { job: job.into(), cluster, every_ms, sensors: vec!["cpu".into()], left_ms }
    }

    #[test]
    fn who_is_read_how_often() {
        let mut rates = Rates::default();
        rates.hear(vec![told("1", None, 5000, 60_000), told("2", Some("a"), 500, 60_000)], 100 * S);
        for (job, cluster, environment, now, expected) in [
            (Some("1"), None, None, 100, Some(5 * S)),
            (Some("1"), Some("b"), None, 159, Some(5 * S)),
            (Some("1"), None, Some("1s"), 100, Some(5 * S)),
            // It is over.
            (Some("1"), None, None, 160, None),
            (Some("1"), None, Some("1s"), 160, Some(S)),
            (Some("2"), Some("a"), None, 100, Some(S / 2)),
            (Some("2"), None, None, 100, Some(S / 2)),
            (Some("2"), Some("b"), None, 100, None),
            (Some("3"), None, None, 100, None),
            (Some("3"), None, Some("2s"), 100, Some(2 * S)),
            (Some("3"), None, Some("soon"), 100, None),
            (None, None, Some("2s"), 100, None),
        ] {
            let found = rates.of(&account(job, cluster, environment), now * S).map(|rate| rate.every);
            assert_eq!(found, expected, "{job:?} {cluster:?} {environment:?} {now}");
        }
        rates.hear(Vec::new(), 101 * S);
        assert_eq!(rates.of(&account(Some("1"), None, None), 101 * S), None);
        rates.hear(vec![told("1", None, u64::MAX, u64::MAX)], 101 * S);
        assert_eq!(rates.told("1", None, 102 * S).map(|rate| rate.every), Some(u64::MAX));
    }

    #[test]
    fn only_what_was_asked_for_is_kept() {
        let mut values = Values::default();
        for id in [id::CPU, id::MEMORY, id::READ_BYTES, id::NODE_IB_SENT, id::NODE_LOAD] {
            values.put(id, Some(u64::from(id)));
        }
        let kept = |names: &[&str], of| -> Vec<u16> {
            let sensors = Sensors::parse(names.iter().copied()).unwrap();
            of_sensors(&values, sensors, of).iter().map(|(id, _)| id).collect()
        };
        assert_eq!(kept(&["cpu", "ib"], Of::Job), [id::CPU]);
        assert_eq!(kept(&["cpu", "ib"], Of::Node), [id::NODE_IB_SENT]);
        assert_eq!(kept(&["cpu"], Of::Node), [0u16; 0]);
        let mut own = Values::default();
        own.put(id::MEMORY, Some(7));
        let commands = vec![CommandReading { command: b"x".as_slice().into(), values: own }];
        let mut reading = JobReading { values, commands, ..JobReading::default() };
        keep(&mut reading, Sensors::parse(["cpu"]).unwrap());
        assert_eq!((reading.values.get(id::CPU), reading.values.get(id::MEMORY)), (Some(1), None));
        assert_eq!(reading.commands, []);
    }
}
