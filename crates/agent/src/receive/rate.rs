//! How much of something a user may have per second, and at once.

use std::time::Instant;

/// So much per second, and so much at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    pub per_second: u64,
    pub burst: u64,
}

/// What a user has left of a rate.
pub struct Bucket {
    left: f64,
    filled: Instant,
}

impl Bucket {
    pub fn full(rate: Rate) -> Bucket {
        Bucket { left: rate.burst as f64, filled: Instant::now() }
    }

    /// Takes one; says whether there was one.
    pub fn take(&mut self, rate: Rate) -> bool {
        self.fill(rate);
        let has_one = self.left >= 1.0;
        if has_one {
            self.left -= 1.0;
        }
        has_one
    }

    /// Takes an amount that is known only afterwards; there may be a debt.
    pub fn spend(&mut self, rate: Rate, amount: f64) {
        self.fill(rate);
        self.left -= amount;
    }

    pub fn has_any(&mut self, rate: Rate) -> bool {
        self.fill(rate);
        self.left > 0.0
    }

    pub fn is_full(&mut self, rate: Rate) -> bool {
        self.fill(rate);
        self.left >= rate.burst as f64
    }

    fn fill(&mut self, rate: Rate) {
        let now = Instant::now();
        let gained = now.duration_since(self.filled).as_secs_f64() * rate.per_second as f64;
        self.left = (self.left + gained).min(rate.burst as f64);
        self.filled = now;
    }
}
