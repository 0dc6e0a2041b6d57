//! Numbers as batch systems write them.

/// Slurm's "no value" and "infinite" in 32 and 64 bits; they slip through as numbers.
const NO_VALUE: [u64; 4] = [0xffff_fffe, 0xffff_ffff, u64::MAX - 1, u64::MAX];

pub const KILO: u64 = 1000;
pub const KIBI: u64 = 1024;

/// Digits and nothing else.
pub fn whole(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 { None } else { number.checked_mul(10)?.checked_add(u64::from(digit)) }
    })
}

/// A number that is meant as one.
pub fn told(number: u64) -> Option<u64> {
    (!NO_VALUE.contains(&number)).then_some(number)
}

/// `62.50G`: a number with up to nine decimals and perhaps a unit, each a thousand (`KILO`) or 1024 (`KIBI`) times the
/// one before. `bare` is what a number without a unit is counted in.
pub fn scaled(text: &[u8], step: u64, bare: u64) -> Option<u64> {
    let (number, scale) = match text.split_last()? {
        (last, _) if last.is_ascii_digit() => (text, bare),
        (last, number) => (number, step.pow(power(*last)?)),
    };
    let point = number.iter().position(|byte| *byte == b'.').unwrap_or(number.len());
    let units = whole(&number[..point])?.checked_mul(scale)?;
    let decimals = match number.get(point + 1..) {
        Some(decimals) => fraction(decimals, scale)?,
        None => 0,
    };
    units.checked_add(decimals)
}

/// Decimals of a number, in parts of `scale`.
pub fn fraction(decimals: &[u8], scale: u64) -> Option<u64> {
    if decimals.len() > 9 {
        return None;
    }
    let parts = u128::from(whole(decimals)?) * u128::from(scale);
    u64::try_from(parts / 10u128.pow(decimals.len() as u32)).ok()
}

fn power(unit: u8) -> Option<u32> {
    b"KMGTPE".iter().position(|known| *known == unit.to_ascii_uppercase()).map(|at| at as u32 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_units() {
        const M: u64 = 1 << 20;
        for (text, expected) in [
            ("0", Some(0)),
            ("17", Some(17)),
            ("1K", Some(1024)),
            ("24000M", Some(24000 * M)),
            ("62.50G", Some(64000 * M)),
            ("1.5k", Some(1536)),
            ("3T", Some(3 << 40)),
            ("1P", Some(1 << 50)),
            ("", None),
            ("K", None),
            (".5K", None),
            ("5.K", None),
            ("1.2.3K", None),
            ("-1", None),
            ("+1", None),
            ("1X", None),
            ("1 K", None),
            ("99999999999999999999", None),
            ("9999999999999P", None),
            ("1.0123456789K", None),
        ] {
            assert_eq!(scaled(text.as_bytes(), KIBI, 1), expected, "{text}");
        }
        assert_eq!(scaled(b"1.5K", KILO, 1), Some(1500));
        assert_eq!(scaled(b"2", KIBI, M), Some(2 * M));
    }

    #[test]
    fn no_value_is_no_number() {
        assert_eq!([4294967294, u64::MAX, 7].map(told), [None, None, Some(7)]);
    }
}
