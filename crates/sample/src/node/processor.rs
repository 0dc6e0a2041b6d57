//! What kind of processor the node has: the first one in `/proc/cpuinfo`. A node has several, but not several kinds.

use crate::read::{decimal, lines, number, pairs, words};

/// The first processor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Processor {
    /// `GenuineIntel`, `AuthenticAMD`; of ARM a name, or the number if it has none here.
    pub vendor: Option<Vec<u8>>,
    /// In the words of the vendor; of ARM the name of the core, or the number if it has none here.
    pub model: Option<Vec<u8>>,
    /// Of x86.
    pub family: Option<u64>,
    pub model_number: Option<u64>,
    /// Instruction sets and other features.
    pub flags: Vec<Vec<u8>>,
    /// At the moment it was read.
    pub current_hz: Option<u64>,
}

/// ARM gives numbers; these are the ones that are met in computing centres.
const ARM_VENDORS: [(&[u8], &[u8]); 9] = [
    (b"0x41", b"ARM"),
    (b"0x42", b"Broadcom"),
    (b"0x43", b"Cavium"),
    (b"0x46", b"Fujitsu"),
    (b"0x48", b"HiSilicon"),
    (b"0x4e", b"NVIDIA"),
    (b"0x50", b"APM"),
    (b"0x70", b"Phytium"),
    (b"0xc0", b"Ampere"),
];
const ARM_CORES: [(&[u8], &[u8], &[u8]); 14] = [
    (b"0x41", b"0xd07", b"Cortex-A57"),
    (b"0x41", b"0xd08", b"Cortex-A72"),
    (b"0x41", b"0xd0c", b"Neoverse-N1"),
    (b"0x41", b"0xd40", b"Neoverse-V1"),
    (b"0x41", b"0xd49", b"Neoverse-N2"),
    (b"0x41", b"0xd4f", b"Neoverse-V2"),
    (b"0x41", b"0xd84", b"Neoverse-V3"),
    (b"0x41", b"0xd8e", b"Neoverse-N3"),
    (b"0x42", b"0x516", b"ThunderX2"),
    (b"0x43", b"0x0af", b"ThunderX2"),
    (b"0x46", b"0x001", b"A64FX"),
    (b"0x48", b"0xd01", b"Kunpeng-920"),
    (b"0xc0", b"0xac3", b"Ampere-1"),
    (b"0xc0", b"0xac4", b"Ampere-1a"),
];

impl Processor {
    /// Whether it has an instruction set or another feature.
    pub fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|known| known == flag.as_bytes())
    }
}

/// The lines `name : value` up to the first empty one.
pub fn parse_cpuinfo(text: &[u8]) -> Processor {
    let mut processor = Processor::default();
    let (mut implementer, mut part, mut power) = (None, None, None);
    for (name, value) in lines(text).take_while(|line| !line.trim_ascii().is_empty()).flat_map(pairs) {
        match name {
            b"vendor_id" => processor.vendor = known(value),
            b"model name" => processor.model = known(value),
            b"cpu family" => processor.family = number(value),
            b"model" => processor.model_number = number(value),
            b"flags" | b"Features" => processor.flags = words(value).map(<[u8]>::to_vec).collect(),
            b"cpu MHz" => processor.current_hz = decimal(value).and_then(hz),
            b"CPU implementer" => implementer = known(value),
            b"CPU part" => part = known(value),
            b"cpu" => power = known(value),
            // Of POWER: `2300.000000MHz`.
            b"clock" => processor.current_hz = value.strip_suffix(b"MHz").and_then(decimal).and_then(hz),
            _ => {}
        }
    }
    let vendor = implementer.as_deref().map(arm_vendor);
    let core =
        implementer.as_deref().zip(part.as_deref()).map(|(implementer, part)| arm_core(implementer, part));
    processor.vendor = processor.vendor.or(vendor);
    processor.model = processor.model.or(core).or(power);
    processor
}

fn known(value: &[u8]) -> Option<Vec<u8>> {
    (!value.is_empty()).then(|| value.to_vec())
}

/// What is above a terahertz is no frequency.
fn hz(mhz: f64) -> Option<u64> {
    (mhz > 0.0 && mhz < 1e6).then_some((mhz * 1e6).round() as u64)
}

fn arm_vendor(implementer: &[u8]) -> Vec<u8> {
    ARM_VENDORS.iter().find(|row| row.0 == implementer).map_or(implementer, |row| row.1).to_vec()
}

fn arm_core(implementer: &[u8], part: &[u8]) -> Vec<u8> {
    ARM_CORES.iter().find(|row| row.0 == implementer && row.1 == part).map_or(part, |row| row.2).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn vendors_and_models() {
        for (text, vendor, model, hz) in [
            (
                "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Xeon: 1\ncpu MHz\t\t: 2299.998\n",
                Some("GenuineIntel"),
                Some("Xeon: 1"),
                Some(2_299_998_000),
            ),
            ("vendor_id : A\n\nvendor_id : B\n", Some("A"), None, None),
            ("vendor_id :\nmodel name:\ncpu MHz: 0.000\n", None, None, None),
            ("CPU implementer : 0x41\nCPU part : 0xd4f\n", Some("ARM"), Some("Neoverse-V2"), None),
            ("CPU implementer : 0x99\nCPU part : 0xd4f\n", Some("0x99"), Some("0xd4f"), None),
            ("CPU part : 0xd4f\n", None, None, None),
            (
                "cpu\t\t: POWER9, altivec supported\nclock\t\t: 3783.000000MHz\n",
                None,
                Some("POWER9, altivec supported"),
                Some(3_783_000_000),
            ),
            ("cpu MHz : 99999999\n", None, None, None),
            ("", None, None, None),
        ] {
            let processor = parse_cpuinfo(text.as_bytes());
            assert_eq!(processor.vendor.as_deref(), vendor.map(str::as_bytes), "{text}");
            assert_eq!(processor.model.as_deref(), model.map(str::as_bytes), "{text}");
            assert_eq!(processor.current_hz, hz, "{text}");
        }
    }

    #[test]
    fn flags_are_whole_words() {
        let processor = parse_cpuinfo(b"flags\t\t: fpu avx512f fma4 bad\xff\n");
        assert!(processor.has("avx512f") && !processor.has("avx") && !processor.has("fma"));
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_cpuinfo(&bytes);
            let _ = parse_cpuinfo(&[b"cpu MHz : ", bytes.as_slice()].concat());
        }
    }
}
