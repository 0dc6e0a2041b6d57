//! Lists of trackable resources: `cpu=12,gres/gpu:a100=2,mem=31000M`.

use record::accounting::Tres;

use crate::number::{KIBI, scaled, told, whole};
use crate::time::duration;

/// What the numbers of a list are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Requested or allocated: memory without a unit is in MB, as in Slurm's database.
    Given,
    /// Used: memory in bytes, processors in time.
    Used,
}

const MIB: u64 = 1 << 20;
const MILLISECOND: u64 = 1_000_000;

/// Adds what a list says, and gives the first of its parts whose number cannot be read. Nothing if it is no list.
pub fn read<'a>(text: &'a [u8], kind: Kind, list: &mut Vec<Tres>) -> Option<Option<&'a [u8]>> {
    let mut odd = None;
    for part in text.split(|byte| *byte == b',') {
        let at = part.iter().position(|byte| *byte == b'=').filter(|at| *at > 0)?;
        let (name, number) = (std::str::from_utf8(&part[..at]).ok()?, &part[at + 1..]);
        if name.bytes().any(|byte| byte.is_ascii_whitespace()) {
            return None;
        }
        let (resource, name) = match name.split_once('/') {
            Some((resource, name)) => (resource, Some(name)),
            None => (name, None),
        };
        match count(resource, number, kind) {
            Some(number) => list.extend(told(number).map(|count| Tres {
                kind: resource.into(),
                name: name.map(Into::into),
                count,
            })),
            None => odd = odd.or(Some(part)),
        }
    }
    Some(odd)
}

fn count(resource: &str, number: &[u8], kind: Kind) -> Option<u64> {
    match (resource, kind) {
        ("mem" | "bb", Kind::Given) => scaled(number, KIBI, MIB),
        // Slurm's own number is in milliseconds.
        ("cpu", Kind::Used) => match whole(number) {
            Some(number) => Some(told(number).map_or(number, |ms| ms.saturating_mul(MILLISECOND))),
            None => duration(number),
        },
        _ => scaled(number, KIBI, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, kind: Kind) -> Option<String> {
        let mut list = Vec::new();
        let odd = read(text.as_bytes(), kind, &mut list)?;
        let one =
            |tres: &Tres| format!("{}/{}={}", tres.kind, tres.name.as_deref().unwrap_or(""), tres.count);
        let list = list.iter().map(one).collect::<Vec<_>>().join(" ");
        Some(odd.map_or(list.clone(), |odd| format!("{list} odd {}", String::from_utf8_lossy(odd))))
    }

    #[test]
    fn lists() {
        for (text, kind, expected) in [
            ("cpu=8,mem=24000M,node=1", Kind::Given, Some("cpu/=8 mem/=25165824000 node/=1")),
            ("mem=62.50G", Kind::Given, Some("mem/=67108864000")),
            ("mem=1", Kind::Given, Some("mem/=1048576")),
            ("mem=1", Kind::Used, Some("mem/=1")),
            ("gres/gpu:a100=2,gres/gpu=2", Kind::Given, Some("gres/gpu:a100=2 gres/gpu=2")),
            ("license/matlab@flex=3", Kind::Given, Some("license/matlab@flex=3")),
            ("cpu=00:01:03,fs/disk=2.5K", Kind::Used, Some("cpu/=63000000000 fs/disk=2560")),
            ("cpu=1500", Kind::Used, Some("cpu/=1500000000")),
            ("energy=18446744073709551614,cpu=1", Kind::Given, Some("cpu/=1")),
            ("cpu=1,energy=-1", Kind::Given, Some("cpu/=1 odd energy=-1")),
            ("cpu", Kind::Given, None),
            ("=1", Kind::Given, None),
            ("a b=1", Kind::Given, None),
            ("cpu=1,", Kind::Given, None),
        ] {
            assert_eq!(shown(text, kind).as_deref(), expected, "{text}");
        }
    }
}
