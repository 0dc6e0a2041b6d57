//! `sacct` as text: one line for each job, one for each of its steps behind it.
//!
//! Times are local to a zone that the file does not name. A line that does not have the form of its fields is rejected:
//! it is more likely cut wrongly than that Slurm wrote it. A value that has its form but cannot be true is left out, and
//! a name with a delimiter or a line break in it is put together, unless every such line is to be rejected as well.

use std::collections::VecDeque;
use std::io::{self, BufRead};

use jiff::tz::TimeZone;
use record::accounting::Accounting;

use super::complete::from_steps;
use super::cut::{Cuts, Layout, Understood};
use super::draft::{Finished, into_step};
use super::field::{Field, Slot, UNKNOWN, XDMOD};
use super::quotes;
use crate::lines::{LINE_MAX, Line, Lines};
use crate::sink::{At, Error, Outcome, Problem, Reason, Sink};
use crate::time::Clock;

/// How many lines the name of one job may have.
const JOINED_MAX: usize = 16;

/// What must be known about a file to read it.
#[derive(Debug, Clone)]
pub struct Options {
    /// Of the times.
    pub zone: TimeZone,
    pub delimiter: Vec<u8>,
    /// Without them the first line has their names.
    pub fields: Option<Vec<String>>,
    /// For lines that name none.
    pub cluster: Option<String>,
    /// Rejects lines that it could mend, and those with a value that cannot be true.
    pub is_strict: bool,
    /// Rejects a file with a column that is not known; else the column is passed over.
    pub rejects_unknown_fields: bool,
    /// Somebody may have put quotes around fields and doubled those in them, as spreadsheets do; `sacct` does not.
    pub may_have_quotes: bool,
}

impl Options {
    /// `sacct -P` or `-p`, with the names of the fields in the first line.
    pub fn new(zone: TimeZone) -> Self {
        Options {
            zone,
            delimiter: b"|".to_vec(),
            fields: None,
            cluster: None,
            is_strict: false,
            rejects_unknown_fields: false,
            may_have_quotes: false,
        }
    }

    /// A log that XDMoD keeps.
    pub fn xdmod(zone: TimeZone) -> Self {
        Options { fields: Some(XDMOD.map(str::to_owned).to_vec()), ..Options::new(zone) }
    }
}

/// Reads all jobs of a file.
pub fn read(source: impl BufRead, file: &str, options: &Options, sink: &mut impl Sink) -> Result<(), Error> {
    if options.delimiter.is_empty() || options.delimiter.contains(&b'\n') {
        return Err(Error::Delimiter { file: file.to_owned() });
    }
    let mut lines = Lines::new(source);
    let mut header = Vec::new();
    let layout = match &options.fields {
        Some(names) => {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let fields = Columns { file, at: At::Fields, text: names.join(",").as_bytes(), options }
                .fields(&names, sink)?;
            Layout::new(fields, &options.delimiter, None)
        }
        None => read_header(&mut lines, file, options, &mut header, sink)?,
    };
    let reader = Reader {
        file,
        lines,
        ahead: VecDeque::new(),
        line: Vec::new(),
        at: Line { number: 0, is_cut: false, is_ended: false },
        header,
        layout,
        cuts: Cuts::new(),
        clock: Clock::new(options.zone.clone()),
        cluster: options.cluster.as_deref(),
        job: None,
        last: None,
        last_line: 0,
        tail: 0,
        is_strict: options.is_strict,
        may_have_quotes: options.may_have_quotes,
        last_text: Vec::new(),
        sink,
    };
    reader.run().map_err(|error| Error::Io { file: file.to_owned(), error })
}

struct Reader<'a, R, S> {
    file: &'a str,
    lines: Lines<R>,
    /// Lines that were looked at and not taken.
    ahead: VecDeque<(Line, Vec<u8>)>,
    line: Vec<u8>,
    at: Line,
    /// Files put together have it again.
    header: Vec<u8>,
    layout: Layout,
    cuts: Cuts,
    clock: Clock,
    cluster: Option<&'a str>,
    /// The job whose steps may follow.
    job: Option<Accounting>,
    /// The record of the last line, whose last field may go on in the next.
    last: Option<Finished>,
    last_line: u64,
    /// How many lines of it did.
    tail: usize,
    is_strict: bool,
    may_have_quotes: bool,
    /// The last line, where it would be rejected with the next.
    last_text: Vec<u8>,
    sink: &'a mut S,
}

impl<R: BufRead, S: Sink> Reader<'_, R, S> {
    fn run(mut self) -> io::Result<()> {
        while self.next_line()? {
            if self.line.is_empty() || self.line == self.header || self.is_names() {
                continue;
            }
            if self.at.is_cut {
                self.report(Outcome::Rejected, Reason::TooLong(LINE_MAX));
                continue;
            }
            self.record()?;
        }
        self.put_away()?;
        let last = self.job.take();
        self.give(last)
    }

    /// A job with all of its steps.
    fn give(&mut self, job: Option<Accounting>) -> io::Result<()> {
        let Some(mut job) = job else { return Ok(()) };
        from_steps(&mut job);
        self.sink.job(job)
    }

    fn next_line(&mut self) -> io::Result<bool> {
        if let Some((at, line)) = self.ahead.pop_front() {
            (self.at, self.line) = (at, line);
            return Ok(true);
        }
        let at = self.lines.next(&mut self.line)?;
        self.at = at.unwrap_or(self.at);
        Ok(at.is_some())
    }

    /// Whether this is the line with the names, in a file of which they were told beforehand.
    fn is_names(&mut self) -> bool {
        if self.at.number > 1 {
            return false;
        }
        self.layout.cut(&self.line, &mut self.cuts);
        let names = self.layout.fields.iter().map(|field| field.name.as_bytes());
        let known = self.layout.fields.iter().map(|field| field.is_known());
        let is_name = |((name, is_known), cut): ((&[u8], bool), &std::ops::Range<usize>)| {
            !is_known || self.line[cut.clone()].eq_ignore_ascii_case(name)
        };
        let told = self.cuts.iter().filter(|cut| !cut.is_empty()).count();
        told == self.layout.fields.len() && names.zip(known).zip(&self.cuts).all(is_name)
    }

    fn record(&mut self) -> io::Result<()> {
        if self.may_have_quotes && quotes::has_doubled(&self.line) && self.is_quoted()? {
            return Ok(());
        }
        let reason = if self.layout.cut(&self.line, &mut self.cuts) {
            match self.layout.understand(&self.line, &self.cuts, &self.clock) {
                Ok(understood) => return self.accept(understood, self.at.number),
                Err(reason) => reason,
            }
        } else {
            Reason::FieldCount { found: self.cuts.len(), expected: self.layout.fields.len() }
        };
        if self.may_have_quotes && self.is_quoted()? {
            return Ok(());
        }
        if self.goes_on()? || self.is_tail() {
            return Ok(());
        }
        self.report(Outcome::Rejected, reason);
        Ok(())
    }

    /// Takes the line without the quotes of a spreadsheet, if it is a record then.
    fn is_quoted(&mut self) -> io::Result<bool> {
        let Some((plain, mut cuts)) = quotes::undone(&self.line, &self.layout.delimiter) else {
            return Ok(false);
        };
        if !self.layout.take_end(&mut cuts) {
            return Ok(false);
        }
        match self.layout.understand(&plain, &cuts, &self.clock) {
            Ok(understood) if understood.mended.is_none() => {
                self.take(understood, self.at.number, Some(Reason::Quoted)).map(|()| true)
            }
            _ => Ok(false),
        }
    }

    /// Takes the next lines too, if they make a record of this one.
    fn goes_on(&mut self) -> io::Result<bool> {
        if !self.layout.may_begin(&self.line, &self.cuts, &self.clock) {
            return Ok(false);
        }
        let (at, first) = (self.at, std::mem::take(&mut self.line));
        let mut joined = first.clone();
        let mut taken = Vec::new();
        while taken.len() < JOINED_MAX && joined.len() <= LINE_MAX && self.next_line()? {
            taken.push((self.at, self.line.clone()));
            let stands_alone = self.layout.cut(&self.line, &mut self.cuts)
                && self.layout.understand(&self.line, &self.cuts, &self.clock).is_ok();
            if self.at.is_cut || stands_alone {
                break;
            }
            joined.push(b'\n');
            joined.extend_from_slice(&self.line);
            if !self.layout.cut(&joined, &mut self.cuts) {
                continue;
            }
            if let Ok(understood) = self.layout.understand(&joined, &self.cuts, &self.clock) {
                let last = self.at.number;
                (self.at, self.line) = (at, joined);
                return self.accept(understood, last).map(|()| true);
            }
        }
        taken.into_iter().rev().for_each(|line| self.ahead.push_front(line));
        (self.at, self.line) = (at, first);
        self.layout.cut(&self.line, &mut self.cuts);
        Ok(false)
    }

    /// Adds this line to the last field of the record before it, if that is one that users write. A line with all its fields is a record
    /// of its own with a value that is not known.
    fn is_tail(&mut self) -> bool {
        if self.cuts.len() >= self.layout.fields.len() {
            return false;
        }
        let (Some(field), Some(last)) = (self.layout.fields.last(), &mut self.last) else { return false };
        if !field.is_any() || self.at.number != self.last_line + 1 || self.tail == JOINED_MAX {
            return false;
        }
        if self.is_strict {
            return self.reject_with_tail(field.name);
        }
        if let Slot::Any(of) = field.slot {
            let text = &mut of(&mut last.job).get_or_insert_default().0;
            text.push(b'\n');
            text.extend_from_slice(&self.line);
        }
        self.last_line += 1;
        self.tail += 1;
        self.report(Outcome::Mended, Reason::Joined { field: field.name });
        true
    }

    /// A line whose last field goes on here is as bad as this one.
    fn reject_with_tail(&mut self, field: &'static str) -> bool {
        self.last = None;
        self.last_text.push(b'\n');
        self.last_text.extend_from_slice(&self.line);
        (self.at.number, self.line) = (self.last_line, std::mem::take(&mut self.last_text));
        self.report(Outcome::Rejected, Reason::Joined { field });
        true
    }

    fn accept(&mut self, understood: Understood, last_line: u64) -> io::Result<()> {
        self.layout.learn(&understood);
        let mended = understood.mended.map(|field| Reason::Joined { field });
        self.take(understood, last_line, mended)
    }

    fn take(&mut self, understood: Understood, last_line: u64, mended: Option<Reason>) -> io::Result<()> {
        let Understood { mut finished, .. } = understood;
        self.put_away()?;
        if finished.step.is_some() && !self.job.as_ref().is_some_and(|job| is_same(job, &finished.job)) {
            self.report(Outcome::Rejected, Reason::Orphan);
            return Ok(());
        }
        if std::str::from_utf8(&self.line).is_err() {
            finished.doubts.push(Reason::NoText);
        }
        if let (true, Some(reason)) = (self.is_strict, mended.as_ref().or(finished.doubts.first())) {
            self.report(Outcome::Rejected, reason.clone());
            return Ok(());
        }
        if let Some(reason) = mended {
            self.report(Outcome::Mended, reason);
        }
        for doubt in finished.doubts.drain(..) {
            self.report(Outcome::Doubted, doubt);
        }
        if finished.job.cluster.is_none() {
            finished.job.cluster = self.cluster.map(str::to_owned);
        }
        if self.is_strict && self.layout.fields.last().is_some_and(|field| field.is_any()) {
            self.last_text.clone_from(&self.line);
        }
        self.last = Some(finished);
        (self.last_line, self.tail) = (last_line, 0);
        Ok(())
    }

    /// The last record has no more lines: it is the next job, or a step of this one.
    fn put_away(&mut self) -> io::Result<()> {
        let Some(last) = self.last.take() else { return Ok(()) };
        match (last.step, &mut self.job) {
            (Some(step), Some(job)) => job.steps.push(into_step(last.job, step)),
            _ => {
                let before = self.job.replace(last.job);
                self.give(before)?;
            }
        }
        Ok(())
    }

    fn report(&mut self, outcome: Outcome, reason: Reason) {
        let at = At::Line(self.at.number);
        self.sink.problem(Problem { file: self.file, at, text: &self.line, outcome, reason });
    }
}

/// Whether two records name the same job.
fn is_same(job: &Accounting, step: &Accounting) -> bool {
    match (&job.job, &step.job) {
        (Some(job), Some(step)) => job == step,
        _ => job.shown == step.shown,
    }
}

/// Names of columns, and where they stand.
struct Columns<'a> {
    file: &'a str,
    at: At,
    text: &'a [u8],
    options: &'a Options,
}

impl Columns<'_> {
    /// What they mean. One that is not known is told to the sink, and passed over.
    fn fields(&self, names: &[&str], sink: &mut impl Sink) -> Result<Vec<&'static Field>, Error> {
        let mut fields = Vec::new();
        for name in names {
            let field = Field::named(name);
            if field.is_none() {
                self.unknown(name, sink)?;
            }
            fields.push(field.unwrap_or(&UNKNOWN));
        }
        if fields.iter().any(|field| field.is_id()) {
            Ok(fields)
        } else {
            Err(Error::NoIdField { file: self.file.to_owned() })
        }
    }

    fn unknown(&self, name: &str, sink: &mut impl Sink) -> Result<(), Error> {
        let (file, name) = (self.file, name.trim().to_owned());
        if self.options.rejects_unknown_fields {
            return Err(Error::UnknownField { file: file.to_owned(), name, known: Field::names() });
        }
        let (at, text, outcome, reason) = (self.at, self.text, Outcome::Ignored, Reason::UnknownField(name));
        sink.problem(Problem { file, at, text, outcome, reason });
        Ok(())
    }
}

/// What only `squeue` calls so.
const OF_SQUEUE: [&str; 4] = ["ST", "NODELIST(REASON)", "TIME_LEFT", "START_TIME"];

fn is_of_squeue(names: &[&str]) -> bool {
    names.iter().any(|name| OF_SQUEUE.contains(name))
}

/// Whether words are the names of columns that are padded with blanks, as both commands print them to people.
fn is_of_columns(words: &[&str]) -> bool {
    let known: Vec<&Field> = words.iter().filter_map(|word| Field::named(word)).collect();
    words.len() > 1
        && known.iter().any(|field| field.is_id())
        && (is_of_squeue(words) || known.len() * 2 >= words.len())
}

fn read_header<R: BufRead>(
    lines: &mut Lines<R>,
    file: &str,
    options: &Options,
    header: &mut Vec<u8>,
    sink: &mut impl Sink,
) -> Result<Layout, Error> {
    let mut at = At::Line(1);
    while header.is_empty() {
        let line = lines.next(header).map_err(|error| Error::Io { file: file.to_owned(), error })?;
        at = At::Line(line.ok_or_else(|| Error::Empty { file: file.to_owned() })?.number);
    }
    let text = String::from_utf8_lossy(header);
    let delimiter = String::from_utf8_lossy(&options.delimiter);
    let (names, is_closed) = match text.strip_suffix(&*delimiter) {
        Some(names) => (names, true),
        None => (&*text, false),
    };
    let names = names.trim_start_matches('\u{feff}').split(&*delimiter);
    let names: Vec<&str> =
        names.map(|name| if options.may_have_quotes { quotes::bare(name) } else { name }).collect();
    // What stands between tabs is no column of a fixed width.
    let padded: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    let file_name = file.to_owned();
    if !is_header(&names) {
        return Err(match &padded[..] {
            words if !is_of_columns(words) => Error::NoHeader { file: file_name },
            words if is_of_squeue(words) => Error::Controller { file: file_name },
            _ => Error::FixedWidth { file: file_name },
        });
    }
    if is_of_squeue(&names) {
        return Err(Error::Controller { file: file_name });
    }
    let fields = Columns { file, at, text: header, options }.fields(&names, sink)?;
    Ok(Layout::new(fields, &options.delimiter, Some(is_closed)))
}

/// Whether a line names columns: one of them is the number of the job, or half of them are known. A job's name may be that of a column.
fn is_header(names: &[&str]) -> bool {
    let known: Vec<&Field> = names.iter().filter_map(|name| Field::named(name)).collect();
    known.iter().any(|field| field.is_id()) || (known.len() * 2 >= names.len() && !known.is_empty())
}
