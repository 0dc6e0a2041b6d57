use super::*;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use record::guest::Message;
use record::wire::{self, Writer, key, kind};
use rustix::net::{self, AddressFamily, SendFlags, SocketAddrUnix, SocketType};
use testkit::{LIMIT, is_root, wait_until};

struct Fixture {
    _dir: tempfile::TempDir,
    path: PathBuf,
    messages: Receiver<FromGuest>,
    commands: Sender<Command>,
    command_wake: Arc<OwnedFd>,
    hearing: Hearing,
    counters: Arc<Counters>,
    thread: Option<JoinHandle<()>>,
}

impl Fixture {
    fn start(rate: Rate, memory: usize) -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let (out, messages) = channel();
        let (commands, orders) = channel();
        let (command_wake, counters) = (waker().unwrap(), Arc::<Counters>::default());
        let ends = Ends { out, wake: waker().unwrap(), commands: orders, command_wake: command_wake.clone() };
        let names = Names { main: path.display().to_string(), container: None };
        let bounds = Bounds {
            rate,
            memory: Shares::new(memory),
            descriptors: Shares::new(8),
            owners: Owners::default(),
        };
        let receive = Receive::open(names, Arc::default(), bounds, ends, counters.clone()).unwrap();
        let hearing = receive.hearing();
        let thread = Some(std::thread::spawn(move || receive.run()));
        Fixture { _dir: dir, path, messages, commands, command_wake, hearing, counters, thread }
    }

    fn tell(&self, command: Command) {
        self.commands.send(command).unwrap();
        wake(&self.command_wake);
    }

    fn is_read(&self, user: Option<u32>, until: u64) -> bool {
        wake(&self.command_wake);
        self.hearing.so_far().is_all_of(user, until)
    }

    fn next(&self) -> FromGuest {
        self.messages.recv_timeout(LIMIT).expect("no message came")
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.tell(Command::Stop);
        self.thread.take().unwrap().join().unwrap();
    }
}

const ANY_RATE: Rate = Rate { per_second: 1_000_000, burst: 1_000_000 };

fn connect(path: &Path) -> OwnedFd {
    let fd = net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    let address = SocketAddrUnix::new(path).unwrap();
    wait_until("a place in the queue", || net::connect(&fd, &address).is_ok());
    fd
}

fn message(time: u64) -> Vec<u8> {
    let mut buf = vec![0; 64];
    let mut out = Writer::new(&mut buf);
    out.open_map();
    for (key, value) in [(key::VERSION, wire::VERSION), (key::KIND, kind::START), (key::TIME, time)] {
        out.uint(key);
        out.uint(value);
    }
    out.end();
    out.written().to_vec()
}

fn send(connection: &OwnedFd, message: &[u8]) {
    net::send(connection, message, SendFlags::empty()).unwrap();
}

fn time_of(message: &Message) -> u64 {
    match message {
        Message::Start(start) => start.time,
        Message::Suppressed { time, .. } => *time,
    }
}

/// Its image would be finished without its message.
#[test]
fn a_slow_sender_is_heard_in_a_flood() {
    let fixture = Fixture::start(Rate { per_second: 1, burst: 100 }, 1 << 20);
    let slow = connect(&fixture.path);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let _ = net::send(connect(&fixture.path), b"nothing", SendFlags::DONTWAIT);
                }
            });
        }
        wait_until("a flood", || fixture.counters.guest_messages_flood.get() > 100);
        send(&slow, &message(77));
        let heard = fixture.messages.recv_timeout(LIMIT);
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(time_of(&heard.unwrap().message), 77);
    });
}

/// Whoever counts on a message that was sent but is neither handed on nor counted as unread would finish its image without.
#[test]
fn what_counts_as_read_has_been_handed_on() {
    let fixture = Fixture::start(ANY_RATE, 1 << 20);
    let user = Some(rustix::process::geteuid().as_raw());
    for time in 0..300 {
        let connection = connect(&fixture.path);
        if time % 3 == 0 {
            // It is found silent first.
            let connected = monotonic_ns();
            wait_until("the connection to be taken", || fixture.is_read(user, connected));
        }
        send(&connection, &message(time));
        drop(connection);
        let ended = monotonic_ns();
        wait_until("the message to count as read", || fixture.is_read(user, ended));
        assert_eq!(fixture.messages.try_recv().map(|from| time_of(&from.message)), Ok(time));
    }
}

/// Passes a TCP connection that lingers: whoever closes the last descriptor of it waits.
fn send_lingering(connection: &OwnedFd, message: &[u8]) -> std::net::TcpStream {
    use std::os::fd::AsFd;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let tcp = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (peer, _) = listener.accept().unwrap();
    sockopt::set_socket_linger(&tcp, Some(Duration::from_secs(600))).unwrap();
    tcp.set_nonblocking(true).unwrap();
    while io::Write::write(&mut &tcp, &[0; 65536]).is_ok() {}
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = net::SendAncillaryBuffer::new(&mut space);
    // More than is looked for: the kernel closes one when the message is read, and we the other.
    let fds = [tcp.as_fd(), tcp.as_fd()];
    assert!(control.push(net::SendAncillaryMessage::ScmRights(&fds)));
    net::sendmsg(connection, &[io::IoSlice::new(message)], &mut control, SendFlags::empty()).unwrap();
    peer
}

/// What would close them for good is the reader, since the sender has closed its own.
#[test]
fn a_descriptor_that_lingers_holds_up_nothing() {
    let mut fixture = Fixture::start(ANY_RATE, 1 << 20);
    let mut peers = Vec::new();
    for time in 0..20 {
        peers.push(send_lingering(&connect(&fixture.path), &message(time)));
    }
    // Without a message of the right form, and without any.
    peers.push(send_lingering(&connect(&fixture.path), b"nothing"));
    let mut heard: Vec<u64> = (0..20).map(|_| time_of(&fixture.next().message)).collect();
    heard.sort();
    assert_eq!(heard, (0..20).collect::<Vec<_>>());
    // Closing the sockets with connections that nobody has accepted, and opening them again.
    fixture.tell(Command::SwitchOff(true));
    wait_until("the socket to be closed", || !fixture.path.exists());
    fixture.tell(Command::SwitchOff(false));
    wait_until("the socket to be there again", || fixture.path.exists());
    for _ in 0..20 {
        peers.push(send_lingering(&connect(&fixture.path), &message(99)));
    }
    fixture.commands.send(Command::Stop).unwrap();
    wake(&fixture.command_wake);
    let began = Instant::now();
    fixture.thread.take().unwrap().join().unwrap();
    assert!(began.elapsed() < LIMIT, "stopping took {:?}", began.elapsed());
    fixture.thread = Some(std::thread::spawn(|| {}));
    std::mem::forget(fixture);
}

#[test]
fn messages_beyond_the_memory_are_counted() {
    let fixture = Fixture::start(ANY_RATE, 4 * 1024);
    let held: Vec<FromGuest> = (0..)
        .map_while(|time| {
            send(&connect(&fixture.path), &message(time));
            wait_until("an answer", || {
                fixture.counters.guest_messages.get() + fixture.counters.guest_messages_memory.get() > time
            });
            fixture.messages.try_recv().ok()
        })
        .collect();
    assert!(!held.is_empty() && held.len() < 20, "{} fit into half of 4 KiB", held.len());
    assert_eq!(fixture.counters.guest_messages_memory.get(), 1);
    drop(held);
    send(&connect(&fixture.path), &message(5));
    assert_eq!(time_of(&fixture.next().message), 5);
}

/// A child sends over what its parent has connected: neither is believed.
#[test]
fn only_who_connected_may_speak() {
    let fixture = Fixture::start(ANY_RATE, 1 << 20);
    let connection = connect(&fixture.path);
    let bytes = message(7);
    let flags = rustix::io::FdFlags::empty();
    rustix::io::fcntl_setfd(&connection, flags).unwrap();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&connection);
    let file = fixture._dir.path().join("message");
    fs::write(&file, bytes).unwrap();
    // One write of a shell's builtin is one message.
    let script = format!("cat {} >&{fd}", file.display());
    assert!(std::process::Command::new("bash").args(["-c", &script]).status().unwrap().success());
    wait_until("the forgery to be counted", || fixture.counters.guest_messages_forged.get() == 1);
    send(&connect(&fixture.path), &message(8));
    assert_eq!(time_of(&fixture.next().message), 8);
}

#[test]
fn users_sockets_come_and_go() {
    if !is_root("users_sockets_come_and_go") {
        return;
    }
    let fixture = Fixture::start(ANY_RATE, 1 << 20);
    let own = user_socket(&fixture.path, 4711);
    fixture.tell(Command::User(4711));
    wait_until("the user's socket", || own.exists());
    send(&connect(&own), &message(1));
    fixture.tell(Command::Gone(4711));
    wait_until("the user's socket to be gone", || !own.exists());
    assert_eq!(time_of(&fixture.next().message), 1);
    fixture.tell(Command::User(4711));
    wait_until("the user's socket again", || own.exists());
}
