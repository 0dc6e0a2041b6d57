//! The table of names: TOML, with a row for each series that is known.
//!
//! ```toml
//! [[unit]]
//! names = ["KB", "kB"]             # as others write it; rows name it by the first
//! of = "bytes"                     # what our catalogue counts
//! times = 1024.0                   # how many of these it is
//! each_second = false              # it is a rate
//! of_all_cores = false             # times the number of cores
//!
//! [[collectd]]                     # or [[ganglia]], [[influx]]
//! plugin = "interface"             # all that is named must match: plugin_instance, type, type_instance, source, tags
//! type = "if_octets"
//! source = "rx"
//! metric = "node_net_received"     # one of ours; or own = "name", learn = "cores", learn = "core", ignore = true
//! unit = "bytes"                   # unless the reading says one of the same kind,
//! always = true                    # and even then
//! part = "plugin_instance"         # what tells the parts of a whole apart: of the name, a tag, or `series` for all
//! join = "sum"                     # or max, or each: they are no whole
//! needs = ["a", "b"]               # the parts without which the sum is unknown
//! except = "interfaces"            # a list of parts that do not count
//! minus = true                     # what is told is to be taken off
//! counter = true                   # of an own name: it only grows
//! label = "W"                      # of an own name: what its values count, for people; else it is that of the unit
//!
//! [except]
//! interfaces = ["lo"]
//! ```
//!
//! In what is compared `*` stands for anything and `#` for digits, and `|` is between names of which one must match. A tag that a
//! series does not have is empty. Every row that matches counts, so one series may be a part of two metrics.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use record::metric::{self, Kind, Metric};
use serde::Deserialize;

use super::pattern::Pattern;
use crate::monitor::{Path, System};

/// The table that is shipped.
pub const SHIPPED: &str = include_str!("table.toml");

/// What is wrong with a table.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{file}: {}", error.to_string().trim_end())]
    Form { file: String, error: toml::de::Error },
    #[error("{file}: {row}: {reason}")]
    Row { file: String, row: String, reason: Reason },
}

/// What is wrong with a row.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    #[error("no metric of a node is called `{0}`")]
    UnknownMetric(String),
    #[error("no unit is called `{0}`")]
    UnknownUnit(String),
    #[error("`{unit}` does not measure what `{metric}` counts")]
    WrongUnit { unit: String, metric: String },
    #[error("one of metric, own, learn and ignore is needed, and only one")]
    Purpose,
    #[error("a rate cannot be told of a metric that is a state")]
    RateOfState,
    #[error("a part is told apart by nothing")]
    NoPart,
    #[error("no list of exceptions is called `{0}`")]
    UnknownList(String),
    #[error("nothing is counted in `{0}`")]
    UnknownQuantity(String),
}

/// All rows, by what they are looked up with.
#[derive(Debug, Clone, Default)]
pub struct Table {
    units: HashMap<String, Unit>,
    except: BTreeMap<String, Vec<Pattern>>,
    /// Those whose plugin is one name, and those whose plugin is a pattern.
    named: HashMap<String, Vec<(System, Rule)>>,
    others: Vec<(System, Rule)>,
}

/// What a unit is in ours.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Unit {
    of: metric::Unit,
    pub times: f64,
    pub each_second: bool,
    pub of_all_cores: bool,
}

/// One row.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    matching: Matching,
    pub purpose: Purpose,
    unit: Option<Unit>,
    is_always: bool,
    pub part: Option<String>,
    pub join: Join,
    pub needs: Vec<String>,
    pub is_minus: bool,
    except: Vec<Pattern>,
}

#[derive(Debug, Clone)]
pub(super) enum Purpose {
    Metric(&'static Metric),
    Own {
        name: String,
        is_counter: bool,
        label: Option<String>,
    },
    /// The value is the number of cores.
    LearnCores,
    /// There is a core with the number in its part.
    LearnCore,
    Ignore,
}

/// How parts become a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Join {
    /// They do not.
    #[default]
    Each,
    Sum,
    Max,
}

/// A table as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    unit: Vec<UnitRow>,
    #[serde(default)]
    except: BTreeMap<String, Vec<Pattern>>,
    #[serde(default)]
    ganglia: Vec<Row>,
    #[serde(default)]
    collectd: Vec<Row>,
    #[serde(default)]
    influx: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UnitRow {
    names: Vec<String>,
    of: String,
    times: f64,
    #[serde(default)]
    each_second: bool,
    #[serde(default)]
    of_all_cores: bool,
}

/// What must match; what is not named may be anything.
#[derive(Debug, Clone)]
struct Matching {
    plugin: Pattern,
    plugin_instance: Option<Pattern>,
    kind: Option<Pattern>,
    kind_instance: Option<Pattern>,
    source: Option<Pattern>,
    tags: BTreeMap<String, Pattern>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    plugin: Pattern,
    plugin_instance: Option<Pattern>,
    #[serde(rename = "type")]
    kind: Option<Pattern>,
    #[serde(rename = "type_instance")]
    kind_instance: Option<Pattern>,
    source: Option<Pattern>,
    #[serde(default)]
    tags: BTreeMap<String, Pattern>,
    metric: Option<String>,
    own: Option<String>,
    learn: Option<Learn>,
    #[serde(default)]
    ignore: bool,
    #[serde(default)]
    counter: bool,
    label: Option<String>,
    unit: Option<String>,
    #[serde(default)]
    always: bool,
    part: Option<String>,
    join: Option<Join>,
    #[serde(default)]
    needs: Vec<String>,
    #[serde(default)]
    minus: bool,
    except: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Learn {
    Cores,
    Core,
}

impl Table {
    pub fn shipped() -> Result<Table, Error> {
        let mut table = Table::default();
        table.add(SHIPPED, "table.toml")?;
        Ok(table)
    }

    /// Adds a file's rows. A file that is wrong somewhere adds nothing.
    pub fn add(&mut self, text: &str, file: &str) -> Result<(), Error> {
        let form = |error| Error::Form { file: file.to_owned(), error };
        let read: File = toml::from_str(text).map_err(form)?;
        let mut table = self.clone();
        table.except.extend(read.except);
        for row in read.unit {
            let shown = format!("unit {:?}", row.names);
            table.add_unit(row).map_err(|reason| Error::Row { file: file.to_owned(), row: shown, reason })?;
        }
        for (system, rows) in [
            (System::Ganglia, read.ganglia),
            (System::Collectd, read.collectd),
            (System::Influx, read.influx),
        ] {
            for (number, row) in (1..).zip(rows) {
                let shown = format!("row {number} of {}", system.name());
                let error = |reason| Error::Row { file: file.to_owned(), row: shown, reason };
                table.add_row(system, row).map_err(error)?;
            }
        }
        *self = table;
        Ok(())
    }

    fn add_unit(&mut self, row: UnitRow) -> Result<(), Reason> {
        let of = quantity(&row.of).ok_or(Reason::UnknownQuantity(row.of))?;
        let (times, each_second, of_all_cores) = (row.times, row.each_second, row.of_all_cores);
        let unit = Unit { of, times, each_second, of_all_cores };
        self.units.extend(row.names.into_iter().map(|name| (name, unit.clone())));
        Ok(())
    }

    fn add_row(&mut self, system: System, row: Row) -> Result<(), Reason> {
        let unit = match &row.unit {
            Some(name) => {
                Some(self.units.get(name).cloned().ok_or_else(|| Reason::UnknownUnit(name.clone()))?)
            }
            None => None,
        };
        let except = match &row.except {
            Some(list) => self.except.get(list).cloned().ok_or_else(|| Reason::UnknownList(list.clone()))?,
            None => Vec::new(),
        };
        let name = row.plugin.literal().map(str::to_owned);
        let rule = row.rule(unit, except)?;
        match name {
            Some(name) => self.named.entry(name).or_default().push((system, rule)),
            None => self.others.push((system, rule)),
        }
        Ok(())
    }

    /// All rows for a series.
    pub(super) fn rules(&self, path: &Path) -> impl Iterator<Item = &Rule> {
        let named = self.named.get(&path.plugin).into_iter().flatten();
        let of_system = named.chain(&self.others).filter(|(system, _)| *system == path.system);
        of_system.map(|(_, rule)| rule).filter(|rule| rule.matching.matches(path))
    }

    /// The unit in which a row's values are: the reading's own, if it measures the same.
    pub(super) fn unit<'a>(&'a self, rule: &'a Rule, said: Option<&str>) -> Option<&'a Unit> {
        let said = said.filter(|_| !rule.is_always).and_then(|name| self.units.get(name));
        match (&rule.unit, said) {
            (Some(expected), Some(said))
                if said.of == expected.of && said.each_second == expected.each_second =>
            {
                Some(said)
            }
            (expected, _) => expected.as_ref(),
        }
    }
}

impl Unit {
    /// What an own name counts in it.
    fn label(&self, is_counter: bool) -> Option<String> {
        let one = match self.of {
            metric::Unit::Bytes => "bytes",
            metric::Unit::Nanoseconds => "ns",
            metric::Unit::MegaHertz => "MHz",
            _ => return None,
        };
        let is_rate = is_counter || self.each_second;
        Some(if is_rate { format!("{one}/s") } else { one.to_owned() })
    }
}

impl Row {
    fn rule(self, unit: Option<Unit>, except: Vec<Pattern>) -> Result<Rule, Reason> {
        let purpose = self.purpose(unit.as_ref())?;
        self.check(&purpose, unit.as_ref())?;
        Ok(Rule {
            matching: Matching {
                plugin: self.plugin,
                plugin_instance: self.plugin_instance,
                kind: self.kind,
                kind_instance: self.kind_instance,
                source: self.source,
                tags: self.tags,
            },
            purpose,
            unit,
            is_always: self.always,
            join: self.join.unwrap_or(Join::Each),
            part: self.part,
            needs: self.needs,
            is_minus: self.minus,
            except,
        })
    }

    fn check(&self, purpose: &Purpose, unit: Option<&Unit>) -> Result<(), Reason> {
        if let (Purpose::Metric(metric), Some(unit)) = (purpose, unit) {
            if metric.unit != unit.of {
                let unit = self.unit.clone().unwrap_or_default();
                return Err(Reason::WrongUnit { unit, metric: metric.name.to_owned() });
            }
            if unit.each_second && metric.kind == Kind::Gauge {
                return Err(Reason::RateOfState);
            }
        }
        let needs_part = self.join.is_some() || !self.needs.is_empty() || self.except.is_some();
        if needs_part && self.part.is_none() { Err(Reason::NoPart) } else { Ok(()) }
    }

    fn purpose(&self, unit: Option<&Unit>) -> Result<Purpose, Reason> {
        match (&self.metric, &self.own, self.learn, self.ignore) {
            (Some(name), None, None, false) => metric::by_name(name)
                .filter(|metric| metric.of == metric::Of::Node)
                .map(Purpose::Metric)
                .ok_or_else(|| Reason::UnknownMetric(name.clone())),
            (None, Some(name), None, false) => {
                let label = self.label.clone().or_else(|| unit.and_then(|unit| unit.label(self.counter)));
                Ok(Purpose::Own { name: name.clone(), is_counter: self.counter, label })
            }
            (None, None, Some(Learn::Cores), false) => Ok(Purpose::LearnCores),
            (None, None, Some(Learn::Core), false) => Ok(Purpose::LearnCore),
            (None, None, None, true) => Ok(Purpose::Ignore),
            _ => Err(Reason::Purpose),
        }
    }
}

impl Matching {
    fn matches(&self, path: &Path) -> bool {
        let fits = |pattern: &Option<Pattern>, text: &str| pattern.as_ref().is_none_or(|p| p.matches(text));
        self.plugin.matches(&path.plugin)
            && fits(&self.plugin_instance, &path.plugin_instance)
            && fits(&self.kind, &path.kind)
            && fits(&self.kind_instance, &path.kind_instance)
            && fits(&self.source, &path.source)
            && self.tags.iter().all(|(key, value)| value.matches(path.tag(key).unwrap_or_default()))
    }
}

impl Rule {
    /// Which part of a whole a series is.
    pub fn part_of<'a>(&self, path: &'a Path) -> Cow<'a, str> {
        Cow::Borrowed(match self.part.as_deref() {
            None => "",
            Some("series") => return Cow::Owned(path.to_string()),
            Some("plugin") => &path.plugin,
            Some("plugin_instance") => &path.plugin_instance,
            Some("type_instance") => &path.kind_instance,
            Some("source") => &path.source,
            Some(tag) => path.tag(tag).unwrap_or(""),
        })
    }

    pub fn excepts(&self, part: &str) -> bool {
        self.except.iter().any(|pattern| pattern.matches(part))
    }
}

fn quantity(name: &str) -> Option<metric::Unit> {
    Some(match name {
        "bytes" => metric::Unit::Bytes,
        "nanoseconds" => metric::Unit::Nanoseconds,
        "count" => metric::Unit::Count,
        "hundredths" => metric::Unit::Hundredths,
        "millicelsius" => metric::Unit::MilliCelsius,
        "milliwatt" => metric::Unit::MilliWatt,
        "microjoule" => metric::Unit::MicroJoule,
        "megahertz" => metric::Unit::MegaHertz,
        _ => return None,
    })
}
