//! The GPUs of the node: which of them are a job's, and what they do for it.
//!
//! A card is a job's if the resource manager gave it to the job, or if one of its processes is on it; the first shows a card
//! that was reserved and is idle. What a card does as a whole is a job's only where nobody else is on it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use record::metric::id;
use record::reading::{CardReading, Values};
use sample::gpu::{Cycles, Device, DeviceReading, Gpus, Outcome, ProcessReading, Setup, Source};

/// How long a reading waits for drivers; one that is late is heard the next time.
const PATIENCE: Duration = Duration::from_millis(200);
/// Numbers of cards that are believed.
const INDEX_MAX: u32 = 1024;

/// What a job's environment says of its cards.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Given {
    /// As the resource manager numbers them.
    pub indices: BTreeSet<u32>,
    /// UUIDs, or how they begin.
    pub names: Vec<String>,
}

impl Given {
    /// `0,2-3`, and names such as `GPU-8f6…` or `MIG-…`.
    pub fn parse(list: &str) -> Given {
        let mut given = Given::default();
        for part in list.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            match (first.parse::<u32>(), last.parse::<u32>()) {
                (Ok(first), Ok(last)) if last < INDEX_MAX => given.indices.extend(first..=last),
                (Ok(_), Ok(_)) => {}
                _ if part.starts_with("GPU-") || part.starts_with("MIG-") => {
                    given.names.push(part.to_owned())
                }
                _ => {}
            }
        }
        given
    }
}

/// A card as it was read last.
struct Card {
    name: String,
    source: Source,
    device: Arc<Device>,
    reading: DeviceReading,
    users: Vec<User>,
}

/// A process on a card.
struct User {
    pid: u32,
    /// Hundredths of the card.
    utilisation: Option<u64>,
    memory: Option<u64>,
}

/// What of a card is one job's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    pub reading: CardReading,
    /// Hundredths.
    utilisation: Option<u64>,
    memory: Option<u64>,
    power: Option<u64>,
    /// The card's own counter.
    pub energy: Option<u64>,
}

/// Time on a card's engines, or cycles of them.
#[derive(Clone, Copy)]
struct Work {
    done: u64,
    of: u64,
}

/// The cards of this node, read again and again.
pub struct Cards {
    gpus: Gpus,
    found: Vec<Card>,
    /// Of each process on a card: what it had done at the last reading.
    work: HashMap<(u32, String), Work>,
    /// Drivers that are there and cannot be read, in words.
    pub ill: Vec<String>,
}

impl Cards {
    pub fn new(setup: Setup) -> Cards {
        Cards { gpus: Gpus::new(setup), found: Vec::new(), work: HashMap::new(), ill: Vec::new() }
    }

    /// Reads all cards. `pids` are the processes that may be on them.
    pub fn read(&mut self, pids: &[u32], now_ns: u64) {
        let before = std::mem::take(&mut self.work);
        self.found.clear();
        self.ill.clear();
        for (source, outcome) in self.gpus.read(pids, PATIENCE) {
            match outcome {
                Outcome::Read { reading, .. } => {
                    let first = self.found.len();
                    let cards = reading.devices.into_iter().map(|(device, reading)| Card {
                        name: name(source, &device),
                        source,
                        device,
                        reading,
                        users: Vec::new(),
                    });
                    self.found.extend(cards);
                    for process in reading.processes {
                        self.add_user(first, &process, &before, now_ns);
                    }
                }
                Outcome::Stale { since } => {
                    let seconds = since.elapsed().as_secs();
                    self.ill.push(format!("{source:?}: the driver has not answered for {seconds} s"));
                }
                Outcome::Absent { reason: Some(reason) } => self.ill.push(format!("{source:?}: {reason}")),
                Outcome::Absent { reason: None } => {}
            }
        }
    }

    fn add_user(
        &mut self,
        first: usize,
        process: &ProcessReading,
        before: &HashMap<(u32, String), Work>,
        now_ns: u64,
    ) {
        let Some(card) = self.found.get_mut(first.saturating_add(process.device)) else { return };
        let key = (process.pid, card.name.clone());
        let work = work(process, now_ns);
        let since = before.get(&key).zip(work).and_then(|(before, now)| share(*before, now));
        card.users.push(User {
            pid: process.pid,
            utilisation: process.utilisation.map(u64::from).or(since),
            memory: process.memory,
        });
        if let Some(work) = work {
            self.work.insert(key, work);
        }
    }

    /// The cards of a job with these processes, and what of them is its own.
    pub fn of_job(&self, given: &Given, pids: &[u32]) -> Vec<Share> {
        let numbered = self.numbered_by_the_resource_manager();
        let is_given = |card: &Card| {
            let by_number = Some(card.source) == numbered && given.indices.contains(&card.device.index);
            let uuid = card.device.uuid.as_deref().unwrap_or_default();
            by_number || given.names.iter().any(|name| uuid.starts_with(name.as_str()))
        };
        let uses = |card: &Card| card.users.iter().any(|user| pids.contains(&user.pid));
        // A card that is given in parts is nobody's as a whole.
        let has_parts = |card: &Card| self.found.iter().any(|part| is_part(part, card));
        let is_own = |card: &&Card| (is_given(card) || uses(card)) && !has_parts(card);
        self.found.iter().filter(is_own).map(|card| card.share(pids)).collect()
    }

    /// Cards that are in none of these.
    pub fn others(&self, shares: &BTreeSet<String>) -> Vec<CardReading> {
        let is_free = |card: &&Card| !shares.contains(&card.name);
        self.found.iter().filter(is_free).map(|card| card.as_read(card.users.len() > 1)).collect()
    }

    /// What the cards are called by their makers.
    pub fn models(&self) -> Vec<String> {
        let whole = self.found.iter().filter(|card| card.device.parent.is_none());
        whole.map(|card| card.device.name.clone().unwrap_or_else(|| card.name.clone())).collect()
    }

    /// Slurm numbers the cards of one kind. Parts of cards have numbers of their own, which say nothing about the whole.
    fn numbered_by_the_resource_manager(&self) -> Option<Source> {
        let has_parts = self.found.iter().any(|card| card.device.parent.is_some());
        let count = |source| self.found.iter().filter(|card| card.source == source).count();
        let sources = [Source::Nvidia, Source::Amd, Source::Drm];
        sources
            .into_iter()
            .filter(|source| !has_parts && count(*source) > 0)
            .max_by_key(|source| count(*source))
    }
}

fn is_part(part: &Card, card: &Card) -> bool {
    part.device.parent.is_some() && part.device.parent == card.device.uuid
}

fn name(source: Source, device: &Device) -> String {
    let own = device.uuid.clone().or_else(|| device.address.clone());
    own.unwrap_or_else(|| format!("{source:?} {}", device.index))
}

fn work(process: &ProcessReading, now_ns: u64) -> Option<Work> {
    let cycles = process.cycles.map(|Cycles { busy, total }| Work { done: busy, of: total });
    cycles.or_else(|| Some(Work { done: process.engine_ns?, of: now_ns }))
}

/// Hundredths of the card between two readings. Several engines can run at once: that is all of it, not more.
fn share(before: Work, now: Work) -> Option<u64> {
    let (done, of) = (now.done.checked_sub(before.done)?, now.of.checked_sub(before.of)?);
    (of > 0).then(|| (u128::from(done) * 100 / u128::from(of)).min(100) as u64)
}

impl Card {
    fn share(&self, pids: &[u32]) -> Share {
        let own: Vec<&User> = self.users.iter().filter(|user| pids.contains(&user.pid)).collect();
        let is_shared = own.len() < self.users.len();
        let sum = |of: fn(&User) -> Option<u64>| {
            own.iter().map(|user| of(user)).reduce(|sum, value| sum?.checked_add(value?)).flatten()
        };
        let whole = |value: Option<u64>| value.filter(|_| !is_shared);
        let read = &self.reading;
        let utilisation = whole(read.utilisation.map(u64::from)).or_else(|| sum(|user| user.utilisation));
        // Memory of the driver itself is on every card, also on one that nobody uses.
        let nobody = own.is_empty().then_some(0);
        let memory = sum(|user| user.memory).or(nobody).or(whole(read.memory_used));
        let mut reading = self.as_read(is_shared);
        reading.values.put(id::CARD_OWN_UTILISATION, utilisation.map(|value| value.min(100)));
        reading.values.put(id::CARD_OWN_MEMORY, memory);
        Share {
            utilisation: reading.values.get(id::CARD_OWN_UTILISATION),
            memory,
            power: whole(read.power_mw),
            energy: whole(reading.values.get(id::CARD_ENERGY)),
            reading,
        }
    }

    fn as_read(&self, is_shared: bool) -> CardReading {
        let Card { device, reading: read, .. } = self;
        let mut values = Values::default();
        let milli = |degrees: i32| u64::try_from(degrees).ok()?.checked_mul(1000);
        let kilo = |kilobytes: u64| kilobytes.checked_mul(1000);
        values.put(id::CARD_UTILISATION, read.utilisation.map(u64::from));
        values.put(id::CARD_MEMORY, read.memory_used);
        values.put(id::CARD_MEMORY_TOTAL, device.memory_total);
        values.put(id::CARD_MEMORY_UTILISATION, read.memory_utilisation.map(u64::from));
        values.put(id::CARD_POWER, read.power_mw);
        values.put(id::CARD_ENERGY, read.energy_mj.and_then(kilo));
        values.put(id::CARD_TEMPERATURE, read.temperature.and_then(milli));
        values.put(id::CARD_CLOCK, read.graphics_mhz.map(u64::from));
        values.put(id::CARD_MEMORY_CLOCK, read.memory_mhz.map(u64::from));
        values.put(id::CARD_ERRORS_CORRECTED, read.ecc_corrected);
        values.put(id::CARD_ERRORS_UNCORRECTED, read.ecc_uncorrected);
        values.put(id::CARD_RECEIVED, read.pcie_rx.and_then(kilo));
        values.put(id::CARD_SENT, read.pcie_tx.and_then(kilo));
        let xid = read.xid.map(|xid| format!("critical error {xid}"));
        CardReading {
            card: self.name.clone(),
            index: device.index,
            model: device.name.clone(),
            parent: device.parent.clone(),
            failing: read.failing.clone().or(xid),
            is_shared,
            values,
        }
    }
}

/// Puts in the sums over a job's cards; energy is summed by whoever knows the reading before.
pub fn put_sums(values: &mut Values, shares: &[Share]) {
    let sum = |of: fn(&Share) -> Option<u64>| {
        shares.iter().map(of).reduce(|sum, value| sum?.checked_add(value?)).flatten()
    };
    values.put(id::GPU, sum(|share| share.utilisation));
    values.put(id::GPU_MEMORY, sum(|share| share.memory));
    values.put(id::GPU_POWER, sum(|share| share.power));
}

#[cfg(test)]
mod tests {
    use super::*;
    use sample::gpu::Vendor;

    #[test]
    fn lists_of_cards_as_resource_managers_write_them() {
        let given = |indices: &[u32], names: &[&str]| Given {
            indices: indices.iter().copied().collect(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        for (list, expected) in [
            ("0", given(&[0], &[])),
            ("0,2-3", given(&[0, 2, 3], &[])),
            (" 1 , 0 ", given(&[0, 1], &[])),
            ("GPU-8f6,MIG-77a-1", given(&[], &["GPU-8f6", "MIG-77a-1"])),
            ("NoDevFiles", given(&[], &[])),
            ("0-99999999999,5-4000000000,-1,x-y", given(&[], &[])),
            ("", given(&[], &[])),
        ] {
            assert_eq!(Given::parse(list), expected, "{list}");
        }
    }

    fn card(index: u32, uuid: &str, parent: Option<&str>, busy: u32, users: &[(u32, Option<u64>)]) -> Card {
        let device = Device {
            index,
            vendor: Vendor::Nvidia,
            uuid: Some(uuid.into()),
            address: None,
            name: Some("H100".into()),
            driver: None,
            memory_total: Some(1000),
            parent: parent.map(str::to_owned),
        };
        let user = |(pid, utilisation): &(u32, Option<u64>)| User {
            pid: *pid,
            utilisation: *utilisation,
            memory: Some(100),
        };
        Card {
            name: uuid.into(),
            source: Source::Nvidia,
            device: Arc::new(device),
            reading: DeviceReading {
                utilisation: Some(busy),
                memory_used: Some(450),
                power_mw: Some(70_000),
                energy_mj: Some(5),
                ..DeviceReading::default()
            },
            users: users.iter().map(user).collect(),
        }
    }

    fn cards(found: Vec<Card>) -> Cards {
        Cards { found, ..Cards::new(Setup { sys: "/nowhere".into(), ..Setup::default() }) }
    }

    /// Utilisation, memory and power.
    type Sums = (Option<u64>, Option<u64>, Option<u64>);

    fn sums(shares: &[Share]) -> Sums {
        let mut values = Values::default();
        put_sums(&mut values, shares);
        (values.get(id::GPU), values.get(id::GPU_MEMORY), values.get(id::GPU_POWER))
    }

    #[test]
    fn a_job_has_the_cards_it_was_given_and_those_it_uses() {
        let cards = cards(vec![
            card(0, "GPU-a", None, 90, &[(7, None)]),
            card(1, "GPU-b", None, 0, &[]),
            card(2, "GPU-c", None, 80, &[(7, Some(30)), (8, Some(50))]),
            card(3, "GPU-d", None, 60, &[(7, None), (8, None)]),
        ]);
        for (given, pids, expected, of) in [
            ("", &[][..], (None, None, None), &[][..]),
            // All that a card does is the job's where nobody else is on it.
            ("0", &[7], (None, Some(300), None), &["GPU-a", "GPU-c", "GPU-d"]),
            // Reserved, and idle: the memory that is used is the driver's.
            ("1", &[], (Some(0), Some(0), Some(70_000)), &["GPU-b"]),
            ("GPU-b", &[], (Some(0), Some(0), Some(70_000)), &["GPU-b"]),
            // Shared: its own processes count, if they are known, and nobody knows whose the power is.
            ("", &[8], (None, Some(200), None), &["GPU-c", "GPU-d"]),
        ] {
            let shares = cards.of_job(&Given::parse(given), pids);
            let names: Vec<&str> = shares.iter().map(|share| share.reading.card.as_str()).collect();
            assert_eq!((names.as_slice(), sums(&shares)), (of, expected), "{given} {pids:?}");
        }
        let others = cards.others(&["GPU-a".to_owned(), "GPU-c".to_owned()].into());
        assert_eq!(others.iter().map(|card| card.card.as_str()).collect::<Vec<_>>(), ["GPU-b", "GPU-d"]);
    }

    #[test]
    fn a_card_in_parts_is_given_by_its_parts() {
        let cards = cards(vec![
            card(0, "GPU-a", None, 90, &[(7, Some(3))]),
            card(0, "MIG-1", Some("GPU-a"), 40, &[(7, Some(3))]),
            card(1, "MIG-2", Some("GPU-a"), 50, &[]),
        ]);
        for (given, pids, expected) in
            [("0", &[][..], &[][..]), ("MIG-2", &[], &["MIG-2"]), ("", &[7], &["MIG-1"])]
        {
            let shares = cards.of_job(&Given::parse(given), pids);
            let names: Vec<&str> = shares.iter().map(|share| share.reading.card.as_str()).collect();
            assert_eq!(names, expected, "{given} {pids:?}");
        }
    }

    #[test]
    fn time_on_engines_is_a_share_of_the_time_between() {
        let work = |done, of| Work { done, of };
        for (before, now, expected) in [
            (work(0, 0), work(50, 100), Some(50)),
            (work(10, 100), work(310, 200), Some(100)),
            (work(10, 100), work(5, 200), None),
            (work(10, 100), work(10, 100), None),
        ] {
            assert_eq!(share(before, now), expected);
        }
    }
}
