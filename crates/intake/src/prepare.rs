//! From a batch to rows: decodes, checks and gives ids, without the database, so that many can be prepared at
//! once while one is written.

use record::batch::{Batch, Stream};
use record::bytes::Bytes;
use record::entry::{Entry, Gap, Health, Image, ImageKey, Nanos, RankUse};
use record::reading::{Reading, Values};
use serde::{Serialize, Serializer};

use crate::catalogue::{Catalogue, Stored};
use crate::ids;
use crate::shared::{Numbers, Payload, Shared};

/// Why a batch is refused as a whole.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrepareError {
    #[error("entry {number} cannot be decoded: {reason}")]
    Entry { number: u64, reason: String },
    #[error("something the entries refer to cannot be decoded: {0}")]
    Context(String),
    #[error("entry {number} refers to a list that is not in the batch")]
    NoList { number: u64 },
    #[error("entry {number} is of host {found:?}, the batch of {expected:?}")]
    Host { number: u64, found: String, expected: String },
    #[error("entry {number}: {what} is out of range")]
    Range { number: u64, what: &'static str },
}

/// The rows of one batch.
#[derive(Debug)]
pub struct Prepared {
    /// That of the catalogue, by which some things were left out.
    pub epoch: u64,
    pub stream: Stream,
    pub host: String,
    pub first: u64,
    pub last: u64,
    pub rows: Vec<Row>,
    pub gaps: Vec<(u64, Gap)>,
    pub healths: Vec<(u64, Health)>,
    pub readings: Vec<(u64, Box<Reading>)>,
    pub unknown: Vec<(u64, Vec<u8>)>,
    pub shared: Shared,
}

/// An image that runs: a row of `running`.
#[derive(Debug)]
pub struct Running {
    pub id: u64,
    pub key: ImageKey,
    pub rank: Option<u32>,
    pub start: Nanos,
}

/// A row of `process`, or as many of `running` as the entry has images.
#[derive(Debug)]
pub struct Row {
    pub number: u64,
    pub image: Box<Image>,
    pub exe: Option<String>,
    pub exe_file: Option<u64>,
    pub argv: Option<String>,
    pub cwd: Option<String>,
    pub modules: Option<u64>,
    pub environment: Option<u64>,
    pub container_image: Option<String>,
    pub objects: Option<u64>,
    pub late_objects: Option<u64>,
    pub forked_from: Option<String>,
    pub ranks: Option<String>,
    /// The images that run; none if this is of some that have ended.
    pub running: Vec<Running>,
    /// The images that were reported while they ran, and have ended, by their ids.
    pub ended: Vec<u64>,
}

/// Images of which one entry may say that they run: each is a row.
const RUNNING_MAX: usize = 4096;

/// Decodes and checks everything in a batch, but what of it is in the catalogue.
pub fn prepare(batch: &Batch, catalogue: &Catalogue) -> Result<Prepared, PrepareError> {
    let stored = catalogue.read();
    let mut shared = Shared::default();
    let beside = batch.context.iter().map(|bytes| Payload { number: None, bytes });
    let among = batch.entries.iter().zip(batch.first..).filter(|(bytes, _)| is_shared(bytes));
    let among = among.map(|(bytes, number)| Payload { number: Some(number), bytes });
    let numbers = Numbers::of(beside.chain(among), &stored, &mut shared)?;
    let mut prepared = Prepared {
        epoch: stored.epoch,
        stream: batch.stream,
        host: batch.host.to_owned(),
        first: batch.first,
        last: batch.last().unwrap_or(batch.first),
        rows: Vec::with_capacity(batch.entries.len()),
        gaps: Vec::new(),
        healths: Vec::new(),
        readings: Vec::new(),
        unknown: Vec::new(),
        shared,
    };
    for (payload, number) in batch.entries.iter().zip(batch.first..) {
        if is_shared(payload) {
            continue;
        }
        match decode(payload).map_err(|reason| PrepareError::Entry { number, reason })? {
            Some(entry) => prepared.add(number, entry, &numbers, &stored)?,
            None => prepared.unknown.push((number, payload.to_vec())),
        }
    }
    Ok(prepared)
}

/// The number of an entry's kind.
fn kind(payload: &[u8]) -> Option<u64> {
    let mut decoder = minicbor::Decoder::new(payload);
    decoder.array().and_then(|_| decoder.u64()).ok()
}

/// Whether an entry is a list or a file.
fn is_shared(payload: &[u8]) -> bool {
    matches!(kind(payload), Some(1 | 2))
}

/// `None` is an entry of a kind that this version does not know, from a newer agent.
pub fn decode(payload: &[u8]) -> Result<Option<Entry>, String> {
    /// The highest number of a variant of [`Entry`].
    const KINDS: u64 = 5;
    if kind(payload).is_some_and(|kind| kind > KINDS) {
        return Ok(None);
    }
    minicbor::decode(payload).map(Some).map_err(|error| error.to_string())
}

impl Prepared {
    fn add(
        &mut self,
        number: u64,
        entry: Entry,
        numbers: &Numbers,
        stored: &Stored,
    ) -> Result<(), PrepareError> {
        match entry {
            Entry::Image(image) => {
                self.check_host(number, &image.host)?;
                check_ranges(number, &image)?;
                let row = row(number, image, numbers, stored, &mut self.shared)?;
                self.rows.push(row);
            }
            Entry::Gap(gap) => {
                check_times(number, [Some(gap.from), Some(gap.to)])?;
                self.gaps.push((number, gap));
            }
            Entry::Health(health) => {
                self.check_host(number, &health.host)?;
                check_times(number, [Some(health.time), Some(health.started)])?;
                self.healths.push((number, health));
            }
            Entry::Reading(reading) => {
                self.check_host(number, &reading.host)?;
                check_reading(number, &reading)?;
                self.readings.push((number, reading));
            }
            Entry::Objects(_) | Entry::File(_) => {}
        }
        Ok(())
    }

    fn check_host(&self, number: u64, found: &str) -> Result<(), PrepareError> {
        if found == self.host {
            return Ok(());
        }
        Err(PrepareError::Host { number, found: found.to_owned(), expected: self.host.clone() })
    }
}

fn check_times<const N: usize>(number: u64, times: [Option<Nanos>; N]) -> Result<(), PrepareError> {
    let is_in_range = |time: &Nanos| i64::try_from(*time).is_ok();
    if times.iter().flatten().all(is_in_range) {
        Ok(())
    } else {
        Err(PrepareError::Range { number, what: "a time" })
    }
}

fn check_ranges(number: u64, image: &Image) -> Result<(), PrepareError> {
    check_times(number, [Some(image.start), image.end, Some(image.key.process_start), image.running_at])?;
    for rank in &image.ranks {
        check_times(number, [Some(rank.start), rank.key.map(|key| key.process_start)])?;
    }
    if image.running_at.is_some() {
        if image.ranks.iter().any(|rank| rank.key.is_none()) {
            return Err(PrepareError::Range { number, what: "the name of a rank that runs" });
        }
        if image.ranks.len() > RUNNING_MAX {
            return Err(PrepareError::Range { number, what: "the number of ranks that run" });
        }
    }
    let used = &image.used;
    let numbers = [used.user_ns, used.system_ns, used.max_rss_bytes, used.read_bytes, used.write_bytes];
    if numbers.into_iter().flatten().all(|value| i64::try_from(value).is_ok()) && image.count > 0 {
        return Ok(());
    }
    Err(PrepareError::Range { number, what: "a number" })
}

/// Of what is measured, only numbers that the store cannot hold are refused; metrics it does not know are left out there.
fn check_reading(number: u64, reading: &Reading) -> Result<(), PrepareError> {
    check_times(number, [Some(reading.time)])?;
    let fits = |values: &Values| values.iter().all(|(_, value)| i64::try_from(value).is_ok());
    for job in &reading.jobs {
        check_times(number, [Some(job.start), job.end, Some(job.every)])?;
        let reserved = job.reserved.and_then(|reserved| reserved.memory);
        check_times(number, [reserved])?;
        let whose = [&job.job, &job.session];
        if whose.into_iter().flatten().count() != 1 {
            return Err(PrepareError::Range { number, what: "the name of a job or session" });
        }
    }
    let of_jobs = reading
        .jobs
        .iter()
        .flat_map(|job| job.commands.iter().map(|command| &command.values).chain([&job.values]));
    if of_jobs.chain([&reading.node]).all(fits) {
        return Ok(());
    }
    Err(PrepareError::Range { number, what: "a measured value" })
}

fn row(
    number: u64,
    mut image: Box<Image>,
    numbers: &Numbers,
    stored: &Stored,
    shared: &mut Shared,
) -> Result<Row, PrepareError> {
    let list = |id: Option<u64>| match id {
        Some(id) => numbers.lists.get(&id).copied().map(Some).ok_or(PrepareError::NoList { number }),
        None => Ok(None),
    };
    let modules = image
        .modules
        .take()
        .map(|modules| shared.add_modules(&modules, image.module_files.as_deref(), stored));
    let environment = image.env.take().map(|env| shared.add_environment(env, stored));
    let forked_from = image.forked_from.map(|key| format!("{}.{}.{}", key.pid, key.process_start, key.exec));
    Ok(Row {
        number,
        exe: image.exe.take().map(text),
        exe_file: image.exe_file.and_then(|id| numbers.files.get(&id)).copied(),
        argv: image.argv.take().map(json_list),
        cwd: image.cwd.take().map(text),
        modules,
        environment,
        container_image: image.container.as_mut().and_then(|container| container.image.take()).map(text),
        objects: list(image.objects)?,
        late_objects: list(image.late_objects)?,
        forked_from,
        running: running(&image),
        ended: image.ended().map(|key| ids::image(&image.host, key)).collect(),
        ranks: (!image.ranks.is_empty()).then(|| json_ranks(&image.ranks)),
        image,
    })
}

fn running(image: &Image) -> Vec<Running> {
    let one = |key, rank, start| Running { id: ids::image(&image.host, key), key, rank, start };
    if image.running_at.is_none() {
        return Vec::new();
    }
    if image.ranks.is_empty() {
        return vec![one(image.key, image.place.rank, image.start)];
    }
    image.ranks.iter().filter_map(|of| Some(one(of.key?, Some(of.rank), of.start))).collect()
}

/// Text as it is, without a copy; bytes that are no UTF-8 as `\xNN`.
fn text(bytes: Bytes) -> String {
    String::from_utf8(bytes.0).unwrap_or_else(|error| Bytes(error.into_bytes()).to_string())
}

pub fn json_list(list: Vec<Bytes>) -> String {
    let list: Vec<String> = list.into_iter().map(text).collect();
    serde_json::to_string(&list).unwrap_or_default()
}

/// A rank as it is stored.
#[derive(Serialize)]
struct RankRow {
    rank: u32,
    pid: u32,
    start_ns: Nanos,
    end_ns: Option<Nanos>,
    count: u64,
    user_cpu_ns: Option<u64>,
    system_cpu_ns: Option<u64>,
    max_rss_bytes: Option<u64>,
    read_bytes: Option<u64>,
    write_bytes: Option<u64>,
}

/// One after the other: seven bytes of a batch may say a rank.
fn json_ranks(ranks: &[RankUse]) -> String {
    let row = |rank: &RankUse| RankRow {
        rank: rank.rank,
        pid: rank.pid,
        start_ns: rank.start,
        end_ns: rank.end,
        count: rank.count,
        user_cpu_ns: rank.used.user_ns,
        system_cpu_ns: rank.used.system_ns,
        max_rss_bytes: rank.used.max_rss_bytes,
        read_bytes: rank.used.read_bytes,
        write_bytes: rank.used.write_bytes,
    };
    let mut json = Vec::new();
    let written = serde_json::Serializer::new(&mut json).collect_seq(ranks.iter().map(row));
    written.ok().and_then(|()| String::from_utf8(json).ok()).unwrap_or_default()
}
