//! What the guest itself says, heard without an agent that could make up for it.

mod common;

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use common::{SURVIVE, SURVIVE_MUSL, guest, is_root, must, program};
use record::guest::{Message, Start, decode};
use record::rules::RuleSet;
use rustix::fs::{CWD, FileType, Mode};
use rustix::net::{self, AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType};

/// A socket where an agent would listen, with the usual rules beside it.
struct Ear {
    dir: tempfile::TempDir,
    socket: OwnedFd,
}

impl Ear {
    /// Listens as another user, with root's rules beside the socket.
    fn of(uid: u32) -> Ear {
        // The kernel notes the user of the thread that listens.
        std::thread::spawn(move || {
            let dir = common::new_dir();
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
            let uid = Some(rustix::process::Uid::from_raw(uid));
            rustix::thread::set_thread_res_uid(
                None::<rustix::process::Uid>,
                uid,
                None::<rustix::process::Uid>,
            )
            .unwrap();
            Ear::in_dir(dir)
        })
        .join()
        .unwrap()
    }

    fn new() -> Ear {
        Ear::in_dir(tempfile::tempdir().unwrap())
    }

    fn in_dir(dir: tempfile::TempDir) -> Ear {
        let path = dir.path().join("agent");
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        net::bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        net::listen(&socket, 8).unwrap();
        fs::write(dir.path().join("agent.rules"), RuleSet::default().pack().unwrap()).unwrap();
        Ear { dir, socket }
    }

    fn path(&self) -> String {
        self.dir.path().join("agent").display().to_string()
    }

    fn rules(&self) -> String {
        format!("{}.rules", self.path())
    }

    /// Whether anything was sent by programs that have ended.
    fn has_heard(&self) -> bool {
        let mut heard = false;
        while let Ok(connection) = net::accept(&self.socket) {
            heard |= net::recv(&connection, &mut [0; 16], RecvFlags::TRUNC).is_ok_and(|(len, _)| len > 0);
        }
        heard
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

/// A program with the library, which must end in good time whatever it finds at the agent's place.
fn true_with(library: &Path, socket: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["60", "env", &format!("LD_PRELOAD={}", library.display())]);
    command.args([&format!("JOBGLASS_SOCKET={socket}"), "/bin/true"]).env_clear();
    command
}

/// The library where every user can read it.
fn library_for_all(dir: &Path) -> std::path::PathBuf {
    let copy = dir.join("libjobglass.so");
    fs::copy(guest(), &copy).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    copy
}

#[test]
fn only_root_and_the_user_receive_messages_at_a_path() {
    if !is_root("only_root_and_the_user_receive_messages_at_a_path") {
        return;
    }
    let dir = common::new_dir();
    let library = library_for_all(dir.path());
    const USER: u32 = 54321;
    for (listener, rules_owner, is_heard) in [
        (0, 0, true),
        (USER, USER, true),
        (USER, 0, true),
        // Somebody else listens beside rules that root left, or has put rules beside root's socket.
        (54322, 0, false),
        (54322, 54322, false),
        (0, 54322, false),
        // `nobody` is a stranger as well, although root looks like it in a user namespace.
        (65534, 0, false),
        (0, 65534, false),
    ] {
        let ear = Ear::of(listener);
        std::os::unix::fs::chown(ear.rules(), Some(rules_owner), None).unwrap();
        fs::set_permissions(ear.path(), fs::Permissions::from_mode(0o777)).unwrap();
        must(true_with(&library, &ear.path()).uid(USER));
        assert_eq!(ear.has_heard(), is_heard, "{listener} listens, rules of {rules_owner}");
    }
}

#[test]
fn rules_that_are_no_regular_file_are_not_read_and_do_not_block() {
    let ear = Ear::new();
    let table = fs::read(ear.rules()).unwrap();
    must(&mut true_with(&guest(), &ear.path()));
    assert!(ear.has_heard(), "with a regular file");
    fs::remove_file(ear.rules()).unwrap();
    let node = |kind, device| rustix::fs::mknodat(CWD, ear.rules(), kind, Mode::from(0o644), device);
    let target = ear.dir.path().join("target");
    fs::write(&target, table).unwrap();
    let kinds: [(&str, &dyn Fn()); 4] = [
        ("FIFO", &|| node(FileType::Fifo, 0).unwrap()),
        // Making a device needs root.
        ("device", &|| {
            let _ = node(FileType::CharacterDevice, rustix::fs::makedev(1, 5));
        }),
        ("directory", &|| fs::create_dir(ear.rules()).unwrap()),
        ("symbolic link", &|| symlink(&target, ear.rules()).unwrap()),
    ];
    for (kind, make) in kinds {
        make();
        must(&mut true_with(&guest(), &ear.path()));
        assert!(!ear.has_heard(), "{kind}");
        let _ = fs::remove_file(ear.rules()).or_else(|_| fs::remove_dir(ear.rules()));
    }
}

/// Root of the host is not mapped there, and looks like any stranger.
#[test]
fn in_a_user_namespace_only_the_default_path_is_trusted() {
    if !is_root("in_a_user_namespace_only_the_default_path_is_trusted") {
        return;
    }
    let (root, stranger) = (Ear::of(0), Ear::of(54322));
    let dir = common::new_dir();
    let library = library_for_all(dir.path());
    for ear in [&root, &stranger] {
        fs::set_permissions(ear.path(), fs::Permissions::from_mode(0o777)).unwrap();
        for name in ["agent.sock", "agent.sock.rules"] {
            let _ = fs::hard_link(ear.dir.path().join(name.replace(".sock", "")), ear.dir.path().join(name));
        }
    }
    let run = |ear: &Ear, own: &str, socket: Option<String>| {
        let mut command = Command::new("timeout");
        command.args([
            "60",
            "bwrap",
            "--unshare-user",
            "--uid",
            own,
            "--dev-bind",
            "/",
            "/",
            "--tmpfs",
            "/run",
        ]);
        command.arg("--bind").arg(ear.dir.path()).arg("/run/jobglass");
        command.arg("--setenv").arg("LD_PRELOAD").arg(&library);
        if let Some(socket) = socket {
            command.args(["--setenv", "JOBGLASS_SOCKET", &socket]);
        }
        must(command.arg("/bin/true").env_clear().env("PATH", "/usr/bin:/bin").uid(54321).gid(54321));
        ear.has_heard()
    };
    for own in ["54321", "0", "65534"] {
        assert!(run(&root, own, None), "the default path as user {own}");
        assert!(run(&root, own, Some("/run/jobglass/agent.sock".into())), "the same by name as user {own}");
        assert!(!run(&root, own, Some(root.path())), "root at another path as user {own}");
        assert!(!run(&stranger, own, Some(stranger.path())), "a stranger as user {own}");
    }
}
