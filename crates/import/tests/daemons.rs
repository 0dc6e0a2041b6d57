//! The real gmond, gmetric and collectd, on loopback, against our readers: what they say of this machine is compared
//! with what the kernel says. A daemon that is not installed skips its tests.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use import::collectd::csv::{self, Place};
use import::collectd::http;
use import::collectd::{Network, Security, Stored, Types, Users};
use import::ganglia::{Packets, xml};
use import::mapping::{Amount, Joined, Joiner, Mapper, Table, Target};
use import::monitor::{Dropped, Reading, Taken, Value, Width};
use testkit::{skip, wait_for};

const DEADLINE: Duration = testkit::LIMIT;
const SECRET: &str = "ann: not very secret\n";

/// Ends with the test, however that ends.
struct Daemon(Child);

impl Daemon {
    fn start(command: &mut Command) -> Daemon {
        Daemon(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Where a program is, or why its test does nothing.
fn installed(test: &str, program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    let found = places.map(|place| place.join(program)).find(|path| path.is_file());
    if found.is_none() {
        skip(test, format_args!("{program} is not installed"));
    }
    found
}

/// The first of these directories that there is, with `*` for any one name.
fn directory(patterns: &[&str]) -> Option<PathBuf> {
    let expand = |pattern: &&str| match pattern.split_once('*') {
        None => vec![PathBuf::from(pattern)],
        Some((before, after)) => {
            let entries = fs::read_dir(before).into_iter().flatten().flatten();
            entries.map(|entry| PathBuf::from(format!("{}{after}", entry.path().display()))).collect()
        }
    };
    patterns.iter().flat_map(expand).find(|path| path.is_dir())
}

/// collectd creates nothing below a directory whose name begins with a dot.
fn temp_dir() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("jobglass-daemons-").tempdir().unwrap()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

fn is_recent(reading: &Reading) -> bool {
    now().abs_diff(reading.time) < 2 * DEADLINE.as_nanos() as u64
}

fn memory_total() -> f64 {
    let text = String::from_utf8(fs::read("/proc/meminfo").unwrap()).unwrap();
    let line = text.lines().find(|line| line.starts_with("MemTotal:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() * 1024.0
}

fn processors() -> usize {
    let text = fs::read("/proc/stat").unwrap();
    let lines = text.split(|byte| *byte == b'\n');
    lines.filter(|line| line.starts_with(b"cpu") && line[3].is_ascii_digit()).count()
}

/// What our metrics are by these readings. `is_all`: they do not end in the midst of a round.
fn metrics(readings: &[Reading], is_all: bool) -> Vec<(&'static str, f64)> {
    let (mut mapper, mut joiner) = (Mapper::new(Table::shipped().unwrap(), 10_000), Joiner::new(1000));
    let points: Vec<_> = readings.iter().flat_map(|reading| mapper.map(reading)).collect();
    let mut joined: Vec<Joined> = points.into_iter().map(|point| joiner.take(point)).collect();
    if is_all {
        joined.extend(joiner.finish());
    }
    let whole = joined.into_iter().filter_map(|joined| match joined {
        Joined::Whole(point) => Some(point),
        _ => None,
    });
    whole
        .filter_map(|point| match (point.target, point.amount) {
            (Target::Metric(metric), Amount::Level(value) | Amount::Rate { per_second: value, .. }) => {
                Some((metric.name, value))
            }
            _ => None,
        })
        .collect()
}

fn last(metrics: &[(&str, f64)], name: &str) -> f64 {
    metrics.iter().rfind(|(known, _)| *known == name).unwrap_or_else(|| panic!("{name} of {metrics:?}")).1
}

fn assert_like(value: f64, truth: f64, share: f64) {
    assert!((value - truth).abs() <= truth * share, "{value} is not {truth}");
}

const GMOND: &str = r#"
globals {
  daemonize = no
  setuid = no
  module_dir = "@modules"
  override_hostname = "n1"
  send_metadata_interval = 5
}
cluster { name = "lom" }
udp_send_channel { host = 127.0.0.1 port = @port }
udp_recv_channel { bind = 127.0.0.1 port = @port }
tcp_accept_channel { bind = 127.0.0.1 port = @port }
modules {
  module { name = "core_metrics" }
  module { name = "cpu_module" path = "modcpu.so" }
  module { name = "load_module" path = "modload.so" }
  module { name = "mem_module" path = "modmem.so" }
  module { name = "sys_module" path = "modsys.so" }
}
collection_group {
  collect_every = 1
  time_threshold = 2
  metric { name = "cpu_num" }
  metric { name = "cpu_user" }
  metric { name = "cpu_idle" }
  metric { name = "load_one" }
  metric { name = "mem_total" }
  metric { name = "mem_free" }
  metric { name = "mem_buffers" }
  metric { name = "mem_cached" }
  metric { name = "os_name" }
}
"#;

/// A port that is free for both kinds of sockets.
fn free_port() -> u16 {
    let is_free = |port: &u16| UdpSocket::bind(("127.0.0.1", *port)).is_ok();
    let port = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    std::iter::repeat_with(port).find(is_free).unwrap()
}

#[test]
fn the_xml_of_gmond() {
    let Some(gmond) = installed("the_xml_of_gmond", "gmond") else { return };
    let places = ["/usr/lib/*/ganglia", "/usr/lib64/ganglia", "/usr/lib/ganglia"];
    let Some(modules) = directory(&places) else {
        return skip("the_xml_of_gmond", format_args!("its modules are in none of {places:?}"));
    };
    let (dir, port) = (temp_dir(), free_port());
    let config = dir.path().join("gmond.conf");
    let text = GMOND.replace("@modules", &modules.display().to_string()).replace("@port", &port.to_string());
    fs::write(&config, text).unwrap();
    let _daemon = Daemon::start(Command::new(gmond).arg("-f").arg("-c").arg(&config));
    let names = |taken: &Taken| taken.readings.iter().map(|r| r.path.plugin.clone()).collect::<BTreeSet<_>>();
    let taken = wait_for("gmond to say all", || {
        let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut taken = Taken::default();
        xml::read(BufReader::new(stream), &mut taken).ok()?;
        (names(&taken).len() == 8 && taken.drops.of(Dropped::Text) == 1).then_some(taken)
    });
    for reading in &taken.readings {
        assert_eq!((reading.host.as_str(), reading.cluster.as_deref()), ("n1", Some("lom")), "{reading:?}");
        assert!(is_recent(reading), "{reading:?}");
    }
    let count = taken.readings.iter().find(|reading| reading.path.plugin == "cpu_num").unwrap();
    assert_eq!(count.value, Value::Gauge(processors() as f64));
    // Twice, because the number of processors may come after their shares.
    let mut again = taken.readings.clone();
    again.iter_mut().for_each(|reading| reading.time += DEADLINE.as_nanos() as u64);
    let metrics = metrics(&[taken.readings, again].concat(), true);
    // Ganglia has a float of 32 bits for it.
    assert_like(last(&metrics, "node_memory_total"), memory_total(), 1e-6);
    assert!(last(&metrics, "node_memory_available") < memory_total());
    let cores = (last(&metrics, "node_cpu_user") + last(&metrics, "node_cpu_idle")) / 1e9;
    assert!((0.0..=processors() as f64 * 1.01).contains(&cores), "{cores}");
}

#[test]
fn the_packets_of_gmetric() {
    let Some(gmetric) = installed("the_packets_of_gmetric", "gmetric") else { return };
    let dir = temp_dir();
    let config = dir.path().join("gmond.conf");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    let port = socket.local_addr().unwrap().port();
    fs::write(
        &config,
        format!("cluster {{ name = \"lom\" }}\nudp_send_channel {{ host = 127.0.0.1 port = {port} }}\n"),
    )
    .unwrap();
    let (mut packets, mut taken) = (Packets::new(100), Taken::default());
    for arguments in [
        &["-n", "fan", "-v", "1200.5", "-t", "float", "-u", "RPM", "-S", "10.0.0.7:n7"][..],
        &[
            "-n",
            "sent",
            "-v",
            "4294967295",
            "-t",
            "uint32",
            "-s",
            "positive",
            "-u",
            "packets",
            "-S",
            "10.0.0.7:n7",
        ],
        &["-n", "who", "-v", "ann", "-t", "string", "-S", "10.0.0.7:n7"],
        &["-n", "own", "-v", "-5", "-t", "int32"],
    ] {
        assert!(Command::new(&gmetric).arg("-c").arg(&config).args(arguments).status().unwrap().success());
        // What it is, and how much.
        for _ in 0..2 {
            let mut buffer = [0; 65536];
            let length = socket.recv(&mut buffer).unwrap();
            packets.packet(&buffer[..length], "127.0.0.1", now(), &mut taken);
        }
    }
    let shown: Vec<_> =
        taken.readings.iter().map(|r| (r.path.plugin.as_str(), r.unit.as_deref(), r.value)).collect();
    assert_eq!(
        shown,
        [
            ("fan", Some("RPM"), Value::Gauge(1200.5)),
            ("sent", Some("packets"), Value::Counter { count: 4_294_967_295, width: Width::Bits32 }),
            ("own", None, Value::Gauge(-5.0)),
        ]
    );
    assert_eq!(taken.readings[..2].iter().map(|r| r.host.as_str()).collect::<Vec<_>>(), ["n7", "n7"]);
    assert!(!taken.readings[2].host.is_empty() && taken.readings[2].host != "n7");
    assert_eq!((taken.drops.of(Dropped::Text), taken.drops.iter().count()), (1, 1));
}

const COLLECTD: &str = r#"
Hostname "n1"
FQDNLookup false
BaseDir "@dir"
PIDFile "@dir/pid"
PluginDir "@plugins"
TypesDB "@types"
Interval 1
LoadPlugin cpu
LoadPlugin load
LoadPlugin memory
LoadPlugin interface
LoadPlugin network
<Plugin network>
  <Server "127.0.0.1" "@plain">
  </Server>
  <Server "127.0.0.1" "@signed">
    SecurityLevel Sign
    Username "ann"
    Password "not very secret"
  </Server>
  <Server "127.0.0.1" "@encrypted">
    SecurityLevel Encrypt
    Username "ann"
    Password "not very secret"
  </Server>
</Plugin>
LoadPlugin csv
<Plugin csv>
  DataDir "@dir/csv"
</Plugin>
@http
"#;

const WRITE_HTTP: &str = r#"
LoadPlugin write_http
<Plugin write_http>
  <Node "test">
    URL "http://127.0.0.1:@port/"
    Format "JSON"
  </Node>
</Plugin>
"#;

/// One collectd that speaks in every way.
struct Collectd {
    dir: tempfile::TempDir,
    types: Types,
    plain: UdpSocket,
    signed: UdpSocket,
    encrypted: UdpSocket,
    posted: Option<Receiver<Vec<u8>>>,
    _daemon: Daemon,
}

impl Collectd {
    fn start() -> Option<Collectd> {
        let test = "collectd_in_every_way";
        let program = installed(test, "collectd")?;
        let plugins = directory(&["/usr/lib/collectd", "/usr/lib64/collectd", "/usr/lib/*/collectd"]);
        let types = Path::new("/usr/share/collectd/types.db");
        let Some(plugins) = plugins.filter(|_| types.is_file()) else {
            skip(test, format_args!("no plugins of collectd, or no {}", types.display()));
            return None;
        };
        let (dir, socket) = (temp_dir(), || UdpSocket::bind("127.0.0.1:0").unwrap());
        let [plain, signed, encrypted] = [socket(), socket(), socket()];
        let http =
            has_libraries(&plugins.join("write_http.so")).then(|| TcpListener::bind("127.0.0.1:0").unwrap());
        let port = |socket: &UdpSocket| socket.local_addr().unwrap().port().to_string();
        let write_http = http.as_ref().map_or(String::new(), |listener| {
            WRITE_HTTP.replace("@port", &listener.local_addr().unwrap().port().to_string())
        });
        let posted = http.map(bodies);
        let text = COLLECTD
            .replace("@dir", &dir.path().display().to_string())
            .replace("@plugins", &plugins.display().to_string())
            .replace("@types", &types.display().to_string())
            .replace("@plain", &port(&plain))
            .replace("@signed", &port(&signed))
            .replace("@encrypted", &port(&encrypted))
            .replace("@http", &write_http);
        let config = dir.path().join("collectd.conf");
        fs::write(&config, text).unwrap();
        let daemon =
            Daemon::start(Command::new(program).arg("-f").arg("-C").arg(&config).stderr(Stdio::null()));
        let mut known = Types::default();
        assert_eq!(known.add(&fs::read(types).unwrap(), "types.db"), []);
        Some(Collectd { dir, types: known, plain, signed, encrypted, posted, _daemon: daemon })
    }

    fn reader(&self, security: Security, users: &str) -> Network {
        let users = Users::parse(users.as_bytes(), "users").unwrap();
        Network { security, users, types: self.types.clone() }
    }
}

/// Whether all that a plugin needs is installed: Debian only recommends some of it.
fn has_libraries(plugin: &Path) -> bool {
    let found = Command::new("ldd").arg(plugin).output();
    let is_whole =
        found.is_ok_and(|out| out.status.success() && !out.stdout.windows(9).any(|w| w == b"not found"));
    if !is_whole {
        skip("what write_http posts", format_args!("{} lacks a library", plugin.display()));
    }
    is_whole
}

/// Packets until there are values of some rounds of all plugins.
fn receive(socket: &UdpSocket, reader: &Network) -> (Taken, Vec<Vec<u8>>) {
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    let (mut taken, mut packets) = (Taken::default(), Vec::new());
    let start = Instant::now();
    while !is_enough(&taken.readings) {
        assert!(start.elapsed() < DEADLINE, "not enough: {:?} {:?}", taken.drops, taken.readings);
        let mut buffer = vec![0; 65536];
        let length = socket.recv(&mut buffer).unwrap();
        buffer.truncate(length);
        reader.packet(&buffer, &mut taken);
        packets.push(buffer);
    }
    (taken, packets)
}

/// A rate needs two values, and a whole of several parts the first part of the next.
fn is_enough(readings: &[Reading]) -> bool {
    let rounds = |path: &str| readings.iter().filter(|reading| reading.path.to_string() == path).count();
    ["cpu-0/cpu-idle/value", "load/load/shortterm", "memory/memory-free/value", "interface-lo/if_octets/rx"]
        .iter()
        .all(|path| rounds(&format!("collectd/{path}")) >= 4)
}

/// The values of collectd are true, whichever way they came.
fn assert_true(way: &str, readings: &[Reading]) {
    assert!(readings.iter().all(|reading| reading.host == "n1" && is_recent(reading)), "{way}");
    let cores: BTreeSet<_> = readings
        .iter()
        .filter(|reading| reading.path.plugin == "cpu")
        .map(|reading| reading.path.plugin_instance.clone())
        .collect();
    assert_eq!(cores, (0..processors()).map(|core| core.to_string()).collect(), "{way}");
    let metrics = metrics(readings, false);
    assert_like(last(&metrics, "node_memory_total"), memory_total(), 1e-9);
    assert!(last(&metrics, "node_memory_available") < memory_total(), "{way}");
    assert!(last(&metrics, "node_load") >= 0.0, "{way}");
    // On a busy machine two values may come right after one another.
    let most = processors() as f64 * 20.0;
    let idle: Vec<_> = metrics.iter().filter(|(name, _)| *name == "node_cpu_idle").collect();
    assert!(
        !idle.is_empty() && idle.iter().all(|(_, rate)| (0.0..=most * 1e9).contains(rate)),
        "{way}: {idle:?}"
    );
}

#[test]
fn collectd_in_every_way() {
    let Some(collectd) = Collectd::start() else { return };
    packets(&collectd);
    if let Some(bodies) = &collectd.posted {
        posts(bodies);
    }
    files(&collectd);
}

fn packets(collectd: &Collectd) {
    let [none, sign, encrypt] =
        [Security::None, Security::Sign, Security::Encrypt].map(|security| collectd.reader(security, SECRET));
    let refused = |packets: &[Vec<u8>], reader: &Network| {
        let mut taken = Taken::default();
        packets.iter().for_each(|packet| reader.packet(packet, &mut taken));
        assert_eq!(taken.readings, []);
        taken.drops.iter().collect::<Vec<_>>()
    };
    let (plain, sent) = receive(&collectd.plain, &none);
    assert_true("plain", &plain.readings);
    assert_eq!(plain.drops.iter().count(), 0, "{:?}", plain.drops);
    assert_eq!(refused(&sent, &sign), [(Dropped::Insecure, sent.len() as u64)]);
    let (signed, sent) = receive(&collectd.signed, &sign);
    assert_true("signed", &signed.readings);
    assert_eq!(refused(&sent, &encrypt), [(Dropped::Insecure, sent.len() as u64)]);
    let wrong = collectd.reader(Security::Sign, "ann: wrong");
    assert_eq!(refused(&sent, &wrong), [(Dropped::BadSeal, sent.len() as u64)]);
    let (encrypted, sent) = receive(&collectd.encrypted, &encrypt);
    assert_true("encrypted", &encrypted.readings);
    assert_eq!(refused(&sent, &wrong), [(Dropped::BadSeal, sent.len() as u64)]);
}

/// Answers all requests from now on, as collectd stops writing anywhere while one waits; the bodies are for later.
fn bodies(listener: TcpListener) -> Receiver<Vec<u8>> {
    let (sender, bodies) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            while let Some(body) = request(&stream) {
                if sender.send(body).is_err() {
                    return;
                }
            }
        }
    });
    bodies
}

fn posts(bodies: &Receiver<Vec<u8>>) {
    let (mut taken, start) = (Taken::default(), Instant::now());
    while !is_enough(&taken.readings) {
        assert!(start.elapsed() < DEADLINE, "not enough: {:?} {:?}", taken.drops, taken.readings);
        let body = bodies.recv_timeout(DEADLINE).unwrap();
        http::read(&body, Stored::Counts, &mut taken).unwrap();
    }
    assert_true("posted", &taken.readings);
    assert_eq!(taken.drops.iter().count(), 0, "{:?}", taken.drops);
}

/// The body of the next request of a connection, if there is one.
fn request(stream: &TcpStream) -> Option<Vec<u8>> {
    let (mut reader, mut writer) = (BufReader::with_capacity(1, stream), stream);
    let mut length = None;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
        let line = line.trim_end().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.parse().ok();
        }
        if line == "expect: 100-continue" {
            writer.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").ok()?;
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length?];
    reader.read_exact(&mut body).ok()?;
    writer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").ok()?;
    Some(body)
}

fn files(collectd: &Collectd) {
    let taken = wait_for("some rounds in files", || {
        let mut taken = Taken::default();
        let under =
            |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
        for file in under(collectd.dir.path().join("csv/n1")).flat_map(under) {
            let place = Place::parse(file.to_str().unwrap()).unwrap();
            let rows = fs::read(&file).unwrap();
            csv::read(&rows[..], &place, &collectd.types, Stored::Counts, &mut taken).unwrap();
        }
        // By time, as they came; files are by series.
        taken.readings.sort_by_key(|reading| reading.time);
        is_enough(&taken.readings).then_some(taken)
    });
    assert_true("in files", &taken.readings);
}
