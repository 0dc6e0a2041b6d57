//! What is remembered, bounded in bytes. When it is full, the user who holds most loses the oldest, and nobody else
//! loses anything.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// What an entry takes besides its content: its places in the map and in the order of its user.
const OVERHEAD: usize = 128;

struct Entry<V> {
    user: u32,
    value: V,
    bytes: usize,
    /// When it was asked for last.
    used: u64,
}

struct Held<K> {
    bytes: usize,
    /// Keys with the time of their use when they were put here; one that was used since goes to the end once more.
    order: VecDeque<(u64, K)>,
}

/// A map in which each entry belongs to the user who caused it.
pub struct Cache<K, V> {
    entries: HashMap<K, Entry<V>>,
    users: HashMap<u32, Held<K>>,
    bytes: usize,
    max: usize,
    clock: u64,
}

impl<K: Clone + Eq + Hash, V> Cache<K, V> {
    /// Holds up to `max` bytes.
    pub fn new(max: usize) -> Self {
        Cache { entries: HashMap::new(), users: HashMap::new(), bytes: 0, max, clock: 0 }
    }

    /// What it takes now.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn get(&mut self, key: &K) -> Option<&V> {
        self.get_mut(key).map(|value| &*value)
    }

    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.clock += 1;
        let entry = self.entries.get_mut(key)?;
        entry.used = self.clock;
        Some(&mut entry.value)
    }

    pub fn contains(&self, key: &K) -> bool {
        self.entries.contains_key(key)
    }

    /// Remembers a value of `bytes` bytes that a user has caused; makes room if there is none. A newer value of the same
    /// key stays with whoever caused the first.
    pub fn insert(&mut self, user: u32, key: K, value: V, bytes: usize) {
        self.clock += 1;
        let (bytes, used) = (bytes + OVERHEAD, self.clock);
        let known = self.entries.get_mut(&key);
        let user = known.as_ref().map_or(user, |entry| entry.user);
        let before = known.as_ref().map_or(0, |entry| entry.bytes);
        let held = self.users.entry(user).or_insert_with(|| Held { bytes: 0, order: VecDeque::new() });
        held.bytes = held.bytes + bytes - before;
        self.bytes = self.bytes + bytes - before;
        match known {
            Some(entry) => *entry = Entry { user, value, bytes, used },
            None => {
                held.order.push_back((used, key.clone()));
                self.entries.insert(key, Entry { user, value, bytes, used });
            }
        }
        while self.bytes > self.max && self.forget_one() {}
    }

    /// Forgets an entry that is not in its user's order any more.
    fn release(&mut self, key: &K) {
        let Some(entry) = self.entries.remove(key) else { return };
        self.bytes -= entry.bytes;
        if let Some(held) = self.users.get_mut(&entry.user) {
            held.bytes -= entry.bytes;
            if held.order.is_empty() {
                self.users.remove(&entry.user);
            }
        }
    }

    /// Forgets the oldest entry of the user who holds most.
    fn forget_one(&mut self) -> bool {
        let Some(most) = self.users.values_mut().max_by_key(|held| held.bytes) else { return false };
        // Whatever was used since it was put there gets one more chance.
        for _ in 0..most.order.len() {
            let Some((since, key)) = most.order.pop_front() else { return false };
            let used = self.entries.get(&key).map_or(since, |entry| entry.used);
            if used == since {
                self.release(&key);
                return true;
            }
            most.order.push_back((used, key));
        }
        let Some((_, key)) = most.order.pop_front() else { return false };
        self.release(&key);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_holds_most_loses_their_oldest() {
        let mut cache = Cache::new(10 * (OVERHEAD + 100));
        for key in 0..3 {
            cache.insert(1, key, (), 100);
        }
        for key in 100..200 {
            cache.insert(2, key, (), 100);
            assert!(cache.bytes() <= 10 * (OVERHEAD + 100));
        }
        assert!((0..3).all(|key| cache.contains(&key)), "another user's flood");
        assert_eq!(
            (100..200).filter(|key| cache.contains(key)).collect::<Vec<_>>(),
            (193..200).collect::<Vec<_>>()
        );
    }

    #[test]
    fn what_is_used_stays_longer() {
        let mut cache = Cache::new(3 * (OVERHEAD + 1));
        (0..3).for_each(|key| cache.insert(1, key, key, 1));
        assert_eq!(cache.get(&0), Some(&0));
        cache.insert(1, 3, 3, 1);
        assert!(cache.contains(&0) && !cache.contains(&1));
    }

    #[test]
    fn an_entry_that_does_not_fit_at_all_is_not_kept() {
        let mut cache = Cache::new(1000);
        cache.insert(1, "small", (), 10);
        cache.insert(2, "large", (), 5000);
        assert!(cache.contains(&"small") && !cache.contains(&"large"));
        cache.insert(2, "small", (), 20);
        assert_eq!(cache.bytes(), OVERHEAD + 20, "put once");
        (0..100).for_each(|_| cache.insert(2, "small", (), 20));
        assert_eq!(cache.bytes(), OVERHEAD + 20, "and still once");
    }
}
