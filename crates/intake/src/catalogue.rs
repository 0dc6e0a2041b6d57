//! What is stored already of the things that many rows share, so that a batch which brings them again costs little.
//!
//! An agent sends the lists and files its entries refer to with every batch. Those whose very bytes have been stored are
//! recognised by a hash of them and not decoded again. The catalogue names nothing that is not durable: what
//! a transaction brings comes in when it is committed.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Environments of which it is remembered that they are stored; others may be stored again.
const ENVIRONMENTS: usize = 100_000;
/// Payloads that are remembered: about 100 for each of 5,000 nodes, some 60 MB.
const PAYLOADS: usize = 500_000;

/// Names a payload by its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PayloadKey(u128);

impl PayloadKey {
    pub fn of(payload: &[u8]) -> PayloadKey {
        PayloadKey(xxh3_128(payload))
    }

    /// A list with the files its objects refer to: the same bytes mean other files in another agent's mouth.
    pub fn with_files(self, files: &[Option<u64>]) -> PayloadKey {
        let mut hash = Xxh3::new();
        hash.update(&self.0.to_le_bytes());
        for file in files {
            hash.update(&[u8::from(file.is_some())]);
            hash.update(&file.unwrap_or_default().to_le_bytes());
        }
        PayloadKey(hash.digest128())
    }
}

/// What a payload was found to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A file: the agent's number and the store's.
    File { number: u64, id: u64 },
    /// A list: the agent's number, and the agent's numbers of its objects' files.
    List { number: u64, files: Arc<[Option<u64>]> },
    /// A list together with its files: the store's number.
    Resolved(u64),
}

/// What is stored. Shared by those who prepare batches; only the writer changes it.
#[derive(Default)]
pub struct Catalogue(RwLock<Stored>);

/// The content of a [`Catalogue`].
#[derive(Default)]
pub struct Stored {
    /// Counts how often something was deleted: what was prepared before is not complete any more.
    pub epoch: u64,
    /// Lists, objects and modules.
    pub known: HashSet<u64>,
    /// Files, and whether with their hash.
    pub files: HashMap<u64, bool>,
    pub environments: Recent<u64, (), ENVIRONMENTS>,
    pub payloads: Recent<PayloadKey, Item, PAYLOADS>,
}

impl Stored {
    /// Whether a list, an object, modules or an environment is stored.
    pub fn knows(&self, id: u64) -> bool {
        self.known.contains(&id) || self.environments.get(&id).is_some()
    }
}

impl Catalogue {
    pub fn read(&self) -> RwLockReadGuard<'_, Stored> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn change(&self, change: impl FnOnce(&mut Stored)) {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner));
    }
}

/// A map that forgets the oldest of more than `N` keys.
pub struct Recent<K, V, const N: usize> {
    values: HashMap<K, V>,
    order: VecDeque<K>,
}

impl<K, V, const N: usize> Default for Recent<K, V, N> {
    fn default() -> Self {
        Recent { values: HashMap::new(), order: VecDeque::new() }
    }
}

impl<K: Hash + Eq + Copy, V, const N: usize> Recent<K, V, N> {
    pub fn get(&self, key: &K) -> Option<&V> {
        self.values.get(key)
    }

    pub fn insert(&mut self, key: K, value: V) {
        if self.values.insert(key, value).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > N
            && let Some(oldest) = self.order.pop_front()
        {
            self.values.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten() {
        let mut recent: Recent<u64, (), 3> = Recent::default();
        [1, 2, 3, 2, 4].into_iter().for_each(|key| recent.insert(key, ()));
        let known: Vec<u64> = (1..=4).filter(|key| recent.get(key).is_some()).collect();
        assert_eq!(known, [2, 3, 4]);
    }

    #[test]
    fn the_same_bytes_with_other_files_are_another_list() {
        let key = PayloadKey::of(b"list");
        let with = |files: &[Option<u64>]| key.with_files(files);
        assert_eq!(with(&[Some(1)]), with(&[Some(1)]));
        assert_ne!(with(&[Some(1)]), with(&[Some(2)]));
        assert_ne!(with(&[Some(0)]), with(&[None]));
        assert_ne!(with(&[None]), with(&[]));
    }
}
