//! Sessions among the accounts of a census: those that came and went before they were read, and who else is on the node.

use std::collections::HashSet;

use record::session::TERMINAL;

use crate::table::{Account, Subject};

/// Sessions that have ended before anyone read them. Their accounts are kept for an hour, so each is told once: what has ended since the
/// census before this one was asked for, and was not told with that one.
#[derive(Debug, Default)]
pub struct Brief {
    asked: Option<u64>,
    since: u64,
    told: HashSet<Subject>,
}

impl Brief {
    pub fn since(now: u64) -> Brief {
        Brief { since: now, ..Brief::default() }
    }

    /// A census is asked for.
    pub fn ask(&mut self, now: u64) {
        self.asked.get_or_insert(now);
    }

    /// Whether this one has ended since. Root's are left out where logins have scopes of their own: most of them are made by `cron` every
    /// few minutes.
    pub fn is_due(&self, account: &Account) -> bool {
        let has_ended = account.last_end.is_some_and(|end| end >= self.since);
        let is_terminal = |subject: &Subject| {
            subject.session.as_deref().is_some_and(|session| session.starts_with(TERMINAL))
        };
        has_ended
            && account.subject.is_login()
            && (account.uid != Some(0) || is_terminal(&account.subject))
            && !self.told.contains(&account.subject)
    }

    /// These were told with the census that has come.
    pub fn told(&mut self, told: HashSet<Subject>) {
        self.since = self.asked.take().unwrap_or(self.since);
        self.told = told;
    }
}

/// How many jobs and logins have processes on the node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Here {
    jobs: usize,
    logins: usize,
}

impl Here {
    /// `live` is how many processes each account has.
    pub fn of(live: &[usize], accounts: &[Account]) -> Here {
        let here = || live.iter().zip(accounts).filter(|(count, _)| **count > 0).map(|(_, account)| account);
        Here {
            jobs: here().filter(|account| account.subject.job.is_some()).count(),
            logins: here().filter(|account| account.subject.is_login()).count(),
        }
    }

    /// Whether others are here besides this one, which has so many processes. To a batch job sessions are none: whoever looks after it
    /// does not share its node.
    pub fn has_others(self, subject: &Subject, processes: usize) -> bool {
        if subject.job.is_some() {
            return self.jobs > 1;
        }
        let own = usize::from(processes > 0 && subject.is_login());
        self.jobs > 0 || self.logins > own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(session: &str, uid: u32, last_end: Option<u64>) -> Account {
        let subject = Subject { job: None, node: None, session: Some(session.into()) };
        Account { uid: Some(uid), last_end, ..Account::new(subject, 0) }
    }

    const ALICES: &str = "sid-7-1.0badcafe@n1";

    #[test]
    fn a_session_that_came_and_went_is_told_once() {
        let mut brief = Brief::since(100);
        brief.ask(200);
        brief.ask(250);
        for (about, account, expected) in [
            ("it has just ended", account(ALICES, 1000, Some(150)), true),
            ("it runs", account(ALICES, 1000, None), false),
            ("it ended before anyone looked", account(ALICES, 1000, Some(99)), false),
            ("a login", account("session-3.0badcafe@n1", 1000, Some(150)), true),
            ("cron's, as it seems", account("session-3.0badcafe@n1", 0, Some(150)), false),
            ("root's", account(ALICES, 0, Some(150)), true),
            ("a service", account("cron.0badcafe@n1", 0, Some(150)), false),
        ] {
            assert_eq!(brief.is_due(&account), expected, "{about}");
        }
        // One that ended while the census was made is not told again with the next.
        let late = account(ALICES, 1000, Some(260));
        brief.told([late.subject.clone()].into());
        brief.ask(300);
        assert!(!brief.is_due(&late));
        assert!(brief.is_due(&account("sid-8-1.0badcafe@n1", 1000, Some(210))), "asked for before it ended");
        brief.told(HashSet::new());
        assert!(!brief.is_due(&late));
    }

    #[test]
    fn sessions_share_their_node_with_jobs_and_other_logins() {
        let job = Subject { job: Some("17".into()), node: None, session: None };
        let job = Account::new(job, 0);
        let (alice, cron) = (account(ALICES, 1000, None), account("cron.0badcafe@n1", 0, None));
        let bob = account("session-4.0badcafe@n1", 1001, None);
        for (accounts, live, expected) in [
            (vec![&alice, &cron], vec![1, 1], false),
            (vec![&alice, &bob], vec![1, 1], true),
            (vec![&alice, &bob], vec![1, 0], false),
            (vec![&alice, &job], vec![1, 1], true),
            // It has ended, and another one is here.
            (vec![&alice, &bob], vec![0, 1], true),
            (vec![&job, &alice], vec![1, 1], false),
            (vec![&job, &job], vec![1, 1], true),
        ] {
            let all: Vec<Account> = accounts.into_iter().cloned().collect();
            let here = Here::of(&live, &all);
            assert_eq!(here.has_others(&all[0].subject, live[0]), expected, "{all:?} {live:?}");
        }
    }
}
