//! NVIDIA's cards, played by a library of our own that has the real names and layouts.
#![cfg(feature = "nvml")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use jobglass_sample::gpu::{Device, DeviceReading, Gpus, Outcome, Reading, Setup, Source, Vendor};
use tempfile::TempDir;

const LONG: Duration = Duration::from_secs(60);
const GIB: u64 = 1 << 30;

static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/nvml_stand_in.c");
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libnvml_stand_in.so");
    let mut command = Command::new("cc");
    command.args(["-Wall", "-O1", "-shared", "-fPIC", "-o"]).arg(&built).arg(source).arg("-ldl");
    assert!(command.status().unwrap().success());
    built
});

/// A node with a library of its own: the loader keeps one that is at another path apart.
struct Node {
    dir: TempDir,
    gpus: Gpus,
}

impl Node {
    fn without_library(look_again: Duration) -> Node {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("sys/module/nvidia")).unwrap();
        let setup = Setup {
            proc: dir.path().join("proc"),
            sys: dir.path().join("sys"),
            nvml: dir.path().join("libnvidia-ml.so.1"),
            look_again,
        };
        Node { gpus: Gpus::new(setup), dir }
    }

    fn new(scenario: &str) -> Node {
        let node = Node::without_library(LONG);
        node.install();
        node.play(scenario);
        node
    }

    fn install(&self) {
        fs::copy(&*LIBRARY, self.dir.path().join("libnvidia-ml.so.1")).unwrap();
    }

    fn play(&self, scenario: &str) {
        fs::write(self.dir.path().join("scenario"), scenario).unwrap();
    }

    fn ask(&mut self, timeout: Duration) -> Outcome {
        let answers = self.gpus.read(&[], timeout);
        let (source, outcome) = answers.into_iter().next().unwrap();
        assert_eq!(source, Source::Nvidia);
        outcome
    }

    fn read(&mut self) -> Reading {
        match self.ask(LONG) {
            Outcome::Read { reading, .. } => reading,
            other => panic!("{other:?}"),
        }
    }
}

fn card(index: u32) -> Device {
    Device {
        index,
        vendor: Vendor::Nvidia,
        uuid: Some(format!("GPU-{index:08x}-0000-0000-0000-000000000000")),
        address: Some(format!("0000:{:02x}:00.0", 0x1b + index)),
        name: Some("NVIDIA H100".into()),
        driver: Some("nvidia 550.54.15".into()),
        memory_total: Some(80 * GIB),
        parent: None,
    }
}

fn numbers(index: u32) -> DeviceReading {
    DeviceReading {
        failing: None,
        xid: None,
        utilisation: Some(50 + index),
        memory_utilisation: Some(20 + index),
        memory_used: Some((1 + u64::from(index)) * GIB),
        power_mw: Some(300_000 + u64::from(index)),
        power_limit_mw: Some(700_000),
        energy_mj: Some(123_456_789_012),
        temperature: Some(61),
        graphics_mhz: Some(1980),
        memory_mhz: Some(2619),
        ecc_corrected: Some(3),
        ecc_uncorrected: Some(1),
        performance_state: Some(2),
        fan: Some(33),
        pcie_rx: Some(2000),
        pcie_tx: Some(1000),
    }
}

/// pid, card, percent, memory.
fn processes(reading: &Reading) -> Vec<(u32, usize, Option<u32>, Option<u64>)> {
    reading.processes.iter().map(|one| (one.pid, one.device, one.utilisation, one.memory)).collect()
}

#[test]
fn two_cards_are_read_whole() {
    let mut node = Node::new("cards 2\n");
    let reading = node.read();
    let (devices, readings): (Vec<_>, Vec<_>) = reading.devices.iter().cloned().unzip();
    assert_eq!(devices.iter().map(|device| (**device).clone()).collect::<Vec<_>>(), [card(0), card(1)]);
    assert_eq!(readings, [numbers(0), numbers(1)]);
    let expected = [
        (1000, 0, Some(50), Some(5 * GIB)),
        (2000, 0, None, None),
        (3000, 0, None, Some(GIB)),
        (1001, 1, Some(50), Some(5 * GIB)),
        (2001, 1, None, None),
        (3001, 1, None, Some(GIB)),
    ];
    assert_eq!(processes(&reading), expected);
    // Only what is new since then; and then nothing, which is not zero.
    let later: Vec<_> = (0..2).map(|_| processes(&node.read())[0].2).collect();
    assert_eq!(later, [Some(80), None]);
}

#[test]
fn slices_are_cards_of_their_own_with_their_processes() {
    let mut node = Node::new("cards 2\nmig 1\n");
    let reading = node.read();
    let slice = |number: u32| Device {
        index: number,
        uuid: Some(format!("MIG-00000001-0000-0000-0000-{number:012x}")),
        name: Some("NVIDIA H100 MIG 1g.10gb".into()),
        memory_total: Some(10 * GIB),
        parent: card(1).uuid,
        ..card(1)
    };
    let devices: Vec<_> = reading.devices.iter().map(|(device, _)| (**device).clone()).collect();
    assert_eq!(devices, [card(0), card(1), slice(0), slice(2)]);
    let whole = DeviceReading { utilisation: None, memory_utilisation: None, ..numbers(1) };
    let part = |used| DeviceReading { memory_used: Some(used), ..DeviceReading::default() };
    let readings: Vec<_> = reading.devices.iter().map(|(_, numbers)| numbers.clone()).collect();
    assert_eq!(readings, [numbers(0), whole, part(GIB), part(3 * GIB)]);
    // Those of the card are in its slices, and listed once.
    let expected = [(1101, 2, None, Some(5 * GIB)), (1301, 3, None, Some(5 * GIB))];
    assert_eq!(processes(&reading)[3..], expected);
    node.play("cards 2\n");
    assert_eq!(node.read().devices.len(), 2);
}

#[test]
fn a_card_that_fails_is_listed_and_the_others_are_read() {
    const FELL: &str = "device fell off the bus or has otherwise become inacessible";
    const UNKNOWN: &str = "an internal driver error occurred";
    for (scenario, text) in [("lost 1", FELL), ("lost_later 1", FELL), ("unknown 1", UNKNOWN)] {
        let mut node = Node::new(&format!("cards 3\n{scenario}\n"));
        let failing = DeviceReading { failing: Some(text.into()), ..DeviceReading::default() };
        let check = |reading: Reading, device: Device| {
            let devices: Vec<_> = reading.devices.iter().map(|(device, _)| (**device).clone()).collect();
            assert_eq!(devices, [card(0), device, card(2)], "{scenario}");
            let readings: Vec<_> = reading.devices.iter().map(|(_, numbers)| numbers.clone()).collect();
            assert_eq!(readings, [numbers(0), failing.clone(), numbers(2)], "{scenario}");
            let pids: Vec<u32> = reading.processes.iter().map(|process| process.pid).collect();
            assert_eq!(pids, [1000, 2000, 3000, 1002, 2002, 3002], "{scenario}");
        };
        // It never told anything.
        let nameless = Device { uuid: None, address: None, name: None, memory_total: None, ..card(1) };
        check(node.read(), nameless);
        // It works again, and fails again: now it has a name.
        node.play("cards 3\n");
        assert_eq!(node.read().devices[1].1, numbers(1));
        node.play(&format!("cards 3\n{scenario}\n"));
        let reading = node.read();
        assert_eq!(*reading.devices[1].0, card(1), "{scenario}");
        assert_eq!(reading.devices[1].1, failing);
    }
}

#[test]
fn what_a_card_does_not_tell_is_unknown() {
    let mut node = Node::new("cards 2\nna 0\nstrange 1\n");
    let reading = node.read();
    let poor = Device { address: None, memory_total: None, ..card(0) };
    assert_eq!((&*reading.devices[0].0, &reading.devices[0].1), (&poor, &DeviceReading::default()));
    let strange = DeviceReading {
        utilisation: None,
        memory_utilisation: None,
        memory_used: None,
        temperature: None,
        // The driver's "unknown" to one question is no failure of the card.
        fan: None,
        failing: None,
        ..numbers(1)
    };
    assert_eq!(reading.devices[1].1, strange);
    let pids: Vec<u32> = reading.processes.iter().map(|process| process.pid).collect();
    assert_eq!(pids, [1001, 2001, 3001]);
}

#[test]
fn a_card_that_hangs_stops_nobody() {
    let mut node = Node::new("cards 2\nhang 1 5000\n");
    let begin = Instant::now();
    let Outcome::Stale { since } = node.ask(Duration::from_millis(200)) else { panic!("no hang") };
    assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
    // No second question while the first is pending, and no waiting for it.
    for _ in 0..5 {
        assert_eq!(node.ask(LONG), Outcome::Stale { since });
    }
    assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
    node.play("cards 2\n");
    testkit::wait_until("an answer", || !matches!(node.ask(LONG), Outcome::Stale { .. }));
    assert_eq!(node.read().devices[1].1, numbers(1));
}

#[test]
fn errors_of_the_driver_are_told_once() {
    let mut node = Node::new("cards 3\nna 0\n");
    let xids = |reading: Reading| reading.devices.iter().map(|(_, card)| card.xid).collect::<Vec<_>>();
    assert_eq!(xids(node.read()), [None, None, None]);
    node.play("cards 3\nna 0\nxid 2 79\nxid 1 31\n");
    assert_eq!(xids(node.read()), [None, Some(31), Some(79)]);
    node.play("cards 3\nna 0\n");
    assert_eq!(xids(node.read()), [None, None, None]);
}

#[test]
fn a_library_that_cannot_be_used_is_absent_with_the_reason() {
    let reason = |outcome: Outcome| match outcome {
        Outcome::Absent { reason } => reason.unwrap().to_string(),
        other => panic!("{other:?}"),
    };
    let mut node = Node::without_library(LONG);
    let text = reason(node.ask(LONG));
    assert!(text.starts_with("cannot use /") && text.contains("libnvidia-ml.so.1"), "{text}");
    // It is there now, but it is too early to look again.
    node.install();
    node.play("cards 1\n");
    assert_eq!(reason(node.ask(LONG)), text);

    let mut node = Node::without_library(Duration::ZERO);
    reason(node.ask(LONG));
    node.install();
    node.play("broken\n");
    let text = reason(node.ask(LONG));
    assert!(text.ends_with("RM detects a driver/library version mismatch"), "{text}");
    node.play("cards 1\n");
    assert_eq!(node.read().devices.len(), 1);
    // The driver goes and comes back: the library is opened again.
    node.play("unloaded\n");
    assert_eq!(reason(node.ask(LONG)), "cannot count cards: NVIDIA driver is not loaded");
    node.play("cards 2\n");
    assert_eq!(node.read().devices.len(), 2);
}
