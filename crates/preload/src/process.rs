//! Who we are, and whether we may speak.

use crate::sys;

/// What decides whether and how the guest speaks.
pub struct Identity {
    number: u32,
    uid: [u8; 10],
    uid_len: usize,
}

impl Identity {
    /// `None` if a seccomp filter came with the process: it may kill on any call that it does not expect.
    /// Asking is the only call made under such a filter; see docs/guest.md.
    pub fn unless_filtered() -> Option<Identity> {
        if sys::seccomp_mode() != Ok(0) {
            return None;
        }
        let number = sys::geteuid();
        let mut identity = Identity { number, uid: [0; 10], uid_len: 0 };
        identity.write_uid(number);
        Some(identity)
    }

    /// The effective user.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The effective user, as decimal text.
    pub fn uid(&self) -> &[u8] {
        self.uid.get(..self.uid_len).unwrap_or(&[])
    }

    fn write_uid(&mut self, uid: u32) {
        for divisor in [1_000_000_000, 100_000_000, 10_000_000, 1_000_000, 100_000, 10_000, 1_000, 100, 10, 1]
        {
            let digit = uid.checked_div(divisor).unwrap_or(0) % 10;
            if (digit > 0 || self.uid_len > 0 || divisor == 1)
                && let Some(place) = self.uid.get_mut(self.uid_len)
            {
                *place = b'0'.wrapping_add(digit as u8);
                self.uid_len = self.uid_len.wrapping_add(1);
            }
        }
    }
}
