//! The images that run, in a file beside the spool, for the agent that comes after this one.
//!
//! The file is one closed segment of a spool (see [`crate::spool`]) whose first number is that of the spool's
//! next entry when it was written: whatever the spool holds from there on has ended since, or was reported as running since.

use std::collections::{HashMap, HashSet};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use record::batch::Stream;
use record::entry::{Entry, Image, ImageKey, ObjectList, Place};

use crate::counters::Counters;
use crate::spool::{self, Item, Reader, Segment};
use crate::state;
use crate::table::Finished;

const NAME: &str = "running";
/// The file is never sent.
const STREAM: Stream = Stream([0; 16]);

/// Writes the file; it takes the old one's place only when it is whole.
pub fn write(dir: &Path, next_number: u64, running: &[Finished], now_ns: u64) -> io::Result<()> {
    let mut told = HashSet::new();
    let mut payloads = Vec::new();
    for Finished { image, lists, .. } in running {
        for list in lists.iter().filter(|list| told.insert(list.id)) {
            payloads.extend(minicbor::to_vec(Entry::Objects((**list).clone())));
        }
        payloads.extend(minicbor::to_vec(Entry::Image(Box::new(image.clone()))));
    }
    let new = dir.join(format!("{NAME}.new"));
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o640).open(&new)?;
    file.write_all(&spool::closed_segment(STREAM, next_number, &payloads, now_ns))?;
    fs::rename(new, dir.join(NAME))
}

/// Reads the file, less what the spool says has ended since. A damaged file says less, never something wrong, and is set
/// aside.
pub fn read(dir: &Path, counters: &Counters) -> Vec<(Image, Option<ObjectList>)> {
    let Some(bytes) = state::read(dir, NAME, counters).content() else { return Vec::new() };
    let mut segment = Segment::new(&bytes);
    let Some(number) = segment.next_number() else {
        state::set_aside(dir, NAME, "it has no header", counters);
        return Vec::new();
    };
    let images = running(&mut segment, Since::read(dir, number));
    if Segment::new(&bytes).any(|item| !matches!(item, Item::Entry(..))) {
        state::set_aside(dir, NAME, "entries in it are damaged or missing", counters);
    }
    images
}

fn running(segment: &mut Segment, mut since: Since) -> Vec<(Image, Option<ObjectList>)> {
    let (mut lists, mut images) = (HashMap::new(), Vec::new());
    for item in segment {
        let Item::Entry(_, payload) = item else { continue };
        match minicbor::decode(payload) {
            Ok(Entry::Objects(list)) => drop(lists.insert(list.id, list)),
            Ok(Entry::Image(mut image)) if !since.has_ended(&image) => {
                image.reported |= since.reported.remove(&image.key).is_some();
                let list = image.objects.and_then(|id| lists.get(&id).cloned());
                images.push((*image, list));
            }
            _ => {}
        }
    }
    images.extend(since.reported.into_values());
    images
}

/// What the spool says since a checkpoint.
#[derive(Default)]
struct Since {
    /// The images that have ended, by process number and start.
    ended: HashSet<(u32, u64)>,
    /// The images that were reported and have ended.
    over: HashSet<ImageKey>,
    /// The images that were reported and run.
    reported: HashMap<ImageKey, (Image, Option<ObjectList>)>,
}

impl Since {
    /// From an entry on.
    fn read(dir: &Path, number: u64) -> Since {
        let mut since = Since::default();
        let mut lists = HashMap::new();
        let Ok(reader) = Reader::open_from(dir, number) else { return since };
        for (entry_number, entry) in reader.flatten() {
            match entry {
                Entry::Objects(list) => drop(lists.insert(list.id, list)),
                Entry::Image(image) if entry_number >= number => since.note(&image, &lists),
                _ => {}
            }
        }
        since
    }

    fn note(&mut self, image: &Image, lists: &HashMap<u64, ObjectList>) {
        if image.running_at.is_some() {
            let list = image.objects.and_then(|id| lists.get(&id));
            let own = apart(image).into_iter().map(|image| (image.key, (image, list.cloned())));
            return self.reported.extend(own);
        }
        self.ended.insert((image.key.pid, image.start));
        self.ended.extend(image.ranks.iter().map(|rank| (rank.pid, rank.start)));
        for key in image.ended() {
            self.reported.remove(&key);
            self.over.insert(key);
        }
    }

    fn has_ended(&self, image: &Image) -> bool {
        self.over.contains(&image.key) || self.ended.contains(&(image.key.pid, image.start))
    }
}

/// The images of a report, each by itself.
fn apart(report: &Image) -> Vec<Image> {
    let one = |key, start, rank| Image {
        key,
        start,
        place: Place { rank, ..report.place.clone() },
        running_at: None,
        reported: true,
        count: 1,
        ranks: Vec::new(),
        ..report.clone()
    };
    if report.ranks.is_empty() {
        return vec![one(report.key, report.start, report.place.rank)];
    }
    report.ranks.iter().filter_map(|of| Some(one(of.key?, of.start, Some(of.rank)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::{Numbering, SpoolLimits, SpoolWriter};
    use crate::testing::{finished, image};
    use record::entry::{RankUse, Used};
    use std::time::Duration;

    fn spool(dir: &Path, counters: &Counters) -> SpoolWriter {
        let limits =
            SpoolLimits { max_bytes: 1 << 20, segment_bytes: 1 << 16, segment_age: Duration::from_secs(60) };
        let numbering = Numbering { stream: Stream([1; 16]), least: 1 };
        SpoolWriter::open(dir, limits, numbering, counters).unwrap()
    }

    fn entry(image: &Image) -> Vec<u8> {
        minicbor::to_vec(Entry::Image(Box::new(image.clone()))).unwrap()
    }

    /// A killed agent's last checkpoint is older than its last record: what it wrote since has ended.
    #[test]
    fn what_the_spool_has_since_is_not_told_twice() {
        let dir = tempfile::tempdir().unwrap();
        let counters = Counters::default();
        let mut spool = spool(dir.path(), &counters);
        spool.append(&[entry(&image(1, 10))], 0).unwrap();
        let running: Vec<Finished> = [1, 2, 3, 4].map(|pid| finished(image(pid, 10))).into();
        write(dir.path(), spool.next_number(), &running, 0).unwrap();
        let mut ranks = image(9, 90);
        let rank =
            RankUse { rank: 1, pid: 3, start: 10, end: None, used: Used::default(), count: 1, key: None };
        ranks.ranks.push(rank);
        spool.append(&[entry(&image(2, 10)), entry(&ranks)], 0).unwrap();
        drop(spool);
        let left: Vec<u32> = read(dir.path(), &counters).iter().map(|(image, _)| image.key.pid).collect();
        assert_eq!(
            left,
            [1, 4],
            "2 has its own record since, 3 one among ranks; 1 is another process of that number"
        );
        assert_eq!(counters.state_files_damaged.get(), 0);
        let whole = fs::read(dir.path().join(NAME)).unwrap();
        for (bytes, most) in [(&whole[..whole.len() - 30], 2), (&whole[..40], 0), (b"", 0), (b"garbage", 0)] {
            fs::write(dir.path().join(NAME), bytes).unwrap();
            let counters = Counters::default();
            assert!(read(dir.path(), &counters).len() <= most, "{} bytes", bytes.len());
            assert_eq!(counters.state_files_damaged.get(), 1, "{} bytes", bytes.len());
            assert!(!dir.path().join(NAME).exists());
        }
    }

    /// An image that was reported since the last checkpoint is known under the name of its report, or it would run for ever in the
    /// store.
    #[test]
    fn what_was_reported_since_the_checkpoint_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let counters = Counters::default();
        let mut spool = spool(dir.path(), &counters);
        let list = ObjectList { id: 5, objects: Vec::new() };
        write(dir.path(), spool.next_number(), &[finished(image(1, 10))], 0).unwrap();
        let report = |pid| Image { running_at: Some(20), objects: Some(5), ..image(pid, 10) };
        let rank = |rank, pid| {
            let key = Some(image(pid, 10).key);
            RankUse { rank, pid, start: 10, end: None, used: Used::default(), count: 1, key }
        };
        let ranks = Image { ranks: vec![rank(0, 4), rank(1, 5)], count: 2, ..report(4) };
        let over = Image { reported: true, ..image(3, 10) };
        let second = Image { ranks: vec![rank(1, 5)], ..image(5, 11) };
        let listed = minicbor::to_vec(Entry::Objects(list)).unwrap();
        let entries = [&report(1), &report(2), &report(3), &ranks, &over, &second].map(entry);
        spool.append(&[&[listed], &entries[..]].concat(), 0).unwrap();
        drop(spool);
        let mut left: Vec<_> = read(dir.path(), &counters)
            .iter()
            .map(|(image, list)| (image.key.pid, image.reported, image.place.rank, list.is_some()))
            .collect();
        left.sort_unstable();
        assert_eq!(
            left,
            [(1, true, None, false), (2, true, None, true), (4, true, Some(0), true)],
            "3 and the second rank have ended"
        );
    }
}
