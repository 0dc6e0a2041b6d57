//! Packets of collectd's plugin `network`.
//!
//! A packet is a row of parts: type u16, length u16 with these four bytes, body. Numbers are big-endian, but gauges are
//! little-endian doubles; strings end with a zero byte. A part holds for all values after it until there is another of
//! its type:
//!
//! ```text
//! 0x0000 host      0x0002 plugin   0x0003 its instance   0x0004 type   0x0005 its instance
//! 0x0001 time, s   0x0008 time, 2^-30 s      0x0007 interval, s   0x0009 interval, 2^-30 s
//! 0x0006 values: u16 n, n kinds (0 counter, 1 gauge, 2 derive, 3 absolute), n times 8 bytes
//! 0x0100 message   0x0101 severity           0x0200 signature     0x0210 encrypted parts
//! ```

use record::entry::Nanos;

use super::seal;
use super::types::Types;
use super::users::Users;
use crate::monitor::{Dropped, Path, Reading, System, Take, Value, Width, name, named, time};
use crate::time::SECOND;

const HOST: u16 = 0x0000;
const TIME: u16 = 0x0001;
const PLUGIN: u16 = 0x0002;
const PLUGIN_INSTANCE: u16 = 0x0003;
const TYPE: u16 = 0x0004;
const TYPE_INSTANCE: u16 = 0x0005;
const VALUES: u16 = 0x0006;
const INTERVAL: u16 = 0x0007;
const TIME_HIGH: u16 = 0x0008;
const INTERVAL_HIGH: u16 = 0x0009;
const MESSAGE: u16 = 0x0100;
const SEVERITY: u16 = 0x0101;
const SIGNATURE: u16 = 0x0200;
const ENCRYPTED: u16 = 0x0210;

/// What a packet must be; more is welcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Security {
    #[default]
    None,
    Sign,
    Encrypt,
}

/// Reads packets as one listener does.
#[derive(Debug, Default)]
pub struct Network {
    pub security: Security,
    pub users: Users,
    pub types: Types,
}

/// What the parts so far say of the values to come.
#[derive(Default)]
struct State {
    host: String,
    time: Option<u128>,
    interval: Option<u128>,
    plugin: String,
    plugin_instance: String,
    kind: String,
    kind_instance: String,
    /// A packet is refused once, however many values it has.
    is_refused: bool,
}

impl Network {
    /// Takes all values of a packet. What is before a place where it is broken is taken.
    pub fn packet(&self, bytes: &[u8], take: &mut impl Take) {
        self.parts(bytes, Security::None, take);
    }

    /// `reached` is how these parts were protected. Each protection counts once, so this calls itself twice at most.
    fn parts(&self, mut bytes: &[u8], reached: Security, take: &mut impl Take) {
        let mut state = State::default();
        while let Some((kind, body, rest)) = part(bytes) {
            let result = match kind {
                SIGNATURE if reached == Security::None => return self.signed(body, rest, take),
                ENCRYPTED if reached < Security::Encrypt => self.encrypted(body, take),
                SIGNATURE | ENCRYPTED => Err(Dropped::Malformed),
                _ if reached < self.security => state.refuse(kind),
                VALUES => self.values(body, &state, take),
                // Nothing after a part that is broken can be known to be what it says.
                _ => match state.learn(kind, body) {
                    Err(Dropped::Malformed) => return take.dropped(Dropped::Malformed),
                    result => result,
                },
            };
            if let Err(why) = result {
                take.dropped(why);
            }
            bytes = rest;
        }
        if !bytes.is_empty() {
            take.dropped(Dropped::Truncated);
        }
    }

    /// Without users nothing can be verified. Where no security is demanded such packets are taken, as collectd does.
    fn signed(&self, body: &[u8], rest: &[u8], take: &mut impl Take) {
        let is_unverifiable = self.users.is_empty() && self.security == Security::None;
        match seal::verify(body, rest, &self.users) {
            Err(Dropped::UnknownUser) if is_unverifiable => self.parts(rest, Security::Sign, take),
            Ok(rest) => self.parts(rest, Security::Sign, take),
            Err(why) => take.dropped(why),
        }
    }

    fn encrypted(&self, body: &[u8], take: &mut impl Take) -> Result<(), Dropped> {
        let parts = seal::open(body, &self.users)?;
        self.parts(&parts, Security::Encrypt, take);
        Ok(())
    }

    fn values(&self, body: &[u8], state: &State, take: &mut impl Take) -> Result<(), Dropped> {
        let values = values(body).ok_or(Dropped::Malformed)?;
        let made = state.reading()?;
        let sources = self.types.get(&state.kind).filter(|sources| sources.len() == values.len());
        let sources = sources.ok_or(Dropped::UnknownType)?;
        for (value, source) in values.into_iter().zip(sources) {
            match value {
                Ok(value) => {
                    let mut reading = Reading { value, ..made.clone() };
                    reading.path.source.clone_from(&source.name);
                    take.reading(reading);
                }
                Err(why) => take.dropped(why),
            }
        }
        Ok(())
    }
}

impl State {
    fn learn(&mut self, kind: u16, body: &[u8]) -> Result<(), Dropped> {
        match kind {
            HOST => self.host = string(body)?,
            PLUGIN => self.plugin = string(body)?,
            PLUGIN_INSTANCE => self.plugin_instance = string(body)?,
            TYPE => self.kind = string(body)?,
            TYPE_INSTANCE => self.kind_instance = string(body)?,
            TIME => self.time = Some(u128::from(number(body)?) * u128::from(SECOND)),
            TIME_HIGH => self.time = Some(high(number(body)?)),
            INTERVAL => self.interval = Some(u128::from(number(body)?) * u128::from(SECOND)),
            INTERVAL_HIGH => self.interval = Some(high(number(body)?)),
            MESSAGE => return Err(Dropped::NoMeasurement),
            SEVERITY => {}
            // Newer versions may have parts that this one does not know.
            _ => {}
        }
        Ok(())
    }

    fn refuse(&mut self, kind: u16) -> Result<(), Dropped> {
        if !matches!(kind, VALUES | MESSAGE) || self.is_refused {
            return Ok(());
        }
        self.is_refused = true;
        Err(Dropped::Insecure)
    }

    /// A reading of these parts, for want of a value with a zero.
    fn reading(&self) -> Result<Reading, Dropped> {
        let mut path = Path::new(System::Collectd, named(self.plugin.as_bytes(), Dropped::NoName)?);
        path.plugin_instance.clone_from(&self.plugin_instance);
        path.kind = named(self.kind.as_bytes(), Dropped::NoName)?;
        path.kind_instance.clone_from(&self.kind_instance);
        Ok(Reading {
            host: named(self.host.as_bytes(), Dropped::NoHost)?,
            cluster: None,
            time: time(self.time.ok_or(Dropped::NoTime)?)?,
            interval: self.interval.and_then(|interval| Nanos::try_from(interval).ok()).filter(|ns| *ns > 0),
            path,
            unit: None,
            value: Value::Gauge(0.0),
        })
    }
}

/// The next part: its type, its body, and what is after it.
fn part(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let (head, _) = bytes.split_first_chunk::<4>()?;
    let [kind, length] = [[head[0], head[1]], [head[2], head[3]]].map(u16::from_be_bytes);
    let (part, rest) = bytes.split_at_checked(length.into())?;
    Some((kind, part.get(4..)?, rest))
}

fn string(body: &[u8]) -> Result<String, Dropped> {
    let (last, bytes) = body.split_last().ok_or(Dropped::Malformed)?;
    if *last != 0 || bytes.contains(&0) { Err(Dropped::Malformed) } else { name(bytes) }
}

fn number(body: &[u8]) -> Result<u64, Dropped> {
    body.try_into().map(u64::from_be_bytes).map_err(|_| Dropped::Malformed)
}

/// 2^-30 seconds as nanoseconds.
fn high(time: u64) -> u128 {
    (u128::from(time) * u128::from(SECOND)) >> 30
}

fn values(body: &[u8]) -> Option<Vec<Result<Value, Dropped>>> {
    let (count, body) = body.split_first_chunk::<2>()?;
    let (kinds, values) = body.split_at_checked(u16::from_be_bytes(*count).into())?;
    let (values, rest) = values.as_chunks::<8>();
    if values.len() != kinds.len() || !rest.is_empty() {
        return None;
    }
    kinds.iter().zip(values).map(|(kind, value)| value_of(*kind, *value)).collect()
}

fn value_of(kind: u8, bytes: [u8; 8]) -> Option<Result<Value, Dropped>> {
    Some(match kind {
        0 => Ok(Value::Counter { count: u64::from_be_bytes(bytes), width: Width::Unknown }),
        1 => Value::gauge(f64::from_le_bytes(bytes)),
        2 => Ok(Value::Derive(i64::from_be_bytes(bytes))),
        3 => Ok(Value::Absolute(u64::from_be_bytes(bytes))),
        _ => return None,
    })
}
