//! Shares of all cores of hosts of which nobody has said yet how many cores they have: gmond tells it every twenty minutes, and
//! some collectors tell a total before its parts. They wait, within bounds of each host and of all.

use std::collections::{HashMap, VecDeque};

use super::mapper::Point;

/// Cluster and name.
pub type Host = (Option<String>, String);

/// Twenty minutes of eight states, each every twenty seconds.
const OF_ONE: usize = 512;
/// A hundred megabytes.
const OF_ALL: u64 = 500_000;

#[derive(Default)]
pub struct Shares {
    hosts: HashMap<Host, VecDeque<Point>>,
    waiting: u64,
    dropped: u64,
}

impl Shares {
    /// Keeps a point that is of one core. Where there is no room, the oldest of its host goes, or it stays out itself.
    pub fn wait(&mut self, host: Host, point: Point) {
        let is_full = self.waiting >= OF_ALL;
        if is_full && !self.hosts.contains_key(&host) {
            self.dropped += 1;
            return;
        }
        let all = self.hosts.entry(host).or_default();
        if is_full || all.len() >= OF_ONE {
            all.pop_front();
            self.waiting -= 1;
            self.dropped += 1;
        }
        // What names the host is kept once.
        all.push_back(Point { host: String::new(), cluster: None, ..point });
        self.waiting += 1;
    }

    /// All of a host that has so many cores.
    pub fn of(&mut self, host: &Host, cores: f64) -> Vec<Point> {
        let all = self.hosts.remove(host).unwrap_or_default();
        self.waiting -= all.len() as u64;
        let (cluster, name) = host;
        let whole = |point: Point| Point {
            host: name.clone(),
            cluster: cluster.clone(),
            amount: point.amount.times(cores),
            ..point
        };
        all.into_iter().map(whole).collect()
    }

    pub fn hosts(&self) -> Vec<Host> {
        self.hosts.keys().cloned().collect()
    }

    pub fn waiting(&self) -> u64 {
        self.waiting
    }

    /// How many had to go to make room.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}
