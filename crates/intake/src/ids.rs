//! Ids of things that many rows share: hashes of their content, the same on every node.

use record::bytes::Bytes;
use record::entry::{File, ImageKey, Object};
use xxhash_rust::xxh3::Xxh3;

/// A hash over parts, each with its length, so that no two lists of parts look alike.
struct Parts(Xxh3);

impl Parts {
    fn new(kind: &[u8]) -> Parts {
        let mut parts = Parts(Xxh3::new());
        parts.add(kind);
        parts
    }

    fn add(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    fn add_optional(&mut self, bytes: Option<&[u8]>) {
        self.add(&[u8::from(bytes.is_some())]);
        self.add(bytes.unwrap_or_default());
    }

    fn id(&self) -> u64 {
        self.0.digest()
    }
}

/// A file by what it is, not by where a node has mounted it: device and inode differ from node to node.
pub fn file(file: &File) -> u64 {
    let mut parts = Parts::new(b"file");
    parts.add(&file.path);
    parts.add(&file.size.to_le_bytes());
    parts.add(&file.mtime.to_le_bytes());
    // Another user's file of the same name, size and time, as in a container, is another file.
    parts.add_optional(file.uid.map(u32::to_le_bytes).as_ref().map(<[u8; 4]>::as_slice));
    parts.add_optional(file.mode.map(u32::to_le_bytes).as_ref().map(<[u8; 4]>::as_slice));
    parts.id()
}

/// An object, with the id of its file.
pub fn object(object: &Object, file: Option<u64>) -> u64 {
    let mut parts = Parts::new(b"object");
    parts.add(&object.path);
    parts.add_optional(object.build_id.as_deref());
    parts.add_optional(object.signature.as_deref());
    parts.add_optional(file.map(u64::to_le_bytes).as_ref().map(<[u8; 8]>::as_slice));
    if object.claimed {
        parts.add(b"claimed");
    }
    parts.id()
}

/// A list of objects.
pub fn list(objects: &[u64]) -> u64 {
    let mut parts = Parts::new(b"list");
    objects.iter().for_each(|object| parts.add(&object.to_le_bytes()));
    parts.id()
}

/// Modules with the files they came from.
pub fn modules(modules: &[Bytes], files: Option<&[Bytes]>) -> u64 {
    let mut parts = Parts::new(b"modules");
    parts.add(&(modules.len() as u64).to_le_bytes());
    modules.iter().chain(files.into_iter().flatten()).for_each(|part| parts.add(part));
    parts.id()
}

/// A program image of a host, which is reported while it runs and again when it has ended.
pub fn image(host: &str, key: ImageKey) -> u64 {
    let mut parts = Parts::new(b"image");
    parts.add(host.as_bytes());
    parts.add(&key.pid.to_le_bytes());
    parts.add(&key.process_start.to_le_bytes());
    parts.add(&key.exec.to_le_bytes());
    parts.id()
}

/// The variables of an environment.
pub fn environment(variables: &[Bytes]) -> u64 {
    let mut parts = Parts::new(b"environment");
    variables.iter().for_each(|variable| parts.add(variable));
    parts.id()
}
