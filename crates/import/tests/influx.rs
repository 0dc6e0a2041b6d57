//! Line protocol, as Telegraf and cc-metric-collector send it.

use import::influx::{Precision, read};
use import::monitor::{Dropped, Reading, Taken, Value};
use proptest::prelude::*;

const NOW: u64 = 1_794_844_546_000_000_000;

fn taken(body: &[u8], precision: Precision) -> Taken {
    let mut taken = Taken::default();
    read(body, precision, NOW, &mut taken);
    taken
}

fn shown(taken: &Taken) -> String {
    let one = |reading: &Reading| {
        let ahead = reading.time as i64 - NOW as i64;
        let Value::Gauge(value) = reading.value else { panic!("{reading:?}") };
        let known = [&reading.cluster, &reading.unit].map(|text| text.as_deref().unwrap_or("-"));
        format!("{} {} {} {ahead} {} {value}", reading.host, known[0], known[1], reading.path)
    };
    let dropped = taken.drops.iter().map(|(why, count)| format!("{count} {why:?}"));
    taken.readings.iter().map(one).chain(dropped).collect::<Vec<_>>().join("; ")
}

fn check(body: &str, expected: &str) {
    assert_eq!(shown(&taken(body.as_bytes(), Precision::Nanoseconds)), expected, "{body}");
}

#[test]
fn lines_of_telegraf() {
    check(
        "cpu,cpu=cpu-total,host=n1 usage_user=1.5,usage_idle=98 1794844546000000007\n\
         net,host=n1,interface=eth0 bytes_recv=123i,drop=5u,up=true",
        "n1 - - 7 influx/cpu,cpu=cpu-total/usage_user 1.5; n1 - - 7 influx/cpu,cpu=cpu-total/usage_idle 98; \
         n1 - - 0 influx/net,interface=eth0/bytes_recv 123; n1 - - 0 influx/net,interface=eth0/drop 5; \
         n1 - - 0 influx/net,interface=eth0/up 1",
    );
}

#[test]
fn lines_of_cc_metric_collector() {
    check(
        "mem_used,cluster=lom,hostname=n1,type=node,unit=kB value=12.5 1794844546000000000\n\
         cpu_user,hostname=n1,type-id=3,type=hwthread value=50\n\
         net_bytes_in,hostname=n1,stype-id=eth0,stype=network,type=node value=7i\n",
        "n1 lom kB 0 influx/mem_used,type=node/value 12.5; n1 - - 0 influx/cpu_user,type=hwthread,type-id=3/value 50; \
         n1 - - 0 influx/net_bytes_in,stype=network,stype-id=eth0,type=node/value 7",
    );
    check("m,host=proxy,hostname=n1 value=1", "n1 - - 0 influx/m,host=proxy/value 1");
}

#[test]
fn escapes() {
    for (body, expected) in [
        (r"a\ b\,c\=d,host=n\ 1,t\,x=y\=z v\ w=1", r"n 1 - - 0 influx/a b,c\=d,t,x=y=z/v w 1"),
        (r"a\b,host=n1 v\w=1", r"n1 - - 0 influx/a\b/v\w 1"),
        (r#"a,host=n1 s="x, y=z \" \\",v=1"#, "n1 - - 0 influx/a/v 1; 1 Text"),
        ("a,host=n1 s=\"two\nlines\",v=1 1794844546000000001", "n1 - - 1 influx/a/v 1; 1 Text"),
        (r#"a,host="n1" v=1"#, r#""n1" - - 0 influx/a/v 1"#),
    ] {
        check(body, expected);
    }
}

#[test]
fn values_of_every_form() {
    for (text, expected) in [
        ("1", "1"),
        ("-1.5e3", "-1500"),
        ("+2.", "2"),
        (".5", "0.5"),
        ("-7i", "-7"),
        ("18446744073709551615u", "18446744073709552000"),
        ("T", "1"),
        ("FALSE", "0"),
    ] {
        check(&format!("m,host=n1 v={text}"), &format!("n1 - - 0 influx/m/v {expected}"));
    }
    for text in
        ["", "x", "1.5i", "-1u", "i", "--1", "1e", "nan", "inf", "0x1", "tRue", "1i2", "1 x", "1,", "\"x\"y"]
    {
        check(&format!("m,host=n1 v={text}\nm,host=n1 v=2"), "n1 - - 0 influx/m/v 2; 1 Malformed");
    }
    check("m,host=n1 v=1e999", "1 NoValue");
}

#[test]
fn lines_that_are_broken() {
    for body in [
        "m",
        "m ",
        "m,host=n1",
        "m,host=n1 ",
        "m,host=n1 v",
        "m,host=n1 =1",
        "m,host v=1",
        "m,host= v=1",
        "m, v=1",
        "m,=x v=1",
        ",host=n1 v=1",
        "m,host=n1 v=1 soon",
        "m,host=n1 v=1 1 2",
        "m,host=n1 v=1,",
        "m,host=n1\tv=1",
    ] {
        check(&format!("{body}\nm,host=n1 v=2"), "n1 - - 0 influx/m/v 2; 1 Malformed");
    }
    check("m,host=n1 s=\"no end", "1 Truncated");
    check("m v=1,w=2", "2 NoHost");
    check("m,host=n1 v=1 5", "1 ImpossibleTime");
    check("m,host=n1 v=1 -5", "1 ImpossibleTime");
    check("# m,host=n1 v=1\n\n \r\nm,host=n1 v=2\r\n", "n1 - - 0 influx/m/v 2");
    let long = "x".repeat(300);
    check(&format!("m,host={long} v=1\n{long},host=n1 v=1\nm,host=n1 {long}=1"), "3 TooLong");
    check(&format!("m{} v=1", ",t=x".repeat(65)), "1 TooLong");
    check(&format!("m,host=n1 v=1{}", ",v=1".repeat(1024)), "1 TooLong");
}

#[test]
fn the_first_line_that_is_broken_is_named() {
    let body = b"m,host=n1 v=1\r\n# comment\n\nbroken\r\nm,host=n1 s=\"two\nlines\",v=1\nworse";
    let lines = read(body, Precision::Nanoseconds, NOW, &mut Taken::default());
    assert_eq!((lines.good, lines.bad), (2, 2));
    let said = lines.first_bad.unwrap().to_string();
    assert_eq!(said, "unable to parse `broken`: not of the form it should have (line 4)");
    let long = format!("\n{}", "x".repeat(100_000));
    let bad = read(long.as_bytes(), Precision::Nanoseconds, NOW, &mut Taken::default()).first_bad.unwrap();
    assert_eq!((bad.line, bad.text.len()), (2, 200));
    // What has its form and gives no value is not broken.
    let lines = read(b"m v=1\nm,host=n1 s=\"text\"", Precision::Nanoseconds, NOW, &mut Taken::default());
    assert_eq!((lines.good, lines.first_bad), (2, None));
}

#[test]
fn times_in_every_precision() {
    for (word, time) in [
        ("s", "1794844547"),
        ("ms", "1794844547000"),
        ("us", "1794844547000000"),
        ("ns", "1794844547000000000"),
    ] {
        let body = format!("m,host=n1 v=1 {time}");
        let taken = taken(body.as_bytes(), Precision::named(word).unwrap());
        assert_eq!(taken.readings[0].time, NOW + 1_000_000_000, "{word}");
    }
    assert_eq!(Precision::named("h"), None);
}

#[test]
fn names_that_are_no_utf8() {
    assert_eq!(taken(b"caf\xe9,host=n1 v=1", Precision::Seconds).readings[0].path.plugin, "café");
}

fn escaped(text: &str, special: &[char]) -> String {
    text.chars().flat_map(|c| special.contains(&c).then_some('\\').into_iter().chain([c])).collect()
}

proptest! {
    #[test]
    fn what_is_written_is_read(measurement in "[a-z, =é]{1,9}[a-z]", host in "[a-z,= ]{1,9}[a-z]", tag in "[a-z,= ]{1,9}z", value in -1e300..1e300f64, field in "[a-z,= ]{1,9}z") {
        let all = [',', '=', ' '];
        let line = format!("{},host={},{}=x {}={value:e} {NOW}", escaped(&measurement, &[',', ' ']), escaped(&host, &all), escaped(&tag, &all), escaped(&field, &all));
        let taken = taken(line.as_bytes(), Precision::Nanoseconds);
        prop_assert_eq!(taken.drops.iter().collect::<Vec<_>>(), [], "{}", line);
        let reading = &taken.readings[0];
        prop_assert_eq!((&reading.path.plugin, &reading.host, &reading.path.source), (&measurement, &host, &field));
        prop_assert_eq!((&reading.path.tags, reading.value), (&vec![(tag, "x".to_owned())], Value::Gauge(value)));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in "[a-z0-9,= \"\\\\\n#.-]{0,100}") {
        let _ = taken(&bytes, Precision::Nanoseconds);
        let _ = taken(text.as_bytes(), Precision::Seconds);
    }

    /// A line is read or counted, and the next one is not touched by it.
    #[test]
    fn a_bad_line_is_one(line in "[a-z0-9,= .-]{1,60}") {
        let found = taken(format!("{line}\nlast,host=n1 v=1").as_bytes(), Precision::Nanoseconds);
        prop_assert_eq!(found.readings.last().map(|reading| reading.path.plugin.as_str()), Some("last"));
        prop_assert!(found.drops.of(Dropped::Truncated) == 0);
    }
}
