//! Starts the server, and stops it in good order.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use store::{Limits, Rules, Site, Store};
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::app::{App, Bodies, places_for_decoders, places_for_hosts, router};
use crate::committer::Committer;
use crate::connections::Front;
use crate::control::Control;
use crate::data::DataDir;
use crate::deliver;
use crate::enroll::Enrolling;
use crate::ingest::IngestLimits;
use crate::job_rates::JobRates;
use crate::judging;
use crate::keep::Keep;
use crate::login;
use crate::metrics::Metrics;
use crate::rate::{Rates, Share};
use crate::readers::{Questions, Readers};
use crate::retention;
use crate::rules_watch;
use crate::settings::Wishes;
use crate::summaries;
use crate::tls::Tls;
use crate::token_file;
use crate::tokens::Tokens;
use crate::writing;

/// How a server runs.
#[derive(Debug, Clone)]
pub struct Options {
    pub data: PathBuf,
    pub listen: SocketAddr,
    /// Certificate and key.
    pub tls: Option<(PathBuf, PathBuf)>,
    pub memory_mb: u64,
    pub least_free_mb: u64,
    pub connections: usize,
    pub share: Share,
    pub keep: Keep,
    /// Rules about environments, instead of those that are shipped.
    pub environment_rules: Option<PathBuf>,
    /// What the site says of itself, instead of the file in the data directory.
    pub site: Option<PathBuf>,
    /// Threads of the database.
    pub threads: Option<u16>,
    /// How much may be asked at the same time, and for how long.
    pub questions: Questions,
    /// Where users of this machine have a token from.
    pub login_socket: Option<PathBuf>,
}

/// A site's own file in the data directory.
pub const SITE: &str = "site.toml";

/// Serves until SIGTERM or SIGINT.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let rules = read_rules(options.environment_rules.as_deref())?;
    let site = read_site(options)?;
    let data = DataDir::open(&options.data)?;
    let limits = Limits { memory_mb: options.memory_mb, threads: threads(options) };
    let store = Store::open(&data.path, &limits)
        .with_context(|| format!("cannot open the store in {}", data.path.display()))?;
    let store = Arc::new(store.with_site(site));
    let metrics = Arc::new(Metrics::default());
    let writer = store.writer().context("cannot read what the store knows")?;
    let catalogue = writer.catalogue();
    for refused in &store.tags().refused {
        tracing::warn!("a tag cannot be declared: {refused}");
    }
    let (committer, committing) =
        Committer::start(writer, &data.path, options.least_free_mb, metrics.clone())?;
    Control::start(&store, &data.path, committer.clone())
        .with_context(|| format!("cannot listen in {}", data.path.display()))?;
    if let Some(path) = &options.login_socket {
        login::start(path, &data.path).with_context(|| format!("cannot listen at {}", path.display()))?;
    }
    retention::start(options.keep, committer.clone(), metrics.clone())?;
    let summaries = summaries::start(store.reader()?, committer.clone())?;
    let judging = judging::start(committer.clone())?;
    let rules_watch = rules_watch::start(site_path(options), store.clone(), committer.clone())?;
    let tokens = Tokens::open(&data.path)?;
    let token_uses = tokens.uses.clone().start_keeping()?;
    let enrolling = Enrolling::start(data.path.join(token_file::FILE))?;
    let tls =
        options.tls.as_ref().map(|(certificate, key)| Tls::open(certificate, key)).transpose()?.map(Arc::new);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        let listener =
            listen(options.listen).with_context(|| format!("cannot listen at {}", options.listen))?;
        let app = Arc::new(App {
            tokens,
            enrolling,
            limits: IngestLimits::default(),
            rates: Rates::new(options.share),
            committer,
            catalogue,
            metrics: metrics.clone(),
            bodies: Bodies::default(),
            decoders: places_for_decoders(),
            hosts: places_for_hosts(),
            readers: Arc::new(Readers::new(store.clone(), options.questions)),
            changes: writing::places(),
            answers: deliver::room(),
            wishes: Wishes::open(&data.path),
            job_rates: JobRates::open(&data.path),
            rules,
        });
        let front = Front { listener, tls, router: router(app), metrics, most: options.connections };
        let address = front.listener.local_addr()?;
        tracing::info!(%address, data = %data.path.display(), version = env!("CARGO_PKG_VERSION"), "ready");
        front.serve(stop_signal()?).await;
        anyhow::Ok(())
    });
    // Requests that did not end in time are dropped here.
    runtime.shutdown_timeout(Duration::from_secs(1));
    token_uses.stop();
    rules_watch.stop();
    judging.stop();
    summaries.stop();
    committing.stop();
    drop(store);
    tracing::info!("stopped");
    served
}

/// Whatever somebody asks leaves room for those who send.
fn threads(options: &Options) -> u64 {
    let cores = std::thread::available_parallelism().map_or(2, usize::from) as u64;
    options.threads.map_or((cores / 2).clamp(2, 16), u64::from)
}

fn read_rules(file: Option<&Path>) -> anyhow::Result<Rules> {
    let Some(path) = file else { return Rules::shipped().map_err(anyhow::Error::msg) };
    Rules::parse(&read_text(path)?).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))
}

/// The file that was named must be there; the one in the data directory may be.
fn read_site(options: &Options) -> anyhow::Result<Site> {
    let path = site_path(options);
    if options.site.is_none() && !path.exists() {
        return Ok(Site::shipped()?);
    }
    Site::parse(&read_text(&path)?).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))
}

fn site_path(options: &Options) -> PathBuf {
    options.site.clone().unwrap_or_else(|| options.data.join(SITE))
}

fn read_text(path: &Path) -> anyhow::Result<String> {
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    String::from_utf8(text).with_context(|| format!("{} is not text", path.display()))
}

/// All nodes may come at once, after the server was away; whoever finds the queue full is told nothing and tries again after
/// seconds, then minutes. The kernel takes less if `net.core.somaxconn` is lower.
const WAITING: u32 = 16_384;

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A server that starts again takes the place of the one before, whose connections may linger.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(WAITING)
}

/// Becomes true at SIGTERM or SIGINT.
fn stop_signal() -> anyhow::Result<watch::Receiver<bool>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let (send, stop) = watch::channel(false);
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        let _ = send.send(true);
        // Kept until the end: a dropped sender looks like a stop, too.
        send.closed().await;
    });
    Ok(stop)
}
