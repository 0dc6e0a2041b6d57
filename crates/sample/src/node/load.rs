//! How busy the node is in the kernel's own averages: `/proc/loadavg`, `/proc/uptime` and `/proc/pressure`.

use crate::read::{Reader, decimal, lines, number, words};

/// `/proc/loadavg`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    pub one: f64,
    pub five: f64,
    pub fifteen: f64,
    /// Threads that run or wait for a processor now.
    pub runnable: u64,
    /// Threads that exist.
    pub existing: u64,
}

/// `/proc/uptime`, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Uptime {
    pub since_boot: f64,
    /// Summed over the processors.
    pub idle: Option<f64>,
}

/// `/proc/pressure`. Kernels before 4.20 have none, and several distributions switch it off.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pressure {
    pub cpu: Option<Stalls>,
    pub memory: Option<Stalls>,
    pub io: Option<Stalls>,
}

/// What it is that waited for a resource.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Stalls {
    /// At least one task.
    pub some: Option<Stall>,
    /// All tasks at once. Of processors this is known since 5.13, and then 0 by definition.
    pub full: Option<Stall>,
}

/// How long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stall {
    pub total_us: u64,
    /// Per cent of the last ten seconds.
    pub avg10: f64,
}

impl Pressure {
    pub(super) fn read(proc: &mut Reader) -> Pressure {
        let mut stalls = |path| proc.once(path).ok().map(parse_pressure);
        Pressure {
            cpu: stalls(b"pressure/cpu"),
            memory: stalls(b"pressure/memory"),
            io: stalls(b"pressure/io"),
        }
    }
}

/// `0.82 1.06 1.22 3/103 31188`.
pub fn parse_loadavg(text: &[u8]) -> Option<Load> {
    let mut words = words(text);
    let mut average = || decimal(words.next()?);
    let (one, five, fifteen) = (average()?, average()?, average()?);
    let mut counts = words.next()?.splitn(2, |byte| *byte == b'/').map(number);
    Some(Load { one, five, fifteen, runnable: counts.next()??, existing: counts.next()?? })
}

/// `35530.20 37427.42`.
pub fn parse_uptime(text: &[u8]) -> Option<Uptime> {
    let mut words = words(text);
    Some(Uptime { since_boot: decimal(words.next()?)?, idle: words.next().and_then(decimal) })
}

/// `some avg10=6.32 avg60=3.05 avg300=4.39 total=2461386239`, and the same of `full`.
pub fn parse_pressure(text: &[u8]) -> Stalls {
    let mut stalls = Stalls::default();
    for line in lines(text) {
        if let Some(values) = line.strip_prefix(b"some ") {
            stalls.some = stall(values);
        } else if let Some(values) = line.strip_prefix(b"full ") {
            stalls.full = stall(values);
        }
    }
    stalls
}

fn stall(values: &[u8]) -> Option<Stall> {
    let value = |name: &[u8]| words(values).find_map(|word| word.strip_prefix(name));
    Some(Stall { total_us: number(value(b"total=")?)?, avg10: decimal(value(b"avg10=")?)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn averages() {
        let load = |runnable, existing| Load { one: 0.82, five: 1.06, fifteen: 122.5, runnable, existing };
        for (text, expected) in [
            ("0.82 1.06 122.50 3/103 31188\n", Some(load(3, 103))),
            ("0.82 1.06 122.50 3/103", Some(load(3, 103))),
            ("0.82 1.06 122.50 3", None),
            ("0.82 1.06 122.50 /3", None),
            ("0.82 1.06", None),
            ("-0.82 1.06 122.50 3/103", None),
            ("", None),
        ] {
            assert_eq!(parse_loadavg(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn seconds_since_boot() {
        for (text, expected) in [
            ("35530.20 37427.42\n", Some(Uptime { since_boot: 35530.2, idle: Some(37427.42) })),
            ("35530.20\n", Some(Uptime { since_boot: 35530.2, idle: None })),
            ("x 1\n", None),
            ("", None),
        ] {
            assert_eq!(parse_uptime(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn stalls() {
        let some = Some(Stall { total_us: 2_461_386_239, avg10: 6.32 });
        let full = Some(Stall { total_us: 0, avg10: 0.0 });
        let first = "some avg10=6.32 avg60=3.05 avg300=4.39 total=2461386239\n";
        let second = "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
        for (text, expected) in [
            (format!("{first}{second}"), Stalls { some, full }),
            (first.to_string(), Stalls { some, full: None }),
            (second.to_string(), Stalls { some: None, full }),
            ("some avg10=6.32\n".into(), Stalls::default()),
            ("some avg10=-1 total=1\n".into(), Stalls::default()),
        ] {
            assert_eq!(parse_pressure(text.as_bytes()), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_loadavg(&bytes);
            let _ = parse_uptime(&bytes);
            let _ = parse_pressure(&bytes);
            let _ = parse_pressure(&[b"some ", bytes.as_slice()].concat());
        }

        #[test]
        fn what_looks_like_an_average_parses(text in "[0-9./ ]{0,40}") {
            let _ = parse_loadavg(text.as_bytes());
            let _ = parse_uptime(text.as_bytes());
        }
    }
}
