//! A real log of 4285 jobs, against what XDMoD makes of it. The log is not part of the project.

use std::collections::BTreeMap;
use std::io::{self, BufReader};

use import::slurm::text::{Options, read};
use import::{Problem, Sink};
use jiff::tz::TimeZone;
use record::accounting::{Accounting, MemoryPer, RequestedMemory, gpus};
use testkit::shared_data;

/// Sums over jobs that had nodes, in nanoseconds.
#[derive(Default)]
struct Sums {
    jobs: u128,
    wall: u128,
    cpu: u128,
    gpu: u128,
    node: u128,
    wait: u128,
    processors: u128,
    fewest: Option<u64>,
    most: Option<u64>,
    without_nodes: u128,
    per_cpu: u128,
}

impl Sink for Sums {
    fn job(&mut self, job: Accounting) -> io::Result<()> {
        if let Some(RequestedMemory { bytes, per: MemoryPer::Cpu }) = job.requested_memory {
            self.per_cpu += 1;
            // The same amount is in what was asked for, of all processors together.
            let all = job.requested.iter().find(|tres| tres.kind == "mem").unwrap().count;
            assert!(all.abs_diff(bytes * job.requested_cpus.unwrap()) <= all / 100, "{job:?}");
        }
        if job.node_list.is_none() {
            self.without_nodes += 1;
            return Ok(());
        }
        let (start, end, submit) = (job.start.unwrap(), job.end.unwrap(), job.submit.unwrap());
        assert_eq!(job.elapsed, Some(end - start));
        let (wall, cpus) = (u128::from(end - start), job.cpus.unwrap());
        self.jobs += 1;
        self.wall += wall;
        self.cpu += wall * u128::from(cpus);
        self.gpu += wall * u128::from(gpus(&job.allocated).unwrap_or(0));
        self.node += wall * u128::from(job.nodes.unwrap());
        self.wait += u128::from(start - submit);
        self.processors += u128::from(cpus);
        self.fewest = Some(self.fewest.map_or(cpus, |fewest| fewest.min(cpus)));
        self.most = self.most.max(Some(cpus));
        let names = hostlist::expand(job.node_list.as_deref().unwrap()).unwrap();
        assert_eq!(names.len() as u64, job.nodes.unwrap());
        Ok(())
    }

    fn problem(&mut self, problem: Problem<'_>) {
        panic!("{problem}");
    }
}

#[test]
fn jobs_add_up_to_what_xdmod_says() {
    let Some(data) = shared_data("jobs_add_up_to_what_xdmod_says", "slurm-xdmod") else { return };
    let mut sums = Sums::default();
    let log = std::fs::File::open(data.join("phillips.log")).unwrap();
    read(BufReader::new(log), "phillips.log", &Options::xdmod(TimeZone::UTC), &mut sums).unwrap();
    let hours = |sum: u128| sum as f64 / 3.6e12;
    let mean = |sum: f64| sum / sums.jobs as f64;
    let found: BTreeMap<&str, f64> = [
        ("job_count", sums.jobs as f64),
        ("total_wallduration_hours", hours(sums.wall)),
        ("total_cpu_hours", hours(sums.cpu)),
        ("total_gpu_hours", hours(sums.gpu)),
        ("total_node_hours", hours(sums.node)),
        ("avg_waitduration_hours", mean(hours(sums.wait))),
        ("avg_wallduration_hours", mean(hours(sums.wall))),
        ("avg_processors", mean(sums.processors as f64)),
        ("min_processors", sums.fewest.unwrap() as f64),
        ("max_processors", sums.most.unwrap() as f64),
    ]
    .into();
    let table = String::from_utf8(std::fs::read(data.join("phillips-expected.csv")).unwrap()).unwrap();
    let rows: Vec<_> = table.lines().skip(1).map(|row| row.split_once(',').unwrap()).collect();
    assert_eq!(rows.len(), found.len());
    for (name, expected) in rows {
        let digits = expected.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        assert_eq!(format!("{:.digits$}", found[name]), expected, "{name}");
    }
    assert_eq!((sums.without_nodes, sums.per_cpu), (239, 4238));
}
