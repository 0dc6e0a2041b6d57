//! Three clocks, and the way from one to another.
//!
//! The kernel's events and guests' messages carry `CLOCK_MONOTONIC`, which stands still while the machine is suspended; `/proc`
//! counts in `CLOCK_BOOTTIME`, which goes on; records carry the time of day, which can be set at any moment. Slewing (NTP,
//! `adjtime`) moves all three alike, so two of them differ by a number that changes only when the clock is set or the machine
//! was suspended. [`Clock::follow`] notices either.
//!
//! Within the agent times are monotonic and become times of day when a record is made, all those of one record with one
//! offset: durations are right whatever was done to the clock, and new records have the new time. What names a thing (the start
//! time in a process's key) is told once and kept.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use rustix::time::{ClockId, clock_gettime};

/// Two times of one start may differ by this: `/proc` counts in ticks, which are coarse.
const SAME_NS: u64 = 20_000_000;
/// A smaller difference between two looks at the clocks is that of the looking.
const NOTICED_NS: u64 = 1_000_000;
/// Looks at three clocks within this time are one look.
const AT_ONCE_NS: u64 = 100_000;
/// How often it is tried to look at all three at once.
const TRIES: usize = 4;
/// Changes that are remembered. A machine whose clock is set every minute has other problems.
const CHANGES_MAX: usize = 256;

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

/// All clocks at one moment, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    pub monotonic: u64,
    pub boottime: u64,
    pub wall: u64,
}

impl Moment {
    /// Looks at all clocks, and again if it was interrupted in between.
    fn now() -> Moment {
        let look = || {
            let (monotonic, boottime, wall) =
                (monotonic_ns(), read(ClockId::Boottime), read(ClockId::Realtime));
            (monotonic_ns().saturating_sub(monotonic), Moment { monotonic, boottime, wall })
        };
        let mut best = look();
        for _ in 1..TRIES {
            if best.0 <= AT_ONCE_NS {
                break;
            }
            let again = look();
            if again.0 < best.0 {
                best = again;
            }
        }
        best.1
    }

    fn wall_minus_boottime(&self) -> i64 {
        self.wall.wrapping_sub(self.boottime).cast_signed()
    }

    fn suspended(&self) -> u64 {
        self.boottime.saturating_sub(self.monotonic)
    }
}

/// What has changed between two looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Change {
    /// The clock was set: by so many nanoseconds.
    pub set_by: i64,
    /// The machine was suspended for so long.
    pub suspended: u64,
}

/// Turns times of one clock into those of another. Copies share what is known.
#[derive(Clone)]
pub struct Clock(Arc<Shared>);

struct Shared {
    look: Arc<dyn Fn() -> Moment + Send + Sync>,
    tick_ns: u64,
    /// When it was looked at last, monotonic.
    looked: AtomicU64,
    known: RwLock<Known>,
}

/// The differences between the clocks since the start, the present ones last; never empty.
#[derive(Clone)]
struct Known {
    /// Time of day less boottime.
    offsets: Vec<i64>,
    /// Since when (monotonic) the machine had been suspended for how long in all.
    suspended: Vec<(u64, u64)>,
}

impl Known {
    fn offset(&self) -> i64 {
        self.offsets.last().copied().unwrap_or(0)
    }

    fn suspended(&self) -> u64 {
        self.suspended.last().map_or(0, |(_, suspended)| *suspended)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.known();
        f.debug_struct("Clock")
            .field("offsets", &known.offsets)
            .field("suspended", &known.suspended)
            .finish_non_exhaustive()
    }
}

impl Clock {
    /// Compares the clocks now.
    pub fn now() -> Clock {
        Clock::with(Moment::now)
    }

    /// A clock that looks at others than the machine's.
    pub fn with(look: impl Fn() -> Moment + Send + Sync + 'static) -> Clock {
        let moment = look();
        let known =
            Known { offsets: vec![moment.wall_minus_boottime()], suspended: vec![(0, moment.suspended())] };
        Clock(Arc::new(Shared {
            look: Arc::new(look),
            tick_ns: 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1),
            looked: AtomicU64::new(moment.monotonic),
            known: RwLock::new(known),
        }))
    }

    /// Goes on from the offsets that an earlier agent has known in this boot.
    pub fn after(self, earlier: &[i64]) -> Clock {
        let mut known = self.0.known.write().unwrap_or_else(PoisonError::into_inner);
        let now = known.offset();
        known.offsets = earlier.to_vec();
        if earlier.last().is_none_or(|last| last.abs_diff(now) >= NOTICED_NS) {
            known.offsets.push(now);
        }
        drop(known);
        self
    }

    /// A clock that keeps to how it is set now, so that all times of one record are told by one.
    pub fn at_rest(&self) -> Clock {
        let Shared { look, tick_ns, looked, .. } = &*self.0;
        Clock(Arc::new(Shared {
            look: look.clone(),
            tick_ns: *tick_ns,
            looked: AtomicU64::new(looked.load(Ordering::Relaxed)),
            known: RwLock::new(self.known().clone()),
        }))
    }

    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.0.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks whether the clock was set or the machine suspended; to be called often.
    pub fn follow(&self) -> Option<Change> {
        let moment = (self.0.look)();
        let before = self.0.looked.fetch_max(moment.monotonic, Ordering::Relaxed);
        let change_of = |known: &Known| {
            let set_by = moment.wall_minus_boottime().wrapping_sub(known.offset());
            let suspended = moment.suspended().saturating_sub(known.suspended());
            let change = Change {
                set_by: if set_by.unsigned_abs() < NOTICED_NS { 0 } else { set_by },
                suspended: if suspended < NOTICED_NS { 0 } else { suspended },
            };
            (change != Change::default()).then_some(change)
        };
        change_of(&self.known())?;
        let mut known = self.0.known.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have noticed it as well.
        let change = change_of(&known)?;
        if change.set_by != 0 {
            push(&mut known.offsets, moment.wall_minus_boottime());
        }
        if change.suspended != 0 {
            // The agent is woken by every exec, so what it has not seen yet most likely came after.
            push(&mut known.suspended, (before.saturating_add(1), moment.suspended()));
        }
        Some(change)
    }

    /// All offsets of the time of day from boottime until now, the present one last.
    pub fn offsets(&self) -> Vec<i64> {
        self.known().offsets.clone()
    }

    /// The present offset of the time of day from boottime.
    pub fn offset(&self) -> i64 {
        self.known().offset()
    }

    /// The time of day of a monotonic time, by the clock as it is set now.
    pub fn wall(&self, monotonic: u64) -> u64 {
        let offset = self.offset();
        self.boottime(monotonic).saturating_add_signed(offset)
    }

    /// The boottime of a monotonic time.
    pub fn boottime(&self, monotonic: u64) -> u64 {
        let known = self.known();
        let held = known.suspended.iter().rev().find(|(since, _)| *since <= monotonic);
        monotonic.saturating_add(held.or(known.suspended.first()).map_or(0, |(_, suspended)| *suspended))
    }

    /// The monotonic time of a boottime.
    fn monotonic_of(&self, boottime: u64) -> u64 {
        let known = self.known();
        let mut earlier = known.suspended.iter().rev().skip(1);
        for (since, suspended) in known.suspended.iter().rev() {
            let monotonic = boottime.saturating_sub(*suspended);
            let was_before = |(_, suspended): &(u64, u64)| boottime.saturating_sub(*suspended) < *since;
            // What was not before the machine slept was after, though that had not been noticed yet.
            if monotonic >= *since || !earlier.next().is_some_and(was_before) {
                return monotonic;
            }
        }
        boottime
    }

    /// The monotonic time of a time of day that was told by the clock as it was set with this offset; that of an earlier boot
    /// is zero.
    pub fn monotonic(&self, wall: u64, offset: i64) -> u64 {
        self.monotonic_of(wall.checked_add_signed(offset.saturating_neg()).unwrap_or(0))
    }

    /// Clock ticks since boot.
    pub fn ticks_now(&self) -> u64 {
        (self.0.look)().boottime / self.0.tick_ns
    }

    fn boottime_of(&self, ticks: u64) -> u64 {
        ticks.saturating_mul(self.0.tick_ns)
    }

    /// The monotonic time of a process's start in clock ticks since boot.
    pub fn from_ticks(&self, ticks: u64) -> u64 {
        self.monotonic_of(self.boottime_of(ticks))
    }

    /// Whether a process that began at this monotonic time may be the one that began at these ticks. When it began between a
    /// suspension and its notice, both readings are possible.
    pub fn is_same_start(&self, monotonic: u64, ticks: u64) -> bool {
        let boottime = self.boottime_of(ticks);
        let known = self.known();
        known
            .suspended
            .iter()
            .any(|(_, suspended)| boottime.saturating_sub(*suspended).abs_diff(monotonic) < SAME_NS)
    }

    /// Whether a process that began at these ticks surely began after this monotonic time.
    pub fn is_later_start(&self, monotonic: u64, ticks: u64) -> bool {
        let boottime = self.boottime_of(ticks);
        let known = self.known();
        known
            .suspended
            .iter()
            .all(|(_, suspended)| boottime.saturating_sub(*suspended) > monotonic.saturating_add(SAME_NS))
    }

    /// Whether a process that began at these ticks has the key of this start, by any setting of the clock in this boot.
    pub fn is_key_of(&self, wall: u64, ticks: u64, tolerance: u64) -> bool {
        let boottime = self.boottime_of(ticks);
        let known = self.known();
        known.offsets.iter().any(|offset| boottime.saturating_add_signed(*offset).abs_diff(wall) < tolerance)
    }
}

fn push<T>(all: &mut Vec<T>, one: T) {
    if all.len() >= CHANGES_MAX {
        all.remove(0);
    }
    all.push(one);
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use proptest::prelude::*;

    pub const S: u64 = 1_000_000_000;
    const HOUR: u64 = 3600 * S;
    /// 2026-11-16.
    const DAY: u64 = 1_794_787_200 * S;

    /// Clocks that are moved by hand.
    #[derive(Clone)]
    pub struct Hands(Arc<RwLock<Moment>>);

    impl Hands {
        pub fn new(monotonic: u64, boottime: u64, wall: u64) -> (Hands, Clock) {
            let hands = Hands(Arc::new(RwLock::new(Moment { monotonic, boottime, wall })));
            let seen = hands.0.clone();
            (hands, Clock::with(move || *seen.read().unwrap()))
        }

        pub fn pass(&self, time: u64) {
            let mut moment = self.0.write().unwrap();
            *moment = Moment {
                monotonic: moment.monotonic + time,
                boottime: moment.boottime + time,
                wall: moment.wall + time,
            };
        }

        pub fn set(&self, by: i64) {
            let mut moment = self.0.write().unwrap();
            moment.wall = moment.wall.saturating_add_signed(by);
        }

        pub fn suspend(&self, time: u64) {
            let mut moment = self.0.write().unwrap();
            moment.boottime += time;
            moment.wall += time;
        }

        pub fn now(&self) -> Moment {
            *self.0.read().unwrap()
        }
    }

    #[test]
    fn what_is_done_to_the_clock_is_noticed_once() {
        let (hands, clock) = Hands::new(100 * S, 100 * S, DAY);
        let hour = HOUR.cast_signed();
        for (set_by, suspended, expected) in [
            (0, 0, None),
            // Less than a look may take.
            (900_000, 0, None),
            // With the one before it is enough.
            (200_000, 0, Some(Change { set_by: 1_100_000, suspended: 0 })),
            (-hour, 0, Some(Change { set_by: -hour, suspended: 0 })),
            (hour, 0, Some(Change { set_by: hour, suspended: 0 })),
            (0, HOUR, Some(Change { set_by: 0, suspended: HOUR })),
            (-5, 2 * HOUR, Some(Change { set_by: 0, suspended: 2 * HOUR })),
            (hour, S, Some(Change { set_by: hour - 5, suspended: S })),
        ] {
            hands.pass(S);
            hands.set(set_by);
            hands.suspend(suspended);
            assert_eq!(clock.follow(), expected, "{set_by} {suspended}");
            assert_eq!(clock.clone().follow(), None);
            let now = hands.now();
            assert!(clock.wall(now.monotonic).abs_diff(now.wall) < NOTICED_NS);
            assert_eq!(clock.boottime(now.monotonic), now.boottime);
        }
    }

    #[test]
    fn a_duration_is_right_whatever_was_done_in_between() {
        for (set_by, suspended, expected) in [
            (0, 0, 20 * S),
            (HOUR.cast_signed(), 0, 20 * S),
            (-HOUR.cast_signed(), 0, 20 * S),
            (-DAY.cast_signed(), 0, 20 * S),
            (0, HOUR, HOUR + 20 * S),
            (-HOUR.cast_signed(), HOUR, HOUR + 20 * S),
        ] {
            let (hands, clock) = Hands::new(100 * S, 100 * S, DAY + 1000 * S);
            let start = hands.now().monotonic;
            hands.pass(10 * S);
            clock.follow();
            hands.set(set_by);
            hands.suspend(suspended);
            hands.pass(10 * S);
            clock.follow();
            let end = hands.now();
            assert_eq!(clock.wall(end.monotonic), end.wall);
            assert_eq!(clock.wall(end.monotonic) - clock.wall(start), expected, "{set_by} {suspended}");
        }
    }

    #[test]
    fn a_process_is_the_same_before_and_after_the_machine_slept() {
        let ticks = |moment: Moment| moment.boottime / 10_000_000;
        let (hands, clock) = Hands::new(100 * S, 150 * S, DAY);
        let before = hands.now();
        hands.pass(S);
        clock.follow();
        hands.suspend(HOUR);
        hands.pass(S / 5);
        // It begins when the machine has woken up, and the agent does not know that yet.
        let between = hands.now();
        hands.pass(S / 5);
        clock.follow();
        let after = hands.now();
        for one in [before, between, after] {
            assert!(clock.is_same_start(one.monotonic, ticks(one)));
            assert_eq!(clock.from_ticks(ticks(one)), one.monotonic);
            assert_eq!(clock.wall(one.monotonic), one.wall);
            assert!(!clock.is_later_start(one.monotonic, ticks(one)));
        }
        for (one, other) in [(before, between), (before, after), (between, after)] {
            assert!(!clock.is_same_start(one.monotonic, ticks(other)));
            assert!(clock.is_later_start(one.monotonic, ticks(other)));
            assert!(!clock.is_later_start(other.monotonic, ticks(one)));
        }
    }

    #[test]
    fn a_key_is_found_by_the_clock_it_was_made_with() {
        let (hands, clock) = Hands::new(100 * S, 100 * S, DAY);
        let first = clock.wall(50 * S);
        hands.set(HOUR.cast_signed());
        clock.follow();
        let second = clock.wall(60 * S);
        let next = Hands::new(110 * S, 110 * S, DAY + 10 * S).1.after(&clock.offsets());
        for (wall, ticks, expected) in
            [(first, 5000, true), (second, 6000, true), (second, 5000, false), (first, 6000, false)]
        {
            assert_eq!(next.is_key_of(wall, ticks, S), expected, "{wall} {ticks}");
        }
        assert_eq!(next.offsets().len(), 3);
        // Nothing was done in between.
        assert_eq!(Hands::new(S, S, DAY + HOUR - 99 * S).1.after(&clock.offsets()).offsets().len(), 2);
        let last = *clock.offsets().last().unwrap();
        assert_eq!(next.monotonic(second, last), 60 * S);
        assert_eq!(next.monotonic(5, last), 0);
    }

    #[test]
    fn a_clock_that_is_set_again_and_again_costs_no_memory() {
        let (hands, clock) = Hands::new(100 * S, 100 * S, DAY);
        for _ in 0..3 * CHANGES_MAX {
            hands.pass(S);
            hands.set(S.cast_signed());
            hands.suspend(S);
            clock.follow();
        }
        assert_eq!(clock.offsets().len(), CHANGES_MAX);
        let now = hands.now();
        assert_eq!((clock.wall(now.monotonic), clock.boottime(now.monotonic)), (now.wall, now.boottime));
        // Long before what is remembered: nothing sensible, and no harm.
        clock.boottime(0);
        clock.from_ticks(0);
    }

    #[test]
    fn this_machines_clocks_do_not_change_while_nobody_touches_them() {
        let clock = Clock::now();
        assert!((0..2000).all(|_| clock.follow().is_none()));
        assert!(clock.wall(monotonic_ns()).abs_diff(wall_ns()) < 50_000_000);
    }

    proptest! {
        /// Whatever is done, and when: times that were seen become themselves again.
        #[test]
        fn there_and_back(steps in proptest::collection::vec((0u64..HOUR, 0u8..4, any::<i32>()), 1..30)) {
            let (hands, clock) = Hands::new(100 * S, 200 * S, DAY);
            let mut seen = Vec::new();
            for (time, what, by) in steps {
                hands.pass(time + S);
                clock.follow();
                seen.push(hands.now());
                match what {
                    0 => hands.set(i64::from(by) * 1000),
                    1 => hands.suspend(u64::from(by.unsigned_abs())),
                    _ => {}
                }
                clock.follow();
            }
            for moment in seen {
                prop_assert!(clock.boottime(moment.monotonic).abs_diff(moment.boottime) < 2 * NOTICED_NS);
                let ticks = moment.boottime / 10_000_000;
                prop_assert!(clock.is_same_start(moment.monotonic, ticks));
                prop_assert!(clock.from_ticks(ticks).abs_diff(moment.monotonic) < SAME_NS);
            }
        }
    }
}
