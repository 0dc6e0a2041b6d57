//! The directory with jobs that are over: `version.txt`, `CLUSTER/cluster.json`, and for each job
//! `CLUSTER/<number / 1000>/<number % 1000>/<start>/` with `meta.json` and `data.json`, mostly as `data.json.gz`. `cluster.json`
//! says how metrics are aggregated, and is kept as it is for the way back.
//!
//! Of the versions 1 to 3 all is read that has the form of these. One job is in memory at a time.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use super::bounded::Bounded;
use super::scope::Aggregations;
use super::{Error, Known, Takes, data, meta};
use crate::sink::{At, Outcome, Problem, Reason};

/// The newest version that is understood.
pub(super) const VERSION: u64 = 3;

/// A description of a cluster is sent at once.
const CLUSTER_MAX: u64 = 4 << 20;

/// How an archive is read.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long a file of series may be, uncompressed. What is read takes up to eight times as much memory in the
    /// worst case, a third of it where values have the usual digits.
    pub data_max: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options { data_max: data::DATA_MAX }
    }
}

/// Reads all jobs, by cluster, number and start.
pub fn read(dir: &Path, options: &Options, sink: &mut impl Takes) -> Result<(), Error> {
    if let Some(file) = parquet(dir) {
        return Err(Error::Parquet { file: file.display().to_string() });
    }
    check_version(dir)?;
    let mut walk =
        Walk { options, sink, jobs: 0, aggregations: Aggregations::default(), unclear: HashSet::new() };
    let mut clusters = directories(dir).map_err(Error::io(dir))?;
    clusters.sort();
    clusters.iter().try_for_each(|cluster| {
        walk.cluster(cluster)?;
        walk.descend(cluster, 3)
    })
}

/// The version that an archive says it has.
pub(super) fn check_version(dir: &Path) -> Result<u64, Error> {
    let file = dir.join("version.txt");
    let bytes = match std::fs::read(&file) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(Error::NoVersion { file: dir.display().to_string() });
        }
        bytes => bytes.map_err(Error::io(&file))?,
    };
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).trim().to_owned();
    let known = text.parse().ok().filter(|version| (1..=VERSION).contains(version));
    known.ok_or_else(|| Error::Version { file: file.display().to_string(), text })
}

/// A file of Parquet in an archive, or in one of its clusters: its jobs are in there, and none in directories.
fn parquet(dir: &Path) -> Option<PathBuf> {
    let clusters = directories(dir).unwrap_or_default();
    let files = std::iter::once(dir)
        .chain(clusters.iter().map(PathBuf::as_path))
        .filter_map(|dir| dir.read_dir().ok());
    let mut files = files.flatten().filter_map(|entry| Some(entry.ok()?.path()));
    files.find(|file| file.extension().is_some_and(|extension| extension == "parquet"))
}

struct Walk<'a, S> {
    options: &'a Options,
    sink: &'a mut S,
    jobs: u64,
    /// Of the cluster that is read.
    aggregations: Aggregations,
    /// What of it was reported, and is the same in each job.
    unclear: HashSet<Reason>,
}

impl<S: Takes> Walk<'_, S> {
    /// Goes through the directories that have numbers as names, smallest first.
    fn descend(&mut self, dir: &Path, levels: u32) -> Result<(), Error> {
        if levels == 0 {
            return self.job(dir).map_err(Error::io(dir));
        }
        let found = match directories(dir) {
            Ok(found) => found,
            Err(error) => {
                self.report(dir, b"", Outcome::Rejected, broken("directory", &error));
                return Ok(());
            }
        };
        let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u64>().ok();
        let mut numbered: Vec<_> =
            found.into_iter().filter_map(|path| Some((number(&path)?, path))).collect();
        numbered.sort();
        numbered.iter().try_for_each(|(_, path)| self.descend(path, levels - 1))
    }

    /// Reads what there is of a description: without one, jobs are read all the same.
    fn cluster(&mut self, dir: &Path) -> Result<(), Error> {
        (self.aggregations, self.unclear) = (Aggregations::default(), HashSet::new());
        let (file, name) = (dir.join("cluster.json"), dir.file_name().and_then(|name| name.to_str()));
        let Some(name) = name.filter(|_| file.exists()) else { return Ok(()) };
        let text = whole(&file, "cluster.json", CLUSTER_MAX)
            .and_then(|bytes| String::from_utf8(bytes).map_err(|_| Reason::NoText));
        let read = text.and_then(|text| Ok((description(&text)?, text)));
        match read {
            Ok((aggregations, text)) => {
                self.aggregations = aggregations;
                self.sink.cluster(name, &text).map_err(Error::io(&file))
            }
            Err(reason) => {
                self.report(&file, b"", Outcome::Doubted, reason);
                Ok(())
            }
        }
    }

    fn job(&mut self, dir: &Path) -> io::Result<()> {
        self.jobs += 1;
        let file = dir.join("meta.json");
        let (bytes, found) = match whole(&file, "meta.json", meta::META_MAX) {
            Ok(bytes) => {
                let found = meta::read(&bytes);
                (bytes, found)
            }
            Err(reason) => (Vec::new(), Err(reason)),
        };
        match found {
            Err(reason) => {
                self.report(&file, &bytes, Outcome::Rejected, reason);
                Ok(())
            }
            Ok((mut known, doubts)) => {
                doubts.into_iter().for_each(|doubt| self.report(&file, &bytes, Outcome::Doubted, doubt));
                drop(bytes);
                self.series(dir, &mut known);
                self.sink.job(known)
            }
        }
    }

    /// A job whose series cannot be read is still a job.
    fn series(&mut self, dir: &Path, known: &mut Known) {
        let (file, read) = series(dir, self.options.data_max, &self.aggregations, known);
        let text = known.job.shown.clone();
        for reason in read.unwrap_or_else(|reason| vec![reason]) {
            let is_of_cluster = matches!(reason, Reason::NoAggregation { .. });
            if !is_of_cluster || self.unclear.insert(reason.clone()) {
                self.report(&file, text.as_bytes(), Outcome::Doubted, reason);
            }
        }
    }

    fn report(&mut self, file: &Path, text: &[u8], outcome: Outcome, reason: Reason) {
        let file = file.display().to_string();
        self.sink.problem(Problem { file: &file, at: At::Job(self.jobs.max(1)), text, outcome, reason });
    }
}

/// How the metrics of a cluster are aggregated.
fn description(text: &str) -> Result<Aggregations, Reason> {
    let broken = |error: String| Reason::Broken { what: "cluster.json", error };
    let value = serde_json::from_str(text).map_err(|error| broken(error.to_string()))?;
    Aggregations::of(&value).ok_or_else(|| broken("no object".to_owned()))
}

/// Which file has the series, and what of them could not be read.
fn series(
    dir: &Path,
    max: u64,
    aggregations: &Aggregations,
    known: &mut Known,
) -> (PathBuf, Result<Vec<Reason>, Reason>) {
    let (packed, plain) = (dir.join("data.json.gz"), dir.join("data.json"));
    match File::open(&packed) {
        Ok(file) => return (packed, data::read(MultiGzDecoder::new(file), max, aggregations, known)),
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return (packed, Err(broken("data.json.gz", &error)));
        }
        Err(_) => {}
    }
    let zstd = dir.join("data.json.zst");
    if !plain.exists() && zstd.exists() {
        let error = "files of zstd are not supported".to_owned();
        return (zstd, Err(Reason::Broken { what: "data.json.zst", error }));
    }
    let read = match File::open(&plain) {
        Ok(file) => data::read(file, max, aggregations, known),
        Err(error) => Err(broken("data.json", &error)),
    };
    (plain, read)
}

fn whole(file: &Path, what: &'static str, max: u64) -> Result<Vec<u8>, Reason> {
    let mut bytes = Vec::new();
    let opened = File::open(file).map_err(|error| broken(what, &error))?;
    match Bounded::new(opened, max).read_to_end(&mut bytes) {
        Err(error) if error.kind() == ErrorKind::FileTooLarge => Err(Reason::TooLong(max as usize)),
        Err(error) => Err(broken(what, &error)),
        Ok(_) => Ok(bytes),
    }
}

fn directories(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let paths = std::fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.path()));
    paths.filter(|path| path.as_ref().map_or(true, |path| path.is_dir())).collect()
}

fn broken(what: &'static str, error: &io::Error) -> Reason {
    Reason::Broken { what, error: error.to_string() }
}
