//! The node's memory, and what the lack of it caused: `/proc/meminfo` and `/proc/vmstat`.

use crate::read::{kib, lines, number, pairs};

/// `/proc/meminfo`, in bytes unless it is a count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    pub total: Option<u64>,
    pub free: Option<u64>,
    /// What programs could get without swapping; kernels before 3.14 do not estimate it.
    pub available: Option<u64>,
    pub buffers: Option<u64>,
    /// Includes `shmem`, which cannot be dropped.
    pub cached: Option<u64>,
    pub shmem: Option<u64>,
    pub slab_reclaimable: Option<u64>,
    pub dirty: Option<u64>,
    pub swap_total: Option<u64>,
    pub swap_free: Option<u64>,
    /// Promised to programs, used or not.
    pub committed: Option<u64>,
    /// A count of pages of the default size; they are not in `free`, whoever uses them.
    pub huge_pages_total: Option<u64>,
    pub huge_pages_free: Option<u64>,
    pub huge_page_size: Option<u64>,
}

/// `/proc/vmstat`, counts since boot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Paging {
    /// Pages.
    pub swapped_in: Option<u64>,
    pub swapped_out: Option<u64>,
    pub major_faults: Option<u64>,
    /// Processes killed for want of memory, of the node's or of a group's; since 4.13.
    pub oom_kills: Option<u64>,
}

/// `MemTotal:       24684112 kB` and its like.
pub fn parse_meminfo(text: &[u8]) -> Memory {
    let mut memory = Memory::default();
    for (name, value) in pairs(text) {
        match name {
            b"MemTotal" => memory.total = kib(value),
            b"MemFree" => memory.free = kib(value),
            b"MemAvailable" => memory.available = kib(value),
            b"Buffers" => memory.buffers = kib(value),
            b"Cached" => memory.cached = kib(value),
            b"Shmem" => memory.shmem = kib(value),
            b"SReclaimable" => memory.slab_reclaimable = kib(value),
            b"Dirty" => memory.dirty = kib(value),
            b"SwapTotal" => memory.swap_total = kib(value),
            b"SwapFree" => memory.swap_free = kib(value),
            b"Committed_AS" => memory.committed = kib(value),
            b"HugePages_Total" => memory.huge_pages_total = number(value),
            b"HugePages_Free" => memory.huge_pages_free = number(value),
            b"Hugepagesize" => memory.huge_page_size = kib(value),
            _ => {}
        }
    }
    memory
}

/// `pswpin 0` and its like.
pub fn parse_vmstat(text: &[u8]) -> Paging {
    let mut paging = Paging::default();
    for line in lines(text) {
        let mut words = line.splitn(2, |byte| *byte == b' ');
        let (Some(name), Some(value)) = (words.next(), words.next()) else { continue };
        match name {
            b"pswpin" => paging.swapped_in = number(value),
            b"pswpout" => paging.swapped_out = number(value),
            b"pgmajfault" => paging.major_faults = number(value),
            b"oom_kill" => paging.oom_kills = number(value),
            _ => {}
        }
    }
    paging
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_missing_or_odd_is_unknown() {
        let known = Memory { total: Some(2048), free: Some(0), ..Memory::default() };
        for (text, expected) in [
            ("MemTotal:  2 kB\nMemFree: 0 kB\n", known),
            ("MemTotal:  2 kB\nMemFree: 0 kB\nMemAvailable: x kB\nCached:\nSwapTotal: 5\n", known),
            ("MemTotal:  2 kB\nMemFree: 0 kB\nShmem: 18446744073709551615 kB\n", known),
            ("SwapCached: 1 kB\nActive(file): 2 kB\n", Memory::default()),
            ("", Memory::default()),
        ] {
            assert_eq!(parse_meminfo(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn names_are_compared_whole() {
        for (text, expected) in [
            ("oom_kill 3\n", Paging { oom_kills: Some(3), ..Paging::default() }),
            ("oom_kill_x 3\nthp_pgmajfault 4\npswpin\npswpout x\n", Paging::default()),
        ] {
            assert_eq!(parse_vmstat(text.as_bytes()), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_meminfo(&bytes);
            let _ = parse_meminfo(&[b"MemTotal: ", bytes.as_slice()].concat());
            let _ = parse_vmstat(&bytes);
            let _ = parse_vmstat(&[b"oom_kill ", bytes.as_slice()].concat());
        }
    }
}
