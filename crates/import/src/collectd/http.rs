//! What collectd's plugin `write_http` posts with `Format "JSON"`.
//!
//! ```text
//! [{"values": [1.5, 2], "dstypes": ["gauge", "derive"], "dsnames": ["a", "b"], "time": 1794844546.603,
//!   "interval": 10.000, "host": "n1", "plugin": "p", "plugin_instance": "", "type": "t", "type_instance": ""}]
//! ```
//!
//! With `StoreRates` a derive's value is its rate and the kind is still `derive`: `2` may be either. So
//! whoever has the configuration must say which; where a fraction betrays it, the value is dropped and not believed.

use record::entry::Nanos;
use serde::Deserialize;
use serde_json::{Number, Value as Json};

use super::Stored;
use super::types::Kind;
use crate::monitor::{
    Dropped, Path, Reading, System, Take, Value, Width, finite, name, named, seconds, time,
};

#[derive(Deserialize)]
struct Item {
    values: Vec<Option<Number>>,
    dstypes: Vec<String>,
    dsnames: Vec<String>,
    time: Number,
    interval: Option<Number>,
    host: String,
    plugin: String,
    #[serde(default)]
    plugin_instance: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default, rename = "type_instance")]
    kind_instance: String,
}

/// Takes all values of a body. One item that is odd does not stop the others; a body that is no list is an error.
pub fn read(body: &[u8], stored: Stored, take: &mut impl Take) -> Result<(), serde_json::Error> {
    for item in serde_json::from_slice::<Vec<Json>>(body)? {
        // Notifications come in the same way.
        let is_message = item.get("values").is_none() && item.get("labels").is_some();
        let result = match Item::deserialize(item) {
            Ok(item) => item.take(stored, take),
            Err(_) if is_message => Err(Dropped::NoMeasurement),
            Err(_) => Err(Dropped::Malformed),
        };
        if let Err(why) = result {
            take.dropped(why);
        }
    }
    Ok(())
}

impl Item {
    fn take(&self, stored: Stored, take: &mut impl Take) -> Result<(), Dropped> {
        if self.values.len() != self.dstypes.len() || self.values.len() != self.dsnames.len() {
            return Err(Dropped::Malformed);
        }
        let made = self.reading()?;
        for ((value, kind), source) in self.values.iter().zip(&self.dstypes).zip(&self.dsnames) {
            let source = named(source.as_bytes(), Dropped::NoName);
            match value_of(value.as_ref(), kind, stored).and_then(|value| Ok((value, source?))) {
                Ok((value, source)) => {
                    let mut reading = Reading { value, ..made.clone() };
                    reading.path.source = source;
                    take.reading(reading);
                }
                Err(why) => take.dropped(why),
            }
        }
        Ok(())
    }

    fn reading(&self) -> Result<Reading, Dropped> {
        let mut path = Path::new(System::Collectd, named(self.plugin.as_bytes(), Dropped::NoName)?);
        path.plugin_instance = name(self.plugin_instance.as_bytes())?;
        path.kind = named(self.kind.as_bytes(), Dropped::NoName)?;
        path.kind_instance = name(self.kind_instance.as_bytes())?;
        Ok(Reading {
            host: named(self.host.as_bytes(), Dropped::NoHost)?,
            cluster: None,
            time: time(nanos(&self.time).ok_or(Dropped::ImpossibleTime)?)?,
            interval: self.interval.as_ref().and_then(nanos).and_then(|ns| Nanos::try_from(ns).ok()),
            path,
            unit: None,
            value: Value::Gauge(0.0),
        })
    }
}

/// As it was written: JSON's own number would be a float.
fn nanos(number: &Number) -> Option<u128> {
    seconds(number.to_string().as_bytes())
}

fn value_of(value: Option<&Number>, kind: &str, stored: Stored) -> Result<Value, Dropped> {
    let value = value.ok_or(Dropped::NoValue)?;
    let float = || value.as_f64().ok_or(Dropped::NoValue).and_then(finite);
    match (Kind::named(kind).ok_or(Dropped::UnknownType)?, stored) {
        (Kind::Gauge, _) => float().map(Value::Gauge),
        (_, Stored::Rates) => float().map(Value::Rate),
        (Kind::Counter, _) => {
            let count = value.as_u64().ok_or(Dropped::UnexpectedRate)?;
            Ok(Value::Counter { count, width: Width::Unknown })
        }
        (Kind::Derive, _) => value.as_i64().map(Value::Derive).ok_or(Dropped::UnexpectedRate),
        (Kind::Absolute, _) => value.as_u64().map(Value::Absolute).ok_or(Dropped::UnexpectedRate),
    }
}
