//! What other systems measured: series of nodes, and what they say of whole jobs.
//!
//! Encoded like [`crate::entry`]: arrays by field number, absent means unknown.

use minicbor::{Decode, Encode};

use crate::accounting::Accounting;
use crate::entry::Nanos;

/// A request to a server has at most so many values, of all its series together.
pub const VALUES_MAX: u64 = 200_000;

/// What ClusterCockpit measures by, from the whole to the smallest, in its order, which has accelerators last.
pub const SCOPES: [&str; 7] = ["node", "socket", "die", "memoryDomain", "core", "hwthread", "accelerator"];

/// Which scope a part of a node is of: `core` of `core 3`. Parts that have names of their own, as `gpu0`, are of none.
pub fn scope_of(part: &str) -> Option<&str> {
    let word = part.split(' ').next()?;
    (word.len() < part.len() || SCOPES.contains(&word)).then_some(word)
}

/// What was measured in some time, and of which jobs something is known as a whole.
#[derive(Debug, Clone, Default, PartialEq, Encode, Decode)]
pub struct Measures {
    #[n(0)]
    #[cbor(default)]
    pub series: Vec<Series>,
    #[n(1)]
    #[cbor(default)]
    pub told: Vec<Told>,
}

/// One metric on one node.
#[derive(Debug, Clone, Default, PartialEq, Encode, Decode)]
pub struct Series {
    #[n(0)]
    pub cluster: Option<String>,
    #[n(1)]
    pub host: String,
    #[n(2)]
    pub metric: Name,
    /// As the source writes it, where the metric is not one of ours.
    #[n(3)]
    pub unit: Option<String>,
    /// A GPU, a socket or a core of the node; absent is all of it.
    #[n(4)]
    pub part: Option<String>,
    /// Of this job only; absent is whatever ran there.
    #[n(5)]
    pub job: Option<Job>,
    /// How long it is from one value to the next.
    #[n(6)]
    pub every: Nanos,
    #[n(7)]
    #[cbor(default)]
    pub points: Vec<Point>,
}

/// What a metric is called.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub enum Name {
    /// One of the catalogue, in its unit; a counter as its rate.
    #[n(0)]
    Ours(#[n(0)] String),
    /// One that only others have.
    #[n(1)]
    Own(#[n(0)] String),
}

impl Name {
    pub fn text(&self) -> &str {
        match self {
            Name::Ours(name) | Name::Own(name) => name,
        }
    }
}

impl Default for Name {
    fn default() -> Self {
        Name::Own(String::new())
    }
}

/// A job as its records are found again.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct Job {
    #[n(0)]
    pub cluster: Option<String>,
    #[n(1)]
    pub number: String,
    #[n(2)]
    pub submit: Option<Nanos>,
    /// Where nobody knows when it was submitted.
    #[n(3)]
    pub start: Option<Nanos>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Encode, Decode)]
pub struct Point {
    /// When it was read; it is of the time before that.
    #[n(0)]
    pub time: Nanos,
    /// Never infinite, nor no number.
    #[n(1)]
    pub value: f64,
}

/// A metric of a whole job, as another system computed it.
#[derive(Debug, Clone, Default, PartialEq, Encode, Decode)]
pub struct Told {
    #[n(0)]
    pub job: Job,
    #[n(1)]
    pub metric: Name,
    #[n(2)]
    pub unit: Option<String>,
    #[n(3)]
    pub min: Option<f64>,
    #[n(4)]
    pub max: Option<f64>,
    #[n(5)]
    pub avg: Option<f64>,
    #[n(6)]
    pub median: Option<f64>,
}

/// A job with what was measured of it, for those who take it elsewhere.
#[derive(Debug, Clone, Default, PartialEq, Encode, Decode)]
pub struct Exported {
    /// To ask for those behind it.
    #[n(0)]
    pub id: u64,
    #[n(1)]
    pub job: Accounting,
    #[n(2)]
    pub measures: Measures,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_scopes() {
        for (part, scope) in [
            ("core 3", Some("core")),
            ("socket", Some("socket")),
            ("node #1", Some("node")),
            ("tomorrow a b", Some("tomorrow")),
            ("gpu0", None),
            ("", None),
        ] {
            assert_eq!(scope_of(part), scope, "{part}");
        }
    }

    #[test]
    fn measures_survive_the_way() {
        let job = Job { cluster: Some("a".into()), number: "7".into(), submit: None, start: Some(3) };
        let series = Series {
            host: "n1".into(),
            metric: Name::Ours("node_load".into()),
            part: Some("gpu0".into()),
            job: Some(job.clone()),
            every: 60,
            points: vec![Point { time: 1, value: -0.5 }],
            ..Series::default()
        };
        let told = Told { job, avg: Some(0.1), ..Told::default() };
        let all = Measures { series: vec![series], told: vec![told] };
        let back: Measures = minicbor::decode(&minicbor::to_vec(&all).unwrap()).unwrap();
        assert_eq!(back, all);
    }
}
