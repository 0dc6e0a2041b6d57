//! All criteria as one query over some jobs: what was decided is written into their rows.

use condition::Condition;
use duckdb::types::Value as Sql;
use duckdb::{Connection, params_from_iter};

use super::{Bits, Declared, JUDGED, RULES, Rule, TAGS, declare, said, software};
use crate::StoreError;
use crate::query::jobs::{Which, bound};
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

/// Judges jobs by all rules, or by that of one tag; says how many. The caller has a transaction.
pub(super) fn judge(
    connection: &Connection,
    declared: &Declared,
    jobs: &Jobs,
    only: Option<u32>,
) -> Result<u64, StoreError> {
    let Some(time) = time(connection, jobs)? else { return Ok(0) };
    let rules: Vec<(&Condition, Rule)> = declared
        .judged()
        .filter(|(known, _)| only.is_none_or(|tag| known.tag.declared.id == tag))
        .filter_map(|(known, rule)| Some((known.tag.criterion.as_ref()?, rule)))
        .collect();
    let query = query(connection, &rules, jobs, time)?;
    let (set, decided, which) = match only {
        None => (all_words(declared.set), Bits::ALL, "true".to_owned()),
        Some(tag) => match rules.first() {
            // Whoever was not judged yet is judged by all rules soon.
            Some((_, rule)) => {
                (one_bit(connection, tag, *rule)?, Bits::of([rule.bit]), format!("{RULES} IS NOT NULL"))
            }
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

/// One bit of the words, and for each set of rules that decided before, that set with this version of the one rule.
fn one_bit(connection: &Connection, tag: u32, rule: Rule) -> Result<String, StoreError> {
    let (word, mask) = (TAGS[(rule.bit / 64) as usize], 1u64 << (rule.bit % 64));
    let mut query =
        connection.prepare(&format!("SELECT DISTINCT {RULES} FROM accounting WHERE {RULES} IS NOT NULL"))?;
    let used = query.query_map([], |row| row.get(0))?.collect::<Result<Vec<u32>, _>>()?;
    let sets = declare::sets(connection)?;
    let mut cases = String::new();
    for before in used {
        let mut rules = sets.get(&before).cloned().unwrap_or_default();
        rules.insert(tag, rule.version);
        cases.push_str(&format!(" WHEN {before} THEN {}", declare::number(connection, &rules)?));
    }
    let own = format!("accounting.{RULES}");
    let rules = if cases.is_empty() { own } else { format!("CASE {own}{cases} ELSE {own} END") };
    Ok(format!(
        "{word} = (coalesce(accounting.{word}, 0) & {}::UBIGINT) | (s.{word} & {mask}::UBIGINT), {RULES} = {rules}",
        !mask
    ))
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
    rules: &[(&Condition, Rule)],
    jobs: &Jobs,
    time: Time,
) -> Result<Query, StoreError> {
    let answers = software::Answers::of(rules.iter().map(|(criterion, _)| *criterion));
    let is_seen = !answers.is_empty() && software::is_seen(connection, time)?;
    let mut words: [Vec<String>; TAGS.len()] = Default::default();
    let mut values: [Vec<Sql>; TAGS.len()] = Default::default();
    let mut which = Which::default();
    for (criterion, rule) in rules {
        let answer = |text: &str| if is_seen { answers.column(text) } else { Some("NULL".to_owned()) };
        let criterion = criterion.answered(answer);
        let sql = criterion.sql();
        let (word, bit) = ((rule.bit / 64) as usize, rule.bit % 64);
        words[word].push(format!("CASE WHEN {} THEN {}::UBIGINT ELSE 0 END", sql.text, 1u64 << bit));
        values[word].extend(sql.values.into_iter().map(bound));
        which.conditions.push(criterion);
    }
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
