//! NVIDIA's cards, their MIG slices and their processes, through NVIDIA's library (NVML).
//!
//! The library is loaded when it is first needed and stays loaded: to begin anew each time takes seconds on cards
//! without persistence mode. A card that does not answer is listed with the reason; the others are read.

mod processes;
mod xid;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nvml_wrapper::enum_wrappers::device::{
    Clock, EccCounter, MemoryError, PcieUtilCounter, TemperatureSensor,
};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device as Card, Nvml};

use super::{Device, DeviceReading, Look, Reading, Vendor, files, percent};
use processes::LastSeen;
use xid::Xids;

/// No node has more cards; a library that says so is not believed.
const CARDS_MAX: u32 = 256;
/// Seven on every card until now.
const SLICES_MAX: u32 = 64;
/// What the slowest state is called.
const SLOWEST: u32 = 15;

/// The library, or where it is looked for.
pub(super) struct Nvidia {
    library: PathBuf,
    open: Option<Open>,
}

struct Open {
    /// Before `nvml`: its memory belongs to the library.
    xids: Xids,
    driver: Option<String>,
    /// By index. A card that is lost does not tell its name any more.
    cards: HashMap<u32, Arc<Device>>,
    /// By UUID.
    slices: HashMap<String, Arc<Device>>,
    last_seen: LastSeen,
    nvml: Nvml,
}

impl Nvidia {
    pub(super) fn new(library: &Path) -> Nvidia {
        Nvidia { library: library.into(), open: None }
    }

    fn open(&mut self) -> Result<Open, String> {
        let nvml = Nvml::builder()
            .lib_path(self.library.as_os_str())
            .init()
            .map_err(|error| format!("cannot use {}: {error}", self.library.display()))?;
        let driver = nvml.sys_driver_version().ok().map(|version| format!("nvidia {version}"));
        Ok(Open {
            xids: Xids::default(),
            driver,
            cards: HashMap::new(),
            slices: HashMap::new(),
            last_seen: LastSeen::default(),
            nvml,
        })
    }
}

impl Look for Nvidia {
    fn read(&mut self, _: &[u32]) -> Result<Reading, String> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.open()?,
        };
        // On an error the library is closed: the driver was unloaded, or exchanged for another.
        let count = open.nvml.device_count().map_err(|error| format!("cannot count cards: {error}"))?;
        let reading = open.read(count.min(CARDS_MAX));
        self.open = Some(open);
        Ok(reading)
    }
}

impl Open {
    fn read(&mut self, count: u32) -> Reading {
        let mut reading = Reading::default();
        let xids = self.xids.drain(&self.nvml, count);
        for index in 0..count {
            let at = reading.devices.len();
            self.card(index, &mut reading);
            if let Some((_, card)) = reading.devices.get_mut(at) {
                card.xid = xids.get(&index).copied();
            }
        }
        self.slices.retain(|_, slice| reading.devices.iter().any(|(device, _)| Arc::ptr_eq(device, slice)));
        reading
    }

    fn card(&mut self, index: u32, reading: &mut Reading) {
        let Open { nvml, driver, cards, slices, last_seen, .. } = self;
        let mut answers = Answers::default();
        let Some(card) = answers.must(nvml.device_by_index(index)) else {
            let device = cards.get(&index).cloned().unwrap_or_else(|| nameless(index, driver));
            reading.devices.push((device, answers.reading()));
            return;
        };
        let uuid = answers.get(|| card.uuid());
        let device = match cards.get(&index) {
            Some(known) if uuid.is_none() || known.uuid == uuid => known.clone(),
            _ => describe(&card, index, uuid, None, driver.clone()),
        };
        // What a failing card does not tell now it may tell later.
        if device.uuid.is_some() {
            cards.insert(index, device.clone());
        }
        let numbers = numbers(&card, answers);
        let is_failing = numbers.failing.is_some();
        let at = reading.devices.len();
        reading.devices.push((device.clone(), numbers));
        if is_failing {
            return;
        }
        let found = parts(&card);
        // In a card that has slices each process is in one of them, and listed there.
        if found.is_empty() {
            processes::read(&card, at, device.uuid.as_deref(), last_seen, &mut reading.processes);
        }
        for (number, part) in found {
            let Ok(uuid) = part.uuid() else { continue };
            let slice = slices
                .entry(uuid.clone())
                .or_insert_with(|| describe(&part, number, Some(uuid), Some(&device), driver.clone()));
            let at = reading.devices.len();
            reading.devices.push((slice.clone(), slice_numbers(&part)));
            processes::read(&part, at, slice.uuid.as_deref(), last_seen, &mut reading.processes);
        }
    }
}

/// The MIG slices of a card, with their numbers, which may have gaps.
fn parts<'nvml>(card: &Card<'nvml>) -> Vec<(u32, Card<'nvml>)> {
    const ENABLED: u32 = 1;
    if !card.mig_mode().is_ok_and(|mode| mode.current == ENABLED) {
        return Vec::new();
    }
    let count = card.mig_device_count().unwrap_or(0).min(SLICES_MAX);
    (0..count).filter_map(|number| Some((number, card.mig_device_by_index(number).ok()?))).collect()
}

fn describe(
    card: &Card,
    index: u32,
    uuid: Option<String>,
    parent: Option<&Device>,
    driver: Option<String>,
) -> Arc<Device> {
    // A slice has no address of its own.
    let address = match parent {
        Some(parent) => parent.address.clone(),
        None => card.pci_info().ok().and_then(|pci| files::pci_address(&pci.bus_id)),
    };
    let memory = card.memory_info().ok().and_then(|memory| known(memory.total));
    Arc::new(Device {
        index,
        vendor: Vendor::Nvidia,
        uuid,
        address,
        name: card.name().ok(),
        driver,
        memory_total: memory.filter(|total| *total > 0),
        parent: parent.and_then(|parent| parent.uuid.clone()),
    })
}

/// A card that never told anything.
fn nameless(index: u32, driver: &Option<String>) -> Arc<Device> {
    Arc::new(Device {
        index,
        vendor: Vendor::Nvidia,
        uuid: None,
        address: None,
        name: None,
        driver: driver.clone(),
        memory_total: None,
        parent: None,
    })
}

fn numbers(card: &Card, mut answers: Answers) -> DeviceReading {
    let memory = answers.must(card.memory_info());
    let rates = answers.get(|| card.utilization_rates());
    DeviceReading {
        xid: None,
        utilisation: rates.as_ref().and_then(|rates| percent(rates.gpu.into())),
        memory_utilisation: rates.as_ref().and_then(|rates| percent(rates.memory.into())),
        memory_used: memory.and_then(|memory| known(memory.used)),
        power_mw: answers.number(|| card.power_usage()),
        power_limit_mw: answers.number(|| card.enforced_power_limit()),
        energy_mj: answers.get(|| card.total_energy_consumption()).and_then(known),
        temperature: answers
            .number(|| card.temperature(TemperatureSensor::Gpu))
            .and_then(|degrees| i32::try_from(degrees).ok()),
        graphics_mhz: answers.small(|| card.clock_info(Clock::Graphics)),
        memory_mhz: answers.small(|| card.clock_info(Clock::Memory)),
        ecc_corrected: answers
            .get(|| card.total_ecc_errors(MemoryError::Corrected, EccCounter::Volatile))
            .and_then(known),
        ecc_uncorrected: answers
            .get(|| card.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile))
            .and_then(known),
        performance_state: answers
            .get(|| card.performance_state())
            .map(|state| state.as_c())
            .filter(|state| *state <= SLOWEST),
        fan: answers.small(|| card.fan_speed(0)).and_then(|fan| percent(fan.into())),
        // The library counts for 20 ms to answer each of these two.
        pcie_rx: answers.number(|| card.pcie_throughput(PcieUtilCounter::Receive)),
        pcie_tx: answers.number(|| card.pcie_throughput(PcieUtilCounter::Send)),
        failing: answers.failing,
    }
}

/// Of a slice the library knows the memory; power and clocks are the whole card's.
fn slice_numbers(slice: &Card) -> DeviceReading {
    let mut answers = Answers::default();
    let memory = answers.must(slice.memory_info()).and_then(|memory| known(memory.used));
    DeviceReading { memory_used: memory, failing: answers.failing, ..DeviceReading::default() }
}

/// What a card answered, until it failed.
#[derive(Default)]
struct Answers {
    failing: Option<String>,
}

impl Answers {
    /// A question that every card answers: not to know is to fail.
    fn must<T>(&mut self, answer: Result<T, NvmlError>) -> Option<T> {
        match answer {
            Err(NvmlError::Unknown | NvmlError::IrqIssue | NvmlError::Timeout) if self.failing.is_none() => {
                self.failing = answer.err().map(|error| error.to_string());
                None
            }
            answer => self.keep(answer),
        }
    }

    /// A question that not every card answers. A lost card is not asked: each call could take long.
    fn get<T>(&mut self, question: impl FnOnce() -> Result<T, NvmlError>) -> Option<T> {
        if self.failing.is_some() {
            return None;
        }
        let answer = question();
        self.keep(answer)
    }

    fn keep<T>(&mut self, answer: Result<T, NvmlError>) -> Option<T> {
        match answer {
            Ok(value) => Some(value),
            Err(error) => {
                if is_lost(&error) {
                    self.failing.get_or_insert_with(|| error.to_string());
                }
                None
            }
        }
    }

    fn number(&mut self, question: impl FnOnce() -> Result<u32, NvmlError>) -> Option<u64> {
        self.small(question).map(u64::from)
    }

    fn small(&mut self, question: impl FnOnce() -> Result<u32, NvmlError>) -> Option<u32> {
        self.get(question).filter(|value| *value != u32::MAX)
    }

    fn reading(self) -> DeviceReading {
        DeviceReading { failing: self.failing, ..DeviceReading::default() }
    }
}

/// Errors after which a card answers nothing more. `Unknown` is not one of them: drivers say it also to a question
/// that a card does not understand.
fn is_lost(error: &NvmlError) -> bool {
    matches!(
        error,
        NvmlError::GpuLost
            | NvmlError::ResetRequired
            | NvmlError::InsufficientPower
            | NvmlError::CorruptedInfoROM
    )
}

/// The library says "not available" with all bits set.
fn known(value: u64) -> Option<u64> {
    (value != u64::MAX).then_some(value)
}
