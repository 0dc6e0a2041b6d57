//! The steps of a job, as its batch system accounts for them.

use duckdb::types::Value as Sql;
use serde_json::{Value, json};

use super::{Snapshot, object, time};
use crate::StoreError;

impl Snapshot<'_> {
    /// In the order in which they began; those of which nobody knows that are last.
    pub(super) fn steps(&self, id: u64) -> Result<Vec<Value>, StoreError> {
        let sql = "SELECT step, name, state, node_list, submit_line, container, allocated, max_rss_node, used_in, used_out, \
                     start_ns, end_ns, nodes, tasks, cores, exit_code::UBIGINT, signal::UBIGINT, max_rss, average_rss, energy_j, \
                     elapsed_ns / 1e9, total_cpu_ns / 1e9, user_cpu_ns / 1e9, system_cpu_ns / 1e9, \
                     total_cpu_ns / nullif(cores * elapsed_ns, 0) * 100 \
                   FROM accounting_step WHERE id = ? ORDER BY start_ns NULLS LAST, step";
        self.rows(sql, &[Sql::UBigInt(id)], |row| {
            let text = |at: usize| row.get::<_, Option<String>>(at).map(|text| json!(text));
            let count = |at: usize| row.get::<_, Option<u64>>(at).map(|count| json!(count));
            let number = |at: usize| row.get::<_, Option<f64>>(at).map(|number| json!(number));
            Ok(Value::from(object([
                ("step", text(0)?),
                ("name", text(1)?),
                ("state", text(2)?),
                ("exit_code", count(15)?),
                ("signal", count(16)?),
                ("start", time(row.get(10)?)),
                ("end", time(row.get(11)?)),
                ("elapsed_s", number(20)?),
                ("nodes", count(12)?),
                ("node_list", text(3)?),
                ("tasks", count(13)?),
                ("cores", count(14)?),
                ("cpu_time_s", number(21)?),
                ("user_cpu_s", number(22)?),
                ("system_cpu_s", number(23)?),
                ("cpu_efficiency", number(24)?),
                ("max_rss", count(17)?),
                ("max_rss_node", text(7)?),
                ("average_rss", count(18)?),
                ("energy_j", count(19)?),
                ("allocated", text(6)?),
                ("used_in", text(8)?),
                ("used_out", text(9)?),
                ("submit_line", text(4)?),
                ("container", text(5)?),
            ])))
        })
    }
}
