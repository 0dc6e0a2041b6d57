//! What the guest itself says, heard without an agent that could make up for it.

mod common;

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use common::{SURVIVE, SURVIVE_MUSL, guest, must, program};
use record::guest::{Message, Start, decode};
use record::rules::RuleSet;
use rustix::net::{self, AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType};

/// A socket where an agent would listen, with the usual rules beside it.
struct Ear {
    dir: tempfile::TempDir,
    socket: OwnedFd,
}

impl Ear {
    fn new() -> Ear {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent");
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        net::bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        net::listen(&socket, 8).unwrap();
        fs::write(dir.path().join("agent.rules"), RuleSet::default().pack().unwrap()).unwrap();
        Ear { dir, socket }
    }

    /// Runs a program to its end, with these libraries preloaded, and gives what its guest said.
    fn hear(&self, preload: &[&Path], command: &mut Command) -> Start {
        let preload: Vec<String> = preload.iter().map(|path| path.display().to_string()).collect();
        command.env("LD_PRELOAD", preload.join(":"));
        command.env("JOBGLASS_SOCKET", self.dir.path().join("agent"));
        must(command);
        let connection = net::accept(&self.socket).unwrap();
        let mut buf = vec![0; 1 << 17];
        let (len, _) = net::recv(&connection, &mut buf, RecvFlags::empty()).unwrap();
        match decode(&buf[..len]).unwrap() {
            Message::Start(start) => *start,
            other => panic!("{other:?}"),
        }
    }
}

fn arguments(start: &Start) -> Vec<String> {
    start.argv.iter().map(|arg| String::from_utf8_lossy(arg).into_owned()).collect()
}

#[test]
fn arguments_are_found_wherever_the_environment_is() {
    let ear = Ear::new();
    let moved = program("libmoved.so", "cc", "moved_environment.c", &["-shared", "-fPIC"]);
    let guest = guest();
    let (before, behind) = ([moved.as_path(), &guest], [guest.as_path(), &moved]);
    let given = ["return", "", "two words", "--password", "secret", "\u{e4}"];
    let expected = ["return", "", "two words", "--password", "***", "\u{e4}"];
    for (what, program, preload) in [
        ("glibc", &*SURVIVE, &[guest.as_path()][..]),
        ("musl", &*SURVIVE_MUSL, &[guest.as_path()][..]),
        ("a constructor before ours", &*SURVIVE, &before),
        ("a constructor behind ours", &*SURVIVE, &behind),
    ] {
        let start = ear.hear(preload, Command::new(program).args(given));
        assert_eq!(arguments(&start)[1..], expected, "{what}");
        assert!(!start.argv_cut, "{what}");
    }
}

/// On the stack the count is a small number among pointers; the more there are, the longer the way to it.
#[test]
fn as_many_arguments_as_there_are() {
    let ear = Ear::new();
    for (count, bytes) in [(0, 0), (1, 1), (3000, 1), (60_000, 1), (1, 20_000), (2, 16_000)] {
        let given: Vec<String> = (0..count).map(|n| format!("{:0>bytes$}", n % 10)).collect();
        let start = ear.hear(&[&guest()], Command::new("/bin/true").arg0("true").args(&given));
        let kept = arguments(&start);
        let all: usize = given.iter().map(|arg| arg.len() + 1).sum();
        assert_eq!(start.argv_cut, all + "true".len() >= 16 * 1024, "{count} of {bytes}");
        let (last, whole) = kept.split_last().unwrap();
        let place = whole.len();
        if place > 0 {
            assert_eq!(whole[0], "true");
            assert_eq!(whole[1..], given[..place - 1]);
            assert!(given[place - 1].starts_with(last.as_str()), "{count} of {bytes}: {last}");
        }
        assert!(start.argv_cut || kept.len() == count + 1, "{count} of {bytes}: {}", kept.len());
    }
}

/// Notes on the page of the headers are read, others are copied by the kernel.
#[test]
fn build_ids_near_and_far() {
    let ear = Ear::new();
    let far = [
        "-shared",
        "-fPIC",
        "-Wl,--build-id=0x0123456789abcdef",
        "-Wl,--section-start=.note.gnu.build-id=0x8000",
    ];
    let near = ["-shared", "-fPIC", "-Wl,--build-id=0xfedcba9876543210"];
    for (name, options, expected) in
        [("libfar.so", &far[..], 0x0123_4567_89ab_cdef_u64), ("libnear.so", &near[..], 0xfedc_ba98_7654_3210)]
    {
        let library = program(name, "cc", "moved_environment.c", options);
        let start = ear.hear(&[&guest(), &library], &mut Command::new("/bin/true"));
        let path = library.display().to_string();
        let object = start.objects.iter().find(|object| *object.path == *path.as_bytes()).unwrap();
        assert_eq!(
            object.build_id.as_deref().map(|id| id.to_vec()),
            Some(expected.to_be_bytes().to_vec()),
            "{name}"
        );
        assert!(
            start
                .objects
                .iter()
                .any(|object| object.path.ends_with(b"/libc.so.6") && object.build_id.is_some())
        );
    }
}
