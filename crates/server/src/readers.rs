//! Connections to ask with: a few at a time, each with the sight of whoever asks, and none for longer than it may take.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use store::people::People;
use store::sight::Sight;
use store::tags::Declared;
use store::{Reader, Stop, Store, StoreError};

use crate::app::App;
use crate::error::ApiError;
use crate::places::{Places, Share};

/// How long a question waits for its turn.
const PATIENCE: Duration = Duration::from_secs(10);
/// Questions of one user that may wait: a page of a browser asks several at once.
const WAITING: usize = 16;
/// Places for those who run the machine, besides those for users: they must see what is going on. They, and what they have made that
/// asks on its own, are trusted with all of them.
const OF_STAFF: Share = Share { all: 4, each: 4, waiting: 256, patience: Duration::from_secs(60) };
/// Connections that are kept for the next question.
const KEPT: usize = 32;

pub struct Readers {
    store: Arc<Store>,
    /// The one that was used last is the last.
    idle: Mutex<Vec<(Sight, Reader)>>,
    users: Places,
    staff: Places,
    /// How long an answer may take.
    most: Duration,
}

/// How much the database may be asked at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Questions {
    /// Of all users.
    pub all: usize,
    /// Of each.
    pub each: usize,
    /// How long an answer may take.
    pub within: Duration,
}

impl Readers {
    pub fn new(store: Arc<Store>, questions: Questions) -> Readers {
        let Questions { all, each, within } = questions;
        let share = Share { all, each: each.min(all), waiting: WAITING, patience: PATIENCE };
        Readers {
            store,
            idle: Mutex::default(),
            users: Places::new(share),
            staff: Places::new(OF_STAFF),
            most: within,
        }
    }

    fn places(&self, sight: &Sight) -> &Places {
        match sight {
            Sight::Own { .. } => &self.users,
            Sight::All | Sight::Administrator { .. } | Sight::Support { .. } => &self.staff,
        }
    }

    /// The tags that are declared now, of those that whoever asks sees.
    pub fn tags(&self, sight: &Sight) -> Declared {
        self.store.tags().seen_by(sight)
    }

    /// Who is known now.
    pub fn people(&self) -> Arc<People> {
        self.store.people()
    }

    /// A connection has the sight it was made with, for good.
    fn take(&self, sight: &Sight) -> Result<Reader, StoreError> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        match idle.iter().rposition(|(own, _)| own == sight) {
            Some(at) => Ok(idle.remove(at).1),
            None => {
                drop(idle);
                self.store.reader_with(sight)
            }
        }
    }

    fn put(&self, sight: Sight, reader: Reader) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() >= KEPT {
            idle.remove(0);
        }
        idle.push((sight, reader));
    }
}

/// Ends a question that nobody waits for any more. Who takes the [`Stop`] out decides: once the question is answered there is nothing to
/// end, and a connection that was told to stop is not asked again.
#[derive(Clone)]
struct Waiting(Arc<Mutex<Option<Stop>>>);

impl Waiting {
    fn for_answer_of(reader: &Reader) -> Waiting {
        Waiting(Arc::new(Mutex::new(Some(reader.stop()))))
    }

    /// Whether somebody still waited.
    fn end(&self) -> bool {
        self.stop().take().is_some()
    }

    fn stop(&self) -> MutexGuard<'_, Option<Stop>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whoever waits; with them goes what they wait for.
struct Waiter(Waiting);

impl Drop for Waiter {
    fn drop(&mut self) {
        // Stopped while it is held: the question cannot end in between.
        if let Some(stop) = self.0.stop().take() {
            stop.stop();
        }
    }
}

impl Readers {
    /// Asks the store as somebody, on a thread where that may take its time: but not for ever. The place is given back when the
    /// thread is done, not when nobody waits any more: a database that is told to stop goes on until it looks.
    async fn ask<T: Send + 'static>(
        self: &Arc<Readers>,
        sight: &Sight,
        question: impl FnOnce(&Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let place = self.places(sight).enter(sight.user().unwrap_or_default()).await?;
        let (reader, most) = (self.take(sight)?, self.most);
        let waiting = Waiting::for_answer_of(&reader);
        let _waiter = Waiter(waiting.clone());
        let (readers, sight) = (self.clone(), sight.clone());
        let asked = tokio::task::spawn_blocking(move || {
            let _place = place;
            let answer = question(&reader)?;
            if waiting.end() {
                readers.put(sight, reader);
            }
            Ok(answer)
        });
        let answered = tokio::time::timeout(most, asked).await;
        let answered = answered.map_err(|_| ApiError::Long(most.as_secs_f64()))?;
        answered.map_err(|_| ApiError::Internal("the question could not be answered"))?
    }
}

/// Asks the store as somebody.
pub async fn ask<T: Send + 'static>(
    app: &Arc<App>,
    sight: &Sight,
    question: impl FnOnce(&Reader) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, ApiError> {
    app.readers.ask(sight, question).await
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn own(user: &str) -> Sight {
        Sight::Own { user: user.into(), projects: vec![], member_of: vec![] }
    }

    /// A question that does not stop when it is told to: its user has no other place, and everybody else has.
    #[tokio::test]
    async fn a_place_is_free_when_its_thread_is_done() {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(dir.path(), &store::Limits::default()).unwrap());
        let within = Duration::from_millis(100);
        let mut readers = Readers::new(store, Questions { all: 2, each: 1, within });
        let patience = Duration::from_millis(200);
        readers.users = Places::new(Share { all: 2, each: 1, waiting: 1, patience });
        let readers = Arc::new(readers);
        let (end, ended) = mpsc::channel::<()>();
        let stuck = readers.ask(&own("eve"), move |_| Ok(ended.recv().is_ok())).await;
        assert!(matches!(stuck, Err(ApiError::Long(_))), "{stuck:?}");
        let refused = readers.ask(&own("eve"), |_| Ok(())).await;
        assert!(matches!(refused, Err(ApiError::Crowded(_))), "{refused:?}");
        let others = [own("otto"), Sight::Administrator { user: "ada".into() }];
        for sight in others {
            readers.ask(&sight, |_| Ok(())).await.unwrap();
        }
        end.send(()).unwrap();
        let began = std::time::Instant::now();
        while readers.ask(&own("eve"), |_| Ok(())).await.is_err() {
            assert!(began.elapsed() < Duration::from_secs(20));
        }
    }
}
