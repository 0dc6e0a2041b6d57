//! `jobglass import`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Subcommand};

use super::ServerArgs;
use super::delimiter::Delimiter;
use crate::ask::when;
use crate::import_command::{Prefix, listen_address};

#[derive(Debug, Subcommand)]
pub enum ImportCommand {
    Slurm(Box<ImportSlurmArgs>),
    Cleo(ImportCleoArgs),
    #[command(name = "clustercockpit")]
    ClusterCockpit(ImportClusterCockpitArgs),
    Ganglia(ImportGangliaArgs),
    Collectd(ImportCollectdArgs),
    Influx(ImportInfluxArgs),
}

/// Import jobs that Cleo has kept
///
/// The short log (cleo-short.log), or rows of jobs with semicolons between the fields. Exit code 0, 1 if something could not be read,
/// 2 for an error.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  jobglass import cleo --log /var/log/cleo-short.log \\
    --cluster lomonosov --time-zone Europe/Moscow
  jobglass import cleo --rows jobs.csv --cluster lomonosov")]
pub struct ImportCleoArgs {
    /// The short log; - is standard input
    #[arg(long, value_name = "FILE", required_unless_present = "rows")]
    pub log: Vec<PathBuf>,
    /// Rows of jobs: id;user;command;workdir;queue;t_submit;t_start;t_end;node:cpu,…;ncores;timelimit;state
    #[arg(long, value_name = "FILE")]
    pub rows: Vec<PathBuf>,
    /// The zone of the log's times, such as Europe/Moscow or UTC [default: that of this machine]
    #[arg(long, value_name = "ZONE")]
    pub time_zone: Option<String>,
    /// The cluster
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    /// Keep lines that could not be read as they are in this file [default: jobglass-rejects.txt]
    #[arg(long, value_name = "FILE", help_heading = "Problems")]
    pub rejects: Option<PathBuf>,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// From whom values are taken
#[derive(Debug, Clone, clap::Args)]
pub struct SenderArgs {
    /// Take values only from this address or prefix (10.1.0.0/16); may be given more than once
    #[arg(long, value_name = "ADDRESS[/BITS]", help_heading = "Senders")]
    pub allow: Vec<Prefix>,
}

/// What all monitoring systems have in common
#[derive(Debug, Clone, clap::Args)]
pub struct MonitorArgs {
    /// More rows of the table that says which of their names is which metric of ours
    #[arg(long, value_name = "FILE", help_heading = "Names")]
    pub mapping: Vec<PathBuf>,
    /// The cluster, where several have nodes of the same name
    #[arg(long, value_name = "NAME", help_heading = "Names")]
    pub cluster: Option<String>,
    /// Keep the domain in the names of nodes: the batch system calls them so
    #[arg(long, help_heading = "Names")]
    pub full_names: bool,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Take in what Ganglia measures, as long as it runs
///
/// Asks gmond (8649) or gmetad (8651; 8652 with --query) for the state of all nodes, and listens to the packets of gmond and gmetric.
/// Values are bound to the jobs that ran on a node at the time. Runs until SIGTERM or Ctrl-C.
/// Exit code 0, 1 if something was no reading or could not be stored, 2 for an error.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  jobglass import ganglia --poll gmetad.example:8651 --every 15
  jobglass import ganglia --listen 239.2.11.71:8649 --allow 10.1.0.0/16
  jobglass import ganglia --poll localhost:8649 --once")]
pub struct ImportGangliaArgs {
    /// Ask this gmond or gmetad
    #[arg(long, value_name = "HOST:PORT")]
    pub poll: Vec<String>,
    /// What to ask gmetad's interactive port for: /CLUSTER, /CLUSTER/HOST
    #[arg(long, value_name = "PATH", requires = "poll")]
    pub query: Option<String>,
    /// Seconds from one question to the next
    #[arg(long, value_name = "S", default_value_t = 15.0, value_parser = super::parse_interval)]
    pub every: f64,
    /// Ask once, and end
    #[arg(long, requires = "poll", conflicts_with = "listen")]
    pub once: bool,
    /// Listen to packets here, on loopback if there is no address; with the address of a group, as a member of it
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = listen_address)]
    pub listen: Option<SocketAddr>,
    #[command(flatten)]
    pub senders: SenderArgs,
    #[command(flatten)]
    pub monitor: MonitorArgs,
}

/// Take in what collectd measures, as long as it runs
///
/// Listens to packets of its plugin network, plain, signed or encrypted, and to posts of its plugin write_http (JSON); reads the files
/// of its plugin csv. Values are bound to the jobs that ran on a node at the time. Runs until SIGTERM or Ctrl-C, or until all files are read.
/// Exit code 0, 1 if something was no reading or could not be stored, 2 for an error.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  jobglass import collectd --listen 0.0.0.0:25826 --allow 10.1.0.0/16
  jobglass import collectd --listen 0.0.0.0:25826 \\
    --security encrypt --auth-file /etc/collectd/passwd
  jobglass import collectd --http 8094
  jobglass import collectd --csv /var/lib/collectd/csv")]
pub struct ImportCollectdArgs {
    /// Listen to packets here, on loopback if there is no address; with the address of a group, as a member of it
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = listen_address)]
    pub listen: Option<SocketAddr>,
    /// What packets must be; what is less is dropped and counted
    #[arg(long, value_enum, default_value_t = CollectdSecurity::None)]
    pub security: CollectdSecurity,
    /// Users and passwords, as collectd's AuthFile has them
    #[arg(long, value_name = "FILE")]
    pub auth_file: Option<PathBuf>,
    /// A site's own types; those of collectd's types.db 5.12 and later are known
    #[arg(long, value_name = "FILE")]
    pub types_db: Vec<PathBuf>,
    /// Take posts of write_http here, on loopback if there is no address
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = listen_address)]
    pub http: Option<SocketAddr>,
    /// Posts must have the token in this file: Authorization: Token … or Bearer …
    #[arg(long, value_name = "FILE", requires = "http", help_heading = "Senders")]
    pub http_token_file: Option<PathBuf>,
    /// Read the files of the plugin csv
    #[arg(long, value_name = "DIR")]
    pub csv: Option<PathBuf>,
    /// Posts and files have rates instead of counters (StoreRates true)
    #[arg(long)]
    pub rates: bool,
    #[command(flatten)]
    pub senders: SenderArgs,
    #[command(flatten)]
    pub monitor: MonitorArgs,
}

/// What a packet of collectd must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum CollectdSecurity {
    None,
    Sign,
    Encrypt,
}

/// Take in InfluxDB's line protocol, as Telegraf, cc-metric-collector, Clustrx and DiMMon speak it
///
/// A line is MEASUREMENT,hostname=NODE[,tag=value…] field=value[,…] TIME. Values are bound to the jobs that ran on a node at the time.
/// Runs until SIGTERM or Ctrl-C, or until all files are read.
/// Exit code 0, 1 if something was no reading or could not be stored, 2 for an error.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  jobglass import influx --http 8086
  jobglass import influx --http 0.0.0.0:8086 \\
    --http-token-file /etc/jobglass/influx.token
  jobglass import influx --listen 0.0.0.0:8089 --allow 10.1.0.0/16 --precision s
  jobglass import influx --file metrics.txt")]
pub struct ImportInfluxArgs {
    /// Listen to packets here, on loopback if there is no address
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = listen_address)]
    pub listen: Option<SocketAddr>,
    /// Take posts here, plain or gzip, on loopback if there is no address: /write, /api/v2/write
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = listen_address)]
    pub http: Option<SocketAddr>,
    /// Posts must have the token in this file: Authorization: Token … or Bearer …
    #[arg(long, value_name = "FILE", requires = "http", help_heading = "Senders")]
    pub http_token_file: Option<PathBuf>,
    /// Read this file
    #[arg(long, value_name = "FILE")]
    pub file: Vec<PathBuf>,
    /// What times are counted in, unless a request says it: s, ms, us, ns
    #[arg(long, value_name = "UNIT", default_value = "ns")]
    pub precision: String,
    #[command(flatten)]
    pub senders: SenderArgs,
    #[command(flatten)]
    pub monitor: MonitorArgs,
}

#[derive(Debug, Subcommand)]
pub enum ExportCommand {
    #[command(name = "clustercockpit")]
    ClusterCockpit(ExportClusterCockpitArgs),
}

/// Import jobs that ClusterCockpit has kept
///
/// A job archive (versions 1 to 3, data.json plain or gzip), with all series and statistics, or its database job.db, which has all
/// jobs and their averages. Imported again, nothing is doubled. Exit code 0, 1 if something could not be read, 2 for an error.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  jobglass import clustercockpit /var/lib/clustercockpit/job-archive
  jobglass import clustercockpit var/job.db")]
pub struct ImportClusterCockpitArgs {
    /// The directory of the archive, or the database
    #[arg(value_name = "DIR|job.db")]
    pub path: PathBuf,
    #[command(flatten)]
    pub rejects: RejectsArgs,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Write jobs as a job archive of ClusterCockpit (version 3)
///
/// Exit code 0, 1 if there were none or something has no place in an archive, 2 for an error.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  jobglass export clustercockpit ./job-archive --since 2026-01-01
  jobglass export clustercockpit ./job-archive --where \"cluster = 'fritz'\"")]
pub struct ExportClusterCockpitArgs {
    /// The directory of the archive
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Only jobs for which this holds, see jobglass jobs --help
    #[arg(long = "where", value_name = "CONDITION")]
    pub condition: Option<String>,
    /// Only jobs that waited or ran at this time or later
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Only jobs that waited or ran before this time
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// Replace other records of the same jobs
    #[arg(long)]
    pub overwrite: bool,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// What becomes of what cannot be read
#[derive(Debug, Clone, clap::Args)]
pub struct RejectsArgs {
    /// Keep lines that could not be read as they are in this file [default: jobglass-rejects.txt, or beside the state]
    #[arg(long, value_name = "FILE", help_heading = "Problems")]
    pub rejects: Option<PathBuf>,
    /// Also take what can be understood all the same: a name with a delimiter or a line break in it, fields in quotes or with doubled
    /// ones (as a spreadsheet writes them), and the rest of a job with a value that cannot be true. What sacct is asked for here is always taken so
    #[arg(long, help_heading = "Problems")]
    pub mend: bool,
    /// Reject a file with a column that is not known; without this the column is ignored, with a warning
    #[arg(long, help_heading = "Problems")]
    pub strict: bool,
}

/// Import jobs as Slurm accounts for them: of a file, of the past, or as they come
///
/// --file reads lines that sacct wrote (-P or -p, with a header or with --fields) or what sacct --json printed; plain or compressed
/// with gzip. --from asks sacct window by window, and goes on where it was stopped. --follow asks every few seconds, as a service,
/// and brings what is new or has changed, with the processors and GPUs that jobs have. Where that is asked, sacct must be in PATH
/// and show the jobs of all users.
/// What cannot be read is named on standard error with file, line and text and kept in a file; everything else is imported.
/// Imported again, nothing is doubled. Exit code 0, 1 if something could not be read, 2 for an error.
#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new("what").required(true).args(["file", "from", "follow", "site"])))]
#[command(after_help = "Examples:
  jobglass import slurm --from 2020-01-01
  jobglass import slurm --follow --every 5s
  jobglass import slurm --site
  jobglass import slurm --file sacct.txt
  sacct -aPDX --format=ALL -S 2026-01-01 | jobglass import slurm --file -
  jobglass import slurm --file phillips.log --xdmod --time-zone America/New_York
  jobglass import slurm --file old.txt --delimiter '^' \\
    --fields jobid,user,submit,start,end,state,nodelist")]
pub struct ImportSlurmArgs {
    /// Text or JSON that sacct wrote; - is standard input
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    pub file: Vec<PathBuf>,
    /// The fields of each line, by sacct's names, where the first line does not say them
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        conflicts_with = "xdmod",
        requires = "file",
        help_heading = "Files"
    )]
    pub fields: Option<Vec<String>>,
    /// The 26 fields of the logs that XDMoD reads
    #[arg(long, requires = "file", help_heading = "Files")]
    pub xdmod: bool,
    /// What is between the fields: '\t' is a tab, '\x1f' a byte by its number
    #[arg(long, value_name = "TEXT", default_value = "|", help_heading = "Files")]
    pub delimiter: Delimiter,
    /// The zone of times without one, such as Europe/Berlin or UTC [default: that of this machine]
    #[arg(long, value_name = "ZONE", requires = "file", help_heading = "Files")]
    pub time_zone: Option<String>,
    /// The cluster of lines that name none
    #[arg(long, value_name = "NAME", requires = "file", help_heading = "Files")]
    pub cluster: Option<String>,
    /// All jobs since this time: 30d, 2026-11-01, 2026-11-01T12:30
    #[arg(long, value_name = "TIME", help_heading = "History")]
    pub from: Option<String>,
    /// Until this time [default: now]
    #[arg(long, value_name = "TIME", requires = "from", help_heading = "History")]
    pub to: Option<String>,
    /// Go on asking until SIGTERM or SIGINT
    #[arg(long, help_heading = "Service")]
    pub follow: bool,
    /// Once what Slurm says of partitions, nodes, accounts and users; --follow does it daily
    #[arg(long, help_heading = "Service")]
    pub site: bool,
    /// How often to ask; less often where Slurm is slow
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = when::duration, help_heading = "Service")]
    pub every: Duration,
    /// The longest span of one query; shorter ones where there are many jobs or Slurm is slow
    #[arg(long, value_name = "TIME", default_value = "1d", value_parser = when::duration, help_heading = "History and service")]
    pub window: Duration,
    /// These clusters, with commas between them, or all (sacct -M) [default: that of this machine]
    #[arg(long, value_name = "NAMES", conflicts_with = "file", help_heading = "History and service")]
    pub clusters: Option<String>,
    /// Where it is noted how far it is [default: import-slurm.state, or import-slurm-history.state with --from, in
    /// /var/lib/jobglass or ~/.local/state/jobglass]
    #[arg(long, value_name = "FILE", conflicts_with = "file", help_heading = "History and service")]
    pub state: Option<PathBuf>,
    /// Begin anew, whatever was noted
    #[arg(long, conflicts_with = "file", help_heading = "History and service")]
    pub restart: bool,
    #[command(flatten)]
    pub rejects: RejectsArgs,
    #[command(flatten)]
    pub server: ServerArgs,
}
