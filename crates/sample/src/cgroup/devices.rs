//! What went to storage, with devices that lie on others counted once.
//!
//! The kernel charges a group for a request at every device it passes: at a logical volume, at the array below it and at the
//! disks. Their sum would count the same bytes up to three times. Which device lies on which stands in
//! `/sys/dev/block/MAJOR:MINOR/slaves`; the number of the driver does not tell, because drivers take the next free one (253 is
//! the device mapper on most machines, and compressed memory on one without).
//!
//! The rule: devices that lie on each other are a stack, in layers from the disks upward. Every layer has seen the same
//! requests, if the kernel charged them there: it does not for the writes of a RAID 5, which a thread of the kernel makes, and
//! for a RAID 0 on some versions it charges only the array. So of each stack the layer with the most is counted, for each
//! number by itself. A disk that is used beside its volumes is thereby counted whole, and a mirror's writes count as often as
//! they were written. Numbers that only grow stay such.
//!
//! Known to be counted twice: a loop device whose image lies on a local disk. One whose image lies on a network's file system
//! is the only trace of that traffic, and the two cannot be told apart without touching that file system.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::read::{Reader, number};

/// Major and minor number.
pub type Device = (u32, u32);

/// How deep stacks are followed: disk, array, cipher, volume are four.
const DEPTH: usize = 8;
/// Totals after which is asked again which device lies on which: volumes come and go.
const REFRESH: u32 = 600;

/// Bytes or operations of a group at a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub read: u64,
    pub written: u64,
}

impl Counts {
    pub(super) fn plus(self, other: Counts) -> Option<Counts> {
        Some(Counts {
            read: self.read.checked_add(other.read)?,
            written: self.written.checked_add(other.written)?,
        })
    }

    fn larger(self, other: Counts) -> Counts {
        Counts { read: self.read.max(other.read), written: self.written.max(other.written) }
    }
}

/// What a group read and wrote, by device.
pub type Traffic = Vec<(Device, Counts)>;

/// Knows which device lies on which.
pub struct Stacks {
    reader: Reader,
    below: HashMap<Device, Vec<Device>>,
    age: u32,
}

/// Devices that have a disk in common, and what each of their layers saw.
struct Stack {
    disks: Vec<Device>,
    layers: Vec<Counts>,
}

impl Stacks {
    /// Reads below `root`, usually `/sys/dev/block`.
    pub fn new(root: impl Into<PathBuf>) -> Stacks {
        Stacks { reader: Reader::new(root), below: HashMap::new(), age: 0 }
    }

    /// System calls made until now.
    pub fn calls(&self) -> u64 {
        self.reader.calls()
    }

    /// The sum over all devices, each request once. A sum that overflows is unknown.
    pub fn total(&mut self, devices: &[(Device, Counts)]) -> Option<Counts> {
        self.age += 1;
        if self.age > REFRESH {
            self.below.clear();
            self.age = 0;
        }
        let mut stacks: Vec<Stack> = Vec::new();
        for (device, counts) in devices {
            let mut disks = Vec::new();
            let layer = self.descend(*device, DEPTH, &mut disks);
            add(&mut stacks, disks, layer, *counts)?;
        }
        stacks.iter().try_fold(Counts::default(), |sum, stack| {
            sum.plus(stack.layers.iter().fold(Counts::default(), |most, layer| most.larger(*layer)))
        })
    }

    /// The layer of a device: 0 for a disk. Its disks are put into `disks`.
    fn descend(&mut self, device: Device, depth: usize, disks: &mut Vec<Device>) -> usize {
        let below = self.below(device);
        if below.is_empty() || depth == 0 {
            disks.push(device);
            return 0;
        }
        below.into_iter().map(|next| self.descend(next, depth - 1, disks)).max().unwrap_or(0) + 1
    }

    fn below(&mut self, device: Device) -> Vec<Device> {
        if let Some(known) = self.below.get(&device) {
            return known.clone();
        }
        let path = format!("{}:{}/slaves", device.0, device.1);
        let mut names = Vec::new();
        // A device that is not there is one without others below it.
        let _ = self.reader.names(path.as_bytes(), |name| names.push(name.to_vec()));
        let below: Vec<Device> =
            names.iter().filter_map(|name| self.disk(&[path.as_bytes(), b"/", name].concat())).collect();
        self.below.insert(device, below.clone());
        below
    }

    /// Groups are charged by whole disks: for a partition, the one it is a part of.
    fn disk(&mut self, path: &[u8]) -> Option<Device> {
        let is_partition = self.reader.exists(&[path, b"/partition"].concat());
        let name: &[u8] = if is_partition { b"/../dev" } else { b"/dev" };
        device(self.reader.once(&[path, name].concat()).ok()?.trim_ascii())
    }
}

/// Puts a device into the stack of its disks, which may join stacks that were apart.
fn add(stacks: &mut Vec<Stack>, disks: Vec<Device>, layer: usize, counts: Counts) -> Option<()> {
    let mut joined = Stack { disks, layers: vec![Counts::default(); layer + 1] };
    let top = joined.layers.last_mut()?;
    *top = counts;
    let (touching, apart): (Vec<Stack>, Vec<Stack>) = std::mem::take(stacks)
        .into_iter()
        .partition(|stack| stack.disks.iter().any(|disk| joined.disks.contains(disk)));
    *stacks = apart;
    for stack in touching {
        joined.disks.extend(stack.disks);
        let layers = joined.layers.len().max(stack.layers.len());
        joined.layers.resize(layers, Counts::default());
        for (sum, other) in joined.layers.iter_mut().zip(stack.layers) {
            *sum = sum.plus(other)?;
        }
    }
    stacks.push(joined);
    Some(())
}

/// `8:0`.
pub fn device(text: &[u8]) -> Option<Device> {
    let mut numbers = text.splitn(2, |byte| *byte == b':').map(number);
    let mut next = || u32::try_from(numbers.next()??).ok();
    Some((next()?, next()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    /// Makes devices as sysfs shows them: `dev/block/8:0` leads to `block/sda`, partitions lie in their disk.
    fn machine(root: &Path) -> PathBuf {
        let numbers = root.join("numbers");
        fs::create_dir(&numbers).unwrap();
        for (path, number, slaves) in [
            ("sda", "8:0", &[][..]),
            ("sda/sda3", "8:3", &[]),
            ("sdb", "8:16", &[]),
            ("sdc", "8:32", &[]),
            ("nvme0n1", "259:0", &[]),
            ("dm-0", "253:0", &["sda/sda3"]),
            ("md127", "9:127", &["sdb", "sdc"]),
            ("dm-1", "253:1", &["md127"]),
        ] {
            let dir = root.join(path);
            fs::create_dir_all(dir.join("slaves")).unwrap();
            fs::write(dir.join("dev"), format!("{number}\n")).unwrap();
            if path.contains('/') {
                fs::write(dir.join("partition"), "3\n").unwrap();
            }
            for slave in slaves {
                symlink(root.join(slave), dir.join("slaves").join(slave.rsplit('/').next().unwrap()))
                    .unwrap();
            }
            symlink(&dir, numbers.join(number)).unwrap();
        }
        numbers
    }

    #[test]
    fn each_request_is_counted_once() {
        let tree = tempfile::tempdir().unwrap();
        let mut stacks = Stacks::new(machine(tree.path()));
        for (what, devices, expected) in [
            ("nothing", &[][..], (0, 0)),
            ("two disks", &[("8:0", 1, 2), ("259:0", 10, 20)], (11, 22)),
            ("a volume on a partition", &[("8:0", 5, 6), ("253:0", 5, 6)], (5, 6)),
            ("a volume, and a plain partition of its disk", &[("8:0", 7, 6), ("253:0", 5, 6)], (7, 6)),
            ("only the volume was charged", &[("253:0", 5, 6)], (5, 6)),
            ("three layers", &[("253:1", 8, 9), ("9:127", 8, 9), ("8:16", 4, 4), ("8:32", 4, 5)], (8, 9)),
            ("writes by the kernel's thread", &[("8:16", 4, 0), ("9:127", 8, 9), ("8:32", 4, 0)], (8, 9)),
            ("a mirror", &[("9:127", 8, 9), ("8:16", 8, 9), ("8:32", 0, 9)], (8, 18)),
            ("a stack and a disk", &[("253:0", 5, 6), ("259:0", 1, 1), ("8:0", 5, 6)], (6, 7)),
            ("the number of the device mapper, no stack", &[("253:9", 5, 6), ("8:0", 1, 1)], (6, 7)),
        ] {
            let devices: Traffic = devices
                .iter()
                .map(|(number, read, written)| {
                    (device(number.as_bytes()).unwrap(), Counts { read: *read, written: *written })
                })
                .collect();
            let total = stacks.total(&devices).unwrap();
            assert_eq!((total.read, total.written), expected, "{what}");
        }
    }

    #[test]
    fn a_sum_that_overflows_is_unknown() {
        let most = Counts { read: u64::MAX, written: 0 };
        assert_eq!(Stacks::new("/none").total(&[((8, 0), most), ((8, 16), most)]), None);
    }

    #[test]
    fn what_lies_on_what_is_asked_once() {
        let tree = tempfile::tempdir().unwrap();
        let mut stacks = Stacks::new(machine(tree.path()));
        let devices = [((253, 0), Counts::default()), ((8, 0), Counts::default())];
        stacks.total(&devices);
        let calls = stacks.calls();
        stacks.total(&devices);
        assert_eq!(stacks.calls(), calls);
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..30)) {
            let _ = device(&bytes);
        }
    }
}
