//! Cards of AMD and Intel from trees of files as real nodes have them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use jobglass_sample::gpu::{
    Cycles, Device, DeviceReading, Gpus, Outcome, ProcessReading, Reading, Setup, Source, Vendor,
};
use tempfile::TempDir;

const LONG: Duration = Duration::from_secs(60);

/// A node that has nothing yet.
struct Node {
    dir: TempDir,
}

impl Node {
    fn new(modules: &[(&str, Option<&str>)]) -> Node {
        let node = Node { dir: tempfile::tempdir().unwrap() };
        for (module, version) in modules {
            fs::create_dir_all(node.dir.path().join("sys/module").join(module)).unwrap();
            if let Some(version) = version {
                node.write(&format!("sys/module/{module}/version"), version);
            }
        }
        node
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn link(&self, path: &str, target: &str) {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    /// A card as the kernel shows it: a directory below `devices`, and links to it.
    fn card(&self, number: u32, place: &str, driver: &str, files: &[(&str, &str)]) {
        let device = format!("sys/devices/pci0000:00/{place}");
        self.link(&format!("{device}/driver"), &format!("../../../bus/pci/drivers/{driver}"));
        self.link(&format!("{device}/drm/card{number}/device"), &format!("../../../{place}"));
        self.link(
            &format!("sys/class/drm/card{number}"),
            &format!("../../devices/pci0000:00/{place}/drm/card{number}"),
        );
        for (name, content) in files {
            self.write(&format!("{device}/{name}"), &format!("{content}\n"));
        }
    }

    /// The screen of the service processor, which every server has.
    fn screen(&self) {
        self.card(0, "0000:62:00.0", "ast", &[("vendor", "0x1a03"), ("device", "0x2000")]);
        fs::create_dir_all(self.dir.path().join("sys/class/drm/card0-VGA-1")).unwrap();
        self.write("sys/class/drm/version", "drm 1.1.0 20060810\n");
    }

    fn topology(&self, node: u32, gpu_id: u32, properties: &str) {
        let dir = format!("sys/class/kfd/kfd/topology/nodes/{node}");
        self.write(&format!("{dir}/gpu_id"), &format!("{gpu_id}\n"));
        self.write(&format!("{dir}/properties"), properties);
    }

    fn descriptors(&self, pid: u32, descriptors: &[(&str, &str)]) {
        for (number, (target, info)) in descriptors.iter().enumerate() {
            self.link(&format!("proc/{pid}/fd/{number}"), target);
            self.write(&format!("proc/{pid}/fdinfo/{number}"), info);
        }
    }

    fn gpus(&self) -> Gpus {
        let path = |name: &str| Path::new(self.dir.path()).join(name);
        Gpus::new(Setup { proc: path("proc"), sys: path("sys"), nvml: path("none"), look_again: LONG })
    }

    fn ask(&self, source: Source, pids: &[u32]) -> Outcome {
        let mut answers = self.gpus().read(pids, LONG);
        answers.retain(|(from, _)| *from == source);
        answers.pop().unwrap().1
    }

    fn read(&self, source: Source, pids: &[u32]) -> Reading {
        match self.ask(source, pids) {
            Outcome::Read { reading, .. } => reading,
            other => panic!("{other:?}"),
        }
    }
}

fn process(pid: u32, device: usize) -> ProcessReading {
    ProcessReading {
        pid,
        device,
        utilisation: None,
        memory: None,
        engine_ns: None,
        copy_ns: None,
        cycles: None,
    }
}

fn check(reading: Reading, devices: &[(Device, DeviceReading)], processes: &[ProcessReading]) {
    let found: Vec<_> =
        reading.devices.into_iter().map(|(device, numbers)| ((*device).clone(), numbers)).collect();
    assert_eq!(found, devices);
    assert_eq!(reading.processes, processes);
}

/// One half of an MI250X.
const MI250X: &[(&str, &str)] = &[
    ("vendor", "0x1002"),
    ("device", "0x7408"),
    ("unique_id", "e8cb4ad7f4a8d3c1"),
    ("product_name", "AMD INSTINCT MI200 (MCM) OAM LC MBA HPE C2"),
    ("gpu_busy_percent", "97"),
    ("mem_busy_percent", "41"),
    ("mem_info_vram_total", "68702699520"),
    ("mem_info_vram_used", "31213748224"),
    ("power/runtime_status", "active"),
    ("pp_dpm_sclk", "0: 500Mhz \n1: 800Mhz \n2: 1700Mhz *"),
    ("pp_dpm_mclk", "0: 400Mhz \n1: 700Mhz \n2: 1200Mhz \n3: 1600Mhz *"),
    ("ras/umc_err_count", "ue: 0\nce: 12"),
    ("ras/gfx_err_count", "ue: 2\nce: 1"),
    ("ras/hdp_err_count", "Query failed"),
    ("ras/features", "feature mask: 0x3bf7"),
    ("hwmon/hwmon5/name", "amdgpu"),
    ("hwmon/hwmon5/power1_average", "407000000"),
    ("hwmon/hwmon5/power1_cap", "560000000"),
    ("hwmon/hwmon5/temp1_label", "edge"),
    ("hwmon/hwmon5/temp1_input", "47000"),
    ("hwmon/hwmon5/temp2_label", "junction"),
    ("hwmon/hwmon5/temp2_input", "58000"),
    ("hwmon/hwmon5/temp3_label", "mem"),
    ("hwmon/hwmon5/temp3_input", "63000"),
    ("hwmon/hwmon5/freq1_label", "sclk"),
    ("hwmon/hwmon5/freq1_input", "1690000000"),
    ("hwmon/hwmon5/freq2_input", "1600000000"),
];

const MI250X_NODE: &str = "cpu_cores_count 0\nsimd_count 440\nmem_banks_count 1\nsimd_per_cu 4\nvendor_id 4098\n\
    device_id 29704\nlocation_id 49408\ndomain 0\ndrm_render_minor 128\nnum_xcc 1\nunique_id 16774221045631308737\n";

fn mi250x_node() -> Node {
    let node = Node::new(&[("amdgpu", Some("6.3.6\n"))]);
    node.screen();
    node.card(2, "0000:c6:00.0", "amdgpu", MI250X);
    node.card(1, "0000:c1:00.0", "amdgpu", MI250X);
    let second = |name: &str, content: &str| {
        node.write(&format!("sys/devices/pci0000:00/0000:c6:00.0/{name}"), content);
    };
    second("unique_id", "0x3a1b\n");
    second("hwmon/hwmon5/power1_average", "0\n");
    node.topology(0, 0, "cpu_cores_count 64\nsimd_count 0\nlocation_id 0\n");
    node.topology(4, 51499, MI250X_NODE);
    node.topology(5, 57420, &MI250X_NODE.replace("49408", "50688"));
    node
}

fn mi250x(index: u32, address: &str, uuid: &str) -> Device {
    Device {
        index,
        vendor: Vendor::Amd,
        uuid: Some(uuid.into()),
        address: Some(address.into()),
        name: Some("AMD INSTINCT MI200 (MCM) OAM LC MBA HPE C2".into()),
        driver: Some("amdgpu 6.3.6".into()),
        memory_total: Some(68_702_699_520),
        parent: None,
    }
}

fn mi250x_numbers() -> DeviceReading {
    DeviceReading {
        utilisation: Some(97),
        memory_utilisation: Some(41),
        memory_used: Some(31_213_748_224),
        power_mw: Some(407_000),
        power_limit_mw: Some(560_000),
        temperature: Some(58),
        graphics_mhz: Some(1690),
        memory_mhz: Some(1600),
        ecc_corrected: Some(13),
        ecc_uncorrected: Some(2),
        ..DeviceReading::default()
    }
}

#[test]
fn an_mi250x_is_two_cards_with_their_processes() {
    let node = mi250x_node();
    let proc = "sys/class/kfd/kfd/proc";
    for (path, content) in [
        ("7001/pasid", "32770"),
        ("7001/vram_51499", "30064771072"),
        ("7001/sdma_51499", "1500"),
        ("7001/stats_51499/cu_occupancy", "55"),
        ("7001/stats_51499/evicted_ms", "0"),
        // It has opened the other half, as the library always does, and left it alone.
        ("7001/vram_57420", "0"),
        ("7001/sdma_57420", "0"),
        ("7001/stats_57420/cu_occupancy", "0"),
        ("7002/vram_57420", "4096"),
        ("7002/stats_57420/cu_occupancy", "999"),
        ("7003/vram_57420", "no number"),
    ] {
        node.write(&format!("{proc}/{path}"), &format!("{content}\n"));
    }
    let client = |address: &str, vram: u32, gfx: u32| {
        format!(
            "pos:\t0\ndrm-driver:\tamdgpu\ndrm-client-id:\t9\ndrm-pdev:\t{address}\ndrm-memory-vram:\t{vram} KiB\n\
             drm-engine-gfx:\t{gfx} ns\n"
        )
    };
    node.descriptors(
        7001,
        &[
            ("/dev/null", "pos:\t0\n"),
            ("/dev/kfd", "pos:\t0\n"),
            ("/dev/dri/renderD128", &client("0000:c1:00.0", 29_360_128, 0)),
            ("/dev/dri/renderD129", &client("0000:c6:00.0", 0, 0)),
        ],
    );
    // It draws, and is not asked for.
    node.descriptors(7003, &[("/dev/dri/renderD129", &client("0000:c6:00.0", 8, 500))]);
    node.descriptors(7004, &[("/dev/dri/renderD129", &client("0000:c6:00.0", 8, 500))]);
    let devices = [
        (mi250x(0, "0000:c1:00.0", "e8cb4ad7f4a8d3c1"), mi250x_numbers()),
        // Measured at the first half; that it says 0 means nothing.
        (mi250x(1, "0000:c6:00.0", "0000000000003a1b"), DeviceReading { power_mw: None, ..mi250x_numbers() }),
    ];
    let processes = [
        ProcessReading {
            memory: Some(30_064_771_072),
            copy_ns: Some(1_500_000),
            utilisation: Some(50),
            ..process(7001, 0)
        },
        ProcessReading { memory: Some(4096), utilisation: Some(100), ..process(7002, 1) },
        ProcessReading { memory: Some(8192), engine_ns: Some(500), ..process(7004, 1) },
    ];
    check(node.read(Source::Amd, &[7001, 7004, 7005]), &devices, &processes);
}

/// An MI300A in three partitions. It has no average power and no edge sensor.
#[test]
fn partitions_are_parts_of_their_card() {
    let files: Vec<_> = MI250X
        .iter()
        .filter(|(name, _)| {
            !name.contains("temp1") && !name.contains("power1_average") && !name.contains("freq")
        })
        .map(|(name, content)| if *name == "device" { ("device", "0x74a0") } else { (*name, *content) })
        .chain([("hwmon/hwmon5/power1_input", "350000000")])
        .filter(|(name, _)| *name != "product_name" && !name.starts_with("ras/"))
        .collect();
    // Newer kernels write the partition above the address, older ones into its last three bits.
    for shift in [28, 0] {
        let node = Node::new(&[("amdgpu", None)]);
        node.card(0, "0000:01:00.0", "amdgpu", &files);
        for part in 0..3u32 {
            let location = (0x100 | (part << shift)).to_string();
            node.topology(4 + part, 100 + part, &MI250X_NODE.replace("49408", &location));
            node.write(
                &format!("sys/class/kfd/kfd/topology/nodes/{}/mem_banks/0/properties", 4 + part),
                "heap_type 1\nsize_in_bytes 45801799680\nflags 0\n",
            );
        }
        node.write("sys/class/kfd/kfd/proc/88/vram_102", "4096\n");
        node.write("sys/class/kfd/kfd/proc/88/stats_102/cu_occupancy", "11\n");
        let whole = Device {
            name: Some("1002:74a0".into()),
            driver: Some("amdgpu".into()),
            ..mi250x(0, "0000:01:00.0", "e8cb4ad7f4a8d3c1")
        };
        let part = |index: u32| {
            let uuid = Some(format!("e8cb4ad7f4a8d3c1-{index}"));
            let device = Device {
                index,
                uuid,
                memory_total: Some(45_801_799_680),
                parent: whole.uuid.clone(),
                ..whole.clone()
            };
            (device, DeviceReading::default())
        };
        let numbers = DeviceReading {
            power_mw: Some(350_000),
            graphics_mhz: Some(1700),
            ecc_corrected: None,
            ecc_uncorrected: None,
            ..mi250x_numbers()
        };
        let devices = [(whole.clone(), numbers), part(0), part(1), part(2)];
        let one = ProcessReading { memory: Some(4096), utilisation: Some(10), ..process(88, 3) };
        check(node.read(Source::Amd, &[]), &devices, &[one]);
    }
}

/// What is in a file is the driver's; what is not a number is unknown, and no card is lost for it.
#[test]
fn files_without_sense_are_unknown() {
    let hostile: [String; 7] = [
        String::new(),
        "\n".into(),
        "-".into(),
        "N/A".into(),
        "99999999999999999999999".into(),
        "1\0\u{fffd}".into(),
        "x".repeat(10_000),
    ];
    for content in &hostile {
        let node = Node::new(&[("amdgpu", None)]);
        let keep = ["vendor", "device"];
        let files: Vec<_> = MI250X
            .iter()
            .map(|(name, value)| (*name, if keep.contains(name) { *value } else { content.as_str() }))
            .collect();
        node.card(0, "0000:c1:00.0", "amdgpu", &files);
        node.topology(1, 5, content);
        node.write("sys/class/kfd/kfd/topology/nodes/1/gpu_id", content);
        node.write("sys/class/kfd/kfd/proc/99999999999/vram_5", content);
        node.descriptors(3, &[("/dev/dri/card0", content)]);
        let reading = node.read(Source::Amd, &[3]);
        assert_eq!(reading.devices.len(), 1);
        assert_eq!(reading.devices[0].1, DeviceReading::default(), "{content:.20}");
        assert_eq!(reading.devices[0].0.uuid, None, "{content:.20}");
        assert_eq!(reading.devices[0].0.memory_total, None, "{content:.20}");
        assert_eq!(reading.processes, []);
    }
}

/// The kernel's error is what a driver gives for a card that has left the bus.
#[test]
fn a_card_that_gives_errors_is_failing_and_the_others_are_read() {
    let node = mi250x_node();
    let file = "sys/devices/pci0000:00/0000:c1:00.0/gpu_busy_percent";
    fs::remove_file(node.dir.path().join(file)).unwrap();
    // Nothing is mapped at address 0.
    node.link(file, "/proc/self/mem");
    let reading = node.read(Source::Amd, &[]);
    let text = "gpu_busy_percent: Input/output error (os error 5)";
    assert_eq!(
        reading.devices[0].1,
        DeviceReading { failing: Some(text.into()), ..DeviceReading::default() }
    );
    assert_eq!(reading.devices[1].1.utilisation, Some(97));
}

#[test]
fn a_card_that_sleeps_is_not_woken() {
    let node = mi250x_node();
    node.write("sys/devices/pci0000:00/0000:c1:00.0/power/runtime_status", "suspended\n");
    let reading = node.read(Source::Amd, &[]);
    assert_eq!(reading.devices[0].1, DeviceReading::default());
    assert_eq!(reading.devices[1].1.utilisation, Some(97));
}

#[test]
fn a_driver_without_a_card_is_absent() {
    for (module, source) in [("amdgpu", Source::Amd), ("i915", Source::Drm), ("xe", Source::Drm)] {
        let node = Node::new(&[(module, None)]);
        node.screen();
        assert_eq!(
            node.ask(source, &[1]),
            Outcome::Absent { reason: Some("the driver has no card".into()) },
            "{module}"
        );
    }
    // The other ways are not even looked at.
    let node = mi250x_node();
    assert_eq!(node.ask(Source::Drm, &[1]), Outcome::Absent { reason: None });
}

fn intel(index: u32, address: &str, name: &str, driver: &str) -> Device {
    Device {
        index,
        vendor: Vendor::Intel,
        uuid: None,
        address: Some(address.into()),
        name: Some(name.into()),
        driver: Some(driver.into()),
        memory_total: None,
        parent: None,
    }
}

/// Intel's Data Center GPU Max, with each of the two drivers.
#[test]
fn intels_cards_and_their_processes() {
    let node = Node::new(&[("i915", None), ("xe", None)]);
    node.screen();
    node.card(
        1,
        "0000:29:00.0",
        "i915",
        &[
            ("vendor", "0x8086"),
            ("device", "0x0bd5"),
            ("drm/card1/gt_act_freq_mhz", "1550"),
            // Each half has sensors of its own; those of the card have the driver's name.
            ("hwmon/hwmon2/name", "i915_gt0"),
            ("hwmon/hwmon2/energy1_input", "1000000"),
            ("hwmon/hwmon3/name", "i915"),
            ("hwmon/hwmon3/energy1_input", "28364562000123"),
            ("hwmon/hwmon3/power1_max", "600000000"),
        ],
    );
    node.card(
        2,
        "0000:9a:00.0",
        "xe",
        &[
            ("vendor", "0x8086"),
            ("device", "0x0bd6"),
            ("tile0/gt0/freq0/act_freq", "900"),
            ("tile1/gt1/freq0/act_freq", "1200"),
            ("hwmon/hwmon4/name", "xe"),
            ("hwmon/hwmon4/temp2_label", "pkg"),
            ("hwmon/hwmon4/temp2_input", "52000"),
        ],
    );
    let i915 = "drm-driver:\ti915\ndrm-client-id:\t7\ndrm-pdev:\t0000:29:00.0\ndrm-resident-local0:\t64 MiB\n\
        drm-engine-compute:\t900 ns\ndrm-engine-copy:\t100 ns\ndrm-engine-capacity-compute:\t4\n";
    let xe = "drm-driver:\txe\ndrm-client-id:\t7\ndrm-pdev:\t0000:9a:00.0\ndrm-resident-vram0:\t1 MiB\n\
        drm-cycles-ccs:\t50\ndrm-total-cycles-ccs:\t200\n";
    let idle = "drm-driver:\txe\ndrm-client-id:\t8\ndrm-pdev:\t0000:9a:00.0\ndrm-resident-vram0:\t0\n\
        drm-cycles-ccs:\t0\ndrm-total-cycles-ccs:\t200\n";
    node.descriptors(
        40,
        &[("/dev/dri/renderD128", i915), ("/dev/dri/renderD128", i915), ("/dev/dri/renderD129", idle)],
    );
    node.descriptors(41, &[("/dev/dri/renderD129", xe), ("/home/u/x", i915)]);
    // A card that came after the list was made, and one of a driver that is read elsewhere.
    let new = i915.replace("0000:29", "0000:2a");
    let amd = i915.replace("i915", "amdgpu");
    node.descriptors(42, &[("/dev/dri/renderD130", &new), ("/dev/dri/renderD131", &amd)]);
    let max = DeviceReading {
        graphics_mhz: Some(1550),
        energy_mj: Some(28_364_562_000),
        power_limit_mw: Some(600_000),
        ..DeviceReading::default()
    };
    let other = DeviceReading { graphics_mhz: Some(1200), temperature: Some(52), ..DeviceReading::default() };
    let late = Device { vendor: Vendor::Other, name: None, ..intel(2, "0000:2a:00.0", "", "i915") };
    let devices = [
        (intel(0, "0000:29:00.0", "8086:0bd5", "i915"), max),
        (intel(1, "0000:9a:00.0", "8086:0bd6", "xe"), other),
        (late, DeviceReading::default()),
    ];
    let use_of_i915 = |pid, device| ProcessReading {
        memory: Some(64 << 20),
        engine_ns: Some(1000),
        ..process(pid, device)
    };
    let processes = [
        use_of_i915(40, 0),
        ProcessReading {
            memory: Some(1 << 20),
            cycles: Some(Cycles { busy: 50, total: 200 }),
            ..process(41, 1)
        },
        use_of_i915(42, 2),
    ];
    check(node.read(Source::Drm, &[40, 41, 42, 43]), &devices, &processes);
}
