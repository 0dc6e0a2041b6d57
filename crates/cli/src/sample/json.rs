//! A reading as JSON. Metrics are named; what is not known is left out.

use agent::sampling::Collector;
use record::metric;
use record::reading::{CardReading, Hardware, JobReading, Reading, Values};
use sample::processes::Process;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};

/// A reading with every process, for those who look once. It is written piece by piece: a node may have thousands.
pub struct Sample<'s> {
    pub reading: &'s Reading,
    pub collector: &'s Collector,
}

impl Serialize for Sample<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Sample { reading, collector } = self;
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in &node(reading) {
            map.serialize_entry(name, value)?;
        }
        map.serialize_entry("jobs", &Each(&reading.jobs, job))?;
        map.serialize_entry("processes", &Each(&collector.processes.processes, process))?;
        // What is unknown, and why.
        let uncounted = collector.counts.why_not();
        let unknown: Vec<&String> = uncounted.iter().chain(&collector.cards.ill).collect();
        map.serialize_entry("unknown", &unknown)?;
        map.end()
    }
}

/// A list of which one piece is in memory at a time.
struct Each<'a, T>(&'a [T], fn(&T) -> Value);

impl<T> Serialize for Each<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(self.1))
    }
}

/// A reading as it is recorded.
pub fn reading(reading: &Reading) -> Value {
    let mut fields = node(reading);
    fields.insert("jobs".into(), reading.jobs.iter().map(job).collect());
    Value::Object(fields)
}

/// A reading without its jobs.
fn node(reading: &Reading) -> Map<String, Value> {
    let fields: [(&str, Value); 6] = [
        ("kind", "reading".into()),
        ("time", crate::spool::time(reading.time).into()),
        ("host", reading.host.as_str().into()),
        ("node", values(&reading.node)),
        ("cards", cards(&reading.cards)),
        ("hardware", reading.hardware.as_deref().map(hardware).into()),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn job(job: &JobReading) -> Value {
    let commands = job
        .commands
        .iter()
        .map(|command| json!({"command": command.command.to_string(), "values": values(&command.values)}));
    let commands: Vec<Value> = commands.collect();
    let reserved = job
        .reserved
        .map(|reserved| json!({"cpus": reserved.cpus, "memory": reserved.memory, "gpus": reserved.gpus}));
    json!({
        "cluster": job.cluster,
        "job": job.job,
        "session": job.session,
        "node": job.node,
        "uid": job.uid,
        "user": job.user,
        "start": crate::spool::time(job.start),
        "end": job.end.map(crate::spool::time),
        "every_seconds": job.every as f64 / 1e9,
        "is_shared": job.is_shared,
        "reserved": reserved,
        "values": values(&job.values),
        "commands": commands,
        "cards": cards(&job.cards),
    })
}

fn cards(cards: &[CardReading]) -> Value {
    let card = |card: &CardReading| {
        json!({
            "card": card.card,
            "index": card.index,
            "model": card.model,
            "parent": card.parent,
            "failing": card.failing,
            "is_shared": card.is_shared,
            "values": values(&card.values),
        })
    };
    cards.iter().map(card).collect()
}

fn hardware(hardware: &Hardware) -> Value {
    json!({
        "model": hardware.model,
        "sockets": hardware.sockets,
        "cores": hardware.cores,
        "threads": hardware.threads,
        "memory": hardware.memory,
        "numa": hardware.numa,
        "peak_flops": hardware.peak_flops,
        "peak_rule": hardware.peak_rule,
        "cards": hardware.cards,
    })
}

fn values(values: &Values) -> Value {
    let named = values.iter().map(|(id, value)| {
        let name = metric::by_id(id).map_or_else(|| format!("metric_{id}"), |metric| metric.name.to_owned());
        (name, value.into())
    });
    Value::Object(named.collect::<Map<String, Value>>())
}

fn process(process: &Process) -> Value {
    let (times, status) = (&process.times, process.status.unwrap_or_default());
    let text = |bytes: &[u8]| record::bytes::Bytes::from(bytes).to_string();
    json!({
        "pid": process.pid,
        "ppid": times.ppid,
        "command": text(times.name()),
        "exe": process.exe.as_deref().map(text),
        "state": char::from(times.state).to_string(),
        "uid": status.uid,
        "session": times.session,
        "start_ticks": times.start_ticks,
        "threads": times.threads,
        "user_ticks": times.user_ticks,
        "system_ticks": times.system_ticks,
        "children_user_ticks": times.children_user_ticks,
        "children_system_ticks": times.children_system_ticks,
        "ticks_since": process.ticks_since,
        "minor_faults": times.minor_faults,
        "major_faults": times.major_faults,
        "resident": process.memory.map(|memory| memory.resident),
        "anonymous": process.memory.map(|memory| memory.resident.saturating_sub(memory.shared)),
        "file": status.file,
        "shared_memory": status.shared_memory,
        "virtual": process.memory.map(|memory| memory.virtual_bytes),
        "swap": status.swap,
        "voluntary_switches": status.voluntary_switches,
        "involuntary_switches": status.involuntary_switches,
        "processors": status.processors,
        "read_chars": process.io.map(|io| io.read_chars),
        "written_chars": process.io.map(|io| io.written_chars),
        "read_bytes": process.io.map(|io| io.read_bytes),
        "written_bytes": process.io.map(|io| io.written_bytes),
        "cgroup": process.cgroup.as_deref().map(text),
    })
}
