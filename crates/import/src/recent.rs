//! A table that keeps what was used recently and has a bound.
//!
//! Two generations: what is new or used goes to the young one; when that has half of the bound, it becomes the old one
//! and the old one is forgotten. So nothing used in the last half of the bound is lost, and no list of who was used when
//! is kept.

use std::collections::HashMap;
use std::hash::Hash;
use std::mem;

pub struct Recent<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    half: usize,
    forgotten: u64,
}

impl<K: Eq + Hash, V> Recent<K, V> {
    /// With room for `bound` entries, and never less than for two.
    pub fn new(bound: usize) -> Self {
        Recent { young: HashMap::new(), old: HashMap::new(), half: (bound / 2).max(1), forgotten: 0 }
    }

    /// What is known under this key, which is used by asking for it.
    pub fn get(&mut self, key: &K) -> Option<&mut V> {
        if !self.young.contains_key(key) {
            let (key, value) = self.old.remove_entry(key)?;
            self.insert(key, value);
        }
        self.young.get_mut(key)
    }

    pub fn insert(&mut self, key: K, value: V) {
        self.old.remove(&key);
        if self.young.len() >= self.half && !self.young.contains_key(&key) {
            self.forgotten += self.old.len() as u64;
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }

    /// All that is known, in no order; nothing is used by it.
    pub fn values(&mut self) -> impl Iterator<Item = &mut V> {
        self.young.values_mut().chain(self.old.values_mut())
    }

    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many entries had to go to make room.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_rest_goes() {
        let mut recent = Recent::new(10);
        recent.insert(0, 0);
        for key in 1..1000 {
            recent.insert(key, key);
            assert!(recent.len() <= 10);
            assert_eq!(recent.get(&0), Some(&mut 0), "{key}");
        }
        assert_eq!(recent.get(&999), Some(&mut 999));
        assert_eq!(recent.get(&500), None);
        assert!(recent.forgotten() > 900 && recent.forgotten() + recent.len() as u64 >= 1000);
    }

    #[test]
    fn an_entry_is_in_one_generation() {
        let mut recent = Recent::new(4);
        for key in [1, 2, 3, 1] {
            recent.insert(key, key);
        }
        assert_eq!((recent.len(), recent.get(&1)), (3, Some(&mut 1)));
        assert_eq!(recent.get(&4), None);
    }
}
