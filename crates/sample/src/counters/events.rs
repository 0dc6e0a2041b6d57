//! What is counted, and under which number each kind of processor knows it.
//!
//! The numbers are those of the makers' manuals, compared with `tools/perf/pmu-events` of Linux. A processor that is not in
//! the table has only what the kernel has a name of its own for. Events of a set are counted together, at the same times, so
//! their ratios are true even where there are more events than counters. Sets are small: a processor has four to eight
//! counters, the kernel's watchdog may hold one, and a set for which there is no room is never counted.

use std::fmt;
use std::ops::RangeInclusive;

use super::processor::{Processor, Vendor};

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    Instructions,
    Cycles,
    /// Reads that the first data cache could not answer.
    L1dReadMisses,
    /// Lines that came from memory because no cache had them. AMD: only those that the first data cache waited for.
    LastLevelMisses,
    /// Intel: retired instructions. AMD and ARM: operations begun, also in vain.
    Loads,
    Stores,
    /// Floating point operations, of which a fused multiplication and addition is two. ARM: also those made in vain.
    Flops(Width, Precision),
    /// Floating point instructions or operations by width, where nobody counts what they amount to. ARM: also integers.
    VectorOperations(Width),
    /// Of the kernel, there without any counter: nanoseconds, switches and faults.
    TaskClock,
    ContextSwitches,
    PageFaults,
}

/// How much an instruction computes at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Width {
    Scalar,
    Bits128,
    Bits256,
    Bits512,
    /// Of the length the processor has (SVE).
    Scalable,
    /// Scalar and 128 bits together.
    NotScalable,
    Any,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Precision {
    Single,
    Double,
    Any,
}

/// An event and how to ask for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Counter {
    pub event: Event,
    pub code: Code,
    /// One count stands for so many; results are already multiplied.
    pub per_count: u32,
}

/// The number of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// `PERF_COUNT_HW_…`
    Hardware(u64),
    /// `PERF_COUNT_HW_CACHE_…`: cache, access and result, a byte each.
    Cache(u64),
    /// As the processor knows it.
    Raw(u64),
    /// `PERF_COUNT_SW_…`
    Software(u64),
}

/// Counted together.
pub type Set = &'static [Counter];

const fn counter(event: Event, code: Code) -> Counter {
    Counter { event, code, per_count: 1 }
}

/// An event of an x86 processor.
const fn x86(event: Event, select: u64, mask: u64) -> Counter {
    counter(event, Code::Raw(select | (mask << 8)))
}

const fn arm(event: Event, number: u64) -> Counter {
    counter(event, Code::Raw(number))
}

const fn times(per_count: u32, counter: Counter) -> Counter {
    Counter { per_count, ..counter }
}

const BASIC: Set =
    &[counter(Event::Cycles, Code::Hardware(0)), counter(Event::Instructions, Code::Hardware(1))];
/// The kernel's generic `cache-misses` is the last level only on Intel: AMD's is the second, ARM's the first.
const L1D: Counter = counter(Event::L1dReadMisses, Code::Cache(0x01_00_00));

/// Processors without an entry.
const OTHERS: &[Set] = &[BASIC, &[L1D]];

/// Without hardware: shows that counting works as such.
pub const SOFTWARE: &[Set] = &[&[
    counter(Event::TaskClock, Code::Software(1)),
    counter(Event::PageFaults, Code::Software(2)),
    counter(Event::ContextSwitches, Code::Software(3)),
]];

/// `MEM_INST_RETIRED.ALL_LOADS` and `ALL_STORES`.
const INTEL_MEMORY: Set = &[x86(Event::Loads, 0xd0, 0x81), x86(Event::Stores, 0xd0, 0x82)];
const INTEL_MISSES: Set = &[L1D, counter(Event::LastLevelMisses, Code::Hardware(3))];

/// `FP_ARITH_INST_RETIRED`: instructions, of which a fused one counts twice, so the lanes are what is left to multiply.
const fn intel(lanes: u32, width: Width, precision: Precision, mask: u64) -> Counter {
    times(lanes, x86(Event::Flops(width, precision), 0xc7, mask))
}
const INTEL_SCALAR: Set =
    &[intel(1, Width::Scalar, Precision::Double, 0x01), intel(1, Width::Scalar, Precision::Single, 0x02)];
const INTEL_128: Set =
    &[intel(2, Width::Bits128, Precision::Double, 0x04), intel(4, Width::Bits128, Precision::Single, 0x08)];
const INTEL_256: Set =
    &[intel(4, Width::Bits256, Precision::Double, 0x10), intel(8, Width::Bits256, Precision::Single, 0x20)];
const INTEL_512: Set =
    &[intel(8, Width::Bits512, Precision::Double, 0x40), intel(16, Width::Bits512, Precision::Single, 0x80)];

const INTEL_AVX2: &[Set] = &[BASIC, INTEL_MEMORY, INTEL_MISSES, INTEL_SCALAR, INTEL_128, INTEL_256];
const INTEL_AVX512: &[Set] =
    &[BASIC, INTEL_MEMORY, INTEL_MISSES, INTEL_SCALAR, INTEL_128, INTEL_256, INTEL_512];

/// `LS_DISPATCH`.
const AMD_MEMORY: Set = &[x86(Event::Loads, 0x29, 0x01), x86(Event::Stores, 0x29, 0x02)];
/// Fills from memory, near and far: `LS_REFILLS_FROM_SYS`, later `LS_ANY_FILLS_FROM_SYS`.
const ZEN2_MISSES: Set = &[L1D, x86(Event::LastLevelMisses, 0x43, 0x48)];
const ZEN3_MISSES: Set = &[L1D, x86(Event::LastLevelMisses, 0x44, 0x48)];
/// `FP_RET_SSE_AVX_OPS`: operations, whatever the width. It takes two counters on Zen 2 and 3.
const AMD_FLOPS: Event = Event::Flops(Width::Any, Precision::Any);
const ZEN2_FLOPS: Set = &[x86(AMD_FLOPS, 0x03, 0x0f)];
/// The fifth kind, `bfloat16`, came with Zen 4; with Zen 5 the mask is a number that means all.
const ZEN4_FLOPS: Set = &[x86(AMD_FLOPS, 0x03, 0x1f)];
/// `FP_OPS_RETIRED_BY_WIDTH`.
const ZEN4_WIDTHS: Set = &[
    x86(Event::VectorOperations(Width::Scalar), 0x08, 0x04),
    x86(Event::VectorOperations(Width::Bits128), 0x08, 0x08),
    x86(Event::VectorOperations(Width::Bits256), 0x08, 0x10),
    x86(Event::VectorOperations(Width::Bits512), 0x08, 0x20),
];

const ZEN2: &[Set] = &[BASIC, AMD_MEMORY, ZEN2_MISSES, ZEN2_FLOPS];
const ZEN3: &[Set] = &[BASIC, AMD_MEMORY, ZEN3_MISSES, ZEN2_FLOPS];
const ZEN4: &[Set] = &[BASIC, AMD_MEMORY, ZEN3_MISSES, ZEN4_FLOPS, ZEN4_WIDTHS];
const ZEN5: &[Set] = &[BASIC, AMD_MEMORY, ZEN3_MISSES, ZEN2_FLOPS, ZEN4_WIDTHS];

/// `MEM_ACCESS_RD`, `MEM_ACCESS_WR` and `LL_CACHE_MISS_RD`.
const ARM_MEMORY: Set = &[arm(Event::Loads, 0x66), arm(Event::Stores, 0x67)];
const ARM_MISSES: Set = &[L1D, arm(Event::LastLevelMisses, 0x37)];
/// `VFP_SPEC` and `ASE_SPEC`: before SVE nobody counted the operations.
const ARM_WIDTHS: Set =
    &[arm(Event::VectorOperations(Width::Scalar), 0x75), arm(Event::VectorOperations(Width::Bits128), 0x74)];
/// `FP_FIXED_OPS_SPEC` as they are, `FP_SCALE_OPS_SPEC` as if vectors had 128 bits.
const FIXED: Counter = arm(Event::Flops(Width::NotScalable, Precision::Any), 0x80c1);
const SCALABLE: Counter = arm(Event::Flops(Width::Scalable, Precision::Any), 0x80c0);

const ARM_NEON: &[Set] = &[BASIC, ARM_MEMORY, ARM_MISSES, ARM_WIDTHS];
const ARM_SVE128: &[Set] = &[BASIC, ARM_MEMORY, ARM_MISSES, &[FIXED, SCALABLE]];
const ARM_SVE256: &[Set] = &[BASIC, ARM_MEMORY, ARM_MISSES, &[FIXED, times(2, SCALABLE)]];
/// A64FX has no event for misses of its last cache that is counted per core.
const ARM_SVE512: &[Set] = &[BASIC, &[L1D], &[FIXED, times(4, SCALABLE)]];

/// The sets of a kind of processor.
struct Row {
    name: &'static str,
    vendor: Vendor,
    family: u32,
    models: &'static [RangeInclusive<u32>],
    sets: &'static [Set],
}

const fn row(
    name: &'static str,
    vendor: Vendor,
    family: u32,
    models: &'static [RangeInclusive<u32>],
    sets: &'static [Set],
) -> Row {
    Row { name, vendor, family, models, sets }
}

const TABLE: &[Row] = &[
    row("Broadwell", Vendor::Intel, 6, &[0x4f..=0x4f, 0x56..=0x56], INTEL_AVX2),
    row("Skylake, Cascade Lake, Cooper Lake", Vendor::Intel, 6, &[0x55..=0x55], INTEL_AVX512),
    row("Ice Lake", Vendor::Intel, 6, &[0x6a..=0x6a, 0x6c..=0x6c], INTEL_AVX512),
    row("Sapphire Rapids", Vendor::Intel, 6, &[0x8f..=0x8f], INTEL_AVX512),
    row("Emerald Rapids", Vendor::Intel, 6, &[0xcf..=0xcf], INTEL_AVX512),
    row("Granite Rapids", Vendor::Intel, 6, &[0xad..=0xae], INTEL_AVX512),
    row("Zen 2", Vendor::Amd, 0x17, &[0x30..=0xff], ZEN2),
    row("Zen 3", Vendor::Amd, 0x19, &[0x00..=0x0f, 0x20..=0x5f], ZEN3),
    row("Zen 4", Vendor::Amd, 0x19, &[0x10..=0x1f, 0x60..=0xaf], ZEN4),
    row("Zen 5", Vendor::Amd, 0x1a, &[0x00..=0x4f, 0x60..=0x7f], ZEN5),
    row("Neoverse N1", Vendor::Arm, 0x41, &[0xd0c..=0xd0c], ARM_NEON),
    row("Neoverse V1", Vendor::Arm, 0x41, &[0xd40..=0xd40], ARM_SVE256),
    row("Neoverse N2, V2", Vendor::Arm, 0x41, &[0xd49..=0xd49, 0xd4f..=0xd4f], ARM_SVE128),
    row("A64FX", Vendor::Arm, 0x46, &[0x001..=0x001], ARM_SVE512),
];

fn find(processor: Processor) -> Option<&'static Row> {
    TABLE.iter().find(|row| {
        (row.vendor, row.family) == (processor.vendor, processor.family)
            && row.models.iter().any(|models| models.contains(&processor.model))
    })
}

/// What a processor is called, if it is in the table.
pub fn name(processor: Processor) -> Option<&'static str> {
    find(processor).map(|row| row.name)
}

/// What can be counted on a processor.
pub fn sets(processor: Option<Processor>) -> &'static [Set] {
    processor.and_then(find).map_or(OTHERS, |row| row.sets)
}

impl Event {
    /// Whether the kernel counts it without the processor's help.
    pub fn is_software(self) -> bool {
        matches!(self, Event::TaskClock | Event::ContextSwitches | Event::PageFaults)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Event::Instructions => out.write_str("instructions"),
            Event::Cycles => out.write_str("cycles"),
            Event::L1dReadMisses => out.write_str("L1d read misses"),
            Event::LastLevelMisses => out.write_str("last level misses"),
            Event::Loads => out.write_str("loads"),
            Event::Stores => out.write_str("stores"),
            Event::Flops(width, precision) => write!(out, "flops ({width}{precision})"),
            Event::VectorOperations(width) => write!(out, "vector operations ({width})"),
            Event::TaskClock => out.write_str("task clock"),
            Event::ContextSwitches => out.write_str("context switches"),
            Event::PageFaults => out.write_str("page faults"),
        }
    }
}

impl fmt::Display for Width {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(match self {
            Width::Scalar => "scalar",
            Width::Bits128 => "128 bits",
            Width::Bits256 => "256 bits",
            Width::Bits512 => "512 bits",
            Width::Scalable => "scalable",
            Width::NotScalable => "not scalable",
            Width::Any => "any width",
        })
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(match self {
            Precision::Single => ", single",
            Precision::Double => ", double",
            Precision::Any => "",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn processors_have_the_events_of_their_kind() {
        let double = |width| Event::Flops(width, Precision::Double);
        for (vendor, family, model, expected, event, code, per_count) in [
            (Vendor::Intel, 6, 85, "Skylake, Cascade Lake, Cooper Lake", double(Width::Bits512), 0x40c7, 8),
            (Vendor::Intel, 6, 106, "Ice Lake", double(Width::Bits128), 0x04c7, 2),
            (
                Vendor::Intel,
                6,
                143,
                "Sapphire Rapids",
                Event::Flops(Width::Bits512, Precision::Single),
                0x80c7,
                16,
            ),
            (Vendor::Intel, 6, 207, "Emerald Rapids", double(Width::Scalar), 0x01c7, 1),
            (Vendor::Intel, 6, 79, "Broadwell", double(Width::Bits256), 0x10c7, 4),
            (Vendor::Amd, 23, 0x31, "Zen 2", AMD_FLOPS, 0x0f03, 1),
            (Vendor::Amd, 23, 0x31, "Zen 2", Event::LastLevelMisses, 0x4843, 1),
            (Vendor::Amd, 25, 0x01, "Zen 3", Event::LastLevelMisses, 0x4844, 1),
            (Vendor::Amd, 25, 0x11, "Zen 4", AMD_FLOPS, 0x1f03, 1),
            (Vendor::Amd, 25, 0xa0, "Zen 4", Event::VectorOperations(Width::Bits512), 0x2008, 1),
            (Vendor::Amd, 26, 0x02, "Zen 5", AMD_FLOPS, 0x0f03, 1),
            (Vendor::Arm, 0x41, 0xd0c, "Neoverse N1", Event::VectorOperations(Width::Bits128), 0x74, 1),
            (Vendor::Arm, 0x41, 0xd40, "Neoverse V1", SCALABLE.event, 0x80c0, 2),
            (Vendor::Arm, 0x41, 0xd4f, "Neoverse N2, V2", SCALABLE.event, 0x80c0, 1),
            (Vendor::Arm, 0x46, 0x001, "A64FX", SCALABLE.event, 0x80c0, 4),
        ] {
            let processor = Processor { vendor, family, model };
            assert_eq!(name(processor), Some(expected));
            let counter =
                sets(Some(processor)).iter().copied().flatten().find(|counter| counter.event == event);
            let expected = Counter { event, code: Code::Raw(code), per_count };
            assert_eq!(counter, Some(&expected), "{processor:?} {event}");
        }
    }

    #[test]
    fn others_have_what_the_kernel_has_a_name_for() {
        let haswell = Processor { vendor: Vendor::Intel, family: 6, model: 63 };
        let zen1 = Processor { vendor: Vendor::Amd, family: 23, model: 1 };
        for processor in [None, Some(haswell), Some(zen1)] {
            let events: Vec<Event> =
                sets(processor).iter().copied().flatten().map(|counter| counter.event).collect();
            assert_eq!(events, [Event::Cycles, Event::Instructions, Event::L1dReadMisses]);
        }
    }

    #[test]
    fn no_event_is_counted_twice_and_sets_are_small() {
        for row in TABLE {
            let all: Vec<&Counter> = row.sets.iter().copied().flatten().collect();
            let events: HashSet<Event> = all.iter().map(|counter| counter.event).collect();
            let codes: HashSet<Code> = all.iter().map(|counter| counter.code).collect();
            assert_eq!((events.len(), codes.len()), (all.len(), all.len()), "{}", row.name);
            assert!(row.sets.iter().all(|set| (1..=4).contains(&set.len())), "{}", row.name);
        }
    }

    #[test]
    fn no_model_is_two_kinds() {
        for (at, row) in TABLE.iter().enumerate() {
            for model in row.models.iter().cloned().flatten() {
                let processor = Processor { vendor: row.vendor, family: row.family, model };
                assert_eq!(name(processor), Some(TABLE[at].name));
            }
        }
    }
}
