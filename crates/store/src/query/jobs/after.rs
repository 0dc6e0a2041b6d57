//! Where a list of jobs goes on: behind a job, by what the list is sorted by and by its id.

use std::fmt;
use std::str::FromStr;

use duckdb::types::{Value as Sql, ValueRef};

use super::JobColumn;
use crate::query::Conditions;

/// A place in a list of jobs; as a text it is opaque to those who ask.
#[derive(Debug, Clone, PartialEq)]
pub struct JobAfter {
    sorted: Sorted,
    id: u64,
}

/// What a job is sorted by.
#[derive(Debug, Clone, PartialEq)]
enum Sorted {
    Unknown,
    Whole(i128),
    /// By its bits, so that it is the same when it comes back.
    Number(u64),
    Text(String),
    Boolean(bool),
}

impl JobAfter {
    pub(super) fn of(sorted: ValueRef, id: u64) -> JobAfter {
        let sorted = match sorted.to_owned() {
            Sql::Boolean(boolean) => Sorted::Boolean(boolean),
            Sql::TinyInt(number) => Sorted::Whole(number.into()),
            Sql::SmallInt(number) => Sorted::Whole(number.into()),
            Sql::Int(number) => Sorted::Whole(number.into()),
            Sql::BigInt(number) => Sorted::Whole(number.into()),
            Sql::HugeInt(number) => Sorted::Whole(number),
            Sql::UTinyInt(number) => Sorted::Whole(number.into()),
            Sql::USmallInt(number) => Sorted::Whole(number.into()),
            Sql::UInt(number) => Sorted::Whole(number.into()),
            Sql::UBigInt(number) => Sorted::Whole(number.into()),
            Sql::Float(number) => Sorted::Number(f64::from(number).to_bits()),
            Sql::Double(number) => Sorted::Number(number.to_bits()),
            Sql::Text(text) => Sorted::Text(text),
            _ => Sorted::Unknown,
        };
        JobAfter { sorted, id }
    }

    /// Only jobs behind this one.
    pub(super) fn add_to(&self, conditions: &mut Conditions, sort: &JobColumn, is_ascending: bool) {
        let (sql, sign) = (&sort.sql, if is_ascending { '>' } else { '<' });
        let value = match &self.sorted {
            Sorted::Unknown => None,
            Sorted::Whole(number) => Some(("HUGEINT", Sql::HugeInt(*number))),
            Sorted::Number(bits) => Some(("DOUBLE", Sql::Double(f64::from_bits(*bits)))),
            Sorted::Text(text) => Some(("VARCHAR", Sql::Text(text.clone()))),
            Sorted::Boolean(boolean) => Some(("BOOLEAN", Sql::Boolean(*boolean))),
        };
        let id = || Sql::UBigInt(self.id);
        // What is not known is last.
        match value {
            None => conditions.add(&format!("({sql}) IS NULL AND c.id {sign} ?"), [id()]),
            Some((of, value)) => conditions.add(
                &format!(
                    "(({sql}) {sign} CAST(? AS {of}) OR ({sql}) IS NULL OR ({sql}) = CAST(? AS {of}) AND c.id {sign} ?)"
                ),
                [value.clone(), value, id()],
            ),
        }
    }
}

impl fmt::Display for JobAfter {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &self.sorted {
            Sorted::Unknown => f.write_str("u")?,
            Sorted::Whole(number) => write!(f, "w{number}")?,
            Sorted::Number(bits) => write!(f, "n{bits:x}")?,
            Sorted::Boolean(boolean) => write!(f, "b{}", u8::from(*boolean))?,
            Sorted::Text(text) => {
                f.write_str("t")?;
                text.bytes().try_for_each(|byte| write!(f, "{byte:02x}"))?;
            }
        }
        write!(f, ".{}", self.id)
    }
}

impl FromStr for JobAfter {
    type Err = ();

    fn from_str(text: &str) -> Result<JobAfter, ()> {
        let (sorted, id) = text.rsplit_once('.').ok_or(())?;
        let (kind, value) = sorted.split_at_checked(1).ok_or(())?;
        let sorted = match kind {
            "u" if value.is_empty() => Sorted::Unknown,
            "w" => Sorted::Whole(value.parse().map_err(drop)?),
            "n" => Sorted::Number(u64::from_str_radix(value, 16).map_err(drop)?),
            "b" => Sorted::Boolean(value == "1"),
            "t" => Sorted::Text(unhex(value).ok_or(())?),
            _ => return Err(()),
        };
        Ok(JobAfter { sorted, id: id.parse().map_err(drop)? })
    }
}

fn unhex(text: &str) -> Option<String> {
    let pair = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(pair).collect();
    String::from_utf8(bytes?).ok().filter(|text| !text.contains('\0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_back() {
        for sorted in [
            Sorted::Unknown,
            Sorted::Whole(-17),
            Sorted::Whole(u64::MAX.into()),
            Sorted::Number((0.1f64 + 0.2).to_bits()),
            Sorted::Text("日.a".into()),
            Sorted::Text(String::new()),
            Sorted::Boolean(true),
        ] {
            let after = JobAfter { sorted, id: u64::MAX };
            assert_eq!(after.to_string().parse(), Ok(after.clone()), "{after}");
        }
        for text in ["", ".", "u", "w.1", "x1.1", "t6.1", "tzz.1", "t日.1", "n1.-1", "w1.1x", "日.1", "t00.1"]
        {
            assert_eq!(text.parse::<JobAfter>(), Err(()), "{text}");
        }
    }
}
