//! Places for what users ask for: so many in all, so many for one of them, and nobody waits for ever.
//!
//! A place is given back when it is dropped. Whoever does work on a thread that cannot be stopped takes the place there, so that
//! it counts for as long as the work takes, not for as long as somebody waits for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Users of whom nothing is remembered any more are looked for when there are so many.
const USERS: usize = 1024;

/// How many may be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// By all together.
    pub all: usize,
    /// By one user.
    pub each: usize,
    /// Requests of one user that may wait for a place.
    pub waiting: usize,
    /// How long they wait.
    pub patience: Duration,
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Crowded {
    #[error("{0} of your requests are in progress already, and others wait: try again when they are done")]
    Own(usize),
    #[error("the server is busy with other requests: try again later")]
    All,
}

/// A place that is taken.
#[derive(Debug)]
pub struct Place {
    _own: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

pub struct Places {
    share: Share,
    all: Arc<Semaphore>,
    users: Mutex<HashMap<String, Arc<OfUser>>>,
}

struct OfUser {
    places: Arc<Semaphore>,
    waiting: Semaphore,
}

impl Places {
    pub fn new(share: Share) -> Places {
        Places { share, all: Arc::new(Semaphore::new(share.all)), users: Mutex::default() }
    }

    /// A place for a user: at once, or after a wait that is bounded.
    pub async fn enter(&self, user: &str) -> Result<Place, Crowded> {
        let of_user = self.of(user);
        let own = Crowded::Own(self.share.each);
        let until = tokio::time::Instant::now() + self.share.patience;
        let wait = |places: &Arc<Semaphore>| tokio::time::timeout_at(until, places.clone().acquire_owned());
        // One's own first: whoever has many requests must not keep others out while they wait.
        let _own = match of_user.places.clone().try_acquire_owned() {
            Ok(place) => place,
            Err(_) => {
                let _waits = of_user.waiting.try_acquire().map_err(|_| own)?;
                wait(&of_user.places).await.map_err(|_| own)?.map_err(|_| own)?
            }
        };
        let _of_all = wait(&self.all).await.map_err(|_| Crowded::All)?.map_err(|_| Crowded::All)?;
        Ok(Place { _own, _of_all })
    }

    /// So many places at once, or none at all; never more than one user may have.
    pub fn take(&self, user: &str, count: usize) -> Option<Place> {
        let count = u32::try_from(count.min(self.share.each)).unwrap_or(u32::MAX);
        let _own = self.of(user).places.clone().try_acquire_many_owned(count).ok()?;
        let _of_all = self.all.clone().try_acquire_many_owned(count).ok()?;
        Some(Place { _own, _of_all })
    }

    fn of(&self, user: &str) -> Arc<OfUser> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if users.len() >= USERS && !users.contains_key(user) {
            users
                .retain(|_, of| of.places.available_permits() < self.share.each || Arc::strong_count(of) > 1);
        }
        let new = || {
            let places = Arc::new(Semaphore::new(self.share.each));
            Arc::new(OfUser { places, waiting: Semaphore::new(self.share.waiting) })
        };
        users.entry(user.to_owned()).or_insert_with(new).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARE: Share = Share { all: 3, each: 2, waiting: 1, patience: Duration::from_millis(20) };

    #[tokio::test]
    async fn one_user_does_not_take_all_places() {
        let places = Places::new(SHARE);
        let (one, two) = (places.enter("eve").await.unwrap(), places.enter("eve").await.unwrap());
        assert_eq!(places.enter("eve").await.unwrap_err(), Crowded::Own(2));
        let third = places.enter("otto").await.unwrap();
        assert_eq!(places.enter("otto").await.unwrap_err(), Crowded::All);
        drop(one);
        let again = places.enter("eve").await.unwrap();
        drop((two, third, again));
        for user in ["eve", "eve", "otto"].map(|user| places.enter(user)) {
            user.await.unwrap();
        }
    }

    #[tokio::test]
    async fn few_requests_of_a_user_wait() {
        let patience = Duration::from_secs(60);
        let places = Arc::new(Places::new(Share { each: 1, patience, ..SHARE }));
        let first = places.enter("eve").await.unwrap();
        let second = tokio::spawn({
            let places = places.clone();
            async move { places.enter("eve").await.map(drop) }
        });
        while places.of("eve").waiting.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        // The next is refused at once.
        assert_eq!(places.enter("eve").await.unwrap_err(), Crowded::Own(1));
        drop(first);
        second.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn users_that_are_gone_are_forgotten() {
        let places = Places::new(SHARE);
        let held = places.enter("eve").await.unwrap();
        for number in 0..3 * USERS {
            drop(places.enter(&number.to_string()).await.unwrap());
        }
        let users = places.users.lock().unwrap();
        assert!(users.len() <= USERS + 1 && users.contains_key("eve"), "{}", users.len());
        drop(held);
    }
}
