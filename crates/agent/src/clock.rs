//! Two clocks: the kernel's events carry `CLOCK_MONOTONIC`, records carry the time of day.

use rustix::time::{ClockId, clock_gettime};

/// Turns monotonic times into times of day. The offset is taken once, so that a process keeps its start time
/// whatever the administrator does to the clock.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    wall_minus_monotonic: u64,
    boottime_minus_monotonic: u64,
    tick_ns: u64,
}

/// `CLOCK_MONOTONIC` in nanoseconds.
pub fn monotonic_ns() -> u64 {
    read(ClockId::Monotonic)
}

/// Nanoseconds since 1970.
pub fn wall_ns() -> u64 {
    read(ClockId::Realtime)
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec.max(0) as u64 * 1_000_000_000 + time.tv_nsec.max(0) as u64
}

impl Clock {
    /// Compares the clocks now.
    pub fn now() -> Clock {
        let monotonic = monotonic_ns();
        Clock {
            wall_minus_monotonic: wall_ns().saturating_sub(monotonic),
            boottime_minus_monotonic: read(ClockId::Boottime).saturating_sub(monotonic),
            tick_ns: 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1),
        }
    }

    /// The time of day of a monotonic time.
    pub fn wall(&self, monotonic: u64) -> u64 {
        monotonic.saturating_add(self.wall_minus_monotonic)
    }

    /// The monotonic time of a time of day; that of an earlier boot is zero.
    pub fn monotonic(&self, wall: u64) -> u64 {
        wall.saturating_sub(self.wall_minus_monotonic)
    }

    /// Clock ticks since boot.
    pub fn ticks_now(&self) -> u64 {
        read(ClockId::Boottime) / self.tick_ns
    }

    /// The monotonic time of a process's start in clock ticks since boot.
    pub fn from_ticks(&self, ticks: u64) -> u64 {
        ticks.saturating_mul(self.tick_ns).saturating_sub(self.boottime_minus_monotonic)
    }
}
