//! An archive of jobs in ClusterCockpit's form, version 3, one job at a time; see [`super::archive`] for the directory.
//!
//! Files come under another name first, so that no reader finds half of one, and the series before `meta.json`, by which
//! a job is found. A record that is there already stays, unless it is the same or the caller says otherwise.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use super::archive::{VERSION, check_version};
use super::{Error, Known};
use cluster::Cluster;

mod cluster;
pub mod data;
pub mod meta;

/// What became of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Not, if the same was there already.
    pub is_new: bool,
    /// How many series have no place in their form: they are of a part of a node that it does not know.
    pub left_out: usize,
}

/// Writes jobs into one archive.
pub struct Writer {
    dir: PathBuf,
    overwrite: bool,
    clusters: BTreeMap<String, Cluster>,
    /// Of clusters that have described themselves.
    descriptions: BTreeMap<String, String>,
}

impl Writer {
    /// Begins an archive, or goes on with one. With `overwrite` other records of the same jobs are replaced.
    pub fn new(dir: &Path, overwrite: bool) -> Result<Self, Error> {
        std::fs::create_dir_all(dir).map_err(Error::io(dir))?;
        match check_version(dir) {
            Ok(VERSION) => {}
            Ok(old) => {
                let file = dir.join("version.txt").display().to_string();
                return Err(Error::Version { file, text: old.to_string() });
            }
            Err(Error::NoVersion { .. }) => {
                let file = dir.join("version.txt");
                replace(&file, format!("{VERSION}\n").as_bytes()).map_err(Error::io(&file))?;
            }
            Err(error) => return Err(error),
        }
        let (clusters, descriptions) = (BTreeMap::new(), BTreeMap::new());
        Ok(Writer { dir: dir.to_owned(), overwrite, clusters, descriptions })
    }

    /// What a cluster said of itself is written as it was, if there are jobs of it.
    pub fn describe(&mut self, cluster: String, text: String) {
        self.descriptions.insert(cluster, text);
    }

    pub fn job(&mut self, known: &Known) -> Result<Written, Error> {
        let (groups, left_out) = data::groups(known);
        let meta = meta::render(known, &groups)?;
        let dir = self.place(known, &meta)?;
        std::fs::create_dir_all(&dir).map_err(Error::io(&dir))?;
        let is_new = self.files(&dir, &meta, &groups)?;
        let name = meta["cluster"].as_str().unwrap_or_default();
        self.clusters.entry(name.to_owned()).or_default().add(&meta, &groups, &known.measures.told);
        Ok(Written { is_new, left_out })
    }

    /// Describes the clusters of the jobs that were written: as they did themselves, or with what their jobs tell. A description that
    /// is there already is the site's own, and stays.
    pub fn finish(self) -> Result<(), Error> {
        for (name, cluster) in &self.clusters {
            let file = self.dir.join(name).join("cluster.json");
            if !file.exists() {
                let made = || format!("{:#}\n", cluster.describe(name));
                let text = self.descriptions.get(name).cloned().unwrap_or_else(made);
                replace(&file, text.as_bytes()).map_err(Error::io(&file))?;
            }
        }
        Ok(())
    }

    fn place(&self, known: &Known, meta: &Value) -> Result<PathBuf, Error> {
        let cluster = meta["cluster"].as_str().unwrap_or_default();
        let is_odd = |c: char| c == '/' || c.is_control();
        if cluster.is_empty() || cluster.starts_with('.') || cluster.contains(is_odd) {
            let (job, cluster) = (known.job.shown.clone(), cluster.to_owned());
            return Err(Error::Cluster { job, cluster });
        }
        let number = meta["jobId"].as_u64().unwrap_or_default();
        let (thousands, rest) = (number / 1000, number % 1000);
        Ok(self.dir.join(cluster).join(format!("{thousands}/{rest:03}/{}", meta["startTime"])))
    }

    /// Whether something was written that was not there.
    fn files(&self, dir: &Path, meta: &Value, groups: &[data::Group]) -> Result<bool, Error> {
        let io = Error::io(dir);
        let new_data = Draft::new(dir.join("data.json.gz"), |file| {
            let mut packed = GzEncoder::new(file, Compression::default());
            data::render(groups, &mut packed)?;
            packed.finish()?.flush()
        });
        let new_data = new_data.map_err(&io)?;
        let text = format!("{meta:#}\n");
        let new_meta =
            Draft::new(dir.join("meta.json"), |file| file.write_all(text.as_bytes())).map_err(&io)?;
        if new_meta.target.exists() {
            if new_meta.is_same().map_err(&io)? && new_data.is_same().map_err(&io)? {
                return Ok(false);
            }
            if !self.overwrite {
                return Err(Error::Exists { file: new_meta.target.display().to_string() });
            }
            remove(&dir.join("data.json")).map_err(&io)?;
        }
        new_data.publish().map_err(&io)?;
        new_meta.publish().map_err(&io)?;
        Ok(true)
    }
}

/// A file under another name, which is removed if it does not get its own.
struct Draft {
    path: PathBuf,
    target: PathBuf,
}

impl Draft {
    fn new(target: PathBuf, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> io::Result<Draft> {
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let path = target.with_file_name(format!(".{name}.{}", std::process::id()));
        let draft = Draft { path, target };
        let mut file = BufWriter::new(File::create(&draft.path)?);
        write(&mut file)?;
        file.flush()?;
        Ok(draft)
    }

    fn is_same(&self) -> io::Result<bool> {
        let target = match File::open(&self.target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            file => file?,
        };
        let draft = File::open(&self.path)?;
        if draft.metadata()?.len() != target.metadata()?.len() {
            return Ok(false);
        }
        let pairs = BufReader::new(draft).bytes().zip(BufReader::new(target).bytes());
        for (one, other) in pairs {
            if one? != other? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn publish(self) -> io::Result<()> {
        std::fs::rename(&self.path, &self.target)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // It is gone already where it was published.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn replace(target: &Path, bytes: &[u8]) -> io::Result<()> {
    Draft::new(target.to_owned(), |file| file.write_all(bytes))?.publish()
}

fn remove(file: &Path) -> io::Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
