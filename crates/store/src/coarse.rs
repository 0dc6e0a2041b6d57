//! Makes old readings coarse: one row for each step of some minutes instead of each reading, without losing a counter's
//! growth or a gauge's peak. `schema/0003.sql` says what such a row holds.
//!
//! A step takes a part of the hosts of one day, oldest first, and is one transaction: what it has made coarse is no longer
//! there to be made coarse again, so nothing has to be remembered, and a kill costs nothing and doubles nothing.

use record::metric::{self, Kind, Metric, Of};

use crate::StoreError;
use crate::samples::OF_COMMANDS;
use crate::upkeep::{DAY_NS, Hosts, SAMPLES, Step};
use crate::write::Writer;

/// What is to be made coarse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coarsen {
    /// Readings of the days before this time, in nanoseconds since 1970.
    pub before_ns: i64,
    /// The length of a bin.
    pub step_ns: i64,
    /// Readings in one go, unless a single host has more.
    pub rows: u64,
}

/// A table of readings, and how its rows are put together.
struct Table {
    raw: &'static str,
    coarse: &'static str,
    /// What tells one series from another, as columns of both tables in their order.
    series: &'static str,
    /// How long a reading was meant to stand: what no row says is not longer than a bin.
    every: &'static str,
    end: &'static str,
    /// The columns before those of the metrics, put together.
    lead: &'static str,
    metrics: fn() -> Vec<&'static Metric>,
    /// Counters that only grow, or begin anew.
    grows: bool,
}

const TABLES: [Table; 4] = [
    Table {
        raw: "job_sample",
        coarse: "job_coarse",
        series: "job, session, host, node, start_ns",
        every: "every_ns",
        end: "end_ns",
        lead: "max(cluster), job, session, host, node, min(time_ns), max(time_ns), max(uid), max(\"user\"), start_ns, \
               max(end_ns), arg_max(every_ns, time_ns), CAST(sum(held) AS BIGINT), count(*), \
               arg_max(reserved_cpus, time_ns), arg_max(reserved_memory, time_ns), arg_max(reserved_gpus, time_ns), \
               bool_or(is_shared)",
        metrics: || metric::of(Of::Job).collect(),
        grows: true,
    },
    Table {
        raw: "command_sample",
        coarse: "command_coarse",
        series: "job, session, host, node, command",
        every: "CAST(NULL AS BIGINT)",
        end: "CAST(NULL AS BIGINT)",
        lead: "max(cluster), job, session, host, node, min(time_ns), max(time_ns), CAST(sum(held) AS BIGINT), count(*), \
               command",
        metrics: || OF_COMMANDS.into_iter().filter_map(metric::by_id).collect(),
        // They are of the processes that ran then, and fall whenever one ends.
        grows: false,
    },
    Table {
        raw: "node_sample",
        coarse: "node_coarse",
        series: "host",
        every: "CAST(NULL AS BIGINT)",
        end: "CAST(NULL AS BIGINT)",
        lead: "host, min(time_ns), max(time_ns), CAST(sum(held) AS BIGINT), count(*)",
        metrics: || metric::of(Of::Node).collect(),
        grows: true,
    },
    Table {
        raw: "card_sample",
        coarse: "card_coarse",
        series: "job, session, host, node, card",
        every: "CAST(NULL AS BIGINT)",
        end: "CAST(NULL AS BIGINT)",
        lead: "max(cluster), job, session, host, node, min(time_ns), max(time_ns), CAST(sum(held) AS BIGINT), count(*), \
               card, bool_or(is_shared)",
        metrics: || metric::of(Of::Card).collect(),
        grows: true,
    },
];

impl Writer {
    /// Makes a part of what is old coarse.
    ///
    /// The rows of jobs come first: they are to be made of the readings themselves.
    pub fn coarsen(&mut self, what: Coarsen, now_ns: i64) -> Result<Step, StoreError> {
        if !self.summarise_before(what.before_ns, now_ns)? {
            return Ok(Step { rows: 0, is_last: false });
        }
        let step = what.step_ns.max(1);
        // Whole days only: a day that is made coarse in one go lies in the order of its series.
        let before = what.before_ns.div_euclid(DAY_NS).saturating_mul(DAY_NS);
        let Some(day) = self.first_day(i64::MIN, before)? else { return Ok(Step { rows: 0, is_last: true }) };
        let hosts = self.next_hosts(day, 0, what.rows)?;
        let transaction = self.connection.transaction()?;
        let mut rows = 0;
        for table in &TABLES {
            transaction.execute(&table.insert(day, &hosts, step), [])?;
        }
        for table in SAMPLES {
            let delete = format!("DELETE FROM {table} WHERE {}", hosts.condition(day, day + DAY_NS));
            rows += transaction.execute(&delete, [])?;
        }
        transaction.commit()?;
        Ok(Step { rows: rows as u64, is_last: false })
    }
}

impl Table {
    /// All numbers in it are our own.
    fn insert(&self, day: i64, hosts: &Hosts, step: i64) -> String {
        let metrics = (self.metrics)();
        let columns: Vec<String> = metrics.iter().map(|metric| column(metric)).collect();
        let Table { raw, coarse, series, every, end, lead, .. } = self;
        let until = day + DAY_NS;
        // A reading stands until the next one, which may be of the next day.
        let with_next = hosts.condition(day, until.saturating_add(step));
        let fell = if self.grows { fell(&metrics) } else { "false".to_owned() };
        format!(
            "INSERT INTO {coarse} SELECT {lead}, {columns} FROM ( \
               SELECT *, 2 * sum(fell) OVER series - fell AS run FROM ( \
                 SELECT *, CAST(coalesce({fell}, false) AS INTEGER) AS fell, \
                   greatest(0, least(coalesce(lead(time_ns) OVER series - time_ns, {end} - time_ns, {every}, {step}), \
                     coalesce(2 * {every}, {step}))) AS held \
                 FROM {raw} WHERE {with_next} WINDOW series AS (PARTITION BY {series} ORDER BY time_ns)) \
               WINDOW series AS (PARTITION BY {series} ORDER BY time_ns ROWS UNBOUNDED PRECEDING)) \
             WHERE time_ns < {until} \
             GROUP BY {series}, time_ns // {step}, run, {end} IS NULL ORDER BY {series}, min(time_ns)",
            columns = columns.join(", ")
        )
    }
}

/// Whether a counter has fallen: what was before it must not be subtracted from what comes after, so the first reading after
/// it stays alone.
fn fell(metrics: &[&Metric]) -> String {
    let counters = metrics.iter().filter(|metric| metric.kind == Kind::Counter);
    let each = counters.map(|metric| format!("{0} < lag({0}) OVER series", metric.name));
    each.collect::<Vec<_>>().join(" OR ")
}

/// A metric's column of a bin, or three.
fn column(metric: &Metric) -> String {
    let name = metric.name;
    match metric.kind {
        Kind::Counter => format!("arg_max({name}, time_ns)"),
        Kind::Gauge => format!(
            "coalesce(sum(CAST({name} AS DOUBLE) * held) / nullif(sum(held) FILTER ({name} IS NOT NULL), 0), avg({name})), \
             min({name}) FILTER (held > 0), max({name}) FILTER (held > 0)"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use duckdb::Connection;
    use std::sync::Arc;

    /// The names of a table's columns that are metrics', in their order.
    fn measured(table: &str) -> Vec<String> {
        let connection = Connection::open_in_memory().unwrap();
        crate::schema::migrate(&connection).unwrap();
        let sql = "SELECT column_name FROM information_schema.columns WHERE table_name = ? \
                   AND data_type IN ('BIGINT', 'FLOAT') AND NOT ends_with(column_name, '_ns') \
                   AND column_name <> 'reserved_memory' ORDER BY ordinal_position";
        let mut query = connection.prepare(sql).unwrap();
        query.query_map([table], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    /// A metric that is added to the catalogue needs a step of the schema.
    #[test]
    fn the_coarse_tables_have_the_columns_of_the_catalogue() {
        for table in &TABLES {
            let names = (table.metrics)().into_iter().flat_map(|metric| match metric.kind {
                Kind::Counter => vec![metric.name.to_owned()],
                Kind::Gauge => ["", "_min", "_max"].map(|end| format!("{}{end}", metric.name)).to_vec(),
            });
            assert_eq!(measured(table.coarse), names.collect::<Vec<_>>());
        }
    }

    const SECOND: i64 = 1_000_000_000;

    fn coarsened(sql: &str) -> Writer {
        let connection = Connection::open_in_memory().unwrap();
        crate::schema::migrate(&connection).unwrap();
        connection.execute_batch(sql).unwrap();
        let mut writer =
            Writer::open(connection, Arc::default(), Arc::default(), Arc::default(), Arc::default()).unwrap();
        let what = Coarsen { before_ns: 2 * DAY_NS, step_ns: 600 * SECOND, rows: 1 };
        while !writer.coarsen(what, 0).unwrap().is_last {}
        writer
    }

    /// `time_ns` and a counter of each row, in the order of time.
    fn rows(writer: &Writer, table: &str, column: &str) -> Vec<(i64, Option<i64>)> {
        let sql = format!("SELECT time_ns, {column} FROM {table} ORDER BY time_ns");
        let mut query = writer.connection.prepare(&sql).unwrap();
        query.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
    }

    /// The machine was booted between two readings: the differences that are known stay.
    #[test]
    fn a_counter_that_falls_splits_a_bin() {
        let writer = coarsened(
            "INSERT INTO node_sample (stream, number, host, time_ns, node_disk_read, node_disk_write) VALUES \
             (1, 1, 'n1', 60, 10, 5), (1, 2, 'n1', 120, 20, 5), (1, 3, 'n1', 180, 3, NULL), (1, 4, 'n1', 240, 9, 6), \
             (1, 5, 'n1', 600, 11, NULL), (1, 6, 'n2', 90, 7, NULL)",
        );
        let known = |pairs: &[(i64, i64)]| pairs.iter().map(|(at, of)| (*at, Some(*of))).collect::<Vec<_>>();
        let found = rows(&writer, "node_coarse", "node_disk_read");
        assert_eq!(found, known(&[(90, 7), (120, 20), (180, 3), (600, 11)]));
        // The last one that is known, not none.
        assert_eq!(rows(&writer, "node_coarse", "node_disk_write")[3], (600, Some(6)));
        assert!(rows(&writer, "node_sample", "node_disk_read").is_empty());
    }

    #[test]
    fn an_average_is_weighted_with_time_and_has_its_peak_beside_it() {
        let at = |second: i64| second * SECOND;
        // It stood at 10 for a minute, at 1000 for a second, at 0 for two minutes after which nobody looked.
        let values: Vec<String> = [(60, "10"), (120, "1000"), (121, "0"), (500, "NULL"), (1300, "4")]
            .iter()
            .map(|(second, load)| format!("(1, 1, '7', 'n1', {}, 0, {}, false, {load})", at(*second), at(60)))
            .collect();
        let writer = coarsened(&format!(
            "INSERT INTO job_sample (stream, number, job, host, time_ns, start_ns, every_ns, is_shared, job_load) VALUES {}",
            values.join(", ")
        ));
        let sql = "SELECT from_ns, time_ns, held_ns, readings, CAST(job_load AS DOUBLE), job_load_min, job_load_max \
                   FROM job_coarse ORDER BY time_ns";
        let mut query = writer.connection.prepare(sql).unwrap();
        type Bin = (i64, i64, i64, u32, Option<f64>, Option<i64>, Option<i64>);
        let bins = query.query_map([], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?, row.get(6)?))
        });
        let bins: Vec<Bin> = bins.unwrap().map(Result::unwrap).collect();
        let average = (10.0 * 60.0 + 1000.0) / 181.0;
        assert!((bins[0].4.unwrap() - average).abs() < 1e-5, "{bins:?}");
        let whole: Vec<_> = bins.iter().map(|bin| (bin.0, bin.1, bin.2, bin.3, bin.5, bin.6)).collect();
        assert_eq!(
            whole,
            [
                (at(60), at(500), at(60 + 1 + 120 + 120), 4, Some(0), Some(1000)),
                (at(1300), at(1300), at(60), 1, Some(4), Some(4))
            ]
        );
    }
}
