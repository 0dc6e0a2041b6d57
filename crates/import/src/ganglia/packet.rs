//! Packets that `gmond` and `gmetric` send, in XDR.
//!
//! Since Ganglia 3.1 there are two kinds, which name their series alike: `id, host, name, is spoofed`.
//!
//! ```text
//! 128  type, name, units, slope, tmax, dmax, n × (key, value)                what there is to know of a series
//! 129  format, value: ushort   130 short   131 int   132 uint   133 string   134 float   135 double
//! 136  asks for the first kind
//! ```
//!
//! A value says neither its type nor its time: what was said of its series is kept, and the time is that of receipt.
//! `gmetric` sends every value as a string. A spoofed host is `address:name`.
//!
//! Before, a packet had all in one and its host was its sender: 0 is `type, name, value as text, units, slope, tmax,
//! dmax`, 4096 the same after `name of host, address`, and 1 to 50 are the values of `old`.

use record::entry::Nanos;

use super::old::{self, Form};
use super::value::{Slope, of_text};
use super::xdr::Xdr;
use crate::monitor::{Dropped, Path, Reading, System, Take, Value, Width, name, named, time};
use crate::recent::Recent;
use crate::time::SECOND;

const OLD_METRIC: u32 = 0;
const METADATA: u32 = 128;
const REQUEST: u32 = 136;
const OLD_SPOOFED: u32 = 4096;
const OLD_SPOOFED_HEARTBEAT: u32 = 4097;

/// How many pairs may stand behind a series; they are read over.
const EXTRA_MAX: u32 = 256;

/// Reads packets, and keeps what was said of each series.
pub struct Packets {
    known: Recent<(String, String), Metadata>,
}

#[derive(Clone)]
struct Metadata {
    kind: String,
    units: String,
    slope: Slope,
    tmax: u32,
}

/// Whose a packet is.
struct Id {
    host: String,
    name: String,
}

impl Packets {
    /// Keeps what is known of at most so many series.
    pub fn new(bound: usize) -> Self {
        Packets { known: Recent::new(bound) }
    }

    /// How many series something is known of.
    pub fn known(&self) -> usize {
        self.known.len()
    }

    /// How many series were forgotten for want of room.
    pub fn forgotten(&self) -> u64 {
        self.known.forgotten()
    }

    /// Takes what a packet says, which came from `sender` at `now`.
    pub fn packet(&mut self, bytes: &[u8], sender: &str, now: Nanos, take: &mut impl Take) {
        match self.read(&mut Xdr(bytes), sender, now) {
            Ok(Some(reading)) => take.reading(reading),
            Ok(None) => {}
            Err(why) => take.dropped(why),
        }
    }

    fn read(&mut self, xdr: &mut Xdr<'_>, sender: &str, now: Nanos) -> Result<Option<Reading>, Dropped> {
        match xdr.u32()? {
            METADATA => self.learn(xdr, sender).map(|()| None),
            number @ 129..=135 => self.value(number, xdr, sender, now).map(Some),
            OLD_METRIC => old_metric(xdr, named(sender.as_bytes(), Dropped::NoHost)?, now).map(Some),
            OLD_SPOOFED => {
                let (host, address) = (xdr.string()?, xdr.string()?);
                let host = if host.is_empty() { address } else { host };
                old_metric(xdr, named(host, Dropped::NoHost)?, now).map(Some)
            }
            REQUEST | OLD_SPOOFED_HEARTBEAT => Err(Dropped::NoMeasurement),
            number => old_numbered(number, xdr, sender, now).map(Some),
        }
    }

    fn learn(&mut self, xdr: &mut Xdr<'_>, sender: &str) -> Result<(), Dropped> {
        let id = id(xdr, sender)?;
        let (kind, _name, units) = (name(xdr.string()?)?, xdr.string()?, name(xdr.string()?)?);
        let (slope, tmax, _dmax) = (Slope::numbered(xdr.u32()?), xdr.u32()?, xdr.u32()?);
        let extra = xdr.u32()?;
        if extra > EXTRA_MAX {
            return Err(Dropped::TooLong);
        }
        for _ in 0..extra {
            let _pair = (xdr.string()?, xdr.string()?);
        }
        self.known.insert((id.host, id.name), Metadata { kind, units, slope, tmax });
        Ok(())
    }

    fn value(
        &mut self,
        number: u32,
        xdr: &mut Xdr<'_>,
        sender: &str,
        now: Nanos,
    ) -> Result<Reading, Dropped> {
        let id = id(xdr, sender)?;
        let _format = xdr.string()?;
        let key = (id.host, id.name);
        let known = self.known.get(&key).cloned();
        let (host, name) = key;
        if name == "heartbeat" {
            return Err(Dropped::NoMeasurement);
        }
        let known = known.ok_or(Dropped::NoMetadata)?;
        let value = match number {
            129 | 132 => unsigned(xdr.u32()?, known.slope),
            130 | 131 => signed(xdr.i32()?, known.slope),
            134 => float(f64::from(xdr.f32()?), known.slope)?,
            135 => float(xdr.f64()?, known.slope)?,
            _ => of_text(xdr.string()?, &known.kind, known.slope)?,
        };
        reading(host, name, &known.units, Some(known.tmax), now, value)
    }
}

fn id(xdr: &mut Xdr<'_>, sender: &str) -> Result<Id, Dropped> {
    let (host, name, is_spoofed) = (xdr.string()?, named(xdr.string()?, Dropped::NoName)?, xdr.u32()? != 0);
    let host = match host {
        b"" => sender.as_bytes(),
        // What is before the first colon may be an address of IPv6, which has colons; names have none.
        host if is_spoofed => host.rsplit(|byte| *byte == b':').next().unwrap_or(host),
        host => host,
    };
    Ok(Id { host: named(host, Dropped::NoHost)?, name })
}

fn old_metric(xdr: &mut Xdr<'_>, host: String, now: Nanos) -> Result<Reading, Dropped> {
    let (kind, metric) = (name(xdr.string()?)?, named(xdr.string()?, Dropped::NoName)?);
    let (value, units) = (xdr.string()?, name(xdr.string()?)?);
    let (slope, tmax) = (Slope::numbered(xdr.u32()?), xdr.u32()?);
    reading(host, metric, &units, Some(tmax), now, of_text(value, &kind, slope)?)
}

fn old_numbered(number: u32, xdr: &mut Xdr<'_>, sender: &str, now: Nanos) -> Result<Reading, Dropped> {
    let (metric, form, units) = old::numbered(number).ok_or(Dropped::UnknownType)?;
    let value = match form {
        _ if *metric == "heartbeat" => return Err(Dropped::NoMeasurement),
        Form::Text => return Err(Dropped::Text),
        Form::Unsigned => Value::Gauge(f64::from(xdr.u32()?)),
        Form::Float => Value::gauge(f64::from(xdr.f32()?))?,
        Form::Double => Value::gauge(xdr.f64()?)?,
    };
    let host = named(sender.as_bytes(), Dropped::NoHost)?;
    reading(host, (*metric).to_owned(), units, None, now, value)
}

/// `tmax` is the longest time between two values, and no interval if the value changed earlier; nothing better is said.
fn reading(
    host: String,
    name: String,
    units: &str,
    tmax: Option<u32>,
    now: Nanos,
    value: Value,
) -> Result<Reading, Dropped> {
    Ok(Reading {
        host,
        cluster: None,
        time: time(now.into())?,
        interval: tmax.filter(|tmax| *tmax > 0).map(|tmax| u64::from(tmax) * SECOND),
        path: Path::new(System::Ganglia, name),
        unit: unit(units),
        value,
    })
}

/// Ganglia's own metrics have a blank for none.
pub fn unit(units: &str) -> Option<String> {
    Some(units.trim()).filter(|units| !units.is_empty()).map(str::to_owned)
}

fn unsigned(number: u32, slope: Slope) -> Value {
    match slope {
        Slope::Positive => Value::Counter { count: number.into(), width: Width::Bits32 },
        Slope::Derivative => Value::Derive(number.into()),
        Slope::Other => Value::Gauge(number.into()),
    }
}

fn signed(number: i32, slope: Slope) -> Value {
    match (slope, u32::try_from(number)) {
        (Slope::Other, _) => Value::Gauge(number.into()),
        (slope, Ok(number)) => unsigned(number, slope),
        (_, Err(_)) => Value::Derive(number.into()),
    }
}

fn float(number: f64, slope: Slope) -> Result<Value, Dropped> {
    let number = crate::monitor::finite(number)?;
    Ok(if slope == Slope::Other { Value::Gauge(number) } else { Value::Sum(number) })
}
