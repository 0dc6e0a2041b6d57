//! The node itself: counters since boot and values of the moment, one file of this module for each topic.
//!
//! Nothing is subtracted or divided here; a rate is made of two readings by whoever has both. Which devices there are
//! is looked up every so many readings, their values are read each time. What asks a server is apart, in `remote`, and
//! what never changes in `hardware`.

pub mod cpu;
pub mod cpulist;
pub mod disks;
pub mod energy;
pub mod hardware;
pub mod infiniband;
pub mod load;
pub mod lustre;
pub mod memory;
pub mod network;
pub mod nfs;
pub mod peak;
pub mod processor;
pub mod remote;
pub mod sensors;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

pub use cpu::Cpu;
pub use disks::Disk;
pub use energy::Zone;
pub use hardware::Hardware;
pub use infiniband::Port;
pub use load::{Load, Pressure, Uptime};
pub use memory::{Memory, Paging};
pub use network::Interface;
pub use remote::Remote;
pub use sensors::{Power, Temperature};

use crate::read::Reader;

/// Readings after which devices are looked up again: within the hour, at a reading a minute.
const LOOK_AGAIN: u64 = 60;

/// One reading. What is absent or empty is not there or could not be read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    pub cpu: Option<Cpu>,
    pub load: Option<Load>,
    pub uptime: Option<Uptime>,
    pub pressure: Pressure,
    pub memory: Option<Memory>,
    pub paging: Option<Paging>,
    pub disks: Vec<Disk>,
    pub interfaces: Vec<Interface>,
    pub ports: Vec<Port>,
    pub energy: Vec<Zone>,
    pub powers: Vec<Power>,
    pub temperatures: Vec<Temperature>,
}

/// Reads the node again and again. Nothing here waits for another machine.
pub struct Node {
    proc: Reader,
    sys: Reader,
    readings: u64,
    disks: disks::Disks,
    network: network::Network,
    infiniband: infiniband::Infiniband,
    energy: energy::Energy,
    sensors: sensors::Sensors,
}

impl Default for Node {
    fn default() -> Self {
        Node::new("/proc", "/sys")
    }
}

impl Node {
    /// Reads below these directories, usually `/proc` and `/sys`.
    pub fn new(proc: impl Into<PathBuf>, sys: impl Into<PathBuf>) -> Node {
        Node {
            proc: Reader::new(proc),
            sys: Reader::new(sys),
            readings: 0,
            disks: disks::Disks::default(),
            network: network::Network::default(),
            infiniband: infiniband::Infiniband::default(),
            energy: energy::Energy::default(),
            sensors: sensors::Sensors::default(),
        }
    }

    /// The reader of network file systems of the same node, to be given a thread of its own.
    pub fn remote(&self) -> Remote {
        Remote::new(self.proc.root(), self.sys.root())
    }

    /// System calls made until now.
    pub fn calls(&self) -> u64 {
        self.proc.calls() + self.sys.calls()
    }

    /// Reads everything but network file systems.
    pub fn read(&mut self) -> Reading {
        if self.readings.is_multiple_of(LOOK_AGAIN) {
            self.look();
        }
        self.readings += 1;
        let (proc, sys) = (&mut self.proc, &mut self.sys);
        Reading {
            cpu: proc.once(b"stat").ok().map(cpu::parse_stat),
            load: proc.once(b"loadavg").ok().and_then(load::parse_loadavg),
            uptime: proc.once(b"uptime").ok().and_then(load::parse_uptime),
            pressure: Pressure::read(proc),
            memory: proc.once(b"meminfo").ok().map(memory::parse_meminfo),
            paging: proc.all(b"vmstat").ok().map(memory::parse_vmstat),
            disks: self.disks.read(proc, sys),
            interfaces: self.network.read(proc, sys),
            ports: self.infiniband.read(sys),
            energy: self.energy.read(sys),
            powers: self.sensors.powers(sys),
            temperatures: self.sensors.temperatures(sys),
        }
    }

    fn look(&mut self) {
        self.disks.forget();
        self.network.forget();
        self.infiniband.look(&mut self.sys);
        self.energy.look(&mut self.sys);
        self.sensors.look(&mut self.sys);
    }
}
