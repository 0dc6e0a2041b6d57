//! Values of records as values of the database; unknown is NULL.

use duckdb::types::Value as Sql;
use record::accounting::{TimeLimit, Tres};
use record::entry::Nanos;

pub fn time(time: Option<Nanos>) -> Sql {
    time.map_or(Sql::Null, |time| Sql::BigInt(i64::try_from(time).unwrap_or(i64::MAX)))
}

pub fn count(count: Option<u64>) -> Sql {
    count.map_or(Sql::Null, Sql::UBigInt)
}

pub fn word(word: &Option<String>) -> Sql {
    word.clone().map_or(Sql::Null, Sql::Text)
}

/// With commas between them; none is unknown.
pub fn text_of<'a>(words: impl Iterator<Item = &'a str>) -> Sql {
    let joined = words.collect::<Vec<_>>().join(",");
    if joined.is_empty() { Sql::Null } else { Sql::Text(joined) }
}

/// As Slurm writes it: `cpu=4,gres/gpu:a100=2`.
pub fn tres(list: &[Tres]) -> Sql {
    let one = |tres: &Tres| match &tres.name {
        Some(name) => format!("{}/{name}={}", tres.kind, tres.count),
        None => format!("{}={}", tres.kind, tres.count),
    };
    let all: Vec<String> = list.iter().map(one).collect();
    text_of(all.iter().map(String::as_str))
}

/// How long, and whether that is for ever.
pub fn limit(limit: Option<TimeLimit>) -> [Sql; 2] {
    match limit {
        Some(TimeLimit::Nanos(limit)) => [time(Some(limit)), Sql::Boolean(false)],
        Some(TimeLimit::Unlimited) => [Sql::Null, Sql::Boolean(true)],
        Some(TimeLimit::OfPartition) | None => [Sql::Null, Sql::Null],
    }
}
