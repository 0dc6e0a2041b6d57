//! Writes the spool, on a thread of its own: a disk that stalls must not cost kernel events.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use record::entry::{Entry, File, Gap, GapReason, Health, ObjectList};
use record::reading::Reading;

use crate::clock::wall_ns;
use crate::counters::Counters;
use crate::files::Files;
use crate::progress::ProgressFile;
use crate::say::say;
use crate::shares::{Held, Shares};
use crate::ship;
use crate::spool::SpoolWriter;
use crate::table::Finished;
use crate::{checkpoint, privacy};

/// Rows that may wait for the disk; about 20 MB at most.
const QUEUE: usize = 8192;
/// And so much besides rows: files, gaps, health, readings.
const SPARE: usize = 4096;
/// How often the disk is asked to keep what was written.
const SYNC: Duration = Duration::from_secs(5);

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
            Output { queue, gaps: Arc::default(), rows: Shares::new(QUEUE), rules: Arc::default(), counters },
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
            rules: self.rules.clone(),
            counters: self.counters.clone(),
            told: HashSet::new(),
            users: HashMap::new(),
            refused: None,
            put_away: 0,
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
        let count = finished.image.count;
        let place = self.rows.hold(finished.user, 1);
        let is_sent = |place| self.queue.try_send(Work::Row(Box::new(finished), place)).is_ok();
        if !place.is_some_and(is_sent) {
            self.counters.images_dropped_queue.add(count);
        }
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
    rules: Arc<Mutex<Arc<Vec<u8>>>>,
    counters: Arc<Counters>,
    /// Lists and files that the current segment knows.
    told: HashSet<u64>,
    users: HashMap<u32, Option<String>>,
    /// Since when, and how many images, the spool has refused.
    refused: Option<(u64, u64)>,
    /// Images in the spool, or in a gap there.
    put_away: u64,
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
            if !self.told.contains(&list.id) && !new.contains(&list.id) {
                new.push(list.id);
                payloads.extend(encode(Entry::Objects((**list).clone())));
            }
        }
        let count = finished.image.count;
        payloads.extend(encode(Entry::Image(Box::new(finished.image))));
        if self.append(&payloads) {
            self.told.extend(new);
            self.counters.rows_spooled.one();
            self.counters.images_spooled.add(count);
            self.put_away += count;
        } else {
            if self.refused.is_none() {
                say("cannot write to the spool: records are dropped and counted until it has room again");
            }
            self.counters.images_dropped_spool.add(count);
            let (_, images) = self.refused.get_or_insert((wall_ns(), 0));
            *images += count;
        }
        self.progress.write_put_away(self.put_away);
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

fn file_ids(list: &Arc<ObjectList>) -> impl Iterator<Item = u64> {
    list.objects.iter().filter_map(|object| object.file)
}

/// Encoding into memory does not fail.
fn encode(entry: Entry) -> Option<Vec<u8>> {
    minicbor::to_vec(entry).ok()
}
