//! A real log of 4285 jobs, against what XDMoD makes of it. The log is not part of the project.

use std::collections::BTreeMap;
use std::io::{self, BufReader};

use import::slurm::text::{Options, read};
use import::{Collected, Error, Outcome, Problem, Sink};
use jiff::tz::TimeZone;
use proptest::prelude::*;
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

/// Some columns of the log in some order, as others might have written them.
#[derive(Debug)]
struct Shape {
    columns: Vec<usize>,
    delimiter: &'static str,
    /// A delimiter also behind the last field.
    is_closed: bool,
    /// Every field, as spreadsheets do.
    has_quotes: bool,
    /// With the width that was asked for, in the names.
    has_widths: bool,
    /// Where a column stands that nobody knows.
    unknown: Option<usize>,
}

fn shapes() -> impl Strategy<Value = Shape> {
    let order = Just((0..26).collect::<Vec<usize>>()).prop_shuffle();
    let delimiter = prop::sample::select(vec!["|", ",", ";", "\t", "\u{2603}", "||", ":"]);
    (order, 1..27usize, delimiter, any::<[bool; 3]>(), prop::option::of(0..26usize)).prop_map(
        |(mut columns, kept, delimiter, [is_closed, has_quotes, has_widths], unknown)| {
            columns.truncate(kept);
            let unknown = unknown.filter(|at| *at <= kept);
            Shape { columns, delimiter, is_closed, has_quotes, has_widths, unknown }
        },
    )
}

impl Shape {
    fn line(&self, fields: &[&str], unknown: &str) -> String {
        let mut kept: Vec<&str> = self.columns.iter().map(|column| fields[*column]).collect();
        if let Some(at) = self.unknown {
            kept.insert(at, unknown);
        }
        let quoted = |field: &str| if self.has_quotes { format!("\"{field}\"") } else { field.to_owned() };
        let line = kept.into_iter().map(quoted).collect::<Vec<_>>().join(self.delimiter);
        if self.is_closed { line + self.delimiter } else { line }
    }

    fn file(&self, names: &[String], rows: &[Vec<&str>]) -> String {
        let names: Vec<String> = names
            .iter()
            .map(|name| if self.has_widths { format!("{name}%30") } else { name.clone() })
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let lines = rows.iter().map(|row| self.line(row, "red"));
        let all: Vec<String> = std::iter::once(self.line(&names, "Color")).chain(lines).collect();
        all.join("\n") + "\n"
    }

    fn read(&self, text: &str) -> (Collected, Result<(), Error>) {
        let mut found = Collected::default();
        // Quotes that somebody has added are there to be undone.
        let options = Options {
            delimiter: self.delimiter.into(),
            is_strict: !self.has_quotes,
            may_have_quotes: self.has_quotes,
            ..Options::new(TimeZone::UTC)
        };
        let result = read(text.as_bytes(), "log", &options, &mut found);
        (found, result)
    }
}

/// The log however its columns are chosen, ordered, separated and quoted: a line says the same as before or is rejected, and a file that
/// cannot be understood is an error.
#[test]
fn whatever_the_order_and_form_of_its_columns_the_log_says_the_same() {
    let test = "whatever_the_order_and_form_of_its_columns_the_log_says_the_same";
    let Some(data) = shared_data(test, "slurm-xdmod") else { return };
    let log = String::from_utf8(std::fs::read(data.join("phillips.log")).unwrap()).unwrap();
    let names = Options::xdmod(TimeZone::UTC).fields.unwrap();
    // Every tenth line, for the time it takes.
    let rows: Vec<Vec<&str>> = log.lines().step_by(10).map(|line| line.split('|').collect()).collect();
    let mut runner = proptest::test_runner::TestRunner::default();
    let check = |shape: Shape| {
        let plain = Shape {
            columns: {
                let mut columns = shape.columns.clone();
                columns.sort();
                columns
            },
            delimiter: "|",
            is_closed: false,
            has_quotes: false,
            has_widths: false,
            unknown: None,
        };
        let (expected, of_plain) = plain.read(&plain.file(&names, &rows));
        let (found, result) = shape.read(&shape.file(&names, &rows));
        if let Err(error) = of_plain {
            prop_assert!(result.is_err() || found.jobs.is_empty(), "{error} and not {result:?}");
            return Ok(());
        }
        if let Err(error) = result {
            // A field with the delimiter in it, without quotes.
            prop_assert!(false, "{error}");
        }
        let rejected = found.problems.iter().filter(|(_, outcome, _)| *outcome == Outcome::Rejected).count();
        prop_assert_eq!(found.jobs.len() + rejected, rows.len());
        let mut left = expected.jobs.iter();
        for job in &found.jobs {
            prop_assert!(left.any(|same| same == job), "{:?}", job);
        }
        // Commas are in lists of nodes and resources, colons in times.
        let is_clear = shape.has_quotes || !matches!(shape.delimiter, "," | ":");
        prop_assert!(
            !is_clear || rejected == rows.len() - expected.jobs.len(),
            "{rejected} rejected: {:?}",
            found.problems.first()
        );
        Ok(())
    };
    runner.run(&shapes(), check).unwrap();
}
