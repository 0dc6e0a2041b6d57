//! From the names of others to our metrics, and from parts to wholes.

use import::influx::{self, Precision};
use import::mapping::table::Join;
use import::mapping::{Amount, Joined, Joiner, Mapper, Point, Skipped, Table, Target, Unused};
use import::monitor::{Path, Reading, System, Taken, Value, Width};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;
const NOON: u64 = 1_794_844_546;

fn mapper() -> Mapper {
    Mapper::new(Table::shipped().unwrap(), 1000)
}

fn reading(path: Path, seconds: u64, value: Value) -> Reading {
    let time = (NOON + seconds) * SECOND;
    Reading { host: "n1".into(), cluster: None, time, interval: None, path, unit: None, value }
}

fn ganglia(name: &str, value: f64) -> Reading {
    reading(Path::new(System::Ganglia, name.into()), 0, Value::Gauge(value))
}

/// `cpu-0/cpu-user/value`
fn collectd(path: &str, seconds: u64, value: Value) -> Reading {
    let parts: Vec<&str> = path.split('/').collect();
    let split = |text: &str| {
        let (name, instance) = text.split_once('-').unwrap_or((text, ""));
        (name.to_owned(), instance.to_owned())
    };
    let (plugin, plugin_instance) = split(parts[0]);
    let (kind, kind_instance) = split(parts[1]);
    let source = parts[2].to_owned();
    let path = Path { plugin_instance, kind, kind_instance, source, ..Path::new(System::Collectd, plugin) };
    reading(path, seconds, value)
}

fn lines(body: &str) -> Vec<Reading> {
    let mut taken = Taken::default();
    influx::read(body.as_bytes(), Precision::Seconds, NOON * SECOND, &mut taken);
    assert_eq!(taken.drops.iter().count(), 0, "{body}");
    taken.readings
}

fn shown(point: &Point) -> String {
    let name = match &point.target {
        Target::Metric(metric) => metric.name,
        Target::Own(name) => name,
    };
    let amount = match point.amount {
        Amount::Level(level) => format!("{level}"),
        Amount::Rate { per_second, since: Some(since) } => {
            format!("{per_second}/s over {}", (point.time - since) as f64 / SECOND as f64)
        }
        Amount::Rate { per_second, since: None } => format!("{per_second}/s"),
    };
    let part = if point.part.is_empty() { String::new() } else { format!("[{}]", point.part) };
    format!("{name}{part} {amount}")
}

fn map(mapper: &mut Mapper, readings: &[Reading]) -> String {
    let points: Vec<String> =
        readings.iter().flat_map(|reading| mapper.map(reading)).map(|p| shown(&p)).collect();
    points.join("; ")
}

fn check(readings: &[Reading], expected: &str) {
    assert_eq!(map(&mut mapper(), readings), expected, "{readings:?}");
}

#[test]
fn ganglia_by_name() {
    let of = |name: &str, value: f64| vec![ganglia("cpu_num", 4.0), ganglia(name, value)];
    for (name, value, expected) in [
        ("cpu_user", 50.0, "node_cpu_user 2000000000/s"),
        ("cpu_wio", 25.0, "node_cpu_iowait 1000000000/s"),
        ("load_one", 1.25, "node_load 125"),
        ("mem_total", 2.0, "node_memory_total 2048"),
        ("mem_free", 2.0, "node_memory_available[mem_free] 2048"),
        ("swap_total", 2.0, "node_swap_used[swap_total] 2048"),
        ("swap_free", 2.0, "node_swap_used[swap_free] -2048"),
        ("bytes_in", 7.5, "node_net_received 7.5/s"),
        ("disk_total", 2.0, "disk_total 2000000000"),
        ("proc_run", 3.0, "processes_running 3"),
        ("gpu_util", 3.0, "ganglia/gpu_util 3"),
    ] {
        check(&of(name, value), expected);
    }
}

#[test]
fn a_unit_that_is_said_is_believed() {
    let mut bytes = ganglia("mem_total", 2.0);
    for (unit, expected) in
        [("KB", "2048"), ("bytes", "2"), ("MB", "2097152"), ("CPUs", "2048"), ("bytes/sec", "2048")]
    {
        bytes.unit = Some(unit.into());
        check(&[bytes.clone()], &format!("node_memory_total {expected}"));
    }
    // But for the one that Ganglia means otherwise.
    let disk = Reading { unit: Some("GB".into()), ..ganglia("disk_total", 2.0) };
    check(&[disk], "disk_total 2000000000");
}

#[test]
fn a_share_needs_the_number_of_cores() {
    let mut mapper = mapper();
    assert_eq!(map(&mut mapper, &[ganglia("cpu_user", 50.0)]), "");
    assert_eq!(mapper.skipped().of(Skipped::CoresUnknown), 1);
    // Of this host, and no other.
    let mut other = ganglia("cpu_num", 8.0);
    other.host = "n2".into();
    assert_eq!(map(&mut mapper, &[other, ganglia("cpu_num", 1e9), ganglia("cpu_idle", 50.0)]), "");
    assert_eq!(mapper.skipped().of(Skipped::CoresUnknown), 2);
    assert_eq!(mapper.skipped().of(Skipped::Learned), 2);
    // Processors that are told apart are counted.
    let mut mapper = self::mapper();
    let percent = |seconds| collectd("cpu/percent-user/value", seconds, Value::Gauge(50.0));
    let core = |core, seconds| collectd(&format!("cpu-{core}/cpu-user/value"), seconds, Value::Derive(0));
    assert_eq!(
        map(&mut mapper, &[core(0, 0), core(2, 0), core(1, 0), percent(0)]),
        "node_cpu_user 1500000000/s"
    );
}

fn later(reading: Reading, seconds: u64) -> Reading {
    Reading { time: reading.time + seconds * SECOND, ..reading }
}

/// gmond tells the number of its processors when it likes, every twenty minutes: what came before is of as many.
#[test]
fn cpu_shares_wait_for_the_number_of_cores() {
    let mut mapper = mapper();
    let waiting =
        [ganglia("cpu_user", 50.0), later(ganglia("cpu_user", 25.0), 20), ganglia("cpu_idle", 10.0)];
    assert_eq!(map(&mut mapper, &waiting), "");
    assert_eq!(mapper.skipped().of(Skipped::CoresUnknown), 3);
    let mut other = ganglia("cpu_num", 8.0);
    other.host = "n2".into();
    assert_eq!(map(&mut mapper, &[other]), "", "another host");
    let points = mapper.map(&later(ganglia("cpu_num", 4.0), 40));
    let times: Vec<u64> = points.iter().map(|point| point.time / SECOND - NOON).collect();
    assert_eq!(times, [0, 20, 0]);
    assert_eq!(
        points.iter().map(shown).collect::<Vec<_>>(),
        ["node_cpu_user 2000000000/s", "node_cpu_user 1000000000/s", "node_cpu_idle 400000000/s"]
    );
    assert_eq!(mapper.skipped().of(Skipped::CoresUnknown), 0);
    assert_eq!(map(&mut mapper, &[later(ganglia("cpu_num", 4.0), 60)]), "", "once");
}

/// The first of the cores says nothing of how many there are: the next round does.
#[test]
fn cpu_shares_before_cores_that_are_told_apart_wait_for_the_next_round() {
    let mut mapper = mapper();
    let total = |seconds| lines(&format!("cpu,cpu=cpu-total,host=n1 usage_user=50 {}", NOON + seconds));
    let core = |core| lines(&format!("cpu,cpu=cpu{core},host=n1 usage_user=50 {NOON}"));
    assert_eq!(map(&mut mapper, &total(0)), "");
    assert_eq!(map(&mut mapper, &[core(0), core(1)].concat()), "");
    assert_eq!(map(&mut mapper, &total(10)), "node_cpu_user 1000000000/s; node_cpu_user 1000000000/s");
}

/// Nobody ever says it: what waits has a bound, and all of it is counted.
#[test]
fn cpu_shares_that_wait_for_ever_are_bounded() {
    let mut mapper = mapper();
    for round in 0..5000 {
        assert_eq!(map(&mut mapper, &[later(ganglia("cpu_user", 50.0), 20 * round)]), "");
    }
    assert_eq!(mapper.skipped().of(Skipped::CoresUnknown), 5000);
    let told = mapper.map(&later(ganglia("cpu_num", 2.0), 100_000));
    assert!(!told.is_empty() && told.len() <= 1024, "{}", told.len());
    assert_eq!(told.last().map(|point| point.time), Some((NOON + 20 * 4999) * SECOND), "the newest are kept");
    assert_eq!(mapper.skipped().of(Skipped::CoresUnknown), 5000 - told.len() as u64);
}

#[test]
fn collectd_by_path() {
    let derive = |path: &'static str| {
        vec![collectd(path, 0, Value::Derive(100)), collectd(path, 10, Value::Derive(300))]
    };
    let gauge = |path: &str, value| vec![collectd(path, 0, Value::Gauge(value))];
    for (readings, expected) in [
        (derive("cpu-1/cpu-user/value"), "node_cpu_user[1] 200000000/s over 10"),
        (derive("cpu-1/cpu-wait/value"), "node_cpu_iowait[1] 200000000/s over 10"),
        (gauge("cpu-1/percent-user/value", 50.0), "node_cpu_user[1] 500000000/s"),
        (gauge("load/load/shortterm", 1.5), "node_load 150"),
        (gauge("load/load/midterm", 1.5), "collectd/load/load/midterm 1.5"),
        (gauge("memory/memory-used/value", 5.0), "node_memory_total[used] 5"),
        (gauge("memory/memory-free/value", 5.0), "node_memory_total[free] 5; node_memory_available[free] 5"),
        (gauge("swap/swap-used/value", 5.0), "node_swap_used 5"),
        (derive("disk-sda/disk_octets/read"), "node_disk_read[sda] 20/s over 10"),
        (derive("disk-nvme0n1/disk_octets/write"), "node_disk_write[nvme0n1] 20/s over 10"),
        (derive("disk-sda1/disk_octets/read"), ""),
        (derive("interface-eth0/if_octets/rx"), "node_net_received[eth0] 20/s over 10"),
        (derive("interface-lo/if_octets/tx"), ""),
        (derive("interface-eth0/if_packets/tx"), "collectd/interface-eth0/if_packets/tx 20/s over 10"),
        (
            gauge("sensors-k10temp/temperature-temp1/value", 41.5),
            "node_temperature[collectd/sensors-k10temp/temperature-temp1/value] 41500",
        ),
        (gauge("ipmi/power-psu system/value", 300.0), "power[collectd/ipmi/power-psu system/value] 300"),
        (gauge("df-root/df_complex-used/value", 9.0), "disk_used[root] 9"),
        (gauge("uptime/uptime/value", 9.0), "uptime 9000000000"),
        (gauge("processes/ps_state-running/value", 9.0), "processes[running] 9"),
        (
            derive("nfs-v3client/nfs_procedure-read/value"),
            "nfs_operations[collectd/nfs-v3client/nfs_procedure-read/value] 20/s over 10",
        ),
    ] {
        check(&readings, expected);
    }
    // With StoreRates there is nothing to wait for.
    check(&[collectd("interface-eth0/if_octets/rx", 0, Value::Rate(5.0))], "node_net_received[eth0] 5/s");
}

#[test]
fn telegraf_by_name() {
    for (body, expected) in [
        (
            "system,host=n1 n_cpus=4i,load1=1.5\ncpu,cpu=cpu-total,host=n1 usage_user=50",
            "node_load 150; node_cpu_user 2000000000/s",
        ),
        (
            "cpu,cpu=cpu3,host=n1 usage_user=9\ncpu,cpu=cpu-total,host=n1 usage_iowait=50,time_user=5",
            "node_cpu_iowait 2000000000/s",
        ),
        ("mem,host=n1 total=9i,available=5i", "node_memory_total 9; node_memory_available 5"),
        (
            "net,host=n1,interface=eth0 bytes_recv=10i 1794844546\nnet,host=n1,interface=eth0 bytes_recv=30i 1794844556",
            "node_net_received[eth0] 2/s over 10",
        ),
        (
            "net,host=n1,interface=lo bytes_recv=10i 1794844546\nnet,host=n1,interface=lo bytes_recv=30i 1794844556",
            "",
        ),
        (
            "diskio,host=n1,name=vda read_bytes=10i 1794844546\ndiskio,host=n1,name=vda read_bytes=30i 1794844556",
            "node_disk_read[vda] 2/s over 10",
        ),
        (
            "infiniband,device=m,host=n1,port=1 port_rcv_data=10i 1794844546\ninfiniband,device=m,host=n1,port=1 port_rcv_data=30i 1794844556",
            "node_ib_received[influx/infiniband,device=m,port=1/port_rcv_data] 8/s over 10",
        ),
        (
            "infiniband,device=m,host=n1,port=1 port_xmit_packets=10i 1794844546\ninfiniband,device=m,host=n1,port=1 port_xmit_packets=30i 1794844556",
            "node_ib_packets_sent[influx/infiniband,device=m,port=1/port_xmit_packets] 2/s over 10",
        ),
        ("disk,host=n1,path=/ used=5i", "disk_used[/] 5"),
    ] {
        check(&lines(body), expected);
    }
}

/// Two values of each series, ten seconds apart: a counter has grown by twenty.
fn twice(line: &str, from: &[(&str, u64)]) -> Vec<Reading> {
    let fields = |more: u64| {
        let field = |(name, value): &(&str, u64)| format!("{name}={}i", value + more);
        from.iter().map(field).collect::<Vec<_>>().join(",")
    };
    lines(&format!("{line} {} {NOON}\n{line} {} {}", fields(0), fields(20), NOON + 10))
}

#[test]
fn telegraf_gpus_by_name() {
    let tags = "arch=Ampere,compute_mode=Default,host=n1,index=1,name=NVIDIA\\ A100,pstate=P0,uuid=GPU-1";
    for (fields, expected) in [
        ("utilization_gpu=87i", "acc_utilization[1] 87"),
        ("memory_used=2i,memory_total=40960i", "gpu_memory_used[1] 2097152; gpu_memory_total[1] 42949672960"),
        ("utilization_memory=12i", "gpu_memory_utilization[1] 12"),
        ("power_draw=250.5", "gpu_power_draw[1] 250.5"),
        ("temperature_gpu=61i", "gpu_temperature[1] 61"),
        (
            "clocks_current_sm=1410i,clocks_current_memory=1593i",
            "gpu_clock[1] 1410; gpu_memory_clock[1] 1593",
        ),
    ] {
        let mut mapper = mapper();
        assert_eq!(map(&mut mapper, &lines(&format!("nvidia_smi,{tags} {fields}"))), expected);
        assert_eq!(mapper.unmapped(), 0, "{fields}");
    }
}

#[test]
fn what_is_not_in_our_catalogue_keeps_its_unit() {
    for (body, expected) in [
        ("nvidia_smi,host=n1,index=0 power_draw=250", Some("W")),
        ("nvidia_smi,host=n1,index=0 memory_used=2i", Some("bytes")),
        ("mem_used,hostname=n1,type=node,unit=GByte value=2", Some("GByte")),
        ("mem_used,hostname=n1,type=node value=2", None),
        ("system,host=n1 load1=2", None),
    ] {
        let point = mapper().map(&lines(body)[0]).remove(0);
        assert_eq!(point.unit.as_deref(), expected, "{body}");
    }
}

/// The plugin tells of whatever it finds a file of: a client's mounts, or a server's targets, their clients and their jobs.
#[test]
fn telegraf_lustre_by_name() {
    let bytes = [("read_bytes", 10), ("write_bytes", 100)];
    for (line, fields, expected) in [
        (
            "lustre2,host=n1,name=scratch-ffff9f3c4d2c1000",
            &bytes[..],
            "node_lustre_read[scratch-ffff9f3c4d2c1000] 2/s over 10; node_lustre_write[scratch-ffff9f3c4d2c1000] 2/s over 10",
        ),
        (
            "lustre2,host=oss1,name=scratch-OST0041",
            &bytes,
            "lustre_target_read[scratch-OST0041] 2/s over 10; lustre_target_write[scratch-OST0041] 2/s over 10",
        ),
        (
            "lustre2,client=10.2.4.27@o2ib1,host=oss1,name=scratch-OST0041",
            &bytes,
            "lustre_client_read[influx/lustre2,client=10.2.4.27@o2ib1,name=scratch-OST0041/read_bytes] 2/s over 10; \
             lustre_client_write[influx/lustre2,client=10.2.4.27@o2ib1,name=scratch-OST0041/write_bytes] 2/s over 10",
        ),
        (
            "lustre2,host=oss1,jobid=4711,name=scratch-OST0041",
            &[("jobstats_read_bytes", 10), ("jobstats_write_bytes", 10)],
            "lustre_job_read[influx/lustre2,jobid=4711,name=scratch-OST0041/jobstats_read_bytes] 2/s over 10; \
             lustre_job_write[influx/lustre2,jobid=4711,name=scratch-OST0041/jobstats_write_bytes] 2/s over 10",
        ),
        (
            "lustre2,host=mds1,name=scratch-MDT0000",
            &[("open", 10), ("crossdir_rename", 5)],
            "lustre_operations[influx/lustre2,name=scratch-MDT0000/open] 2/s over 10; \
             lustre_operations[influx/lustre2,name=scratch-MDT0000/crossdir_rename] 2/s over 10",
        ),
    ] {
        let mut mapper = mapper();
        assert_eq!(map(&mut mapper, &twice(line, fields)), expected);
        assert_eq!(mapper.unmapped(), 0, "{line}");
    }
}

/// What only grows is a rate, also where we have no metric of our own for it.
#[test]
fn telegraf_counters_are_rates() {
    for (line, fields, expected) in [
        (
            "net,host=n1,interface=eth0",
            &[("packets_recv", 1), ("packets_sent", 1), ("err_in", 1), ("drop_out", 1)][..],
            "net_packets_received[eth0] 2/s over 10; net_packets_sent[eth0] 2/s over 10; \
             net_errors_received[eth0] 2/s over 10; net_drops_sent[eth0] 2/s over 10",
        ),
        (
            "diskio,host=n1,name=sda",
            &[("reads", 1), ("writes", 1), ("io_time", 1)],
            "disk_reads[sda] 2/s over 10; disk_writes[sda] 2/s over 10; disk_busy[sda] 2/s over 10",
        ),
        ("diskio,host=n1,name=sda1", &[("reads", 1), ("read_bytes", 1)], ""),
        (
            "infiniband,device=mlx5_0,host=n1,port=1",
            &[("port_xmit_wait", 1), ("symbol_error", 1), ("unicast_rcv_packets", 1)],
            "ib_xmit_wait[influx/infiniband,device=mlx5_0,port=1/port_xmit_wait] 2/s over 10; \
             ib_errors[influx/infiniband,device=mlx5_0,port=1/symbol_error] 2/s over 10",
        ),
        ("swap,host=n1", &[("in", 1), ("out", 1)], "swap_in 2/s over 10; swap_out 2/s over 10"),
    ] {
        let mut mapper = mapper();
        assert_eq!(map(&mut mapper, &twice(line, fields)), expected);
        assert_eq!(mapper.unmapped(), 0, "{line}");
    }
}

#[test]
fn telegraf_memory_and_cpu_by_name() {
    let mut mapper = mapper();
    let body = "system,host=n1 n_cpus=2i\n\
        cpu,cpu=cpu-total,host=n1 usage_active=50,usage_guest=0,usage_guest_nice=0\n\
        mem,host=n1 used=7i,free=1i,cached=2i,buffered=3i,used_percent=70,available_percent=30";
    assert_eq!(
        map(&mut mapper, &lines(body)),
        "memory_used 7; memory_free 1; memory_cached 2; memory_buffered 3"
    );
    assert_eq!(mapper.unmapped(), 0);
}

#[test]
fn cc_metric_collector_by_name() {
    for (body, expected) in [
        ("cpu_user,hostname=n1,type=node value=150", "node_cpu_user 1500000000/s"),
        ("cpu_user,hostname=n1,type=hwthread,type-id=0 value=50", ""),
        ("cpu_load,hostname=n1,type=node value=1.5", "node_load 150"),
        ("load_one,hostname=n1,type=node value=1.5", "node_load 150"),
        ("mem_total,hostname=n1,type=node value=5", "node_memory_total 5120"),
        ("mem_total,hostname=n1,type=node,unit=MByte value=5", "node_memory_total 5242880"),
        (
            "mem_total,hostname=n1,type=memoryDomain,type-id=0 value=5",
            "influx/mem_total,type=memoryDomain,type-id=0/value 5",
        ),
        (
            "ib_recv,device=mlx5,hostname=n1,type=node value=5i 1794844546\nib_recv,device=mlx5,hostname=n1,type=node value=25i 1794844556",
            "node_ib_received[influx/ib_recv,device=mlx5,type=node/value] 2/s over 10",
        ),
        (
            "net_bytes_in,hostname=n1,stype=network,stype-id=eth0,type=node value=5i 1794844546\nnet_bytes_in,hostname=n1,stype=network,stype-id=eth0,type=node value=25i 1794844556",
            "node_net_received[eth0] 2/s over 10",
        ),
        (
            "temp_core_0,hostname=n1,type=node value=41",
            "node_temperature[influx/temp_core_0,type=node/value] 41000",
        ),
        ("temp_core_0_max_temp,hostname=n1,type=node value=99", ""),
    ] {
        check(&lines(body), expected);
    }
}

#[test]
fn all_that_gives_nothing_is_counted() {
    let mut mapper = mapper();
    let derive = |seconds, count| collectd("interface-eth0/if_octets/rx", seconds, Value::Derive(count));
    let excepted = collectd("interface-lo/if_octets/rx", 0, Value::Derive(0));
    let counter = collectd("load/load/shortterm", 0, Value::Counter { count: 1, width: Width::Unknown });
    let again = collectd("load/load/shortterm", 10, Value::Counter { count: 2, width: Width::Unknown });
    let unknown = collectd("new/new/value", 0, Value::Gauge(1.0));
    map(&mut mapper, &[derive(0, 9), derive(0, 9), derive(10, 5), excepted, counter, again, unknown]);
    use Skipped::{Ignored, Unused as Not, WrongKind};
    let counted: Vec<_> = mapper.skipped().iter().collect();
    assert_eq!(
        counted,
        [
            (Not(Unused::First), 2),
            (Not(Unused::Repeated), 1),
            (Not(Unused::Reset), 1),
            (Ignored, 1),
            (WrongKind, 1)
        ]
    );
    assert_eq!((mapper.unmapped(), mapper.series()), (1, (3, 0)));
}

#[test]
fn a_site_adds_rows() {
    let mut table = Table::shipped().unwrap();
    table
        .add("[[ganglia]]\nplugin = \"node_watts_#\"\nown = \"power\"\npart = \"plugin\"", "site.toml")
        .unwrap();
    let points = Mapper::new(table, 10).map(&ganglia("node_watts_1", 7.0));
    assert_eq!(points.iter().map(shown).collect::<String>(), "power[node_watts_1] 7");
}

#[test]
fn a_row_that_is_wrong_is_named() {
    for (row, expected) in [
        ("metric = \"node_speed\"", "no metric of a node is called `node_speed`"),
        ("metric = \"cpu\"", "no metric of a node is called `cpu`"),
        ("metric = \"node_load\"\nunit = \"furlongs\"", "no unit is called `furlongs`"),
        ("metric = \"node_load\"\nunit = \"KB\"", "`KB` does not measure what `node_load` counts"),
        (
            "metric = \"node_memory_total\"\nunit = \"bytes/sec\"",
            "a rate cannot be told of a metric that is a state",
        ),
        ("metric = \"node_load\"\njoin = \"sum\"", "a part is told apart by nothing"),
        (
            "metric = \"node_load\"\nown = \"x\"",
            "one of metric, own, learn and ignore is needed, and only one",
        ),
        ("", "one of metric, own, learn and ignore is needed, and only one"),
        ("own = \"x\"\npart = \"plugin\"\nexcept = \"what\"", "no list of exceptions is called `what`"),
    ] {
        let mut table = Table::shipped().unwrap();
        let text = format!("[[ganglia]]\nplugin = \"ok\"\nown = \"x\"\n[[ganglia]]\nplugin = \"a\"\n{row}\n");
        let error = table.add(&text, "site.toml").unwrap_err().to_string();
        assert_eq!(error, format!("site.toml: row 2 of ganglia: {expected}"));
        // Nothing of the file is taken.
        assert_eq!(map(&mut Mapper::new(table, 10), &[ganglia("ok", 1.0)]), "ganglia/ok 1");
    }
    let error = Table::default()
        .add("[[ganglia]]\nplugin = \"a\"\nmetrik = \"b\"", "site.toml")
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("site.toml: ") && error.contains("metrik") && error.contains("line 3"),
        "{error}"
    );
    let error = Table::default().add("[[unit]]\nnames = [\"x\"]\nof = \"y\"\ntimes = 1.0", "f").unwrap_err();
    assert_eq!(error.to_string(), "f: unit [\"x\"]: nothing is counted in `y`");
}

fn point(part: &str, seconds: u64, level: f64, join: Join, needs: &[&str]) -> Point {
    Point {
        host: "n1".into(),
        cluster: None,
        time: seconds * SECOND,
        target: Target::Own("x".into()),
        part: part.into(),
        join,
        needs: needs.iter().map(|name| (*name).to_owned()).collect(),
        unit: None,
        amount: Amount::Level(level),
    }
}

/// Parts with their times: what comes of them, and of the end.
fn joined(parts: &[(&str, u64, f64)], join: Join, needs: &[&str]) -> String {
    let mut joiner = Joiner::new(100);
    let mut all: Vec<Joined> = parts
        .iter()
        .map(|(part, time, level)| joiner.take(point(part, *time, *level, join, needs)))
        .collect();
    all.extend(joiner.finish());
    let shown = all.iter().filter_map(|joined| match joined {
        Joined::Whole(point) => Some(format!("{}@{}", shown(point), point.time / SECOND)),
        Joined::Incomplete => Some("incomplete".into()),
        Joined::Waiting => None,
    });
    shown.collect::<Vec<_>>().join("; ")
}

#[test]
fn parts_become_a_whole() {
    for (parts, join, expected) in [
        (&[("a", 1, 1.0), ("b", 1, 2.0), ("a", 2, 3.0), ("b", 3, 4.0)][..], Join::Sum, "x 3@1; x 7@3"),
        (&[("a", 1, 5.0), ("b", 1, 2.0)], Join::Max, "x 5@1"),
        (&[("a", 1, 5.0), ("b", 1, 2.0)], Join::Each, "x[a] 5@1; x[b] 2@1"),
        // One is late, and comes again.
        (
            &[("a", 1, 1.0), ("b", 1, 2.0), ("a", 2, 1.0), ("a", 3, 1.0), ("b", 3, 2.0)],
            Join::Sum,
            "x 3@1; incomplete; x 3@3",
        ),
        // One is gone.
        (
            &[("a", 1, 1.0), ("b", 1, 2.0), ("a", 2, 1.0), ("a", 3, 1.0), ("a", 4, 1.0), ("a", 5, 1.0)],
            Join::Sum,
            "x 3@1; incomplete; incomplete; incomplete; x 1@5",
        ),
        (&[], Join::Sum, ""),
    ] {
        assert_eq!(joined(parts, join, &[]), expected, "{parts:?}");
    }
}

#[test]
fn parts_that_are_needed_by_name() {
    let needs = &["a", "b"];
    for (parts, expected) in [
        (&[("a", 1, 1.0), ("b", 1, 2.0)][..], "x 3@1"),
        (&[("a", 1, 1.0)], "incomplete"),
        // One comes rarely.
        (&[("a", 1, 10.0), ("b", 1, 2.0), ("b", 60, 3.0), ("b", 120, 4.0)], "x 12@1; x 13@60; x 14@120"),
        (&[("a", 1, 10.0), ("b", 1, 2.0), ("b", 4000, 3.0)], "x 12@1; incomplete"),
        // What is there besides counts, too.
        (&[("a", 1, 1.0), ("b", 1, 2.0), ("c", 1, 4.0)], "x 7@1"),
    ] {
        assert_eq!(joined(parts, Join::Sum, needs), expected, "{parts:?}");
    }
}

#[test]
fn more_parts_than_can_be_are_no_whole() {
    let mut joiner = Joiner::new(10);
    for part in 0..5000 {
        assert_eq!(joiner.take(point(&part.to_string(), 1, 1.0, Join::Sum, &[])), Joined::Waiting);
    }
    assert_eq!(joiner.finish(), [Joined::Incomplete]);
}

#[test]
fn rates_are_joined_from_the_earliest_on() {
    let mut joiner = Joiner::new(10);
    for (part, since) in [("a", Some(5 * SECOND)), ("b", Some(3 * SECOND))] {
        let amount = Amount::Rate { per_second: 1.5, since };
        assert_eq!(joiner.take(Point { amount, ..point(part, 10, 0.0, Join::Sum, &[]) }), Joined::Waiting);
    }
    let Some(Joined::Whole(whole)) = joiner.finish().pop() else { panic!() };
    assert_eq!(shown(&whole), "x 3/s over 7");
}

proptest! {
    /// A node's counters, told in any steps, give the same as their first and last value.
    #[test]
    fn rates_add_up_to_what_was_counted(steps in proptest::collection::vec((1u64..1000, 0u64..1 << 40), 1..30), start in any::<u64>()) {
        let mut mapper = mapper();
        let (mut time, mut count, mut sum, mut expected) = (0, start, 0.0, 0.0);
        for (later, more) in [(0, 0)].iter().chain(&steps) {
            (time, count) = (time + later, count.wrapping_add(*more));
            let value = Value::Counter { count, width: Width::Bits64 };
            for point in mapper.map(&collectd("interface-eth0/if_octets/rx", time, value)) {
                let Amount::Rate { per_second, since: Some(since) } = point.amount else { panic!() };
                sum += per_second * (point.time - since) as f64 / SECOND as f64;
            }
            expected += *more as f64;
        }
        prop_assert!((sum - expected).abs() <= expected * 1e-9, "{} {}", sum, expected);
    }

    #[test]
    fn any_readings_are_mapped_without_a_panic(names in proptest::collection::vec("(cpu|cpu_user|cpu_num|mem_free|interface|if_octets|rx|[a-z]{0,3})", 5), times in proptest::collection::vec((0u64..100, any::<f64>(), any::<u64>(), 0..6usize), 0..9)) {
        let (mut mapper, mut joiner) = (mapper(), Joiner::new(5));
        for (time, float, count, kind) in times {
            let value = [Value::Gauge(float), Value::Sum(float), Value::Rate(float), Value::Derive(count as i64), Value::Absolute(count), Value::Counter { count, width: Width::Unknown }][kind];
            for system in [System::Ganglia, System::Collectd, System::Influx] {
                let path = Path { system, plugin: names[0].clone(), plugin_instance: names[1].clone(), kind: names[2].clone(), kind_instance: names[3].clone(), source: names[4].clone(), tags: vec![] };
                for point in mapper.map(&reading(path, time, value)) {
                    joiner.take(point);
                }
            }
        }
        joiner.finish();
    }

    #[test]
    fn any_table_is_read_without_a_panic(text in ".{0,100}", row in "[a-z_ =\"#*\\[\\]\n]{0,80}") {
        let _ = Table::default().add(&text, "f");
        let _ = Table::default().add(&format!("[[ganglia]]\nplugin = \"a\"\n{row}"), "f");
    }
}
