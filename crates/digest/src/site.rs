//! What a site says of itself: thresholds, how long some things may take, and what its batch system does not tell of
//! partitions and nodes. It is data, with defaults that are data, too.

use std::collections::BTreeMap;
use std::mem;

use record::metric::{self, Metric};
use serde::{Deserialize, Deserializer, de};

use crate::limits::Limits;
use crate::overrides::{OfNodes, OfPartition, Overrides, each_once};
use crate::people::{OfProject, People};
use crate::threshold::Threshold;

/// The file that is shipped, in the form of a site's own.
pub const SHIPPED: &str = include_str!("../site.toml");

/// A year: whoever means longer means never, and nothing computed with it overflows.
pub(crate) const LONGEST: f64 = 366.0 * 86_400.0;

/// What a site says of itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Site {
    /// Jobs shorter than this are rolled up.
    pub short_job_ns: i64,
    /// The row of a job that runs is renewed this often at most.
    pub renew_ns: i64,
    /// A job without an end, of which nothing was heard for so long, is no longer said to run.
    pub unheard_ns: i64,
    /// Users below are the system's own, but for root.
    pub first_user_id: u32,
    /// By the number of the metric.
    pub thresholds: BTreeMap<u16, Threshold>,
    /// What it says over its batch system.
    pub overrides: Overrides,
    /// What it says of tags, and those of its own.
    pub tags: tags::Site,
    pub own_tags: Vec<tags::Declaration>,
    /// Searches of its own.
    pub searches: Vec<tags::Search>,
    /// Who runs it, and who has a say in which project.
    pub people: People,
    pub projects: Vec<OfProject>,
    /// How much people may keep.
    pub limits: Limits,
}

/// What is wrong with a site's file, with its line and text.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.to_string().trim_end())]
pub struct SiteError(#[from] toml::de::Error);

impl Site {
    /// What is shipped, changed by what the text names.
    pub fn parse(text: &str) -> Result<Site, SiteError> {
        let mut site = Site::default();
        for text in [SHIPPED, text] {
            let file: File = toml::from_str(text)?;
            site.change(file);
        }
        Ok(site)
    }

    pub fn shipped() -> Result<Site, SiteError> {
        Site::parse("")
    }

    fn change(&mut self, file: File) {
        for (own, said) in [
            (&mut self.short_job_ns, file.short_job_seconds),
            (&mut self.renew_ns, file.renew_seconds),
            (&mut self.unheard_ns, file.unheard_seconds),
        ] {
            *own = said.map_or(*own, |seconds| seconds.0);
        }
        self.first_user_id = file.first_user_id.unwrap_or(self.first_user_id);
        self.thresholds.extend(file.threshold.into_iter().map(|(name, bounds)| (name.0, bounds.0)));
        self.overrides.partitions.extend(file.partition);
        self.overrides.nodes.extend(file.nodes);
        self.tags = file.tags.unwrap_or_else(|| mem::take(&mut self.tags));
        self.own_tags.extend(file.tag);
        self.searches.extend(file.search);
        self.people = file.people.unwrap_or_else(|| mem::take(&mut self.people));
        self.projects.extend(file.project);
        self.limits.extend(file.limits);
    }

    /// Whether a user is a person, as far as the number says: root may be one.
    pub fn is_person(&self, uid: Option<u32>) -> bool {
        uid.is_none_or(|uid| uid == 0 || uid >= self.first_user_id)
    }

    /// The threshold of a metric.
    pub fn threshold(&self, metric: &Metric) -> Option<&Threshold> {
        self.thresholds.get(&metric.id).filter(|threshold| **threshold != Threshold::default())
    }
}

/// A file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    short_job_seconds: Option<Nanos>,
    renew_seconds: Option<Nanos>,
    unheard_seconds: Option<Nanos>,
    first_user_id: Option<u32>,
    #[serde(default)]
    threshold: BTreeMap<OfJob, Bounds>,
    #[serde(default, deserialize_with = "each_once")]
    partition: Vec<OfPartition>,
    #[serde(default)]
    nodes: Vec<OfNodes>,
    tags: Option<tags::Site>,
    #[serde(default)]
    tag: Vec<tags::Declaration>,
    #[serde(default)]
    search: Vec<tags::Search>,
    people: Option<People>,
    #[serde(default)]
    project: Vec<OfProject>,
    #[serde(default)]
    limits: Limits,
}

/// Written in seconds.
struct Nanos(i64);

impl<'de> Deserialize<'de> for Nanos {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        if !(0.0..=LONGEST).contains(&seconds) {
            return Err(de::Error::custom(format!("{seconds} seconds are not between 0 and a year")));
        }
        Ok(Nanos((seconds * 1e9) as i64))
    }
}

/// The number of a metric of jobs, written as its name.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct OfJob(u16);

impl<'de> Deserialize<'de> for OfJob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let known = metric::by_name(&name).filter(|metric| metric.of == metric::Of::Job);
        known.map(|metric| OfJob(metric.id)).ok_or_else(|| {
            let names: Vec<&str> = metric::of(metric::Of::Job).map(|metric| metric.name).collect();
            de::Error::custom(format!("no metric `{name}` of jobs; there are: {}", names.join(", ")))
        })
    }
}

/// Bounds that make sense.
struct Bounds(Threshold);

impl<'de> Deserialize<'de> for Bounds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let threshold = Threshold::deserialize(deserializer)?;
        let Threshold { low, high, .. } = threshold;
        if let Some(wrong) = [low, high].into_iter().flatten().find(|bound| !(0.0..1e300).contains(bound)) {
            return Err(de::Error::custom(format!("{wrong} is no threshold: no metric can be there")));
        }
        if let (Some(low), Some(high)) = (low, high)
            && low > high
        {
            return Err(de::Error::custom(format!("low is {low}, more than high, which is {high}")));
        }
        Ok(Bounds(threshold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threshold::Of;
    use record::metric::by_name;

    #[test]
    fn a_file_changes_what_it_names() {
        let shipped = Site::shipped().unwrap();
        let of = |site: &Site, name: &str| site.threshold(by_name(name).unwrap()).copied();
        let cpu = Threshold { of: Some(Of::ReservedCpus), low: Some(0.1), high: Some(0.9) };
        assert_eq!(of(&shipped, "cpu"), Some(cpu));
        assert_eq!((shipped.short_job_ns, shipped.renew_ns), (60_000_000_000, 300_000_000_000));
        assert!(shipped.is_person(Some(0)) && shipped.is_person(Some(1000)) && shipped.is_person(None));
        assert!(!shipped.is_person(Some(999)));
        let own = "short_job_seconds = 0.5\n[threshold.cpu]\nlow = 2\n[threshold.memory]\n";
        let site = Site::parse(own).unwrap();
        assert_eq!((site.short_job_ns, site.renew_ns), (500_000_000, 300_000_000_000));
        assert_eq!(of(&site, "cpu"), Some(Threshold { low: Some(2.0), ..Threshold::default() }));
        assert_eq!((of(&site, "memory"), of(&site, "threads")), (None, None));
        assert_eq!(of(&site, "job_load"), of(&shipped, "job_load"));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line_and_text() {
        for (text, line, said) in [
            ("short_job_seconds = 60\nshort = 1\n", "line 2", "unknown field `short`"),
            ("\nshort_job_seconds = -1\n", "line 2", "-1 seconds"),
            ("renew_seconds = nan\n", "line 1", "NaN seconds"),
            ("unheard_seconds = \"soon\"\n", "line 1", "invalid type: string \"soon\""),
            ("[threshold.cpuu]\nlow = 1\n", "line 1", "no metric `cpuu` of jobs; there are: cpu, cpu_user"),
            ("[threshold.node_load]\nlow = 1\n", "line 1", "no metric `node_load` of jobs"),
            ("[threshold.cpu]\nlow = 2\nhigh = 1\n", "line 1", "low is 2, more than high, which is 1"),
            ("[threshold.cpu]\nhigh = -1\n", "line 1", "-1 is no threshold"),
            ("[threshold.cpu]\nhigh = inf\n", "line 1", "inf is no threshold"),
            ("[threshold.cpu]\nof = \"reserved\"\n", "line 2", "unknown variant `reserved`"),
            ("[threshold.cpu]\nlow = 1\nhihg = 2\n", "line 3", "unknown field `hihg`"),
            ("threshold = 3 =\n", "line 1", ""),
            ("[[partition]]\nis_test = true\n", "line 1", "missing field `name`"),
            ("[[partition]]\nname = \"\"\n", "line 2", "name is empty"),
            ("[[partition]]\nname = \"a\"\nis_tset = true\n", "line 3", "unknown field `is_tset`"),
            ("[[partition]]\nname = \"a\"\nhas_gpus = 1\n", "line 3", "invalid type: integer `1`"),
            (
                "[[partition]]\nname = \"a\"\ndefault_time_limit_seconds = 0\n",
                "line 3",
                "default_time_limit_seconds is 0",
            ),
            ("[[partition]]\nname = \"a\"\n[[partition]]\nname = \"a\"\n", "line 1", "`a` is there twice"),
            ("[[nodes]]\ncores = 1\n", "line 1", "missing field `names`"),
            ("[[nodes]]\nnames = \"n[1\"\n", "line 2", "names: `n[1` has a bracket"),
            ("[[nodes]]\nnames = \"n*\"\npeak_flops = -1\n", "line 3", "peak_flops is -1"),
            ("[[nodes]]\nnames = \"n*\"\npeak_flops = inf\n", "line 3", "peak_flops is inf"),
            ("[[nodes]]\nnames = \"n*\"\ncores = 0\n", "line 3", "cores is 0"),
            ("[[nodes]]\nnames = \"n*\"\nmemory = 0\n", "line 3", "memory is 0"),
            ("[[nodes]]\nnames = \"n*\"\ngpus = -1\n", "line 3", "gpus is -1"),
            ("[[nodes]]\nnames = \"n*\"\ncore = 1\n", "line 3", "unknown field `core`"),
        ] {
            let error = Site::parse(text).unwrap_err().to_string();
            let at =
                text.lines().nth(line.trim_start_matches("line ").parse::<usize>().unwrap() - 1).unwrap();
            for part in [line, said, at] {
                assert!(error.contains(part), "{text:?}: no {part:?} in {error}");
            }
        }
    }
}
