//! Puts readings into the order of their series, once a day is over: then the values of a series lie beside each other on disk,
//! and take less of it. Readings come in the order of time, those of all jobs and nodes in turn.
//!
//! A step rewrites a part of the hosts of one day in one transaction, and remembers in it how far it is. Readings that come
//! later than that stay as they came.

use crate::StoreError;
use crate::upkeep::{self, DAY_NS, PLACES, SAMPLES, Step};
use crate::write::Writer;

/// The day in work; days before it are in order.
const SORTED_UNTIL: &str = "sorted_until_ns";
/// Hosts of that day before this place are in order.
const SORTED_PLACE: &str = "sorted_place";

/// The order of each table of [`SAMPLES`].
const ORDERS: [&str; 4] = [
    "job, session, host, node, start_ns, time_ns",
    "job, session, host, node, command, time_ns",
    "host, time_ns",
    "job, session, host, card, time_ns",
];

impl Writer {
    /// Puts a part of the readings of days that were over before a time into order: so many rows, unless a single host has more.
    pub fn compact(&mut self, before_ns: i64, most: u64) -> Result<Step, StoreError> {
        let before = before_ns.div_euclid(DAY_NS).saturating_mul(DAY_NS);
        let until = upkeep::load(&self.connection, SORTED_UNTIL)?;
        let Some(day) = self.first_day(until.unwrap_or(i64::MIN), before)? else {
            return Ok(Step { rows: 0, is_last: true });
        };
        let is_begun = until == Some(day);
        let place = if is_begun { upkeep::load(&self.connection, SORTED_PLACE)?.unwrap_or(0) } else { 0 };
        let hosts = self.next_hosts(day, place, most)?;
        let here = hosts.condition(day, day + DAY_NS);
        let transaction = self.connection.transaction()?;
        let mut rows = 0;
        for (table, order) in SAMPLES.into_iter().zip(ORDERS) {
            let sorted =
                format!("CREATE TEMP TABLE sorted AS SELECT * FROM {table} WHERE {here} ORDER BY {order}");
            transaction.execute_batch(&sorted)?;
            rows += transaction.execute(&format!("DELETE FROM {table} WHERE {here}"), [])?;
            transaction
                .execute_batch(&format!("INSERT INTO {table} SELECT * FROM sorted; DROP TABLE sorted"))?;
        }
        let is_whole_day = hosts.end == PLACES;
        upkeep::save(&transaction, SORTED_UNTIL, if is_whole_day { day + DAY_NS } else { day })?;
        upkeep::save(&transaction, SORTED_PLACE, if is_whole_day { 0 } else { hosts.end })?;
        transaction.commit()?;
        Ok(Step { rows: rows as u64, is_last: false })
    }

    /// Gives the room of what was deleted or rewritten back to the file. While others ask, DuckDB may do it only in part; it
    /// does the rest another time.
    pub fn checkpoint(&self) -> Result<(), StoreError> {
        Ok(self.connection.execute_batch("CHECKPOINT")?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use duckdb::Connection;
    use std::sync::Arc;

    const HOSTS: u64 = 9;

    /// Readings of nine hosts over three days, as they come; and one that came late.
    fn writer() -> Writer {
        let connection = Connection::open_in_memory().unwrap();
        crate::schema::migrate(&connection).unwrap();
        let each = format!("FROM range(72) t(hour), range({HOSTS}) h(host) ORDER BY hour, host");
        connection
            .execute_batch(&format!(
                "INSERT INTO node_sample (stream, number, host, time_ns, node_load) \
                   SELECT 1, 1, 'n' || host, hour * 3600000000000, host {each}; \
                 INSERT INTO job_sample (stream, number, job, host, time_ns, start_ns, every_ns, is_shared, cpu) \
                   SELECT 1, 1, host % 2, 'n' || host, hour * 3600000000000, 0, 1, false, hour {each}; \
                 INSERT INTO command_sample (stream, number, job, host, time_ns, command, memory) \
                   SELECT 1, 1, host % 2, 'n' || host, hour * 3600000000000, 'solver', hour {each}"
            ))
            .unwrap();
        Writer::open(connection, Arc::default(), Arc::default(), Arc::default(), Arc::default()).unwrap()
    }

    fn count(writer: &Writer, sql: &str) -> i64 {
        writer.connection.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    /// How many rows lie before one that should come first, in the first two days.
    fn disorder(writer: &Writer, table: &str, order: &str) -> i64 {
        let sql = format!(
            "SELECT count(*) FROM (SELECT row({order}) < lag(row({order})) OVER (ORDER BY rowid) AS is_after \
             FROM {table} WHERE time_ns < {DAY_NS}) WHERE is_after"
        );
        count(writer, &sql)
    }

    #[test]
    fn days_that_are_over_are_in_order_and_nothing_is_lost_or_doubled() {
        let mut writer = writer();
        let content = "SELECT sum(hash(t)) % 1000000007 FROM (SELECT * FROM job_sample UNION ALL BY NAME \
                       SELECT * FROM node_sample UNION ALL BY NAME SELECT * FROM command_sample) t";
        let before = count(&writer, content);
        assert!(disorder(&writer, "node_sample", ORDERS[2]) > 0);
        let (mut rows, mut steps) = (0, 0);
        loop {
            let step = writer.compact(2 * DAY_NS + 5, u64::MAX).unwrap();
            if step.is_last {
                break;
            }
            (rows, steps) = (rows + step.rows, steps + 1);
            assert_eq!(count(&writer, content), before);
        }
        assert_eq!((rows, steps), (3 * 48 * HOSTS, 2), "the third day is not over");
        for (table, order) in SAMPLES.into_iter().zip(ORDERS) {
            assert_eq!(disorder(&writer, table, order), 0, "{table}");
        }
        assert!(writer.compact(2 * DAY_NS, u64::MAX).unwrap().is_last, "it is remembered");
    }

    /// Each step is a part of the hosts, and the next one goes on where it ended.
    #[test]
    fn small_steps_take_each_host_of_a_day_once() {
        let mut writer = writer();
        let mut steps = Vec::new();
        loop {
            let step = writer.compact(DAY_NS, 1).unwrap();
            if step.is_last {
                break;
            }
            steps.push(step.rows);
        }
        assert_eq!(steps, vec![3 * 24; HOSTS as usize]);
        assert_eq!(disorder(&writer, "node_sample", "host, time_ns") as u64, HOSTS - 1 - rises(&writer));
    }

    /// Hosts come in the order of their places, which are not that of their names.
    fn rises(writer: &Writer) -> u64 {
        let sql = "SELECT count(*) FROM (SELECT host > lag(host) OVER (ORDER BY hash(host) >> 48) AS rises \
                   FROM (SELECT DISTINCT host FROM node_sample)) WHERE rises";
        count(writer, sql) as u64
    }
}
