//! What Ganglia says, made here as it makes it; `daemons.rs` has the real one.

use std::io::BufReader;

use import::ganglia::Packets;
use import::ganglia::xml::{self, Error};
use import::monitor::{Dropped, Reading, Taken, Value, Width};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;
const NOW: u64 = 1_794_844_508;

fn read(text: &[u8]) -> (Taken, Result<(), Error>) {
    let mut taken = Taken::default();
    let result = xml::read(BufReader::with_capacity(7, text), &mut taken);
    (taken, result)
}

fn shown(taken: &Taken) -> Vec<String> {
    let one = |reading: &Reading| {
        let time = reading.time as i64 / SECOND as i64 - NOW as i64;
        let (cluster, unit) =
            (reading.cluster.as_deref().unwrap_or("-"), reading.unit.as_deref().unwrap_or("-"));
        format!("{cluster} {} {time} {} {unit} {:?}", reading.host, reading.path.plugin, reading.value)
    };
    let dropped = taken.drops.iter().map(|(why, count)| format!("{count} {why:?}"));
    taken.readings.iter().map(one).chain(dropped).collect()
}

fn document(inside: &str) -> String {
    format!(
        r#"<?xml version="1.0" encoding="ISO-8859-1" standalone="yes"?>
<!DOCTYPE GANGLIA_XML [
   <!ELEMENT GANGLIA_XML (GRID|CLUSTER|HOST)*>
      <!ATTLIST GANGLIA_XML VERSION CDATA #REQUIRED>
      <!ENTITY bomb "&bomb;&bomb;">
]>
<GANGLIA_XML VERSION="3.7.2" SOURCE="gmond">
{inside}
</GANGLIA_XML>
"#
    )
}

fn cluster(inside: &str) -> String {
    document(&format!(
        r#"<CLUSTER NAME="lom" LOCALTIME="{NOW}" OWNER="unspecified" LATLONG="" URL="">
<HOST NAME="n1" IP="10.0.0.1" TAGS="" REPORTED="{}" TN="3" TMAX="20" DMAX="0" LOCATION="x" GMOND_STARTED="1">
{inside}
</HOST>
</CLUSTER>"#,
        NOW - 3
    ))
}

fn one(inside: &str) -> String {
    let (taken, result) = read(cluster(inside).as_bytes());
    result.unwrap();
    shown(&taken).join("; ")
}

#[test]
fn metrics_by_type_and_slope() {
    for (attributes, expected) in [
        (
            r#"NAME="load_one" VAL="1.95" TYPE="float" UNITS=" " TN="7" TMAX="70" DMAX="0" SLOPE="both""#,
            "lom n1 -7 load_one - Gauge(1.95)",
        ),
        (
            r#"NAME="ctr" VAL="12345" TYPE="uint32" UNITS="pkts" TN="6" SLOPE="positive""#,
            "lom n1 -6 ctr pkts Counter { count: 12345, width: Bits32 }",
        ),
        (r#"NAME="a" VAL="1" TYPE="double" TN="0""#, "lom n1 0 a - Gauge(1.0)"),
        (r#"NAME="a" VAL="1" TYPE="double""#, "lom n1 -3 a - Gauge(1.0)"),
        (r#"NAME="os_name" VAL="Linux" TYPE="string" TN="7""#, "1 Text"),
        (r#"NAME="a" VAL="nan" TYPE="float" TN="7""#, "1 NoValue"),
        (r#"NAME="" VAL="1" TYPE="float" TN="7""#, "1 NoName"),
        (r#"NAME="a" VAL="1" TYPE="float" TN="1794844509""#, "1 ImpossibleTime"),
        (
            r#"NAME="a" VAL="1" TYPE="float" UNITS="x&y<&lt;&bomb;" TN="7""#,
            "lom n1 -7 a x&y<&lt;&bomb; Gauge(1.0)",
        ),
        (r#"NAME="a" VAL="1" TYPE="float" UNITS="&lt;&#176;C" TN="7""#, "lom n1 -7 a <°C Gauge(1.0)"),
        (r#"NAME="a" odd VAL="1" TYPE="float" TN="7""#, "1 Malformed"),
    ] {
        assert_eq!(one(&format!("<METRIC {attributes}/>")), expected, "{attributes}");
        let long = format!(
            r#"<METRIC {attributes}><EXTRA_DATA><EXTRA_ELEMENT NAME="GROUP" VAL="core"/></EXTRA_DATA></METRIC>"#
        );
        assert_eq!(one(&long), expected, "{attributes}");
    }
}

#[test]
fn names_in_both_encodings() {
    let of = |name: &[u8]| {
        let text = cluster(r#"<METRIC NAME="@" VAL="1" TYPE="float" TN="0"/>"#);
        let (before, after) = text.split_once('@').unwrap();
        let (taken, result) = read(&[before.as_bytes(), name, after.as_bytes()].concat());
        result.unwrap();
        taken.readings[0].path.plugin.clone()
    };
    assert_eq!((of(b"caf\xe9"), of("café".as_bytes())), ("café".into(), "café".into()));
    assert_eq!(of("x".repeat(255).as_bytes()).len(), 255);
}

/// gmetad's clock is the one that TN counts from; each cluster keeps the time at which it was asked.
#[test]
fn the_outermost_clock_counts() {
    let host = |name: &str| {
        format!(
            r#"<HOST NAME="{name}" REPORTED="{NOW}"><METRIC NAME="m" VAL="1" TYPE="float" TN="5"/></HOST>"#
        )
    };
    let inside = format!(
        r#"<GRID NAME="all" LOCALTIME="{NOW}"><GRID NAME="in" LOCALTIME="{}"><CLUSTER NAME="a" LOCALTIME="{}">{}</CLUSTER></GRID>
        <METRICS NAME="m" SUM="1" NUM="1" TYPE="float"/></GRID><CLUSTER NAME="b" LOCALTIME="{}">{}</CLUSTER>"#,
        NOW - 50,
        NOW - 100,
        host("n1"),
        NOW - 10,
        host("n2"),
    );
    let (taken, result) = read(document(&inside).as_bytes());
    result.unwrap();
    assert_eq!(shown(&taken), ["a n1 -5 m - Gauge(1.0)", "b n2 -15 m - Gauge(1.0)"]);
}

#[test]
fn documents_that_are_broken() {
    let metric = r#"<METRIC NAME="m" VAL="1" TYPE="float" TN="5"/>"#;
    let whole = cluster(metric);
    let cut = &whole[..whole.rfind("</HOST>").unwrap()];
    let deep = document(&"<GRID>".repeat(40));
    let long = document(&format!(r#"<METRIC NAME="{}"#, "x".repeat(100_000)));
    let endless = cluster(metric) + "<!--" + &"x".repeat(100_000);
    for (text, is_expected) in [
        (cut, (|error| matches!(error, Error::Truncated)) as fn(&Error) -> bool),
        ("", |error| matches!(error, Error::Foreign)),
        ("<html><body/></html>", |error| matches!(error, Error::Foreign)),
        (&deep, |error| matches!(error, Error::TooDeep { .. })),
        (&long, |error| matches!(error, Error::Io(_))),
        (&endless, |error| matches!(error, Error::Io(_))),
        // A quote in a name, which gmetric refuses to send: no parser can know where it ends.
        (
            &cluster(r#"<METRIC NAME="m" VAL="1" TYPE="float" TN="5"/><METRIC NAME="a"b" VAL="1"/>"#),
            |error| matches!(error, Error::Xml { .. }),
        ),
        ("<GANGLIA_XML", |error| matches!(error, Error::Xml { .. })),
    ] {
        let (_, result) = read(text.as_bytes());
        let error = result.unwrap_err();
        assert!(is_expected(&error), "{error} of {:.60}", text);
    }
    assert_eq!(read(cut.as_bytes()).0.readings.len(), 1);
}

#[test]
fn a_host_without_a_name_has_none() {
    let inside = format!(
        r#"<CLUSTER NAME="lom" LOCALTIME="{NOW}"><HOST>
        <METRIC NAME="m" VAL="1" TYPE="float" TN="5"/></HOST></CLUSTER>"#
    );
    assert_eq!(shown(&read(document(&inside).as_bytes()).0), ["1 NoHost"]);
    let inside = r#"<HOST NAME="n1"><METRIC NAME="m" VAL="1" TYPE="float" TN="5"/></HOST>"#;
    assert_eq!(shown(&read(document(inside).as_bytes()).0), ["1 NoTime"]);
}

/// XDR as Ganglia writes it.
#[derive(Clone)]
struct Xdr(Vec<u8>);

impl Xdr {
    fn new(id: u32) -> Xdr {
        Xdr(id.to_be_bytes().to_vec())
    }

    fn number(mut self, number: u32) -> Xdr {
        self.0.extend(number.to_be_bytes());
        self
    }

    fn text(self, text: &str) -> Xdr {
        let mut xdr = self.number(text.len() as u32);
        xdr.0.extend(text.as_bytes());
        xdr.0.resize(xdr.0.len().next_multiple_of(4), 0);
        xdr
    }

    fn raw(mut self, bytes: &[u8]) -> Xdr {
        self.0.extend(bytes);
        self
    }

    fn id(id: u32, host: &str, name: &str, spoof: u32) -> Xdr {
        Xdr::new(id).text(host).text(name).number(spoof)
    }

    fn metadata(host: &str, name: &str, spoof: u32, kind: &str, slope: u32) -> Xdr {
        let xdr = Xdr::id(128, host, name, spoof).text(kind).text(name).text("C");
        xdr.number(slope).number(60).number(0).number(1).text("GROUP").text("grp")
    }

    fn value(id: u32, value: &[u8]) -> Xdr {
        Xdr::id(id, "n1", "m", 0).text("%u").raw(value)
    }
}

fn packets(packets: &[Xdr]) -> Taken {
    let (mut reader, mut taken) = (Packets::new(100), Taken::default());
    for packet in packets {
        reader.packet(&packet.0, "sender", NOW * SECOND, &mut taken);
    }
    taken
}

fn last(all: &[Xdr]) -> String {
    shown(&packets(all)).join("; ")
}

#[test]
fn values_need_what_was_said_of_them() {
    let counter = |count| format!("- n1 0 m C {:?}", Value::Counter { count, width: Width::Bits32 });
    for (slope, id, value, expected) in [
        (3, 129, &[0, 0, 0, 7][..], "- n1 0 m C Gauge(7.0)".to_owned()),
        (3, 130, &[255, 255, 255, 249], "- n1 0 m C Gauge(-7.0)".into()),
        (3, 131, &[255, 255, 255, 249], "- n1 0 m C Gauge(-7.0)".into()),
        (3, 132, &[255, 255, 255, 255], "- n1 0 m C Gauge(4294967295.0)".into()),
        (1, 132, &[0, 0, 1, 0], counter(256)),
        (1, 131, &[0, 0, 1, 0], counter(256)),
        (1, 133, b"\0\0\0\x03123\0", counter(123)),
        (3, 133, b"\0\0\0\x0441.5", "- n1 0 m C Gauge(41.5)".into()),
        (5, 132, &[0, 0, 0, 7], "- n1 0 m C Derive(7)".into()),
        (3, 134, &1.5f32.to_be_bytes(), "- n1 0 m C Gauge(1.5)".into()),
        (1, 135, &1.5f64.to_be_bytes(), "- n1 0 m C Sum(1.5)".into()),
        (3, 135, &f64::NAN.to_be_bytes(), "1 NoValue".into()),
        (3, 133, b"\0\0\0\x03abc\0", "1 Text".into()),
        (3, 135, &1.5f32.to_be_bytes(), "1 Truncated".into()),
    ] {
        let told = Xdr::metadata("n1", "m", 0, "uint32", slope);
        let value = Xdr::value(id, value);
        assert_eq!(last(&[told, value.clone()]), expected, "{slope} {id}");
        assert_eq!(last(&[value]), "1 NoMetadata");
    }
    let told = Xdr::metadata("n1", "m", 0, "string", 3);
    assert_eq!(last(&[told, Xdr::value(133, b"\0\0\0\x011\0\0\0")]), "1 Text");
}

#[test]
fn hosts_of_packets() {
    for (host, spoof, expected) in [
        ("n1", 0, "n1"),
        ("10.0.0.1:n7", 1, "n7"),
        ("fe80::1:n7", 1, "n7"),
        ("n7:n7", 1, "n7"),
        ("n7", 1, "n7"),
        ("", 0, "sender"),
    ] {
        let value = Xdr::id(132, host, "m", spoof).text("%u").number(7);
        let shown = last(&[Xdr::metadata(host, "m", spoof, "uint32", 3), value]);
        assert_eq!(shown, format!("- {expected} 0 m C Gauge(7.0)"), "{host}");
    }
    // An address without a name.
    assert_eq!(last(&[Xdr::metadata("10.0.0.1:", "m", 1, "uint32", 3)]), "1 NoHost");
}

#[test]
fn packets_before_ganglia_3_1() {
    let metric =
        |xdr: Xdr| xdr.text("uint32").text("m").text("12").text("pkts").number(1).number(60).number(0);
    for (packet, expected) in [
        (metric(Xdr::new(0)), "- sender 0 m pkts Counter { count: 12, width: Bits32 }"),
        (
            metric(Xdr::new(4096).text("n7").text("10.0.0.7")),
            "- n7 0 m pkts Counter { count: 12, width: Bits32 }",
        ),
        (Xdr::new(1).number(4), "- sender 0 cpu_num CPUs Gauge(4.0)"),
        (Xdr::new(10).raw(&2.5f32.to_be_bytes()), "- sender 0 cpu_user % Gauge(2.5)"),
        (Xdr::new(33).raw(&2.5f64.to_be_bytes()), "- sender 0 disk_total GB Gauge(2.5)"),
        (Xdr::new(36).raw(&2.5f32.to_be_bytes()), "- sender 0 cpu_wio % Gauge(2.5)"),
        (Xdr::new(8).text("Linux"), "1 Text"),
        (Xdr::new(26).number(1), "1 NoMeasurement"),
        (Xdr::new(4097).text("n7").text("10.0.0.7"), "1 NoMeasurement"),
        (Xdr::id(136, "n1", "m", 0), "1 NoMeasurement"),
        (Xdr::new(37).number(1), "1 UnknownType"),
        (Xdr::new(5000).number(1), "1 UnknownType"),
        (Xdr(vec![0, 0]), "1 Truncated"),
    ] {
        assert_eq!(last(&[packet]), expected);
    }
}

#[test]
fn what_was_said_is_kept_within_a_bound() {
    let (mut reader, mut taken) = (Packets::new(10), Taken::default());
    for host in 0..1000 {
        let packet = Xdr::metadata(&format!("n{host}"), "m", 0, "uint32", 3);
        reader.packet(&packet.0, "sender", NOW * SECOND, &mut taken);
        assert!(reader.known() <= 10);
    }
    assert!(reader.forgotten() >= 990);
    let packet = Xdr::id(128, "n1", "m", 0)
        .text("x")
        .text("m")
        .text("C")
        .number(0)
        .number(0)
        .number(0)
        .number(1 << 31);
    assert_eq!(last(&[packet]), "1 TooLong");
}

#[test]
fn a_heartbeat_is_no_measurement() {
    let told = Xdr::metadata("n1", "heartbeat", 0, "uint32", 0);
    assert_eq!(
        packets(&[told, Xdr::id(133, "n1", "heartbeat", 0).text("%s").text("0")])
            .drops
            .of(Dropped::NoMeasurement),
        1
    );
}

proptest! {
    #[test]
    fn what_is_sent_is_read(host in "[a-zé]{1,20}", name in "[a-z_]{1,20}", number in any::<i32>(), float in -1e30..1e30f64) {
        let told = Xdr::metadata(&host, &name, 0, "double", 3);
        let signed = Xdr::id(131, &host, &name, 0).text("%d").raw(&number.to_be_bytes());
        let double = Xdr::id(135, &host, &name, 0).text("%lf").raw(&float.to_be_bytes());
        let taken = packets(&[told, signed, double]);
        let values: Vec<_> = taken.readings.iter().map(|reading| (&reading.host, &reading.path.plugin, reading.value)).collect();
        prop_assert_eq!(values, [(&host, &name, Value::Gauge(number.into())), (&host, &name, Value::Gauge(float))]);
    }

    #[test]
    fn what_is_written_is_read(name in "[^\\x00-\\x1f]{1,20}", value in -1e30..1e30f64, ago in 0u64..1000) {
        let escaped = quick_xml::escape::escape(name.as_str()).into_owned();
        let (taken, result) = read(cluster(&format!(r#"<METRIC NAME="{escaped}" VAL="{value}" TYPE="double" TN="{ago}"/>"#)).as_bytes());
        result.unwrap();
        let reading = &taken.readings[0];
        prop_assert_eq!((&reading.path.plugin, reading.value, reading.time), (&name, Value::Gauge(value), (NOW - ago) * SECOND));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), id in 0u32..140, text in "[<>/\"'=! A-Z&;\\[\\]-]{0,100}") {
        let _ = read(&bytes);
        let _ = read(text.as_bytes());
        let _ = read(cluster(&text).as_bytes());
        let _ = packets(&[Xdr(bytes.clone())]);
        let _ = packets(&[Xdr::metadata("n1", "m", 0, "uint32", 3), Xdr::new(id).raw(&bytes), Xdr::value(id, &bytes)]);
    }
}
