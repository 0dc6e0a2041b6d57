//! Counters of the processors, as sums that only grow.
//!
//! They are few, and whoever runs `perf` on the node wants them too: by default only instructions and cycles are counted, for
//! which processors mostly have counters of their own.

use std::collections::HashMap;

use record::metric::id;
use record::reading::Values;
use sample::counters::{Counters, Event, Machine, OnCpu, Scope, Set, Width, events, total};

/// What the site lets us count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Counting {
    Off,
    #[default]
    Basic,
    All,
}

/// The counters of this node. Nothing is opened before the first reading.
#[derive(Default)]
pub struct Counts {
    counting: Counting,
    open: Option<Counters>,
    sums: HashMap<u16, u64>,
}

impl Counts {
    pub fn new(counting: Counting) -> Counts {
        Counts { counting, ..Counts::default() }
    }

    /// Puts in the sums since the first reading.
    pub fn read(&mut self, values: &mut Values) {
        if self.counting == Counting::Off {
            return;
        }
        let counting = self.counting;
        let open = self.open.get_or_insert_with(|| open(counting));
        if open.is_empty() {
            return;
        }
        let readings = open.read();
        let lacks: Vec<Event> = open.lacks().map(|(event, _)| event).collect();
        for (id, grown) in grown(&readings, &lacks) {
            let sum = self.sums.entry(id).or_default();
            // What was not counted for a while begins again, from which everyone sees that its past is lost.
            *sum = grown.map_or(0, |grown| sum.saturating_add(grown));
            values.put(id, grown.map(|_| *sum));
        }
    }

    /// Why counters are unknown, a line for each reason.
    pub fn why_not(&self) -> Vec<String> {
        self.open.as_ref().map(Counters::why_not).unwrap_or_default()
    }
}

fn open(counting: Counting) -> Counters {
    let machine = Machine::default();
    let sets: &[Set] = events::sets(machine.processor());
    let wanted = if counting == Counting::All { sets.len() } else { 1 };
    let cpus = machine.online().unwrap_or_default();
    Counters::open(&machine, Scope::Machine, &cpus, sets.get(..wanted).unwrap_or_default())
}

/// What was added to each metric. A sum of which a part is unknown is unknown.
fn grown(readings: &[OnCpu], lacks: &[Event]) -> Vec<(u16, Option<u64>)> {
    let mut events: Vec<Event> = Vec::new();
    for count in readings.iter().flat_map(|on| &on.counts) {
        if !events.contains(&count.event) {
            events.push(count.event);
        }
    }
    let mut grown: HashMap<u16, Option<u64>> = HashMap::new();
    for event in events {
        let value = total(readings, event).and_then(|count| count.value);
        for id in metrics(event) {
            let sum = grown.entry(id).or_insert(Some(0));
            *sum = sum.zip(value).and_then(|(sum, value)| sum.checked_add(value));
        }
    }
    for id in lacks.iter().flat_map(|event| metrics(*event)) {
        grown.entry(id).and_modify(|sum| *sum = None);
    }
    grown.into_iter().collect()
}

/// The metrics that an event counts towards.
fn metrics(event: Event) -> impl Iterator<Item = u16> {
    let (first, second) = match event {
        Event::Instructions => (Some(id::NODE_INSTRUCTIONS), None),
        Event::Cycles => (Some(id::NODE_CYCLES), None),
        Event::L1dReadMisses => (Some(id::NODE_L1_MISSES), None),
        Event::LastLevelMisses => (Some(id::NODE_LAST_LEVEL_MISSES), None),
        Event::Loads => (Some(id::NODE_LOADS), None),
        Event::Stores => (Some(id::NODE_STORES), None),
        Event::Flops(width, _) => (Some(id::NODE_FLOPS), of_width(width)),
        Event::VectorOperations(_) => (Some(id::NODE_VECTOR_OPERATIONS), None),
        // The kernel's own counts come from elsewhere.
        Event::TaskClock | Event::ContextSwitches | Event::PageFaults => (None, None),
    };
    first.into_iter().chain(second)
}

fn of_width(width: Width) -> Option<u16> {
    match width {
        Width::Scalar => Some(id::NODE_FLOPS_SCALAR),
        Width::Bits128 => Some(id::NODE_FLOPS_128),
        Width::Bits256 => Some(id::NODE_FLOPS_256),
        Width::Bits512 => Some(id::NODE_FLOPS_512),
        Width::Scalable | Width::NotScalable | Width::Any => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sample::counters::{Count, Precision};

    fn on(cpu: u32, counts: &[(Event, Option<u64>)]) -> OnCpu {
        let count = |(event, value): &(Event, Option<u64>)| Count {
            event: *event,
            value: *value,
            wanted_ns: 1,
            counted_ns: 1,
        };
        OnCpu { cpu, counts: counts.iter().map(count).collect() }
    }

    #[test]
    fn operations_are_summed_over_widths_and_unknown_with_any_of_them() {
        const DOUBLE: Event = Event::Flops(Width::Bits256, Precision::Double);
        const SINGLE: Event = Event::Flops(Width::Bits256, Precision::Single);
        const SCALAR: Event = Event::Flops(Width::Scalar, Precision::Double);
        let readings = [
            on(0, &[(Event::Cycles, Some(5)), (DOUBLE, Some(8)), (SINGLE, Some(1)), (SCALAR, Some(2))]),
            on(1, &[(Event::Cycles, None), (DOUBLE, Some(8)), (SINGLE, Some(1)), (SCALAR, Some(2))]),
        ];
        let of = |lacks: &[Event], id| {
            let all: HashMap<u16, Option<u64>> = grown(&readings, lacks).into_iter().collect();
            all.get(&id).copied()
        };
        for (lacks, id, expected) in [
            (&[][..], id::NODE_FLOPS, Some(Some(22))),
            (&[], id::NODE_FLOPS_256, Some(Some(18))),
            (&[], id::NODE_FLOPS_SCALAR, Some(Some(4))),
            (&[], id::NODE_CYCLES, Some(None)),
            (&[], id::NODE_INSTRUCTIONS, None),
            (&[Event::Flops(Width::Bits512, Precision::Double)], id::NODE_FLOPS, Some(None)),
            (&[Event::Flops(Width::Bits512, Precision::Double)], id::NODE_FLOPS_256, Some(Some(18))),
        ] {
            assert_eq!(of(lacks, id), expected, "{lacks:?} {id}");
        }
    }

    /// On a machine with counters they grow; on one without, every one that is missing has its reason.
    #[test]
    fn what_is_not_counted_has_a_reason() {
        let mut counts = Counts::new(Counting::Basic);
        let mut values = Values::default();
        counts.read(&mut values);
        assert!(values.get(id::NODE_INSTRUCTIONS).is_some() || !counts.why_not().is_empty());
        let mut off = Counts::new(Counting::Off);
        off.read(&mut values);
        assert!(off.open.is_none());
    }
}
