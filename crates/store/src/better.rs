//! Which is better, the row of a job that is there or what the readings say that are left: a row is never made anew of less than it
//! was made of.

use digest::{Job, State};
use serde_json::{Map, Value};

/// What decides whether a row stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Old {
    pub cluster: Option<String>,
    pub has_ended: bool,
    pub start_ns: i64,
    pub readings: u64,
}

/// What is to stand in the row of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// What the readings say.
    New,
    /// What they say, but the least and greatest of before.
    NewWithExtremes,
    /// What stands there.
    Old,
}

/// What is to stand in a row, which is `old` if it is there.
///
/// A row that was made of all readings is not made anew of what was put together, unless something new has come; then it keeps the
/// least and greatest of before, which rates no longer show. Once some of the readings may be deleted it stays for ever.
pub(crate) fn better(old: Option<&Old>, job: &Job, deleted: Option<i64>) -> Word {
    let Some(old) = old else { return Word::New };
    if is_cut(old.start_ns, deleted) || job.is_coarse && job.readings <= old.readings {
        Word::Old
    } else if job.is_coarse {
        Word::NewWithExtremes
    } else {
        Word::New
    }
}

/// Whether something of the readings of a job that began then may have been deleted.
pub(crate) fn is_cut(start_ns: i64, deleted_before: Option<i64>) -> bool {
    deleted_before.is_some_and(|before| start_ns < before)
}

/// Whether a row is the last word, by its state.
pub(crate) fn has_ended(state: Option<&str>) -> bool {
    state == Some(State::Ended.name())
}

/// Gives a job the least and greatest values that its row knows.
pub(crate) fn keep_extremes(row: &Map<String, Value>, job: &mut Job) {
    for of in &mut job.metrics {
        let before = |name: &str| row.get(&format!("{}_{name}", of.metric.name)).and_then(Value::as_f64);
        // What was never read has none.
        if let Some(known) = &mut of.characteristic {
            known.min = before("min").map_or(known.min, |before| known.min.min(before));
            known.max = before("max").map_or(known.max, |before| known.max.max(before));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use digest::job::OfMetric;
    use digest::{Characteristic, Reserved, Shares};
    use record::metric;
    use serde_json::json;

    /// A job of so many readings, whose CPU was between 2 and 3.
    fn measured(readings: u64, is_coarse: bool) -> Job {
        let characteristic =
            Characteristic { min: 2.0, max: 3.0, avg: 2.5, median: 2.5, node_min: 2.0, node_max: 3.0 };
        let cpu = OfMetric {
            metric: metric::by_name("cpu").unwrap(),
            characteristic: Some(characteristic),
            shares: Shares::default(),
            last: None,
            spans: Vec::new(),
        };
        Job {
            state: State::Ended,
            start: 100,
            end: Some(200),
            heard: 200,
            until: 200,
            readings,
            coverage: None,
            is_coarse,
            is_shared: false,
            reserved: Reserved::default(),
            metrics: vec![cpu],
        }
    }

    #[test]
    fn a_good_row_is_not_replaced_by_a_worse_one() {
        let old = Old { cluster: None, has_ended: true, start_ns: 100, readings: 10 };
        for (about, old, job, deleted, expected) in [
            ("the first one", None, measured(1, true), Some(500), Word::New),
            ("readings that are all there", Some(&old), measured(11, false), None, Word::New),
            ("less was only ever deleted before it", Some(&old), measured(11, false), Some(100), Word::New),
            ("some may be deleted", Some(&old), measured(99, false), Some(101), Word::Old),
            ("coarse, and nothing new", Some(&old), measured(10, true), None, Word::Old),
            ("coarse, with something new", Some(&old), measured(11, true), None, Word::NewWithExtremes),
            ("coarse, and some may be deleted", Some(&old), measured(11, true), Some(101), Word::Old),
        ] {
            assert_eq!(better(old, &job, deleted), expected, "{about}");
        }
    }

    #[test]
    fn a_coarse_row_keeps_its_extremes() {
        for (row, expected) in [
            (json!({"cpu_min": 1.0, "cpu_max": 4.0}), (1.0, 4.0)),
            (json!({"cpu_min": 2.5, "cpu_max": null}), (2.0, 3.0)),
        ] {
            let mut job = measured(11, true);
            keep_extremes(row.as_object().unwrap(), &mut job);
            let cpu = job.metrics[0].characteristic.unwrap();
            assert_eq!((cpu.min, cpu.max), expected, "{row}");
        }
    }
}
