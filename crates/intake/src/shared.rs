//! Things that many rows share: files, objects, lists of them, modules, environments. Each has an id made of its
//! content, and a batch brings to the writer only those that are not stored yet.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use record::bytes::{Bytes, hex};
use record::entry::{Entry, File, Object, ObjectList};

use crate::catalogue::{Item, PayloadKey, Stored};
use crate::ids;
use crate::prepare::{PrepareError, decode, json_list};

/// What a batch brings that may not be stored, by ids.
#[derive(Debug, Default)]
pub struct Shared {
    pub files: HashMap<u64, File>,
    pub objects: HashMap<u64, ObjectRow>,
    pub lists: HashMap<u64, Vec<u64>>,
    pub modules: HashMap<u64, Vec<(String, Option<String>)>>,
    pub environments: HashMap<u64, String>,
    /// What was decoded, to be recognised the next time.
    pub payloads: Vec<(PayloadKey, Item)>,
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
    /// Only the process says so.
    pub claimed: bool,
}

/// The store's ids of what entries refer to by the agent's numbers.
#[derive(Debug, Default)]
pub struct Numbers {
    pub files: HashMap<u64, u64>,
    pub lists: HashMap<u64, u64>,
}

/// A list that waits until all files of the batch have their ids.
struct Pending<'p> {
    payload: Payload<'p>,
    key: PayloadKey,
    number: u64,
    files: Arc<[Option<u64>]>,
    decoded: Option<ObjectList>,
}

/// The bytes of a list or a file, among the entries (with its number) or beside them.
#[derive(Clone, Copy)]
pub struct Payload<'p> {
    pub number: Option<u64>,
    pub bytes: &'p [u8],
}

impl Payload<'_> {
    fn decode(&self) -> Result<Option<Entry>, PrepareError> {
        decode(self.bytes).map_err(|reason| match self.number {
            Some(number) => PrepareError::Entry { number, reason },
            None => PrepareError::Context(reason),
        })
    }
}

impl Numbers {
    /// Gives ids to all lists and files of a batch.
    pub fn of<'p>(
        payloads: impl Iterator<Item = Payload<'p>>,
        stored: &Stored,
        shared: &mut Shared,
    ) -> Result<Numbers, PrepareError> {
        let mut numbers = Numbers::default();
        let mut lists = Vec::new();
        for payload in payloads {
            let key = PayloadKey::of(payload.bytes);
            match stored.payloads.get(&key) {
                Some(Item::File { number, id }) => drop(numbers.files.insert(*number, *id)),
                Some(Item::List { number, files }) => {
                    lists.push(Pending {
                        payload,
                        key,
                        number: *number,
                        files: files.clone(),
                        decoded: None,
                    });
                }
                _ => match payload.decode()? {
                    Some(Entry::File(file)) => {
                        let (number, id) = (file.id, ids::file(&file));
                        shared.payloads.push((key, Item::File { number, id }));
                        shared.files.insert(id, file);
                        numbers.files.insert(number, id);
                    }
                    Some(Entry::Objects(list)) => {
                        let (number, files) =
                            (list.id, list.objects.iter().map(|object| object.file).collect());
                        lists.push(Pending { payload, key, number, files, decoded: Some(list) });
                    }
                    _ => {}
                },
            }
        }
        lists.into_iter().try_for_each(|list| numbers.resolve(list, stored, shared))?;
        Ok(numbers)
    }

    fn resolve(&mut self, list: Pending, stored: &Stored, shared: &mut Shared) -> Result<(), PrepareError> {
        let files: Vec<Option<u64>> =
            list.files.iter().map(|number| self.files.get(number.as_ref()?).copied()).collect();
        let key = list.key.with_files(&files);
        if let Some(Item::Resolved(id)) = stored.payloads.get(&key) {
            self.lists.insert(list.number, *id);
            return Ok(());
        }
        let decoded = match list.decoded {
            Some(decoded) => decoded,
            None => match list.payload.decode()? {
                Some(Entry::Objects(decoded)) => decoded,
                _ => return Ok(()),
            },
        };
        let id = shared.add_list(&decoded, &files);
        shared.payloads.push((list.key, Item::List { number: list.number, files: list.files }));
        shared.payloads.push((key, Item::Resolved(id)));
        self.lists.insert(list.number, id);
        Ok(())
    }
}

impl Shared {
    fn add_list(&mut self, list: &ObjectList, files: &[Option<u64>]) -> u64 {
        let objects: Vec<u64> =
            list.objects.iter().zip(files).map(|(object, file)| self.add_object(object, *file)).collect();
        let id = ids::list(&objects);
        self.lists.entry(id).or_insert(objects);
        id
    }

    fn add_object(&mut self, object: &Object, file: Option<u64>) -> u64 {
        let id = ids::object(object, file);
        self.objects.entry(id).or_insert_with(|| {
            let path = object.path.to_string();
            let name = path.rsplit('/').next().unwrap_or(&path).to_owned();
            let (build_id, signature) =
                (object.build_id.as_deref().map(hex), object.signature.as_deref().map(hex));
            ObjectRow { name, build_id, signature, file, path, claimed: object.claimed }
        });
        id
    }

    pub fn add_modules(&mut self, modules: &[Bytes], files: Option<&[Bytes]>, stored: &Stored) -> u64 {
        let id = ids::modules(modules, files);
        if !stored.knows(id) {
            self.modules.entry(id).or_insert_with(|| {
                // The two variables name the same modules in the same order, where nobody has changed one of them.
                let files = files.filter(|files| files.len() == modules.len());
                let file = |at: usize| files.and_then(|files| files.get(at)).map(Bytes::to_string);
                modules.iter().enumerate().map(|(at, module)| (module.to_string(), file(at))).collect()
            });
        }
        id
    }

    pub fn add_environment(&mut self, env: Vec<Bytes>, stored: &Stored) -> u64 {
        let id = ids::environment(&env);
        if !stored.knows(id) {
            self.environments.entry(id).or_insert_with(|| json_list(env));
        }
        id
    }

    /// Leaves what is not known yet.
    pub fn retain_new(&mut self, is_known: impl Fn(u64) -> bool) {
        self.lists.retain(|id, _| !is_known(*id));
        let listed: HashSet<u64> = self.lists.values().flatten().copied().collect();
        self.objects.retain(|id, _| listed.contains(id) && !is_known(*id));
        self.modules.retain(|id, _| !is_known(*id));
        self.environments.retain(|id, _| !is_known(*id));
    }
}
