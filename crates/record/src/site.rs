//! What a batch system says of the machine: partitions, nodes, who may use them, and how it is configured.
//!
//! Encoded like [`crate::entry`]: arrays by field number, absent means unknown. Durations are nanoseconds, memory and
//! disks are in bytes.

use minicbor::{Decode, Encode};

use crate::accounting::{TimeLimit, Tres};
use crate::entry::Nanos;

/// One cluster at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct SiteData {
    #[n(0)]
    pub cluster: Option<String>,
    #[n(1)]
    #[cbor(default)]
    pub partitions: Vec<Partition>,
    #[n(2)]
    #[cbor(default)]
    pub nodes: Vec<Node>,
    #[n(3)]
    #[cbor(default)]
    pub associations: Vec<Association>,
    #[n(4)]
    pub config: Option<Config>,
}

/// Nodes that jobs are sent to together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Partition {
    #[n(0)]
    pub name: String,
    /// Folded as the batch system writes it, `n[01-04]`; absent if it has none.
    #[n(1)]
    pub nodes: Option<String>,
    #[n(2)]
    pub node_count: Option<u64>,
    #[n(3)]
    pub cpus: Option<u64>,
    /// What a job gets that asks for nothing; without it, the longest.
    #[n(4)]
    pub default_time: Option<Nanos>,
    #[n(5)]
    pub max_time: Option<TimeLimit>,
    /// Where jobs go that name no partition.
    #[n(6)]
    pub is_default: Option<bool>,
    /// `UP`, `DOWN`, `DRAIN` or `INACTIVE`.
    #[n(7)]
    pub state: Option<String>,
    #[n(8)]
    pub qos: Option<String>,
    /// Absent if all may, or nobody said.
    #[n(9)]
    pub allow_accounts: Option<Vec<String>>,
    #[n(10)]
    #[cbor(default)]
    pub tres: Vec<Tres>,
    /// For trying things out. Only a site itself knows this, and the next three.
    #[n(11)]
    pub is_test: Option<bool>,
    #[n(12)]
    pub has_gpus: Option<bool>,
    #[n(13)]
    pub has_local_disk: Option<bool>,
    /// Whose jobs go before others.
    #[n(14)]
    pub is_high_priority: Option<bool>,
}

/// One node as it is configured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Node {
    #[n(0)]
    pub name: String,
    #[n(1)]
    pub arch: Option<String>,
    #[n(2)]
    pub os: Option<String>,
    #[n(3)]
    pub sockets: Option<u64>,
    #[n(4)]
    pub cores_per_socket: Option<u64>,
    #[n(5)]
    pub threads_per_core: Option<u64>,
    /// What the batch system counts: hardware threads, or cores where it was told so.
    #[n(6)]
    pub cpus: Option<u64>,
    /// On all sockets.
    #[n(7)]
    pub cores: Option<u64>,
    #[n(8)]
    pub memory: Option<u64>,
    #[n(9)]
    pub tmp_disk: Option<u64>,
    /// Generic resources as they are written: `gpu:a100:4(S:0-1)`.
    #[n(10)]
    pub gres: Option<String>,
    #[n(11)]
    #[cbor(default)]
    pub gpus: Vec<Gpus>,
    #[n(12)]
    #[cbor(default)]
    pub features: Vec<String>,
    #[n(13)]
    #[cbor(default)]
    pub partitions: Vec<String>,
    /// With all that is added to it: `IDLE+DRAIN`, `DOWN*`.
    #[n(14)]
    pub state: Option<String>,
    /// Nodes with less are given out first.
    #[n(15)]
    pub weight: Option<u64>,
    /// Of the batch system's daemon there.
    #[n(16)]
    pub version: Option<String>,
    /// Floating point operations in a second at most. Only a site itself knows it.
    #[n(17)]
    pub peak_flops: Option<u64>,
}

/// GPUs of one model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Gpus {
    #[n(0)]
    pub model: Option<String>,
    #[n(1)]
    pub count: u64,
}

/// An account on a cluster, or a user in an account.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Association {
    #[n(0)]
    pub cluster: String,
    #[n(1)]
    pub account: String,
    /// Absent if this is the account itself.
    #[n(2)]
    pub user: Option<String>,
    /// The account above; only accounts have one.
    #[n(3)]
    pub parent: Option<String>,
    /// Where it holds for one partition only.
    #[n(4)]
    pub partition: Option<String>,
    #[n(5)]
    pub default_qos: Option<String>,
    #[n(6)]
    #[cbor(default)]
    pub qos: Vec<String>,
    /// Whether the user's jobs are in this account unless they say otherwise; only users have it.
    #[n(7)]
    pub is_default: Option<bool>,
    /// Who may see and change all that is in the account, also by way of the account above; only accounts have them.
    #[n(8)]
    pub coordinators: Option<Vec<String>>,
}

/// What of the configuration decides what can be known of jobs. A list that is empty was told to be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Config {
    #[n(0)]
    pub cluster: Option<String>,
    #[n(1)]
    pub version: Option<String>,
    /// What the accounting keeps: `job_comment`, `job_env`, `job_extra`, `job_script`.
    #[n(2)]
    pub store_flags: Option<Vec<String>>,
    #[n(3)]
    pub gather_type: Option<String>,
    #[n(4)]
    pub task_plugins: Option<Vec<String>>,
    /// How long a job can be asked about after its end; zero is always.
    #[n(5)]
    pub min_job_age: Option<Nanos>,
}

/// A cluster as a monitoring system describes it, kept as it is for the way back: ClusterCockpit's `cluster.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Description {
    #[n(0)]
    pub cluster: String,
    #[n(1)]
    pub text: String,
}

impl Node {
    /// How many GPUs of all models; unknown if nobody named any.
    pub fn gpu_count(&self) -> Option<u64> {
        self.gpus.iter().map(|gpus| gpus.count).reduce(u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn gpus(model: &str, count: u64) -> Gpus {
        Gpus { model: Some(model.into()), count }
    }

    fn whole() -> SiteData {
        let partition = Partition {
            name: "gpu".into(),
            nodes: Some("n[1-2]".into()),
            max_time: Some(TimeLimit::Unlimited),
            allow_accounts: Some(vec!["physics".into()]),
            tres: vec![Tres { kind: "cpu".into(), name: None, count: 4 }],
            has_local_disk: Some(false),
            ..Partition::default()
        };
        let node = Node {
            name: "n1".into(),
            gpus: vec![gpus("a100", 2), Gpus { model: None, count: 1 }],
            peak_flops: Some(19_500_000_000_000),
            ..Node::default()
        };
        let association = Association {
            cluster: "deep".into(),
            account: "physics".into(),
            coordinators: Some(vec![]),
            ..Association::default()
        };
        let config = Config { store_flags: Some(vec![]), min_job_age: Some(0), ..Config::default() };
        SiteData {
            cluster: Some("deep".into()),
            partitions: vec![partition],
            nodes: vec![node],
            associations: vec![association],
            config: Some(config),
        }
    }

    #[test]
    fn a_record_survives_the_way() {
        for site in [whole(), SiteData::default()] {
            let back: SiteData = minicbor::decode(&minicbor::to_vec(&site).unwrap()).unwrap();
            assert_eq!(back, site);
        }
    }

    #[test]
    fn gpus_of_all_models() {
        for (models, expected) in [(vec![], None), (vec![gpus("a", 2), gpus("b", 1)], Some(3))] {
            assert_eq!(Node { gpus: models, ..Node::default() }.gpu_count(), expected);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_decode_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = minicbor::decode::<SiteData>(&bytes);
        }
    }
}
