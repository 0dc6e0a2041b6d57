//! Which job a process belongs to.
//!
//! The kernel knows: the resource manager puts every task into a control group that only root can leave. Where
//! there are none (`proctrack/linuxproc`), descent from root's `slurmstepd` tells. What a process says in its
//! own environment is a claim, used for what only it knows (its rank), and for its job only on machines where
//! no better source exists.

use record::entry::{JobFrom, Place};

/// A job as a trusted source states it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Job {
    pub id: String,
    pub step: Option<String>,
    pub node: Option<String>,
    pub from: JobFrom,
}

/// A job's control group: the proof of being in a job. Its name is the job's id, or one that the job's step daemon knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub name: Name,
    pub step: Option<String>,
    pub node: Option<String>,
}

/// What a job's control group is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Name {
    /// `job_5`.
    Id(String),
    /// `sEKNKTV3WPV500`: Slurm's own number of a job, from 26.05 on, unless `CgroupJobIdPaths=yes`.
    Sluid(String),
}

impl Group {
    /// The job with this id.
    pub fn job(self, id: String, from: JobFrom) -> Job {
        Job { id, step: self.step, node: self.node, from }
    }
}

/// Finds the job's group in the lines of `/proc/PID/cgroup`.
///
/// Known layouts: `/slurm/uid_1/job_2/step_0/task_0` and, with several slurmd on a host,
/// `/slurm_NODE/uid_1/…` (v1); `/system.slice/slurmstepd.scope/job_2/step_0/user/task_0` and
/// `/system.slice/NODE_slurmstepd.scope/…` (v2), in another slice with `CgroupSlice`. The first components are required: below
/// a user's own slice anyone may create a group named `job_2`.
pub fn group(lines: &[u8]) -> Option<Group> {
    let groups = lines.split(|b| *b == b'\n').filter_map(|line| {
        let path = line.splitn(3, |b| *b == b':').nth(2)?;
        group_in(std::str::from_utf8(path).ok()?)
    });
    // In v1 the controllers differ in depth; the one that names the step says more.
    groups.max_by_key(|group| group.step.is_some())
}

fn group_in(path: &str) -> Option<Group> {
    let mut parts = path.strip_prefix('/')?.split('/').peekable();
    let first = parts.next()?;
    let (node, is_v2) = match first {
        "slurm" => (None, false),
        "user.slice" => return None,
        // Slices belong to root down to the first scope or service.
        _ if first.ends_with(".slice") => {
            while parts.next_if(|part| part.ends_with(".slice")).is_some() {}
            let scope = parts.next()?.strip_suffix("slurmstepd.scope")?;
            (scope.strip_suffix('_').map(str::to_owned), true)
        }
        _ => (Some(first.strip_prefix("slurm_")?.to_owned()), false),
    };
    let sluid = parts.next_if(|part| is_v2 && is_sluid(part.as_bytes()));
    let mut name = sluid.map(|sluid| Name::Sluid(sluid.to_owned()));
    let mut step = None;
    for part in parts {
        if let Some(id) = part.strip_prefix("job_").filter(|_| name.is_none()) {
            name = Some(Name::Id(id.to_owned()));
        } else if let Some(of) = part.strip_prefix("step_").filter(|_| name.is_some() && step.is_none()) {
            step = Some(of.to_owned());
        }
    }
    name.filter(|name| *name != Name::Id(String::new())).map(|name| Group { name, step, node })
}

/// Whether this is a SLUID: `s` and 13 characters of Crockford's base 32.
pub fn is_sluid(name: &[u8]) -> bool {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'A'..=b'Z') && !b"ILOU".contains(byte);
    name.len() == 14 && name.strip_prefix(b"s").is_some_and(|digits| digits.iter().all(is_digit))
}

/// Reads the title of a step daemon, `slurmstepd: [12.batch]`. The caller makes sure that it is root's.
pub fn from_stepd_title(argv0: &[u8]) -> Option<Job> {
    let inside = std::str::from_utf8(argv0).ok()?.strip_prefix("slurmstepd: [")?.split(']').next()?;
    let (id, step) = inside.split_once('.').unwrap_or((inside, ""));
    let step = (!step.is_empty()).then(|| step.to_owned());
    (!id.is_empty()).then(|| Job { id: id.to_owned(), step, node: None, from: JobFrom::Stepd })
}

/// The node a slurmd speaks for, `slurmd -N n1`.
pub fn node_of_slurmd(argv: &[Vec<u8>]) -> Option<String> {
    let at = argv.iter().position(|arg| arg == b"-N")?;
    String::from_utf8(argv.get(at + 1)?.clone()).ok()
}

/// Variables of a process, `NAME=value`.
#[derive(Debug, Clone, Copy)]
pub struct Variables<'a, T>(pub &'a [T]);

impl<'a, T: AsRef<[u8]>> Variables<'a, T> {
    /// The value of a variable, unless it is empty.
    pub fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.0
            .iter()
            .find_map(|variable| variable.as_ref().strip_prefix(name.as_bytes())?.strip_prefix(b"="))
            .filter(|value| !value.is_empty())
    }

    /// A value that must be text.
    pub fn text(&self, name: &str) -> Option<String> {
        String::from_utf8(self.get(name)?.to_vec()).ok()
    }

    fn number(&self, name: &str) -> Option<u32> {
        std::str::from_utf8(self.get(name)?).ok()?.parse().ok()
    }
}

/// Puts together where a process ran: the job from `trusted`, the rest from what the process says.
/// `believe_claims` is for machines on which no trusted source has ever been seen.
pub fn place<T: AsRef<[u8]>>(
    trusted: Option<&Job>,
    variables: Variables<T>,
    cluster: Option<&str>,
    believe_claims: bool,
) -> Place {
    let claimed = variables.text("SLURM_JOB_ID").or_else(|| variables.text("PBS_JOBID"));
    let claimed = claimed.or_else(|| variables.text("LSB_JOBID"));
    let (job, step, from) = match trusted {
        Some(job) => (Some(job.id.clone()), job.step.clone(), Some(job.from)),
        None if believe_claims && claimed.is_some() && !is_daemons_script(&variables) => {
            (claimed.clone(), variables.text("SLURM_STEP_ID"), Some(JobFrom::Environment))
        }
        None => (None, None, None),
    };
    let node = trusted.and_then(|job| job.node.clone()).or_else(|| variables.text("SLURMD_NODENAME"));
    Place {
        cluster: cluster.map(str::to_owned).or_else(|| variables.text("SLURM_CLUSTER_NAME")),
        rank: rank(step.as_deref(), variables),
        claimed_job: claimed.filter(|claimed| job.as_ref() != Some(claimed)),
        job,
        step,
        node,
        job_from: from,
        session: None,
    }
}

/// Whether a process belongs to a prolog or epilog that a daemon of Slurm runs: it has a job's variables and is none of the job's
/// own, on the controller not even on the job's nodes. Those of tasks run inside of the job.
fn is_daemons_script<T: AsRef<[u8]>>(variables: &Variables<T>) -> bool {
    let context = variables.get("SLURM_SCRIPT_CONTEXT").unwrap_or_default();
    context.ends_with(b"_slurmctld") || context.ends_with(b"_slurmd")
}

/// An MPI launcher's own number comes first: below `mpirun`, Slurm's is that of the launcher's daemon. A
/// batch script is no rank although Slurm calls it task 0.
fn rank<T: AsRef<[u8]>>(step: Option<&str>, variables: Variables<T>) -> Option<u32> {
    let is_numbered_step = step.is_some_and(|step| step.starts_with(|c: char| c.is_ascii_digit()));
    ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "MV2_COMM_WORLD_RANK", "PMI_RANK"]
        .into_iter()
        .find_map(|name| variables.number(name))
        .or_else(|| variables.number("SLURM_PROCID").filter(|_| is_numbered_step))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: &str, step: Option<&str>, node: Option<&str>) -> Option<Job> {
        let own = |text: &str| text.to_owned();
        Some(Job { id: own(id), step: step.map(own), node: node.map(own), from: JobFrom::Cgroup })
    }

    /// What a line says: the name as it stands there, step and node.
    fn found(lines: &str) -> Option<Job> {
        let found = group(lines.as_bytes())?;
        let name = match &found.name {
            Name::Id(id) => id.clone(),
            Name::Sluid(sluid) => format!("sluid {sluid}"),
        };
        Some(found.job(name, JobFrom::Cgroup))
    }

    #[test]
    fn cgroup_layouts() {
        for (lines, expected) in [
            ("4:memory:/slurm/uid_1000/job_5/step_0/task_0\n", job("5", Some("0"), None)),
            (
                "6:freezer:/slurm_n1/uid_1001/job_1\n4:memory:/slurm_n1/uid_1001/job_1/step_batch\n2:cpuacct:/\n",
                job("1", Some("batch"), Some("n1")),
            ),
            (
                "0::/system.slice/slurmstepd.scope/job_12/step_extern/user/task_0\n",
                job("12", Some("extern"), None),
            ),
            ("0::/system.slice/n2_slurmstepd.scope/job_12/step_3\n", job("12", Some("3"), Some("n2"))),
            // Slurm 26.05.
            (
                "0::/system.slice/slurmstepd.scope/sEKNKTV3WPV500/step_0/user/task_0\n",
                job("sluid sEKNKTV3WPV500", Some("0"), None),
            ),
            (
                "0::/system.slice/n2_slurmstepd.scope/sEKNKTV3WPV500/step_extern/user/task_special\n",
                job("sluid sEKNKTV3WPV500", Some("extern"), Some("n2")),
            ),
            (
                "0::/system.slice/slurmstepd.scope/sEKNKTV3WPV500/step_batch/slurm\n",
                job("sluid sEKNKTV3WPV500", Some("batch"), None),
            ),
            ("0::/system.slice/slurmstepd.scope/sEKNKTV3WPV500\n", job("sluid sEKNKTV3WPV500", None, None)),
            // `CgroupSlice`.
            ("0::/hpc.slice/hpc-jobs.slice/slurmstepd.scope/job_12/step_0\n", job("12", Some("0"), None)),
            // A job may make groups of its own, and name them as it likes.
            (
                "0::/system.slice/slurmstepd.scope/job_12/step_0/user/task_0/job_99/step_7\n",
                job("12", Some("0"), None),
            ),
            (
                "0::/system.slice/slurmstepd.scope/sEKNKTV3WPV500/step_0/user/task_0/job_99\n",
                job("sluid sEKNKTV3WPV500", Some("0"), None),
            ),
            ("0::/system.slice/slurmstepd.scope/system\n", None),
            ("0::/system.slice/slurmstepd.scope/x/sEKNKTV3WPV500/step_0\n", None),
            ("0::/system.slice/slurmstepd.scope/sEKNKTV3WPVI00/step_0\n", None),
            ("0::/system.slice/slurmstepd.scope/sEKNKTV3WPV5000/step_0\n", None),
            ("0::/system.slice/x.scope/slurmstepd.scope/sEKNKTV3WPV500/step_0\n", None),
            ("0::/user.slice/slurmstepd.scope/sEKNKTV3WPV500/step_0\n", None),
            ("0::/user.slice/user-7.slice/user@7.service/slurmstepd.scope/sEKNKTV3WPV500/step_0\n", None),
            ("4:memory:/slurm/uid_1000/sEKNKTV3WPV500/step_0\n", None),
            ("0::/user.slice/user-1000.slice/user@1000.service/slurm/job_7/step_0\n", None),
            ("0::/user.slice/job_7/step_0\n", None),
            ("0::/system.slice/slurmd.service\n", None),
            ("1:cpu:/slurmish/job_1\n", None),
            ("garbage\n:\n::\n", None),
        ] {
            assert_eq!(found(lines), expected, "{lines}");
        }
    }

    #[test]
    fn titles_of_step_daemons() {
        for (title, expected) in [
            ("slurmstepd: [12.batch]", Some(("12", Some("batch")))),
            ("slurmstepd: [12.0]", Some(("12", Some("0")))),
            ("slurmstepd: [12]", Some(("12", None))),
            ("slurmstepd: []", None),
            ("/usr/sbin/slurmstepd", None),
        ] {
            let found = from_stepd_title(title.as_bytes());
            assert_eq!(found.as_ref().map(|job| (&job.id[..], job.step.as_deref())), expected, "{title}");
        }
    }

    #[test]
    fn a_claim_never_beats_the_kernel() {
        let mine = job("5", Some("batch"), Some("n1"));
        let variables = ["SLURM_JOB_ID=99", "SLURM_PROCID=0", "SLURMD_NODENAME=n7"];
        let place = place(mine.as_ref(), Variables(&variables), None, true);
        assert_eq!(place.job.as_deref(), Some("5"));
        assert_eq!(place.claimed_job.as_deref(), Some("99"));
        assert_eq!(place.node.as_deref(), Some("n1"));
        assert_eq!(place.rank, None);
    }

    #[test]
    fn a_claim_counts_only_where_nothing_better_exists() {
        let variables = ["SLURM_JOB_ID=99", "SLURM_STEP_ID=0", "SLURM_PROCID=3"];
        let believed = place(None, Variables(&variables), None, true);
        assert_eq!((believed.job.as_deref(), believed.rank), (Some("99"), Some(3)));
        assert_eq!(believed.job_from, Some(JobFrom::Environment));
        let doubted = place(None, Variables(&variables), Some("c"), false);
        assert_eq!((doubted.job, doubted.claimed_job.as_deref()), (None, Some("99")));
        assert_eq!(doubted.cluster.as_deref(), Some("c"));
    }

    #[test]
    fn a_daemons_script_is_none_of_the_job() {
        for (context, expected) in [
            ("prolog_slurmctld", None),
            ("epilog_slurmctld", None),
            ("prolog_slurmd", None),
            ("epilog_slurmd", None),
            ("prolog_task", Some("99")),
            ("", Some("99")),
        ] {
            let variables = ["SLURM_JOB_ID=99".to_owned(), format!("SLURM_SCRIPT_CONTEXT={context}")];
            let place = place(None, Variables(&variables), None, true);
            assert_eq!(place.job.as_deref(), expected, "{context}");
            assert_eq!(place.claimed_job.as_deref(), expected.is_none().then_some("99"), "{context}");
        }
    }

    #[test]
    fn the_launcher_knows_the_rank_better_than_slurm() {
        let variables = ["SLURM_PROCID=1", "OMPI_COMM_WORLD_RANK=3"];
        let step = job("5", Some("2"), None);
        assert_eq!(place(step.as_ref(), Variables(&variables), None, false).rank, Some(3));
    }
}
