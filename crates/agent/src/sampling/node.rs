//! The node's own values, as metrics.

use std::collections::HashMap;

use record::metric::id;
use record::reading::Values;
use sample::node::{self, Zone, remote};

use super::live::tick_ns;

/// Energy counters begin again after some minutes or hours; what they had before is kept here.
#[derive(Debug, Default)]
pub struct Energy {
    zones: HashMap<Vec<u8>, u64>,
    total: u64,
}

impl Energy {
    /// Microjoules since the first reading, of all zones that do not lie within another.
    fn total(&mut self, zones: &[Zone]) -> Option<u64> {
        let summed: Vec<&Zone> = zones.iter().filter(|zone| zone.is_summed()).collect();
        if summed.is_empty() {
            return None;
        }
        for zone in summed {
            let now = zone.energy_uj?;
            if let Some(before) = self.zones.insert(zone.id.clone(), now) {
                let grown = now.checked_sub(before);
                let around = || Some(zone.max_energy_uj?.saturating_sub(before).saturating_add(now));
                self.total = self.total.saturating_add(grown.or_else(around)?);
            }
        }
        Some(self.total)
    }
}

/// All values of a node that are known.
pub fn values(reading: &node::Reading, remote: Option<&remote::Reading>, energy: &mut Energy) -> Values {
    let mut values = Values::default();
    put_cpu(&mut values, reading);
    put_memory(&mut values, reading);
    put_devices(&mut values, reading);
    if let Some(remote) = remote {
        put_remote(&mut values, remote);
    }
    values.put(id::NODE_ENERGY, energy.total(&reading.energy));
    let hottest = reading.temperatures.iter().filter_map(|sensor| sensor.millidegrees).max();
    values.put(id::NODE_TEMPERATURE, hottest.and_then(|degrees| u64::try_from(degrees).ok()));
    let pressure = &reading.pressure;
    for (id, stalls) in [
        (id::NODE_CPU_PRESSURE, &pressure.cpu),
        (id::NODE_MEMORY_PRESSURE, &pressure.memory),
        (id::NODE_IO_PRESSURE, &pressure.io),
    ] {
        let some = stalls.as_ref().and_then(|stalls| stalls.some.as_ref());
        values.put(id, some.and_then(|stall| stall.total_us.checked_mul(1000)));
    }
    values
}

fn put_cpu(values: &mut Values, reading: &node::Reading) {
    let tick = tick_ns();
    if let Some(ticks) = reading.cpu.as_ref().and_then(|cpu| cpu.ticks) {
        for (id, ticks) in [
            (id::NODE_CPU_USER, ticks.user),
            (id::NODE_CPU_NICE, ticks.nice),
            (id::NODE_CPU_SYSTEM, ticks.system),
            (id::NODE_CPU_IDLE, ticks.idle),
            (id::NODE_CPU_IOWAIT, ticks.iowait),
            (id::NODE_CPU_IRQ, ticks.irq),
            (id::NODE_CPU_SOFTIRQ, ticks.softirq),
            (id::NODE_CPU_STEAL, ticks.steal),
        ] {
            values.put(id, ticks.and_then(|ticks| ticks.checked_mul(tick)));
        }
    }
    values.put(id::NODE_LOAD, reading.load.as_ref().map(|load| (load.one * 100.0).round() as u64));
}

fn put_memory(values: &mut Values, reading: &node::Reading) {
    let Some(memory) = &reading.memory else { return };
    values.put(id::NODE_MEMORY_TOTAL, memory.total);
    values.put(id::NODE_MEMORY_AVAILABLE, memory.available);
    let swap = memory.swap_total.zip(memory.swap_free);
    values.put(id::NODE_SWAP_USED, swap.map(|(total, free)| total.saturating_sub(free)));
}

/// Sums over devices; a node without any has no value, not zero.
fn put_devices(values: &mut Values, reading: &node::Reading) {
    fn sum<'a, T: 'a>(all: impl Iterator<Item = &'a T>, of: impl Fn(&T) -> Option<u64>) -> Option<u64> {
        all.map(of).reduce(|sum, value| sum?.checked_add(value?)).flatten()
    }
    let disks = || reading.disks.iter().filter(|disk| !disk.is_stacked);
    values.put(id::NODE_DISK_READ, sum(disks(), |disk| Some(disk.read_bytes)));
    values.put(id::NODE_DISK_WRITE, sum(disks(), |disk| Some(disk.written_bytes)));
    let cards = || reading.interfaces.iter().filter(|interface| interface.is_physical);
    values.put(id::NODE_NET_RECEIVED, sum(cards(), |card| Some(card.received.bytes)));
    values.put(id::NODE_NET_SENT, sum(cards(), |card| Some(card.sent.bytes)));
    values.put(id::NODE_IB_RECEIVED, sum(reading.ports.iter(), |port| port.received_bytes));
    values.put(id::NODE_IB_SENT, sum(reading.ports.iter(), |port| port.sent_bytes));
    values.put(id::NODE_IB_PACKETS_RECEIVED, sum(reading.ports.iter(), |port| port.received_packets));
    values.put(id::NODE_IB_PACKETS_SENT, sum(reading.ports.iter(), |port| port.sent_packets));
}

fn put_remote(values: &mut Values, remote: &remote::Reading) {
    // Mounts of one server's file system share their counters.
    let mut seen = Vec::new();
    let (mut read, mut written) = (None, None);
    for mount in &remote.nfs {
        let is_new = mount.number.is_none_or(|number| !seen.contains(&number));
        seen.extend(mount.number);
        if let Some(bytes) = mount.bytes.as_ref().filter(|_| is_new) {
            read = Some(read.unwrap_or(0) + bytes.server_read);
            written = Some(written.unwrap_or(0) + bytes.server_written);
        }
    }
    values.put(id::NODE_NFS_READ, read);
    values.put(id::NODE_NFS_WRITE, written);
    let lustre = |of: fn(&node::lustre::Stats) -> Option<u64>| {
        remote
            .lustre
            .iter()
            .map(|mount| of(&mount.stats))
            .reduce(|sum, value| sum?.checked_add(value?))
            .flatten()
    };
    values.put(id::NODE_LUSTRE_READ, lustre(|stats| stats.read_bytes));
    values.put(id::NODE_LUSTRE_WRITE, lustre(|stats| stats.written_bytes));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_goes_on_when_its_counter_begins_again() {
        let zone = |energy| Zone {
            id: b"0".to_vec(),
            name: Some(b"package-0".to_vec()),
            energy_uj: Some(energy),
            max_energy_uj: Some(1000),
        };
        let mut energy = Energy::default();
        let totals: Vec<_> = [900, 950, 100, 150].map(|now| energy.total(&[zone(now)])).into();
        assert_eq!(totals, [Some(0), Some(50), Some(200), Some(250)]);
        assert_eq!(Energy::default().total(&[]), None);
    }

    #[test]
    fn a_node_without_devices_has_no_zeros() {
        let values = values(&node::Reading::default(), None, &mut Energy::default());
        assert!(values.is_empty(), "{values:?}");
    }

    #[test]
    fn this_node_has_its_basic_values() {
        let values = values(&sample::Node::default().read(), None, &mut Energy::default());
        for id in [id::NODE_CPU_USER, id::NODE_CPU_IDLE, id::NODE_LOAD, id::NODE_MEMORY_AVAILABLE] {
            assert!(values.get(id).is_some(), "{id}");
        }
    }
}
