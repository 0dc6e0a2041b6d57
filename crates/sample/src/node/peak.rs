//! How many operations on double-precision numbers a node could do in a second, at most and on paper.
//!
//! The kernel does not know how many units a core has. A table says it by instruction set, and by kind of processor
//! where the instruction set misleads. With the number comes the rule it was made by, to be shown wherever the number
//! is.

use std::ops::RangeInclusive;

use super::processor::Processor;

/// The number, and how it was derived or why it could not be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Peak {
    pub flops: Option<u64>,
    pub rule: String,
}

/// What the number is made of.
#[derive(Debug, Clone, Copy)]
pub struct Machine<'a> {
    pub processor: &'a Processor,
    pub cores: Option<u64>,
    pub base_hz: Option<u64>,
    pub max_hz: Option<u64>,
    /// Length of the vectors of SVE in bytes.
    pub sve_bytes: Option<u64>,
}

/// Which processors do how much in a cycle. Those with another vendor, family, model or core, or without one of the
/// flags, are not meant.
struct Rule {
    /// Empty is any.
    vendor: &'static str,
    families: RangeInclusive<u64>,
    models: RangeInclusive<u64>,
    /// The name of the core, of ARM. Empty is any.
    core: &'static str,
    flags: &'static [&'static str],
    per_cycle: PerCycle,
    because: &'static str,
}

#[derive(Clone, Copy)]
enum PerCycle {
    Flops(u64),
    /// So many units of the width of SVE's vectors, each a multiplication and an addition for every eight bytes.
    Sve(u64),
}

const ANY: RangeInclusive<u64> = 0..=u64::MAX;
const RULE: Rule = Rule {
    vendor: "",
    families: ANY,
    models: ANY,
    core: "",
    flags: &[],
    per_cycle: PerCycle::Flops(0),
    because: "",
};

/// The first that applies.
const RULES: [Rule; 13] = [
    Rule {
        vendor: "AuthenticAMD",
        families: 26..=26,
        flags: &["avx512f"],
        per_cycle: PerCycle::Flops(32),
        because: "two FMA units of 512 bits (Zen 5; those for laptops have half of it)",
        ..RULE
    },
    Rule {
        vendor: "AuthenticAMD",
        families: 25..=25,
        flags: &["avx512f"],
        per_cycle: PerCycle::Flops(16),
        because: "two FMA units of 256 bits, which an instruction of 512 bits uses twice (Zen 4)",
        ..RULE
    },
    Rule {
        vendor: "AuthenticAMD",
        families: 23..=23,
        models: 0..=0x2f,
        flags: &["avx2", "fma"],
        per_cycle: PerCycle::Flops(8),
        because: "two FMA units of 128 bits (Zen 1)",
        ..RULE
    },
    Rule {
        vendor: "HygonGenuine",
        flags: &["avx2", "fma"],
        per_cycle: PerCycle::Flops(8),
        because: "two FMA units of 128 bits, as in Zen 1",
        ..RULE
    },
    Rule {
        vendor: "GenuineIntel",
        families: 6..=6,
        models: 0xaf..=0xaf,
        flags: &["avx2", "fma"],
        per_cycle: PerCycle::Flops(8),
        because: "two FMA units of 128 bits (efficient cores)",
        ..RULE
    },
    Rule {
        flags: &["avx512f"],
        per_cycle: PerCycle::Flops(32),
        because: "two FMA units of 512 bits assumed (some Xeon Bronze, Silver and Gold 5xxx have one: half of it)",
        ..RULE
    },
    Rule {
        flags: &["avx2", "fma"],
        per_cycle: PerCycle::Flops(16),
        because: "two FMA units of 256 bits assumed",
        ..RULE
    },
    Rule {
        flags: &["avx"],
        per_cycle: PerCycle::Flops(8),
        because: "one unit to add and one to multiply, of 256 bits, assumed (AMD's of those years have half of it)",
        ..RULE
    },
    Rule {
        flags: &["sse2"],
        per_cycle: PerCycle::Flops(4),
        because: "one unit to add and one to multiply, of 128 bits, assumed",
        ..RULE
    },
    Rule {
        core: "Neoverse-V2",
        flags: &["asimd"],
        per_cycle: PerCycle::Flops(16),
        because: "four FMA units of 128 bits (Neoverse-V2)",
        ..RULE
    },
    Rule {
        core: "Neoverse-V3",
        flags: &["asimd"],
        per_cycle: PerCycle::Flops(16),
        because: "four FMA units of 128 bits (Neoverse-V3)",
        ..RULE
    },
    Rule {
        flags: &["sve"],
        per_cycle: PerCycle::Sve(2),
        because: "two FMA units assumed, of the length that the kernel gives to programs",
        ..RULE
    },
    Rule {
        flags: &["asimd"],
        per_cycle: PerCycle::Flops(8),
        because: "two FMA units of 128 bits assumed",
        ..RULE
    },
];

impl Rule {
    fn applies(&self, processor: &Processor) -> bool {
        let is = |wanted: &str, is: &Option<Vec<u8>>| {
            wanted.is_empty() || is.as_deref().is_some_and(|is| is == wanted.as_bytes())
        };
        let within = |wanted: &RangeInclusive<u64>, is: Option<u64>| {
            *wanted == ANY || is.is_some_and(|is| wanted.contains(&is))
        };
        is(self.vendor, &processor.vendor)
            && is(self.core, &processor.model)
            && within(&self.families, processor.family)
            && within(&self.models, processor.model_number)
            && self.flags.iter().all(|flag| processor.has(flag))
    }
}

/// The number for a machine.
pub fn peak(machine: Machine) -> Peak {
    match derive(machine) {
        Ok(peak) => peak,
        Err(reason) => Peak { flops: None, rule: format!("unknown: {reason}") },
    }
}

fn derive(machine: Machine) -> Result<Peak, &'static str> {
    let processor = machine.processor;
    let rule = RULES.iter().find(|rule| rule.applies(processor));
    let rule = rule.ok_or("no rule for the instruction sets of this processor")?;
    let per_cycle = match rule.per_cycle {
        PerCycle::Flops(flops) => flops,
        PerCycle::Sve(units) => {
            let bytes = machine.sve_bytes.ok_or("the length of SVE's vectors cannot be read")?;
            (bytes / 8).checked_mul(2 * units).ok_or("the length of SVE's vectors is absurd")?
        }
    };
    let cores = machine.cores.ok_or("the number of cores cannot be read")?;
    let (hz, which) = frequency(machine).ok_or("no frequency can be read")?;
    let flops = per_cycle.checked_mul(cores).and_then(|flops| flops.checked_mul(hz));
    let flops = flops.ok_or("the product is absurd")?;
    let guest = if processor.has("hypervisor") {
        "; a virtual machine, whose cores may be threads of others"
    } else {
        ""
    };
    let rule = format!(
        "{}: {per_cycle} flops per cycle and core, {}; {cores} cores; {} MHz, {which}{guest}",
        rule.flags.join("+"),
        rule.because,
        hz / 1_000_000,
    );
    Ok(Peak { flops: Some(flops), rule })
}

fn frequency(machine: Machine) -> Option<(u64, &'static str)> {
    let base =
        machine.base_hz.map(|hz| (hz, "the base frequency (wide vectors may run below it, few cores above)"));
    let max = machine.max_hz.map(|hz| (hz, "the greatest frequency (all cores together run below it)"));
    let current = machine.processor.current_hz.map(|hz| (hz, "the frequency at the moment of reading"));
    base.or(max).or(current)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn processor(vendor: &str, family: u64, model_number: u64, core: &str, flags: &str) -> Processor {
        Processor {
            vendor: Some(vendor.into()),
            model: Some(core.into()),
            family: Some(family),
            model_number: Some(model_number),
            flags: flags.split_whitespace().map(|flag| flag.as_bytes().to_vec()).collect(),
            current_hz: None,
        }
    }

    #[test]
    fn flops_per_cycle() {
        let (intel, amd) = ("GenuineIntel", "AuthenticAMD");
        for (vendor, family, model, core, flags, sve, expected) in [
            (intel, 6, 106, "", "sse2 avx avx2 fma avx512f", None, Some(32)),
            (intel, 6, 79, "", "sse2 avx avx2 fma", None, Some(16)),
            (intel, 6, 0xaf, "", "sse2 avx avx2 fma", None, Some(8)),
            (intel, 6, 45, "", "sse2 avx", None, Some(8)),
            (intel, 6, 23, "", "sse2", None, Some(4)),
            (amd, 23, 1, "", "sse2 avx avx2 fma", None, Some(8)),
            (amd, 23, 0x31, "", "sse2 avx avx2 fma", None, Some(16)),
            (amd, 25, 1, "", "sse2 avx avx2 fma", None, Some(16)),
            (amd, 25, 17, "", "sse2 avx avx2 fma avx512f", None, Some(16)),
            (amd, 26, 2, "", "sse2 avx avx2 fma avx512f", None, Some(32)),
            ("HygonGenuine", 24, 1, "", "sse2 avx avx2 fma", None, Some(8)),
            ("ARM", 0, 0, "Neoverse-N1", "fp asimd", None, Some(8)),
            ("ARM", 0, 0, "Neoverse-V1", "fp asimd sve", Some(32), Some(16)),
            ("ARM", 0, 0, "Neoverse-V2", "fp asimd sve", Some(16), Some(16)),
            ("Fujitsu", 0, 0, "A64FX", "fp asimd sve", Some(64), Some(32)),
            ("ARM", 0, 0, "Neoverse-V1", "fp asimd sve", None, None),
            ("IBM", 0, 0, "POWER9", "", None, None),
        ] {
            let processor = processor(vendor, family, model, core, flags);
            let machine = Machine {
                processor: &processor,
                cores: Some(1),
                base_hz: Some(1),
                max_hz: None,
                sve_bytes: sve,
            };
            let peak = peak(machine);
            assert_eq!(peak.flops, expected, "{vendor} {family} {model} {core}: {}", peak.rule);
            assert_eq!(expected.is_none(), peak.rule.starts_with("unknown: "), "{}", peak.rule);
        }
    }

    #[test]
    fn the_best_known_frequency_is_used() {
        let mut processor = processor("GenuineIntel", 6, 106, "", "avx512f");
        processor.current_hz = Some(3_000_000_000);
        let check = |base_hz, max_hz, current_hz, expected, text: &str| {
            let processor = Processor { current_hz, ..processor.clone() };
            let peak =
                peak(Machine { processor: &processor, cores: Some(64), base_hz, max_hz, sve_bytes: None });
            assert_eq!(peak.flops, expected, "{}", peak.rule);
            assert!(peak.rule.contains(text), "{}", peak.rule);
        };
        let hz = [2_400_000_000, 3_500_000_000, 3_000_000_000].map(Some);
        check(hz[0], hz[1], hz[2], Some(64 * 32 * 2_400_000_000), "64 cores; 2400 MHz, the base frequency");
        check(None, hz[1], hz[2], Some(64 * 32 * 3_500_000_000), "3500 MHz, the greatest frequency");
        check(None, None, hz[2], Some(64 * 32 * 3_000_000_000), "3000 MHz, the frequency at the moment");
        check(None, None, None, None, "unknown: no frequency");
        check(Some(u64::MAX), None, None, None, "unknown: the product is absurd");
    }

    #[test]
    fn a_guest_is_told_so_and_cores_are_needed() {
        let processor = processor("GenuineIntel", 6, 106, "", "avx512f hypervisor");
        let machine =
            Machine { processor: &processor, cores: None, base_hz: Some(1), max_hz: None, sve_bytes: None };
        assert_eq!(peak(machine).rule, "unknown: the number of cores cannot be read");
        assert!(peak(Machine { cores: Some(2), ..machine }).rule.contains("virtual machine"));
    }

    proptest! {
        #[test]
        fn any_machine_has_a_rule_or_a_reason(
            cores in any::<Option<u64>>(), hz in any::<Option<u64>>(), sve in any::<Option<u64>>(), flag in 0usize..5,
        ) {
            let flags = ["avx512f", "avx2 fma", "sve", "asimd", ""][flag];
            let processor = processor("x", 1, 2, "y", flags);
            let machine =
                Machine { processor: &processor, cores, base_hz: hz, max_hz: None, sve_bytes: sve };
            let peak = peak(machine);
            prop_assert_eq!(peak.flops.is_none(), peak.rule.starts_with("unknown: "));
        }
    }
}
