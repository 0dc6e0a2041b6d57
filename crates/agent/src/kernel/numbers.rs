//! How many events are missing, from the numbers that the kernel gives to the events of each CPU.

use std::collections::HashMap;

/// The numbers seen so far.
#[derive(Default)]
pub struct Numbers {
    cpus: HashMap<u32, Cpu>,
    missing: u64,
    /// Events the kernel numbered and did not deliver.
    pub lost: u64,
}

struct Cpu {
    highest: u32,
    /// Numbers given since the first that was seen, and those of them that were seen.
    given: u64,
    seen: u64,
    /// Nothing has come since the beginning.
    is_new: bool,
}

impl Numbers {
    /// Notes that an event with this number has come.
    pub fn note(&mut self, cpu: u32, number: u32) {
        let new = Cpu { highest: number.wrapping_sub(1), given: 0, seen: 0, is_new: true };
        let cpu = self.cpus.entry(cpu).or_insert(new);
        let ahead = number.wrapping_sub(cpu.highest);
        let is_ahead = (1..=u32::MAX / 2).contains(&ahead);
        if cpu.is_new && !is_ahead {
            return;
        }
        if is_ahead {
            // What is missing before the first was not yet promised.
            cpu.given += if cpu.is_new { 1 } else { u64::from(ahead) };
            cpu.highest = number;
        }
        cpu.is_new = false;
        cpu.seen += 1;
    }

    /// From now on all is promised. What has come, and what has not, does not matter.
    pub fn begin(&mut self) {
        for cpu in self.cpus.values_mut() {
            (cpu.given, cpu.seen, cpu.is_new) = (0, 0, true);
        }
        (self.missing, self.lost) = (0, 0);
    }

    /// Counts what is missing. Two events may come in the wrong order, because the kernel reads the clock before it
    /// gives the number: so only what was missing already at the count before is lost.
    pub fn count(&mut self) {
        let missing = self.cpus.values().map(|cpu| cpu.given.saturating_sub(cpu.seen)).sum();
        self.lost = self.lost.max(self.missing.min(missing));
        self.missing = missing;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_come_is_lost() {
        let wrap = u32::MAX;
        for (calls, lost) in [
            (&[&[(0, 5), (0, 6), (0, 7)][..], &[]][..], 0),
            (&[&[(0, 5), (0, 9)], &[]], 3),
            (&[&[(0, 5), (0, 9)], &[(0, 10)], &[(0, 12)], &[]], 4),
            // Each CPU has numbers of its own.
            (&[&[(0, 5), (1, 90), (0, 6), (1, 91)], &[]], 0),
            (&[&[(0, 5), (1, 90), (0, 7), (1, 92)], &[]], 2),
            // In the wrong order, in one call or in two.
            (&[&[(0, 5), (0, 7), (0, 6)], &[]], 0),
            (&[&[(0, 5), (0, 7)], &[(0, 6)], &[]], 0),
            (&[&[(0, wrap - 1), (0, wrap), (0, 0), (0, 1)], &[]], 0),
            (&[&[(0, wrap), (0, 1)], &[]], 1),
        ] {
            let mut numbers = Numbers::default();
            for call in calls {
                call.iter().for_each(|&(cpu, number)| numbers.note(cpu, number));
                numbers.count();
            }
            assert_eq!(numbers.lost, lost, "{calls:?}");
        }
    }

    #[test]
    fn what_is_missing_at_the_beginning_is_not_lost() {
        for (before, after, lost) in [
            (&[5, 7][..], &[9, 10][..], 0),
            (&[5], &[9, 10, 12], 1),
            // One that was told before comes late.
            (&[5, 8], &[7, 9, 10], 0),
            (&[], &[5, 7], 1),
        ] {
            let mut numbers = Numbers::default();
            before.iter().for_each(|number| numbers.note(0, *number));
            numbers.count();
            numbers.begin();
            after.iter().for_each(|number| numbers.note(0, *number));
            numbers.count();
            numbers.count();
            assert_eq!(numbers.lost, lost, "{before:?} {after:?}");
        }
    }
}
