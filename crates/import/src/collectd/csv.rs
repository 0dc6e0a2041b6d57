//! The files of collectd's plugin `csv`: `host/plugin-instance/type-instance-YYYY-MM-DD` below a directory.
//!
//! ```text
//! epoch,rx,tx
//! 1794844545.604,1226862744,4710438
//! ```
//!
//! The first line names the values; what kind they are only `types.db` knows. `nan` is no value. A last line without a
//! line break is still being written: its number may be half there.

use std::io::{self, BufRead};

use super::types::{Kind, Source, Types};
use super::{Stored, split_instance};
use crate::lines::Lines;
use crate::monitor::{
    Dropped, NAME_MAX, Path, Reading, System, Take, Value, Width, finite, name, named, number, seconds, time,
};
use crate::number::whole;

/// More values than any type has.
const VALUES_MAX: usize = 64;

/// What the place of a file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub host: String,
    pub path: Path,
}

impl Place {
    /// From the last three names of a path.
    pub fn parse(path: &str) -> Result<Place, Dropped> {
        let mut names = path.rsplit('/');
        let mut next = || names.next().filter(|name| !name.is_empty());
        let (file, plugin) = (next().ok_or(Dropped::NoName)?, next().ok_or(Dropped::NoName)?);
        let host = next().ok_or(Dropped::NoHost)?;
        let (plugin, plugin_instance) = split_instance(plugin);
        let (kind, kind_instance) = split_instance(without_date(file));
        let mut path = Path::new(System::Collectd, named(plugin.as_bytes(), Dropped::NoName)?);
        path.plugin_instance = name(plugin_instance.as_bytes())?;
        path.kind = named(kind.as_bytes(), Dropped::NoName)?;
        path.kind_instance = name(kind_instance.as_bytes())?;
        Ok(Place { host: named(host.as_bytes(), Dropped::NoHost)?, path })
    }
}

/// Takes all rows of a file.
pub fn read(
    source: impl BufRead,
    place: &Place,
    types: &Types,
    stored: Stored,
    take: &mut impl Take,
) -> io::Result<()> {
    let mut lines = Lines::new(source);
    let (mut line, mut names) = (Vec::new(), None);
    while let Some(read) = lines.next(&mut line)? {
        let result = if read.is_cut {
            Err(Dropped::TooLong)
        } else if !read.is_ended {
            Err(Dropped::Truncated)
        } else if let Some(header) = line.strip_prefix(b"epoch,") {
            header_names(header, types.get(&place.path.kind)).map(|sources| names = Some(sources))
        } else {
            names
                .as_deref()
                .ok_or(Dropped::UnknownType)
                .and_then(|names| row(&line, place, names, stored, take))
        };
        if let Err(why) = result {
            take.dropped(why);
        }
    }
    Ok(())
}

/// `load-2026-11-16` without its day.
fn without_date(file: &str) -> &str {
    let Some((start, date)) = file.len().checked_sub(11).and_then(|at| file.split_at_checked(at)) else {
        return file;
    };
    let (date, digits) = (date.as_bytes(), |range: &[u8]| whole(range).is_some());
    let is_date = date[0] == b'-'
        && digits(&date[1..5])
        && date[5] == b'-'
        && digits(&date[6..8])
        && date[8] == b'-'
        && digits(&date[9..]);
    if is_date && !start.is_empty() { start } else { file }
}

/// The names of the file, with the kinds of the type.
fn header_names(header: &[u8], known: Option<&[Source]>) -> Result<Vec<Source>, Dropped> {
    let known = known.ok_or(Dropped::UnknownType)?;
    let names: Vec<&[u8]> = header.split(|byte| *byte == b',').take(VALUES_MAX + 1).collect();
    if names.len() != known.len() || names.iter().any(|name| name.is_empty() || name.len() > NAME_MAX) {
        return Err(Dropped::UnknownType);
    }
    names.iter().zip(known).map(|(said, known)| Ok(Source { name: name(said)?, kind: known.kind })).collect()
}

fn row(
    line: &[u8],
    place: &Place,
    sources: &[Source],
    stored: Stored,
    take: &mut impl Take,
) -> Result<(), Dropped> {
    let mut fields = line.split(|byte| *byte == b',');
    let at = fields.next().and_then(seconds).ok_or(Dropped::Malformed)?;
    let time = time(at)?;
    let values: Vec<&[u8]> = fields.take(VALUES_MAX + 1).collect();
    if values.len() != sources.len() {
        return Err(Dropped::Malformed);
    }
    for (text, source) in values.into_iter().zip(sources) {
        match value_of(text, source.kind, stored) {
            Ok(value) => {
                let mut path = place.path.clone();
                path.source.clone_from(&source.name);
                let host = place.host.clone();
                take.reading(Reading { host, cluster: None, time, interval: None, path, unit: None, value });
            }
            Err(why) => take.dropped(why),
        }
    }
    Ok(())
}

fn value_of(text: &[u8], kind: Kind, stored: Stored) -> Result<Value, Dropped> {
    let float = || number(text).and_then(finite);
    let count = || whole(text).ok_or(not_a_count(text));
    match (kind, stored) {
        (Kind::Gauge, _) => float().map(Value::Gauge),
        (_, Stored::Rates) => float().map(Value::Rate),
        (Kind::Counter, _) => Ok(Value::Counter { count: count()?, width: Width::Unknown }),
        (Kind::Derive, _) => {
            let sum = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
            sum.map(Value::Derive).ok_or(not_a_count(text))
        }
        (Kind::Absolute, _) => count().map(Value::Absolute),
    }
}

fn not_a_count(text: &[u8]) -> Dropped {
    number(text).map_or_else(|why| why, |_| Dropped::UnexpectedRate)
}
