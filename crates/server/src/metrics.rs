//! What the server counts about itself, for Prometheus.

use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use store::Applied;

/// Upper bounds of the times of transactions, in seconds.
const COMMIT_SECONDS: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// All counters.
pub struct Metrics {
    pub entries_stored: Counter,
    pub entries_duplicate: Counter,
    pub entries_unknown: Counter,
    pub batches: Counter,
    pub transactions_failed: Counter,
    pub refused_unauthorized: Counter,
    pub refused_broken: Counter,
    pub refused_too_large: Counter,
    pub refused_rate: Counter,
    pub refused_unavailable: Counter,
    pub connections: Counter,
    pub connections_evicted: Counter,
    pub readings_coarsened: Counter,
    pub readings_sorted: Counter,
    pub coarse_deleted: Counter,
    pub jobs_deleted: Counter,
    pub upkeep_failed: Counter,
    pub upkeep_seconds: Histogram,
    commit_seconds: Histogram,
    registry: Registry,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("jobglass");
        let mut counter = |name: &str, help: &str| {
            let counter: Counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let entries_stored = counter("entries_stored", "Entries of spools that are stored");
        let entries_duplicate = counter("entries_duplicate", "Entries that came again");
        let entries_unknown = counter("entries_unknown", "Entries of newer agents, kept as they are");
        let batches = counter("batches", "Batches that were acknowledged");
        let transactions_failed = counter("transactions_failed", "Transactions that failed");
        let refused_unauthorized = counter("refused_unauthorized", "Requests without a good token");
        let refused_broken = counter("refused_broken", "Batches that could not be read");
        let refused_too_large = counter("refused_too_large", "Requests above the limits of size");
        let refused_rate = counter("refused_rate", "Batches above the rate of a host");
        let refused_unavailable =
            counter("refused_unavailable", "Batches refused because nothing could be stored");
        let connections = counter("connections", "Connections accepted");
        let connections_evicted = counter("connections_evicted", "Idle connections closed to make room");
        let readings_coarsened =
            counter("readings_coarsened", "Readings that were put together when they were old");
        let readings_sorted = counter("readings_sorted", "Readings that were put into order on disk");
        let coarse_deleted = counter("coarse_deleted", "Rows of coarse readings that were too old");
        let jobs_deleted = counter("jobs_deleted", "Rows of jobs that were too old");
        let upkeep_failed = counter("upkeep_failed", "Rounds of upkeep that ended with an error");
        let upkeep_seconds = Histogram::new(COMMIT_SECONDS);
        registry.register("upkeep_seconds", "Time of a step of upkeep", upkeep_seconds.clone());
        let commit_seconds = Histogram::new(COMMIT_SECONDS);
        registry.register("commit_seconds", "Time of a transaction", commit_seconds.clone());
        Metrics {
            entries_stored,
            entries_duplicate,
            entries_unknown,
            batches,
            transactions_failed,
            refused_unauthorized,
            refused_broken,
            refused_too_large,
            refused_rate,
            refused_unavailable,
            connections,
            connections_evicted,
            readings_coarsened,
            readings_sorted,
            coarse_deleted,
            jobs_deleted,
            upkeep_failed,
            upkeep_seconds,
            commit_seconds,
            registry,
        }
    }
}

impl Metrics {
    pub fn committed(&self, applied: &[Applied], took: Duration) {
        for batch in applied {
            self.entries_stored.inc_by(batch.stored);
            self.entries_duplicate.inc_by(batch.duplicate);
            self.entries_unknown.inc_by(batch.unknown);
            self.batches.inc();
        }
        self.commit_seconds.observe(took.as_secs_f64());
    }

    /// The text that Prometheus reads.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing into a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
