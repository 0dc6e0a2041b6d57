//! What `top` calls a job: name and partition as its batch system has them, and the program that uses the most CPU.

use std::collections::{BTreeMap, HashMap};

use duckdb::types::Value as Sql;

use super::Snapshot;
use crate::StoreError;

/// Name and partition of a job; what the batch system has not told is unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Called {
    pub name: Option<String>,
    pub partition: Option<String>,
}

/// An accounting record that may be of one of the jobs.
#[derive(Debug)]
struct Record {
    cluster: Option<String>,
    user: Option<String>,
    called: Called,
}

/// The accounting records of jobs by their numbers, the latest first.
#[derive(Debug, Default)]
pub(super) struct Records(HashMap<String, Vec<Record>>);

impl Records {
    /// The latest record with this number that is of this cluster and user, as far as these are known.
    pub fn find(&self, cluster: Option<&str>, job: &str, user: Option<&str>) -> Option<&Called> {
        let may_be = |a: Option<&str>, b: Option<&str>| a.is_none() || b.is_none() || a == b;
        let of_job = |record: &&Record| {
            may_be(record.cluster.as_deref(), cluster) && may_be(record.user.as_deref(), user)
        };
        self.0.get(job)?.iter().find(of_job).map(|record| &record.called)
    }
}

/// What the processes of one name use on one node: CPU time since the sample before, and of their whole run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Used {
    grown: i64,
    total: i64,
}

/// The commands of the last sample of a job on a node, by name.
#[derive(Debug, Clone, Default)]
struct Last {
    time_ns: i64,
    commands: BTreeMap<String, Used>,
}

/// The last commands of each job, by job, host and node.
#[derive(Debug, Default)]
pub(super) struct Commands(HashMap<(String, String, Option<String>), Last>);

/// Processes of these names start the job's programs: of several that use nothing at the moment, another one is named.
const STARTERS: [&str; 16] = [
    "bash",
    "sh",
    "dash",
    "zsh",
    "ksh",
    "csh",
    "tcsh",
    "fish",
    "slurm_script",
    "slurmstepd",
    "srun",
    "mpirun",
    "mpiexec",
    "orterun",
    "prterun",
    "hydra_pmi_proxy",
];

impl Commands {
    /// The name whose processes on all these nodes used the most CPU between the last two samples, else over their run.
    pub fn program<'a>(
        &self,
        job: &str,
        places: impl Iterator<Item = (&'a str, Option<&'a str>)>,
    ) -> Option<&str> {
        let mut sums: BTreeMap<&str, Used> = BTreeMap::new();
        for (host, node) in places {
            let last = self.0.get(&(job.to_owned(), host.to_owned(), node.map(str::to_owned)));
            for (command, used) in last.into_iter().flat_map(|last| &last.commands) {
                let sum = sums.entry(command).or_default();
                sum.grown = sum.grown.saturating_add(used.grown);
                sum.total = sum.total.saturating_add(used.total);
            }
        }
        let rank = |command: &str, used: Used| (used.grown, !STARTERS.contains(&command), used.total);
        sums.into_iter().max_by_key(|(command, used)| rank(command, *used)).map(|(command, _)| command)
    }
}

impl Snapshot<'_> {
    /// The accounting records of the jobs that were sampled since then.
    pub(super) fn records_since(&self, since_ns: i64) -> Result<Records, StoreError> {
        let sql = "SELECT c.job, c.cluster, c.\"user\", c.name, c.partition FROM accounting c \
             WHERE c.is_only_measured IS NOT TRUE AND coalesce(c.end_ns, 9223372036854775807) >= ? \
               AND c.job IN (SELECT s.job FROM job_sample s WHERE s.time_ns >= ? AND s.job IS NOT NULL) \
             ORDER BY c.submit_ns DESC NULLS LAST, c.start_ns DESC NULLS LAST";
        let mut records = Records::default();
        self.each(sql, &[Sql::BigInt(since_ns), Sql::BigInt(since_ns)], |row| {
            let called = Called { name: row.get(3)?, partition: row.get(4)? };
            let record = Record { cluster: row.get(1)?, user: row.get(2)?, called };
            records.0.entry(row.get(0)?).or_default().push(record);
            Ok(())
        })?;
        Ok(records)
    }

    /// What the commands of jobs used that were sampled since then.
    pub(super) fn commands_since(&self, since_ns: i64) -> Result<Commands, StoreError> {
        // The last two values of each command.
        let sql = "SELECT job, host, node, command, seen_ns, cpu[1], cpu[2] FROM ( \
               SELECT job, host, node, command, max(time_ns) AS seen_ns, arg_max(cpu_user + cpu_system, time_ns, 2) AS cpu \
               FROM command_sample \
               WHERE time_ns >= ? AND job IS NOT NULL AND cpu_user IS NOT NULL AND cpu_system IS NOT NULL \
               GROUP BY job, host, node, command)";
        let mut commands = Commands::default();
        self.each(sql, &[Sql::BigInt(since_ns)], |row| {
            let (seen_ns, total, before): (i64, i64, Option<i64>) = (row.get(4)?, row.get(5)?, row.get(6)?);
            let last = commands.0.entry((row.get(0)?, row.get(1)?, row.get(2)?)).or_default();
            if seen_ns < last.time_ns {
                return Ok(());
            }
            if seen_ns > last.time_ns {
                *last = Last { time_ns: seen_ns, commands: BTreeMap::new() };
            }
            // Of processes that ended in between, the sum has fallen.
            let grown = total.saturating_sub(before.unwrap_or(0)).max(0);
            last.commands.insert(row.get(3)?, Used { grown, total });
            Ok(())
        })?;
        Ok(commands)
    }
}
