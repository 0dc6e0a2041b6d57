//! What collectd sends and writes, made here as it makes it; `daemons.rs` has the real one.

use aes::Aes256;
use aes::cipher::{KeyIvInit, StreamCipher};
use hmac::{Hmac, KeyInit, Mac};
use import::collectd::csv::{self, Place};
use import::collectd::http;
use import::collectd::{Network, Security, Stored, Types, Users};
use import::monitor::{Dropped, Path, Reading, System, Taken, Value, Width};
use ofb::Ofb;
use proptest::prelude::*;
use sha1::Sha1;
use sha2::{Digest, Sha256};
use testkit::skip;

const SECOND: u64 = 1_000_000_000;
const NOON: u64 = 1_794_844_546;

/// Parts as collectd writes them.
#[derive(Default, Clone)]
struct Packet(Vec<u8>);

impl Packet {
    fn part(mut self, kind: u16, body: &[u8]) -> Self {
        self.0.extend(kind.to_be_bytes());
        self.0.extend((body.len() as u16 + 4).to_be_bytes());
        self.0.extend(body);
        self
    }

    fn text(self, kind: u16, text: &str) -> Self {
        self.part(kind, format!("{text}\0").as_bytes())
    }

    fn number(self, kind: u16, number: u64) -> Self {
        self.part(kind, &number.to_be_bytes())
    }

    fn values(self, values: &[Value]) -> Self {
        let mut body = (values.len() as u16).to_be_bytes().to_vec();
        body.extend(values.iter().map(|value| match value {
            Value::Counter { .. } => 0,
            Value::Derive(_) => 2,
            Value::Absolute(_) => 3,
            _ => 1u8,
        }));
        body.extend(values.iter().flat_map(|value| match value {
            Value::Counter { count, .. } => count.to_be_bytes(),
            Value::Derive(sum) => sum.to_be_bytes(),
            Value::Absolute(count) => count.to_be_bytes(),
            Value::Gauge(number) | Value::Sum(number) | Value::Rate(number) => number.to_le_bytes(),
        }));
        self.part(6, &body)
    }

    /// A host at noon.
    fn n1() -> Self {
        Packet::default().text(0, "n1").number(1, NOON)
    }

    fn load() -> Self {
        Packet::n1().text(2, "load").text(4, "load").values(&[1.5, 2.5, 3.5].map(Value::Gauge))
    }

    fn signed(self, user: &str, secret: &str) -> Self {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
        mac.update(user.as_bytes());
        mac.update(&self.0);
        let mut body = mac.finalize().into_bytes().to_vec();
        body.extend(user.as_bytes());
        let mut packet = Packet::default().part(0x200, &body);
        packet.0.extend(self.0);
        packet
    }

    fn encrypted(self, user: &str, secret: &str) -> Self {
        let iv = [7; 16];
        let mut sealed = Sha1::digest(&self.0).to_vec();
        sealed.extend(&self.0);
        Ofb::<Aes256>::new(&Sha256::digest(secret), &iv.into()).apply_keystream(&mut sealed);
        let mut body = (user.len() as u16).to_be_bytes().to_vec();
        body.extend(user.as_bytes());
        body.extend(iv);
        body.extend(sealed);
        Packet::default().part(0x210, &body)
    }
}

fn types() -> Types {
    let mut types = Types::shipped();
    assert_eq!(types.add(b"all a:COUNTER:0:U, b:GAUGE:0:U, c:DERIVE:0:U, d:ABSOLUTE:0:U\n", "own.db"), []);
    types
}

fn network(security: Security, users: &str) -> Network {
    Network { security, users: Users::parse(users.as_bytes(), "users").unwrap(), types: types() }
}

fn read_by(network: &Network, packet: &[u8]) -> Taken {
    let mut taken = Taken::default();
    network.packet(packet, &mut taken);
    taken
}

fn read(packet: &Packet) -> Taken {
    read_by(&network(Security::None, ""), &packet.0)
}

fn shown(taken: &Taken) -> Vec<String> {
    let one = |reading: &Reading| {
        let time = (reading.time - NOON * SECOND) as f64 / SECOND as f64;
        format!("{} {time} {} {:?}", reading.host, reading.path, reading.value)
    };
    let dropped = taken.drops.iter().map(|(why, count)| format!("{count} {why:?}"));
    taken.readings.iter().map(one).chain(dropped).collect()
}

#[test]
fn parts_hold_until_there_are_others() {
    let packet = Packet::n1()
        .number(7, 10)
        .text(2, "cpu")
        .text(3, "0")
        .text(4, "cpu")
        .text(5, "user")
        .values(&[Value::Derive(-5)])
        .text(5, "idle")
        .values(&[Value::Derive(7)])
        .number(8, (NOON << 30) + (1 << 29))
        .number(9, 5 << 29)
        .text(2, "load")
        .text(3, "")
        .text(4, "load")
        .text(5, "")
        .values(&[1.5, -2.5, 3.0].map(Value::Gauge));
    let taken = read(&packet);
    assert_eq!(
        shown(&taken),
        [
            "n1 0 collectd/cpu-0/cpu-user/value Derive(-5)",
            "n1 0 collectd/cpu-0/cpu-idle/value Derive(7)",
            "n1 0.5 collectd/load/load/shortterm Gauge(1.5)",
            "n1 0.5 collectd/load/load/midterm Gauge(-2.5)",
            "n1 0.5 collectd/load/load/longterm Gauge(3.0)",
        ]
    );
    let intervals: Vec<_> = taken.readings.iter().map(|reading| reading.interval.unwrap()).collect();
    assert_eq!(intervals[1..3], [10 * SECOND, 5 * SECOND / 2]);
}

#[test]
fn values_of_all_kinds() {
    let values = [
        Value::Counter { count: u64::MAX, width: Width::Unknown },
        Value::Gauge(-0.1),
        Value::Derive(i64::MIN),
        Value::Absolute(9),
    ];
    let packet = Packet::n1().text(2, "p").text(4, "all").values(&values);
    let taken = read(&packet);
    assert_eq!(taken.readings.iter().map(|reading| reading.value).collect::<Vec<_>>(), values);
    assert_eq!(taken.readings.iter().map(|r| r.path.source.as_str()).collect::<String>(), "abcd");
}

/// A packet of each type with its values, and a site that has named no file.
#[test]
fn every_type_of_collectd_5_12_and_later_is_known() {
    let mut count = 0;
    for line in include_str!("data/collectd-types.txt").lines().skip(1).filter(|line| !line.is_empty()) {
        let (name, sources) = line.split_once(' ').unwrap();
        let sources: Vec<(&str, &str)> =
            sources.split(' ').map(|source| source.split_once(':').unwrap()).collect();
        let values: Vec<Value> = sources
            .iter()
            .map(|(_, kind)| match *kind {
                "c" => Value::Counter { count: 7, width: Width::Bits64 },
                "d" => Value::Derive(7),
                "a" => Value::Absolute(7),
                _ => Value::Gauge(7.0),
            })
            .collect();
        let packet = Packet::n1().text(2, "any").text(4, name).values(&values);
        let network = Network { types: Types::shipped(), ..network(Security::None, "") };
        let taken = read_by(&network, &packet.0);
        assert_eq!(taken.drops.iter().collect::<Vec<_>>(), [], "{line}");
        let named: Vec<&str> = taken.readings.iter().map(|reading| &*reading.path.source).collect();
        assert_eq!(named, sources.iter().map(|(name, _)| *name).collect::<Vec<_>>(), "{line}");
        count += 1;
    }
    assert_eq!((count, Types::shipped().len()), (415, 415));
}

/// What collectd 5.12 installs, where it is installed: as packets, as posts and as files.
#[test]
fn every_type_that_is_installed_here_is_read_in_each_form() {
    let Ok(bytes) = std::fs::read("/usr/share/collectd/types.db") else {
        return skip("every_type_that_is_installed_here_is_read_in_each_form", "collectd is not installed");
    };
    let text = String::from_utf8(bytes).unwrap();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let types = Types::shipped();
    let mut count = 0;
    for line in lines {
        let (name, sources) = line.split_once(char::is_whitespace).unwrap();
        // Commas are for people, and one type has none.
        let parts = sources.split([',', ' ', '\t']).filter(|source| !source.is_empty());
        let parts = parts.map(|source| source.split(':').collect::<Vec<_>>());
        let (names, kinds): (Vec<&str>, Vec<String>) =
            parts.map(|part| (part[0], part[1].to_lowercase())).unzip();
        let value = |kind: &String| match &**kind {
            "counter" => Value::Counter { count: 7, width: Width::Unknown },
            "derive" => Value::Derive(7),
            "absolute" => Value::Absolute(7),
            _ => Value::Gauge(7.0),
        };
        let values: Vec<Value> = kinds.iter().map(value).collect();
        let network = Network { types: Types::shipped(), ..network(Security::None, "") };
        let sent = read_by(&network, &Packet::n1().text(2, "any").text(4, name).values(&values).0);
        let quoted = |words: &[String]| format!("\"{}\"", words.join("\",\""));
        let item = format!(
            r#"[{{"values":[{}],"dstypes":[{}],"dsnames":[{}],"time":{NOON}.000,"interval":10.000,"host":"n1",
            "plugin":"any","plugin_instance":"","type":"{name}","type_instance":""}}]"#,
            vec!["7"; names.len()].join(","),
            quoted(&kinds),
            quoted(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()),
        );
        let rows = format!("epoch,{}\n{NOON}.000,{}\n", names.join(","), vec!["7"; names.len()].join(","));
        let mut written = Taken::default();
        let place = Place::parse(&format!("n1/any/{name}-2026-11-16")).unwrap();
        csv::read(rows.as_bytes(), &place, &types, Stored::Counts, &mut written).unwrap();
        for (form, taken) in [("packet", &sent), ("post", &posted(&item, Stored::Counts)), ("file", &written)]
        {
            let found: Vec<(&str, Value)> = taken
                .readings
                .iter()
                .map(|reading| (&*reading.path.source, widened(reading.value)))
                .collect();
            let expected: Vec<(&str, Value)> = names.iter().copied().zip(values.iter().copied()).collect();
            assert_eq!((found, taken.drops.iter().count()), (expected, 0), "{form} of {line}");
            assert!(taken.readings.iter().all(|reading| reading.path.kind == name), "{form} of {line}");
        }
        count += 1;
    }
    assert!(count > 300, "{count}");
}

/// A packet tells how wide a counter is, and the others do not.
fn widened(value: Value) -> Value {
    match value {
        Value::Counter { count, .. } => Value::Counter { count, width: Width::Unknown },
        other => other,
    }
}

#[test]
fn what_cannot_be_taken_is_counted() {
    let load = |packet: Packet| packet.text(2, "load").text(4, "load").values(&[Value::Gauge(0.0); 3]);
    let empty = Packet::default;
    for (packet, expected) in [
        (load(empty().number(1, NOON)), Dropped::NoHost),
        (load(empty().text(0, "n1")), Dropped::NoTime),
        (load(empty().text(0, "n1").number(1, 5)), Dropped::ImpossibleTime),
        (load(empty().text(0, "n1").number(8, u64::MAX)), Dropped::ImpossibleTime),
        (Packet::n1().text(4, "load").values(&[Value::Gauge(0.0); 3]), Dropped::NoName),
        (Packet::n1().text(2, "load").values(&[Value::Gauge(0.0); 3]), Dropped::NoName),
        (Packet::n1().text(2, "load").text(4, "load").values(&[Value::Gauge(0.0)]), Dropped::UnknownType),
        (Packet::n1().text(2, "x").text(4, "new").values(&[Value::Gauge(0.0)]), Dropped::UnknownType),
        (Packet::n1().text(2, "x").text(4, "uptime").values(&[Value::Gauge(f64::NAN)]), Dropped::NoValue),
        (
            Packet::n1().text(2, "x").text(4, "uptime").part(6, &[0, 1, 9, 0, 0, 0, 0, 0, 0, 0, 0]),
            Dropped::Malformed,
        ),
        (Packet::n1().text(2, "x").text(4, "uptime").part(6, &[0, 2, 1, 1, 0, 0]), Dropped::Malformed),
        (Packet::n1().number(0x101, 1).text(0x100, "down"), Dropped::NoMeasurement),
        (load(Packet::n1().text(0, &"x".repeat(300))), Dropped::TooLong),
        (empty().part(0, b"no end"), Dropped::Malformed),
        (empty().part(0, b""), Dropped::Malformed),
        (empty().part(1, b"short"), Dropped::Malformed),
        (Packet(vec![0, 0, 0, 3, 0]), Dropped::Truncated),
        (Packet(vec![0, 0, 1]), Dropped::Truncated),
        (empty().part(0x210, b"sealed by whom"), Dropped::Malformed),
    ] {
        let taken = read(&packet);
        assert_eq!(taken.drops.of(expected), 1, "{:?} of {:?}", taken.drops, packet.0);
    }
    // Parts of later versions are passed over.
    assert_eq!(read(&Packet::n1().part(0x7777, b"?")).drops, Default::default());
}

#[test]
fn what_is_before_a_break_is_taken() {
    let mut packet = Packet::load();
    packet.0.extend([0, 6, 0, 99, 0]);
    let taken = read(&packet);
    assert_eq!((taken.readings.len(), taken.drops.of(Dropped::Truncated)), (3, 1));
}

/// A packet is taken if it is protected as well as is demanded, and by somebody who is known.
#[test]
fn security_as_demanded() {
    use Security::{Encrypt, None, Sign};
    let (plain, users) = (Packet::load(), "ann: secret\nbob: other");
    let signed = plain.clone().signed("ann", "secret");
    let sealed = plain.clone().encrypted("ann", "secret");
    let both = sealed.clone().signed("bob", "other");
    let (taken, insecure) = (Ok(3), Err(Dropped::Insecure));
    for (level, users, packet, expected) in [
        (None, users, &plain, taken),
        (None, users, &signed, taken),
        (None, users, &sealed, taken),
        (None, users, &both, taken),
        (Sign, users, &plain, insecure),
        (Sign, users, &signed, taken),
        (Sign, users, &sealed, taken),
        (Encrypt, users, &plain, insecure),
        (Encrypt, users, &signed, insecure),
        (Encrypt, users, &sealed, taken),
        (Encrypt, users, &both, taken),
        (None, "", &signed, taken),
        (None, "", &sealed, Err(Dropped::UnknownUser)),
        (Sign, "", &signed, Err(Dropped::UnknownUser)),
        (Encrypt, "eve: secret", &sealed, Err(Dropped::UnknownUser)),
        (None, "eve: secret", &signed, Err(Dropped::UnknownUser)),
        (None, "ann: wrong", &signed, Err(Dropped::BadSeal)),
        (None, "ann: wrong", &sealed, Err(Dropped::BadSeal)),
    ] {
        let found = read_by(&network(level, users), &packet.0);
        let name = format!("{level:?} {users} {:?}", found.drops);
        match expected {
            Ok(count) => {
                assert_eq!((found.readings.len(), found.drops), (count, Default::default()), "{name}")
            }
            Err(why) => {
                let once = found.drops.iter().collect::<Vec<_>>();
                assert_eq!((found.readings.len(), once), (0, vec![(why, 1)]), "{name}");
            }
        }
    }
}

#[test]
fn one_changed_bit_breaks_a_seal() {
    let network = network(Security::Sign, "ann: secret");
    for packet in [Packet::load().signed("ann", "secret"), Packet::load().encrypted("ann", "secret")] {
        for at in 4..packet.0.len() {
            let mut changed = packet.0.clone();
            changed[at] ^= 1;
            assert_eq!(read_by(&network, &changed).readings, [], "{at}");
        }
    }
}

/// What stands before a signature is not signed.
#[test]
fn only_what_is_signed_counts() {
    let mut packet = Packet::load();
    packet.0.extend(Packet::load().signed("ann", "secret").0);
    let taken = read_by(&network(Security::Sign, "ann: secret"), &packet.0);
    assert_eq!((taken.readings.len(), taken.drops.of(Dropped::Insecure)), (3, 1));
}

/// Each signature in a packet would be one more call.
#[test]
fn signatures_do_not_nest() {
    let mut packet = Packet::default();
    for _ in 0..1500 {
        packet = packet.part(0, b"h\0").part(0x200, &[b'x'; 33]);
    }
    let taken = read(&packet);
    assert!(taken.drops.of(Dropped::Malformed) > 0 && taken.readings.is_empty());
}

fn posted(body: &str, stored: Stored) -> Taken {
    let mut taken = Taken::default();
    http::read(body.as_bytes(), stored, &mut taken).unwrap();
    taken
}

fn item(values: &str, kinds: &str, names: &str) -> String {
    format!(
        r#"{{"values":[{values}],"dstypes":[{kinds}],"dsnames":[{names}],"time":{NOON}.125,"interval":10.000,
        "host":"n1","plugin":"interface","plugin_instance":"eth0","type":"if_octets","type_instance":""}}"#
    )
}

#[test]
fn what_is_posted() {
    let octets = item("12,9007199254740993", r#""derive","counter""#, r#""rx","tx""#);
    let gauge = item("1.5,null", r#""gauge","gauge""#, r#""a","b""#);
    let taken = posted(&format!("[{octets},{gauge}]"), Stored::Counts);
    assert_eq!(
        shown(&taken),
        [
            "n1 0.125 collectd/interface-eth0/if_octets/rx Derive(12)",
            "n1 0.125 collectd/interface-eth0/if_octets/tx Counter { count: 9007199254740993, width: Unknown }",
            "n1 0.125 collectd/interface-eth0/if_octets/a Gauge(1.5)",
            "1 NoValue",
        ]
    );
    assert_eq!(taken.readings[0].interval, Some(10 * SECOND));
    // The same with StoreRates: the kind is said to be derive all the same.
    let taken = posted(&format!("[{octets}]"), Stored::Rates);
    assert_eq!(taken.readings[0].value, Value::Rate(12.0));
    let rate = item("12.5", r#""derive""#, r#""rx""#);
    assert_eq!(posted(&format!("[{rate}]"), Stored::Counts).drops.of(Dropped::UnexpectedRate), 1);
}

#[test]
fn one_odd_item_does_not_stop_the_others() {
    let good = item("1", r#""gauge""#, r#""a""#);
    for (bad, expected) in [
        ("{}".to_owned(), Dropped::Malformed),
        ("5".to_owned(), Dropped::Malformed),
        (item("1,2", r#""gauge""#, r#""a""#), Dropped::Malformed),
        (item("1", r#""gauge""#, ""), Dropped::Malformed),
        (item("1", r#""sum""#, r#""a""#), Dropped::UnknownType),
        (good.replace("\"n1\"", "\"\""), Dropped::NoHost),
        (good.replace(&NOON.to_string(), "5"), Dropped::ImpossibleTime),
        (good.replace(&format!("{NOON}.125"), "1e30"), Dropped::ImpossibleTime),
        (r#"{"labels":{},"annotations":{}}"#.to_owned(), Dropped::NoMeasurement),
    ] {
        let taken = posted(&format!("[{bad},{good}]"), Stored::Counts);
        assert_eq!((taken.readings.len(), taken.drops.of(expected)), (1, 1), "{bad}: {:?}", taken.drops);
    }
    assert!(http::read(b"{}", Stored::Counts, &mut Taken::default()).is_err());
    assert!(http::read(b"[", Stored::Counts, &mut Taken::default()).is_err());
}

#[test]
fn places_of_files() {
    for (path, expected) in [
        ("/csv/n1/cpu-0/cpu-user-2026-11-16", Ok("n1 collectd/cpu-0/cpu-user")),
        ("n-1.site/load/load-2026-11-16", Ok("n-1.site collectd/load/load")),
        ("n1/load/load", Ok("n1 collectd/load/load")),
        ("n1/df-mnt-data/df_complex-used-2026-11-16", Ok("n1 collectd/df-mnt-data/df_complex-used")),
        ("n1/a/b-c-2026-11-1x", Ok("n1 collectd/a/b-c-2026-11-1x")),
        ("n1/a/-2026-11-16", Err(Dropped::NoName)),
        ("load/load", Err(Dropped::NoHost)),
        ("load", Err(Dropped::NoName)),
        ("n1//load", Err(Dropped::NoName)),
    ] {
        let place = Place::parse(path).map(|place| format!("{} {}", place.host, place.path));
        assert_eq!(place.as_deref(), expected.as_deref(), "{path}");
    }
}

fn rows(path: &str, text: &str, stored: Stored) -> Vec<String> {
    let mut taken = Taken::default();
    csv::read(text.as_bytes(), &Place::parse(path).unwrap(), &types(), stored, &mut taken).unwrap();
    shown(&taken)
}

#[test]
fn rows_of_files() {
    let octets = "n1/interface-eth0/if_octets-2026-11-16";
    let text = format!("epoch,rx,tx\n{NOON}.500,-1,20\n{NOON}.750,30,nan\nx,1,2\n{NOON},1\n{NOON}.9,12,34");
    assert_eq!(
        rows(octets, &text, Stored::Counts),
        [
            "n1 0.5 collectd/interface-eth0/if_octets/rx Derive(-1)",
            "n1 0.5 collectd/interface-eth0/if_octets/tx Derive(20)",
            "n1 0.75 collectd/interface-eth0/if_octets/rx Derive(30)",
            "2 Malformed",
            "1 Truncated",
            "1 NoValue",
        ]
    );
    let text = format!("epoch,rx,tx\n{NOON},1.5,2\n");
    assert_eq!(rows(octets, &text, Stored::Rates)[0], "n1 0 collectd/interface-eth0/if_octets/rx Rate(1.5)");
    assert_eq!(rows(octets, &text, Stored::Counts)[1..], ["1 UnexpectedRate"]);
    let text = format!("epoch,a,b,c,d\n{NOON},1,1.5,-3,4\n");
    assert_eq!(
        rows("n1/p/all", &text, Stored::Counts),
        [
            "n1 0 collectd/p/all/a Counter { count: 1, width: Unknown }",
            "n1 0 collectd/p/all/b Gauge(1.5)",
            "n1 0 collectd/p/all/c Derive(-3)",
            "n1 0 collectd/p/all/d Absolute(4)",
        ]
    );
    for (path, text) in [("n1/p/unheard", "epoch,a\n1,2\n"), (octets, "1,2,3\n"), (octets, "epoch,rx\n1,2\n")]
    {
        let shown = rows(path, text, Stored::Counts).join(" ");
        assert!(shown.ends_with("UnknownType"), "{text}: {shown}");
    }
}

prop_compose! {
    fn any_value()(kind in 0..4, count in any::<u64>(), gauge in -1e300..1e300f64) -> Value {
        match kind {
            0 => Value::Counter { count, width: Width::Unknown },
            1 => Value::Gauge(gauge),
            2 => Value::Derive(count as i64),
            _ => Value::Absolute(count),
        }
    }
}

proptest! {
    #[test]
    fn what_is_sent_is_read(host in "[a-z]{1,20}", names in proptest::collection::vec("[a-zé]{0,12}", 4), value in any_value(), nanos in 0..4_000_000_000u64, seal in 0..3) {
        let time = (u128::from(NOON) << 30) + u128::from(nanos);
        let packet = Packet::default().text(0, &host).number(8, time as u64).text(2, &format!("p{}", names[0]))
            .text(3, &names[1]).text(4, "uptime").text(5, &names[2]).values(&[value]);
        let packet = match seal { 0 => packet, 1 => packet.signed("ann", "secret"), _ => packet.encrypted("ann", "secret") };
        let taken = read_by(&network(Security::None, "ann: secret"), &packet.0);
        let mut path = Path::new(System::Collectd, format!("p{}", names[0]));
        path.plugin_instance = names[1].clone();
        path.kind = "uptime".into();
        path.kind_instance = names[2].clone();
        path.source = "value".into();
        let time = ((time * u128::from(SECOND)) >> 30) as u64;
        let expected = Reading { host, cluster: None, time, interval: None, path, unit: None, value };
        prop_assert_eq!(taken.readings, [expected]);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), text in "[\\[\\]{}:,\"a-z0-9.-]{0,80}") {
        for security in [Security::None, Security::Sign, Security::Encrypt] {
            let _ = read_by(&network(security, "ann: secret"), &bytes);
        }
        let _ = http::read(&bytes, Stored::Counts, &mut Taken::default());
        let _ = http::read(text.as_bytes(), Stored::Rates, &mut Taken::default());
        let _ = Types::default().add(&bytes, "types.db");
        let _ = Users::parse(&bytes, "users");
        let _ = Place::parse(&text.replace(',', "/"));
        let place = Place::parse("n1/p/all").unwrap();
        let rows = [b"epoch,a,b,c,d\n", &bytes[..], b"\n", text.as_bytes()].concat();
        csv::read(&rows[..], &place, &types(), Stored::Counts, &mut Taken::default()).unwrap();
    }

    /// Bytes that have the form of parts get further.
    #[test]
    fn any_parts_are_read_without_a_panic(parts in proptest::collection::vec((0u16..12, proptest::collection::vec(any::<u8>(), 0..40)), 0..20), kinds in proptest::collection::vec(0..14usize, 20)) {
        let known = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0x100, 0x101, 0x200, 0x210];
        let packet = parts.iter().zip(&kinds).fold(Packet::default(), |packet, ((_, body), kind)| packet.part(known[*kind], body));
        let _ = read(&packet);
        let _ = read(&packet.encrypted("ann", "secret"));
    }
}
