//! Batches as agents send them.

use record::batch::{Batch, Stream};
use record::bytes::Bytes;
use record::entry::{EndedBy, Entry, File, Image, ImageKey, Object, ObjectList, Place, Used, source};

pub const HOST: &str = "n1";
pub const SECOND: u64 = 1_000_000_000;

pub fn stream(n: u8) -> Stream {
    Stream([n; 16])
}

pub fn image(pid: u32, exe: &str) -> Image {
    let start = 1_800_000_000 * SECOND + u64::from(pid) * SECOND;
    Image {
        key: ImageKey { pid, process_start: start, exec: 1 },
        start,
        end: Some(start + SECOND),
        ended_by: EndedBy::Exit,
        exit_code: Some(0),
        signal: None,
        ppid: Some(1),
        uid: Some(1000),
        user: Some("alice".into()),
        host: HOST.into(),
        place: Place { job: Some("17".into()), ..Place::default() },
        exe: Some(exe.as_bytes().into()),
        exe_file: None,
        exe_deleted: false,
        argv: Some(vec![exe.as_bytes().into(), b"\xff".as_slice().into()]),
        argv_cut: false,
        cwd: None,
        modules: Some(vec![b"gcc/12".as_slice().into()]),
        module_files: None,
        env: Some(vec![b"OMP_NUM_THREADS=4".as_slice().into()]),
        container: None,
        objects: None,
        late_objects: None,
        objects_cut: 0,
        used: Used { user_ns: Some(5 * SECOND), ..Used::default() },
        count: 1,
        source: source::GUEST | source::KERNEL,
        forked_from: None,
        without_guest: None,
        ranks: Vec::new(),
        running_at: None,
        reported: false,
    }
}

pub fn library(path: &str, file: Option<u64>) -> Object {
    Object {
        path: path.as_bytes().into(),
        build_id: Some(Bytes(vec![0xab; 20])),
        signature: None,
        file,
        claimed: false,
    }
}

pub fn list(id: u64, objects: Vec<Object>) -> Entry {
    Entry::Objects(ObjectList { id, objects })
}

pub fn file(id: u64, path: &str, hash: Option<&[u8]>) -> Entry {
    Entry::File(File {
        id,
        path: path.as_bytes().into(),
        dev: 1,
        inode: id,
        size: 100,
        mtime: SECOND,
        uid: Some(0),
        mode: Some(0o755),
        hash: hash.map(Into::into),
        unhashed: None,
        build_id: None,
        signature: None,
        dynamic: Some(true),
    })
}

pub fn entry(image: Image) -> Entry {
    Entry::Image(Box::new(image))
}

/// The bytes of a batch.
pub fn batch(stream: Stream, first: u64, entries: &[Entry], context: &[Entry]) -> Vec<u8> {
    let encode = |list: &[Entry]| -> Vec<Vec<u8>> {
        list.iter().map(|entry| minicbor::to_vec(entry).unwrap()).collect()
    };
    let (entries, context) = (encode(entries), encode(context));
    raw(stream, first, &entries, &context)
}

pub fn raw(stream: Stream, first: u64, entries: &[Vec<u8>], context: &[Vec<u8>]) -> Vec<u8> {
    fn slices(list: &[Vec<u8>]) -> Vec<&[u8]> {
        list.iter().map(Vec::as_slice).collect()
    }
    Batch::new(HOST, stream, first, slices(entries), slices(context)).to_bytes()
}
