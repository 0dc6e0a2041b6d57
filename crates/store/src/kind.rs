//! What kind of job a row is, a batch job or somebody's session, and which kinds a question is about.

use std::sync::atomic::{AtomicBool, Ordering};

/// In the column `kind` by its number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Kind {
    #[default]
    Job = 0,
    /// Of somebody who logged in, outside any batch job.
    Session = 1,
}

impl Kind {
    /// All names, without short forms.
    pub const NAMES: &[(&str, &str)] = &[("job", ""), ("session", "")];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Job => "job",
            Kind::Session => "session",
        }
    }

    /// As people say it.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Kind::Job => "batch job",
            Kind::Session => "session",
        }
    }

    /// The name as SQL, of `c`.
    pub(crate) const SQL: &str = "CASE c.kind WHEN 1 THEN 'session' ELSE 'job' END";

    /// Which rows of the table `job` are of this kind: the name of either stands in the column `job`.
    pub(crate) fn is_row(self) -> &'static str {
        match self {
            Kind::Job => "session IS NULL",
            Kind::Session => "session IS NOT NULL",
        }
    }

    pub(crate) fn number(self) -> u8 {
        self as u8
    }

    pub(crate) fn of(number: u8) -> Kind {
        if number == Kind::Session.number() { Kind::Session } else { Kind::Job }
    }
}

/// Which kinds are asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Kinds {
    /// Jobs where a batch system has told of any, else all there are.
    #[default]
    Usual,
    All,
    Only(Kind),
}

impl Kinds {
    pub const NAMES: [&str; 3] = ["job", "session", "all"];

    pub fn named(name: &str) -> Option<Kinds> {
        match name {
            "job" => Some(Kinds::Only(Kind::Job)),
            "session" => Some(Kinds::Only(Kind::Session)),
            "all" => Some(Kinds::All),
            _ => None,
        }
    }

    /// Of `c`; `None` where all are meant.
    pub(crate) fn condition(self) -> Option<String> {
        match self {
            Kinds::Usual | Kinds::All => None,
            Kinds::Only(kind) => Some(format!("c.kind = {}", kind.number())),
        }
    }
}

/// Which kinds there are in a store, as its writer has seen.
#[derive(Debug, Default)]
pub(crate) struct There {
    /// A batch system has told of jobs.
    has_told: AtomicBool,
    has_sessions: AtomicBool,
}

impl There {
    pub fn told(&self) {
        self.has_told.store(true, Ordering::Relaxed);
    }

    pub fn sessions(&self) {
        self.has_sessions.store(true, Ordering::Relaxed);
    }

    pub fn has_sessions(&self) -> bool {
        self.has_sessions.load(Ordering::Relaxed)
    }

    /// What is asked for, without a condition that leaves out nothing.
    pub fn meant(&self, asked: Kinds) -> Kinds {
        let usual =
            || if self.has_told.load(Ordering::Relaxed) { Kinds::Only(Kind::Job) } else { Kinds::All };
        match if asked == Kinds::Usual { usual() } else { asked } {
            Kinds::Only(Kind::Job) if !self.has_sessions() => Kinds::All,
            meant => meant,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_those_of_the_kinds() {
        for name in Kinds::NAMES {
            assert!(Kinds::named(name).is_some_and(|kinds| kinds != Kinds::Usual), "{name}");
        }
        assert_eq!(Kinds::named("jobs"), None);
        for kind in [Kind::Job, Kind::Session] {
            assert_eq!(Kind::of(kind.number()), kind);
            assert!(Kind::NAMES.contains(&(kind.name(), "")));
            assert_eq!(Kinds::named(kind.name()), Some(Kinds::Only(kind)));
        }
    }

    #[test]
    fn jobs_are_usual_where_a_batch_system_has_told_of_any() {
        let there = There::default();
        let (jobs, sessions) = (Kinds::Only(Kind::Job), Kinds::Only(Kind::Session));
        let meant =
            |there: &There| [Kinds::Usual, jobs, sessions, Kinds::All].map(|asked| there.meant(asked));
        assert_eq!(meant(&there), [Kinds::All, Kinds::All, sessions, Kinds::All]);
        there.sessions();
        assert_eq!(meant(&there), [Kinds::All, jobs, sessions, Kinds::All]);
        there.told();
        assert_eq!(meant(&there), [jobs, jobs, sessions, Kinds::All]);
    }
}
