//! The state of a cluster as XML: what `gmond` (port 8649) and `gmetad` (8651 all, 8652 what is asked for) say.
//!
//! ```text
//! GANGLIA_XML / GRID* {LOCALTIME} / CLUSTER {NAME, LOCALTIME} / HOST {NAME, IP, REPORTED, TN, TMAX}
//!             / METRIC {NAME, VAL, TYPE, UNITS, TN, TMAX, SLOPE} / EXTRA_DATA / EXTRA_ELEMENT
//! ```
//!
//! `TN` is how many seconds ago a value came, by the clock of who speaks. That is the outermost `LOCALTIME`: `gmetad`
//! repeats each cluster's with the time at which it asked. Without `TN` the host's `REPORTED` is the time. Both are cut
//! to seconds before they are subtracted, so one value may seem to be a second later the next time it is read.
//!
//! The text is declared as ISO-8859-1 and often is UTF-8; what is valid as UTF-8 is taken as that. `gmond` does not escape
//! names and units, so an entity that is none stands for itself; none but XML's own five are known, whatever the document
//! declares. `METRICS`, the sums of `gmetad`, have no host and are passed over.

use std::io::{self, BufRead, BufReader, Read};

use quick_xml::Reader;
use quick_xml::escape::unescape;
use quick_xml::events::{BytesStart, Event};
use record::entry::Nanos;

use super::packet::unit;
use super::value::{Slope, of_text};
use crate::monitor::{Dropped, NAME_MAX, Path, Reading, System, Take, named, time};
use crate::time::SECOND;
use crate::utf8::{Mended, latin};

/// How deep elements may lie; grids may lie in grids.
const DEPTH_MAX: usize = 32;
/// How long one element or the document's declarations may be.
const EVENT_MAX: usize = 64 * 1024;
/// How many attributes are looked at.
const ATTRIBUTES_MAX: usize = 32;

/// Why a document cannot be read to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Io(io::Error),
    #[error("at byte {at}: {error}")]
    Xml { at: u64, error: quick_xml::Error },
    #[error("at byte {at}: elements in elements, more than {DEPTH_MAX}")]
    TooDeep { at: u64 },
    #[error("it ends before its elements do")]
    Truncated,
    #[error("not what Ganglia says: no GANGLIA_XML")]
    Foreign,
}

/// Takes all values of a document; what is before a place where it is broken is taken.
pub fn read(source: impl BufRead, take: &mut impl Take) -> Result<(), Error> {
    let source = Bounded { source: BufReader::new(Mended::new(source, latin)), left: EVENT_MAX };
    let mut reader = Reader::from_reader(source);
    // The names of ends are not compared: what is open is counted, and names are what matters.
    reader.config_mut().check_end_names = false;
    let (mut buffer, mut state) = (Vec::new(), State::default());
    loop {
        buffer.clear();
        reader.get_mut().left = EVENT_MAX;
        let at = reader.buffer_position();
        match reader.read_event_into(&mut buffer) {
            Ok(Event::Start(element)) => {
                state.begin(&element, take);
                state.depth += 1;
                if state.depth > DEPTH_MAX {
                    return Err(Error::TooDeep { at });
                }
            }
            Ok(Event::Empty(element)) => state.begin(&element, take),
            Ok(Event::End(_)) => state.depth = state.depth.saturating_sub(1),
            Ok(Event::Eof) => break,
            Ok(_) => {}
            Err(quick_xml::Error::Io(error)) => return Err(Error::Io(io::Error::new(error.kind(), error))),
            Err(error) => return Err(Error::Xml { at, error }),
        }
    }
    match state {
        State { is_ours: false, .. } => Err(Error::Foreign),
        State { depth: 0, .. } => Ok(()),
        State { .. } => Err(Error::Truncated),
    }
}

/// What the elements around the next one say.
#[derive(Default)]
struct State {
    depth: usize,
    is_ours: bool,
    /// The outermost `LOCALTIME`, in seconds, and how deep it stands.
    now: Option<(usize, u64)>,
    cluster: Option<String>,
    host: Option<String>,
    reported: Option<u64>,
}

impl State {
    fn begin(&mut self, element: &BytesStart<'_>, take: &mut impl Take) {
        let attributes = || Attributes::of(element);
        match element.name().as_ref() {
            "GANGLIA_XML" => self.is_ours = true,
            "GRID" => self.clock(&attributes()),
            "CLUSTER" => {
                let attributes = attributes();
                self.clock(&attributes);
                self.cluster = attributes.name("NAME").ok();
                (self.host, self.reported) = (None, None);
            }
            "HOST" => {
                let attributes = attributes();
                self.host = attributes.name("NAME").or_else(|_| attributes.name("IP")).ok();
                self.reported = attributes.number("REPORTED").filter(|seconds| *seconds > 0);
            }
            "METRIC" => match self.metric(&attributes()) {
                Ok(reading) => take.reading(reading),
                Err(why) => take.dropped(why),
            },
            _ => {}
        }
    }

    /// Takes a clock unless one further out is running.
    fn clock(&mut self, attributes: &Attributes) {
        if self.now.is_none_or(|(depth, _)| depth >= self.depth) {
            self.now = attributes.number("LOCALTIME").map(|seconds| (self.depth, seconds));
        }
    }

    fn metric(&self, attributes: &Attributes) -> Result<Reading, Dropped> {
        if attributes.is_broken {
            return Err(Dropped::Malformed);
        }
        let text = |key: &str| attributes.get(key).unwrap_or("");
        let value = of_text(text("VAL").as_bytes(), text("TYPE"), Slope::named(text("SLOPE")))?;
        Ok(Reading {
            host: self.host.clone().ok_or(Dropped::NoHost)?,
            cluster: self.cluster.clone(),
            time: self.time(attributes)?,
            interval: attributes
                .number("TMAX")
                .filter(|tmax| *tmax > 0)
                .and_then(|tmax| tmax.checked_mul(SECOND)),
            path: Path::new(System::Ganglia, attributes.name("NAME")?),
            unit: unit(text("UNITS")).filter(|unit| unit.len() <= NAME_MAX),
            value,
        })
    }

    fn time(&self, attributes: &Attributes) -> Result<Nanos, Dropped> {
        let seconds = match (self.now, attributes.number("TN")) {
            (Some((_, now)), Some(ago)) => now.checked_sub(ago).ok_or(Dropped::ImpossibleTime)?,
            _ => self.reported.ok_or(Dropped::NoTime)?,
        };
        time(u128::from(seconds) * u128::from(SECOND))
    }
}

/// The attributes of an element, as far as they can be read.
struct Attributes {
    list: Vec<(String, String)>,
    is_broken: bool,
}

impl Attributes {
    fn of(element: &BytesStart<'_>) -> Attributes {
        let mut attributes = Attributes { list: Vec::new(), is_broken: false };
        // Looking for doubles would cost the square of their number.
        for attribute in element.attributes().with_checks(false) {
            let Ok(attribute) = attribute else {
                attributes.is_broken = true;
                break;
            };
            if attributes.list.len() == ATTRIBUTES_MAX {
                attributes.is_broken = true;
                break;
            }
            let value = unescape(&attribute.value).map_or_else(|_| attribute.value.to_string(), Into::into);
            attributes.list.push((attribute.key.as_ref().to_owned(), value));
        }
        attributes
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.list.iter().find(|(name, _)| name == key).map(|(_, value)| &**value)
    }

    fn name(&self, key: &str) -> Result<String, Dropped> {
        named(self.get(key).unwrap_or("").as_bytes(), Dropped::NoName)
    }

    fn number(&self, key: &str) -> Option<u64> {
        crate::number::whole(self.get(key)?.as_bytes())
    }
}

/// Gives up when one event has no end: the parser would keep all of it.
struct Bounded<R> {
    source: R,
    left: usize,
}

impl<R: BufRead> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let ready = self.fill_buf()?;
        let count = ready.len().min(buffer.len());
        buffer[..count].copy_from_slice(&ready[..count]);
        self.consume(count);
        Ok(count)
    }
}

impl<R: BufRead> BufRead for Bounded<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.left == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "one element is too long"));
        }
        let ready = self.source.fill_buf()?;
        Ok(&ready[..ready.len().min(self.left)])
    }

    fn consume(&mut self, count: usize) {
        self.left = self.left.saturating_sub(count);
        self.source.consume(count);
    }
}
