//! AMD's cards and their processes, from the files of the kernel's driver. No library of ROCm's is needed.
//!
//! A card is in `/sys/class/drm`. Programs that compute are known to the driver's other half, KFD, which numbers cards
//! anew: its topology says which number is which card. A card that is divided into partitions has several numbers there.
//! Programs that only draw are found by their open descriptors.

use std::collections::HashMap;
use std::sync::Arc;

use super::fdinfo::Fdinfo;
use super::files::{Card, Files, clock_in_use, errors, position, property};
use super::{Device, DeviceReading, Look, ProcessReading, Reading, Setup, Vendor, percent};

const AMD: u64 = 0x1002;
const NODES: &str = "class/kfd/kfd/topology/nodes";
const PROCESSES: &str = "class/kfd/kfd/proc";

pub(super) struct Amd {
    files: Files,
    fdinfo: Fdinfo,
    /// By address.
    known: HashMap<String, Arc<Device>>,
}

/// A card, or a part of one, as KFD knows it.
struct Node {
    id: u64,
    /// Where in `Reading::devices` it is.
    device: usize,
    compute_units: Option<u64>,
}

/// What the topology says of a node.
#[derive(Debug, PartialEq, Eq)]
pub struct Place {
    /// Of a partition, the last number may be the partition's instead of the function's.
    pub address: String,
    pub partition: u32,
    pub compute_units: Option<u64>,
}

impl Amd {
    pub(super) fn new(setup: &Setup) -> Amd {
        Amd { files: Files::new(&setup.sys), fdinfo: Fdinfo::new(&setup.proc), known: HashMap::new() }
    }

    fn device(&mut self, index: u32, card: &Card) -> Arc<Device> {
        if let Some(known) = self.known.get(&card.place).filter(|known| known.index == index) {
            return known.clone();
        }
        let file = |name: &str| format!("{}/device/{name}", card.path);
        let name = self.files.string(&file("product_name"));
        let device = Arc::new(Device {
            index,
            vendor: Vendor::Amd,
            uuid: self.files.hex(&file("unique_id")).filter(|id| *id != 0).map(|id| format!("{id:016x}")),
            address: card.address.clone(),
            name: name.or_else(|| card.ids.map(|(maker, kind)| format!("{maker:04x}:{kind:04x}"))),
            driver: Some(self.files.driver(&card.driver)),
            memory_total: self.files.number(&file("mem_info_vram_total")).filter(|total| *total > 0),
            parent: None,
        });
        self.known.insert(card.place.clone(), device.clone());
        device
    }

    fn numbers(&mut self, card: &Card) -> DeviceReading {
        let file = |name: &str| format!("{}/device/{name}", card.path);
        let busy = file("gpu_busy_percent");
        let mut reading = DeviceReading::default();
        if self.files.is_asleep(card) {
            return reading;
        }
        reading.failing = self.files.failure(&busy);
        if reading.failing.is_some() {
            return reading;
        }
        reading.utilisation = self.files.number(&busy).and_then(percent);
        reading.memory_utilisation = self.files.number(&file("mem_busy_percent")).and_then(percent);
        reading.memory_used = self.files.number(&file("mem_info_vram_used"));
        let counts = self.memory_errors(card);
        reading.ecc_corrected = counts.map(|(corrected, _)| corrected);
        reading.ecc_uncorrected = counts.map(|(_, uncorrected)| uncorrected);
        // `pcie_bw` is left out: to read it takes a second.
        if let Some(sensors) = self.files.sensors(card) {
            self.files.power(&sensors, &mut reading);
            reading.temperature = self.files.temperature(&sensors, &["junction", "edge"]);
            reading.graphics_mhz = self.megahertz(&format!("{sensors}/freq1_input"));
            reading.memory_mhz = self.megahertz(&format!("{sensors}/freq2_input"));
            reading.fan = self.fan(&sensors);
        }
        reading.graphics_mhz = reading.graphics_mhz.or_else(|| self.level(&file("pp_dpm_sclk")));
        reading.memory_mhz = reading.memory_mhz.or_else(|| self.level(&file("pp_dpm_mclk")));
        reading
    }

    fn megahertz(&mut self, path: &str) -> Option<u32> {
        u32::try_from(self.files.number(path)? / 1_000_000).ok()
    }

    fn level(&mut self, path: &str) -> Option<u32> {
        clock_in_use(self.files.text(path)?)
    }

    fn fan(&mut self, sensors: &str) -> Option<u32> {
        let speed = self.files.number(&format!("{sensors}/pwm1"))?;
        let max = self.files.number(&format!("{sensors}/pwm1_max")).unwrap_or(255);
        percent(speed.checked_mul(100)?.checked_div(max)?)
    }

    /// Corrected and uncorrected errors of all parts of a card.
    fn memory_errors(&mut self, card: &Card) -> Option<(u64, u64)> {
        let dir = format!("{}/device/ras", card.path);
        let names = self.files.ending(&dir, "_err_count")?;
        let mut sum = None;
        for name in names {
            let Some((corrected, uncorrected)) = self.files.text(&format!("{dir}/{name}")).and_then(errors)
            else {
                continue;
            };
            let (all_corrected, all_uncorrected) = sum.unwrap_or((0u64, 0u64));
            sum = Some((all_corrected.checked_add(corrected)?, all_uncorrected.checked_add(uncorrected)?));
        }
        sum
    }

    /// KFD's numbers of the cards in the reading. The partitions of a card are added to it.
    fn nodes(&mut self, reading: &mut Reading) -> Vec<Node> {
        let mut found: Vec<(u64, u64, usize, Place)> = Vec::new();
        for number in self.files.numbered(NODES, "") {
            // A node of processors has the number 0, or none.
            let id = self.files.number(&format!("{NODES}/{number}/gpu_id")).filter(|id| *id != 0);
            let text = self.files.text(&format!("{NODES}/{number}/properties"));
            let Some((id, place)) = id.zip(text.and_then(parse_place)) else { continue };
            let Some(card) = card_at(reading, &place.address) else { continue };
            found.push((number, id, card, place));
        }
        let mut nodes = Vec::new();
        for (number, id, card, place) in &found {
            let is_whole = found.iter().filter(|(_, _, other, _)| other == card).count() == 1;
            let device = if is_whole { *card } else { self.add_partition(reading, *card, *number, place) };
            nodes.push(Node { id: *id, device, compute_units: place.compute_units });
        }
        nodes
    }

    fn add_partition(&mut self, reading: &mut Reading, card: usize, node: u64, place: &Place) -> usize {
        let Some((parent, _)) = reading.devices.get(card) else { return card };
        let bank = self.files.text(&format!("{NODES}/{node}/mem_banks/0/properties"));
        let memory_total = bank.and_then(|text| property(text, "size_in_bytes"));
        // The card has no name for its parts, so they are named after it.
        let uuid = parent.uuid.as_ref().map(|uuid| format!("{uuid}-{}", place.partition));
        let part = Device {
            index: place.partition,
            uuid,
            memory_total,
            parent: parent.uuid.clone().or_else(|| parent.address.clone()),
            ..Device::clone(parent)
        };
        reading.devices.push((Arc::new(part), DeviceReading::default()));
        reading.devices.len() - 1
    }

    /// The processes that compute.
    fn compute_processes(&mut self, nodes: &[Node], reading: &mut Reading) {
        for pid in self.files.numbered(PROCESSES, "") {
            let Ok(pid) = u32::try_from(pid) else { continue };
            for node in nodes {
                let process = self.compute_process(pid, node);
                if !process.is_unused() {
                    reading.processes.push(process);
                }
            }
        }
    }

    fn compute_process(&mut self, pid: u32, node: &Node) -> ProcessReading {
        let mut number = |name: String| self.files.number(&format!("{PROCESSES}/{pid}/{name}"));
        let occupied = number(format!("stats_{}/cu_occupancy", node.id));
        let microseconds = number(format!("sdma_{}", node.id));
        ProcessReading {
            memory: number(format!("vram_{}", node.id)),
            copy_ns: microseconds.and_then(|time| time.checked_mul(1000)),
            utilisation: occupied.zip(node.compute_units).and_then(|(occupied, all)| share(occupied, all)),
            ..ProcessReading::new(pid, node.device)
        }
    }

    /// What KFD does not know of a process its descriptors may tell.
    fn drawing_process(&mut self, pid: u32, reading: &mut Reading) {
        for usage in self.fdinfo.process(pid, |driver| driver == "amdgpu") {
            let Some(card) = usage.address.as_deref().and_then(|address| position(&reading.devices, address))
            else {
                continue;
            };
            let is_part = |at: usize| {
                let pair = reading.devices.get(at).zip(reading.devices.get(card));
                pair.is_some_and(|((part, _), (card, _))| part.address == card.address)
            };
            let mut of_card =
                reading.processes.iter_mut().filter(|process| process.pid == pid && is_part(process.device));
            match of_card.next() {
                // Both count the same memory, so it is not added. Time of programs that compute is not in the
                // descriptor's count: that it is 0 says nothing.
                Some(process) => process.engine_ns = usage.engine_ns.filter(|time| *time > 0),
                None => {
                    let (memory, engine_ns) = (usage.memory, usage.engine_ns);
                    let process = ProcessReading { memory, engine_ns, ..ProcessReading::new(pid, card) };
                    reading.processes.extend((!process.is_unused()).then_some(process));
                }
            }
        }
    }
}

impl Look for Amd {
    fn read(&mut self, pids: &[u32]) -> Result<Reading, String> {
        let mut reading = Reading::default();
        let cards = self.files.cards();
        let is_amd = |card: &&Card| card.ids.is_some_and(|(maker, _)| maker == AMD);
        for (index, card) in (0..).zip(cards.iter().filter(is_amd)) {
            let device = self.device(index, card);
            reading.devices.push((device, self.numbers(card)));
        }
        if reading.devices.is_empty() {
            return Err("the driver has no card".into());
        }
        let nodes = self.nodes(&mut reading);
        self.compute_processes(&nodes, &mut reading);
        for pid in pids {
            self.drawing_process(*pid, &mut reading);
        }
        Ok(reading)
    }
}

/// The card at an address. Some kernels write the number of a partition where the function is.
fn card_at(reading: &Reading, address: &str) -> Option<usize> {
    let first = || Some(format!("{}.0", address.rsplit_once('.')?.0));
    position(&reading.devices, address).or_else(|| position(&reading.devices, &first()?))
}

/// The lines `name value` of a node of the topology.
pub fn parse_place(text: &[u8]) -> Option<Place> {
    let location = property(text, "location_id")?;
    let domain = property(text, "domain").unwrap_or(0);
    let (bus, device, function) = ((location >> 8) & 0xff, (location >> 3) & 0x1f, location & 7);
    let per_unit = property(text, "simd_per_cu").filter(|count| *count > 0);
    let units = property(text, "simd_count").zip(per_unit).map(|(all, each)| all / each);
    // The highest four bits are the partition; older kernels have it in the function.
    let partition = ((location >> 28) & 0xf).max(function);
    Some(Place {
        address: format!("{domain:04x}:{bus:02x}:{device:02x}.{function}"),
        partition: u32::try_from(partition).ok()?,
        compute_units: units.filter(|units| *units > 0),
    })
}

/// The share of a card's compute units that have work.
fn share(occupied: u64, all: u64) -> Option<u32> {
    percent(occupied.min(all).checked_mul(100)?.checked_div(all)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn places_are_found_in_the_topology() {
        let place = |address: &str, partition, compute_units| {
            Some(Place { address: address.into(), partition, compute_units })
        };
        for (text, expected) in [
            (
                "simd_count 440\nsimd_per_cu 4\nlocation_id 49408\ndomain 0\n",
                place("0000:c1:00.0", 0, Some(110)),
            ),
            ("location_id 49408\ndomain 65538\n", place("10002:c1:00.0", 0, None)),
            ("location_id 536871168\n", place("0000:01:00.0", 2, None)),
            ("location_id 258\n", place("0000:01:00.2", 2, None)),
            ("simd_count 0\nsimd_per_cu 4\nlocation_id 256\n", place("0000:01:00.0", 0, None)),
            ("simd_count 8\nsimd_per_cu 0\nlocation_id 256\n", place("0000:01:00.0", 0, None)),
            ("location_id -1\n", None),
            ("", None),
        ] {
            assert_eq!(parse_place(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn a_share_is_at_most_the_whole() {
        for (occupied, all, expected) in [
            (0, 110, Some(0)),
            (55, 110, Some(50)),
            (999, 110, Some(100)),
            (1, 0, None),
            (u64::MAX, u64::MAX, None),
        ] {
            assert_eq!(share(occupied, all), expected);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_place(&bytes);
        }

        #[test]
        fn any_numbers_parse_without_a_panic(values in proptest::collection::vec(any::<u64>(), 4)) {
            let names = ["simd_count", "simd_per_cu", "location_id", "domain"];
            let lines: Vec<String> = names.iter().zip(&values).map(|(name, value)| format!("{name} {value}")).collect();
            let place = parse_place(lines.join("\n").as_bytes()).unwrap();
            prop_assert!(place.partition < 16);
        }
    }
}
