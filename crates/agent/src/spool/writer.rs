//! Appends entries to the spool, within its limits, whatever the disk does.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use record::batch::Stream;

use super::frame::{self, HEADER_BYTES, PAYLOAD_MAX, Segment};
use super::{SUFFIX, segments};
use crate::counters::Counters;
use crate::state;

/// How much the spool may hold, and when a segment is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpoolLimits {
    pub max_bytes: u64,
    pub segment_bytes: u64,
    pub segment_age: Duration,
}

/// What new entries are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbering {
    pub stream: Stream,
    /// No smaller number is given: those were shipped, and their segments removed.
    pub least: u64,
}

/// Why an entry was not written.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    #[error("the spool holds its limit of {0} bytes")]
    Full(u64),
    #[error("cannot write {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("an entry of {0} bytes is larger than a spool takes")]
    TooLarge(usize),
}

/// The writing end of a spool. There is one per directory.
pub struct SpoolWriter {
    dir: PathBuf,
    limits: SpoolLimits,
    stream: Stream,
    current: Option<Current>,
    next_number: u64,
    next_index: u64,
    /// Bytes in segments that are closed.
    closed_bytes: u64,
}

struct Current {
    file: File,
    path: PathBuf,
    bytes: u64,
    opened: Instant,
    synced_bytes: u64,
}

impl SpoolWriter {
    /// Opens the spool, closing what an earlier agent left open; numbering goes on where it stopped. A segment that cannot
    /// be read is set aside.
    pub fn open(
        dir: &Path,
        limits: SpoolLimits,
        numbering: Numbering,
        counters: &Counters,
    ) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        let mut writer = SpoolWriter {
            dir: dir.to_owned(),
            limits,
            stream: numbering.stream,
            current: None,
            next_number: numbering.least.max(1),
            next_index: 1,
            closed_bytes: 0,
        };
        for file in segments(dir)? {
            writer.next_index = file.index + 1;
            let name = file.path.file_name().unwrap_or_default().to_string_lossy();
            let Some(bytes) = state::read(dir, &name, counters).content() else { continue };
            writer.closed_bytes += bytes.len() as u64;
            let mut segment = Segment::new(&bytes);
            let mut is_open = false;
            let mut whole_to = segment.offset();
            for item in segment.by_ref() {
                is_open |= item == frame::Item::Open;
                if let frame::Item::Damaged { at, bytes: n } = item {
                    // Half a frame at the end is what a crash leaves; it is cut off below.
                    whole_to = if at + n == bytes.len() { at } else { bytes.len() };
                } else {
                    whole_to = bytes.len();
                }
            }
            writer.next_number = segment.next_number().unwrap_or(writer.next_number).max(writer.next_number);
            if is_open {
                close_left_over(&file.path, whole_to, writer.next_number)?;
            }
        }
        Ok(writer)
    }

    /// How many bytes the spool holds.
    pub fn bytes(&self) -> u64 {
        self.closed_bytes + self.current.as_ref().map_or(0, |current| current.bytes)
    }

    /// How many it may hold.
    pub fn max_bytes(&self) -> u64 {
        self.limits.max_bytes
    }

    /// The number the next entry will have.
    pub fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Closes the segment if it is due, and says whether the next entry begins a new one: a new segment has
    /// to be told everything its images refer to.
    pub fn begins_segment(&mut self, now: Instant) -> bool {
        let is_due = self.current.as_ref().is_some_and(|current| {
            current.bytes >= self.limits.segment_bytes || now - current.opened >= self.limits.segment_age
        });
        if is_due {
            self.close_segment();
        }
        self.current.is_none()
    }

    /// Writes entries that belong together: all of them or none.
    pub fn append(&mut self, payloads: &[Vec<u8>], now_ns: u64) -> Result<(), SpoolError> {
        let mut frames =
            Vec::with_capacity(payloads.iter().map(|p| p.len() + 32).sum::<usize>() + HEADER_BYTES);
        if self.current.is_none() {
            frames.extend(frame::header(self.stream, self.next_number, now_ns));
        }
        for (number, payload) in (self.next_number..).zip(payloads) {
            if payload.len() > PAYLOAD_MAX {
                return Err(SpoolError::TooLarge(payload.len()));
            }
            frame::push_entry(&mut frames, number, payload);
        }
        if self.bytes() + frames.len() as u64 > self.limits.max_bytes {
            // Segments may have been taken away.
            self.recount();
        }
        if self.bytes() + frames.len() as u64 > self.limits.max_bytes {
            return Err(SpoolError::Full(self.limits.max_bytes));
        }
        self.write(&frames)?;
        self.next_number += payloads.len() as u64;
        Ok(())
    }

    /// Counts again what it holds: segments that were sent are gone.
    pub fn recount(&mut self) {
        let current = self.current.as_ref().map(|current| current.path.as_path());
        let closed =
            segments(&self.dir).into_iter().flatten().filter(|file| Some(file.path.as_path()) != current);
        self.closed_bytes =
            closed.filter_map(|file| fs::metadata(file.path).ok()).map(|meta| meta.len()).sum();
    }

    /// Asks the disk to keep what was written.
    pub fn sync(&mut self) -> io::Result<()> {
        if let Some(current) = self.current.as_mut().filter(|current| current.synced_bytes < current.bytes) {
            current.file.sync_data()?;
            current.synced_bytes = current.bytes;
        }
        Ok(())
    }

    /// Ends the current segment with its trailer.
    pub fn close_segment(&mut self) {
        let Some(mut current) = self.current.take() else { return };
        let mut trailer = Vec::new();
        frame::push_trailer(&mut trailer, self.next_number);
        // Without its trailer the segment reads the same, as one that was left open; a half-written
        // trailer is taken back so that it does not read as damage.
        match current.file.write_all(&trailer) {
            Ok(()) => current.bytes += trailer.len() as u64,
            Err(_) => drop(current.file.set_len(current.bytes)),
        }
        let _ = current.file.sync_data();
        self.closed_bytes += current.bytes;
    }

    fn write(&mut self, frames: &[u8]) -> Result<(), SpoolError> {
        let path = self.dir.join(format!("{:010}.{SUFFIX}", self.next_index));
        let is_new = self.current.is_none();
        let io_error = |source| SpoolError::Io { path: path.clone(), source };
        if is_new {
            let file = create(&path).map_err(io_error)?;
            self.current =
                Some(Current { file, path: path.clone(), bytes: 0, opened: Instant::now(), synced_bytes: 0 });
        }
        let Some(current) = self.current.as_mut() else { return Ok(()) };
        if let Err(source) = current.file.write_all(frames) {
            let path = current.path.clone();
            // Take back the half that was written, so that the next entry follows the last whole one.
            let taken_back = current.file.set_len(current.bytes).is_ok();
            if is_new {
                let _ = fs::remove_file(&path);
            }
            if is_new || !taken_back {
                self.current = None;
            }
            return Err(SpoolError::Io { path, source });
        }
        current.bytes += frames.len() as u64;
        self.next_index += u64::from(is_new);
        Ok(())
    }
}

/// Appending always goes to the end, also behind a truncation.
fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().create_new(true).append(true).mode(0o640).open(path)
}

/// Cuts a torn end off a segment that a killed agent left, and closes it.
fn close_left_over(path: &Path, whole_to: usize, next_number: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    file.set_len(whole_to as u64)?;
    let mut trailer = Vec::new();
    frame::push_trailer(&mut trailer, next_number);
    file.write_all_at(&trailer, whole_to as u64)
}
