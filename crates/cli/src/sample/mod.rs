//! `jobglass sample`: reads this node as the agent does, without any server.

mod json;
mod stats;
mod table;

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use agent::clock::{Clock, monotonic_ns};
use agent::sampling::{Collector, Counting, Tracked};
use agent::table::{Census, Subject};
use agent::waits::Waits;
use anyhow::{Context, Result};
use record::entry::Entry;
use record::reading::Reading;
use rustix::time::{ClockId, clock_gettime};
use sample::gpu::Setup;

use crate::args::SampleArgs;
use crate::output;
use json::Sample;
pub use json::reading as reading_json;
use stats::Cost;

pub fn run(args: &SampleArgs) -> Result<bool> {
    let mut node = ThisNode::new(args.nvml.as_deref());
    let mut out = BufWriter::new(output::stdout());
    let mut costs = Vec::new();
    let repeat = if args.once { 1 } else { args.repeat };
    let mut due = Instant::now();
    for round in 0..repeat {
        if round > 0 {
            due += Duration::from_secs_f64(args.interval);
            wait_until(due);
        }
        let (reading, cost) = node.read()?;
        costs.push(cost);
        match (args.stats, args.json) {
            (true, _) => {}
            (false, true) => {
                writeln!(
                    out,
                    "{}",
                    output::json(&Sample { reading: &reading, collector: &node.collector })?
                )?;
            }
            (false, false) => table::print(&mut out, &reading)?,
        }
        out.flush()?;
    }
    if args.stats {
        stats::print(&mut out, &costs, args.json)?;
        out.flush()?;
    }
    Ok(true)
}

#[allow(clippy::disallowed_methods, reason = "somebody asked for this interval")]
fn wait_until(due: Instant) {
    std::thread::sleep(due.saturating_duration_since(Instant::now()));
}

/// This node, read again and again.
struct ThisNode {
    host: String,
    clock: Clock,
    collector: Collector,
    tracked: BTreeMap<Subject, Tracked>,
    /// What it is made of is told once.
    is_first: bool,
}

impl ThisNode {
    fn new(nvml: Option<&Path>) -> ThisNode {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let mut setup = Setup::default();
        if let Some(nvml) = nvml {
            setup.nvml = nvml.to_owned();
        }
        let clock = Clock::now();
        ThisNode {
            host,
            clock: clock.clone(),
            collector: Collector::new(clock, Waits::default(), Counting::default(), setup),
            tracked: BTreeMap::new(),
            is_first: true,
        }
    }

    /// One reading, and what it cost.
    fn read(&mut self) -> Result<(Reading, Cost)> {
        let (cpu, calls) = (cpu_ns(), self.collector.calls());
        let seen = self.collector.read_all().context("cannot read /proc")?;
        let reading = self.digest();
        let (collected, calls) = (cpu_ns(), self.collector.calls() - calls);
        let bytes =
            minicbor::to_vec(Entry::Reading(Box::new(reading.clone()))).map_or(0, |bytes| bytes.len());
        let cost = Cost {
            processes: seen.processes,
            collect_ns: collected - cpu,
            encode_ns: cpu_ns() - collected,
            calls,
            bytes,
            resident: resident(&self.collector),
        };
        Ok((reading, cost))
    }

    fn digest(&mut self) -> Reading {
        let census = self.collector.survey(&self.host);
        let due = vec![true; census.accounts.len()];
        let mut reading = Reading {
            time: self.clock.wall(monotonic_ns()),
            host: self.host.clone(),
            node: self.collector.read_node(),
            ..Reading::default()
        };
        let mut sorted = self.collector.sort(&census, &due);
        reading.cards = self.collector.read_cards(&census, &mut sorted);
        if std::mem::take(&mut self.is_first) {
            reading.hardware = Some(Box::new(self.collector.read_hardware()));
        }
        for (at, mut own) in sorted {
            let Census { accounts, .. } = &census;
            let tracked = self.tracked.entry(accounts[at].subject.clone()).or_default();
            tracked.groups = own.groups.take().or(tracked.groups.take());
            if let Some(groups) = &tracked.groups {
                tracked.hear(self.collector.cgroups.read(groups));
            }
            reading.jobs.push(tracked.reading(&accounts[at], own, &self.clock));
        }
        reading
    }
}

/// CPU time of this process.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec.max(0) as u64 * 1_000_000_000 + time.tv_nsec.max(0) as u64
}

/// Resident memory of this process, which is among those that were read.
fn resident(collector: &Collector) -> Option<u64> {
    let me = std::process::id();
    let process = collector.processes.processes.iter().find(|process| process.pid == me)?;
    Some(process.memory?.resident)
}
