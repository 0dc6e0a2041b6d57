//! Older and newer sides: what an agent of each version sends is understood, also by a server that is older than it.

use intake::{Catalogue, Prepared, prepare};
use record::batch::{Batch, Stream};
use record::entry::{
    Container, EndedBy, Entry, File, Gap, GapReason, Health, Image, ImageKey, JobFrom, Object, ObjectList,
    Place, RankUse, Used, source,
};

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_800_000_000 * SECOND;

fn used() -> Used {
    Used {
        user_ns: Some(2 * SECOND),
        system_ns: Some(SECOND),
        max_rss_bytes: Some(4096),
        read_bytes: Some(1),
        write_bytes: Some(2),
    }
}

/// One of every field.
fn image() -> Image {
    let text = |text: &str| text.as_bytes().to_vec().into();
    Image {
        key: ImageKey { pid: 7, process_start: START, exec: 1 },
        start: START,
        end: Some(START + SECOND),
        ended_by: EndedBy::Signal,
        exit_code: None,
        signal: Some(9),
        ppid: Some(1),
        uid: Some(1000),
        user: Some("alice".into()),
        host: "n1".into(),
        place: Place {
            cluster: Some("tiny".into()),
            job: Some("17".into()),
            step: Some("0".into()),
            rank: Some(3),
            node: Some("n1".into()),
            job_from: Some(JobFrom::Cgroup),
            claimed_job: Some("18".into()),
            session: Some("sid-1".into()),
        },
        exe: Some(text("/bin/x")),
        exe_file: Some(5),
        exe_deleted: true,
        argv: Some(vec![text("x"), text("-y")]),
        argv_cut: true,
        cwd: Some(text("/tmp")),
        modules: Some(vec![text("gcc/12")]),
        module_files: Some(vec![text("/modules/gcc/12.lua")]),
        env: Some(vec![text("OMP_NUM_THREADS=4")]),
        container: Some(Container { kind: "apptainer".into(), image: Some(text("/x.sif")) }),
        objects: Some(11),
        late_objects: Some(12),
        objects_cut: 1,
        used: used(),
        count: 2,
        source: source::GUEST | source::KERNEL,
        forked_from: Some(ImageKey { pid: 6, process_start: START, exec: 1 }),
        without_guest: None,
        ranks: vec![RankUse { rank: 3, pid: 7, start: START, end: None, used: used(), count: 1, key: None }],
        running_at: None,
        reported: false,
    }
}

fn entries() -> Vec<Vec<u8>> {
    let health = Health { host: "n1".into(), time: START, started: START, ..Health::default() };
    let reason = GapReason::AgentKilled;
    let gap = Gap { from: START, to: START + 1, reason, forks: Some(1), events: None, images: Some(2) };
    let encode = |entry: Entry| minicbor::to_vec(entry).unwrap();
    vec![encode(Entry::Image(Box::new(image()))), encode(Entry::Gap(gap)), encode(Entry::Health(health))]
}

fn context() -> Vec<Vec<u8>> {
    let object = |path: &str, file| Object {
        path: path.as_bytes().to_vec().into(),
        build_id: Some(vec![1; 20].into()),
        signature: Some(vec![2; 4].into()),
        file,
        claimed: false,
    };
    let list = |id, path: &str, file| Entry::Objects(ObjectList { id, objects: vec![object(path, file)] });
    let file = File {
        id: 5,
        path: b"/bin/x".to_vec().into(),
        dev: 1,
        inode: 2,
        size: 3,
        mtime: START,
        uid: Some(0),
        mode: Some(0o755),
        hash: Some(vec![9; 16].into()),
        unhashed: None,
        build_id: Some(vec![1; 20].into()),
        signature: None,
        dynamic: Some(true),
    };
    [list(11, "/bin/x", Some(5)), list(12, "/lib/libblas.so", None), Entry::File(file)]
        .iter()
        .map(|entry| minicbor::to_vec(entry).unwrap())
        .collect()
}

fn bytes(entries: &[Vec<u8>], context: &[Vec<u8>]) -> Vec<u8> {
    fn slices(list: &[Vec<u8>]) -> Vec<&[u8]> {
        list.iter().map(Vec::as_slice).collect()
    }
    Batch::new("n1", Stream([7; 16]), 1, slices(entries), slices(context)).to_bytes()
}

fn received(bytes: &[u8]) -> Prepared {
    prepare(&Batch::from_bytes(bytes).unwrap(), &Catalogue::default()).unwrap()
}

/// What every version has told so far.
fn check(prepared: &Prepared) {
    let row = &prepared.rows[0];
    assert_eq!((&*row.image.place.job.clone().unwrap(), row.image.signal), ("17", Some(9)));
    assert_eq!(row.image.place.session.as_deref(), Some("sid-1"));
    assert_eq!((row.exe.as_deref(), row.argv.as_deref()), (Some("/bin/x"), Some(r#"["x","-y"]"#)));
    assert!(row.objects.is_some() && row.late_objects.is_some() && row.exe_file.is_some());
    assert!(row.ranks.as_deref().unwrap().contains("\"rank\":3"));
    assert_eq!((prepared.gaps.len(), prepared.healths.len()), (1, 1));
    assert_eq!((prepared.shared.files.len(), prepared.shared.lists.len()), (1, 2));
}

/// The batches of released versions, as they were sent. A new release adds its own (JOBGLASS_WRITE_GOLDEN=1); those that are
/// here never change.
#[test]
fn what_older_agents_send_is_understood() {
    let dir = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data"));
    let own = dir.join(format!("batch-{}", env!("CARGO_PKG_VERSION")));
    if std::env::var_os("JOBGLASS_WRITE_GOLDEN").is_some() && !own.exists() {
        std::fs::write(&own, bytes(&entries(), &context())).unwrap();
    }
    let golden: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(golden.contains(&own), "the batch of this version is missing: JOBGLASS_WRITE_GOLDEN=1");
    for path in golden {
        eprintln!("{}", path.display());
        check(&received(&std::fs::read(path).unwrap()));
    }
}

/// A newer agent adds fields at the end of what is known, and kinds of entries.
#[test]
fn what_newer_agents_send_is_understood_as_far_as_possible() {
    // An array of one more, with a text at its end, wherever an entry ends.
    let longer = |entry: &Vec<u8>| {
        let mut decoder = minicbor::Decoder::new(entry);
        assert_eq!(decoder.array().unwrap(), Some(2), "kind and fields");
        let kind = decoder.u32().unwrap();
        assert_eq!(decoder.array().unwrap(), Some(1));
        let at = decoder.position();
        let fields = decoder.array().unwrap().unwrap();
        let rest = &entry[decoder.position()..];
        let mut out = Vec::new();
        let mut encoder = minicbor::Encoder::new(&mut out);
        encoder.array(2).unwrap().u32(kind).unwrap().array(1).unwrap().array(40).unwrap();
        assert!(at < entry.len() && fields < 39);
        out.extend_from_slice(rest);
        (fields..39).for_each(|_| out.push(0xf6));
        out.extend_from_slice(&[0x63, b'n', b'e', b'w']);
        out
    };
    let mut newer: Vec<Vec<u8>> = entries().iter().map(longer).collect();
    newer.push(vec![0x82, 0x18, 0x63, 0x81, 0x63, b'n', b'e', b'w']);
    let context: Vec<Vec<u8>> = context().iter().map(longer).collect();
    let plain = bytes(&newer, &context);
    let with_field = [&[plain[0] + 1][..], &plain[1..], &[0x63, b'n', b'e', b'w']].concat();
    let prepared = received(&with_field);
    check(&prepared);
    assert_eq!(prepared.unknown, [(4, newer[3].clone())], "kept as it is");
}
