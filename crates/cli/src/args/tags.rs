//! `jobglass tags`.

use clap::Subcommand;

use super::{ServerArgs, ShapeArgs};

#[derive(Debug, Subcommand)]
pub enum TagsCommand {
    List(ListArgs),
    Count(CountArgs),
    Explain(ExplainArgs),
    Try(TryArgs),
    Run(RunTagsArgs),
    Software(SoftwareArgs),
    Declare(DeclareArgs),
    /// Give up a tag that you declared, or one of a project that you manage
    Retire(RetireArgs),
    Propose(ProposeArgs),
    /// Show proposals of tags: your own, and all for administrators
    Proposals(ProposalsArgs),
    Approve(ApproveArgs),
    /// Reject a proposal, with a reason. For administrators
    Reject(RejectArgs),
    /// Set a tag on a job: yours, one of a project that you manage, or any as administrator
    Set(SetArgs),
    /// Take a tag off a job, whoever has set it; a rule does not set it again
    Unset(SetArgs),
    /// Say that a tag which a rule has set on a job is right
    Agree(OpinionArgs),
    /// Say that a tag which a rule has set on a job is wrong there; it stays, and whoever keeps the rules sees that
    Disagree(OpinionArgs),
    /// Have a tag which a rule has set on a job not shown to you any more
    Hide(OpinionArgs),
    Opinions(OpinionsArgs),
}

/// Show the tags that are declared, and how many jobs have each
///
/// Without times, jobs that waited or ran in the last 30 days are counted; --all-time counts all. JOBS is how many have the tag, DECIDED for
/// which share of them (of the newest 10,000) its rule could decide, HOURS how long they held cores, or GPUs for tags about these. Tags that
/// jobs have come first, those of most hours before others. Jobs that were not judged yet are not counted, unless people have set the tag.
/// You count what you see.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  jobglass tags list\n  jobglass tags list --all-time --group load\n  jobglass tags list --since 2026-01-01 --until 2026-07-01 --long"
)]
pub struct ListArgs {
    /// Of jobs that waited or ran at this time or later: 2h, 7d, yesterday, 2026-11-01, 2026-11-01T12:30
    #[arg(long, value_name = "TIME", conflicts_with = "all_time")]
    pub since: Option<String>,
    /// Of jobs that waited or ran before this time
    #[arg(long, value_name = "TIME", conflicts_with = "all_time")]
    pub until: Option<String>,
    /// Of all jobs
    #[arg(long)]
    pub all_time: bool,
    /// Only those of this group
    #[arg(long, value_name = "NAME")]
    pub group: Option<String>,
    /// With description and criterion
    #[arg(long)]
    pub long: bool,
    #[command(flatten)]
    pub shape: ShapeArgs,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Count the jobs of each tag by what they have in common
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  jobglass tags count --by month --tag 'job_accel GPU UNUSED'\n  jobglass tags count --by user --since 30d"
)]
pub struct CountArgs {
    /// cluster, user, project, partition, state, day, hour, weekday or month; times are UTC
    #[arg(long, value_name = "WHAT", default_value = "user")]
    pub by: String,
    /// Only these tags
    #[arg(long = "tag", value_name = "TAGS", value_delimiter = ',')]
    pub tags: Vec<String>,
    /// Of jobs for which this holds
    #[arg(long = "where", value_name = "CONDITION")]
    pub condition: Option<String>,
    /// Of jobs that waited or ran at this time or later
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Of jobs that waited or ran before this time
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    #[command(flatten)]
    pub shape: ShapeArgs,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Say why a job has its tags, and why not others
///
/// Of each comparison: what it found, how far that is from the bound, and whether the answer would be another one without it.
/// Exit code 1 if nothing is known of the job.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  jobglass tags explain 4711\n  jobglass tags explain 4711 --tag 'job_accel GPU UNUSED'\n  jobglass tags explain 4711 --why-not"
)]
pub struct ExplainArgs {
    /// The job's number
    pub id: String,
    /// Only this tag, whether the job has it or not
    #[arg(long, value_name = "TAG")]
    pub tag: Option<String>,
    /// Also the tags that it has not, and what would have to be different
    #[arg(long)]
    pub why_not: bool,
    /// Also values that are unknown, and what columns are made of
    #[arg(long)]
    pub verbose: bool,
    /// Also the tags that you have hidden
    #[arg(long)]
    pub hidden: bool,
    /// On this cluster
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Try a new rule on the history: what it would find, beside a rule that there is. Nothing is changed
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  jobglass tags try 'gpus > 0 and gpu_util_avg < 10' --since 90d \\\n    --than 'job_accel GPU UNUSED'"
)]
pub struct TryArgs {
    /// As in jobs --where
    pub condition: String,
    /// A tag to compare with
    #[arg(long, value_name = "TAG")]
    pub than: Option<String>,
    /// On jobs that waited or ran at this time or later
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// On jobs that waited or ran before this time
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Judge the whole collection again, by the rules of now
///
/// New jobs are judged by themselves. The server does the work; this shows how far it is, and may be ended without harm.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  jobglass tags run\n  jobglass tags run --since 2026-01-01\n  jobglass tags run --tag 'job_accel GPU UNUSED'\n  jobglass tags run --status"
)]
pub struct RunTagsArgs {
    /// Only jobs submitted at this time or later
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Only by the rule of this tag; the others stay as they were decided
    #[arg(long, value_name = "TAG")]
    pub tag: Option<String>,
    /// Only say how far the last run is
    #[arg(long, conflicts_with_all = ["since", "detach", "tag"])]
    pub status: bool,
    /// Do not wait for its end
    #[arg(long)]
    pub detach: bool,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    #[command(flatten)]
    pub server: ServerArgs,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  jobglass tags set 4711 'job_behavior ITERATIVE' \\\n    --reason 'a solver with a fixed number of steps'\n  jobglass tags unset 4711 'job_accel GPU UNUSED' \\\n    --reason 'it tests the start of the driver'\n\nAt submission: sbatch --comment='tag:job_behavior ITERATIVE', several with ; between them."
)]
pub struct SetArgs {
    /// The job's number
    pub id: String,
    /// The tag: jobglass tags list
    pub tag: String,
    /// Why
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Only for yourself
    #[arg(long)]
    pub personal: bool,
    /// On this cluster
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    #[command(flatten)]
    pub server: ServerArgs,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  jobglass tags disagree 4711 'avg_LA SINGLE CORE' \\\n    --reason 'it needs the memory of the whole node'\n  jobglass tags hide 4711 'avg_LA SINGLE CORE'\n  jobglass tags hide 4711 'avg_LA SINGLE CORE' --undo"
)]
pub struct OpinionArgs {
    /// The job's number
    pub id: String,
    /// A tag that the job has by its rule: jobglass tags explain
    pub tag: String,
    /// Why
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Take back what you said before
    #[arg(long, conflicts_with = "reason")]
    pub undo: bool,
    /// On this cluster
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Show what people think of tags that rules have set, on jobs that you see
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  jobglass tags opinions --word disagree\n  jobglass tags opinions --tag 'avg_LA SINGLE CORE'"
)]
pub struct OpinionsArgs {
    /// About this tag
    #[arg(long, value_name = "TAG")]
    pub tag: Option<String>,
    /// agree, disagree, or hide: what you have hidden
    #[arg(long, value_parser = ["agree", "disagree", "hide"])]
    pub word: Option<String>,
    /// Of this person
    #[arg(long, value_name = "USER")]
    pub by: Option<String>,
    #[command(flatten)]
    pub shape: ShapeArgs,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Put a tag on a library or a program: every job that used it has the tag, in the past and from now on
///
/// Without a tag, show which are on software. For administrators.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  jobglass tags software 'site BUGGY BLAS' --uses libopenblas.so.0 \\\n    --reason 'wrong results in dgemm'\n  jobglass tags software 'site BUGGY BLAS' \\\n    --uses 5b2c1d0e9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c   # a build-id\n  jobglass tags software 'site BUGGY BLAS' --uses libopenblas.so.0 --off\n  jobglass tags software"
)]
#[command(group = clap::ArgGroup::new("software").requires("tag"))]
pub struct SoftwareArgs {
    /// The tag: jobglass tags list
    #[arg(requires = "software")]
    pub tag: Option<String>,
    /// A library: its name, its path (with a / in it), its build-id or the hash of its content; * is any text
    #[arg(long, value_name = "PATTERN", group = "software")]
    pub uses: Option<String>,
    /// A program, in the same way
    #[arg(long, value_name = "PATTERN", group = "software")]
    pub runs: Option<String>,
    /// Take it off
    #[arg(long, requires = "software")]
    pub off: bool,
    /// Why
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Do not wait until all jobs have it
    #[arg(long)]
    pub detach: bool,
    #[command(flatten)]
    pub shape: ShapeArgs,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Declare a tag for yourself, or for a project that you manage
///
/// People set it: tags set, sbatch --comment. Others do not see that there is one. A tag for everybody is proposed: tags propose.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  jobglass tags declare 'thesis CHAPTER 3' \\\n    --description 'For the third chapter.'\n  jobglass tags declare 'mesh COARSE' --project physics \\\n    --description 'With the coarse mesh.'"
)]
pub struct DeclareArgs {
    pub name: String,
    /// What it says of a job, in full sentences
    #[arg(long, value_name = "TEXT")]
    pub description: String,
    /// For all who are in this project
    #[arg(long, value_name = "NAME")]
    pub project: Option<String>,
    #[command(flatten)]
    pub server: ServerArgs,
}

#[derive(Debug, clap::Args)]
pub struct RetireArgs {
    pub name: String,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Propose a tag, which an administrator approves or rejects
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  jobglass tags propose 'site MESH' --description 'The job makes a mesh.' \\\n    --motivation 'such jobs need memory, not cores'\n  jobglass tags propose 'site WIDE' --description 'Many nodes.' \\\n    --motivation 'to find them' --criterion 'nodes > 100'"
)]
pub struct ProposeArgs {
    pub name: String,
    /// What it says of a job, in full sentences
    #[arg(long, value_name = "TEXT")]
    pub description: String,
    /// Why it should be there
    #[arg(long, value_name = "TEXT")]
    pub motivation: String,
    /// When a job has it, as in jobs --where; without, people set it
    #[arg(long, value_name = "CONDITION")]
    pub criterion: Option<String>,
    #[command(flatten)]
    pub server: ServerArgs,
}

#[derive(Debug, clap::Args)]
pub struct ProposalsArgs {
    #[command(flatten)]
    pub shape: ShapeArgs,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Approve a proposal, as it is or in other words; the tag is there at once. For administrators
#[derive(Debug, clap::Args)]
pub struct ApproveArgs {
    /// Its number: jobglass tags proposals
    pub number: u64,
    /// Another name
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Another description
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
    /// Another criterion
    #[arg(long, value_name = "CONDITION")]
    pub criterion: Option<String>,
    /// Why
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    #[command(flatten)]
    pub server: ServerArgs,
}

#[derive(Debug, clap::Args)]
pub struct RejectArgs {
    /// Its number: jobglass tags proposals
    pub number: u64,
    /// Why
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    #[command(flatten)]
    pub server: ServerArgs,
}
