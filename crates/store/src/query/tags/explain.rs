//! Why a job has its tags, and why not others: the values, the bounds, and the version of the rule that decided.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use condition::{Condition, Explanation, Row, Step, Value as Seen};
use duckdb::types::Value as Sql;
use serde_json::{Map, Value, json};
use tags::Declaration;

use super::opinions::is_hidden;
use super::{Reader, Snapshot, object, tagged};
use crate::StoreError;
use crate::kind::Kind;
use crate::query::jobs::attributed::SHARED_NODE;
use crate::query::jobs::{FIXED, Which, bound};
use crate::query::{Filter, time};
use crate::tags::{Bits, Declared, Known, REMOVED, Rule, TAGS};

/// Columns that say what all decisions about a job rest on.
const OF_JOB: [&str; 2] = ["coverage", SHARED_NODE];

/// What is to be explained.
#[derive(Debug, Clone, Default)]
pub struct Explain {
    /// The job, by number and cluster.
    pub filter: Filter,
    /// Also the tags that it has not.
    pub why_not: bool,
    /// Only this tag.
    pub tag: Option<String>,
}

/// What was decided of the job.
pub(super) struct Decided {
    id: u64,
    kind: Kind,
    name: Map<String, Value>,
    pub bits: Bits,
    /// Those among them that the owner has removed.
    removed: Bits,
    pub rules: Option<u32>,
    judged_ns: Option<i64>,
    has_ended: bool,
}

impl Reader {
    /// `None` if there is no such job.
    pub fn explain_tags(&self, what: &Explain) -> Result<Option<Value>, StoreError> {
        let declared = self.tags();
        self.ask(|snapshot| snapshot.explain_tags(what, &declared))
    }
}

/// A tag of which something is to be said, and what decided about it.
struct Asked<'a> {
    known: &'a Known,
    rule: Rule,
    has: bool,
    /// By its owner, or a manager of its project: who sees this still sees what the rule says.
    is_removed: bool,
    /// Of the rule that decided; `None` if it was declared later.
    version: Option<u32>,
    /// In the words that decided, not in those of today.
    condition: Condition,
    /// The tag of its exclusive group that the job has instead.
    overruled_by: Option<&'a str>,
    /// Of what the rule says something, if not of this job.
    not_of: Option<Kind>,
    opinions: Vec<Value>,
}

impl Snapshot<'_> {
    fn explain_tags(&self, what: &Explain, declared: &Declared) -> Result<Option<Value>, StoreError> {
        let Some(account) = self.account(&what.filter)? else { return Ok(None) };
        let decided = self.decided(account.id)?;
        let asked = self.asked(what, declared, &decided)?;
        let texts = asked.iter().flat_map(|of| {
            let tag = &of.known.tag;
            [&tag.supposition, &tag.recommendation].into_iter().flat_map(|text| text.columns())
        });
        let row = self.values(decided.id, asked.iter().map(|of| &of.condition), texts)?;
        let mut groups = HashSet::new();
        let tags: Vec<Value> = asked
            .iter()
            .map(|of| of.explained(&row, groups.insert((of.has, &*of.known.tag.declared.group))))
            .collect();
        let mut answer = decided.name.clone();
        answer.insert("is_judged".into(), json!(decided.rules.is_some()));
        answer.insert("is_provisional".into(), json!(!decided.has_ended));
        answer.insert("rules".into(), json!(decided.rules));
        answer.insert("judged".into(), time(decided.judged_ns));
        for name in OF_JOB {
            let value = FIXED.catalogue.get(name).map(|column| row.value(column));
            answer.insert(name.into(), value.map_or(Value::Null, |value| plain_value(&value)));
        }
        answer.insert("tags".into(), json!(tags));
        let is_asked = |said: &Map<String, Value>| {
            let name = said.get("tag").and_then(Value::as_str).unwrap_or_default();
            what.tag
                .as_deref()
                .is_none_or(|typed| declared.named(typed).is_some_and(|known| known.tag.is_called(name)))
        };
        let said = self.said(account.id, declared)?.into_iter().filter(is_asked);
        answer.insert("said".into(), said.collect::<Vec<_>>().into());
        answer.insert("refused".into(), self.refused(account.id)?.into());
        Ok(Some(Value::from(answer)))
    }

    /// The tags that are asked for, the most important first.
    fn asked<'a>(
        &self,
        what: &Explain,
        declared: &'a Declared,
        decided: &Decided,
    ) -> Result<Vec<Asked<'a>>, StoreError> {
        let criteria = decided.rules.map_or(Ok(Default::default()), |rules| self.criteria(rules))?;
        let mut opinions = self.opinions_of(decided.id)?;
        let is_named = |of: &&Known| what.tag.as_deref().is_none_or(|typed| of.tag.is_called(typed));
        let mut asked = Vec::new();
        for known in declared.tags.iter().filter(is_named) {
            let Some(rule) = known.rule() else { continue };
            let has = known.has(decided.bits);
            if !has && !what.why_not {
                continue;
            }
            let id = known.tag.declared.id;
            let words = criteria.get(&id);
            let condition = words.and_then(|(_, text)| Condition::parse(text, &FIXED.catalogue).ok());
            let Some(condition) = condition.or_else(|| known.tag.criterion.clone()) else { continue };
            let opinions = opinions.remove(&id).unwrap_or_default();
            let version = words.map(|(version, _)| *version);
            let overruled_by = declared.before(known).find(|other| other.has(decided.bits));
            let overruled_by = overruled_by.map(|other| other.tag.declared.name.as_str());
            let is_removed = known.has(decided.removed);
            let not_of = known.only().filter(|only| *only != decided.kind);
            asked.push(Asked {
                known,
                rule,
                has,
                is_removed,
                version,
                condition,
                overruled_by,
                not_of,
                opinions,
            });
        }
        put_in_order(&mut asked);
        Ok(asked)
    }

    pub(super) fn decided(&self, id: u64) -> Result<Decided, StoreError> {
        let sql = format!(
            "SELECT {}, {}, c.rules, c.end_ns IS NOT NULL, c.cluster, c.job, c.shown, c.\"user\", c.state, c.judged_ns, c.kind \
             FROM accounting c WHERE c.id = {id}",
            tagged::decided().join(", "),
            REMOVED.map(|word| format!("c.{word}")).join(", ")
        );
        let found = self.rows(&sql, &[], |row| {
            let at = TAGS.len() + REMOVED.len();
            let text = |at: usize| row.get::<_, Option<String>>(at);
            let kind = Kind::of(row.get(at + 8)?);
            let name = object([
                ("cluster", json!(text(at + 2)?)),
                ("kind", json!(kind.name())),
                ("job", json!(text(at + 3)?)),
                ("job_id", json!(text(at + 4)?)),
                ("user", json!(text(at + 5)?)),
                ("state", json!(text(at + 6)?)),
            ]);
            let (rules, judged_ns) = (row.get(at)?, row.get(at + 7)?);
            let (bits, removed) = (Bits::read(row, 0)?, Bits::read(row, TAGS.len())?);
            Ok(Decided { id, kind, name, bits, removed, rules, judged_ns, has_ended: row.get(at + 1)? })
        })?;
        found.into_iter().next().ok_or(StoreError::Damaged("a job has an account and no row"))
    }

    /// The values of a job that these conditions need, and these columns.
    fn values<'a>(
        &self,
        id: u64,
        conditions: impl Iterator<Item = &'a Condition>,
        texts: impl Iterator<Item = &'a str>,
    ) -> Result<Row, StoreError> {
        let conditions: Vec<&Condition> = conditions.collect();
        let mut columns: BTreeMap<&str, &condition::Column> = BTreeMap::new();
        columns.extend(conditions.iter().flat_map(|of| of.columns()).map(|column| (&*column.name, column)));
        let named = texts.chain(OF_JOB).filter_map(|name| FIXED.catalogue.get(name));
        columns.extend(named.map(|column| (&*column.name, &**column)));
        let mut questions = BTreeMap::new();
        questions.extend(conditions.iter().flat_map(|of| of.questions()).map(|of| (of.text.clone(), of.sql)));
        let mut select: Vec<String> = columns.values().map(|column| column.sql.clone()).collect();
        select.extend(questions.values().map(|sql| sql.text.clone()));
        let which = Which { conditions: conditions.into_iter().cloned().collect(), ..Which::default() };
        let shown = columns.keys().filter_map(|name| FIXED.named(name));
        let sql = format!(
            "SELECT {} FROM accounting c {} WHERE c.id = {id}",
            if select.is_empty() { "1".to_owned() } else { select.join(", ") },
            which.beside(shown)
        );
        let values: Vec<Sql> =
            questions.values().flat_map(|sql| sql.values.iter().cloned().map(bound)).collect();
        let rows = self.rows(&sql, &values, |row| {
            let mut made = Row::new();
            for (at, column) in columns.values().enumerate() {
                // What does not fit cannot be known.
                let _ = made.set(column, known(column, row.get(at)?));
            }
            for (at, question) in questions.keys().enumerate() {
                if let Some(truth) = row.get::<_, Option<bool>>(columns.len() + at)? {
                    made.answer(question, truth);
                }
            }
            Ok(made)
        })?;
        Ok(rows.into_iter().next().unwrap_or_default())
    }
}

/// What the job has comes first; of that, what is most critical; of tags of one group, the one with the highest priority.
fn put_in_order(asked: &mut [Asked]) {
    let mut worst: HashMap<(bool, String), u8> = HashMap::new();
    for of in &*asked {
        let Declaration { group, criticality, .. } = &of.known.tag.declared;
        let worst = worst.entry((of.has, group.clone())).or_default();
        *worst = criticality.get().max(*worst);
    }
    asked.sort_by_cached_key(|of| {
        let Declaration { group, priority, id, .. } = &of.known.tag.declared;
        let worst = worst.get(&(of.has, group.clone())).copied().unwrap_or_default();
        (!of.has, Reverse(worst), group.clone(), Reverse(*priority), *id)
    });
}

impl Asked<'_> {
    /// With the values of the job.
    fn explained(&self, row: &Row, is_first: bool) -> Value {
        let Asked { known, rule, has, is_removed, version, condition, overruled_by, not_of, opinions } = self;
        let (tag, declared) = (&known.tag, &known.tag.declared);
        let explanation = condition.explain(row);
        let shown = |name: &str| match FIXED.catalogue.get(name) {
            Some(column) => tags::text::shown(column, &row.value(column)),
            None => String::new(),
        };
        let filled = |text: &tags::Text| if *has { text.filled(shown) } else { String::new() };
        Value::from(object([
            ("tag", json!(declared.name.as_str())),
            ("has", json!(has)),
            ("is_removed", json!(is_removed)),
            ("by", json!("rule")),
            ("version", json!(version)),
            ("newest_version", json!(rule.version)),
            ("is_changed", json!(version.is_some_and(|version| version != rule.version))),
            ("criterion", json!(condition.to_string())),
            ("group", json!(declared.group)),
            ("is_first_of_group", json!(is_first)),
            ("priority", json!(declared.priority)),
            ("criticality", json!(declared.criticality.get())),
            ("confidence", json!(declared.confidence.get())),
            ("supposition", json!(filled(&tag.supposition))),
            ("recommendation", json!(filled(&tag.recommendation))),
            ("holds_now", json!(explanation.holds.filter(|_| not_of.is_none()))),
            ("overruled_by", json!(overruled_by)),
            ("steps", not_of.map_or_else(|| steps(&explanation), only_of)),
            ("is_hidden", json!(is_hidden(opinions))),
            ("opinions", json!(opinions)),
        ]))
    }
}

/// A column's value, in its unit.
fn known(column: &condition::Column, value: Sql) -> Seen {
    match value {
        Sql::Null => Seen::Unknown,
        Sql::Boolean(truth) => Seen::Boolean(truth),
        Sql::Text(text) => Seen::Text(text),
        Sql::BigInt(ns) if column.of == condition::Type::Time => Seen::Time(ns),
        Sql::BigInt(number) => Seen::Number(number as f64),
        Sql::UBigInt(number) => Seen::Number(number as f64),
        Sql::UInt(number) => Seen::Number(f64::from(number)),
        Sql::Int(number) => Seen::Number(f64::from(number)),
        Sql::HugeInt(number) => Seen::Number(number as f64),
        Sql::Double(number) => Seen::Number(number),
        Sql::Float(number) => Seen::Number(f64::from(number)),
        _ => Seen::Unknown,
    }
}

fn plain_value(value: &Seen) -> Value {
    match value {
        Seen::Number(number) => json!(number),
        Seen::Text(text) => json!(text),
        Seen::Boolean(truth) => json!(truth),
        Seen::Time(ns) => time(Some(*ns)),
        Seen::Unknown => Value::Null,
    }
}

/// In place of the steps of a rule that says nothing of this kind of job.
fn only_of(kind: Kind) -> Value {
    json!([{"text": format!("about {}s only", kind.words()), "holds": null, "values": [], "decides": true, "margin": null}])
}

fn steps(explanation: &Explanation) -> Value {
    let step = |step: &Step| {
        let seen: Vec<Value> = step
            .seen
            .iter()
            .map(|seen| {
                let unit = seen.column.unit.symbol();
                let shown = tags::text::shown(&seen.column, &seen.value);
                json!({"column": seen.column.name, "value": plain_value(&seen.value), "unit": unit, "shown": shown})
            })
            .collect();
        json!({
            "text": step.text, "holds": step.holds, "values": seen, "decides": step.decides,
            "margin": step.margin.map(|margin| tags::text::amount(margin.unit.of(), margin.unit, margin.amount)),
        })
    };
    explanation.steps.iter().map(step).collect()
}
