//! What a site says over its batch system: which partitions are for tests, what their nodes have, how fast nodes can be.

use record::entry::Nanos;
use record::site::{Gpus, Node, Partition, SiteData};
use serde::{Deserialize, Deserializer, de};

use crate::pattern::Pattern;
use crate::site::LONGEST;

/// The fastest machines have that many on all their nodes; on one it is a mistake.
const FLOPS_MAX: f64 = 1e18;
const CORES_MAX: u64 = 1 << 16;
const MEMORY_MAX: f64 = 1e18;
const GPUS_MAX: u64 = 1 << 10;

/// All that a site says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overrides {
    pub partitions: Vec<OfPartition>,
    /// In the order of the file: of two for one node the later counts.
    pub nodes: Vec<OfNodes>,
}

/// What a site says of a partition; what is absent stays as the batch system told it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfPartition {
    #[serde(deserialize_with = "name")]
    pub name: String,
    pub is_test: Option<bool>,
    pub has_gpus: Option<bool>,
    pub has_local_disk: Option<bool>,
    pub is_high_priority: Option<bool>,
    #[serde(default, rename = "default_time_limit_seconds", deserialize_with = "time")]
    pub default_time: Option<Nanos>,
}

/// What a site says of some nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfNodes {
    pub names: Pattern,
    /// In a second, on all cores of a node.
    #[serde(default, deserialize_with = "flops")]
    pub peak_flops: Option<u64>,
    #[serde(default, deserialize_with = "cores")]
    pub cores: Option<u64>,
    /// In bytes.
    #[serde(default, deserialize_with = "memory")]
    pub memory: Option<u64>,
    #[serde(default, deserialize_with = "gpus")]
    pub gpus: Option<u64>,
}

/// Something that a site names and its batch system does not have: a mistake, or gone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unmatched {
    #[error("there is no partition `{0}`")]
    Partition(String),
    #[error("there are no nodes `{0}`")]
    Nodes(String),
}

impl Overrides {
    /// Changes what a batch system told, and says what of this it does not have.
    pub fn apply(&self, site: &mut SiteData) -> Vec<Unmatched> {
        let partitions = self.partitions.iter().filter_map(|of| {
            let own = site.partitions.iter_mut().filter(|partition| partition.name == of.name);
            let count = own.map(|partition| of.apply(partition)).count();
            (count == 0).then(|| Unmatched::Partition(of.name.clone()))
        });
        let mut unmatched: Vec<Unmatched> = partitions.collect();
        unmatched.extend(self.nodes.iter().filter_map(|of| {
            let own = site.nodes.iter_mut().filter(|node| of.names.matches(&node.name));
            let count = own.map(|node| of.apply(node)).count();
            (count == 0).then(|| Unmatched::Nodes(of.names.to_string()))
        }));
        unmatched
    }
}

impl OfPartition {
    fn apply(&self, partition: &mut Partition) {
        partition.is_test = self.is_test.or(partition.is_test);
        partition.has_gpus = self.has_gpus.or(partition.has_gpus);
        partition.has_local_disk = self.has_local_disk.or(partition.has_local_disk);
        partition.is_high_priority = self.is_high_priority.or(partition.is_high_priority);
        partition.default_time = self.default_time.or(partition.default_time);
    }
}

impl OfNodes {
    fn apply(&self, node: &mut Node) {
        node.peak_flops = self.peak_flops.or(node.peak_flops);
        node.cores = self.cores.or(node.cores);
        node.memory = self.memory.or(node.memory);
        if let Some(count) = self.gpus {
            node.gpus = vec![Gpus { model: None, count }];
        }
    }
}

/// Partitions, each of them once.
pub(crate) fn each_once<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<OfPartition>, D::Error> {
    let all = Vec::<OfPartition>::deserialize(deserializer)?;
    let is_twice = |(at, of): &(usize, &OfPartition)| all[..*at].iter().any(|before| before.name == of.name);
    match all.iter().enumerate().find(is_twice) {
        Some((_, of)) => Err(de::Error::custom(format!("partition `{}` is there twice", of.name))),
        None => Ok(all),
    }
}

fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    if name.is_empty() { Err(de::Error::custom("name is empty")) } else { Ok(name) }
}

fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Nanos>, D::Error> {
    let seconds = f64::deserialize(deserializer)?;
    let is_time = seconds > 0.0 && seconds <= LONGEST;
    let wrong = || format!("default_time_limit_seconds is {seconds}, not between 0 and a year");
    if is_time { Ok(Some((seconds * 1e9) as Nanos)) } else { Err(de::Error::custom(wrong())) }
}

fn flops<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let flops = f64::deserialize(deserializer)?;
    let wrong = || format!("peak_flops is {flops}, not between 1 and {FLOPS_MAX:e}");
    if (1.0..=FLOPS_MAX).contains(&flops) { Ok(Some(flops as u64)) } else { Err(de::Error::custom(wrong())) }
}

fn memory<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let bytes = f64::deserialize(deserializer)?;
    let wrong = || format!("memory is {bytes}, not between 1 and {MEMORY_MAX:e} bytes");
    if (1.0..=MEMORY_MAX).contains(&bytes) { Ok(Some(bytes as u64)) } else { Err(de::Error::custom(wrong())) }
}

fn gpus<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let gpus = i64::deserialize(deserializer)?;
    let known = u64::try_from(gpus).ok().filter(|gpus| *gpus <= GPUS_MAX);
    known.map(Some).ok_or_else(|| de::Error::custom(format!("gpus is {gpus}, not between 0 and {GPUS_MAX}")))
}

fn cores<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let cores = i64::deserialize(deserializer)?;
    let known = u64::try_from(cores).ok().filter(|cores| (1..=CORES_MAX).contains(cores));
    let wrong = || de::Error::custom(format!("cores is {cores}, not between 1 and {CORES_MAX}"));
    known.map(Some).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::Site;

    const FILE: &str = r#"
[[partition]]
name = "gpu"
has_gpus = true
default_time_limit_seconds = 90

[[partition]]
name = "test"
is_test = true
has_local_disk = false

[[partition]]
name = "gone"

[[nodes]]
names = "n*"
peak_flops = 3.2e12
cores = 64

[[nodes]]
names = "n[3-4]"
peak_flops = 2000000000000
memory = 6.4e10
gpus = 0

[[nodes]]
names = "fat[1-2]"
cores = 1
"#;

    fn partition(name: &str) -> Partition {
        let default_time = Some(7);
        Partition { name: name.into(), default_time, is_test: Some(false), ..Partition::default() }
    }

    fn node(name: &str) -> Node {
        Node { name: name.into(), cores: Some(2), ..Node::default() }
    }

    #[test]
    fn what_a_site_says_counts() {
        let mut data = SiteData {
            partitions: ["gpu", "test", "other"].map(partition).to_vec(),
            nodes: ["n1", "n3", "x1"].map(node).to_vec(),
            ..SiteData::default()
        };
        let unmatched = Site::parse(FILE).unwrap().overrides.apply(&mut data);
        let said: Vec<String> = unmatched.iter().map(ToString::to_string).collect();
        assert_eq!(said, ["there is no partition `gone`", "there are no nodes `fat[1-2]`"]);
        let gpu = Partition { has_gpus: Some(true), default_time: Some(90_000_000_000), ..partition("gpu") };
        let test = Partition { is_test: Some(true), has_local_disk: Some(false), ..partition("test") };
        assert_eq!(data.partitions, [gpu, test, partition("other")]);
        let n1 = Node { peak_flops: Some(3_200_000_000_000), cores: Some(64), ..node("n1") };
        let n3 = Node {
            peak_flops: Some(2_000_000_000_000),
            cores: Some(64),
            memory: Some(64_000_000_000),
            gpus: vec![Gpus { model: None, count: 0 }],
            ..node("n3")
        };
        assert_eq!(data.nodes, [n1, n3, node("x1")]);
    }

    #[test]
    fn what_is_shipped_says_nothing() {
        let mut data = SiteData { partitions: vec![partition("a")], ..SiteData::default() };
        let before = data.clone();
        assert_eq!(Site::shipped().unwrap().overrides.apply(&mut data), []);
        assert_eq!(data, before);
    }

    /// The examples in the file that is shipped.
    #[test]
    fn the_examples_are_right() {
        let (_, examples) = crate::site::SHIPPED.split_once("tells wrongly").unwrap();
        let own = |line: &str| line.strip_prefix("#   ").map(|line| format!("{line}\n"));
        let site = Site::parse(&examples.lines().filter_map(own).collect::<String>()).unwrap();
        assert_eq!((site.overrides.partitions.len(), site.overrides.nodes.len()), (1, 1));
        assert_eq!(site.overrides.nodes[0].cores, Some(64));
    }
}
