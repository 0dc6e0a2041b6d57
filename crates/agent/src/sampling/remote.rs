//! Network file systems, read on a thread of their own: a server that does not answer stops nobody else.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use sample::node::remote::{Reading, Remote};

use crate::waits::Waits;

/// How long a reading of the node waits for it.
const PATIENCE: Duration = Duration::from_millis(200);

/// The way to the thread.
pub struct RemoteThread {
    questions: SyncSender<()>,
    answers: Receiver<Reading>,
    is_asked: bool,
}

impl RemoteThread {
    /// Starts the thread, which ends with this; `None` if it cannot be started.
    pub fn start(mut remote: Remote, waits: Waits) -> Option<RemoteThread> {
        Self::with(move || waits.during("sampling", "network file systems", || remote.read()))
    }

    fn with(mut read: impl FnMut() -> Reading + Send + 'static) -> Option<RemoteThread> {
        let (questions, asked) = sync_channel(1);
        let (answer, answers) = sync_channel(1);
        let work = move || {
            while asked.recv().is_ok() && answer.send(read()).is_ok() {}
        };
        thread::Builder::new().name("remote".into()).stack_size(512 * 1024).spawn(work).ok()?;
        Some(RemoteThread { questions, answers, is_asked: false })
    }

    /// What there is now; `None` if it does not come in time. There is never more than one question on its way.
    pub fn read(&mut self) -> Option<Reading> {
        if self.is_asked {
            match self.answers.try_recv() {
                // It was late: what it says is as old as the question.
                Ok(_) => self.is_asked = false,
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return None,
            }
        }
        match self.questions.try_send(()) {
            Ok(()) => self.is_asked = true,
            Err(TrySendError::Full(()) | TrySendError::Disconnected(())) => return None,
        }
        match self.answers.recv_timeout(PATIENCE) {
            Ok(reading) => {
                self.is_asked = false;
                Some(reading)
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Instant;

    use testkit::wait_until;

    /// A file that blocks for real whoever opens it: a pipe without another end, where the kernel keeps its counters.
    #[test]
    fn a_file_that_blocks_is_named() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("self")).unwrap();
        let pipe = dir.path().join("self/mountstats");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        let waits = Waits::default();
        let mut remote = RemoteThread::start(Remote::new(dir.path(), dir.path()), waits.clone()).unwrap();
        assert!(remote.read().is_none() && remote.read().is_none());
        let is_named =
            || waits.longer_than(PATIENCE).iter().any(|wait| wait.contains("network file systems"));
        wait_until("the wait to be named", is_named);
        // The other end comes, and all is well.
        drop(std::fs::OpenOptions::new().write(true).open(&pipe).unwrap());
        std::fs::remove_file(&pipe).unwrap();
        wait_until("an answer", || remote.read().is_some());
        assert!(waits.longer_than(Duration::ZERO).is_empty());
    }

    #[test]
    fn a_server_that_does_not_answer_stops_nobody() {
        let (let_go, blocked) = channel::<()>();
        let mut is_first = true;
        let mut remote = RemoteThread::with(move || {
            if std::mem::take(&mut is_first) {
                let _ = blocked.recv();
            }
            Reading::default()
        })
        .unwrap();
        assert!(remote.read().is_none());
        // It is not asked again, and not waited for.
        let began = Instant::now();
        assert!((0..50).all(|_| remote.read().is_none()));
        assert!(began.elapsed() < 25 * PATIENCE);
        let_go.send(()).unwrap();
        wait_until("an answer", || remote.read().is_some());
    }
}
