//! Keeps what other systems measured, and binds it to jobs: by the job that they name, or by the nodes and the time of a job.

mod bind;
mod due;
mod late;

use std::collections::{BTreeSet, HashMap};

use duckdb::types::Value as Sql;
use duckdb::{Connection, ToSql, params_from_iter};
use record::measure::{Job, Measures, Name, Series, Told};

use crate::accounting::{id_of, merge};
use crate::write::Writer;
use crate::{StoreError, tags};

pub use bind::Bound;
pub use due::DueMeasures;
pub(crate) use due::Pending;
pub(crate) use late::Arriving;
pub use late::{Arrived, Late};

/// How much was kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Measured {
    pub values: u64,
    pub told: u64,
}

impl Writer {
    /// Keeps values and what was told of whole jobs, all of it or nothing. A series of one job takes the place of what was known of
    /// it; told again, it changes nothing.
    pub fn measure(&mut self, measures: &Measures, now_ns: i64) -> Result<Measured, StoreError> {
        let transaction = self.connection.transaction()?;
        let names = Names::of(&transaction, measures)?;
        replace_series(&transaction, &measures.series, &names)?;
        let values = append(&transaction, &measures.series, &names)?;
        keep_told(&transaction, &measures.told, &names)?;
        let remembered = self.arriving.remember(&transaction, &measures.series)?;
        transaction.commit()?;
        self.arriving.come(remembered, &measures.series);
        let bound = measures.series.iter().filter_map(|series| series.job.as_ref());
        self.measured.now(bound.map(|job| names.id(job)).collect(), now_ns);
        for series in measures.series.iter().filter(|series| series.job.is_none()) {
            series.points.iter().for_each(|point| self.measured.seen(nanos(point.time)));
        }
        Ok(Measured { values, told: measures.told.len() as u64 })
    }
}

fn nanos(time: u64) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}

fn id_of_job(job: &Job) -> u64 {
    id_of(job.cluster.as_deref(), &job.number, job.submit.or(job.start))
}

/// The ids of jobs that are spoken of; a record of which may have given way to another.
struct Names(HashMap<u64, u64>);

impl Names {
    fn of(connection: &Connection, measures: &Measures) -> Result<Names, StoreError> {
        let of_series = measures.series.iter().filter_map(|series| series.job.as_ref());
        let jobs: BTreeSet<u64> =
            of_series.chain(measures.told.iter().map(|told| &told.job)).map(id_of_job).collect();
        Ok(Names(merge::moved(connection, &jobs.into_iter().collect::<Vec<_>>())?))
    }

    fn id(&self, job: &Job) -> u64 {
        let id = id_of_job(job);
        self.0.get(&id).copied().unwrap_or(id)
    }
}

fn text(text: Option<&str>) -> Sql {
    text.map_or(Sql::Null, |text| Sql::Text(text.to_owned()))
}

/// What is told of one job's series is all there is of it.
fn replace_series(connection: &Connection, all: &[Series], names: &Names) -> Result<(), StoreError> {
    let key = |series: &Series| {
        let job = names.id(series.job.as_ref()?);
        Some((
            job,
            series.metric.text().to_owned(),
            series.host.clone(),
            series.part.clone().unwrap_or_default(),
        ))
    };
    let keys: BTreeSet<_> = all.iter().filter_map(key).collect();
    if keys.is_empty() {
        return Ok(());
    }
    let values = keys.iter().flat_map(|(job, metric, host, part)| {
        [Sql::UBigInt(*job), Sql::Text(metric.clone()), Sql::Text(host.clone()), Sql::Text(part.clone())]
    });
    let rows =
        vec!["(CAST(? AS UBIGINT), CAST(? AS VARCHAR), CAST(? AS VARCHAR), CAST(? AS VARCHAR))"; keys.len()];
    let sql = format!(
        "DELETE FROM measure USING (VALUES {}) AS k(job, metric, host, part) WHERE measure.job = k.job \
         AND measure.metric = k.metric AND measure.host = k.host AND coalesce(measure.part, '') = k.part",
        rows.join(", ")
    );
    connection.execute(&sql, params_from_iter(values))?;
    Ok(())
}

fn append(connection: &Connection, all: &[Series], names: &Names) -> Result<u64, StoreError> {
    let mut table = connection.appender("measure")?;
    let mut values = 0;
    for series in all {
        let is_ours = matches!(series.metric, Name::Ours(_));
        let job = series.job.as_ref().map(|job| names.id(job));
        for point in series.points.iter().filter(|point| point.value.is_finite()) {
            let row: [&dyn ToSql; 10] = [
                &series.cluster,
                &series.host,
                &series.metric.text(),
                &is_ours,
                &series.unit,
                &series.part,
                &job,
                &nanos(series.every),
                &nanos(point.time),
                &point.value,
            ];
            table.append_row(&row[..])?;
            values += 1;
        }
    }
    table.flush()?;
    Ok(values)
}

/// The last word about a metric of a job counts; what was computed from values counts more.
fn keep_told(connection: &Connection, all: &[Told], names: &Names) -> Result<(), StoreError> {
    if all.is_empty() {
        return Ok(());
    }
    let ids: BTreeSet<String> = all.iter().map(|told| names.id(&told.job).to_string()).collect();
    let ids: Vec<String> = ids.into_iter().collect();
    tags::ids_due(connection, &ids)?;
    let ids = ids.join(", ");
    connection.execute_batch(&format!("DELETE FROM job_measure WHERE is_told AND id IN ({ids})"))?;
    let mut table = connection.appender("job_measure")?;
    for told in all {
        let row = [
            Sql::UBigInt(names.id(&told.job)),
            Sql::Text(told.metric.text().to_owned()),
            Sql::Boolean(matches!(told.metric, Name::Ours(_))),
            Sql::Boolean(true),
            text(told.unit.as_deref()),
        ];
        let numbers = [told.min, told.max, told.avg, told.median, None, None];
        let numbers =
            numbers.map(|number| number.filter(|number| number.is_finite()).map_or(Sql::Null, Sql::Double));
        let row: Vec<&dyn ToSql> = row
            .iter()
            .chain(&numbers)
            .chain([&Sql::Null, &Sql::Null, &Sql::Null])
            .map(|value| value as &dyn ToSql)
            .collect();
        table.append_row(&row[..])?;
    }
    Ok(table.flush()?)
}
