//! Everything that is counted: what came in, what went out, what was dropped and why.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Counters since the agent's start, shared by its threads.
        #[derive(Debug, Default)]
        pub struct Counters { $($(#[doc = $doc])+ pub $name: Counter,)+ }

        impl Counters {
            /// Name and value of each.
            pub fn snapshot(&self) -> Vec<(String, u64)> {
                vec![$((stringify!($name).to_owned(), self.$name.get()),)+]
            }

            /// Name and meaning of each.
            pub const MEANINGS: &'static [(&'static str, &'static str)] =
                &[$((stringify!($name), concat!($($doc),+)),)+];
        }
    };
}

counters! {
    /// Forks of processes and threads seen.
    forks,
    /// Program executions seen.
    execs,
    /// Ends of processes seen.
    exits,
    /// Messages of guests taken.
    guest_messages,
    /// Messages of guests that could not be decoded.
    guest_messages_bad,
    /// Messages of guests refused because their user sent too many.
    guest_messages_flood,
    /// Messages of guests for which no process was found.
    guest_messages_unmatched,
    /// Messages that were not read yet when the agent stopped.
    guest_messages_unread,
    /// Messages sent by another process or user than the one that connected, or in the name of an image of another user.
    guest_messages_forged,
    /// Messages beyond the first of an image.
    guest_messages_repeated,
    /// Messages that did not fit into their user's share of memory.
    guest_messages_memory,
    /// Messages that asked for an image to be suppressed although no rule of this agent suppresses it.
    guest_suppression_refused,
    /// Processes not followed because their user's share of memory was used up.
    processes_dropped_memory,
    /// Images recorded without arguments, environment and objects because their user's share of memory or of the spool was used up.
    images_without_content,
    /// Times that arguments, environment or mappings were not read because their user's process had kept the agent waiting.
    processes_unread,
    /// Images whose guest was there, or should have been, and was not heard.
    guest_lost,
    /// Images whose guest was switched off by the user.
    guest_off,
    /// Images that were not started with the guest.
    guest_not_loaded,
    /// Images whose guest was silent because a seccomp filter came with the process.
    guest_seccomp,
    /// Images without the guest because the executable gains privileges.
    guest_privileged,
    /// Images of which nobody knows why the guest was not heard: gone before they could be looked at.
    guest_unknown,
    /// Images that a rule of the site suppressed.
    suppressed_by_rule,
    /// Images finished, before folding.
    images_finished,
    /// Images that went into a row with others.
    images_folded,
    /// Images written to the spool while they still ran.
    reports_spooled,
    /// Images that could not be written while they still ran: the spool is full or the disk too slow.
    reports_dropped,
    /// Images written to the spool, as the sum of their rows' counts.
    images_spooled,
    /// Rows of images written to the spool.
    rows_spooled,
    /// Images that could not be written: the spool or the disk is full.
    images_dropped_spool,
    /// Images that could not be queued for writing: the disk is too slow.
    images_dropped_queue,
    /// Readings of the node and its jobs written to the spool.
    readings_spooled,
    /// Readings that could not be written: the spool is full or the disk too slow.
    readings_dropped,
    /// Batches that the server has acknowledged.
    batches_shipped,
    /// Entries in those batches.
    entries_shipped,
    /// Attempts to send a batch that failed.
    batches_failed,
    /// Entries that the server cannot use; they are kept in the spool's `refused`.
    entries_refused,
    /// Programs that ended before their path could be read.
    programs_without_path,
    /// Static programs seen.
    static_programs,
    /// Kernel events lost.
    events_lost,
    /// Records of mapped files that the kernel had no room for; `/proc` is asked instead.
    mappings_lost,
    /// Mapped files not kept because a process or its user has too many.
    mappings_dropped,
    /// Times the kernel's accounting queue overflowed.
    stats_overruns,
    /// Ends of processes whose beginning was never seen.
    exits_unknown,
    /// Files hashed.
    files_hashed,
    /// Files not hashed: too large, gone, unreadable or changed.
    files_unhashed,
    /// Files not looked at because too many were waiting.
    files_dropped,
    /// Objects in lists that a process claimed and the kernel did not report; their files were not looked at.
    objects_claimed,
    /// Processes whose late objects are not watched because too many descriptors are open.
    late_unwatched,
    /// Times this agent was switched off.
    switched_off,
    /// Times that a job's name was disputed: two processes of one control group named different jobs.
    job_names_disputed,
    /// Times the clock was set.
    clock_set,
    /// Times the machine was suspended.
    suspensions,
    /// State files and segments that were damaged at the start and set aside.
    state_files_damaged,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    pub fn one(&self) {
        self.add(1);
    }

    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The value now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
