//! Why something is not counted, in words for people.

use std::fmt;

use rustix::io::Errno;

use super::events::Event;

/// Why an event is not counted, or not all the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The kernel found no counters in the processor.
    NoCounters,
    /// The processor, or the kernel's driver of it, does not have the event.
    NoSuchEvent,
    /// With the setting that says who may count, if it can be read.
    NotAllowed {
        paranoid: Option<i64>,
    },
    TooManyFiles,
    NotInKernel,
    /// The processor of that number is not there or switched off.
    NoSuchProcessor,
    /// The control group cannot be opened.
    NoSuchGroup,
    /// Another program has the counters to itself.
    Busy,
    /// Opened, wanted, and never counted.
    NeverRan,
    /// Counted only so many per cent of the time.
    Shared {
        percent: u8,
    },
    /// Another error of the kernel, by its number.
    Other(i32),
}

impl Reason {
    /// From what the kernel said when an event was opened.
    pub(super) fn of(
        error: Errno,
        paranoid: Option<i64>,
        has_counters: Option<bool>,
        event: Event,
    ) -> Reason {
        match error {
            Errno::NOENT | Errno::OPNOTSUPP | Errno::INVAL | Errno::NODEV
                if has_counters == Some(false) && !event.is_software() =>
            {
                Reason::NoCounters
            }
            Errno::NOENT | Errno::OPNOTSUPP | Errno::INVAL => Reason::NoSuchEvent,
            Errno::ACCESS | Errno::PERM => Reason::NotAllowed { paranoid },
            Errno::MFILE | Errno::NFILE => Reason::TooManyFiles,
            Errno::NOSYS => Reason::NotInKernel,
            Errno::NODEV | Errno::NXIO | Errno::SRCH => Reason::NoSuchProcessor,
            Errno::BUSY => Reason::Busy,
            other => Reason::Other(other.raw_os_error()),
        }
    }

    /// Whether it would be the same on any other processor.
    pub(super) fn is_everywhere(self) -> bool {
        !matches!(self, Reason::NoSuchProcessor | Reason::NeverRan | Reason::Shared { .. } | Reason::Other(_))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Reason::NoCounters => out.write_str(
                "the kernel found no counters in the processor; virtual machines often have none, and firmware can hide them",
            ),
            Reason::NoSuchEvent => out.write_str("this processor, or the kernel's driver of it, does not have the event"),
            Reason::NotAllowed { paranoid: Some(level) } => write!(
                out,
                "not allowed: kernel.perf_event_paranoid is {level}, and the process has neither CAP_PERFMON nor \
                 CAP_SYS_ADMIN, or a filter of system calls refuses"
            ),
            Reason::NotAllowed { paranoid: None } => {
                out.write_str("not allowed, and kernel.perf_event_paranoid cannot be read: is the kernel built with perf?")
            }
            Reason::TooManyFiles => {
                out.write_str("too many open files: one is needed per event and processor (LimitNOFILE of the unit)")
            }
            Reason::NotInKernel => out.write_str("the kernel is built without perf_event_open"),
            Reason::NoSuchProcessor => out.write_str("the processor is not there or switched off"),
            Reason::NoSuchGroup => out.write_str("the control group cannot be opened"),
            Reason::Busy => out.write_str("another program has the counters to itself"),
            Reason::NeverRan => out.write_str(
                "never counted: there are fewer free counters than events of the set; the kernel's watchdog \
                 (kernel.nmi_watchdog) holds one, and other programs may hold more",
            ),
            Reason::Shared { percent } => {
                write!(out, "counted {percent} % of the time and scaled: there are more events than counters")
            }
            Reason::Other(number) => write!(out, "error {number} of the kernel: {}", Errno::from_raw_os_error(*number)),
        }
    }
}

/// One line per reason, with the events it holds for.
pub(super) fn in_words(lacks: &[(Event, Reason)]) -> Vec<String> {
    let mut reasons: Vec<(Reason, Vec<Event>)> = Vec::new();
    for (event, reason) in lacks {
        match reasons.iter_mut().find(|(known, _)| known == reason) {
            Some((_, events)) if events.contains(event) => {}
            Some((_, events)) => events.push(*event),
            None => reasons.push((*reason, vec![*event])),
        }
    }
    let line = |(reason, events): &(Reason, Vec<Event>)| {
        let names: Vec<String> = events.iter().map(Event::to_string).collect();
        format!("{}: {reason}", names.join(", "))
    };
    reasons.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_reasons() {
        for (error, has_counters, event, expected) in [
            (Errno::NOENT, Some(false), Event::Cycles, Reason::NoCounters),
            (Errno::OPNOTSUPP, Some(false), Event::Cycles, Reason::NoCounters),
            (Errno::NOENT, Some(true), Event::Cycles, Reason::NoSuchEvent),
            (Errno::NOENT, None, Event::Cycles, Reason::NoSuchEvent),
            (Errno::NOENT, Some(false), Event::PageFaults, Reason::NoSuchEvent),
            (Errno::INVAL, Some(true), Event::Loads, Reason::NoSuchEvent),
            (Errno::ACCESS, Some(true), Event::Cycles, Reason::NotAllowed { paranoid: Some(4) }),
            (Errno::PERM, Some(false), Event::Cycles, Reason::NotAllowed { paranoid: Some(4) }),
            (Errno::MFILE, Some(true), Event::Cycles, Reason::TooManyFiles),
            (Errno::NOSYS, Some(true), Event::Cycles, Reason::NotInKernel),
            (Errno::NODEV, Some(true), Event::Cycles, Reason::NoSuchProcessor),
            (Errno::BUSY, Some(true), Event::Cycles, Reason::Busy),
            (Errno::IO, Some(true), Event::Cycles, Reason::Other(5)),
        ] {
            assert_eq!(Reason::of(error, Some(4), has_counters, event), expected, "{error}");
        }
    }

    #[test]
    fn a_reason_is_told_once() {
        let lacks = [
            (Event::Cycles, Reason::NoSuchEvent),
            (Event::Loads, Reason::Shared { percent: 33 }),
            (Event::Instructions, Reason::NoSuchEvent),
            (Event::Cycles, Reason::NoSuchEvent),
        ];
        let lines = in_words(&lacks);
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("cycles, instructions: this processor"), "{}", lines[0]);
        assert!(lines[1].starts_with("loads: counted 33 % of the time"), "{}", lines[1]);
        let paranoid = Reason::NotAllowed { paranoid: Some(4) };
        assert!(paranoid.to_string().contains("perf_event_paranoid is 4"));
    }
}
