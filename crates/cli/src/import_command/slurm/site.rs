//! What Slurm says of its machine: partitions, nodes, accounts and users, to the server as a whole.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use import::Problem;
use import::slurm::association::{self, ACCOUNTS, ASSOCIATIONS, USERS};
use import::slurm::site;
use record::site::{Association, SiteData};

use super::super::progress::Progress;
use super::super::report::Report;
use super::super::stop::Stop;
use super::command;
use super::say;
use crate::args::ImportSlurmArgs;
use crate::ask::{self, Server};

const LIMIT: Duration = Duration::from_secs(120);
/// It changes seldom.
const EVERY: Duration = Duration::from_secs(86_400);
/// After a failure.
const SOONER: Duration = Duration::from_secs(600);

/// `jobglass import slurm --site`: once.
pub fn run(args: &ImportSlurmArgs) -> Result<bool> {
    let server = ask::server(&args.server)?;
    let mut report = Report::new(args.rejects.rejects.clone());
    tell(&server, args.clusters.as_deref(), &Stop::default(), &mut report)?;
    report.finish()
}

/// When it was told last, and when it is due again.
pub struct Daily {
    clusters: Option<String>,
    next: Instant,
}

impl Daily {
    /// Due at once.
    pub fn new(clusters: Option<String>) -> Daily {
        Daily { clusters, next: Instant::now() }
    }

    /// Tells it if it is due; that it could not be done is said, and it is tried again.
    pub fn tell(&mut self, server: &Server, stop: &Stop, report: &mut Report) {
        if Instant::now() < self.next {
            return;
        }
        let told = tell(server, self.clusters.as_deref(), stop, report);
        self.next = Instant::now() + if told.is_ok() { EVERY } else { SOONER };
        if let Err(error) = told
            && !stop.is_set()
        {
            say(format_args!(
                "{error:#}; what Slurm says of its machine is asked for again in {} minutes",
                SOONER.as_secs() / 60
            ));
        }
    }
}

/// Of the cluster of this machine, or of those that are named.
fn tell(server: &Server, clusters: Option<&str>, stop: &Stop, report: &mut Report) -> Result<()> {
    let associations = associations(stop, report)?;
    let named = clusters.filter(|clusters| *clusters != "all");
    for cluster in named.map_or(vec![None], |clusters| clusters.split(',').map(Some).collect()) {
        let mut data = machine(cluster, stop, report)?;
        let is_own = |of: &&Association| Some(&of.cluster) == data.cluster.as_ref();
        data.associations = associations.iter().filter(is_own).cloned().collect();
        let body = minicbor::to_vec(&data).context("what Slurm says of its machine cannot be written")?;
        server.put_cbor("/api/v1/site", &body).or_else(|error| bail!(error.why))?;
        say(format_args!(
            "cluster {}: {} partitions, {} nodes, {} accounts and users",
            data.cluster.as_deref().unwrap_or("?"),
            data.partitions.len(),
            data.nodes.len(),
            data.associations.len()
        ));
    }
    Ok(())
}

/// Partitions and nodes. A machine without any is one that did not answer: it does not take the place of what is known.
fn machine(cluster: Option<&str>, stop: &Stop, report: &mut Report) -> Result<SiteData> {
    let ask = |what: &[&str]| {
        let cluster = cluster.map(|cluster| format!("--clusters={cluster}"));
        let arguments: Vec<&str> = cluster.as_deref().into_iter().chain(what.iter().copied()).collect();
        text("scontrol", &arguments, stop)
    };
    let (config, partitions, nodes) =
        (ask(&["show", "config"])?, ask(&["-o", "show", "partition"])?, ask(&["-o", "show", "node"])?);
    let progress = Progress::none();
    let mut take = |problem: Problem<'_>| report.take(&problem, &progress);
    let config = site::config(&config, "scontrol show config", &mut take);
    let data = SiteData {
        cluster: config.cluster.clone().or(cluster.map(str::to_owned)),
        partitions: site::partitions(&partitions, "scontrol show partition", &mut take),
        nodes: site::nodes(&nodes, "scontrol show node", &mut take),
        associations: Vec::new(),
        config: Some(config),
    };
    ensure!(data.cluster.is_some(), "scontrol show config names no cluster");
    ensure!(!data.nodes.is_empty(), "scontrol show node names no node");
    Ok(data)
}

/// Accounts and users of all clusters.
fn associations(stop: &Stop, report: &mut Report) -> Result<Vec<Association>> {
    let ask = |what: &[&str], format: &str| {
        let format = format!("format={format}");
        text("sacctmgr", &[&["-n", "-P", "show"], what, &[&*format]].concat(), stop)
    };
    let (all, users, accounts) = (
        ask(&["associations"], ASSOCIATIONS)?,
        ask(&["user", "withcoord"], USERS)?,
        ask(&["account", "withcoord"], ACCOUNTS)?,
    );
    let progress = Progress::none();
    let mut take = |problem: Problem<'_>| report.take(&problem, &progress);
    let mut all = association::associations(&all, "sacctmgr show associations", &mut take);
    let users = association::users(&users, "sacctmgr show user", &mut take);
    let accounts = association::accounts(&accounts, "sacctmgr show account", &mut take);
    association::join(&mut all, &users, &accounts);
    Ok(all)
}

fn text(program: &str, arguments: &[&str], stop: &Stop) -> Result<Vec<u8>> {
    let mut command = command::slurm(program);
    command.args(arguments);
    Ok(command::text(command, LIMIT, stop)?.value)
}
