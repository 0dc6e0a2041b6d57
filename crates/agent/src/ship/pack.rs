//! Takes the next entries from the spool, with all they refer to.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use record::batch::{Batch, Stream};
use record::entry::Entry;

use crate::spool::{self, Item, Segment, SegmentFile};

/// A batch has at most this many entries, and is closed when it has this many bytes.
pub const ENTRIES: usize = 5000;
const BYTES: usize = 2 << 20;

/// Entries that follow one another, and what they refer to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// The stream that their segment names.
    pub stream: Option<Stream>,
    pub first: u64,
    pub entries: Vec<Vec<u8>>,
    pub context: Vec<Vec<u8>>,
}

impl Packed {
    pub fn last(&self) -> u64 {
        self.first + (self.entries.len() as u64).saturating_sub(1)
    }

    /// The bytes of the batch, not compressed; of the stream `or`, if the segment names none.
    pub fn encode(&self, host: &str, or: Stream) -> Vec<u8> {
        let stream = self.stream.unwrap_or(or);
        let (entries, context) = (slices(&self.entries), slices(&self.context));
        Batch::new(host, stream, self.first, entries, context).to_bytes()
    }
}

fn slices(list: &[Vec<u8>]) -> Vec<&[u8]> {
    list.iter().map(Vec::as_slice).collect()
}

/// The segment that is written last, and its length.
pub fn last_segment(dir: &Path) -> io::Result<Option<(SegmentFile, u64)>> {
    let Some(last) = spool::segments(dir)?.pop() else { return Ok(None) };
    let bytes = match fs::metadata(&last.path) {
        Ok(meta) => meta.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(error),
    };
    Ok(Some((last, bytes)))
}

/// Segments all of whose entries have smaller numbers, the one that is written last excepted.
pub fn segments_before(dir: &Path, number: u64) -> Vec<SegmentFile> {
    let segments = spool::segments(dir).unwrap_or_default();
    let firsts: Vec<Option<u64>> =
        segments.iter().map(|segment| spool::first_number(&segment.path)).collect();
    // A segment ends where the next one begins.
    let is_before = |at: &usize| firsts.get(at + 1).copied().flatten().is_some_and(|next| next <= number);
    segments.iter().enumerate().filter(|(at, _)| is_before(at)).map(|(_, segment)| segment.clone()).collect()
}

/// The entries from number `from` on, at most `most` and as many as fit into one batch; `None` if there are none yet. Numbers that
/// are damaged or missing are passed over: a batch ends before them, and the next begins behind.
pub fn pack(dir: &Path, from: u64, most: usize) -> io::Result<Option<Packed>> {
    let segments = spool::segments(dir)?;
    let is_later =
        |segment: &SegmentFile| spool::first_number(&segment.path).is_some_and(|first| first <= from);
    let start = segments.iter().rposition(is_later).unwrap_or(0);
    for segment in &segments[start..] {
        let file = match File::open(&segment.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let bytes = fs::read(&segment.path)?;
        let packed = pack_segment(&bytes, from, most);
        if !packed.entries.is_empty() {
            // What the server has must be here after a crash: its numbers must not be given again.
            file.sync_data()?;
            return Ok(Some(packed));
        }
    }
    Ok(None)
}

fn pack_segment(bytes: &[u8], from: u64, most: usize) -> Packed {
    let segment = Segment::new(bytes);
    let mut packed = Packed { stream: segment.stream(), ..Packed::default() };
    let mut told = Told::default();
    let mut size = 0;
    for item in segment {
        let Item::Entry(number, payload) = item else { continue };
        if number < from {
            told.note(payload);
            continue;
        }
        let is_next = packed.entries.is_empty() || number == packed.last() + 1;
        if !is_next || packed.entries.len() == most || size >= BYTES {
            break;
        }
        if packed.entries.is_empty() {
            packed.first = number;
        }
        size += payload.len();
        told.add_references(payload, &mut packed.context);
        packed.entries.push(payload.to_vec());
    }
    packed
}

/// Lists and files that stood before the batch, until the batch refers to them.
#[derive(Default)]
struct Told<'a> {
    files: HashMap<u64, &'a [u8]>,
    lists: HashMap<u64, &'a [u8]>,
}

impl<'a> Told<'a> {
    fn note(&mut self, payload: &'a [u8]) {
        match minicbor::decode(payload) {
            Ok(Entry::File(file)) => drop(self.files.insert(file.id, payload)),
            Ok(Entry::Objects(list)) => drop(self.lists.insert(list.id, payload)),
            _ => {}
        }
    }

    /// Puts what an entry refers to into the context, once.
    fn add_references(&mut self, payload: &[u8], context: &mut Vec<Vec<u8>>) {
        match minicbor::decode(payload) {
            Ok(Entry::Image(image)) => {
                for list in [image.objects, image.late_objects].into_iter().flatten() {
                    if let Some(list) = self.lists.remove(&list) {
                        self.add_references(list, context);
                        context.push(list.to_vec());
                    }
                }
                self.add_file(image.exe_file, context);
            }
            Ok(Entry::Objects(list)) => {
                list.objects.iter().for_each(|object| self.add_file(object.file, context))
            }
            _ => {}
        }
    }

    fn add_file(&mut self, id: Option<u64>, context: &mut Vec<Vec<u8>>) {
        context.extend(id.and_then(|id| self.files.remove(&id)).map(<[u8]>::to_vec));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::closed_segment;
    use record::entry::{File as Content, Gap, GapReason, Image, Object, ObjectList};

    const STREAM: Stream = Stream([1; 16]);

    fn encode(entry: Entry) -> Vec<u8> {
        minicbor::to_vec(entry).unwrap()
    }

    fn file(id: u64) -> Vec<u8> {
        let path = format!("/lib/{id}").into_bytes().into();
        encode(Entry::File(Content {
            id,
            path,
            dev: 0,
            inode: id,
            size: 1,
            mtime: 1,
            uid: None,
            mode: None,
            hash: None,
            unhashed: None,
            build_id: None,
            signature: None,
            dynamic: None,
        }))
    }

    fn list(id: u64, file: u64) -> Vec<u8> {
        let path = format!("/lib/{file}").into_bytes().into();
        let objects =
            vec![Object { path, build_id: None, signature: None, file: Some(file), claimed: false }];
        encode(Entry::Objects(ObjectList { id, objects }))
    }

    fn image(objects: Option<u64>, exe_file: Option<u64>) -> Vec<u8> {
        encode(Entry::Image(Box::new(Image { objects, exe_file, ..crate::testing::image(1, 1) })))
    }

    fn gap() -> Vec<u8> {
        let reason = GapReason::EventsLost;
        encode(Entry::Gap(Gap { from: 1, to: 2, reason, forks: None, events: None, images: None }))
    }

    #[test]
    fn a_batch_stands_for_itself() {
        let dir = tempfile::tempdir().unwrap();
        let entries =
            [file(1), file(2), list(7, 1), image(Some(7), Some(2)), file(3), image(Some(7), Some(3)), gap()];
        fs::write(dir.path().join("0000000001.seg"), closed_segment(STREAM, 10, &entries, 1)).unwrap();
        for (from, first, context) in [
            (1, 10, &[][..]),
            (10, 10, &[]),
            (13, 13, &[file(1), list(7, 1), file(2)]),
            (15, 15, &[file(1), list(7, 1), file(3)]),
            (16, 16, &[]),
        ] {
            let packed = pack(dir.path(), from, ENTRIES).unwrap().unwrap();
            assert_eq!((packed.first, packed.last()), (first, 16), "from {from}");
            assert_eq!(packed.entries, entries[first as usize - 10..], "from {from}");
            assert_eq!(packed.context, context, "from {from}");
        }
        assert_eq!(pack(dir.path(), 17, ENTRIES).unwrap(), None);
    }

    /// The server knows by the name which numbers it has.
    #[test]
    fn a_batch_is_of_the_stream_that_its_segment_names() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("0000000001.seg"), closed_segment(STREAM, 1, &[gap()], 1)).unwrap();
        let packed = pack(dir.path(), 1, ENTRIES).unwrap().unwrap();
        let stream_of = |packed: &Packed| {
            let bytes = packed.encode("host", Stream([2; 16]));
            minicbor::decode::<Batch>(&bytes).unwrap().stream
        };
        assert_eq!(stream_of(&packed), STREAM);
        assert_eq!(stream_of(&Packed { stream: None, ..packed }), Stream([2; 16]), "its header is damaged");
    }

    #[test]
    fn goes_on_behind_damage_and_from_segment_to_segment() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = closed_segment(STREAM, 1, &[gap(), gap(), gap()], 1);
        // The second entry.
        let at = 48 + (24 + gap().len()) + 24;
        first[at] ^= 1;
        fs::write(dir.path().join("0000000001.seg"), &first).unwrap();
        fs::write(dir.path().join("0000000002.seg"), closed_segment(STREAM, 4, &[gap(), gap()], 1)).unwrap();
        let mut next = 1;
        let mut batches = Vec::new();
        while let Some(packed) = pack(dir.path(), next, ENTRIES).unwrap() {
            batches.push((packed.first, packed.last()));
            next = packed.last() + 1;
        }
        assert_eq!(batches, [(1, 1), (3, 3), (4, 5)]);
        let before = |number| segments_before(dir.path(), number).len();
        assert_eq!([3, 4, 9].map(before), [0, 1, 1], "the last one is being written");
    }
}
