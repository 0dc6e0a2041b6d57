//! What a value is, and what its number counts.

use std::fmt;

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Type {
    /// A count, a ratio, or whatever has no unit that is understood here.
    Number,
    /// A part of a whole.
    Share,
    Bytes,
    /// Bytes a second.
    Rate,
    Duration,
    /// A moment.
    Time,
    Text,
    Boolean,
}

impl Type {
    /// Is it a number in the end?
    pub(crate) fn is_amount(self) -> bool {
        !matches!(self, Type::Time | Type::Text | Type::Boolean)
    }

    /// Its name with an example, as errors say it.
    fn named(self) -> &'static str {
        match self {
            Type::Number => "a number, such as 5",
            Type::Share => "a share, such as 50%",
            Type::Bytes => "bytes, such as 4GiB",
            Type::Rate => "bytes a second, such as 4GB/s",
            Type::Duration => "a duration, such as 2h",
            Type::Time => "a time, such as 2026-01-31 or 2026-01-31T10:00",
            Type::Text => "a text, such as 'main'",
            Type::Boolean => "a condition",
        }
    }

    /// The unit that all amounts of a type are computed in.
    pub(crate) fn base(self) -> Unit {
        match self {
            Type::Share => Unit::FRACTION,
            Type::Bytes => Unit::BYTE,
            Type::Rate => Unit::BYTE_PER_SECOND,
            Type::Duration => Unit::SECOND,
            Type::Number | Type::Time | Type::Text | Type::Boolean => Unit::ONE,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.named())
    }
}

/// What a number counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unit {
    symbol: &'static str,
    of: Type,
    scale: Scale,
}

/// How a unit becomes the base of its type. Small ones are divisors: 35 / 100 is the number nearest to 0.35, which
/// 35 * 0.01 is not, and a bound must mean the same in every unit it can be written in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Scale {
    Times(f64),
    Over(f64),
}

const fn times(symbol: &'static str, of: Type, factor: f64) -> Unit {
    Unit { symbol, of, scale: Scale::Times(factor) }
}

const fn over(symbol: &'static str, of: Type, divisor: f64) -> Unit {
    Unit { symbol, of, scale: Scale::Over(divisor) }
}

impl Unit {
    pub const ONE: Unit = times("", Type::Number, 1.0);
    pub const FRACTION: Unit = times("", Type::Share, 1.0);
    pub const PERCENT: Unit = over("%", Type::Share, 100.0);
    pub const BYTE: Unit = times("B", Type::Bytes, 1.0);
    pub const KIBIBYTE: Unit = times("KiB", Type::Bytes, 1024.0);
    pub const MEBIBYTE: Unit = times("MiB", Type::Bytes, 1_048_576.0);
    pub const BYTE_PER_SECOND: Unit = times("B/s", Type::Rate, 1.0);
    pub const NANOSECOND: Unit = over("ns", Type::Duration, 1e9);
    pub const SECOND: Unit = times("s", Type::Duration, 1.0);

    /// A unit that is shown but not understood: W, MHz.
    pub const fn label(symbol: &'static str) -> Unit {
        times(symbol, Type::Number, 1.0)
    }

    /// How many of the base of its type one of it is.
    pub fn in_base(&self) -> f64 {
        self.to_base(1.0)
    }

    pub fn symbol(&self) -> &'static str {
        self.symbol
    }

    /// The type of an amount in this unit.
    pub fn of(&self) -> Type {
        self.of
    }

    /// How the base of the type is made of it; `None` if it is the base.
    pub(crate) fn scale(&self) -> Option<Scale> {
        (self.scale != Scale::Times(1.0)).then_some(self.scale)
    }

    pub(crate) fn to_base(self, amount: f64) -> f64 {
        match self.scale {
            Scale::Times(factor) => amount * factor,
            Scale::Over(divisor) => amount / divisor,
        }
    }

    pub(crate) fn of_base(self, amount: f64) -> f64 {
        match self.scale {
            Scale::Times(factor) => amount / factor,
            Scale::Over(divisor) => amount * divisor,
        }
    }
}

/// The units that may be written behind a number. Upper and lower case differ: Gb/s are bits to many who write it.
pub(crate) const WRITTEN: [Unit; 31] = [
    Unit::PERCENT,
    Unit::NANOSECOND,
    over("us", Type::Duration, 1e6),
    over("µs", Type::Duration, 1e6),
    over("ms", Type::Duration, 1e3),
    Unit::SECOND,
    times("m", Type::Duration, 60.0),
    times("min", Type::Duration, 60.0),
    times("h", Type::Duration, 3600.0),
    times("d", Type::Duration, 86_400.0),
    Unit::BYTE,
    times("kB", Type::Bytes, 1e3),
    times("MB", Type::Bytes, 1e6),
    times("GB", Type::Bytes, 1e9),
    times("TB", Type::Bytes, 1e12),
    times("PB", Type::Bytes, 1e15),
    Unit::KIBIBYTE,
    Unit::MEBIBYTE,
    times("GiB", Type::Bytes, 1_073_741_824.0),
    times("TiB", Type::Bytes, 1_099_511_627_776.0),
    times("PiB", Type::Bytes, 1_125_899_906_842_624.0),
    Unit::BYTE_PER_SECOND,
    times("kB/s", Type::Rate, 1e3),
    times("MB/s", Type::Rate, 1e6),
    times("GB/s", Type::Rate, 1e9),
    times("TB/s", Type::Rate, 1e12),
    times("KiB/s", Type::Rate, 1024.0),
    times("MiB/s", Type::Rate, 1_048_576.0),
    times("GiB/s", Type::Rate, 1_073_741_824.0),
    times("TiB/s", Type::Rate, 1_099_511_627_776.0),
    times("PiB/s", Type::Rate, 1_125_899_906_842_624.0),
];

/// Bytes as Slurm writes them, in its powers of 1024: `16G` is 16 GiB.
const SHORT: [(&str, &str); 10] = [
    ("K", "KiB"),
    ("M", "MiB"),
    ("G", "GiB"),
    ("T", "TiB"),
    ("P", "PiB"),
    ("K/s", "KiB/s"),
    ("M/s", "MiB/s"),
    ("G/s", "GiB/s"),
    ("T/s", "TiB/s"),
    ("P/s", "PiB/s"),
];

pub(crate) fn by_symbol(symbol: &str) -> Option<Unit> {
    let full = SHORT.iter().find(|(short, _)| *short == symbol).map_or(symbol, |(_, full)| full);
    WRITTEN.into_iter().find(|unit| unit.symbol == full)
}

/// A number and what it counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantity {
    pub amount: f64,
    pub unit: Unit,
}

impl Quantity {
    pub(crate) fn base(self) -> f64 {
        self.unit.to_base(self.amount)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        // `{:?}` has an exponent where there would be many zeros, and always reads back as the same number.
        let amount = format!("{:?}", self.amount);
        write!(f, "{}{}", amount.strip_suffix(".0").unwrap_or(&amount), self.unit.symbol)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_means_the_same_in_every_unit() {
        for (amount, symbol, base) in [
            (7.0, "%", 0.07),
            (35.0, "%", 0.35),
            (300.0, "ms", 0.3),
            (1.1e9, "ns", 1.1),
            (1.5, "h", 5400.0),
            (4.0, "GiB", 4_294_967_296.0),
            (0.2, "GB/s", 2e8),
            (16.0, "G", 17_179_869_184.0),
            (2.0, "K/s", 2048.0),
        ] {
            let unit = by_symbol(symbol).unwrap();
            assert_eq!(unit.to_base(amount), base, "{amount}{symbol}");
            assert!((unit.of_base(base) - amount).abs() < 1e-9 * amount);
        }
    }

    #[test]
    fn symbols_are_said_once_and_bases_are_bases() {
        for (at, unit) in WRITTEN.iter().enumerate() {
            assert!(WRITTEN[..at].iter().all(|other| other.symbol != unit.symbol), "{unit:?}");
            assert_eq!(unit.of.base().scale(), None);
            assert_eq!(unit.of.base().of(), unit.of);
        }
    }

    #[test]
    fn quantities_as_text() {
        for (amount, unit, text) in [
            (5.0, Unit::PERCENT, "5%"),
            (0.1, Unit::ONE, "0.1"),
            (1e300, Unit::BYTE, "1e300B"),
            (-2.5, Unit::SECOND, "-2.5s"),
            (300.0, Unit::label("W"), "300W"),
        ] {
            assert_eq!(Quantity { amount, unit }.to_string(), text);
        }
    }
}
