//! The small files that the kernel's drivers keep for a card below `/sys`, and what their values look like.

use std::collections::HashMap;
use std::path::Path;

use rustix::io::Errno;

use super::{Device, DeviceReading};
use crate::read::{self, Reader, lines, words};

/// Names of cards and drivers are shorter.
const TEXT_MAX: usize = 256;

/// Reads below `/sys`.
pub(super) struct Files {
    reader: Reader,
}

/// One card in `/sys/class/drm`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Card {
    /// Such as `class/drm/card0`.
    pub(super) path: String,
    /// Its directory's name: of a card on the PCI bus, the address.
    pub(super) place: String,
    pub(super) address: Option<String>,
    pub(super) driver: String,
    /// Who made it, and what it is, as PCI numbers.
    pub(super) ids: Option<(u64, u64)>,
}

impl Files {
    pub(super) fn new(sys: &Path) -> Files {
        Files { reader: Reader::new(sys) }
    }

    /// A file without the white space around it, if anything is left.
    pub(super) fn text(&mut self, path: &str) -> Option<&[u8]> {
        let text = self.reader.once(path.as_bytes()).ok()?.trim_ascii();
        (!text.is_empty()).then_some(text)
    }

    /// The same as text; what is not UTF-8 is replaced.
    pub(super) fn string(&mut self, path: &str) -> Option<String> {
        let text = self.text(path)?;
        let text = text.get(..text.len().min(TEXT_MAX))?;
        Some(String::from_utf8_lossy(text).into_owned())
    }

    /// A file with one number.
    pub(super) fn number(&mut self, path: &str) -> Option<u64> {
        read::number(self.text(path)?)
    }

    /// A file with one number in base 16.
    pub(super) fn hex(&mut self, path: &str) -> Option<u64> {
        hex(self.text(path)?)
    }

    /// The names in a directory that are this prefix and a number, in the order of the numbers.
    pub(super) fn numbered(&mut self, path: &str, prefix: &str) -> Vec<u64> {
        let mut numbers = Vec::new();
        let mut take =
            |name: &[u8]| numbers.extend(name.strip_prefix(prefix.as_bytes()).and_then(read::number));
        // A directory that is not there has no names.
        let _ = self.reader.names(path.as_bytes(), &mut take);
        numbers.sort_unstable();
        numbers
    }

    /// The names in a directory with this ending.
    pub(super) fn ending(&mut self, path: &str, suffix: &str) -> Option<Vec<String>> {
        let mut names = Vec::new();
        let take = |name: &[u8]| {
            if name.ends_with(suffix.as_bytes()) {
                names.push(String::from_utf8_lossy(name).into_owned());
            }
        };
        self.reader.names(path.as_bytes(), take).ok()?;
        Some(names)
    }

    /// The last part of where a link leads.
    pub(super) fn link(&mut self, path: &str) -> Option<String> {
        let target = self.reader.link(path.as_bytes()).ok()?;
        let name = target.rsplit(|byte| *byte == b'/').next()?;
        Some(String::from_utf8_lossy(name).into_owned())
    }

    /// Why a card that should have this file does not answer.
    pub(super) fn failure(&mut self, path: &str) -> Option<String> {
        match self.reader.once(path.as_bytes()) {
            Err(error @ (Errno::IO | Errno::NODEV | Errno::NXIO | Errno::TIMEDOUT)) => {
                let name = path.rsplit('/').next().unwrap_or(path);
                Some(format!("{name}: {error}"))
            }
            _ => None,
        }
    }

    /// All cards, in the order of their places.
    pub(super) fn cards(&mut self) -> Vec<Card> {
        // Outputs of a card, `card0-DP-1`, are in the same directory; their names do not end in the number.
        let numbers = self.numbered("class/drm", "card");
        let mut cards: Vec<Card> = numbers.into_iter().filter_map(|number| self.card(number)).collect();
        cards.sort_by(|one, other| one.place.cmp(&other.place));
        cards
    }

    fn card(&mut self, number: u64) -> Option<Card> {
        let path = format!("class/drm/card{number}");
        let place = self.link(&format!("{path}/device"))?;
        let driver = self.link(&format!("{path}/device/driver"))?;
        let maker = self.hex(&format!("{path}/device/vendor"));
        let kind = self.hex(&format!("{path}/device/device"));
        Some(Card { path, address: pci_address(&place), place, driver, ids: maker.zip(kind) })
    }

    /// The driver's name, and its version if it has one of its own.
    pub(super) fn driver(&mut self, name: &str) -> String {
        match self.string(&format!("module/{name}/version")) {
            Some(version) => format!("{name} {version}"),
            None => name.into(),
        }
    }

    /// The directory with a card's sensors: the one that has the driver's name, if there are several.
    pub(super) fn sensors(&mut self, card: &Card) -> Option<String> {
        let dir = format!("{}/device/hwmon", card.path);
        let numbers = self.numbered(&dir, "hwmon");
        let mut paths = numbers.into_iter().map(|number| format!("{dir}/hwmon{number}"));
        let first = paths.next()?;
        let is_own = |files: &mut Files, path: &str| {
            files.text(&format!("{path}/name")).is_some_and(|name| name == card.driver.as_bytes())
        };
        if is_own(self, &first) {
            return Some(first);
        }
        Some(paths.find(|path| is_own(self, path)).unwrap_or(first))
    }

    /// A card that sleeps is not woken by a reader.
    pub(super) fn is_asleep(&mut self, card: &Card) -> bool {
        self.text(&format!("{}/device/power/runtime_status", card.path)) == Some(b"suspended")
    }

    /// Power and energy, which all drivers name alike.
    pub(super) fn power(&mut self, sensors: &str, reading: &mut DeviceReading) {
        let mut thousandth = |name: &str| {
            let value = self.number(&format!("{sensors}/{name}"))?;
            Some(value / 1000).filter(|value| *value > 0)
        };
        // No card draws nothing. The second half of an MI250X says so, because it is measured at the first.
        reading.power_mw = thousandth("power1_average").or_else(|| thousandth("power1_input"));
        reading.power_limit_mw = thousandth("power1_cap").or_else(|| thousandth("power1_max"));
        reading.energy_mj = thousandth("energy1_input");
    }

    /// The temperature with the first of these labels that is there, or the first temperature.
    pub(super) fn temperature(&mut self, sensors: &str, labels: &[&str]) -> Option<i32> {
        const SENSORS: usize = 8;
        let mut by_label = HashMap::new();
        for number in 1..=SENSORS {
            if let Some(label) = self.string(&format!("{sensors}/temp{number}_label")) {
                by_label.entry(label).or_insert(number);
            }
        }
        let number = labels.iter().find_map(|label| by_label.get(*label).copied()).unwrap_or(1);
        degrees(self.text(&format!("{sensors}/temp{number}_input"))?)
    }
}

/// Positions of cards by their address or place.
pub(super) fn position(devices: &[(std::sync::Arc<Device>, DeviceReading)], address: &str) -> Option<usize> {
    devices
        .iter()
        .position(|(device, _)| device.address.as_deref() == Some(address) && device.parent.is_none())
}

/// A PCI address in the kernel's form, `0000:c1:00.0`. NVIDIA writes `00000000:C1:00.0`.
pub fn pci_address(text: &str) -> Option<String> {
    let (rest, function) = text.rsplit_once('.')?;
    let mut parts = rest.rsplitn(3, ':');
    let (device, bus, domain) = (parts.next()?, parts.next()?, parts.next()?);
    let part = |text: &str, digits: usize, max: u32| {
        let is_hex = (1..=digits).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        u32::from_str_radix(text, 16).ok().filter(|value| is_hex && *value <= max)
    };
    let (domain, bus) = (part(domain, 8, u32::MAX)?, part(bus, 2, 0xff)?);
    let (device, function) = (part(device, 2, 0x1f)?, part(function, 1, 7)?);
    Some(format!("{domain:04x}:{bus:02x}:{device:02x}.{function}"))
}

/// `0x1002` or `1002`.
pub fn hex(text: &[u8]) -> Option<u64> {
    let digits = text.strip_prefix(b"0x").unwrap_or(text);
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    digits.iter().try_fold(0u64, |sum, byte| Some((sum << 4) | u64::from(char::from(*byte).to_digit(16)?)))
}

/// Thousandths of a degree, perhaps negative, as degrees.
pub fn degrees(text: &[u8]) -> Option<i32> {
    let (digits, sign) = match text.strip_prefix(b"-") {
        Some(digits) => (digits, -1),
        None => (text, 1),
    };
    let value = i32::try_from(read::number(digits)? / 1000).ok()?;
    Some(sign * value)
}

/// The clock in use, of lines such as `1: 1700Mhz *`.
pub fn clock_in_use(text: &[u8]) -> Option<u32> {
    let line = lines(text).find(|line| line.trim_ascii_end().ends_with(b"*"))?;
    let clock = words(line).nth(1)?.to_ascii_lowercase();
    u32::try_from(read::number(clock.strip_suffix(b"mhz")?)?).ok()
}

/// Errors in the memory of one part of a card: `ue: 0` and `ce: 3`, uncorrected and corrected.
pub fn errors(text: &[u8]) -> Option<(u64, u64)> {
    let value =
        |name: &[u8]| lines(text).find_map(|line| read::number(line.strip_prefix(name)?.trim_ascii()));
    Some((value(b"ce:")?, value(b"ue:")?))
}

/// The value of a line `name value`.
pub fn property(text: &[u8], name: &str) -> Option<u64> {
    lines(text).find_map(|line| {
        let mut words = words(line);
        words.next().filter(|word| *word == name.as_bytes())?;
        read::number(words.next()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_have_one_form() {
        for (text, expected) in [
            ("0000:c1:00.0", Some("0000:c1:00.0")),
            ("00000000:C1:00.0", Some("0000:c1:00.0")),
            ("00010002:0a:1f.7", Some("10002:0a:1f.7")),
            ("0000:c1:00.8", None),
            ("0000:c1:20.0", None),
            ("0000:+1:00.0", None),
            ("c1:00.0", None),
            ("000000000:c1:00.0", None),
            ("fde60000.gpu", None),
            ("", None),
            (".", None),
        ] {
            assert_eq!(pci_address(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn values_are_what_they_say() {
        assert_eq!(hex(b"0x1002"), Some(0x1002));
        assert_eq!(hex(b"ffffffffffffffff"), Some(u64::MAX));
        for text in [&b""[..], b"0x", b"0x12345678901234567", b"1g", b" 1", b"-1"] {
            assert_eq!(hex(text), None, "{text:?}");
        }
        assert_eq!(degrees(b"45999"), Some(45));
        assert_eq!(degrees(b"-5000"), Some(-5));
        for text in [&b""[..], b"-", b"--1", b"99999999999999", b"4 5"] {
            assert_eq!(degrees(text), None, "{text:?}");
        }
        assert_eq!(clock_in_use(b"0: 500Mhz \n1: 800Mhz *\n2: 1700Mhz \n"), Some(800));
        for text in [&b"0: 500Mhz"[..], b"*", b"0: 5Ghz *", b"0: 99999999999Mhz *"] {
            assert_eq!(clock_in_use(text), None, "{text:?}");
        }
        assert_eq!(errors(b"ue: 1\nce: 22\n"), Some((22, 1)));
        assert_eq!(errors(b"ue: 1\nce: 22\nde: 0\n"), Some((22, 1)));
        assert_eq!(errors(b"ue: 1\n"), None);
        assert_eq!(property(b"simd_count 440\nlocation_id 49408\n", "location_id"), Some(49408));
        assert_eq!(property(b"location_id_2 1\nlocation_id\n", "location_id"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = pci_address(&String::from_utf8_lossy(&bytes));
            let _ = (hex(&bytes), degrees(&bytes), clock_in_use(&bytes), errors(&bytes));
            let _ = property(&bytes, "a");
        }

        #[test]
        fn an_address_stays_what_it_is(domain: u32, bus: u8, device in 0u8..32, function in 0u8..8) {
            let nvidia = format!("{domain:08X}:{bus:02X}:{device:02X}.{function}");
            let address = pci_address(&nvidia).unwrap();
            prop_assert_eq!(pci_address(&address), Some(address.clone()));
            prop_assert_eq!(address, format!("{domain:04x}:{bus:02x}:{device:02x}.{function}"));
        }

        #[test]
        fn lines_of_junk_do_not_hide_a_value(junk in "[a-z :0-9*]{0,40}", value: u32) {
            let text = format!("{junk}\nue: {value}\nce: 7\n");
            let found = errors(text.as_bytes());
            prop_assert!(junk.starts_with("ue:") || junk.starts_with("ce:") || found == Some((7, value.into())));
        }
    }
}
