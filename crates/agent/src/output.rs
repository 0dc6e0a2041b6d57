//! Writes the spool, on a thread of its own: a disk that stalls must not cost kernel events.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use record::entry::{Entry, File, Gap, GapReason, Health, Image, ObjectList};
use record::reading::Reading;

use crate::clock::wall_ns;
use crate::counters::Counters;
use crate::files::Files;
use crate::progress::ProgressFile;
use crate::say::say;
use crate::shares::{Held, Shares};
use crate::ship;
use crate::spool::{PAYLOAD_MAX, SpoolWriter};
use crate::table::Finished;
use crate::{checkpoint, privacy};

/// Rows that may wait for the disk; about 20 MB at most.
const QUEUE: usize = 8192;
/// And so much besides rows: files, gaps, health, readings.
const SPARE: usize = 4096;
/// How often the disk is asked to keep what was written.
const SYNC: Duration = Duration::from_secs(5);

/// How often is looked for segments that were sent, while a user has no part left.
const RECOUNT: Duration = Duration::from_secs(1);
/// Users whose names are remembered.
const USERS_KEPT: usize = 65_536;

enum Work {
    /// A row and its place in the queue.
    Row(Box<Finished>, #[expect(dead_code, reason = "given back when it is dropped")] Held),
    File(Box<File>),
    /// Gaps wait beside the queue.
    Gaps,
    Health(Box<Health>),
    Reading(Box<Reading>),
    Running(Vec<Finished>),
    Stop,
}

/// The queue to the thread that writes.
#[derive(Clone)]
pub struct Output {
    queue: SyncSender<Work>,
    /// What must not be dropped although the queue is full.
    gaps: Arc<Mutex<Vec<Gap>>>,
    /// Rows that may wait; a user has their share of them.
    rows: Shares,
    /// An image that was reported has ended, and its record is lost.
    has_lost_ends: Arc<AtomicBool>,
    /// The site's rules, packed: nothing is written that has not passed them.
    rules: Arc<Mutex<Arc<Vec<u8>>>>,
    counters: Arc<Counters>,
}

/// The thread that writes; it ends after [`Output::stop`].
pub struct Writing {
    thread: JoinHandle<()>,
}

impl Writing {
    pub fn wait(self) {
        let _ = self.thread.join();
    }
}

/// The queue's other end, before the thread exists.
pub struct Queue(Receiver<Work>);

impl Output {
    /// The queue alone; [`Output::start`] gives it a thread.
    pub fn new(counters: Arc<Counters>) -> (Output, Queue) {
        let (queue, work) = sync_channel(QUEUE + SPARE);
        (
            Output {
                queue,
                gaps: Arc::default(),
                rows: Shares::new(QUEUE),
                has_lost_ends: Arc::default(),
                rules: Arc::default(),
                counters,
            },
            Queue(work),
        )
    }

    /// Starts the thread.
    pub fn start(
        &self,
        queue: Queue,
        dir: PathBuf,
        spool: SpoolWriter,
        files: Files,
        progress: ProgressFile,
        ship: Arc<ship::Shared>,
    ) -> io::Result<Writing> {
        let writer = Writer {
            dir,
            spool,
            files,
            progress,
            ship,
            gaps: self.gaps.clone(),
            has_lost_ends: self.has_lost_ends.clone(),
            rules: self.rules.clone(),
            counters: self.counters.clone(),
            told: HashSet::new(),
            users: HashMap::new(),
            refused: None,
            put_away: 0,
            parts: Parts::default(),
            recounted: Instant::now(),
        };
        let thread = thread::Builder::new()
            .name("spool".into())
            .stack_size(512 * 1024)
            .spawn(move || writer.run(&queue.0))?;
        Ok(Writing { thread })
    }

    /// Takes new rules.
    pub fn set_rules(&self, rules: Arc<Vec<u8>>) {
        *self.rules.lock().unwrap_or_else(PoisonError::into_inner) = rules;
    }

    /// A row of images.
    pub fn row(&self, finished: Finished) {
        let (count, is_report) = (finished.image.count, finished.image.running_at.is_some());
        let is_end = finished.image.ended().next().is_some();
        let place = self.rows.hold(finished.user, 1);
        let is_sent = |place| self.queue.try_send(Work::Row(Box::new(finished), place)).is_ok();
        if place.is_some_and(is_sent) {
            return;
        }
        if is_report {
            self.counters.reports_dropped.add(count);
        } else {
            self.counters.images_dropped_queue.add(count);
        }
        if is_end {
            self.has_lost_ends.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the record of an image that was reported as running was lost.
    pub fn has_lost_ends(&self) -> bool {
        self.has_lost_ends.load(Ordering::Relaxed)
    }

    /// What was lost so far is told.
    pub fn forget_lost_ends(&self) {
        self.has_lost_ends.store(false, Ordering::Relaxed);
    }

    /// A file whose content is now known.
    pub fn file(&self, file: File) {
        let _ = self.queue.try_send(Work::File(Box::new(file)));
    }

    /// A gap; it waits for a disk that stalls, and the caller does not.
    pub fn gap(&self, gap: Gap) {
        self.gaps.lock().unwrap_or_else(PoisonError::into_inner).push(gap);
        let _ = self.queue.try_send(Work::Gaps);
    }

    /// A reading; while the disk stalls it is left out, and counted.
    pub fn reading(&self, reading: Reading) {
        if self.queue.try_send(Work::Reading(Box::new(reading))).is_err() {
            self.counters.readings_dropped.one();
        }
    }

    pub fn health(&self, health: Health) {
        let _ = self.queue.try_send(Work::Health(Box::new(health)));
    }

    /// The images that run; left out while the disk stalls.
    pub fn running(&self, running: Vec<Finished>) {
        let _ = self.queue.try_send(Work::Running(running));
    }

    /// The images that run when the agent stops, for the next one.
    pub fn last_running(&self, running: Vec<Finished>) {
        let _ = self.queue.send(Work::Running(running));
    }

    /// Everything before is written, then the thread ends.
    pub fn stop(&self) {
        let _ = self.queue.send(Work::Stop);
    }
}

struct Writer {
    dir: PathBuf,
    spool: SpoolWriter,
    files: Files,
    progress: ProgressFile,
    ship: Arc<ship::Shared>,
    gaps: Arc<Mutex<Vec<Gap>>>,
    has_lost_ends: Arc<AtomicBool>,
    rules: Arc<Mutex<Arc<Vec<u8>>>>,
    counters: Arc<Counters>,
    /// Lists and files that the current segment knows.
    told: HashSet<u64>,
    users: HashMap<u32, Option<String>>,
    /// Since when, and how many images, the spool has refused.
    refused: Option<(u64, u64)>,
    /// Images in the spool, or in a gap there.
    put_away: u64,
    parts: Parts,
    recounted: Instant,
}

/// What each user's rows take of the spool, about. When segments are sent, all parts shrink alike.
#[derive(Default)]
struct Parts {
    of: HashMap<u32, u64>,
    all: u64,
}

impl Parts {
    fn take(&mut self, user: u32, bytes: u64) {
        *self.of.entry(user).or_default() += bytes;
        self.all += bytes;
    }

    /// Whether a user may have so much more of a spool that holds `held` of `max` bytes: as much as is still free of three
    /// quarters, as with [`Shares`], and a little in any case.
    fn may_take(&mut self, user: u32, bytes: u64, held: u64, max: u64) -> bool {
        self.shrink(held);
        let wanted = self.of.get(&user).copied().unwrap_or(0).saturating_add(bytes);
        let free = (max - max / 4).saturating_sub(held.saturating_add(bytes));
        wanted <= free || wanted <= max / 256
    }

    fn shrink(&mut self, held: u64) {
        if self.all > held {
            let left = held as f64 / self.all as f64;
            self.of.values_mut().for_each(|bytes| *bytes = (*bytes as f64 * left) as u64);
            self.of.retain(|_, bytes| *bytes > 0);
            self.all = self.of.values().sum();
        }
    }
}

impl Writer {
    fn run(mut self, queue: &Receiver<Work>) {
        let mut synced = Instant::now();
        loop {
            match queue.recv_timeout(SYNC) {
                Ok(Work::Row(finished, _)) => self.row(*finished),
                Ok(Work::File(file)) if self.told.contains(&file.id) => {
                    let _ = self.write_one(Entry::File(*file));
                }
                Ok(Work::File(_)) => {}
                Ok(Work::Gaps) => {}
                Ok(Work::Health(health)) => self.health(*health),
                Ok(Work::Reading(reading)) => self.reading(*reading),
                Ok(Work::Running(mut running)) => {
                    running.iter_mut().for_each(|finished| self.redact(finished));
                    let next = self.spool.next_number();
                    if checkpoint::write(&self.dir, next, &running, wall_ns()).is_ok() {
                        self.ship.needed_from.store(next, Ordering::Relaxed);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Work::Stop) | Err(RecvTimeoutError::Disconnected) => {
                    self.write_gaps();
                    self.spool.close_segment();
                    return;
                }
            }
            self.write_gaps();
            if synced.elapsed() >= SYNC {
                let _ = self.spool.sync();
                synced = Instant::now();
            }
        }
    }

    fn row(&mut self, mut finished: Finished) {
        self.redact(&mut finished);
        finished.image.user = finished.image.uid.and_then(|uid| self.user(uid));
        self.begin();
        if !self.has_part(finished.user, self.content_bytes(&finished)) {
            self.counters.images_without_content.add(finished.image.count);
            leave_out_content(&mut finished);
        }
        let user = finished.user;
        let mut new = Vec::new();
        let mut payloads = Vec::new();
        let files = finished.image.exe_file.into_iter().chain(finished.lists.iter().flat_map(file_ids));
        for id in files {
            if !self.told.contains(&id)
                && !new.contains(&id)
                && let Some(file) = self.files.get(id)
            {
                new.push(id);
                payloads.extend(encode(Entry::File(file)));
            }
        }
        for list in &finished.lists {
            if self.told.contains(&list.id) || new.contains(&list.id) {
                continue;
            }
            match encode(Entry::Objects((**list).clone())).filter(|payload| payload.len() <= PAYLOAD_MAX) {
                Some(payload) => {
                    new.push(list.id);
                    payloads.push(payload);
                }
                // Nobody hides a program by what it maps.
                None => leave_out(&mut finished.image, list),
            }
        }
        let count = finished.image.count;
        let is_report = finished.image.running_at.is_some();
        let is_end = finished.image.ended().next().is_some();
        payloads.extend(encode(Entry::Image(Box::new(finished.image))));
        if self.append(&payloads) {
            self.told.extend(new);
            self.parts.take(user, payloads.iter().map(|payload| payload.len() as u64).sum());
            if is_report {
                self.counters.reports_spooled.add(count);
                return;
            }
            self.counters.rows_spooled.one();
            self.counters.images_spooled.add(count);
            self.put_away += count;
        } else if is_report {
            // It will be told when it has ended.
            self.counters.reports_dropped.add(count);
            return;
        } else {
            if is_end {
                self.has_lost_ends.store(true, Ordering::Relaxed);
            }
            if self.refused.is_none() {
                say("cannot write to the spool: records are dropped and counted until it has room again");
            }
            self.counters.images_dropped_spool.add(count);
            let (_, images) = self.refused.get_or_insert((wall_ns(), 0));
            *images += count;
        }
        self.progress.write_put_away(self.put_away);
    }

    /// Whether a user may write so much more: whoever runs programs without end does not fill the spool for all.
    fn has_part(&mut self, user: u32, bytes: u64) -> bool {
        let max = self.spool.max_bytes();
        if self.parts.may_take(user, bytes, self.spool.bytes(), max) {
            return true;
        }
        if self.recounted.elapsed() < RECOUNT {
            return false;
        }
        // Segments may have been sent meanwhile.
        self.recounted = Instant::now();
        self.spool.recount();
        self.parts.may_take(user, bytes, self.spool.bytes(), max)
    }

    /// What a row can be written without, about.
    fn content_bytes(&self, finished: &Finished) -> u64 {
        let Image { argv, env, modules, module_files, cwd, .. } = &finished.image;
        let strings = [argv, env, modules, module_files].into_iter().flatten().flatten().chain(cwd);
        let lists = finished.lists.iter().filter(|list| !self.told.contains(&list.id));
        let objects = lists.flat_map(|list| &list.objects).map(|object| object.path.len() as u64 + 64);
        strings.map(|string| string.len() as u64).sum::<u64>() + objects.sum::<u64>()
    }

    fn redact(&self, finished: &mut Finished) {
        let rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner).clone();
        privacy::redact_record(&mut finished.image, &rules);
    }

    fn write_gaps(&mut self) {
        let gaps = std::mem::take(&mut *self.gaps.lock().unwrap_or_else(PoisonError::into_inner));
        let refused: Vec<Gap> =
            gaps.into_iter().filter(|gap| !self.write_one(Entry::Gap(gap.clone()))).collect();
        self.gaps.lock().unwrap_or_else(PoisonError::into_inner).extend(refused);
    }

    fn reading(&mut self, mut reading: Reading) {
        for job in &mut reading.jobs {
            job.user = job.uid.and_then(|uid| self.user(uid));
        }
        if self.write_one(Entry::Reading(Box::new(reading))) {
            self.counters.readings_spooled.one();
        } else {
            self.counters.readings_dropped.one();
        }
    }

    /// Rows before this one have been counted meanwhile.
    fn health(&mut self, mut health: Health) {
        let now: HashMap<String, u64> = self.counters.snapshot().into_iter().collect();
        for (name, value) in &mut health.counters {
            *value = now.get(name).copied().unwrap_or(*value);
        }
        let _ = self.write_one(Entry::Health(health));
    }

    fn write_one(&mut self, entry: Entry) -> bool {
        self.begin();
        let payloads: Vec<_> = encode(entry).into_iter().collect();
        self.append(&payloads)
    }

    /// A new segment knows nothing yet.
    fn begin(&mut self) {
        if self.spool.begins_segment(Instant::now()) {
            self.told.clear();
        }
    }

    fn append(&mut self, payloads: &[Vec<u8>]) -> bool {
        let now = wall_ns();
        if let Some((from, images)) = self.refused {
            let reason = GapReason::SpoolFull;
            let gap = Gap { from, to: now, reason, forks: None, events: None, images: Some(images) };
            let gap: Vec<_> = encode(Entry::Gap(gap)).into_iter().collect();
            if self.spool.append(&gap, now).is_err() {
                return false;
            }
            self.put_away += images;
            self.refused = None;
        }
        self.spool.append(payloads, now).is_ok()
    }

    /// A user's name. Asking may take long where a directory service is down, so each is asked for once.
    fn user(&mut self, uid: u32) -> Option<String> {
        if self.users.len() >= USERS_KEPT {
            self.users.clear();
        }
        let ask = || nix::unistd::User::from_uid(uid.into()).ok().flatten().map(|user| user.name);
        self.users.entry(uid).or_insert_with(ask).clone()
    }
}

/// Only what the kernel told of a program is kept.
fn leave_out_content(finished: &mut Finished) {
    let image = &mut finished.image;
    (image.argv, image.env, image.cwd) = (None, None, None);
    (image.modules, image.module_files) = (None, None);
    (image.objects, image.late_objects) = (None, None);
    finished.lists.clear();
}

/// A list that is too long to be written; its objects are missing.
fn leave_out(image: &mut Image, list: &ObjectList) {
    let is_other = |id: &u64| *id != list.id;
    image.objects = image.objects.filter(is_other);
    image.late_objects = image.late_objects.filter(is_other);
    image.objects_cut = image.objects_cut.saturating_add(list.objects.len() as u64);
}

fn file_ids(list: &Arc<ObjectList>) -> impl Iterator<Item = u64> {
    list.objects.iter().filter_map(|object| object.file)
}

/// Encoding into memory does not fail.
fn encode(entry: Entry) -> Option<Vec<u8>> {
    minicbor::to_vec(entry).ok()
}

#[cfg(test)]
mod tests {
    use record::batch::Stream;
    use record::entry::{Image, Object};
    use sample::Proc;

    use super::*;
    use crate::files::HashLimits;
    use crate::spool::{Numbering, Reader, SpoolLimits};
    use crate::testing;

    /// What is in the spool after these rows.
    fn written(max_bytes: u64, rows: impl Iterator<Item = Finished>) -> (Vec<Entry>, Arc<Counters>) {
        let dir = tempfile::tempdir().unwrap();
        let counters = Arc::new(Counters::default());
        let (output, queue) = Output::new(counters.clone());
        let limits = SpoolLimits { max_bytes, segment_bytes: 1 << 20, segment_age: Duration::from_secs(60) };
        let numbering = Numbering { stream: Stream([1; 16]), least: 1 };
        let spool = SpoolWriter::open(dir.path(), limits, numbering, &counters).unwrap();
        let hashes = HashLimits { max_bytes: 1, bytes_per_second: 1 };
        let files = Files::start(Proc::default(), hashes, counters.clone(), |_| {}).unwrap();
        let (progress, _) = ProgressFile::open(dir.path(), &counters).unwrap();
        let path = dir.path().to_owned();
        output.set_rules(Arc::new(record::rules::RuleSet::default().pack().unwrap()));
        let writing = output.start(queue, path, spool, files, progress, Arc::default()).unwrap();
        rows.for_each(|row| output.row(row));
        output.stop();
        writing.wait();
        let entries = Reader::open_from(dir.path(), 1).unwrap().flatten().map(|(_, entry)| entry).collect();
        (entries, counters)
    }

    #[test]
    fn a_list_that_is_too_long_does_not_hide_its_program() {
        let object = Object {
            path: vec![b'x'; 4000].into(),
            build_id: None,
            signature: None,
            file: None,
            claimed: false,
        };
        let mut finished = testing::finished(testing::image(1, 1));
        finished.image.objects = Some(7);
        finished.lists = vec![Arc::new(ObjectList { id: 7, objects: vec![object; 1100] })];
        let rows = [finished, testing::finished(testing::image(2, 2))];
        let (entries, counters) = written(1 << 26, rows.into_iter());
        let [Entry::Image(first), Entry::Image(second)] = &entries[..] else {
            panic!("{} entries", entries.len())
        };
        assert_eq!((first.objects, first.objects_cut), (None, 1100));
        assert_eq!((second.key.pid, counters.images_dropped_spool.get()), (2, 0));
    }

    /// Arguments that are never the same, as fast as they can be written, and then another user's program.
    #[test]
    fn a_user_does_not_fill_the_spool_for_others() {
        const ROWS: u32 = 400;
        let row = |pid, user| {
            let mut finished = testing::finished(testing::image(pid, pid.into()));
            finished.image.argv = Some(vec![vec![b'x'; 10_000].into()]);
            Finished { user, ..finished }
        };
        let rows = (1..=ROWS).map(|pid| row(pid, 7)).chain([row(ROWS + 1, 8)]);
        let (entries, counters) = written(2 << 20, rows);
        assert_eq!(entries.len() as u32, ROWS + 1, "nobody's program is missing");
        let last = entries.last().unwrap();
        assert!(matches!(last, Entry::Image(image) if image.argv.is_some()), "{last:?}");
        assert!(counters.images_without_content.get() > 0);
        assert_eq!((counters.images_dropped_spool.get(), counters.images_dropped_queue.get()), (0, 0));
    }

    #[test]
    fn parts_of_the_spool_shrink_when_it_does() {
        let mut parts = Parts::default();
        parts.take(1, 300);
        parts.take(2, 100);
        assert!(!parts.may_take(1, 100, 400, 1000), "250 are free of three quarters");
        assert!(parts.may_take(2, 100, 400, 1000));
        assert!(parts.may_take(1, 100, 200, 1000), "half of it was sent");
        assert_eq!((parts.of[&1], parts.of[&2], parts.all), (150, 50, 200));
        assert!(parts.may_take(3, 3, 1000, 1000) && !parts.may_take(3, 4, 1000, 1000));
    }

    /// The server would say for ever that it runs.
    #[test]
    fn the_lost_end_of_a_reported_program_is_noticed() {
        let counters = Arc::<Counters>::default();
        let (output, _queue) = Output::new(counters.clone());
        (0..=QUEUE).for_each(|_| output.row(testing::finished(testing::image(1, 10))));
        assert!(counters.images_dropped_queue.get() > 0, "the user's share of the queue is used up");
        output.row(testing::finished(Image { running_at: Some(20), ..testing::image(2, 10) }));
        assert_eq!(counters.reports_dropped.get(), 1);
        assert!(!output.has_lost_ends(), "nobody was told of these programs");
        output.row(testing::finished(Image { reported: true, ..testing::image(3, 10) }));
        assert!(output.has_lost_ends());
        output.forget_lost_ends();
        assert!(!output.has_lost_ends());
    }
}
