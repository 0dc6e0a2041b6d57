//! A job on one node: its readings, and what is left of those that were put together.

use record::metric::{Kind, Metric};

use crate::series::{At, Part, Span, Told};
use crate::threshold::Reserved;

/// A job on one node.
#[derive(Debug, Clone, Default)]
pub struct OnNode {
    pub host: String,
    pub node: Option<String>,
    pub cluster: Option<String>,
    pub uid: Option<u32>,
    pub user: Option<String>,
    pub part: Part,
    pub reserved: Reserved,
    /// Other jobs ran on the node at the same time.
    pub is_shared: bool,
    /// Some of the readings were put together.
    pub is_coarse: bool,
    /// As the node's clock told them.
    told: Vec<Told>,
    /// When they were made; those that were put together, evenly.
    seen: Vec<At>,
    /// In the order of the metrics.
    measured: Vec<Measured>,
}

/// A metric of a job on a node.
#[derive(Debug, Clone, Default)]
struct Measured {
    /// The value at each reading; of those that were put together, the counter's last.
    values: Vec<Option<i64>>,
    /// What a gauge was over several readings, on average.
    over: Vec<Stretch>,
}

/// A span with the least and the greatest reading in it, where they are known: a rate's are not.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stretch {
    pub span: Span,
    pub least: Option<f64>,
    pub most: Option<f64>,
}

/// A reading, or several that were put together.
#[derive(Debug, Clone)]
pub struct Taken {
    /// The last of them.
    pub told: Told,
    /// The first of them.
    pub from: i64,
    /// For how long they stood together.
    pub held: i64,
    pub readings: u32,
    pub is_coarse: bool,
    pub reserved: Reserved,
    pub is_shared: bool,
    pub uid: Option<u32>,
    pub user: Option<String>,
    pub cluster: Option<String>,
    /// In the order of the metrics.
    pub values: Vec<Value>,
}

/// What is said of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    Read(Option<i64>),
    /// Average, least and greatest of a gauge.
    Over(Option<f64>, Option<f64>, Option<f64>),
}

impl OnNode {
    pub fn new(host: String, node: Option<String>, metrics: usize) -> OnNode {
        OnNode { host, node, measured: vec![Measured::default(); metrics], ..OnNode::default() }
    }

    /// Takes in what comes next in the order in which it was made.
    pub fn take(&mut self, row: Taken) {
        self.seen.extend(spread(&row));
        for (measured, value) in self.measured.iter_mut().zip(&row.values) {
            match *value {
                Value::Read(value) => measured.values.push(value),
                Value::Over(average, least, most) => {
                    // The last reading was left alone, and is what it was.
                    let last = average.filter(|_| row.told.end.is_some()).map(|value| value.round() as i64);
                    measured.values.push(last);
                    measured.over.extend(over(row.from, row.held, average, least, most));
                }
            }
        }
        let Reserved { cpus, memory, gpus } = &mut self.reserved;
        *cpus = row.reserved.cpus.or(*cpus);
        *memory = row.reserved.memory.or(*memory);
        *gpus = row.reserved.gpus.or(*gpus);
        self.is_shared |= row.is_shared;
        self.is_coarse |= row.is_coarse;
        // Its first reading may be made before anyone has said which cluster it is.
        self.cluster = row.cluster.or(self.cluster.take());
        self.uid = row.uid.or(self.uid);
        self.user = row.user.or(self.user.take());
        self.told.push(row.told);
    }

    /// To be called when all is taken in: the clock may have been set between two readings. Of those that were put together
    /// that is no longer known.
    pub fn set_the_clock(&mut self) {
        self.part = Part::of(&self.told);
        if !self.is_coarse {
            self.seen.clone_from(&self.part.readings);
        }
    }

    /// From the first to the last time that the node's clock told, however it was set, with the job's start and end.
    pub fn told(&self) -> impl Iterator<Item = i64> {
        let own = [Some(self.part.start), self.part.end].into_iter().flatten();
        own.chain(self.told.iter().map(|told| told.time))
    }

    /// How many readings there were.
    pub fn readings(&self) -> u64 {
        self.seen.len() as u64
    }

    /// The spans of a metric, in the order of time.
    pub fn stretches(&self, metric: &Metric, at: usize) -> Vec<Stretch> {
        let Some(measured) = self.measured.get(at) else { return Vec::new() };
        let is_gauge = metric.kind == Kind::Gauge;
        let of_one = self.part.spans(metric, &measured.values).into_iter().map(|span| Stretch {
            span,
            least: is_gauge.then_some(span.value),
            most: is_gauge.then_some(span.value),
        });
        let mut all: Vec<Stretch> = measured.over.iter().copied().chain(of_one).collect();
        all.sort_by_key(|stretch| stretch.span.from);
        all
    }

    /// The last known value of a metric.
    pub fn last(&self, at: usize) -> Option<i64> {
        self.measured.get(at)?.values.iter().rev().find_map(|value| *value)
    }

    /// The times of the readings, for how many of them are missing.
    pub fn seen(&self) -> Part {
        Part { readings: self.seen.clone(), ..self.part }
    }
}

/// A gauge that stood for some time.
fn over(
    from: i64,
    held: i64,
    average: Option<f64>,
    least: Option<f64>,
    most: Option<f64>,
) -> Option<Stretch> {
    let value = average?;
    let span = Span { from, length: held, value };
    (held > 0).then(|| Stretch { span, least: least.or(average), most: most.or(average) })
}

/// When the readings of a row were made, if they were made evenly.
fn spread(row: &Taken) -> impl Iterator<Item = At> {
    let Told { time, every, .. } = row.told;
    let (count, from) = (i64::from(row.readings).max(1), row.from);
    let length = time.saturating_sub(from);
    (1..=count).map(move |n| {
        let time = if n == count { time } else { from + length / (count - 1).max(1) * (n - 1) };
        At { time, every }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::metric::{by_id, id};

    /// What was read at a time, of a job that began at zero.
    fn taken(time: i64, end: Option<i64>, values: Vec<Value>) -> Taken {
        Taken {
            told: Told { time, start: 0, end, every: 10, steady: None },
            from: time,
            held: 0,
            readings: 1,
            is_coarse: false,
            reserved: Reserved::default(),
            is_shared: false,
            uid: None,
            user: None,
            cluster: None,
            values,
        }
    }

    #[test]
    fn what_was_put_together_goes_on_in_what_was_not() {
        let mut on = OnNode::new("n1".into(), None, 2);
        let bin = taken(30, None, vec![Value::Read(Some(30)), Value::Over(Some(2.0), Some(1.0), Some(9.0))]);
        on.take(Taken { from: 10, held: 30, readings: 3, is_coarse: true, ..bin });
        on.take(taken(40, None, vec![Value::Read(Some(60)), Value::Read(Some(4))]));
        on.take(taken(51, Some(50), vec![Value::Read(Some(70)), Value::Read(None)]));
        on.set_the_clock();
        let of = |id, at| -> Vec<(i64, i64, f64, Option<f64>)> {
            let all = on.stretches(by_id(id).unwrap(), at);
            all.iter().map(|one| (one.span.from, one.span.length, one.span.value, one.most)).collect()
        };
        assert_eq!(of(id::CPU, 0), [(0, 30, 1.0, None), (30, 10, 3.0, None), (40, 10, 1.0, None)]);
        assert_eq!(of(id::MEMORY, 1), [(10, 30, 2.0, Some(9.0)), (40, 10, 4.0, Some(4.0))]);
        let times: Vec<i64> = on.seen().readings.iter().map(|at| at.time).collect();
        assert_eq!((times, on.readings()), (vec![10, 20, 30, 40, 51], 5));
        assert_eq!((on.last(0), on.last(1), on.last(2)), (Some(70), Some(4), None));
    }

    #[test]
    fn what_is_not_said_again_stays_known() {
        let mut on = OnNode::new("n1".into(), None, 0);
        let cpus = Reserved { cpus: Some(4), ..Reserved::default() };
        on.take(Taken {
            reserved: cpus,
            is_shared: true,
            uid: Some(1000),
            user: Some("alice".into()),
            ..taken(10, None, vec![])
        });
        on.take(Taken { cluster: Some("tiny".into()), ..taken(20, None, vec![]) });
        assert_eq!((on.reserved, on.is_shared, on.is_coarse), (cpus, true, false));
        assert_eq!(
            (on.uid, on.user.as_deref(), on.cluster.as_deref()),
            (Some(1000), Some("alice"), Some("tiny"))
        );
    }
}
