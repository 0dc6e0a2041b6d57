//! Connections to ask with: a few at a time, each with the sight of whoever asks, and none for longer than it may take.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use store::people::People;
use store::sight::Sight;
use store::tags::Declared;
use store::{Reader, Stop, Store, StoreError};
use tokio::sync::Semaphore;

use crate::app::App;
use crate::error::ApiError;

/// Questions answered at the same time; the others wait.
const AT_ONCE: usize = 4;
/// Connections that are kept for the next question.
const KEPT: usize = 32;

pub struct Readers {
    store: Arc<Store>,
    /// The one that was used last is the last.
    idle: Mutex<Vec<(Sight, Reader)>>,
    places: Semaphore,
    /// How long an answer may take.
    most: Duration,
}

impl Readers {
    pub fn new(store: Arc<Store>, most: Duration) -> Readers {
        Readers { store, idle: Mutex::default(), places: Semaphore::new(AT_ONCE), most }
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

/// Asks the store as somebody, on a thread where that may take its time: but not for ever.
pub async fn ask<T: Send + 'static>(
    app: &Arc<App>,
    sight: &Sight,
    question: impl FnOnce(&Reader) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, ApiError> {
    let _place = app.readers.places.acquire().await;
    let (reader, most) = (app.readers.take(sight)?, app.readers.most);
    let waiting = Waiting::for_answer_of(&reader);
    let _waiter = Waiter(waiting.clone());
    let (app, sight) = (app.clone(), sight.clone());
    let asked = tokio::task::spawn_blocking(move || {
        let answer = question(&reader)?;
        if waiting.end() {
            app.readers.put(sight, reader);
        }
        Ok(answer)
    });
    let answered = tokio::time::timeout(most, asked).await.map_err(|_| ApiError::Long(most.as_secs_f64()))?;
    answered.map_err(|_| ApiError::Internal("the question could not be answered"))?
}
