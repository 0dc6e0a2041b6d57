//! What every monitoring system tells: that something on a host had a value at a time.
//!
//! Readers of foreign formats give [`Reading`]s, and say of all else why it was dropped. They do not know what a name
//! means; that is [`crate::mapping`]'s.

use std::collections::BTreeMap;
use std::fmt;

use record::entry::Nanos;

use crate::time::{Moment, SECOND};
use crate::utf8::text;

/// No name of a host, a series or a unit is longer in bytes; collectd cuts its own at 128.
pub const NAME_MAX: usize = 255;

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    pub host: String,
    pub cluster: Option<String>,
    /// Since 1970.
    pub time: Nanos,
    /// How long it is until the next one, at most, where that is known.
    pub interval: Option<Nanos>,
    pub path: Path,
    /// As it is written; empty is none.
    pub unit: Option<String>,
    pub value: Value,
}

/// Whose names they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum System {
    Ganglia,
    Collectd,
    /// InfluxDB's line protocol, whoever speaks it.
    Influx,
}

/// What a value is called. Which parts there are depends on the system; the others are empty.
///
/// | | Ganglia | collectd | line protocol |
/// |---|---|---|---|
/// | `plugin` | name of the metric | plugin | measurement |
/// | `plugin_instance`, `kind`, `kind_instance` | | plugin's instance, type, type's instance | |
/// | `source` | | name of the data source | field |
/// | `tags` | | | all but host, cluster and unit, sorted |
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    pub system: System,
    pub plugin: String,
    pub plugin_instance: String,
    pub kind: String,
    pub kind_instance: String,
    pub source: String,
    pub tags: Vec<(String, String)>,
}

/// A value as it came.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A state. Never NaN or infinite, which are no values.
    Gauge(f64),
    /// A sum that only grows, until it begins again at zero for want of bits.
    Counter { count: u64, width: Width },
    /// A sum that begins again only if what counts does.
    Derive(i64),
    /// How much there was since the last value.
    Absolute(u64),
    /// A sum that only grows and has a fraction, which has no bits to run out of.
    Sum(f64),
    /// How much there is each second of what would be a sum: the sender has made the difference.
    Rate(f64),
}

/// At how many bits a counter begins again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    Bits32,
    Bits64,
    /// Nobody said. One that has ever been above 32 bits has 64.
    Unknown,
}

/// Takes readings one at a time, so that no reader holds all of them.
pub trait Take {
    fn reading(&mut self, reading: Reading);
    fn dropped(&mut self, why: Dropped);
}

/// Why something was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Dropped {
    #[error("not of the form it should have")]
    Malformed,
    #[error("cut off before its end")]
    Truncated,
    #[error("longer than anybody means")]
    TooLong,
    #[error("no host named")]
    NoHost,
    #[error("no name")]
    NoName,
    #[error("no time")]
    NoTime,
    #[error("a time that cannot be")]
    ImpossibleTime,
    #[error("text, not a number")]
    Text,
    #[error("no value: not a number, or infinite")]
    NoValue,
    #[error("of a type that types.db does not have, or has with another number of values")]
    UnknownType,
    #[error("a value before anything was said about it")]
    NoMetadata,
    #[error("a rate where a counter was announced: StoreRates is on")]
    UnexpectedRate,
    #[error("a notification, a heartbeat or a request, which has no value")]
    NoMeasurement,
    #[error("neither signed nor encrypted as is demanded")]
    Insecure,
    #[error("signed or encrypted by an unknown user")]
    UnknownUser,
    #[error("the signature or the checksum is wrong")]
    BadSeal,
    #[error("the sender is not allowed")]
    NotAllowed,
}

/// How often something happened, by what it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts<T>(BTreeMap<T, u64>);

/// How much was dropped, by reason.
pub type Drops = Counts<Dropped>;

impl<T> Default for Counts<T> {
    fn default() -> Self {
        Counts(BTreeMap::new())
    }
}

impl<T: Ord + Copy> Counts<T> {
    pub fn count(&mut self, what: T) {
        self.add(what, 1);
    }

    pub fn add(&mut self, what: T, times: u64) {
        if times > 0 {
            *self.0.entry(what).or_default() += times;
        }
    }

    pub fn of(&self, what: T) -> u64 {
        self.0.get(&what).copied().unwrap_or(0)
    }

    pub fn iter(&self) -> impl Iterator<Item = (T, u64)> {
        self.0.iter().map(|(what, count)| (*what, *count))
    }
}

/// Everything in memory: for tests, and for one packet or request.
#[derive(Debug, Default)]
pub struct Taken {
    pub readings: Vec<Reading>,
    pub drops: Drops,
}

impl Take for Taken {
    fn reading(&mut self, reading: Reading) {
        self.readings.push(reading);
    }

    fn dropped(&mut self, why: Dropped) {
        self.drops.count(why);
    }
}

impl Path {
    pub fn new(system: System, plugin: String) -> Self {
        let none = String::new;
        Path {
            system,
            plugin,
            plugin_instance: none(),
            kind: none(),
            kind_instance: none(),
            source: none(),
            tags: Vec::new(),
        }
    }

    pub fn tag(&self, key: &str) -> Option<&str> {
        self.tags.iter().find(|(name, _)| name == key).map(|(_, value)| &**value)
    }
}

/// `ganglia/load_one`, `collectd/cpu-0/cpu-user/value`, `influx/net,interface=eth0/bytes_recv`
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.system.name(), self.plugin)?;
        let dashed = |f: &mut fmt::Formatter<'_>, instance: &str| match instance {
            "" => Ok(()),
            instance => write!(f, "-{instance}"),
        };
        dashed(f, &self.plugin_instance)?;
        self.tags.iter().try_for_each(|(key, value)| write!(f, ",{key}={value}"))?;
        if !self.kind.is_empty() {
            write!(f, "/{}", self.kind)?;
            dashed(f, &self.kind_instance)?;
        }
        if self.source.is_empty() { Ok(()) } else { write!(f, "/{}", self.source) }
    }
}

impl System {
    pub fn name(self) -> &'static str {
        match self {
            System::Ganglia => "ganglia",
            System::Collectd => "collectd",
            System::Influx => "influx",
        }
    }
}

impl Value {
    /// A state, if it is one.
    pub(crate) fn gauge(number: f64) -> Result<Value, Dropped> {
        finite(number).map(Value::Gauge)
    }
}

pub(crate) fn finite(number: f64) -> Result<f64, Dropped> {
    if number.is_finite() { Ok(number) } else { Err(Dropped::NoValue) }
}

/// A name of bounded length.
pub(crate) fn name(bytes: &[u8]) -> Result<String, Dropped> {
    if bytes.len() > NAME_MAX { Err(Dropped::TooLong) } else { Ok(text(bytes)) }
}

/// A name that must be there.
pub(crate) fn named(bytes: &[u8], missing: Dropped) -> Result<String, Dropped> {
    if bytes.is_empty() { Err(missing) } else { name(bytes) }
}

/// A time since 1970 that can be meant.
pub(crate) fn time(nanos: u128) -> Result<Nanos, Dropped> {
    let nanos = Nanos::try_from(nanos).map_err(|_| Dropped::ImpossibleTime)?;
    Moment::possible(nanos / SECOND).map(|_| nanos).ok_or(Dropped::ImpossibleTime)
}

/// `12.345` seconds, to the nanosecond: a float would be off by a hundred of them.
pub(crate) fn seconds(bytes: &[u8]) -> Option<u128> {
    let point = bytes.iter().position(|byte| *byte == b'.').unwrap_or(bytes.len());
    let whole = crate::number::whole(&bytes[..point])?;
    let decimals = match bytes.get(point + 1..) {
        Some(decimals) if !decimals.iter().all(u8::is_ascii_digit) => return None,
        Some(decimals) => crate::number::fraction(&decimals[..decimals.len().min(9)], SECOND)?,
        None => 0,
    };
    Some(u128::from(whole) * u128::from(SECOND) + u128::from(decimals))
}

/// A number as text, in any form that C writes, without the words for what is none.
pub(crate) fn number(bytes: &[u8]) -> Result<f64, Dropped> {
    let number = std::str::from_utf8(bytes).ok().and_then(|text| text.trim().parse().ok());
    finite(number.ok_or(Dropped::Text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_as_they_are_shown() {
        let mut path = Path::new(System::Ganglia, "load_one".into());
        assert_eq!(path.to_string(), "ganglia/load_one");
        path.system = System::Influx;
        path.tags = vec![("a".into(), "b".into())];
        path.source = "value".into();
        assert_eq!(path.to_string(), "influx/load_one,a=b/value");
        path = Path::new(System::Collectd, "cpu".into());
        (path.plugin_instance, path.kind) = ("0".into(), "cpu".into());
        (path.kind_instance, path.source) = ("user".into(), "value".into());
        assert_eq!(path.to_string(), "collectd/cpu-0/cpu-user/value");
    }

    #[test]
    fn times_and_numbers() {
        for (text, expected) in [
            ("1794844546.603", Some(1_794_844_546_603_000_000)),
            ("1794844546", Some(1_794_844_546_000_000_000)),
            ("1794844546.1234567891", Some(1_794_844_546_123_456_789)),
            ("1794844546.", None),
            ("1794844546.123456789x", None),
            ("-1", None),
            ("1e9", None),
        ] {
            assert_eq!(seconds(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(time(SECOND.into()), Err(Dropped::ImpossibleTime));
        assert_eq!(time(u128::MAX), Err(Dropped::ImpossibleTime));
        for (text, expected) in
            [("1.5", Ok(1.5)), ("-2e3", Ok(-2e3)), ("nan", Err(Dropped::NoValue)), ("x", Err(Dropped::Text))]
        {
            assert_eq!(number(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(name(&[b'x'; NAME_MAX + 1]), Err(Dropped::TooLong));
    }
}
