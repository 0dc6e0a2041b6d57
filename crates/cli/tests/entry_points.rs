//! Where others can reach in: who may send values to importers, and whose the directories of the services are.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{jobglass, root, wait_for, wait_until};
use record::measure::{Measures, Series};
use rustix::net::{AddressFamily, SocketType};

/// A line of InfluxDB's protocol.
const LINE: &str = "system,host=n1 load1=1.5 1700000000";

/// An importer without a server: what it takes, it keeps.
struct Importer {
    child: Child,
    log: PathBuf,
    _dir: tempfile::TempDir,
}

fn command(dir: &Path, args: &[&str]) -> Command {
    let token = dir.join("token");
    fs::write(&token, "secret\n").unwrap();
    let mut command = Command::new(jobglass());
    command.arg("import").args(args).stdin(Stdio::null()).stdout(Stdio::null());
    command.env("JOBGLASS_SERVER", "http://127.0.0.1:9").env("JOBGLASS_TOKEN_FILE", token);
    command
}

impl Importer {
    /// Starts it, with `TOKEN` in the place of a file with the token `secret`.
    fn start(args: &[&str]) -> Importer {
        let dir = tempfile::tempdir().unwrap();
        let (log, token) = (dir.path().join("log"), dir.path().join("token").display().to_string());
        let args: Vec<&str> = args.iter().map(|arg| if *arg == "TOKEN" { &token } else { *arg }).collect();
        let child = command(dir.path(), &args).stderr(fs::File::create(&log).unwrap()).spawn().unwrap();
        Importer { child, log, _dir: dir }
    }

    fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap()).into_owned()
    }

    /// Ends it and gives what it said.
    fn stop(mut self) -> String {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.child.wait().unwrap();
        self.log()
    }
}

impl Drop for Importer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    let is_free = |port: &u16| UdpSocket::bind(("127.0.0.1", *port)).is_ok();
    let port = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    std::iter::repeat_with(port).find(is_free).unwrap()
}

/// Connects from one of this machine's own addresses.
fn connect(from: [u8; 4], port: u16) -> std::io::Result<TcpStream> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    rustix::net::bind(&socket, &SocketAddr::from((from, 0)))?;
    rustix::net::connect(&socket, &SocketAddr::from(([127, 0, 0, 1], port)))?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(120)))?;
    Ok(stream)
}

/// The status with which a line is answered, with these headers.
fn post(from: [u8; 4], port: u16, headers: &str) -> String {
    status(&answer(from, port, headers, LINE.as_bytes())).to_owned()
}

/// The whole answer to a body.
fn answer(from: [u8; 4], port: u16, headers: &str, body: &[u8]) -> String {
    wait_until("the importer to listen", || connect(from, port).is_ok());
    let mut stream = connect(from, port).unwrap();
    let length = body.len();
    let head = format!("POST /write?precision=s HTTP/1.1\r\n{headers}Content-Length: {length}\r\n\r\n");
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(body);
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

const HERE: [u8; 4] = [127, 0, 0, 1];

/// The addresses at which this port is bound, as the kernel lists them: hexadecimal, the last byte first.
fn bound(table: &str, port: u16) -> Vec<String> {
    let text = String::from_utf8(fs::read(table).unwrap()).unwrap();
    let of_port = |line: &str| {
        let (address, at) = line.split_whitespace().nth(1)?.split_once(':')?;
        (at == format!("{port:04X}")).then(|| address.to_owned())
    };
    text.lines().filter_map(of_port).collect()
}

#[test]
fn a_port_alone_listens_on_loopback_only() {
    let (http, udp) = (free_port(), free_port());
    let (http_text, udp_text) = (http.to_string(), udp.to_string());
    let importer = Importer::start(&["influx", "--http", &http_text, "--listen", &udp_text]);
    assert_eq!(post(HERE, http, ""), "204");
    assert_eq!(bound("/proc/net/tcp", http)[0], "0100007F");
    assert_eq!(bound("/proc/net/udp", udp), ["0100007F"]);
    assert!(importer.stop().contains("1 readings, 1 values"));
}

#[test]
fn to_listen_for_everybody_must_be_said() {
    for args in [
        &["influx", "--http", "0.0.0.0:0"][..],
        &["influx", "--listen", "[::]:0"],
        &["collectd", "--listen", "0.0.0.0:0"],
        &["collectd", "--http", "0.0.0.0:0"],
        &["ganglia", "--listen", "239.2.11.71:0"],
    ] {
        let mut importer = Importer::start(args);
        let status = wait_for("it to refuse", || importer.child.try_wait().unwrap());
        let err = importer.log();
        assert_eq!(status.code(), Some(2), "{args:?}: {err}");
        assert!(err.contains("could make up values") && err.contains("--allow"), "{args:?}: {err}");
    }
}

#[test]
fn posts_need_the_token_and_an_allowed_sender() {
    let port = free_port();
    let address = format!("0.0.0.0:{port}");
    let args = ["influx", "--http", &address, "--http-token-file", "TOKEN", "--allow", "127.0.0.0/31"];
    let importer = Importer::start(&args);
    let stranger = [127, 0, 0, 2];
    for (from, header, status) in [
        (HERE, "", "401"),
        (HERE, "Authorization: Token wrong\r\n", "401"),
        (HERE, "Authorization: Token secret\r\n", "204"),
        (HERE, "authorization: bearer secret\r\n", "204"),
        (stranger, "Authorization: Token secret\r\n", "403"),
    ] {
        assert_eq!(post(from, port, header), status, "{from:?} {header}");
    }
    let said = importer.stop();
    assert!(
        said.contains("2 readings") && said.contains("without a value: the sender is not allowed"),
        "{said}"
    );
}

#[test]
fn packets_of_others_are_dropped_and_counted() {
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let importer =
        Importer::start(&["influx", "--listen", &listen, "--precision", "s", "--allow", "127.0.0.2"]);
    wait_until("the importer to listen", || !bound("/proc/net/udp", port).is_empty());
    for from in [[127, 0, 0, 1], [127, 0, 0, 2], [127, 0, 0, 3]] {
        let socket = UdpSocket::bind(SocketAddr::from((from, 0))).unwrap();
        socket.send_to(LINE.as_bytes(), (IpAddr::from(HERE), port)).unwrap();
    }
    // All have come when its queue is empty: the fifth column is what waits to be read.
    wait_until("the packets to be read", || {
        let table = String::from_utf8(fs::read("/proc/net/udp").unwrap()).unwrap();
        let own = format!(":{port:04X}");
        let is_read =
            |line: &str| line.split_whitespace().nth(4).is_some_and(|queue| queue.ends_with(":00000000"));
        table
            .lines()
            .filter(|line| line.split_whitespace().nth(1).is_some_and(|at| at.ends_with(&own)))
            .all(is_read)
    });
    let said = importer.stop();
    assert!(said.contains("1 readings"), "{said}");
    assert!(said.contains("2 without a value: the sender is not allowed"), "{said}");
}

/// Forty senders begin a request and do not go on.
#[test]
fn slow_senders_keep_nobody_waiting() {
    let port = free_port();
    let importer = Importer::start(&["influx", "--http", &format!("127.0.0.1:{port}")]);
    assert_eq!(post(HERE, port, ""), "204");
    let slow: Vec<TcpStream> =
        ["POST /write HTTP/1.1\r\n", "POST /write HTTP/1.1\r\nContent-Length: 9000\r\n\r\nx"]
            .into_iter()
            .cycle()
            .take(40)
            .map(|begin| {
                let mut stream = connect([127, 0, 0, 5], port).unwrap();
                stream.write_all(begin.as_bytes()).unwrap();
                stream
            })
            .collect();
    for _ in 0..20 {
        assert_eq!(post(HERE, port, ""), "204");
    }
    drop(slow);
    assert!(importer.stop().contains("21 readings"));
}

/// Telegraf's way, with a line that something else has written in between.
#[test]
fn a_line_that_is_not_line_protocol_is_named_and_the_others_are_kept() {
    let port = free_port();
    let importer = Importer::start(&["influx", "--http", &port.to_string()]);
    let body =
        format!("{LINE}\n\n{{\"name\": 1}}\nanother broken line\nsystem,host=n1 load1=2.5 1700000010\n");
    let said = answer(HERE, port, "", body.as_bytes());
    assert_eq!(status(&said), "400", "{said}");
    assert!(said.contains("line 3") && said.contains(r#"{\"name\":"#), "{said}");
    // What Telegraf looks for, not to send all of it again.
    assert!(said.contains("partial write: unable to parse") && !said.contains("another"), "{said}");
    assert!(said.contains("2 lines"), "{said}");
    // A line without a host has its form.
    assert_eq!(status(&answer(HERE, port, "", b"system load1=1.5 1700000000")), "204");
    let said = importer.stop();
    assert!(said.contains("2 readings, 2 values"), "{said}");
    assert!(said.contains("2 without a value: not of the form it should have"), "{said}");
}

#[test]
fn gzip_posts_are_taken_and_a_bomb_is_not() {
    let packed = |body: &[u8]| {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packer.write_all(body).unwrap();
        packer.finish().unwrap()
    };
    let port = free_port();
    let importer = Importer::start(&["influx", "--http", &port.to_string()]);
    let header = "Content-Encoding: gzip\r\n";
    assert_eq!(status(&answer(HERE, port, header, &packed(LINE.as_bytes()))), "204");
    let bomb = packed(&vec![b'\n'; 100 << 20]);
    assert!(bomb.len() < 1 << 20);
    assert_eq!(status(&answer(HERE, port, header, &bomb)), "413");
    assert_eq!(status(&answer(HERE, port, header, &packed(LINE.as_bytes()))), "204");
    let said = importer.stop();
    assert!(said.contains("2 readings"), "{said}");
    assert!(said.contains("1 without a value: longer than anybody means"), "{said}");
}

/// A server that says yes to all, and what was posted to it.
struct Yes {
    address: SocketAddr,
    posted: Arc<Mutex<Vec<Measures>>>,
}

impl Yes {
    fn start() -> Yes {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, posted) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<Measures>>>::default());
        let kept = posted.clone();
        // Ends with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                kept.lock().unwrap().extend(Yes::take(stream.unwrap()));
            }
        });
        Yes { address, posted }
    }

    fn take(mut stream: TcpStream) -> Option<Measures> {
        let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            let count = stream.read(&mut piece).ok().filter(|count| *count > 0)?;
            bytes.extend_from_slice(&piece[..count]);
            let Some(head) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
            let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
            let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            if bytes.len() < head + 4 + length.parse::<usize>().unwrap() {
                continue;
            }
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}");
            return minicbor::decode(&bytes[head + 4..]).ok();
        }
    }

    /// Each series with its values.
    fn series(&self) -> Vec<(String, Vec<f64>)> {
        let posted = self.posted.lock().unwrap();
        let series = posted.iter().flat_map(|measures| &measures.series);
        let values = |series: &Series| series.points.iter().map(|point| point.value).collect();
        series.map(|series| (series.metric.text().to_owned(), values(series))).collect()
    }
}

/// A request as Telegraf sends it: gzip of a length that it does not know beforehand.
fn telegraf(port: u16, target: &str, authorization: &str, body: &str) -> String {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packer.write_all(body.as_bytes()).unwrap();
    let packed = packer.finish().unwrap();
    let mut request = format!(
        "POST {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUser-Agent: Telegraf/1.33.0 Go/1.23.3\r\n\
         Transfer-Encoding: chunked\r\nAuthorization: {authorization}\r\nContent-Encoding: gzip\r\n\
         Content-Type: text/plain; charset=utf-8\r\nAccept-Encoding: gzip\r\n\r\n"
    )
    .into_bytes();
    for piece in packed.chunks(100) {
        request.extend(format!("{:x}\r\n", piece.len()).as_bytes());
        request.extend(piece);
        request.extend(b"\r\n");
    }
    request.extend(b"0\r\n\r\n");
    wait_until("the importer to listen", || connect(HERE, port).is_ok());
    let mut stream = connect(HERE, port).unwrap();
    stream.write_all(&request).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

/// What its plugins tell of a node of two cores in one round, with counters that grow with `more`.
fn round_of_telegraf(time: &str, more: u64) -> String {
    let lines = [
        "system,host=n1 load1=1.5,load5=1.25,load15=1,n_cpus=2i,n_users=3i,n_unique_users=1i".to_owned(),
        "system,host=n1 uptime=86400i".to_owned(),
        "system,host=n1 uptime_format=\"1 day,  0:00\"".to_owned(),
        "cpu,core_id=0,cpu=cpu0,host=n1,physical_id=0 usage_user=90,usage_system=5,usage_idle=5".to_owned(),
        "cpu,core_id=1,cpu=cpu1,host=n1,physical_id=0 usage_user=10,usage_system=5,usage_idle=85".to_owned(),
        "cpu,cpu=cpu-total,host=n1 usage_user=50,usage_system=5,usage_idle=45,usage_guest=0".to_owned(),
        "cpu,cpu=cpu-total,host=n1 time_user=627125.08,time_system=158162.17".to_owned(),
        "mem,host=n1 total=16u,available=8u,available_percent=50,huge_page_size=2097152i,swap_free=1i".to_owned(),
        format!("diskio,host=n1,name=nvme0n1,serial=S4\\ 5\\,6 read_bytes={}i,write_bytes={}i,io_time=7i", 1000 + 10 * more, 20 * more),
        format!("diskio,host=n1,name=nvme0n1p1 read_bytes={}i", 10 * more),
        format!("net,host=n1,interface=eth0 bytes_recv={}i,bytes_sent=0i,speed=-1i", 30 * more),
        "net,host=n1,interface=all icmp_inmsgs=4i,tcp_rtoalgorithm=1i".to_owned(),
        format!("infiniband,device=mlx5_0,host=n1,port=1 port_rcv_data={}i,VL15_dropped=0i", 40 * more),
        "infiniband,device=mlx5_0,host=n1,port=1 rx_read_requests=6000i,lifespan=10i".to_owned(),
        format!("lustre2,host=n1,name=scratch-ffff9f3c4d2c1000 read_bytes={}i,read_calls=1i", 50 * more),
        "nvidia_smi,arch=Ampere,compute_mode=Default,host=n1,index=0,name=NVIDIA\\ A100\\ 80GB,pstate=P0,uuid=GPU-1 \
         driver_version=\"550.54\",fan_speed=0i,memory_used=1024i,utilization_gpu=97i,display_active=f".to_owned(),
    ];
    lines.map(|line| format!("{line} {time}\n")).concat()
}

#[test]
fn what_telegraf_posts_over_gzip_is_sent_on_by_either_version_of_its_output() {
    for (target, authorization, unit) in [
        ("/write?consistency=any&db=telegraf", "Token secret", "000000000"),
        ("/write?db=telegraf&precision=s&rp=autogen", "Bearer secret", ""),
        ("/api/v2/write?bucket=telegraf&org=hpc", "Token secret", "000000000"),
        ("/api/v2/write?bucket=telegraf&org=hpc&precision=ms", "Token secret", "000"),
    ] {
        let (server, port) = (Yes::start(), free_port());
        let url = format!("http://{}", server.address);
        let importer = Importer::start(&[
            "influx",
            "--http",
            &port.to_string(),
            "--http-token-file",
            "TOKEN",
            "--server",
            &url,
        ]);
        for (time, more) in [("1700000000", 0), ("1700000010", 100), ("1700000020", 200)] {
            let body = round_of_telegraf(&format!("{time}{unit}"), more);
            assert_eq!(status(&telegraf(port, target, authorization, &body)), "204", "{target}");
        }
        let said = importer.stop();
        let mut last: BTreeMap<String, f64> = BTreeMap::new();
        for (name, values) in server.series() {
            last.extend(values.last().map(|value| (name, *value)));
        }
        for (name, expected) in [
            ("node_load", 150.0),
            ("node_cpu_user", 1.0),
            ("node_memory_total", 16.0),
            ("node_memory_available", 8.0),
            ("node_disk_read", 100.0),
            ("node_disk_write", 200.0),
            ("node_net_received", 300.0),
            ("node_ib_received", 1600.0),
            ("node_lustre_read", 500.0),
            ("acc_utilization", 97.0),
            ("gpu_memory_used", 1073741824.0),
        ] {
            assert_eq!(last.get(name), Some(&expected), "{target}: {name} of {last:?}\n{said}");
        }
    }
}

/// The parts of a node's memory are a round that ends with the next one, which never comes.
#[test]
fn what_was_put_together_is_sent_when_the_importer_is_stopped() {
    let (server, port) = (Yes::start(), free_port());
    let url = format!("http://{}", server.address);
    let importer = Importer::start(&["collectd", "--http", &port.to_string(), "--server", &url]);
    let item = |instance: &str, value: u64| {
        format!(
            r#"{{"values":[{value}],"dstypes":["gauge"],"dsnames":["value"],"time":1700000000.000,"interval":10.000,"host":"n1",
            "plugin":"memory","plugin_instance":"","type":"memory","type_instance":"{instance}"}}"#
        )
    };
    let parts = [("used", 1), ("free", 2), ("buffered", 4), ("cached", 8)];
    let body: Vec<String> = parts.map(|(name, value)| item(name, value)).to_vec();
    let body = format!("[{}]", body.join(","));
    assert_eq!(status(&answer(HERE, port, "", body.as_bytes())), "204");
    let said = importer.stop();
    assert!(said.contains("2 values stored, 0 waiting, 0 lost"), "{said}");
    assert_eq!(
        server.series(),
        [("node_memory_available".to_owned(), vec![14.0]), ("node_memory_total".to_owned(), vec![15.0])]
    );
}

/// The values of a key in a unit, each word for itself.
fn unit_words(unit: &str, key: &str) -> Vec<String> {
    let text = text_of(&root().join("packaging").join(unit));
    let values = text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    values.flat_map(str::split_whitespace).map(str::to_owned).collect()
}

/// systemd gives such a directory to the user of the unit that starts last: with the server's user, programs would not trust the
/// agent's socket in it.
#[test]
fn the_units_of_agent_and_server_share_no_directory() {
    let (agent, server) = ("jobglass-agent.service", "jobglass-server.service");
    for key in ["RuntimeDirectory", "StateDirectory", "CacheDirectory", "LogsDirectory"] {
        let of_agent = unit_words(agent, key);
        assert!(unit_words(server, key).iter().all(|own| !of_agent.contains(own)), "{key}");
    }
    assert_eq!(unit_words(agent, "RuntimeDirectory"), ["jobglass"]);
    assert_eq!(unit_words(server, "RuntimeDirectory"), ["jobglass-server"]);
    let start = unit_words(server, "ExecStart");
    let socket = start.iter().skip_while(|word| *word != "--login-socket").nth(1).unwrap();
    assert!(socket.starts_with("/run/jobglass-server/"), "{socket}");
    // What people are told to type is where it is.
    for document in ["docs/server.md", "crates/cli/src/args.rs", "README.md"] {
        let text = text_of(&root().join(document));
        assert!(!text.contains("/run/jobglass/login"), "{document}");
    }
    assert!(text_of(&root().join("docs/server.md")).contains(socket));
}

/// All files below a directory, or the file itself.
fn files_below(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.to_owned()];
    }
    let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| files_below(&path)).collect()
}

/// Whoever follows an example opens a socket or a file there; where everybody may write, somebody else may have been first.
#[test]
fn no_example_names_a_place_where_everybody_may_write() {
    let generated = tempfile::tempdir().unwrap();
    assert!(Command::new(jobglass()).arg("generate").arg(generated.path()).status().unwrap().success());
    let ours = ["README.md", "packaging", "docs", "crates/server/src"].map(|path| root().join(path));
    let files: Vec<PathBuf> =
        ours.iter().map(PathBuf::as_path).chain([generated.path()]).flat_map(files_below).collect();
    // What was run and why it was decided is no example; these lines say why such a place is a bad one.
    let are_read_only = |path: &Path| {
        ["docs/evidence", "docs/decisions"].iter().any(|dir| path.starts_with(root().join(dir)))
    };
    let warnings = [
        "at a path in a directory that others can write to (`JOBGLASS_SOCKET=/tmp/…`)",
        "belongs in a directory of their own, not in `/tmp`",
        "programs in /tmp are seen under the paths that jobs use",
    ];
    let mut read = 0;
    for path in files.iter().filter(|path| !are_read_only(path)) {
        for (number, line) in text_of(path).lines().enumerate() {
            let names_one = ["/tmp", "/dev/shm"].iter().any(|place| line.contains(place));
            let is_warning = warnings.iter().any(|warning| line.contains(warning));
            assert!(!names_one || is_warning, "{}:{}: {line}", path.display(), number + 1);
        }
        read += 1;
    }
    assert!(read > 30, "only {read} files");
}

fn text_of(path: &Path) -> String {
    String::from_utf8(fs::read(path).unwrap()).unwrap()
}
