//! The guest's message: its keys, and a CBOR writer into a fixed buffer.
//!
//! A message is one CBOR map with small integers as keys ([`key`]), written in one pass with
//! indefinite-length containers, so that nothing has to be counted beforehand. Names and paths are byte
//! strings: any byte is legal in them. Unknown keys are skipped by the reader, which is what lets an older
//! agent understand a newer guest.

/// Version of the message. Raised only when an old reader would misunderstand a new message.
pub const VERSION: u64 = 2;

/// No message is larger: 300 libraries take about 36 KiB, and a socket takes 200 KiB by default.
pub const MESSAGE_MAX: usize = 64 * 1024;

/// Keys of the message's map.
pub mod key {
    /// [`super::VERSION`].
    pub const VERSION: u64 = 0;
    /// [`super::kind`].
    pub const KIND: u64 = 1;
    /// `CLOCK_MONOTONIC` in nanoseconds: the clock of the kernel's process events.
    pub const TIME: u64 = 2;
    /// What earlier images of this process had used: user µs, system µs, peak KiB, blocks in, blocks out.
    pub const USAGE: u64 = 3;
    /// Target of `/proc/self/exe`.
    pub const EXE: u64 = 4;
    /// Arguments, secrets redacted, as an array of byte strings.
    pub const ARGV: u64 = 6;
    /// Present and 1 if there were more arguments than fit.
    pub const ARGV_CUT: u64 = 7;
    /// Working directory.
    pub const CWD: u64 = 8;
    /// Kept and identifying variables ([`super::is_identifying`]): `NAME=value` byte strings.
    pub const ENV: u64 = 9;
    /// How many kept variables did not fit.
    pub const ENV_CUT: u64 = 10;
    /// Loaded objects: arrays of an address in the object's code or null, path, build-id or null, signature or null.
    pub const OBJECTS: u64 = 12;
    /// How many objects did not fit.
    pub const OBJECTS_CUT: u64 = 13;
    /// Why nothing else is said ([`super::reason`]); only in messages of kind `SUPPRESSED`.
    pub const REASON: u64 = 14;
}

/// Kinds of message.
pub mod kind {
    /// A program image begins.
    pub const START: u64 = 1;
    /// A program image begins and a rule says that nothing is told about it.
    pub const SUPPRESSED: u64 = 2;
}

/// Why a guest says nothing about its program.
pub mod reason {
    /// The path matches a `skip_exe` rule.
    pub const EXE: u64 = 1;
    /// The user is named in a `skip_uid` rule.
    pub const UID: u64 = 2;
}

macro_rules! identifying {
    ($($name:literal,)+) => {
        /// Whether a variable of this name identifies job, rank, modules or container. Such variables are
        /// always sent: without them a record has no owner. They are claims of the process; the agent checks
        /// them against the kernel.
        ///
        /// A comparison and not a list, because a list is addresses that the loader has to relocate in every
        /// process.
        pub fn is_identifying(name: &[u8]) -> bool {
            matches!(name, $($name)|+)
        }

        /// The names for which [`is_identifying`] holds.
        #[cfg(feature = "std")]
        pub const IDENTIFYING: &[&[u8]] = &[$($name),+];
    };
}

identifying! {
    b"SLURM_JOB_ID",
    b"SLURM_STEP_ID",
    b"SLURM_PROCID",
    b"SLURM_LOCALID",
    b"SLURM_CLUSTER_NAME",
    b"SLURM_ARRAY_JOB_ID",
    b"SLURM_ARRAY_TASK_ID",
    b"SLURM_SCRIPT_CONTEXT",
    b"SLURMD_NODENAME",
    b"PBS_JOBID",
    b"LSB_JOBID",
    b"PMI_RANK",
    b"PMIX_RANK",
    b"OMPI_COMM_WORLD_RANK",
    b"MV2_COMM_WORLD_RANK",
    b"LOADEDMODULES",
    b"_LMFILES_",
    b"APPTAINER_CONTAINER",
    b"APPTAINER_NAME",
    b"SINGULARITY_CONTAINER",
    b"SINGULARITY_NAME",
    b"CH_RUNNING",
    b"CH_IMAGE",
    b"ENROOT_ROOTFS",
    b"PYXIS_CONTAINER_IMAGE",
    b"SHIFTER_IMAGE",
    b"SHIFTER_RUNTIME",
    b"container",
}

/// What a guest tells after its start, through memory it shares with the agent: the objects loaded later.
///
/// | offset | size | content |
/// |---|---|---|
/// | 0 | 4 | state, written last: [`DONE`](late::DONE) |
/// | 4 | 4 | length of the record |
/// | 8 | 8 | `TIME` of the guest's message |
/// | 16 | 4 | objects that did not fit |
/// | 20 | 4 | objects loaded and unloaded again before the end |
/// | 24 | … | CBOR array of arrays: an address in the object's code or null, path |
pub mod late {
    /// `JGL2`: the record is whole.
    pub const DONE: u32 = u32::from_le_bytes(*b"JGL2");
    /// Where a record's list begins.
    pub const LIST: usize = 24;
    /// Size of the memory; pages that are never written cost nothing.
    pub const BYTES: usize = 64 * 1024;
}

/// Where bytes go.
pub trait Sink {
    /// Takes all of `bytes`, or notes that they did not fit.
    fn put(&mut self, bytes: &[u8]);
}

/// Writes CBOR into a borrowed buffer. What does not fit is not written at all, and is noticed.
pub struct Writer<'a> {
    buf: &'a mut [u8],
    len: usize,
    full: bool,
}

/// A place in the message to go back to.
#[derive(Clone, Copy)]
pub struct Mark(usize);

impl<'a> Writer<'a> {
    /// An empty message in `buf`.
    pub fn new(buf: &'a mut [u8]) -> Self {
        Self { buf, len: 0, full: false }
    }

    /// What has been written.
    pub fn written(&self) -> &[u8] {
        self.buf.get(..self.len).unwrap_or(&[])
    }

    /// Whether something did not fit since the last [`Writer::back_to`].
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// How many more bytes fit.
    pub fn room(&self) -> usize {
        self.buf.len().saturating_sub(self.len)
    }

    /// Remembers this place.
    pub fn mark(&self) -> Mark {
        Mark(self.len)
    }

    /// Forgets what was written since `mark`.
    pub fn back_to(&mut self, mark: Mark) {
        self.len = mark.0;
        self.full = false;
    }

    /// An unsigned integer.
    pub fn uint(&mut self, value: u64) {
        self.head(0, value);
    }

    /// A byte string.
    pub fn bytes(&mut self, value: &[u8]) {
        self.head(0x40, value.len() as u64);
        self.put(value);
    }

    /// `null`.
    pub fn null(&mut self) {
        self.put(&[0xf6]);
    }

    /// An unsigned integer, or `null`.
    pub fn optional_uint(&mut self, value: Option<u64>) {
        match value {
            Some(value) => self.uint(value),
            None => self.null(),
        }
    }

    /// A byte string, or `null`.
    pub fn optional_bytes(&mut self, value: Option<&[u8]>) {
        match value {
            Some(value) => self.bytes(value),
            None => self.null(),
        }
    }

    /// Opens an array of `len` items.
    pub fn array(&mut self, len: u64) {
        self.head(0x80, len);
    }

    /// Opens an array that ends with [`Writer::end`].
    pub fn open_array(&mut self) {
        self.put(&[0x9f]);
    }

    /// Opens a map that ends with [`Writer::end`].
    pub fn open_map(&mut self) {
        self.put(&[0xbf]);
    }

    /// Ends the innermost open array, map or byte string.
    pub fn end(&mut self) {
        self.put(&[0xff]);
    }

    /// Begins a byte string whose length is not known yet; [`Writer::close_bytes`] ends it.
    pub fn open_bytes(&mut self) -> Mark {
        self.put(&[0x59, 0, 0]);
        Mark(self.len)
    }

    /// Ends a byte string begun at `start`.
    pub fn close_bytes(&mut self, start: Mark) {
        let len = self.len.saturating_sub(start.0);
        let Ok(short) = u16::try_from(len) else {
            self.full = true;
            return;
        };
        if let Some(place) = start.0.checked_sub(2).and_then(|at| self.buf.get_mut(at..start.0)) {
            place.copy_from_slice(&short.to_be_bytes());
        }
    }

    fn head(&mut self, major: u8, value: u64) {
        let be = value.to_be_bytes();
        let [.., b4, b5, b6, b7] = be;
        match value {
            0..=23 => self.put(&[major | b7]),
            24..=0xff => self.put(&[major | 24, b7]),
            0x100..=0xffff => self.put(&[major | 25, b6, b7]),
            0x1_0000..=0xffff_ffff => self.put(&[major | 26, b4, b5, b6, b7]),
            _ => {
                self.put(&[major | 27]);
                self.put(&be);
            }
        }
    }
}

impl Sink for Writer<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let end = self.len.saturating_add(bytes.len());
        match self.buf.get_mut(self.len..end) {
            Some(place) if !self.full => {
                place.copy_from_slice(bytes);
                self.len = end;
            }
            _ => self.full = true,
        }
    }
}

#[cfg(feature = "std")]
impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_does_not_fit_is_not_half_written() {
        let mut buf = [0; 8];
        let mut writer = Writer::new(&mut buf);
        writer.uint(1);
        let mark = writer.mark();
        writer.bytes(b"0123456789");
        assert!(writer.is_full());
        writer.back_to(mark);
        writer.bytes(b"012");
        assert!(!writer.is_full());
        assert_eq!(writer.written(), [1, 0x43, b'0', b'1', b'2']);
    }

    proptest! {
        #[test]
        fn integers_and_strings_read_back(value: u64, bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut buf = vec![0; 1024];
            let mut writer = Writer::new(&mut buf);
            writer.uint(value);
            writer.bytes(&bytes);
            let start = writer.open_bytes();
            writer.put(&bytes);
            writer.close_bytes(start);
            let mut decoder = minicbor::Decoder::new(writer.written());
            prop_assert_eq!(decoder.u64().unwrap(), value);
            prop_assert_eq!(decoder.bytes().unwrap(), &bytes[..]);
            prop_assert_eq!(decoder.bytes().unwrap(), &bytes[..]);
        }
    }
}
