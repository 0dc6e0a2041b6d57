//! A bounded resource that many users need: nobody can take so much of it that nothing is left for others.
//!
//! A user may hold at most as much as is still free of three quarters of the whole, so no fixed limit has to be guessed,
//! and a user who is alone on a node is not limited to a fraction made for a crowd. The last quarter is for those who
//! hold little: however many greedy users came before, 64 others have their [floor](Inner::floor) of a 256th each.
//!
//! A *user* is the owner of a uid ([`crate::owners`]). What is held is given back when [`Held`] is dropped, on any thread.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Users without anything held are forgotten when more than this many are known.
const USERS_KEPT: usize = 1024;

/// A resource of a fixed size, shared between users.
#[derive(Debug, Clone)]
pub struct Shares(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    size: usize,
    /// A reservation is checked and made under this lock; giving back needs none.
    users: Mutex<HashMap<u32, Arc<AtomicUsize>>>,
    used: AtomicUsize,
}

impl Inner {
    /// What a user can have although others have taken all that can be taken.
    fn floor(&self) -> usize {
        self.size / 256
    }
}

/// A part of a resource, given back when it is dropped.
#[derive(Debug)]
pub struct Held {
    whole: Arc<Inner>,
    user: Arc<AtomicUsize>,
    amount: usize,
}

impl Shares {
    pub fn new(size: usize) -> Shares {
        Shares(Arc::new(Inner { size, users: Mutex::default(), used: AtomicUsize::new(0) }))
    }

    /// Holds an amount for a user; `None` if that is more than their share.
    pub fn hold(&self, user: u32, amount: usize) -> Option<Held> {
        let mut users = self.users();
        if users.len() > USERS_KEPT {
            users.retain(|_, used| used.load(Ordering::Relaxed) > 0);
        }
        let of_user = users.entry(user).or_default();
        let wanted = of_user.load(Ordering::Relaxed).checked_add(amount)?;
        let used = self.0.used.load(Ordering::Relaxed).checked_add(amount)?;
        let free = (self.0.size - self.0.size / 4).saturating_sub(used);
        let is_share = wanted <= free || wanted <= self.0.floor() && used <= self.0.size;
        is_share.then(|| self.take(of_user.clone(), amount))
    }

    /// Holds an amount whatever is free, for what is bounded elsewhere and must not be refused.
    pub fn hold_anyway(&self, user: u32, amount: usize) -> Held {
        let of_user = self.users().entry(user).or_default().clone();
        self.take(of_user, amount)
    }

    /// How much is held, by all users together.
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// How much a user holds.
    pub fn used_by(&self, user: u32) -> usize {
        self.users().get(&user).map_or(0, |used| used.load(Ordering::Relaxed))
    }

    fn take(&self, user: Arc<AtomicUsize>, amount: usize) -> Held {
        user.fetch_add(amount, Ordering::Relaxed);
        self.0.used.fetch_add(amount, Ordering::Relaxed);
        Held { whole: self.0.clone(), user, amount }
    }

    fn users(&self) -> MutexGuard<'_, HashMap<u32, Arc<AtomicUsize>>> {
        self.0.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.user.fetch_sub(self.amount, Ordering::Relaxed);
        self.whole.used.fetch_sub(self.amount, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hold_all(shares: &Shares, user: u32) -> Vec<Held> {
        std::iter::from_fn(|| shares.hold(user, 1)).collect()
    }

    #[test]
    fn one_greedy_user_gets_half_and_two_get_a_third_each_of_three_quarters() {
        let shares = Shares::new(80);
        let first = hold_all(&shares, 1);
        assert_eq!(first.len(), 30);
        drop(first);
        let (mut one, mut two) = (Vec::new(), Vec::new());
        for _ in 0..60 {
            one.extend(shares.hold(1, 1));
            two.extend(shares.hold(2, 1));
        }
        assert_eq!((one.len(), two.len()), (20, 20));
        assert_eq!(shares.used(), 40);
    }

    #[test]
    fn what_is_dropped_can_be_held_again() {
        let shares = Shares::new(10);
        let held = shares.hold(1, 4).unwrap();
        assert!(shares.hold(1, 1).is_none());
        assert_eq!((shares.used(), shares.used_by(1)), (4, 4));
        drop(held);
        assert_eq!((shares.used(), shares.used_by(1)), (0, 0));
        assert!(shares.hold(1, 4).is_some());
    }

    #[test]
    fn users_that_hold_nothing_are_forgotten() {
        let shares = Shares::new(1 << 20);
        let kept = shares.hold(7, 10);
        for user in 0..100_000 {
            drop(shares.hold(user, 1));
        }
        assert!(shares.users().len() <= USERS_KEPT + 2);
        assert_eq!(shares.used_by(7), 10);
        drop(kept);
    }

    proptest! {
        /// However greedy others are.
        #[test]
        fn something_is_always_left_for_the_next_user(wishes in proptest::collection::vec((0u32..20, 0usize..200), 0..400)) {
            let shares = Shares::new(2560);
            let held: Vec<_> = wishes.iter().filter_map(|(user, amount)| shares.hold(*user, *amount)).collect();
            prop_assert!(shares.used() <= 2560);
            let next: Vec<_> = (100..130).map(|user| hold_all(&shares, user)).collect();
            prop_assert!(next.iter().all(|held| held.len() >= 10), "others hold {}", shares.used());
            drop(next);
            drop(held);
            prop_assert_eq!(shares.used(), 0);
        }
    }
}
