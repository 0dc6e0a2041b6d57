//! Ships the spool to the server: batch after batch, each until the server has it.
//!
//! On a thread of its own, because a server may be slow or gone: nothing else in the agent waits for it. What is
//! sent was on disk before, and what was acknowledged is noted on disk before it is removed, so that neither a
//! kill nor a crash loses or doubles a record: the server knows which numbers of a stream it has. When the note is lost,
//! all segments on disk are sent again, each under the name of its own stream.

mod client;
mod cursor;
pub mod enroll;
pub mod http;
mod pack;

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use record::batch::Settings;
use record::rate::{JobRate, jobs_header};
use xxhash_rust::xxh3::xxh3_64;

use crate::clock::wall_ns;
use crate::counters::Counters;
use crate::say::say;
use crate::spool::SegmentFile;
use crate::state;

pub use client::{Client, SendError, Target};
pub use cursor::Cursor;
use enroll::Enrollment;
pub use pack::{Packed, pack};

/// The longest wait between two attempts.
const BACKOFF_MAX: Duration = Duration::from_secs(60);
const BACKOFF_MIN: Duration = Duration::from_millis(500);

/// A node with jobs that has nothing to send asks after this time what the server wishes: who changes a job's rate waits no
/// longer than this and one flush. Three thousand nodes that do so are 300 small requests a second.
const ASK: Duration = Duration::from_secs(10);
/// The same with a server that does not know the question.
const ASK_OLD: Duration = Duration::from_secs(600);

/// The directory in the spool for entries that the server cannot use.
const REFUSED: &str = "refused";
/// It holds at most so many. A server that refuses more is wrong itself: then records stay in the spool.
const REFUSED_MAX: usize = 1000;

/// What the server last said about the switch.
const UNSAID: u8 = 0;
const ON: u8 = 1;
const OFF: u8 = 2;

/// What other threads tell the shipping one, and what it tells them.
#[derive(Debug, Default)]
pub struct Shared {
    /// Entries from this number on are still needed by the agent itself, to go on after a kill.
    pub needed_from: AtomicU64,
    switch: AtomicU8,
    /// The jobs that run here, as the server is told.
    jobs: Mutex<String>,
    /// Rates that the server has told and the main thread has not taken.
    rates: Mutex<Option<Vec<JobRate>>>,
}

impl Shared {
    /// Whether the server has switched this agent off.
    pub fn is_off(&self) -> bool {
        self.switch.load(Ordering::Relaxed) == OFF
    }

    /// These jobs run here: their rates are asked for.
    pub fn set_jobs<'a>(&self, jobs: impl IntoIterator<Item = &'a str>) {
        *self.jobs.lock().unwrap_or_else(PoisonError::into_inner) = jobs_header(jobs);
    }

    /// What the server said about rates since the last call.
    pub fn take_rates(&self) -> Option<Vec<JobRate>> {
        self.rates.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn jobs(&self) -> String {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn obey(&self, settings: &Settings, rates: Vec<JobRate>) {
        let switch = match settings.enabled {
            None => UNSAID,
            Some(true) => ON,
            Some(false) => OFF,
        };
        self.switch.store(switch, Ordering::Relaxed);
        *self.rates.lock().unwrap_or_else(PoisonError::into_inner) = Some(rates);
    }
}

/// How to ship.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShipOptions {
    pub dir: PathBuf,
    pub host: String,
    pub target: Target,
    pub interval: Duration,
}

/// The thread that ships.
pub struct Shipping {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Shipping {
    /// Starts the thread.
    pub fn start(
        options: ShipOptions,
        cursor: Cursor,
        shared: Arc<Shared>,
        counters: Arc<Counters>,
    ) -> io::Result<Shipping> {
        if options.dir.join(REFUSED).symlink_metadata().is_ok_and(|meta| !meta.is_dir()) {
            state::set_aside(&options.dir, REFUSED, "not a directory", &counters);
        }
        if let Some(enrollment) = &options.target.enrollment {
            prepare(enrollment, &counters);
        }
        let (stop, stopped) = channel();
        let client = Client::new(options.target.clone());
        let ship = Ship {
            options,
            cursor,
            client,
            shared,
            counters,
            failures: 0,
            said: None,
            seen: None,
            most: pack::ENTRIES,
            ask_at: Instant::now(),
        };
        let thread = thread::Builder::new().name("ship".into()).spawn(move || ship.run(&stopped))?;
        Ok(Shipping { stop, thread })
    }

    /// Lets it try once more to send what is left, and ends it.
    pub fn stop(self) {
        drop(self.stop);
        let _ = self.thread.join();
    }
}

struct Ship {
    options: ShipOptions,
    cursor: Cursor,
    client: Client,
    shared: Arc<Shared>,
    counters: Arc<Counters>,
    /// Attempts that failed one after the other.
    failures: u32,
    /// The last trouble that was printed, so that it is printed once.
    said: Option<String>,
    /// The last segment and its length when there was nothing more to send.
    seen: Option<(SegmentFile, u64)>,
    /// Entries in a batch: fewer while one is looked for that the server cannot use.
    most: usize,
    /// When the server is asked for its wishes, if it has not told them with the answer to a batch before.
    ask_at: Instant,
}

impl Ship {
    fn run(mut self, stopped: &Receiver<()>) {
        loop {
            let wait = if self.failures > 0 { self.backoff() } else { self.until_flush() };
            match stopped.recv_timeout(wait) {
                Err(RecvTimeoutError::Timeout) => {
                    self.flush(stopped);
                    self.ask();
                }
                Ok(()) | Err(RecvTimeoutError::Disconnected) => {
                    self.flush(stopped);
                    return;
                }
            }
        }
    }

    /// Each host has its own moment in the interval, so that a cluster does not flush at once.
    fn until_flush(&self) -> Duration {
        let interval = self.options.interval.as_nanos().max(1) as u64;
        let own = xxh3_64(self.options.host.as_bytes()) % interval;
        let into = wall_ns().wrapping_sub(own) % interval;
        Duration::from_nanos(interval - into)
    }

    /// Twice as long after each failure, and somewhere in the upper half of it, so that a cluster that lost its
    /// server does not come back at once.
    fn backoff(&self) -> Duration {
        let longest = BACKOFF_MIN.saturating_mul(1 << self.failures.min(16)).min(BACKOFF_MAX);
        let jitter = xxh3_64(&[self.options.host.as_bytes(), &wall_ns().to_le_bytes()].concat());
        longest / 2 + longest.mul_f64(jitter as f64 / u64::MAX as f64 / 2.0)
    }

    /// Sends everything there is, until something fails.
    fn flush(&mut self, stopped: &Receiver<()>) {
        loop {
            match self.send_next() {
                Ok(true) => self.recovered(),
                Ok(false) => return self.recovered(),
                Err(error) => {
                    self.counters.batches_failed.one();
                    self.failures = self.failures.saturating_add(1);
                    self.complain(&error.to_string());
                    return;
                }
            }
            if matches!(stopped.try_recv(), Err(std::sync::mpsc::TryRecvError::Disconnected))
                && self.failures > 0
            {
                return;
            }
        }
    }

    /// Asks for the server's wishes, if there are jobs and nothing was sent for a while. What fails here is said when a batch
    /// fails.
    fn ask(&mut self) {
        let jobs = self.shared.jobs();
        if jobs.is_empty() || self.failures > 0 || Instant::now() < self.ask_at {
            return;
        }
        let mut wait = ASK;
        match self.client.ask(&self.options.host, &jobs) {
            Ok(wishes) => self.shared.obey(&wishes.settings, wishes.rates),
            Err(SendError::Refused { status: 404, .. }) => wait = ASK_OLD,
            Err(_) => {}
        }
        self.ask_at = Instant::now() + wait;
    }

    /// Sends one batch; `false` if there is nothing to send.
    fn send_next(&mut self) -> Result<bool, SendError> {
        let last = pack::last_segment(&self.options.dir)?;
        if last.is_some() && last == self.seen {
            return Ok(false);
        }
        let Some(packed) = pack(&self.options.dir, self.cursor.next(), self.most)? else {
            self.seen = last;
            return Ok(false);
        };
        let batch = packed.encode(&self.options.host, self.cursor.stream());
        match self.client.send(&batch, &self.shared.jobs()) {
            Ok(reply) => {
                self.counters.batches_shipped.one();
                self.counters.entries_shipped.add(packed.entries.len() as u64);
                self.most = (2 * self.most).min(pack::ENTRIES);
                self.shared.obey(&reply.settings, reply.rates);
                self.ask_at = Instant::now() + ASK;
            }
            Err(error) if !error.is_about_the_content() => return Err(error),
            // One entry that the server cannot use must not keep all others: it is found by halves, and put aside.
            Err(_) if packed.entries.len() > 1 => {
                self.most = packed.entries.len() / 2;
                return Ok(true);
            }
            Err(error) if self.refused() >= REFUSED_MAX => return Err(error),
            Err(error) => self.put_aside(&packed, &error)?,
        }
        self.cursor.advance(packed.last() + 1)?;
        self.remove_shipped();
        Ok(true)
    }

    /// How many entries have been put aside.
    fn refused(&self) -> usize {
        std::fs::read_dir(self.options.dir.join(REFUSED)).map_or(0, Iterator::count)
    }

    /// Keeps what the server refuses, for whoever wants to find out why.
    fn put_aside(&self, packed: &Packed, error: &SendError) -> io::Result<()> {
        let dir = self.options.dir.join(REFUSED);
        std::fs::create_dir_all(&dir)?;
        let path = dir.join(format!("{}.batch", packed.first));
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o640).open(&path)?;
        file.write_all(&packed.encode(&self.options.host, self.cursor.stream()))?;
        // The segment may be removed as soon as the cursor is behind it.
        file.sync_all()?;
        self.counters.entries_refused.one();
        let (number, url) = (packed.first, &self.options.target.url);
        say(format_args!("{url} cannot use entry {number}: {error}; it is kept in {}", path.display()));
        Ok(())
    }

    /// Removes segments that the server has and the agent does not need.
    fn remove_shipped(&self) {
        let keep_from = self.cursor.next().min(self.shared.needed_from.load(Ordering::Relaxed));
        for segment in pack::segments_before(&self.options.dir, keep_from) {
            let _ = std::fs::remove_file(segment.path);
        }
    }

    fn recovered(&mut self) {
        self.failures = 0;
        if self.said.take().is_some() {
            say(format_args!("{} answers again", self.options.target.url));
        }
    }

    fn complain(&mut self, what: &str) {
        if self.said.as_deref() != Some(what) {
            say(format_args!(
                "cannot ship to {}: {what}; records stay in the spool",
                self.options.target.url
            ));
            self.said = Some(what.to_owned());
        }
    }
}

/// Looks at the files of an agent that gets its token by itself.
fn prepare(enrollment: &Enrollment, counters: &Counters) {
    enrollment.clear(counters);
    if let Some(mode) = enroll::open_to_others(&enrollment.file) {
        let path = enrollment.file.display();
        say(format_args!("{path} is open to others (mode {mode:04o}): chmod 600 {path}"));
    }
}

/// Random bytes, from the kernel.
fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < bytes.len() {
        filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;

    /// A server that answers one question with a rate, and gives back the request.
    fn wishing(listener: TcpListener) -> Vec<String> {
        let (mut stream, _) = listener.accept().unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
        let request: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
        let wishes = r#"{"rates": [{"job": "17", "every_ms": 1000, "left_ms": 9000}]}"#;
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{wishes}",
            wishes.len()
        );
        stream.write_all(answer.as_bytes()).unwrap();
        request
    }

    #[test]
    fn who_has_jobs_and_nothing_to_send_asks_what_is_wished() {
        let dir = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let token_file = dir.path().join("token");
        std::fs::write(&token_file, "secret").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let target = Target { url, token_file, ca_file: None, enrollment: None };
        let interval = Duration::from_secs(1);
        let mut ship = Ship {
            options: ShipOptions {
                dir: dir.path().to_owned(),
                host: "n1".into(),
                target: target.clone(),
                interval,
            },
            cursor: Cursor::open(dir.path(), &Counters::default()).unwrap(),
            client: Client::new(target),
            shared: Arc::default(),
            counters: Arc::default(),
            failures: 0,
            said: None,
            seen: None,
            most: pack::ENTRIES,
            ask_at: Instant::now(),
        };
        // Without a job nobody is asked: there is nobody yet who would answer.
        ship.ask();
        assert_eq!(ship.shared.take_rates(), None);
        ship.shared.set_jobs(["17"]);
        let server = thread::spawn(move || wishing(listener));
        ship.ask();
        let request = server.join().unwrap();
        assert!(request[0].starts_with("GET /api/v1/wishes?host=n1 "), "{request:?}");
        assert!(request.iter().any(|line| line.ends_with(" 17")), "it says which jobs: {request:?}");
        let rates = ship.shared.take_rates().unwrap();
        assert_eq!((rates.len(), rates[0].every_ms, rates[0].left_ms), (1, 1000, 9000));
        // Not again at once.
        ship.ask();
        assert_eq!(ship.shared.take_rates(), None);
    }
}
