//! Power and temperature as sensors tell them: `/sys/class/hwmon` and `/sys/class/thermal`.
//!
//! Reading a sensor is work for someone: the driver asks a chip over a slow bus, a controller of the board, or the
//! processor. Two kinds are therefore left out. The sensor of a single core (`coretemp`) is read by interrupting that
//! core; the package's, which is the hottest of them, is read. The sensor of a disk (`drivetemp`) is read by a command
//! to the disk.

use crate::read::{Reader, number, signed};

/// What a sensor measures power of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Power {
    pub sensor: Sensor,
    pub microwatts: Option<u64>,
    /// Over an interval that the chip chooses, not of the moment.
    pub is_average: bool,
}

/// What a sensor measures temperature of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Temperature {
    pub sensor: Sensor,
    /// Thousandths of a degree Celsius. Some chips give nonsense where no sensor is connected.
    pub millidegrees: Option<i64>,
}

/// Which sensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sensor {
    /// Such as `hwmon3`; it may be another one after the next boot.
    pub place: Vec<u8>,
    /// Such as `coretemp` or `acpitz`; several may be called the same.
    pub chip: Option<Vec<u8>>,
    /// Such as `temp1`; `temp` of a thermal zone.
    pub name: Vec<u8>,
    /// What the chip's driver calls it, such as `Package id 0`.
    pub label: Option<Vec<u8>>,
}

/// Reads the sensors again and again.
#[derive(Default)]
pub(super) struct Sensors {
    /// Each with the path of its value.
    temperatures: Vec<(Vec<u8>, Sensor)>,
    powers: Vec<(Vec<u8>, Sensor)>,
}

impl Sensors {
    pub(super) fn look(&mut self, sys: &mut Reader) {
        self.temperatures.clear();
        self.powers.clear();
        for place in sys.sorted(b"class/hwmon") {
            self.look_at_chip(&place, sys);
        }
        for place in sys.sorted(b"class/thermal") {
            if !place.starts_with(b"thermal_zone") {
                continue;
            }
            let dir = [b"class/thermal/", place.as_slice()].concat();
            let chip = sys.text(&[dir.as_slice(), b"/type"].concat());
            let sensor = Sensor { place, chip, name: b"temp".to_vec(), label: None };
            self.temperatures.push(([dir.as_slice(), b"/temp"].concat(), sensor));
        }
    }

    fn look_at_chip(&mut self, place: &[u8], sys: &mut Reader) {
        let mut dir = [b"class/hwmon/", place].concat();
        let mut chip = sys.text(&[dir.as_slice(), b"/name"].concat());
        if chip.is_none() {
            // So it was before 3.13.
            dir.extend(b"/device");
            chip = sys.text(&[dir.as_slice(), b"/name"].concat());
        }
        let files = sys.sorted(&dir);
        for file in &files {
            let Some((name, kind)) = parse_name(file) else { continue };
            if kind == Kind::PowerAverage && files.contains(&[name, b"_input"].concat()) {
                continue;
            }
            let label = sys.text(&[dir.as_slice(), b"/", name, b"_label"].concat());
            if is_left_out(chip.as_deref(), label.as_deref()) {
                continue;
            }
            let sensor = Sensor { place: place.to_vec(), chip: chip.clone(), name: name.to_vec(), label };
            let known = ([dir.as_slice(), b"/", file].concat(), sensor);
            match kind {
                Kind::Temperature => self.temperatures.push(known),
                Kind::Power | Kind::PowerAverage => self.powers.push(known),
            }
        }
    }

    pub(super) fn temperatures(&self, sys: &mut Reader) -> Vec<Temperature> {
        let read = |(path, sensor): &(Vec<u8>, Sensor)| {
            let millidegrees = sys.once(path).ok().and_then(|text| signed(text.trim_ascii()));
            Temperature { sensor: sensor.clone(), millidegrees }
        };
        self.temperatures.iter().map(read).collect()
    }

    pub(super) fn powers(&self, sys: &mut Reader) -> Vec<Power> {
        let read = |(path, sensor): &(Vec<u8>, Sensor)| Power {
            sensor: sensor.clone(),
            microwatts: sys.number(path),
            is_average: path.ends_with(b"_average"),
        };
        self.powers.iter().map(read).collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Temperature,
    Power,
    PowerAverage,
}

/// `temp1` and its kind, of `temp1_input`.
fn parse_name(file: &[u8]) -> Option<(&[u8], Kind)> {
    let (name, what) = file.split_at_checked(file.iter().position(|byte| *byte == b'_')?)?;
    let is = |prefix: &[u8]| name.strip_prefix(prefix).and_then(number).is_some();
    match what {
        b"_input" if is(b"temp") => Some((name, Kind::Temperature)),
        b"_input" if is(b"power") => Some((name, Kind::Power)),
        b"_average" if is(b"power") => Some((name, Kind::PowerAverage)),
        _ => None,
    }
}

fn is_left_out(chip: Option<&[u8]>, label: Option<&[u8]>) -> bool {
    match chip {
        Some(b"coretemp") => label.is_some_and(|label| label.starts_with(b"Core ")),
        Some(b"drivetemp") => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    #[test]
    fn names_of_files() {
        for (file, expected) in [
            ("temp1_input", Some(("temp1", Kind::Temperature))),
            ("temp12_input", Some(("temp12", Kind::Temperature))),
            ("power1_input", Some(("power1", Kind::Power))),
            ("power1_average", Some(("power1", Kind::PowerAverage))),
            ("power1_average_interval", None),
            ("temp1_average", None),
            ("temp_input", None),
            ("tempx_input", None),
            ("temp1_label", None),
            ("in1_input", None),
            ("name", None),
        ] {
            let expected = expected.map(|(name, kind)| (name.as_bytes(), kind));
            assert_eq!(parse_name(file.as_bytes()), expected, "{file}");
        }
    }

    /// The files of one chip, and what is seen of it: names of temperatures and powers.
    #[test]
    fn sensors_that_disturb_are_left_out() {
        type Case = (&'static str, &'static [(&'static str, &'static str)], &'static [&'static str]);
        let cases: [Case; 7] = [
            (
                "coretemp",
                &[
                    ("temp1_input", "1"),
                    ("temp1_label", "Package id 0"),
                    ("temp2_input", "1"),
                    ("temp2_label", "Core 0"),
                ],
                &["temp1"],
            ),
            (
                "k10temp",
                &[("temp1_input", "1"), ("temp1_label", "Tctl"), ("temp3_input", "1")],
                &["temp1", "temp3"],
            ),
            ("drivetemp", &[("temp1_input", "1")], &[]),
            ("acpi_power_meter", &[("power1_average", "1")], &["power1"]),
            ("amdgpu", &[("power1_average", "1"), ("power1_input", "1")], &["power1"]),
            ("other", &[("temp1_input", "1"), ("temp1_label", "Core 0")], &["temp1"]),
            ("ba\u{fffd}d\n\nname", &[("temp1_input", "x")], &["temp1"]),
        ];
        for (chip, files, expected) in cases {
            let tree = tempfile::tempdir().unwrap();
            let dir = tree.path().join("class/hwmon/hwmon0");
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("name"), format!("{chip}\n")).unwrap();
            for (name, content) in files {
                fs::write(dir.join(name), content).unwrap();
            }
            let mut sys = Reader::new(tree.path());
            let mut sensors = Sensors::default();
            sensors.look(&mut sys);
            let powers = sensors.powers(&mut sys);
            assert!(powers.iter().all(|power| power.is_average == (chip == "acpi_power_meter")), "{chip}");
            let mut seen: Vec<Sensor> =
                sensors.temperatures(&mut sys).into_iter().map(|t| t.sensor).collect();
            seen.extend(powers.into_iter().map(|power| power.sensor));
            assert!(seen.iter().all(|sensor| sensor.chip.as_deref() == Some(chip.as_bytes())), "{chip}");
            let names: Vec<Vec<u8>> = seen.into_iter().map(|sensor| sensor.name).collect();
            assert_eq!(names, expected.iter().map(|name| name.as_bytes()).collect::<Vec<_>>(), "{chip}");
        }
    }

    #[test]
    fn values_may_be_negative_or_missing() {
        let tree = tempfile::tempdir().unwrap();
        // As before 3.13.
        let dir = tree.path().join("class/hwmon/hwmon0/device");
        fs::create_dir_all(&dir).unwrap();
        for (name, content) in [("name", "x"), ("temp1_input", "-40000\n"), ("temp2_input", "N/A\n")] {
            fs::write(dir.join(name), content).unwrap();
        }
        let mut sys = Reader::new(tree.path());
        let mut sensors = Sensors::default();
        sensors.look(&mut sys);
        let mut values =
            || -> Vec<_> { sensors.temperatures(&mut sys).iter().map(|t| t.millidegrees).collect() };
        assert_eq!(values(), [Some(-40000), None]);
        fs::remove_file(dir.join("temp1_input")).unwrap();
        assert_eq!(values(), [None, None]);
    }

    proptest! {
        #[test]
        fn any_name_parses_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..50)) {
            let _ = parse_name(&bytes);
            let _ = is_left_out(Some(&bytes), Some(&bytes));
        }
    }
}
