//! Asks each source on a thread of its own, and waits no longer than the caller wants.
//!
//! A source that does not answer is asked nothing more until it has: at most one call is pending, and it costs the
//! caller one time-out, not one for each reading. A source whose driver is not loaded has no thread.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::{Look, Outcome, Reading, Setup, Source, amd, drm};

/// All GPUs of the node.
pub struct Gpus {
    ways: Vec<Way>,
    look_again: Duration,
}

/// How to find a source, how to open it, and what has become of it.
struct Way {
    source: Source,
    is_present: Box<dyn Fn() -> bool + Send>,
    open: Arc<dyn Fn() -> Box<dyn Look> + Send + Sync>,
    state: State,
}

enum State {
    Absent {
        reason: Option<Arc<str>>,
        /// Not before this time.
        look_again: Option<Instant>,
    },
    Idle(Worker),
    Asked {
        worker: Worker,
        since: Instant,
    },
}

/// A thread that has opened a source, or will with the first question.
struct Worker {
    requests: Sender<Arc<[u32]>>,
    answers: Receiver<Result<Reading, String>>,
}

impl Gpus {
    /// Nothing is opened yet.
    pub fn new(setup: Setup) -> Gpus {
        let look_again = setup.look_again;
        let setup = Arc::new(setup);
        let ways = vec![
            #[cfg(feature = "nvml")]
            Way::nvidia(&setup),
            Way::new(Source::Amd, &["amdgpu"], &setup, |setup| Box::new(amd::Amd::new(setup))),
            Way::new(Source::Drm, drm::DRIVERS, &setup, |setup| Box::new(drm::Drm::new(setup))),
        ];
        Gpus { ways, look_again }
    }

    /// Asks all sources at once, and waits for them until `timeout` has passed. `pids` are the processes to look
    /// at; a source that has a list of its own gives all that are in it.
    pub fn read(&mut self, pids: &[u32], timeout: Duration) -> Vec<(Source, Outcome)> {
        let asked = Instant::now();
        let pids: Arc<[u32]> = pids.into();
        let ask = |way: &mut Way| way.ask(&pids, asked);
        let is_new: Vec<bool> = self.ways.iter_mut().map(ask).collect();
        let deadline = asked.checked_add(timeout).unwrap_or(asked);
        let answer = |(way, is_new): (&mut Way, bool)| {
            (way.source, way.answer(is_new.then_some(deadline), self.look_again))
        };
        self.ways.iter_mut().zip(is_new).map(answer).collect()
    }
}

impl Way {
    /// Who names the library has it.
    #[cfg(feature = "nvml")]
    fn nvidia(setup: &Arc<Setup>) -> Way {
        let (sys, library) = (setup.sys.clone(), setup.nvml.clone());
        let is_named = library.components().count() > 1;
        let is_present = move || is_loaded(&sys, "nvidia") || (is_named && library.exists());
        let setup = setup.clone();
        Way::with(Source::Nvidia, is_present, move || Box::new(super::nvidia::Nvidia::new(&setup.nvml)))
    }

    fn new(
        source: Source,
        modules: &'static [&'static str],
        setup: &Arc<Setup>,
        open: fn(&Setup) -> Box<dyn Look>,
    ) -> Way {
        // Files of the kernel that ask no driver: this is safe on the caller's thread.
        let sys = setup.sys.clone();
        let is_present = move || modules.iter().any(|module| is_loaded(&sys, module));
        let setup = setup.clone();
        Way::with(source, is_present, move || open(&setup))
    }

    fn with(
        source: Source,
        is_present: impl Fn() -> bool + Send + 'static,
        open: impl Fn() -> Box<dyn Look> + Send + Sync + 'static,
    ) -> Way {
        Way {
            source,
            is_present: Box::new(is_present),
            open: Arc::new(open),
            state: State::Absent { reason: None, look_again: None },
        }
    }

    /// Asks, unless it is too early or another question is pending. True if it did.
    fn ask(&mut self, pids: &Arc<[u32]>, now: Instant) -> bool {
        let absent = State::Absent { reason: None, look_again: None };
        let (state, has_asked) = match std::mem::replace(&mut self.state, absent) {
            State::Absent { reason, look_again: Some(at) } if now < at => {
                (State::Absent { reason, look_again: Some(at) }, false)
            }
            State::Absent { .. } if !(self.is_present)() => {
                (State::Absent { reason: None, look_again: None }, false)
            }
            State::Absent { .. } => match Worker::start(self.source, self.open.clone()) {
                Ok(worker) => worker.ask(pids, now),
                Err(error) => (State::Absent { reason: Some(error), look_again: None }, false),
            },
            State::Idle(worker) => worker.ask(pids, now),
            State::Asked { worker, since } => match worker.answers.try_recv() {
                // What it says is about a time long ago.
                Ok(_) => worker.ask(pids, now),
                Err(TryRecvError::Empty) => (State::Asked { worker, since }, false),
                Err(TryRecvError::Disconnected) => (State::ended(), false),
            },
        };
        self.state = state;
        has_asked
    }

    /// Waits for the answer to a question that was asked now; an older question is not waited for.
    fn answer(&mut self, deadline: Option<Instant>, look_again: Duration) -> Outcome {
        let absent = State::Absent { reason: None, look_again: None };
        let (state, outcome) = match std::mem::replace(&mut self.state, absent) {
            State::Asked { worker, since } => {
                let Some(deadline) = deadline else {
                    self.state = State::Asked { worker, since };
                    return Outcome::Stale { since };
                };
                let wait = deadline.saturating_duration_since(Instant::now());
                match worker.answers.recv_timeout(wait) {
                    Ok(Ok(reading)) => {
                        (State::Idle(worker), Outcome::Read { reading, took: since.elapsed() })
                    }
                    Ok(Err(reason)) => State::Absent { reason: Some(reason.into()), look_again: None }.told(),
                    Err(RecvTimeoutError::Timeout) => {
                        (State::Asked { worker, since }, Outcome::Stale { since })
                    }
                    Err(RecvTimeoutError::Disconnected) => State::ended().told(),
                }
            }
            other => other.told(),
        };
        self.state = match state {
            State::Absent { reason, look_again: None } => {
                State::Absent { reason, look_again: Instant::now().checked_add(look_again) }
            }
            other => other,
        };
        outcome
    }
}

impl State {
    fn ended() -> State {
        State::Absent { reason: Some("its thread has ended".into()), look_again: None }
    }

    /// What the caller hears of a source that was not asked.
    fn told(self) -> (State, Outcome) {
        let reason = if let State::Absent { reason, .. } = &self { reason.clone() } else { None };
        (self, Outcome::Absent { reason })
    }
}

impl Worker {
    fn start(source: Source, open: Arc<dyn Fn() -> Box<dyn Look> + Send + Sync>) -> Result<Worker, Arc<str>> {
        let (requests, questions) = channel::<Arc<[u32]>>();
        let (replies, answers) = channel();
        let name = match source {
            Source::Nvidia => "gpu-nvidia",
            Source::Amd => "gpu-amd",
            Source::Drm => "gpu-drm",
        };
        // Never joined: it ends when nobody asks any more, or stays where it hangs.
        let thread = move || {
            let mut look = open();
            while let Ok(pids) = questions.recv() {
                if replies.send(look.read(&pids)).is_err() {
                    return;
                }
            }
        };
        let started = thread::Builder::new().name(name.into()).spawn(thread);
        started.map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Worker { requests, answers })
    }

    fn ask(self, pids: &Arc<[u32]>, now: Instant) -> (State, bool) {
        match self.requests.send(pids.clone()) {
            Ok(()) => (State::Asked { worker: self, since: now }, true),
            Err(_) => (State::ended(), false),
        }
    }
}

fn is_loaded(sys: &Path, module: &str) -> bool {
    sys.join("module").join(module).exists()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc::SyncSender;
    use std::sync::{Condvar, Mutex};

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(20);

    /// A source that answers when its gate is open.
    #[derive(Default)]
    struct Gate {
        is_open: Mutex<bool>,
        changed: Condvar,
        opened: AtomicU32,
        calls: AtomicU32,
    }

    struct Gated(Arc<Gate>);

    impl Look for Gated {
        fn read(&mut self, pids: &[u32]) -> Result<Reading, String> {
            self.0.calls.fetch_add(1, Ordering::SeqCst);
            let is_open = self.0.is_open.lock().unwrap();
            drop(self.0.changed.wait_while(is_open, |is_open| !*is_open).unwrap());
            match pids.first() {
                Some(666) => Err("no such library".into()),
                Some(667) => panic!("as asked"),
                _ => Ok(Reading::default()),
            }
        }
    }

    impl Gate {
        fn set(&self, is_open: bool) {
            *self.is_open.lock().unwrap() = is_open;
            self.changed.notify_all();
        }

        fn way(self: &Arc<Gate>, source: Source) -> Way {
            let gate = self.clone();
            Way::with(
                source,
                || true,
                move || {
                    gate.opened.fetch_add(1, Ordering::SeqCst);
                    Box::new(Gated(gate.clone()))
                },
            )
        }
    }

    fn gpus(look_again: Duration) -> (Gpus, Arc<Gate>, Arc<Gate>) {
        let (one, other) = (Arc::new(Gate::default()), Arc::new(Gate::default()));
        let ways = vec![one.way(Source::Nvidia), other.way(Source::Amd)];
        (Gpus { ways, look_again }, one, other)
    }

    fn outcomes(answers: Vec<(Source, Outcome)>) -> Vec<Outcome> {
        answers.into_iter().map(|(_, outcome)| outcome).collect()
    }

    #[test]
    fn a_source_that_hangs_is_stale_and_the_others_are_read() {
        let (mut gpus, one, other) = gpus(LONG);
        other.set(true);
        let before = Instant::now();
        let first = outcomes(gpus.read(&[1], Duration::from_millis(300)));
        let Outcome::Stale { since } = first[0] else { panic!("{first:?}") };
        assert!(since >= before && before.elapsed() < Duration::from_secs(30));
        assert!(matches!(first[1], Outcome::Read { .. }));
        // Asked once, and waited for once, however often the caller comes back.
        let again = Instant::now();
        for _ in 0..3 {
            let next = outcomes(gpus.read(&[1], LONG));
            assert_eq!(next[0], Outcome::Stale { since });
            assert!(matches!(next[1], Outcome::Read { .. }));
        }
        assert!(again.elapsed() < Duration::from_secs(30));
        assert_eq!((one.opened.load(Ordering::SeqCst), one.calls.load(Ordering::SeqCst)), (1, 1));
        one.set(true);
        // The late answer is dropped, and the next one is about now.
        let mut last = outcomes(gpus.read(&[1], LONG));
        while matches!(last[0], Outcome::Stale { .. }) {
            last = outcomes(gpus.read(&[1], LONG));
        }
        assert!(matches!(last[0], Outcome::Read { .. }));
        assert_eq!((one.opened.load(Ordering::SeqCst), one.calls.load(Ordering::SeqCst)), (1, 2));
    }

    #[test]
    fn what_is_absent_is_looked_for_again_after_a_while() {
        for (look_again, expected) in [(LONG, 1), (Duration::ZERO, 3)] {
            let (mut gpus, one, other) = gpus(look_again);
            one.set(true);
            other.set(true);
            for _ in 0..3 {
                let read = outcomes(gpus.read(&[666], LONG));
                assert_eq!(read[0], Outcome::Absent { reason: Some("no such library".into()) });
            }
            assert_eq!(one.calls.load(Ordering::SeqCst), expected, "{look_again:?}");
        }
    }

    #[test]
    fn a_thread_that_dies_takes_nobody_with_it() {
        let (mut gpus, one, other) = gpus(Duration::ZERO);
        one.set(true);
        other.set(true);
        let read = outcomes(gpus.read(&[667], LONG));
        assert_eq!(read[0], Outcome::Absent { reason: Some("its thread has ended".into()) });
        let read = outcomes(gpus.read(&[1], LONG));
        assert!(matches!(read[0], Outcome::Read { .. }));
        assert_eq!(one.opened.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn a_node_without_a_driver_has_no_thread() {
        let tree = tempfile::tempdir().unwrap();
        let setup = Setup { sys: tree.path().into(), proc: tree.path().into(), ..Setup::default() };
        let mut gpus = Gpus::new(setup);
        for (_, outcome) in gpus.read(&[1], SHORT) {
            assert_eq!(outcome, Outcome::Absent { reason: None });
        }
        assert!(gpus.ways.iter().all(|way| matches!(way.state, State::Absent { .. })));
    }

    /// A thread whose owner is gone ends as soon as its source answers.
    #[test]
    fn a_thread_ends_with_its_owner() {
        struct Telling(SyncSender<()>);
        impl Look for Telling {
            fn read(&mut self, _: &[u32]) -> Result<Reading, String> {
                Ok(Reading::default())
            }
        }
        impl Drop for Telling {
            fn drop(&mut self) {
                let _ = self.0.send(());
            }
        }
        let (ended, end) = std::sync::mpsc::sync_channel(1);
        let way = Way::with(Source::Amd, || true, move || Box::new(Telling(ended.clone())));
        let mut gpus = Gpus { ways: vec![way], look_again: LONG };
        assert!(matches!(gpus.read(&[], LONG)[0].1, Outcome::Read { .. }));
        drop(gpus);
        end.recv_timeout(LONG).unwrap();
    }
}
