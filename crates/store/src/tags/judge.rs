//! All criteria as one query over some jobs: what was decided is written into their rows.

use std::collections::BTreeMap;

use condition::Condition;
use duckdb::types::Value as Sql;
use duckdb::{Connection, params_from_iter};

use super::{Bits, Declared, JUDGED, Known, RULES, Rule, TAGS, declare, precedence, said, software};
use crate::StoreError;
use crate::kind::{Kind, Kinds};
use crate::query::jobs::{Period, Which, bound};
use crate::write::now_ns;

/// The jobs that are judged together.
pub(super) struct Jobs {
    /// Of `c`; our own text, without values.
    pub condition: String,
}

/// When the first of them began and the last ended, by which much of what was measured is left out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Time {
    pub from_ns: i64,
    pub until_ns: i64,
}

/// The jobs of which something can be said: those that wait have done nothing yet.
const BEGUN: &str = "(c.start_ns IS NOT NULL OR c.end_ns IS NOT NULL)";
/// Agents and batch systems do not agree to the second on when a job began.
const SLACK_NS: i64 = 60_000_000_000;

/// What is asked of a criterion.
#[derive(Debug, Clone, Copy)]
enum Wanted {
    Holds,
    /// Whether all is known that it needs.
    IsKnown,
}

/// Rules of which at most one sets its tag: those of an exclusive group, the first that holds; else a single one.
struct Choice<'a> {
    rules: Vec<Decides<'a>>,
}

/// What decides about one tag, and about which kind of jobs.
struct Decides<'a> {
    criterion: &'a Condition,
    tag: u32,
    rule: Rule,
    only: Option<Kind>,
}

impl Choice<'_> {
    fn bits(&self) -> Bits {
        Bits::of(self.rules.iter().map(|of| of.rule.bit))
    }

    /// The bits of one word that these rules set, or may decide about, as SQL, with its values.
    fn sql(
        &self,
        word: usize,
        wanted: Wanted,
        answer: &impl Fn(&str) -> Option<String>,
    ) -> (String, Vec<Sql>) {
        let (mut cases, mut values) = (String::new(), Vec::new());
        for Decides { criterion, rule, only, .. } in &self.rules {
            let sql = criterion.answered(answer).sql();
            let is_wanted = match wanted {
                Wanted::Holds => sql.text,
                Wanted::IsKnown => format!("({}) IS NOT NULL", sql.text),
            };
            let is_meant = only.and_then(|kind| Kinds::Only(kind).condition());
            let is_meant = is_meant.map_or(String::new(), |condition| format!("{condition} AND "));
            cases.push_str(&format!(
                " WHEN {is_meant}({is_wanted}) THEN {}::UBIGINT",
                Bits::of([rule.bit]).0[word]
            ));
            values.extend(sql.values.into_iter().map(bound));
        }
        (format!("CASE{cases} ELSE 0 END"), values)
    }
}

/// All rules, or those that decide about one tag.
fn choices(declared: &Declared, only: Option<u32>) -> Vec<Choice<'_>> {
    let mut groups: BTreeMap<&str, Vec<&Known>> = BTreeMap::new();
    let mut choices = Vec::new();
    for (known, _) in declared.judged() {
        match known.tag.declared.group.as_str() {
            group if declared.exclusive.contains(group) => groups.entry(group).or_default().push(known),
            _ => choices.push(vec![known]),
        }
    }
    choices.extend(groups.into_values().map(|mut group| {
        group.sort_by_key(|known| precedence(&known.tag.declared));
        group
    }));
    let is_wanted =
        |choice: &Vec<&Known>| only.is_none_or(|tag| choice.iter().any(|known| known.tag.declared.id == tag));
    choices
        .into_iter()
        .filter(is_wanted)
        .map(|choice| Choice { rules: choice.into_iter().filter_map(rule).collect() })
        .collect()
}

fn rule(known: &Known) -> Option<Decides<'_>> {
    let (criterion, rule) = (known.tag.criterion.as_ref()?, known.rule()?);
    Some(Decides { criterion, tag: known.tag.declared.id, rule, only: known.only() })
}

/// Evaluates all rules for jobs, or those that decide about one tag; says for how many jobs. The caller has a transaction.
pub(super) fn judge(
    connection: &Connection,
    declared: &Declared,
    jobs: &Jobs,
    only: Option<u32>,
) -> Result<u64, StoreError> {
    let Some(time) = time(connection, jobs)? else { return Ok(0) };
    let choices = choices(declared, only);
    let query = query(connection, &choices, jobs, time, Wanted::Holds)?;
    let (set, decided, which) = match only {
        None => (all_words(declared.set), Bits::ALL, "true".to_owned()),
        Some(_) => match choices.first() {
            // A job that was not evaluated yet is evaluated by all rules soon.
            Some(choice) => (some_bits(connection, choice)?, choice.bits(), format!("{RULES} IS NOT NULL")),
            None => return Ok(0),
        },
    };
    let sql = format!(
        "UPDATE accounting SET {set}, {JUDGED} = {} FROM ({}) s WHERE accounting.rowid = s.place AND {which}",
        now_ns(),
        query.text
    );
    let judged = connection.execute(&numbered(&sql), params_from_iter(query.values))? as u64;
    if said::is_any(connection)? {
        let judged = format!("{} AND {BEGUN} AND {which}", jobs.condition);
        said::bring_in(connection, declared, &judged, decided)?;
    }
    Ok(judged)
}

fn all_words(set: u32) -> String {
    format!("{}, {RULES} = {set}", TAGS.map(|name| format!("{name} = s.{name}")).join(", "))
}

/// The bits of some rules, and for each set of rules that decided before, that set with the present versions of these.
fn some_bits(connection: &Connection, choice: &Choice) -> Result<String, StoreError> {
    let mut query =
        connection.prepare(&format!("SELECT DISTINCT {RULES} FROM accounting WHERE {RULES} IS NOT NULL"))?;
    let used = query.query_map([], |row| row.get(0))?.collect::<Result<Vec<u32>, _>>()?;
    let sets = declare::sets(connection)?;
    let mut cases = String::new();
    for before in used {
        let mut rules = sets.get(&before).cloned().unwrap_or_default();
        rules.extend(choice.rules.iter().map(|of| (of.tag, of.rule.version)));
        cases.push_str(&format!(" WHEN {before} THEN {}", declare::number(connection, &rules)?));
    }
    let own = format!("accounting.{RULES}");
    let rules = if cases.is_empty() { own } else { format!("CASE {own}{cases} ELSE {own} END") };
    let masks = TAGS.iter().zip(choice.bits().0).filter(|(_, mask)| *mask != 0);
    let words = masks.map(|(word, mask)| {
        format!(
            "{word} = (coalesce(accounting.{word}, 0) & {}::UBIGINT) | (s.{word} & {mask}::UBIGINT)",
            !mask
        )
    });
    Ok(format!("{}, {RULES} = {rules}", words.collect::<Vec<_>>().join(", ")))
}

fn time(connection: &Connection, jobs: &Jobs) -> Result<Option<Time>, StoreError> {
    let sql = format!(
        "SELECT min(coalesce(c.start_ns, c.end_ns)), max(coalesce(c.end_ns, 9223372036854775807)) FROM accounting c \
         WHERE {} AND {BEGUN}",
        jobs.condition
    );
    let (from, until): (Option<i64>, Option<i64>) =
        connection.query_row(&sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let slack = |ns: i64| ns.saturating_sub(SLACK_NS);
    Ok(from.zip(until).map(|(from, until)| Time { from_ns: slack(from), until_ns: until }))
}

/// SQL with the values of its `?`.
struct Query {
    text: String,
    values: Vec<Sql>,
}

/// `place` and the words of bits of each of the jobs.
fn query(
    connection: &Connection,
    choices: &[Choice],
    jobs: &Jobs,
    time: Time,
    wanted: Wanted,
) -> Result<Query, StoreError> {
    let criteria = || choices.iter().flat_map(|choice| choice.rules.iter().map(|of| of.criterion));
    let answers = software::Answers::of(criteria());
    let is_seen = !answers.is_empty() && software::is_seen(connection, time)?;
    let answer = |text: &str| if is_seen { answers.column(text) } else { Some("NULL".to_owned()) };
    let mut words: [Vec<String>; TAGS.len()] = Default::default();
    let mut values: [Vec<Sql>; TAGS.len()] = Default::default();
    for choice in choices {
        let used = choice.bits().0.into_iter().enumerate().filter(|(_, mask)| *mask != 0);
        for (word, _) in used {
            let (text, bound) = choice.sql(word, wanted, &answer);
            words[word].push(text);
            values[word].extend(bound);
        }
    }
    let conditions = criteria().map(|criterion| criterion.answered(answer)).collect();
    let which = Which { conditions, ..Which::default() };
    let columns: Vec<String> = TAGS
        .iter()
        .zip(&words)
        .map(|(name, word)| match &word[..] {
            [] => format!("0::UBIGINT AS {name}"),
            parts => format!("{} AS {name}", parts.join(" | ")),
        })
        .collect();
    let mut values: Vec<Sql> = values.into_iter().flatten().collect();
    let mut beside = which.beside(std::iter::empty());
    if is_seen {
        let answers = answers.sql(jobs, time);
        beside.push_str(&format!(" LEFT JOIN ({}) w ON w.place = c.rowid", answers.text));
        values.extend(answers.values);
    }
    let text = format!(
        "SELECT c.rowid AS place, {} FROM accounting c {} WHERE {} AND {BEGUN}",
        columns.join(", "),
        in_time(&beside, time),
        jobs.condition
    );
    Ok(Query { text, values })
}

/// For how many of some jobs there is all that each rule needs.
#[derive(Debug, Default)]
pub(crate) struct Decidable {
    pub jobs: u64,
    /// By tag.
    pub known: BTreeMap<u32, u64>,
}

/// So many of the newest jobs say of which rules there are data at present.
const NEWEST: u64 = 10_000;

/// Looks at the newest jobs of some time, of those that the connection sees.
pub(crate) fn decidable(
    connection: &Connection,
    declared: &Declared,
    period: Period,
    kinds: Kinds,
) -> Result<Decidable, StoreError> {
    const AT: &str = "coalesce(c.submit_ns, c.start_ns, c.end_ns)";
    let of_kind = kinds.condition().map_or(String::new(), |condition| format!(" AND {condition}"));
    let within = period.sql() + &of_kind;
    let sql = format!(
        "SELECT min(since_ns) FROM (SELECT {AT} AS since_ns FROM accounting c WHERE {BEGUN} AND {within} \
         ORDER BY since_ns DESC LIMIT {NEWEST})"
    );
    let since: Option<i64> = connection.query_row(&sql, [], |row| row.get(0))?;
    let Some(since) = since else { return Ok(Decidable::default()) };
    let jobs = Jobs { condition: format!("{AT} >= {since} AND {within}") };
    let Some(time) = time(connection, &jobs)? else { return Ok(Decidable::default()) };
    let single = |(known, _)| Some(Choice { rules: vec![rule(known)?] });
    let choices: Vec<Choice> = declared.judged().filter_map(single).collect();
    let query = query(connection, &choices, &jobs, time, Wanted::IsKnown)?;
    let sql = format!("SELECT {}, count(*) FROM ({}) GROUP BY ALL", TAGS.join(", "), query.text);
    let mut decidable = Decidable::default();
    let mut statement = connection.prepare(&numbered(&sql))?;
    let mut rows = statement.query(params_from_iter(query.values))?;
    while let Some(row) = rows.next()? {
        let (bits, jobs) = (Bits::read(row, 0)?, row.get::<_, u64>(TAGS.len())?);
        decidable.jobs += jobs;
        for Decides { tag, rule, .. } in choices.iter().flat_map(|choice| &choice.rules) {
            *decidable.known.entry(*tag).or_default() += if bits.has(rule.bit) { jobs } else { 0 };
        }
    }
    Ok(decidable)
}

/// The same criteria as one bare query that only counts, beside which a run is measured.
pub fn counting(declared: &Declared) -> (String, Vec<Sql>) {
    let mut which = Which::default();
    let (mut counts, mut values) = (Vec::new(), Vec::new());
    for criterion in declared.judged().filter_map(|(known, _)| known.tag.criterion.as_ref()) {
        let criterion = criterion.answered(|_| Some("NULL".to_owned()));
        let sql = criterion.sql();
        counts.push(format!("count(*) FILTER ({})", sql.text));
        values.extend(sql.values.into_iter().map(bound));
        which.conditions.push(criterion);
    }
    let beside = which.beside(std::iter::empty());
    let text = format!("SELECT {} FROM accounting c {beside} WHERE {BEGUN}", counts.join(", "));
    (text, values)
}

/// What was measured is looked for only in the time of these jobs: of a collection of years that is a part of the table.
fn in_time(beside: &str, time: Time) -> String {
    let Time { from_ns, until_ns } = time;
    beside.replace(
        "LEFT JOIN job j ON",
        &format!(
            "LEFT JOIN (SELECT * FROM job WHERE start_ns <= {until_ns} AND (end_ns >= {from_ns} OR end_ns IS NULL)) j ON"
        ),
    )
}

/// With numbers at its `?`: the database would number those behind WHERE before others.
fn numbered(sql: &str) -> String {
    let mut text = String::with_capacity(sql.len() + 64);
    for (at, part) in sql.split('?').enumerate() {
        if at > 0 {
            text.push_str(&format!("${at}"));
        }
        text.push_str(part);
    }
    text
}
