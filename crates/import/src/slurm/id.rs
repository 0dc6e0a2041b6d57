//! The names of jobs and steps: `12`, `12_3`, `12_[4-9%2]`, `12+1`, and with `.batch` or `.0` behind them.

use record::accounting::count_tasks;

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
        // The dot of a step is never inside the brackets of an array.
        let (shown, step) = match text.split_once('.') {
            Some((shown, step)) if is_step(step) => (shown, Some(step)),
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
