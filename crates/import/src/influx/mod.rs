//! InfluxDB's line protocol, as Telegraf and cc-metric-collector send it.
//!
//! ```text
//! measurement,tag=value,… field=1.5,field=2i,field=3u,field=true,field="text" 1794844546603000000
//! ```
//!
//! A backslash takes the meaning from a comma, a blank and an equals sign in names, and from a quote and a backslash in
//! text, where a line break is allowed as well; before all else it is a backslash. Nothing says what is a counter: every
//! number is given as a state, and the table of names knows better.
//!
//! Telegraf names the host in the tag `host` and the device in one of its own (`cpu`, `interface`, `name`);
//! cc-metric-collector has `hostname`, and `type`, `type-id`, `stype`, `stype-id` for what is measured. `unit` and
//! `cluster` are taken out of the tags, too.
//!
//! Written by hand: `cursor` has the escapes, and that is all there is to it. The crate `influxdb-line-protocol` rejects a
//! whole body for one bad line, wants UTF-8, and brings a parser library for what needs none.

mod cursor;

use record::entry::Nanos;

use crate::monitor::{Dropped, Path, Reading, System, Take, Value, name, named, number, time};
use crate::number::whole;
use crate::time::SECOND;
use crate::utf8::text;
use cursor::{Cursor, unescaped};

/// Tags in the names of which a host may be, the better first.
const HOST: [&str; 2] = ["hostname", "host"];
const TAGS_MAX: usize = 64;
const FIELDS_MAX: usize = 1024;
/// So much of a line that is broken is shown.
const SHOWN_MAX: usize = 200;

/// What a time is counted in, as the request for writing says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    Seconds,
    Milliseconds,
    Microseconds,
    #[default]
    Nanoseconds,
}

impl Precision {
    /// `s`, `ms`, `us` or `u`, `ns` or `n`
    pub fn named(word: &str) -> Option<Precision> {
        Some(match word {
            "s" => Precision::Seconds,
            "ms" => Precision::Milliseconds,
            "us" | "u" | "µ" => Precision::Microseconds,
            "ns" | "n" => Precision::Nanoseconds,
            _ => return None,
        })
    }

    fn nanos(self) -> Nanos {
        match self {
            Precision::Seconds => SECOND,
            Precision::Milliseconds => 1_000_000,
            Precision::Microseconds => 1000,
            Precision::Nanoseconds => 1,
        }
    }
}

/// What became of the lines of a body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lines {
    /// Of those that have their form, whatever became of their values.
    pub good: u64,
    pub bad: u64,
    pub first_bad: Option<BadLine>,
}

/// A line that is not line protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unable to parse `{text}`: {why} (line {line})")]
pub struct BadLine {
    /// From one on.
    pub line: u64,
    /// Its beginning.
    pub text: String,
    pub why: Dropped,
}

impl BadLine {
    /// The line that begins so far behind the start of the body.
    fn at(body: &[u8], start: usize, why: Dropped) -> BadLine {
        let (before, rest) = body.split_at(start);
        let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii_end();
        BadLine {
            line: 1 + memchr::memchr_iter(b'\n', before).count() as u64,
            text: text(line).chars().take(SHOWN_MAX).collect(),
            why,
        }
    }
}

/// Takes all values of a body, and says which lines have not the form. A line without a time has that of its receipt, `now`.
/// A line that is broken does not stop the next one.
pub fn read(body: &[u8], precision: Precision, now: Nanos, take: &mut impl Take) -> Lines {
    let (mut cursor, mut lines) = (Cursor(body), Lines::default());
    while cursor.skip_to_line() {
        let start = body.len() - cursor.0.len();
        match line(&mut cursor, precision, now) {
            Ok(line) => {
                lines.good += 1;
                line.take(take);
            }
            Err(why) => {
                lines.bad += 1;
                lines.first_bad.get_or_insert_with(|| BadLine::at(body, start, why));
                take.dropped(why);
                cursor.skip_line();
            }
        }
    }
    lines
}

/// A field with its value, or why it has none for us.
type Field = (String, Result<Value, Dropped>);

/// A line that has its form.
struct Line {
    host: Result<String, Dropped>,
    cluster: Option<String>,
    unit: Option<String>,
    /// Without a field.
    path: Path,
    fields: Vec<Field>,
    time: Result<Nanos, Dropped>,
}

impl Line {
    fn take(self, take: &mut impl Take) {
        for (field, value) in self.fields {
            match (self.host.clone(), self.time, value) {
                (Ok(host), Ok(time), Ok(value)) => {
                    let path = Path { source: field, ..self.path.clone() };
                    let (cluster, unit) = (self.cluster.clone(), self.unit.clone());
                    take.reading(Reading { host, cluster, time, interval: None, path, unit, value });
                }
                (Err(why), ..) | (_, Err(why), _) | (_, _, Err(why)) => take.dropped(why),
            }
        }
    }
}

fn line(cursor: &mut Cursor<'_>, precision: Precision, now: Nanos) -> Result<Line, Dropped> {
    let measurement = named(&unescaped(cursor.until(b", ")?, b", "), Dropped::NoName)?;
    let mut tags = Vec::new();
    while cursor.eat(b',') {
        let key = named(&unescaped(cursor.until(b"=")?, b",= "), Dropped::NoName)?;
        cursor.expect(b'=')?;
        let value = name(&unescaped(cursor.until(b", ")?, b",= "))?;
        if tags.len() == TAGS_MAX {
            return Err(Dropped::TooLong);
        }
        tags.push((key, value));
    }
    cursor.blanks()?;
    let fields = fields(cursor)?;
    let time = when(cursor, precision, now)?;
    tags.sort();
    let mut cut = |wanted: &str| {
        let at = tags.iter().position(|(key, value)| key == wanted && !value.is_empty())?;
        Some(tags.remove(at).1)
    };
    let host = HOST.into_iter().find_map(&mut cut).ok_or(Dropped::NoHost);
    let (cluster, unit) = (cut("cluster"), cut("unit"));
    let mut path = Path::new(System::Influx, measurement);
    path.tags = tags;
    Ok(Line { host, cluster, unit, path, fields, time })
}

fn fields(cursor: &mut Cursor<'_>) -> Result<Vec<Field>, Dropped> {
    let mut fields = Vec::new();
    loop {
        let key = named(&unescaped(cursor.until(b"=")?, b",= "), Dropped::NoName)?;
        cursor.expect(b'=')?;
        let value = if cursor.eat(b'"') {
            cursor.quoted()?;
            Err(Dropped::Text)
        } else {
            value_of(cursor.until(b", ")?)
        };
        match value {
            Err(Dropped::Malformed) => return Err(Dropped::Malformed),
            _ if fields.len() == FIELDS_MAX => return Err(Dropped::TooLong),
            value => fields.push((key, value)),
        }
        if !cursor.eat(b',') {
            return Ok(fields);
        }
    }
}

/// The time at the end of a line, and the end.
fn when(
    cursor: &mut Cursor<'_>,
    precision: Precision,
    now: Nanos,
) -> Result<Result<Nanos, Dropped>, Dropped> {
    let nanos = match cursor.rest_of_line()?.trim_ascii() {
        b"" => u128::from(now),
        // Before 1970, and well formed.
        text if text.starts_with(b"-") && whole(&text[1..]).is_some() => 0,
        text => u128::from(whole(text).ok_or(Dropped::Malformed)?) * u128::from(precision.nanos()),
    };
    Ok(time(nanos))
}

fn value_of(text: &[u8]) -> Result<Value, Dropped> {
    let digits = text.strip_suffix(b"i").or_else(|| text.strip_suffix(b"u"));
    match text {
        b"t" | b"T" | b"true" | b"True" | b"TRUE" => Ok(Value::Gauge(1.0)),
        b"f" | b"F" | b"false" | b"False" | b"FALSE" => Ok(Value::Gauge(0.0)),
        text if text.iter().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(byte)) => {
            number(text).map_err(malformed).map(Value::Gauge)
        }
        _ => {
            let digits = digits.ok_or(Dropped::Malformed)?;
            let unsigned = digits.strip_prefix(b"-").filter(|_| text.ends_with(b"i")).unwrap_or(digits);
            whole(unsigned).ok_or(Dropped::Malformed)?;
            number(digits).map(Value::Gauge)
        }
    }
}

/// Of these characters only a number can be made; what is too large for one is no value.
fn malformed(why: Dropped) -> Dropped {
    if why == Dropped::Text { Dropped::Malformed } else { why }
}
