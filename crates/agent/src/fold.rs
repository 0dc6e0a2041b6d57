//! Folds images that are alike into one row with a count.
//!
//! * Short runs of the system's own programs: a thousand `sed` of a configure script.
//! * Short forked copies of one image: the subshells of a script.
//! * Equal ranks of a parallel program, with the numbers of each rank kept.
//!
//! A user's own program always keeps its own row. A row is written when nothing was added to it for a while,
//! or when it has become old. An image that was reported while it ran keeps its name in whatever row it is, so that its report
//! is known to be over.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use record::bytes::Bytes;
use record::entry::{EndedBy, Image, ImageKey, Place, RankUse, Used};

use crate::counters::Counters;
use crate::table::Finished;

/// What is folded, and for how long rows stay open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoldRules {
    /// Where the system's own programs are.
    pub system_paths: Vec<String>,
    /// Programs whose arguments say what really runs: folded only with equal arguments.
    pub interpreters: Vec<String>,
    /// Longer runs keep their own row.
    pub short_ns: u64,
    pub idle_ns: u64,
    pub age_ns: u64,
}

impl FoldRules {
    fn is_system(&self, exe: &[u8]) -> bool {
        self.system_paths.iter().any(|path| exe.starts_with(path.as_bytes()))
    }

    /// `python3.11` is `python`: a version behind the name does not make another interpreter.
    fn is_interpreter(&self, exe: &[u8]) -> bool {
        let name = exe.rsplit(|b| *b == b'/').next().unwrap_or(exe);
        let end =
            name.iter().rposition(|b| !b.is_ascii_digit() && !b"._-".contains(b)).map_or(0, |at| at + 1);
        self.interpreters.iter().any(|known| known.as_bytes() == &name[..end])
    }
}

/// What images of one row have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Alike {
    uid: Option<u32>,
    exe: Option<Bytes>,
    exe_file: Option<u64>,
    argv: Option<Vec<Bytes>>,
    modules: Option<Vec<Bytes>>,
    objects: Option<u64>,
    late_objects: Option<u64>,
    place: Place,
    forked_from: Option<ImageKey>,
    ended_by: EndedBy,
    exit_code: Option<u32>,
    signal: Option<u32>,
    source: u8,
    /// Further runs of a user's program in the same rank are not alike.
    occurrence: u32,
}

struct Row {
    finished: Finished,
    opened: u64,
    touched: u64,
}

/// Open rows.
pub struct Folder {
    rules: FoldRules,
    rows: HashMap<Alike, Row>,
    counters: Arc<Counters>,
}

impl Folder {
    pub fn new(rules: FoldRules, counters: Arc<Counters>) -> Folder {
        Folder { rules, rows: HashMap::new(), counters }
    }

    pub fn set_rules(&mut self, rules: FoldRules) {
        self.rules = rules;
    }

    /// How many images are in open rows.
    pub fn images(&self) -> u64 {
        self.rows.values().map(|row| row.finished.image.count).sum()
    }

    /// Folds images that run, as they are now: none of them waits for others.
    pub fn together(&self, running: Vec<Finished>) -> Vec<Finished> {
        if running.is_empty() {
            return running;
        }
        let mut folder = Folder::new(self.rules.clone(), Arc::default());
        let mut rows: Vec<Finished> = running.into_iter().filter_map(|image| folder.add(image, 0)).collect();
        rows.extend(folder.take_all());
        rows
    }

    /// Takes an image; gives it back if it is a row of its own.
    pub fn add(&mut self, finished: Finished, now: u64) -> Option<Finished> {
        let Some(mut alike) = self.alike(&finished.image) else { return Some(finished) };
        let keeps_its_name = !self.is_foldable_program(&finished.image) || is_reported(&finished.image);
        loop {
            match self.rows.entry(alike.clone()) {
                Entry::Vacant(place) => {
                    let mut finished = finished;
                    finished.image.ranks = rank_of(&finished.image).into_iter().collect();
                    place.insert(Row { finished, opened: now, touched: now });
                    return None;
                }
                Entry::Occupied(mut row) => {
                    if keeps_its_name && has_rank(&row.get().finished.image, finished.image.place.rank) {
                        alike.occurrence += 1;
                        continue;
                    }
                    merge(&mut row.get_mut().finished.image, &finished.image);
                    row.get_mut().touched = now;
                    self.counters.images_folded.one();
                    return None;
                }
            }
        }
    }

    /// The rows that are due.
    pub fn due(&mut self, now: u64) -> Vec<Finished> {
        let (idle, age) = (self.rules.idle_ns, self.rules.age_ns);
        let is_due =
            |row: &Row| now.saturating_sub(row.touched) >= idle || now.saturating_sub(row.opened) >= age;
        self.rows.extract_if(|_, row| is_due(row)).map(|(_, row)| row.finished).collect()
    }

    /// All rows.
    pub fn take_all(&mut self) -> Vec<Finished> {
        self.rows.drain().map(|(_, row)| row.finished).collect()
    }

    /// What the image has in common with those it may be folded with.
    fn alike(&self, image: &Image) -> Option<Alike> {
        let is_fork = image.key.exec == 0;
        // What was reported runs long enough, however short a site calls it.
        let is_short = !is_reported(image)
            && image.end.is_some_and(|end| end.saturating_sub(image.start) < self.rules.short_ns);
        let is_rank = image.place.rank.is_some() && image.place.job.is_some() && !is_fork;
        let is_system = self.is_foldable_program(image);
        if !(is_rank || is_short && (is_fork || is_system)) {
            return None;
        }
        let exe = image.exe.as_deref().unwrap_or(&[]);
        let keeps_arguments = is_rank && !is_system || is_system && self.rules.is_interpreter(exe);
        Some(Alike {
            uid: image.uid,
            exe: image.exe.clone(),
            exe_file: image.exe_file,
            argv: if keeps_arguments { image.argv.clone() } else { None },
            modules: image.modules.clone(),
            objects: image.objects,
            late_objects: image.late_objects,
            place: Place { rank: None, ..image.place.clone() },
            forked_from: image.forked_from,
            ended_by: image.ended_by,
            exit_code: image.exit_code,
            signal: image.signal,
            source: image.source,
            occurrence: 0,
        })
    }

    fn is_foldable_program(&self, image: &Image) -> bool {
        image.key.exec == 0 || image.exe.as_deref().is_some_and(|exe| self.rules.is_system(exe))
    }
}

/// Whether it has a name that must not be lost.
fn is_reported(image: &Image) -> bool {
    image.reported || image.running_at.is_some()
}

fn rank_of(image: &Image) -> Option<RankUse> {
    let rank = image.place.rank?;
    let (pid, start, end, used, count) = (image.key.pid, image.start, image.end, image.used, image.count);
    let key = Some(image.key).filter(|_| is_reported(image));
    Some(RankUse { rank, pid, start, end, used, count, key })
}

fn has_rank(row: &Image, rank: Option<u32>) -> bool {
    rank.is_some_and(|rank| row.ranks.iter().any(|known| known.rank == rank))
}

fn merge(row: &mut Image, image: &Image) {
    if let Some(new) = rank_of(image) {
        match row.ranks.iter_mut().find(|known| known.rank == new.rank) {
            Some(known) => {
                known.count += new.count;
                known.start = known.start.min(new.start);
                known.end = known.end.max(new.end);
                known.used = sum(known.used, new.used);
            }
            None => row.ranks.push(new),
        }
        row.ranks.sort_by_key(|rank| rank.rank);
        row.place.rank = row.ranks.first().map(|rank| rank.rank);
    }
    row.count += image.count;
    row.start = row.start.min(image.start);
    row.end = row.end.max(image.end);
    row.used = sum(row.used, image.used);
}

/// A sum in which one part is unknown is unknown. What images claim may be much, and the store's numbers end here.
fn sum(a: Used, b: Used) -> Used {
    const MOST: u64 = i64::MAX as u64;
    let add = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?).min(MOST));
    Used {
        user_ns: add(a.user_ns, b.user_ns),
        system_ns: add(a.system_ns, b.system_ns),
        max_rss_bytes: a.max_rss_bytes.zip(b.max_rss_bytes).map(|(a, b)| a.max(b)),
        read_bytes: add(a.read_bytes, b.read_bytes),
        write_bytes: add(a.write_bytes, b.write_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn rules() -> FoldRules {
        FoldRules {
            system_paths: vec!["/usr/".into()],
            interpreters: vec!["python".into()],
            short_ns: 100,
            idle_ns: 10,
            age_ns: 50,
        }
    }

    fn image(exe: &str, args: &[&str], rank: Option<u32>, lasted: u64) -> Finished {
        let mut image = testing::image(1, 1000);
        image.end = Some(1000 + lasted);
        image.place = Place { job: Some("1".into()), step: Some("0".into()), rank, ..Place::default() };
        image.exe = Some(Bytes::from(exe.as_bytes()));
        image.argv = Some(args.iter().map(|arg| Bytes::from(arg.as_bytes())).collect());
        image.used = Used { user_ns: Some(5), max_rss_bytes: Some(9), ..Used::default() };
        testing::finished(image)
    }

    /// Rows as (exe, count, ranks) after folding everything.
    fn fold(images: Vec<Finished>) -> Vec<(String, u64, usize)> {
        let mut folder = Folder::new(rules(), Arc::default());
        let mut rows: Vec<Finished> = images.into_iter().filter_map(|image| folder.add(image, 0)).collect();
        rows.extend(folder.take_all());
        let mut rows: Vec<_> = rows
            .iter()
            .map(|row| (row.image.exe.as_ref().unwrap().to_string(), row.image.count, row.image.ranks.len()))
            .collect();
        rows.sort();
        rows
    }

    fn row(exe: &str, count: u64, ranks: usize) -> (String, u64, usize) {
        (exe.into(), count, ranks)
    }

    #[test]
    fn what_folds_and_what_does_not() {
        let sed = || image("/usr/bin/sed", &["sed", "a"], None, 5);
        let python = |script: &str| image("/usr/bin/python3.11", &["python", script], None, 5);
        let own = || image("/home/u/a.out", &["a.out"], None, 5);
        for (images, expected) in [
            (vec![sed(), image("/usr/bin/sed", &["sed", "b"], None, 5)], vec![row("/usr/bin/sed", 2, 0)]),
            (
                vec![sed(), image("/usr/bin/sed", &["sed"], None, 500)],
                vec![row("/usr/bin/sed", 1, 0), row("/usr/bin/sed", 1, 0)],
            ),
            (vec![own(), own()], vec![row("/home/u/a.out", 1, 0), row("/home/u/a.out", 1, 0)]),
            (
                vec![python("a.py"), python("a.py"), python("b.py")],
                vec![row("/usr/bin/python3.11", 1, 0), row("/usr/bin/python3.11", 2, 0)],
            ),
        ] {
            assert_eq!(fold(images), expected);
        }
    }

    #[test]
    fn ranks_keep_their_numbers_and_users_runs_their_rows() {
        let own = |rank| image("/home/u/mpi", &["mpi"], Some(rank), 5000);
        let system = |rank| image("/usr/bin/date", &["date"], Some(rank), 5);
        assert_eq!(fold((0..4).map(own).collect()), [row("/home/u/mpi", 4, 4)]);
        let twice = (0..4).chain(0..4).map(own).collect();
        assert_eq!(fold(twice), [row("/home/u/mpi", 4, 4), row("/home/u/mpi", 4, 4)]);
        let loops = (0..4).chain(0..4).map(system).collect();
        assert_eq!(fold(loops), [row("/usr/bin/date", 8, 4)]);
    }

    #[test]
    fn an_unknown_part_makes_the_sum_unknown() {
        let mut folder = Folder::new(rules(), Arc::default());
        let mut unknown = image("/usr/bin/sed", &["sed"], None, 5);
        unknown.image.used.user_ns = None;
        folder.add(image("/usr/bin/sed", &["sed"], None, 5), 0);
        folder.add(unknown, 0);
        let used = folder.take_all()[0].image.used;
        assert_eq!((used.user_ns, used.max_rss_bytes), (None, Some(9)));
    }

    #[test]
    fn rows_are_due_when_idle_or_old() {
        let mut folder = Folder::new(rules(), Arc::default());
        for now in [0, 9, 18, 27, 36, 45] {
            folder.add(image("/usr/bin/sed", &["sed"], None, 5), now);
            assert!(folder.due(now).is_empty());
        }
        assert_eq!(folder.images(), 6);
        assert_eq!(folder.due(50).len(), 1);
        folder.add(image("/usr/bin/sed", &["sed"], None, 5), 60);
        assert_eq!(folder.due(70).len(), 1);
        assert_eq!(folder.images(), 0);
    }

    /// Two images of one rank that were reported are two rows, and so is what the rank has run besides: each end is told by its name.
    #[test]
    fn reported_images_keep_their_names_in_a_row() {
        let reported = |rank, pid| {
            let mut finished = image("/usr/bin/date", &["date"], Some(rank), 5);
            (finished.image.key.pid, finished.image.reported) = (pid, true);
            finished
        };
        let mut folder = Folder::new(rules(), Arc::default());
        for finished in
            [reported(0, 1), reported(1, 2), reported(0, 3), image("/usr/bin/date", &["date"], Some(1), 5)]
        {
            assert!(folder.add(finished, 0).is_none());
        }
        let rows = folder.take_all();
        let mut ended: Vec<Vec<u32>> =
            rows.iter().map(|row| row.image.ended().map(|key| key.pid).collect()).collect();
        ended.sort();
        assert_eq!(ended, [vec![1, 2], vec![3]]);
        assert_eq!(rows.iter().map(|row| row.image.count).sum::<u64>(), 4);
        // Without a rank it is a row of its own, however short.
        let mut alone = image("/usr/bin/sed", &["sed"], None, 5);
        alone.image.reported = true;
        assert!(folder.add(alone, 0).is_some());
    }

    #[test]
    fn ranks_that_run_are_one_report() {
        let folder = Folder::new(rules(), Arc::default());
        let running = |rank| {
            let mut finished = image("/home/u/mpi", &["mpi"], Some(rank), 0);
            (finished.image.end, finished.image.running_at) = (None, Some(2000));
            finished.image.key.pid = 100 + rank;
            finished
        };
        let reports = folder.together((0..4).map(running).collect());
        assert_eq!((reports.len(), reports[0].image.count), (1, 4));
        let pids: Vec<u32> = reports[0].image.running().map(|key| key.pid).collect();
        assert_eq!(pids, [100, 101, 102, 103]);
        assert_eq!(folder.images(), 0, "nothing waits");
    }
}
