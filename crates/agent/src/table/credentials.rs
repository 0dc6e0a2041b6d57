//! The user of a process, now and before its last change of user.

/// A process's real and effective user. A process whose two differ has gained privileges, and runs no preload library.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Credentials {
    now: Option<Users>,
    /// What they were until this time, monotonic.
    before: Option<(u64, Option<Users>)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Users {
    real: u32,
    effective: u32,
}

impl Credentials {
    /// The real user.
    pub fn real(&self) -> Option<u32> {
        self.now.map(|users| users.real)
    }

    /// They have changed.
    pub fn change(&mut self, time: u64, real: u32, effective: u32) {
        self.before = Some((time, self.now));
        self.now = Some(Users { real, effective });
    }

    /// They are these, unless it is known better.
    pub fn learn(&mut self, real: u32, effective: u32) {
        self.now.get_or_insert(Users { real, effective });
    }

    /// Whether a process of this user could have sent a message at a time, as far as is known.
    pub fn could_be(&self, uid: u32, time: u64) -> bool {
        let then = match self.before {
            Some((changed, before)) if time < changed => before,
            _ => self.now,
        };
        then.is_none_or(|users| users.real == uid && users.effective == uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_of_the_user_at_its_time() {
        let mut credentials = Credentials::default();
        assert!(credentials.could_be(7, 5), "nothing is known");
        credentials.learn(7, 7);
        credentials.learn(8, 8);
        assert_eq!(credentials.real(), Some(7));
        assert!(credentials.could_be(7, 5) && !credentials.could_be(0, 5));
        // It executes a program that belongs to root.
        credentials.change(10, 7, 0);
        assert!(credentials.could_be(7, 9), "sent before");
        assert!(!credentials.could_be(7, 10) && !credentials.could_be(0, 10));
        // Which becomes root for good.
        credentials.change(20, 0, 0);
        assert!(!credentials.could_be(7, 30) && credentials.could_be(0, 30));
        assert_eq!(credentials.real(), Some(0));
    }
}
