//! From a batch to rows: decodes, checks and gives ids, without the database, so that many can be prepared at
//! once while one is written.

use std::collections::{HashMap, HashSet};

use record::batch::{Batch, Stream};
use record::bytes::{Bytes, hex};
use record::entry::{Entry, File, Gap, Health, Image, Nanos, Object, ObjectList, RankUse};
use serde_json::json;

use crate::ids;

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
    pub stream: Stream,
    pub host: String,
    pub first: u64,
    pub last: u64,
    pub rows: Vec<Row>,
    pub gaps: Vec<(u64, Gap)>,
    pub healths: Vec<(u64, Health)>,
    pub unknown: Vec<(u64, Vec<u8>)>,
    pub shared: Shared,
}

/// A row of `process`.
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
}

/// Things that many rows share, by their ids.
#[derive(Debug, Default)]
pub struct Shared {
    pub files: HashMap<u64, File>,
    pub objects: HashMap<u64, ObjectRow>,
    pub lists: HashMap<u64, Vec<u64>>,
    pub modules: HashMap<u64, Vec<(String, Option<String>)>>,
    pub environments: HashMap<u64, String>,
}

/// A row of `object`.
#[derive(Debug, PartialEq, Eq)]
pub struct ObjectRow {
    pub path: String,
    /// The last part of the path.
    pub name: String,
    pub build_id: Option<String>,
    pub signature: Option<String>,
    pub file: Option<u64>,
}

/// Decodes and checks everything in a batch.
pub fn prepare(batch: &Batch) -> Result<Prepared, PrepareError> {
    let mut entries = Vec::with_capacity(batch.entries.len());
    let mut unknown = Vec::new();
    for (payload, number) in batch.entries.iter().zip(batch.first..) {
        match decode(payload).map_err(|reason| PrepareError::Entry { number, reason })? {
            Some(entry) => entries.push((number, entry)),
            None => unknown.push((number, payload.to_vec())),
        }
    }
    let context: Vec<Option<Entry>> = batch
        .context
        .iter()
        .map(|payload| decode(payload))
        .collect::<Result<_, _>>()
        .map_err(PrepareError::Context)?;
    let known = Known::new(context.into_iter().flatten(), &entries);
    let mut prepared = Prepared {
        stream: batch.stream,
        host: batch.host.to_owned(),
        first: batch.first,
        last: batch.last().unwrap_or(batch.first),
        rows: Vec::with_capacity(entries.len()),
        gaps: Vec::new(),
        healths: Vec::new(),
        unknown,
        shared: Shared::default(),
    };
    known.files.values().for_each(|file| prepared.shared.add_file(file));
    for (number, entry) in entries {
        prepared.add(number, entry, &known)?;
    }
    Ok(prepared)
}

/// `None` is an entry of a kind that this version does not know, from a newer agent.
fn decode(payload: &[u8]) -> Result<Option<Entry>, String> {
    /// The highest number of a variant of [`Entry`].
    const KINDS: u64 = 4;
    let mut decoder = minicbor::Decoder::new(payload);
    let kind = decoder.array().and_then(|_| decoder.u64());
    if kind.is_ok_and(|kind| kind > KINDS) {
        return Ok(None);
    }
    minicbor::decode(payload).map(Some).map_err(|error| error.to_string())
}

/// Lists and files by the agent's own numbers.
struct Known {
    files: HashMap<u64, File>,
    lists: HashMap<u64, ObjectList>,
}

impl Known {
    fn new(context: impl Iterator<Item = Entry>, entries: &[(u64, Entry)]) -> Known {
        let mut known = Known { files: HashMap::new(), lists: HashMap::new() };
        for entry in context
            .chain(entries.iter().filter(|(_, entry)| is_shared(entry)).map(|(_, entry)| entry.clone()))
        {
            match entry {
                Entry::File(file) => drop(known.files.insert(file.id, file)),
                Entry::Objects(list) => drop(known.lists.insert(list.id, list)),
                _ => {}
            }
        }
        known
    }
}

fn is_shared(entry: &Entry) -> bool {
    matches!(entry, Entry::File(_) | Entry::Objects(_))
}

impl Prepared {
    fn add(&mut self, number: u64, entry: Entry, known: &Known) -> Result<(), PrepareError> {
        match entry {
            Entry::Image(image) => {
                self.check_host(number, &image.host)?;
                check_ranges(number, &image)?;
                let row = self.shared.row(number, image, known)?;
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
    check_times(number, [Some(image.start), image.end, Some(image.key.process_start)])?;
    let used = &image.used;
    let numbers = [used.user_ns, used.system_ns, used.max_rss_bytes, used.read_bytes, used.write_bytes];
    if numbers.into_iter().flatten().all(|value| i64::try_from(value).is_ok()) && image.count > 0 {
        return Ok(());
    }
    Err(PrepareError::Range { number, what: "a number" })
}

impl Shared {
    fn row(&mut self, number: u64, mut image: Box<Image>, known: &Known) -> Result<Row, PrepareError> {
        let list = |shared: &mut Shared, id: Option<u64>| -> Result<Option<u64>, PrepareError> {
            let Some(id) = id else { return Ok(None) };
            let list = known.lists.get(&id).ok_or(PrepareError::NoList { number })?;
            Ok(Some(shared.add_list(list, known)))
        };
        let objects = list(self, image.objects)?;
        let late_objects = list(self, image.late_objects)?;
        let modules =
            image.modules.take().map(|modules| self.add_modules(&modules, image.module_files.as_deref()));
        let environment = image.env.take().map(|env| self.add_environment(&env));
        let forked_from =
            image.forked_from.map(|key| format!("{}.{}.{}", key.pid, key.process_start, key.exec));
        Ok(Row {
            number,
            exe: image.exe.take().map(text),
            exe_file: image.exe_file.and_then(|id| known.files.get(&id)).map(ids::file),
            argv: image.argv.take().map(json_list),
            cwd: image.cwd.take().map(text),
            modules,
            environment,
            container_image: image.container.as_mut().and_then(|container| container.image.take()).map(text),
            objects,
            late_objects,
            forked_from,
            ranks: (!image.ranks.is_empty()).then(|| json_ranks(&image.ranks)),
            image,
        })
    }

    fn add_file(&mut self, file: &File) {
        self.files.insert(ids::file(file), file.clone());
    }

    fn add_list(&mut self, list: &ObjectList, known: &Known) -> u64 {
        let objects: Vec<u64> = list.objects.iter().map(|object| self.add_object(object, known)).collect();
        let id = ids::list(&objects);
        self.lists.entry(id).or_insert(objects);
        id
    }

    fn add_object(&mut self, object: &Object, known: &Known) -> u64 {
        let file_id = object.file.and_then(|id| known.files.get(&id)).map(ids::file);
        let id = ids::object(object, file_id);
        self.objects.entry(id).or_insert_with(|| {
            let path = object.path.to_string();
            let name = path.rsplit('/').next().unwrap_or(&path).to_owned();
            let (build_id, signature) =
                (object.build_id.as_deref().map(hex), object.signature.as_deref().map(hex));
            ObjectRow { name, build_id, signature, file: file_id, path }
        });
        id
    }

    fn add_modules(&mut self, modules: &[Bytes], files: Option<&[Bytes]>) -> u64 {
        let id = ids::modules(modules, files);
        self.modules.entry(id).or_insert_with(|| {
            // The two variables name the same modules in the same order, where nobody has changed one of them.
            let files = files.filter(|files| files.len() == modules.len());
            let file = |at: usize| files.and_then(|files| files.get(at)).map(Bytes::to_string);
            modules.iter().enumerate().map(|(at, module)| (module.to_string(), file(at))).collect()
        });
        id
    }

    fn add_environment(&mut self, env: &[Bytes]) -> u64 {
        let text = json_list(env.to_vec());
        let id = ids::environment(&text);
        self.environments.entry(id).or_insert(text);
        id
    }

    /// Leaves what is not known yet.
    pub fn retain_new(&mut self, is_known: impl Fn(u64) -> bool) {
        let listed: HashSet<u64> = self
            .lists
            .iter()
            .filter(|(id, _)| !is_known(**id))
            .flat_map(|(_, objects)| objects.clone())
            .collect();
        self.lists.retain(|id, _| !is_known(*id));
        self.objects.retain(|id, _| listed.contains(id) && !is_known(*id));
        self.modules.retain(|id, _| !is_known(*id));
        self.environments.retain(|id, _| !is_known(*id));
    }
}

/// Text as it is, without a copy; bytes that are no UTF-8 as `\xNN`.
fn text(bytes: Bytes) -> String {
    String::from_utf8(bytes.0).unwrap_or_else(|error| Bytes(error.into_bytes()).to_string())
}

fn json_list(list: Vec<Bytes>) -> String {
    let list: Vec<String> = list.into_iter().map(text).collect();
    serde_json::to_string(&list).unwrap_or_default()
}

fn json_ranks(ranks: &[RankUse]) -> String {
    let rank = |rank: &RankUse| {
        json!({
            "rank": rank.rank, "pid": rank.pid, "start_ns": rank.start, "end_ns": rank.end, "count": rank.count,
            "user_cpu_ns": rank.used.user_ns, "system_cpu_ns": rank.used.system_ns,
            "max_rss_bytes": rank.used.max_rss_bytes,
            "read_bytes": rank.used.read_bytes, "write_bytes": rank.used.write_bytes,
        })
    };
    serde_json::to_string(&ranks.iter().map(rank).collect::<Vec<_>>()).unwrap_or_default()
}
