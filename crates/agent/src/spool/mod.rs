//! The spool: what the agent has recorded and nobody has taken yet, on disk.
//!
//! A directory of segments, `NNNNNNNNNN.seg`, each a header, frames and, once it is closed, a trailer. All
//! numbers are little endian; checksums are xxh3-64.
//!
//! | header | size | | frame | size |
//! |---|---|---|---|---|
//! | `JGSPOOL2` | 8 | | `JGF1` (entry) or `JGE1` (trailer) | 4 |
//! | number of the first entry | 8 | | length of the payload | 4 |
//! | nanoseconds since 1970 | 8 | | number of the entry | 8 |
//! | name of the stream | 16 | | checksum of length, number and payload | 8 |
//! | checksum of the above | 8 | | payload | |
//!
//! The server stores each number of a stream once, so a segment, which names its stream, can be sent again when nobody knows
//! any more whether it was.
//!
//! Entries are numbered without a break over all segments. Damage is therefore always noticed and always has
//! a size: a flipped byte breaks a checksum, a missing piece breaks the numbering, a missing end lacks the
//! trailer. Behind damage, reading goes on at the next frame whose checksum holds.
//!
//! A segment stands for itself: whatever list or file its images refer to is in it, too.

mod frame;
pub mod lock;
mod reader;
mod writer;

pub use frame::{Header, Item, PAYLOAD_MAX, Segment, closed_segment};
pub use reader::{Damage, ReadError, Reader, SegmentFile, first_number, header, segments};
pub use writer::{Numbering, SpoolError, SpoolLimits, SpoolWriter};

/// What a segment's file name ends with.
const SUFFIX: &str = "seg";
