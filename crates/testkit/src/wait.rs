//! The only place where a test pauses: it waits for a condition and never for a fixed time.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long a condition may take to become true. Only a test that fails takes that long, so the limit is generous enough for a machine
/// that is busy with other work.
pub const LIMIT: Duration = Duration::from_secs(300);

const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Waits until the condition holds; panics after [`LIMIT`], naming what was waited for.
#[track_caller]
pub fn wait_until(what: impl Display, mut condition: impl FnMut() -> bool) {
    wait_for(what, || condition().then_some(()));
}

/// Waits until `look` finds something, and returns it; panics after [`LIMIT`], naming what was waited for.
#[track_caller]
pub fn wait_for<T>(what: impl Display, look: impl FnMut() -> Option<T>) -> T {
    match within(LIMIT, look) {
        Some(found) => found,
        None => panic!("waited {} s for {what}", LIMIT.as_secs()),
    }
}

/// Whether the condition holds before [`LIMIT`] has passed, for tests whose own assertion says more than the name of a condition.
pub fn eventually(mut condition: impl FnMut() -> bool) -> bool {
    within(LIMIT, || condition().then_some(())).is_some()
}

/// Looks again and again until told to stop, and then once more: for observers beside the test itself.
pub fn look_until(stop: &AtomicBool, mut look: impl FnMut()) {
    while !stop.load(Ordering::Relaxed) {
        look();
        pause(LONGEST_PAUSE / 10);
    }
    look();
}

/// Looks until something is found, for `limit` at most. Short conditions are seen at once, and long ones do not keep a processor busy.
pub fn within<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let began = Instant::now();
    let mut wait = FIRST_PAUSE;
    loop {
        // The time is taken first, so that a thread that was not scheduled for long looks once more.
        let is_late = began.elapsed() >= limit;
        let found = look();
        if found.is_some() || is_late {
            return found;
        }
        pause(wait);
        wait = (wait * 3 / 2).min(LONGEST_PAUSE);
    }
}

#[expect(clippy::disallowed_methods, reason = "the pause between two looks at a condition")]
fn pause(time: Duration) {
    thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_until_the_condition_holds() {
        let mut looks = 0;
        let found = wait_for("the third look", || {
            looks += 1;
            (looks == 3).then_some(looks)
        });
        assert_eq!(found, 3);
    }

    #[test]
    fn gives_up_at_the_limit_but_looks_at_least_once() {
        assert_eq!(within(Duration::ZERO, || Some(1)), Some(1));
        assert_eq!(within(Duration::ZERO, || None::<u8>), None);
        let mut looks = 0;
        assert_eq!(
            within(Duration::from_millis(5), || (std::mem::replace(&mut looks, 2) == 9).then_some(())),
            None
        );
        assert_eq!(looks, 2);
    }
}
