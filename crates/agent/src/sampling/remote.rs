//! Network file systems, read on a thread of their own: a server that does not answer stops nobody else.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use sample::node::remote::{Reading, Remote};

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
    pub fn start(mut remote: Remote) -> Option<RemoteThread> {
        Self::with(move || remote.read())
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
        assert!(began.elapsed() < PATIENCE);
        let_go.send(()).unwrap();
        let answered = (0..100).any(|_| {
            thread::park_timeout(Duration::from_millis(10));
            remote.read().is_some()
        });
        assert!(answered);
    }
}
