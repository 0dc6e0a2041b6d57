//! The names of jobs and steps: `12`, `12_3`, `12_[4-9%2]`, `12+1`, and with `.batch` or `.0` behind them.

use record::accounting::{TASKS_MAX, count_tasks};

use crate::number::whole;

/// What a name says.
#[derive(Debug, PartialEq, Eq)]
pub struct Id<'a> {
    /// The name without the step.
    pub shown: &'a str,
    pub job: u64,
    pub task: Option<u64>,
    /// Tasks of an array that have not begun.
    pub waiting: Option<&'a str>,
    pub het: Option<u64>,
    pub step: Option<&'a str>,
}

impl<'a> Id<'a> {
    pub fn parse(text: &'a [u8]) -> Option<Id<'a>> {
        let text = std::str::from_utf8(text).ok()?;
        // The dots in the brackets of an array say that its list was cut short.
        let name_end = text.find(']').map_or(0, |at| at + 1);
        let (shown, step) = match text[name_end..].find('.').map(|at| text.split_at(name_end + at)) {
            Some((shown, step)) if is_step(&step[1..]) => (shown, Some(&step[1..])),
            Some(_) => return None,
            None => (text, None),
        };
        let mut id = Id { shown, job: 0, task: None, waiting: None, het: None, step };
        if let Some((job, task)) = shown.split_once('_') {
            id.job = number(job)?;
            match task.strip_prefix('[').and_then(|tasks| tasks.strip_suffix(']')) {
                Some(tasks) => id.waiting = Some(tasks).filter(|tasks| count_tasks(tasks).is_some()),
                None => id.task = number(task),
            }
            (id.task.is_some() || id.waiting.is_some()).then_some(id)
        } else if let Some((job, offset)) = shown.split_once('+') {
            (id.job, id.het) = (number(job)?, Some(number(offset)?));
            Some(id)
        } else {
            id.job = number(shown)?;
            Some(id)
        }
    }
}

/// The tasks of a mask in hexadecimal digits, the first task being the last bit, as a list: `1E` is `1-4`.
pub fn tasks_of_mask(mask: &str) -> Option<String> {
    if mask.len() as u64 > TASKS_MAX.div_ceil(4) {
        return None;
    }
    let (mut list, mut next, mut first) = (String::new(), 0, None);
    for digit in mask.chars().rev().chain(['0']) {
        let bits = digit.to_digit(16)?;
        for bit in 0..4 {
            match ((bits >> bit) & 1 == 1, first) {
                (true, None) => first = Some(next),
                (false, Some(begin)) => {
                    add_range(&mut list, begin, next - 1);
                    first = None;
                }
                _ => {}
            }
            next += 1;
        }
    }
    Some(list).filter(|list| !list.is_empty())
}

fn add_range(list: &mut String, first: u64, last: u64) {
    let comma = if list.is_empty() { "" } else { "," };
    let range = if first == last { first.to_string() } else { format!("{first}-{last}") };
    *list += comma;
    *list += &range;
}

fn number(text: &str) -> Option<u64> {
    whole(text.as_bytes())
}

fn is_step(text: &str) -> bool {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'_';
    !text.is_empty() && text.len() <= 32 && text.bytes().all(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_jobs() {
        let plain = |shown, job| Id { shown, job, task: None, waiting: None, het: None, step: None };
        for (text, expected) in [
            ("12", Some(plain("12", 12))),
            ("12.batch", Some(Id { step: Some("batch"), ..plain("12", 12) })),
            ("12.0", Some(Id { step: Some("0"), ..plain("12", 12) })),
            ("12_3", Some(Id { task: Some(3), ..plain("12_3", 12) })),
            ("12_3.extern", Some(Id { task: Some(3), step: Some("extern"), ..plain("12_3", 12) })),
            ("12_[2-5%1]", Some(Id { waiting: Some("2-5%1"), ..plain("12_[2-5%1]", 12) })),
            ("12_[1,3,4...%2]", Some(Id { waiting: Some("1,3,4...%2"), ..plain("12_[1,3,4...%2]", 12) })),
            ("12_[1,...].0", Some(Id { waiting: Some("1,..."), step: Some("0"), ..plain("12_[1,...]", 12) })),
            ("12_[1,3,5-9]", Some(Id { waiting: Some("1,3,5-9"), ..plain("12_[1,3,5-9]", 12) })),
            ("12+1", Some(Id { het: Some(1), ..plain("12+1", 12) })),
            ("12+0.0", Some(Id { het: Some(0), step: Some("0"), ..plain("12+0", 12) })),
            ("12.0+1", Some(Id { step: Some("0+1"), ..plain("12", 12) })),
            ("", None),
            ("a", None),
            ("12.", None),
            ("12.a b", None),
            ("12_", None),
            ("12_[]", None),
            ("12_[a]", None),
            ("12_[1].", None),
            ("12_[1]x.0", None),
            ("12_[0-99999999999]", None),
            ("12+", None),
            ("-12", None),
            ("12 ", None),
        ] {
            assert_eq!(Id::parse(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(Id::parse(b"1\xff"), None);
    }
}
