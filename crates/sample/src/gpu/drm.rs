//! Cards of Intel and others, from the files that the kernel's drivers keep.
//!
//! The drivers tell little of a card as a whole: its clock, on some its energy. How busy it is follows from the
//! processes, whose use is read from their open descriptors.

use std::sync::Arc;

use super::fdinfo::{Fdinfo, Usage};
use super::files::{Card, Files, position};
use super::{Device, DeviceReading, Look, ProcessReading, Reading, Setup, Vendor};

/// Drivers of cards that compute. The screen of a node's service processor has one as well; it is not listed.
pub(super) const DRIVERS: &[&str] = &["i915", "xe", "nouveau", "panfrost", "panthor"];

const INTEL: u64 = 0x8086;
const NVIDIA: u64 = 0x10de;

pub(super) struct Drm {
    files: Files,
    fdinfo: Fdinfo,
}

impl Drm {
    pub(super) fn new(setup: &Setup) -> Drm {
        Drm { files: Files::new(&setup.sys), fdinfo: Fdinfo::new(&setup.proc) }
    }

    fn device(&mut self, index: u32, card: &Card) -> Device {
        let vendor = match card.ids {
            Some((INTEL, _)) => Vendor::Intel,
            Some((NVIDIA, _)) => Vendor::Nvidia,
            _ => Vendor::Other,
        };
        Device {
            index,
            vendor,
            uuid: None,
            address: card.address.clone(),
            name: Some(match card.ids {
                Some((maker, kind)) => format!("{maker:04x}:{kind:04x}"),
                None => card.place.clone(),
            }),
            driver: Some(self.files.driver(&card.driver)),
            memory_total: None,
            parent: None,
        }
    }

    fn numbers(&mut self, card: &Card) -> DeviceReading {
        let mut reading = DeviceReading::default();
        if self.files.is_asleep(card) {
            return reading;
        }
        reading.graphics_mhz = self.clock(card);
        if let Some(sensors) = self.files.sensors(card) {
            self.files.power(&sensors, &mut reading);
            reading.temperature = self.files.temperature(&sensors, &["pkg"]);
        }
        reading
    }

    /// The clock of the fastest part.
    fn clock(&mut self, card: &Card) -> Option<u32> {
        let mut paths = vec![format!("{}/gt_act_freq_mhz", card.path)];
        for tile in self.files.numbered(&format!("{}/device", card.path), "tile") {
            let tile = format!("{}/device/tile{tile}", card.path);
            let parts = self.files.numbered(&tile, "gt");
            paths.extend(parts.into_iter().map(|part| format!("{tile}/gt{part}/freq0/act_freq")));
        }
        let clocks = paths.iter().filter_map(|path| self.files.number(path));
        clocks.filter_map(|clock| u32::try_from(clock).ok()).max()
    }

    fn process(&mut self, pid: u32, reading: &mut Reading) {
        let usages = self.fdinfo.process(pid, |driver| DRIVERS.contains(&driver));
        for usage in usages {
            let process = ProcessReading {
                memory: usage.memory,
                engine_ns: usage.engine_ns,
                cycles: usage.cycles,
                ..ProcessReading::new(pid, 0)
            };
            if !process.is_unused() {
                let device = place(&usage, reading);
                reading.processes.push(ProcessReading { device, ..process });
            }
        }
    }
}

impl Look for Drm {
    fn read(&mut self, pids: &[u32]) -> Result<Reading, String> {
        let mut reading = Reading::default();
        let cards = self.files.cards();
        let cards = cards.iter().filter(|card| DRIVERS.contains(&card.driver.as_str()));
        for (index, card) in (0..).zip(cards) {
            let device = Arc::new(self.device(index, card));
            reading.devices.push((device, self.numbers(card)));
        }
        if reading.devices.is_empty() {
            return Err("the driver has no card".into());
        }
        for pid in pids {
            self.process(*pid, &mut reading);
        }
        Ok(reading)
    }
}

/// Where the card of a process is in the list; one that is not there yet is added.
fn place(usage: &Usage, reading: &mut Reading) -> usize {
    let is_driver = |name: &str| name.split(' ').next() == Some(usage.driver.as_str());
    let found = match &usage.address {
        Some(address) => position(&reading.devices, address),
        None => reading.devices.iter().position(|(device, _)| {
            device.address.is_none() && device.driver.as_deref().is_some_and(is_driver)
        }),
    };
    found.unwrap_or_else(|| {
        let device = Device {
            index: u32::try_from(reading.devices.len()).unwrap_or(u32::MAX),
            vendor: Vendor::Other,
            uuid: None,
            address: usage.address.clone(),
            name: None,
            driver: Some(usage.driver.clone()),
            memory_total: None,
            parent: None,
        };
        reading.devices.push((Arc::new(device), DeviceReading::default()));
        reading.devices.len() - 1
    })
}
