//! Readings as a cluster makes them: counters that grow with noise, in the units in which the kernel counts; gauges in pages;
//! bursts of writing; and much that stays zero.

use record::batch::{Batch, Stream};
use record::entry::Entry;
use record::metric::id;
use record::reading::{CommandReading, JobReading, Reading, Reserved, Values};

use crate::generate::{Dice, EPOCH, SECOND};

/// Processors of a node, all of one job.
const CORES: u64 = 64;
const PAGE: u64 = 4096;
const GIB: u64 = 1 << 30;
/// The kernel counts some times in ticks, others in microseconds.
const TICK: u64 = 10_000_000;
const MICRO: u64 = 1000;

/// A node with one job on it.
pub struct Place {
    host: String,
    stream: Stream,
    job: u64,
    dice: Dice,
    sent: u64,
    /// How busy the job keeps a core, in thousandths, and how much memory it has.
    busy: u64,
    memory: u64,
    peak: u64,
    of_job: Values,
    of_node: Values,
    commands: [Values; 2],
}

impl Place {
    /// The `number`th node, on which the job `job` runs.
    pub fn new(number: u64, job: u64) -> Place {
        let mut stream = [1; 16];
        stream[..8].copy_from_slice(&number.to_le_bytes());
        let mut dice = Dice::new(number + 4711);
        let mut of_node = Values::default();
        // It has been up for a while.
        for counter in NODE_COUNTERS {
            of_node.put(counter, Some(dice.below(1 << 50) / TICK * TICK));
        }
        Place {
            host: format!("n{number:05}"),
            stream: Stream(stream),
            job: 1_000_000 + job,
            busy: 300 + dice.below(700),
            memory: (4 + dice.below(200)) * GIB / PAGE,
            dice,
            sent: 0,
            peak: 0,
            of_job: Values::default(),
            of_node,
            commands: [Values::default(), Values::default()],
        }
    }

    /// The reading of a minute, as the bytes of a batch. The last one ends the job.
    pub fn batch(&mut self, minute: u64, is_last: bool) -> Vec<u8> {
        self.use_resources(minute);
        // Clocks and schedulers differ by some milliseconds.
        let time = EPOCH + (minute * 60 + 50) * SECOND + self.dice.below(SECOND / 200);
        let commands = [b"solver".as_slice(), b"mpirun"]
            .into_iter()
            .zip(&self.commands)
            .map(|(name, values)| CommandReading { command: name.into(), values: values.clone() });
        let job = JobReading {
            cluster: Some("tiny".into()),
            job: Some(self.job.to_string()),
            node: Some(self.host.clone()),
            uid: Some(10_000 + self.job as u32 % 600),
            user: Some(format!("user{:04}", self.job % 600)),
            start: EPOCH + self.job % 50 * SECOND,
            end: is_last.then_some(time - SECOND),
            every: 60 * SECOND,
            values: self.of_job.clone(),
            commands: commands.collect(),
            reserved: Some(Reserved { cpus: Some(CORES as u32), memory: Some(250 * GIB), gpus: None }),
            ..JobReading::default()
        };
        let (host, node) = (self.host.clone(), self.of_node.clone());
        let reading = Reading { time, host, node, jobs: vec![job], ..Reading::default() };
        let entry = minicbor::to_vec(Entry::Reading(Box::new(reading))).unwrap_or_default();
        self.sent += 1;
        Batch::new(&self.host, self.stream, self.sent, vec![&entry], Vec::new()).to_bytes()
    }

    /// About `most`, somewhat less or more.
    fn about(&mut self, most: u64) -> u64 {
        most - most / 20 + self.dice.below(most / 10 + 1)
    }

    fn use_resources(&mut self, minute: u64) {
        if self.dice.below(40) == 0 {
            self.busy = 300 + self.dice.below(700);
        }
        let cpu = self.about(60 * SECOND * CORES / 1000 * self.busy);
        let (system, faults) = (self.about(cpu / 30), self.about(60 * 900));
        // A checkpoint every half hour, a line of a log in between.
        let is_checkpoint = (minute + self.job).is_multiple_of(30);
        let written = if is_checkpoint { self.about(3 * GIB) } else { self.dice.below(64) * PAGE };
        let (read, switches) =
            (if minute == 0 { GIB } else { self.dice.below(3) * PAGE }, self.about(60 * 400));
        self.grow_job(&[
            (id::CPU, cpu),
            (id::CPU_USER, (cpu - system) / MICRO * MICRO),
            (id::CPU_SYSTEM, system / MICRO * MICRO),
            (id::CPU_THROTTLED, 0),
            (id::READ_BYTES, read / PAGE * PAGE),
            (id::WRITE_BYTES, written / PAGE * PAGE),
            (id::READ_CHARS, read + switches * 13),
            (id::WRITE_CHARS, written + switches * 7),
            (id::MINOR_FAULTS, faults),
            (id::MAJOR_FAULTS, self_or_zero(minute == 0, 57)),
            (id::SWITCHES, switches),
            (id::INVOLUNTARY_SWITCHES, switches / 9),
            (id::OOM_KILLS, 0),
            (id::CPU_PRESSURE, self_or_zero(self.busy > 900, switches * MICRO)),
            (id::MEMORY_PRESSURE, 0),
            (id::IO_PRESSURE, self_or_zero(is_checkpoint, switches * 30 * MICRO)),
        ]);
        self.memory = (self.memory + self.dice.below(2000)).saturating_sub(self.dice.below(1990)).max(1000);
        self.peak = self.peak.max(self.memory + written / PAGE);
        let load = CORES * self.busy / 1000 + self.dice.below(3);
        let memory = self.memory * PAGE;
        for (metric, value) in [
            (id::MEMORY, memory),
            (id::MEMORY_CACHE, written / PAGE * PAGE + 300 * PAGE),
            (id::MEMORY_PEAK, self.peak * PAGE),
            (id::MEMORY_SWAP, 0),
            (id::PROCESSES, CORES + 2),
            (id::THREADS, 3 * CORES + 9),
            (id::JOB_LOAD, load),
        ] {
            self.of_job.put(metric, Some(value));
        }
        self.use_commands(cpu, system, memory, read, written);
        self.use_node(cpu, system, load, written);
    }

    fn use_commands(&mut self, cpu: u64, system: u64, memory: u64, read: u64, written: u64) {
        for (at, share) in [(0, 1), (1, 5000)] {
            let values = &mut self.commands[at];
            grow(
                values,
                &[
                    (id::CPU_USER, (cpu - system) / share / TICK * TICK),
                    (id::CPU_SYSTEM, system / share / TICK * TICK),
                    (id::READ_BYTES, read / share / PAGE * PAGE),
                    (id::WRITE_BYTES, written / share / PAGE * PAGE),
                ],
            );
            values.put(id::MEMORY, Some(memory / share / PAGE * PAGE));
            values.put(id::PROCESSES, Some(if at == 0 { CORES } else { 2 }));
            values.put(id::THREADS, Some(if at == 0 { 3 * CORES } else { 9 }));
        }
    }

    fn use_node(&mut self, cpu: u64, system: u64, load: u64, written: u64) {
        let (net, fabric, energy) =
            (self.about(60 * 40_000), self.about(3 * GIB), self.about(60 * 400_000_000));
        let waiting = self.dice.below(40) * TICK;
        let idle = (60 * SECOND * CORES).saturating_sub(cpu + waiting);
        let amounts = [
            (cpu - system) / TICK * TICK,
            0,
            system / TICK * TICK,
            idle / TICK * TICK,
            waiting,
            self.dice.below(3) * TICK,
            self.dice.below(20) * TICK,
            0,
            self.dice.below(30) * PAGE,
            self.dice.below(300) * PAGE,
            net,
            net / 3,
            fabric,
            self.about(fabric),
            0,
            0,
            self.dice.below(3) * PAGE,
            written / PAGE * PAGE,
            energy,
            self.dice.below(60_000) * MICRO,
            0,
            self.dice.below(9_000) * MICRO,
        ];
        let growth: Vec<(u16, u64)> = NODE_COUNTERS.into_iter().zip(amounts).collect();
        grow(&mut self.of_node, &growth);
        let noise = self.dice.below(500);
        let free = (256 * GIB / PAGE).saturating_sub(self.memory + noise) * PAGE;
        for (metric, value) in [
            (id::NODE_LOAD, load * 100 + noise / 5),
            (id::NODE_MEMORY_TOTAL, 256 * GIB - 12_345 * PAGE),
            (id::NODE_MEMORY_AVAILABLE, free),
            (id::NODE_SWAP_USED, 0),
            (id::NODE_TEMPERATURE, 40_000 + load * 300 / 1000 * 1000 + noise / 250 * 1000),
        ] {
            self.of_node.put(metric, Some(value));
        }
    }

    fn grow_job(&mut self, growth: &[(u16, u64)]) {
        grow(&mut self.of_job, growth);
    }
}

const NODE_COUNTERS: [u16; 22] = [
    id::NODE_CPU_USER,
    id::NODE_CPU_NICE,
    id::NODE_CPU_SYSTEM,
    id::NODE_CPU_IDLE,
    id::NODE_CPU_IOWAIT,
    id::NODE_CPU_IRQ,
    id::NODE_CPU_SOFTIRQ,
    id::NODE_CPU_STEAL,
    id::NODE_DISK_READ,
    id::NODE_DISK_WRITE,
    id::NODE_NET_RECEIVED,
    id::NODE_NET_SENT,
    id::NODE_IB_RECEIVED,
    id::NODE_IB_SENT,
    id::NODE_NFS_READ,
    id::NODE_NFS_WRITE,
    id::NODE_LUSTRE_READ,
    id::NODE_LUSTRE_WRITE,
    id::NODE_ENERGY,
    id::NODE_CPU_PRESSURE,
    id::NODE_MEMORY_PRESSURE,
    id::NODE_IO_PRESSURE,
];

fn self_or_zero(is_so: bool, value: u64) -> u64 {
    if is_so { value } else { 0 }
}

fn grow(values: &mut Values, growth: &[(u16, u64)]) {
    for (metric, more) in growth {
        values.put(*metric, Some(values.get(*metric).unwrap_or(0).saturating_add(*more)));
    }
}
