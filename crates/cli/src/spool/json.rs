//! Entries as JSON objects. Unknown is `null`, never zero or an empty string.

use jiff::Timestamp;
use record::bytes::{Bytes, hex};
use record::entry::{Entry, File, Gap, Health, Image, ObjectList, RankUse, Used, source};
use serde_json::{Map, Value, json};

use super::Known;

pub fn entry(entry: &Entry, known: &Known) -> Value {
    match entry {
        Entry::Image(image) => self::image(image, known),
        Entry::File(file) => self::file(file),
        Entry::Gap(gap) => self::gap(gap),
        Entry::Health(health) => self::health(health),
        Entry::Reading(reading) => crate::sample::reading_json(reading),
        Entry::Objects(list) => json!({"kind": "objects", "objects": objects(Some(list), known)}),
    }
}

/// Nanoseconds since 1970 as text that sorts.
pub fn time(ns: u64) -> String {
    match Timestamp::from_nanosecond(i128::from(ns)) {
        Ok(time) => format!("{time:.6}"),
        Err(_) => ns.to_string(),
    }
}

fn seconds(ns: Option<u64>) -> Option<f64> {
    ns.map(|ns| ns as f64 / 1e9)
}

fn image(image: &Image, known: &Known) -> Value {
    let place = &image.place;
    let exe_file = image.exe_file.and_then(|id| known.files.get(&id));
    let list = |id: Option<u64>| id.and_then(|id| known.lists.get(&id));
    let mut object = json!({
        "cluster": place.cluster,
        "job": place.job,
        "session": place.session,
        "step": place.step,
        "rank": place.rank,
        "host": image.host,
        "node": place.node,
        "pid": image.key.pid,
        "ppid": image.ppid,
        "start": time(image.start),
        "end": image.end.map(time),
        "state": if image.running_at.is_some() { "running" } else { "ended" },
        "ended_by": image.running_at.is_none().then_some(image.ended_by),
        "exit_code": image.exit_code,
        "signal": image.signal,
        "uid": image.uid,
        "user": image.user,
        "exe": image.exe,
        "argv": image.argv,
        "cwd": image.cwd,
        "modules": image.modules,
        "objects": objects(list(image.objects), known),
        "env": env(image.env.as_deref()),
        "container": image.container,
    });
    let rest = json!({
        "count": image.count,
        "source": source::names(image.source),
        "kind": "image",
        "running_at": image.running_at.map(time),
        "process_start": time(image.key.process_start),
        "exec": image.key.exec,
        "forked_from": image.forked_from.map(|key| json!({
            "pid": key.pid, "process_start": time(key.process_start), "exec": key.exec
        })),
        "job_from": place.job_from,
        "claimed_job": place.claimed_job,
        "exe_hash": exe_file.and_then(|file| file.hash.as_deref()).map(hex),
        "exe_deleted": image.exe_deleted,
        "exe_hex": image.exe.as_ref().and_then(Bytes::hex_unless_text),
        "argv_cut": image.argv_cut,
        "module_files": image.module_files,
        "late_objects": objects(list(image.late_objects), known),
        "objects_cut": image.objects_cut,
        "without_guest": image.without_guest,
        "ranks": image.ranks.iter().map(rank).collect::<Vec<_>>(),
    });
    merge(&mut object, used(&image.used));
    merge(&mut object, rest);
    object
}

fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}

fn used(used: &Used) -> Value {
    json!({
        "user_cpu_s": seconds(used.user_ns),
        "system_cpu_s": seconds(used.system_ns),
        "max_rss_bytes": used.max_rss_bytes,
        "read_bytes": used.read_bytes,
        "write_bytes": used.write_bytes,
    })
}

fn rank(rank: &RankUse) -> Value {
    let mut object = json!({
        "rank": rank.rank,
        "pid": rank.pid,
        "start": time(rank.start),
        "end": rank.end.map(time),
        "count": rank.count,
    });
    merge(&mut object, used(&rank.used));
    object
}

fn objects(list: Option<&ObjectList>, known: &Known) -> Option<Vec<Value>> {
    let object = |object: &record::entry::Object| {
        let file = object.file.and_then(|id| known.files.get(&id));
        let build_id = object.build_id.as_ref().or(file.and_then(|file| file.build_id.as_ref()));
        let signature = object.signature.as_ref().or(file.and_then(|file| file.signature.as_ref()));
        json!({
            "path": object.path,
            "build_id": build_id.map(|id| hex(id)),
            "signature": signature.map(|id| hex(id)),
            "hash": file.and_then(|file| file.hash.as_deref()).map(hex),
            "claimed": object.claimed,
        })
    };
    list.map(|list| list.objects.iter().map(object).collect())
}

fn env(env: Option<&[Bytes]>) -> Option<Map<String, Value>> {
    let pair = |variable: &Bytes| {
        let at = variable.iter().position(|b| *b == b'=').unwrap_or(variable.len());
        let value = variable.get(at + 1..).unwrap_or(&[]);
        (Bytes::from(&variable[..at]).to_string(), Value::String(Bytes::from(value).to_string()))
    };
    env.map(|env| env.iter().map(pair).collect())
}

fn file(file: &File) -> Value {
    json!({
        "kind": "file",
        "path": file.path,
        "dev": file.dev,
        "inode": file.inode,
        "size": file.size,
        "mtime": time(file.mtime),
        "uid": file.uid,
        "mode": file.mode.map(|mode| format!("{:04o}", mode & 0o7777)),
        "hash": file.hash.as_deref().map(hex),
        "unhashed": file.unhashed,
        "build_id": file.build_id.as_deref().map(hex),
        "signature": file.signature.as_deref().map(hex),
        "dynamic": file.dynamic,
    })
}

fn gap(gap: &Gap) -> Value {
    json!({
        "kind": "gap",
        "from": time(gap.from),
        "to": time(gap.to),
        "reason": gap.reason,
        "forks": gap.forks,
        "events": gap.events,
        "images": gap.images,
    })
}

fn health(health: &Health) -> Value {
    let counters: Map<String, Value> =
        health.counters.iter().map(|(name, value)| (name.clone(), (*value).into())).collect();
    json!({
        "kind": "health",
        "time": time(health.time),
        "started": time(health.started),
        "version": health.version,
        "host": health.host,
        "counters": counters,
        "blind": health.blind,
    })
}
