//! Records as a cluster makes them: some programs very often, most seldom; jobs of several steps; libraries in lists
//! that many programs share.

use record::batch::{Batch, Stream};
use record::entry::{
    EndedBy, Entry, File, Image, ImageKey, JobFrom, Object, ObjectList, Place, Used, source,
};

pub const SECOND: u64 = 1_000_000_000;
/// 2026-01-01.
pub const EPOCH: u64 = 1_767_225_600 * SECOND;

/// Random numbers, the same in every run.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides.max(1)
    }

    /// Small numbers often, large ones seldom.
    pub fn skewed(&mut self, sides: u64) -> u64 {
        let (a, b) = (self.below(sides) + 1, self.below(sides) + 1);
        (a * b / sides).min(sides - 1)
    }
}

/// How many different things there are.
const LISTS: u64 = 400;
const LIBRARIES: u64 = 900;
const USERS: u64 = 600;
const PROGRAMS: u64 = 3000;

/// One node that runs one job after the other.
pub struct Node {
    pub host: String,
    pub stream: Stream,
    dice: Dice,
    next: u64,
    job: u64,
    left_in_job: u64,
    /// A job runs a few programs, again and again.
    programs: Vec<u64>,
    time: u64,
    pid: u32,
}

impl Node {
    pub fn new(number: u64, nodes: u64) -> Node {
        let mut stream = [0; 16];
        stream[..8].copy_from_slice(&number.to_le_bytes());
        Node {
            host: format!("n{number:05}"),
            stream: Stream(stream),
            dice: Dice::new(number + 1),
            next: 1,
            // Jobs of different nodes are told apart, and grow with time.
            job: 1_000_000 + number * 7 % nodes,
            left_in_job: 0,
            programs: vec![0],
            time: EPOCH,
            pid: 1000,
        }
    }

    /// The next records of this node, with what they refer to, as the bytes of a batch.
    pub fn batch(&mut self, records: u64, nodes: u64) -> Vec<u8> {
        let mut entries = Vec::new();
        let mut lists: Vec<u64> = Vec::new();
        for _ in 0..records {
            let image = self.image(nodes);
            lists.extend(image.objects);
            entries.push(encode(Entry::Image(Box::new(image))));
        }
        lists.sort_unstable();
        lists.dedup();
        let mut context = Vec::new();
        let mut files: Vec<u64> = Vec::new();
        for list in lists {
            let list = object_list(list);
            files.extend(list.objects.iter().filter_map(|object| object.file));
            context.push(encode(Entry::Objects(list)));
        }
        files.sort_unstable();
        files.dedup();
        context.extend(files.into_iter().map(|id| encode(Entry::File(file(id)))));
        let first = self.next;
        self.next += records;
        Batch::new(&self.host, self.stream, first, slices(&entries), slices(&context)).to_bytes()
    }

    fn image(&mut self, nodes: u64) -> Image {
        if self.left_in_job == 0 {
            self.job += nodes;
            self.left_in_job = 20 + self.dice.below(160);
            let count = 2 + self.dice.below(6);
            self.programs = (0..count).map(|_| self.dice.skewed(PROGRAMS)).collect();
        }
        self.left_in_job -= 1;
        self.time += self.dice.below(3 * SECOND);
        self.pid = 1000 + (self.pid - 999) % 4_000_000;
        let program = self.programs[self.dice.below(self.programs.len() as u64) as usize];
        let user = self.job % USERS;
        let lasted = self.dice.below(30 * SECOND);
        let place = Place {
            cluster: Some("tiny".into()),
            job: Some(self.job.to_string()),
            step: Some(if program.is_multiple_of(3) { "0".into() } else { "batch".into() }),
            rank: program.is_multiple_of(3).then_some(self.pid % 64),
            node: Some(self.host.clone()),
            job_from: Some(JobFrom::Cgroup),
            claimed_job: None,
            session: None,
        };
        Image {
            key: ImageKey { pid: self.pid, process_start: self.time, exec: 1 },
            start: self.time,
            end: Some(self.time + lasted),
            ended_by: EndedBy::Exit,
            exit_code: Some(u32::from(self.dice.below(50) == 0)),
            signal: None,
            ppid: Some(self.pid - 1),
            uid: Some(10_000 + user as u32),
            user: Some(format!("user{user:04}")),
            host: self.host.clone(),
            place,
            exe: Some(path_of(program).into_bytes().into()),
            exe_file: None,
            exe_deleted: false,
            argv: Some(arguments(program, &mut self.dice)),
            argv_cut: false,
            cwd: Some(format!("/scratch/user{user:04}/run{}", self.job % 100).into_bytes().into()),
            modules: Some(vec![
                format!("gcc/{}", 9 + program % 5).into_bytes().into(),
                b"openmpi/4.1".to_vec().into(),
            ]),
            module_files: None,
            env: Some(vec![
                format!("OMP_NUM_THREADS={}", 1 << (program % 6)).into_bytes().into(),
                format!("SLURM_JOB_NAME=run{}", self.job % 40).into_bytes().into(),
                b"SLURM_CPUS_ON_NODE=64".to_vec().into(),
            ]),
            container: None,
            objects: Some(program % LISTS),
            late_objects: None,
            objects_cut: 0,
            used: Used {
                user_ns: Some(lasted * 9 / 10),
                system_ns: Some(lasted / 50),
                max_rss_bytes: Some(4096 * (1000 + self.dice.below(1_000_000))),
                read_bytes: Some(4096 * self.dice.below(10_000)),
                write_bytes: Some(4096 * self.dice.below(10_000)),
            },
            count: 1 + self.dice.below(20) / 19 * self.dice.below(30),
            source: source::GUEST | source::KERNEL,
            forked_from: None,
            without_guest: None,
            ranks: Vec::new(),
            running_at: None,
            reported: false,
        }
    }
}

fn slices(list: &[Vec<u8>]) -> Vec<&[u8]> {
    list.iter().map(Vec::as_slice).collect()
}

fn encode(entry: Entry) -> Vec<u8> {
    minicbor::to_vec(entry).unwrap_or_default()
}

fn path_of(program: u64) -> String {
    match program % 4 {
        0 => format!("/usr/bin/tool{program}"),
        1 => format!("/opt/software/app{}/{}/bin/solver{program}", program % 90, program % 7),
        _ => format!("/home/user{:04}/bin/run{program}", program % USERS),
    }
}

fn arguments(program: u64, dice: &mut Dice) -> Vec<record::bytes::Bytes> {
    let text = |text: String| text.into_bytes().into();
    let mut list = vec![text(path_of(program))];
    list.extend((0..dice.below(6)).map(|n| text(format!("--option{n}={}", dice.below(1000)))));
    list
}

fn object_list(id: u64) -> ObjectList {
    let mut dice = Dice::new(id + 77);
    let count = 8 + dice.below(30);
    let mut numbers: Vec<u64> = (0..count).map(|_| dice.skewed(LIBRARIES)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let object = |number: u64| Object {
        path: library(number).into_bytes().into(),
        build_id: Some([&number.to_le_bytes()[..], &[7; 12]].concat().into()),
        signature: None,
        file: Some(number),
        claimed: false,
    };
    let program = Object {
        path: format!("/program/of/list{id}").into_bytes().into(),
        build_id: None,
        signature: None,
        file: None,
        claimed: false,
    };
    ObjectList { id, objects: std::iter::once(program).chain(numbers.into_iter().map(object)).collect() }
}

/// The rarest one is in few lists, the first ones in nearly all.
pub fn library(number: u64) -> String {
    match number {
        0 => "/lib/x86_64-linux-gnu/libc.so.6".into(),
        _ => format!("/opt/lib{}/libthing{number}.so.{}", number % 12, number % 9),
    }
}

fn file(id: u64) -> File {
    File {
        id,
        path: library(id).into_bytes().into(),
        dev: 1,
        inode: id,
        size: 1000 + id,
        mtime: EPOCH,
        uid: Some(0),
        mode: Some(0o644),
        hash: Some([&id.to_le_bytes()[..], &[3; 8]].concat().into()),
        unhashed: None,
        build_id: None,
        signature: None,
        dynamic: Some(true),
    }
}
