//! Runs with harmful or missing variables. Rules are data.

use std::collections::{BTreeMap, HashMap};

use condition::like::Pattern;
use regex::Regex;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{After, Filter, Snapshot, in_list, object, time};
use crate::StoreError;

/// The rules that are shipped.
const SHIPPED: &str = include_str!("../../rules/environment.toml");

/// When an environment is worth a word. All conditions must hold; what is not known does not hold.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    pub id: String,
    pub says: String,
    pub advice: String,
    /// A variable that is set; a `*` at its end stands for anything.
    variable: Option<String>,
    /// What its value looks like.
    #[serde(default, deserialize_with = "regex")]
    matches: Option<Regex>,
    /// Variables of which none is set.
    #[serde(default)]
    unset: Vec<String>,
    /// Variables that are numbers, and not smaller.
    #[serde(default)]
    at_least: BTreeMap<String, u64>,
    /// Patterns for libraries of which one is loaded.
    #[serde(default)]
    loads: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    rule: Vec<Rule>,
}

fn regex<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Regex>, D::Error> {
    let text = String::deserialize(deserializer)?;
    Regex::new(&text).map(Some).map_err(serde::de::Error::custom)
}

/// All rules of a site.
#[derive(Debug, Clone)]
pub struct Rules(Vec<Rule>);

impl Rules {
    /// Reads rules; what is wrong is said with its line.
    pub fn parse(text: &str) -> Result<Rules, String> {
        let File { rule: rules } = toml::from_str(text).map_err(|error| error.to_string())?;
        for rule in &rules {
            if rule.variable.is_none() && rule.unset.is_empty() {
                return Err(format!(
                    "rule {:?} names no variable: `variable` or `unset` is missing",
                    rule.id
                ));
            }
            if rules.iter().filter(|other| other.id == rule.id).count() > 1 {
                return Err(format!("two rules have the id {:?}", rule.id));
            }
        }
        Ok(Rules(rules))
    }

    /// Those that are shipped.
    pub fn shipped() -> Result<Rules, String> {
        Rules::parse(SHIPPED)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.0.iter()
    }
}

impl Rule {
    /// What of an environment the rule is about, if it holds as far as variables go.
    fn finds(&self, variables: &HashMap<&str, &str>) -> Option<String> {
        let is_large = |(name, least): (&String, &u64)| {
            variables
                .get(name.as_str())
                .and_then(|value| value.parse::<u64>().ok())
                .is_some_and(|value| value >= *least)
        };
        if self.unset.iter().any(|name| variables.contains_key(name.as_str()))
            || !self.at_least.iter().all(is_large)
        {
            return None;
        }
        let Some(wanted) = &self.variable else { return Some(format!("{} not set", self.unset.join(", "))) };
        let fits = |name: &str| match wanted.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == wanted,
        };
        let mut found: Vec<_> = variables
            .iter()
            .filter(|(name, value)| {
                fits(name) && self.matches.as_ref().is_none_or(|regex| regex.is_match(value))
            })
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        found.sort();
        found.into_iter().next()
    }
}

impl Snapshot<'_> {
    /// One row for each rule, user and program for which it holds; and how many runs have an environment that is
    /// not known.
    pub(super) fn check_environments(
        &self,
        rules: &[Rule],
        filter: &Filter,
    ) -> Result<(Vec<Map<String, Value>>, u64), StoreError> {
        let which = self.which(filter)?;
        let (conditions, all) = (&which.conditions, which.all());
        let condition = conditions.sql();
        let sql = format!(
            "SELECT id, any_value(variables) FROM environment WHERE id IN (SELECT environment FROM {all} {condition}) \
             GROUP BY id"
        );
        let environments =
            self.rows(&sql, &conditions.values, |row| Ok((row.get::<_, u64>(0)?, row.get::<_, String>(1)?)))?;
        let parsed: Vec<(u64, Vec<String>)> = environments
            .into_iter()
            .map(|(id, text)| (id, serde_json::from_str(&text).unwrap_or_default()))
            .collect();
        let mut found = Vec::new();
        for rule in rules {
            let holds = |(id, variables): &(u64, Vec<String>)| {
                let variables = variables.iter().filter_map(|variable| variable.split_once('=')).collect();
                rule.finds(&variables).map(|what| (*id, what))
            };
            let hits: HashMap<u64, String> = parsed.iter().filter_map(holds).collect();
            if !hits.is_empty() {
                found.extend(self.runs_with(rule, &hits, filter)?);
            }
        }
        let unknown = format!(
            "SELECT coalesce(sum(count), 0)::UBIGINT FROM {all} {condition} AND environment IS NULL AND exec > 0"
        );
        let unknown = self.rows(&unknown, &conditions.values, |row| row.get(0))?.pop().unwrap_or(0);
        let before = filter.after.as_ref().map_or(0, After::position) as usize;
        let found = found
            .into_iter()
            .skip(before)
            .take(filter.limit.map_or(usize::MAX, |limit| limit as usize))
            .collect();
        Ok((found, unknown))
    }

    /// Who ran what with these environments.
    fn runs_with(
        &self,
        rule: &Rule,
        hits: &HashMap<u64, String>,
        filter: &Filter,
    ) -> Result<Vec<Map<String, Value>>, StoreError> {
        let which = self.which(filter)?;
        let all = which.all();
        let conditions = which.conditions;
        let last =
            filter.limit.map(|limit| limit.saturating_add(filter.after.as_ref().map_or(0, After::position)));
        let limit = last.map_or(String::new(), |last| format!(" LIMIT {last}"));
        let mut condition = conditions.sql();
        condition.push_str(&format!(" AND environment IN ({})", in_list(hits.keys().copied())));
        let mut values = conditions.values;
        if !rule.loads.is_empty() {
            let loads = rule.loads.iter().map(|name| Pattern::of_glob(name).sql("o.name"));
            let (names, globs): (Vec<String>, Vec<String>) = loads.unzip();
            let names = names.join(" OR ");
            let lists =
                format!("(SELECT list FROM object_list JOIN object o ON o.id = object WHERE {names})");
            condition.push_str(&format!(" AND (objects IN {lists} OR late_objects IN {lists})"));
            for _ in 0..2 {
                values.extend(globs.iter().cloned().map(duckdb::types::Value::Text));
            }
        }
        let sql = format!(
            "SELECT \"user\", exe, count(DISTINCT coalesce(job, session)), sum(count)::UBIGINT AS runs, min(start_ns), \
             max(until_ns) AS last, arg_max(coalesce(job, session), start_ns), \
             arg_max(environment, start_ns) FROM {all} {condition} AND exec > 0 GROUP BY ALL ORDER BY runs DESC, last DESC, 1, 2{limit}"
        );
        self.rows(&sql, &values, |row| {
            let example = row.get::<_, Option<u64>>(7)?.and_then(|id| hits.get(&id));
            Ok(object([
                ("rule", json!(rule.id)),
                ("user", json!(row.get::<_, Option<String>>(0)?)),
                ("exe", json!(row.get::<_, Option<String>>(1)?)),
                ("jobs", json!(row.get::<_, u64>(2)?)),
                ("runs", json!(row.get::<_, u64>(3)?)),
                ("first_seen", time(row.get(4)?)),
                ("last_seen", time(row.get(5)?)),
                ("example_job", json!(row.get::<_, Option<String>>(6)?)),
                ("example", json!(example)),
                ("says", json!(rule.says)),
                ("advice", json!(rule.advice)),
            ]))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_a_shipped_rule_holds() {
        let rules = Rules::shipped().unwrap();
        for (variables, expected) in [
            (&["LD_LIBRARY_PATH=/opt/lib:/home/alice/lib"][..], &["library-path-home"][..]),
            (&["LD_LIBRARY_PATH=/opt/lib:"], &["library-path-here"]),
            (&["LD_LIBRARY_PATH=/opt/lib:/opt/home/x"], &[]),
            (&["LD_LIBRARY_PATH="], &[]),
            (&["SLURM_CPUS_ON_NODE=64"], &["threads-unset"]),
            (&["SLURM_CPUS_ON_NODE=4"], &[]),
            (&["SLURM_CPUS_ON_NODE=many"], &[]),
            (&["SLURM_CPUS_ON_NODE=64", "OMP_NUM_THREADS=4"], &[]),
            (&["SLURM_CPUS_PER_TASK=4", "OMP_NUM_THREADS=1"], &["threads-one"]),
            (&["NCCL_DEBUG=INFO", "MALLOC_CHECK_=3"], &["debug-nccl", "debug-malloc"]),
            (&["NCCL_DEBUG=WARN", "MALLOC_ARENA_MAX=x"], &[]),
        ] {
            let map = variables.iter().filter_map(|variable| variable.split_once('=')).collect();
            let held: Vec<&str> =
                rules.iter().filter(|rule| rule.finds(&map).is_some()).map(|rule| rule.id.as_str()).collect();
            assert_eq!(held, expected, "{variables:?}");
        }
    }

    #[test]
    fn what_is_wrong_with_rules_is_said() {
        for (text, reason) in [
            ("[[rule]]\nid = 'a'\nsays = ''\nadvice = ''\n", "names no variable"),
            ("[[rule]]\nid = 'a'\nsays = ''\nadvice = ''\nvariable = 'X'\nmatches = '('\n", "unclosed group"),
            ("[[rule]]\nid = 'a'\nsays = ''\nadvice = ''\nvariable = 'X'\nmathces = 'y'\n", "unknown field"),
        ] {
            let error = Rules::parse(text).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        let one = "[[rule]]\nid = 'a'\nsays = ''\nadvice = ''\nvariable = 'X'\n";
        assert!(Rules::parse(&format!("{one}{one}")).unwrap_err().contains("two rules"));
    }
}
