//! What other monitoring systems measure, as long as they do: readings become our metrics, and go to the server every second.
//!
//! * `feed`: from readings to series; what gives none is counted by reason.
//! * `deliver`: series on their way, kept while the server is away.
//! * `ganglia`, `collectd`, `influx`: where readings come from.
//! * `udp`, `http` with `request`: how they come; `gate`: from whom.

mod collectd;
mod deliver;
mod feed;
mod ganglia;
mod gate;
mod http;
mod influx;
mod request;
mod udp;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use import::mapping::Table;
use jiff::Timestamp;
use record::entry::Nanos;

use super::stop::Stop;
use crate::args::MonitorArgs;
use crate::ask;
use deliver::Deliver;
use feed::Feed;

pub use collectd::run as collectd;
pub use ganglia::run as ganglia;
pub use gate::{Prefix, listen_address};
pub use influx::run as influx;

/// How often series go to the server.
const EVERY: Duration = Duration::from_secs(1);
/// How often it is said how many there were.
const SAY_EVERY: Duration = Duration::from_secs(600);

/// A feed that several sources fill.
type Shared = Arc<Mutex<Feed>>;

fn lock(feed: &Shared) -> MutexGuard<'_, Feed> {
    feed.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now() -> Nanos {
    u64::try_from(Timestamp::now().as_nanosecond()).unwrap_or(0)
}

/// The feed with the mapping that is shipped, and the site's own.
fn open(args: &MonitorArgs, every: Duration) -> Result<Shared> {
    let mut table = Table::shipped()?;
    for path in &args.mapping {
        let name = path.display().to_string();
        let text = std::fs::read(path).with_context(|| format!("cannot read {name}"))?;
        table.add(&String::from_utf8_lossy(&text), &name)?;
    }
    let feed = Feed::new(table, args.cluster.clone(), args.full_names, every);
    Ok(Arc::new(Mutex::new(feed)))
}

/// Runs a source on a thread of its own; one that ends ends all.
fn spawn(
    name: &str,
    stop: &Stop,
    source: impl FnOnce() -> Result<()> + Send + 'static,
) -> Result<JoinHandle<Result<()>>> {
    let stop = stop.clone();
    let work = move || {
        let outcome = source();
        if outcome.is_err() {
            stop.set();
        }
        outcome
    };
    Ok(thread::Builder::new().name(name.into()).spawn(work)?)
}

/// Brings series to the server until it is to stop, or until the sources have ended; says whether all was understood and stored.
fn serve(
    args: &MonitorArgs,
    feed: &Shared,
    stop: &Stop,
    sources: Vec<JoinHandle<Result<()>>>,
) -> Result<bool> {
    let mut deliver = Deliver::new(ask::server(&args.server)?);
    let mut said = Instant::now();
    while !stop.is_set() && !sources.iter().all(JoinHandle::is_finished) {
        stop.wait(EVERY);
        deliver.take(lock(feed).flush());
        if said.elapsed() >= SAY_EVERY {
            said = Instant::now();
            say!("jobglass: {}; {}", lock(feed).said(), deliver.said());
        }
    }
    stop.set();
    let mut failed = None;
    for source in sources {
        if let Ok(Err(error)) = source.join() {
            failed.get_or_insert(error);
        }
    }
    // No more parts come, whoever has ended it.
    lock(feed).finish();
    deliver.take(lock(feed).flush());
    deliver.finish();
    say!("jobglass: {}; {}", lock(feed).said(), deliver.said());
    failed.map_or(Ok(deliver.is_whole() && !lock(feed).has_dropped()), Err)
}
