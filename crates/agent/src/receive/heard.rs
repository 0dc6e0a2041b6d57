//! How far the receiver has come: whether the message of a program that has ended may still be on its way.
//!
//! A guest speaks before its program's `main`. When the program has ended, its message waits in a socket or in its user's
//! line, or it has been read. So nobody has to guess how long a message may take on a node with more work than
//! processors: it is enough to know that the sockets were empty at some moment after the end, and the user's line since.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::workers::Workers;

/// Tells how far the receiver has come.
#[derive(Clone)]
pub struct Hearing {
    /// Whoever connected before this moment, monotonic, was put into a line.
    accepted_until: Arc<AtomicU64>,
    workers: Workers,
}

/// How far the receiver had come at some moment.
#[derive(Debug, Default)]
pub struct Heard {
    pub accepted_until: u64,
    /// Users with connections that are not read yet.
    pub unread: HashSet<u32>,
}

impl Hearing {
    pub fn new(workers: Workers) -> Hearing {
        Hearing { accepted_until: Arc::default(), workers }
    }

    pub fn note_accepted_until(&self, time: u64) {
        self.accepted_until.store(time, Ordering::Release);
    }

    /// To be called before messages are taken: all that count as read have been handed on.
    pub fn so_far(&self) -> Heard {
        // In this order: what was accepted until then is in a line, or read.
        let accepted_until = self.accepted_until.load(Ordering::Acquire);
        Heard { accepted_until, unread: self.workers.users_with_lines() }
    }
}

impl Heard {
    /// Whether all was read that a user's programs had sent until a moment.
    pub fn is_all_of(&self, user: Option<u32>, until: u64) -> bool {
        let is_read = match user {
            Some(user) => !self.unread.contains(&user),
            None => self.unread.is_empty(),
        };
        until <= self.accepted_until && is_read
    }
}
