//! Lines cut into fields, also those that a user broke: with the delimiter or a line break in the name of a job.
//!
//! `sacct` escapes nothing. A line with too many pieces can be mended if exactly one of the fields that users write,
//! taken so much longer, leaves all others in the form that they must have.

use std::ops::Range;

use memchr::memmem::Finder;
use memchr::{memchr, memchr_iter};

use super::draft::{Draft, Finished};
use super::field::Field;
use crate::sink::Reason;
use crate::time::Clock;

/// Where the pieces of a line are.
pub type Cuts = Vec<Range<usize>>;

/// Which fields a line has, in which order, and what is between them.
pub struct Layout {
    pub fields: Vec<&'static Field>,
    pub delimiter: Finder<'static>,
    /// Whether a delimiter is also behind the last field (`-p`, not `-P`); unknown until a line shows it.
    is_closed: Option<bool>,
}

/// A line that was understood, and the field that had to be put together for it.
pub struct Understood {
    pub finished: Finished,
    pub mended: Option<&'static str>,
    /// Whether it was taken to have a delimiter behind its last field.
    is_closed: bool,
}

impl Layout {
    pub fn new(fields: Vec<&'static Field>, delimiter: &[u8], is_closed: Option<bool>) -> Self {
        Layout { fields, delimiter: Finder::new(delimiter).into_owned(), is_closed }
    }

    /// Cuts a line, and says whether it may be all of a record.
    pub fn cut(&self, line: &[u8], cuts: &mut Cuts) -> bool {
        pieces(line, &self.delimiter, cuts);
        self.take_end(cuts)
    }

    /// Takes away what is behind the last delimiter where lines end with one, and says whether the pieces may be all of a record.
    pub fn take_end(&self, cuts: &mut Cuts) -> bool {
        let has_end = has_end(cuts);
        if self.is_closed == Some(true) && has_end {
            cuts.pop();
        }
        cuts.len() >= self.fields.len() && (self.is_closed != Some(true) || has_end)
    }

    /// Makes a record of a line's pieces.
    pub fn understand(
        &self,
        line: &[u8],
        cuts: &[Range<usize>],
        clock: &Clock,
    ) -> Result<Understood, Reason> {
        if self.is_closed.is_none()
            && has_end(cuts)
            && let Ok(understood) = self.put_together(line, &cuts[..cuts.len() - 1], clock)
        {
            return Ok(Understood { is_closed: true, ..understood });
        }
        self.put_together(line, cuts, clock)
    }

    /// Learns from a line that needed no mending how all others end.
    pub fn learn(&mut self, understood: &Understood) {
        if self.is_closed.is_none() && understood.mended.is_none() {
            self.is_closed = Some(understood.is_closed);
        }
    }

    fn put_together(&self, line: &[u8], cuts: &[Range<usize>], clock: &Clock) -> Result<Understood, Reason> {
        let (found, expected) = (cuts.len(), self.fields.len());
        let Some(extra) = found.checked_sub(expected) else {
            return Err(Reason::FieldCount { found, expected });
        };
        if extra == 0 {
            let finished = self.fill(line, cuts, expected, 0, clock)?;
            return Ok(Understood { finished, mended: self.broken(line, cuts), is_closed: false });
        }
        let mut fitting = Vec::new();
        for (at, field) in self.fields.iter().enumerate().filter(|(_, field)| field.is_any()) {
            if let Ok(finished) = self.fill(line, cuts, at, extra, clock) {
                fitting.push(Understood { finished, mended: Some(field.name), is_closed: false });
            }
        }
        match fitting.pop() {
            None => Err(Reason::FieldCount { found, expected }),
            Some(only) if fitting.is_empty() => Ok(only),
            Some(last) => {
                let names: Vec<&str> = fitting.iter().chain([&last]).filter_map(|one| one.mended).collect();
                Err(Reason::Ambiguous { found, expected, fields: names.join(", ") })
            }
        }
    }

    /// Whether a line that is too short may be the beginning of a record: all before the first field that a user writes
    /// has its form.
    pub fn may_begin(&self, line: &[u8], cuts: &[Range<usize>], clock: &Clock) -> bool {
        let Some(first) = self.fields.iter().position(|field| field.is_any()) else { return false };
        let mut draft = Draft::default();
        let fits =
            |(field, cut): (&&Field, &Range<usize>)| draft.put(field, &line[cut.clone()], clock).is_ok();
        cuts.len() > first && self.fields[..first].iter().zip(cuts).all(fits)
    }

    /// Puts each field into a draft; the one at `long` has `extra` pieces more than one.
    fn fill(
        &self,
        line: &[u8],
        cuts: &[Range<usize>],
        long: usize,
        extra: usize,
        clock: &Clock,
    ) -> Result<Finished, Reason> {
        let has_break = memchr(b'\n', line).is_some();
        let mut draft = Draft::default();
        for (at, field) in self.fields.iter().enumerate() {
            let first = if at > long { at + extra } else { at };
            let last = if at >= long { at + extra } else { at };
            let text = &line[cuts[first].start..cuts[last].end];
            if has_break && !field.is_any() && memchr(b'\n', text).is_some() {
                return Err(Reason::unreadable(field.name, text));
            }
            draft.put(field, text, clock)?;
        }
        Ok(draft.finish())
    }

    /// The field with a line break in it.
    fn broken(&self, line: &[u8], cuts: &[Range<usize>]) -> Option<&'static str> {
        memchr(b'\n', line)?;
        let has_break = |cut: &Range<usize>| memchr(b'\n', &line[cut.clone()]).is_some();
        self.fields.iter().zip(cuts).find(|(_, cut)| has_break(cut)).map(|(field, _)| field.name)
    }
}

/// Whether a line ends with a delimiter.
fn has_end(cuts: &[Range<usize>]) -> bool {
    cuts.len() > 1 && cuts.last().is_some_and(Range::is_empty)
}

fn pieces(line: &[u8], delimiter: &Finder, cuts: &mut Cuts) {
    cuts.clear();
    let mut from = 0;
    let length = delimiter.needle().len();
    let mut piece = |at: usize| {
        cuts.push(from..at);
        from = at + length;
    };
    match delimiter.needle() {
        // Most pieces are shorter than what a search for several bytes needs to get going.
        [byte] => memchr_iter(*byte, line).for_each(&mut piece),
        _ => delimiter.find_iter(line).for_each(&mut piece),
    }
    cuts.push(from..line.len());
}
