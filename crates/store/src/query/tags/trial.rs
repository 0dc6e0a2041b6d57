//! What a new criterion would find over the history, beside a rule that there is: nothing is changed.

use condition::Condition;
use serde_json::{Value, json};

use super::{Reader, Snapshot, object};
use crate::StoreError;
use crate::query::jobs::{Wanted, Which};

/// How many jobs are shown as examples, and users and partitions with the most.
const EXAMPLES: u64 = 5;

impl Reader {
    /// `which` has no condition of its own: `condition` is tried on those jobs. `bit` is that of the tag to compare with.
    pub fn try_condition(
        &self,
        which: &Which,
        condition: &Condition,
        than: Option<Wanted>,
    ) -> Result<Value, StoreError> {
        let mut named = which.clone();
        named.conditions.push(condition.clone());
        let which = &Which { kinds: self.meant(&named).kinds, ..which.clone() };
        self.ask(|snapshot| snapshot.try_condition(which, condition, than))
    }
}

impl Snapshot<'_> {
    fn try_condition(
        &self,
        which: &Which,
        condition: &Condition,
        than: Option<Wanted>,
    ) -> Result<Value, StoreError> {
        let mut fitting = which.clone();
        fitting.conditions.push(condition.clone());
        let (conditions, beside) = (fitting.conditions(), fitting.beside(std::iter::empty()));
        let ask = |select: &str, rest: &str| {
            format!("SELECT {select} FROM accounting c {beside} {} {rest}", conditions.sql())
        };
        let together = ask(
            "count(*), coalesce(sum(c.elapsed_ns::DOUBLE * c.cores) / 3.6e12, 0), count(DISTINCT c.\"user\"), \
             count(DISTINCT c.partition)",
            "",
        );
        let sums = self.rows(&together, &conditions.values, |row| {
            Ok((row.get::<_, u64>(0)?, row.get::<_, f64>(1)?, row.get::<_, u64>(2)?, row.get::<_, u64>(3)?))
        })?;
        let (jobs, core_hours, users, partitions) = sums.into_iter().next().unwrap_or_default();
        let most = |column: &str| -> Result<Vec<Value>, StoreError> {
            let select = format!(
                "c.{column}, count(*) AS jobs, coalesce(sum(c.elapsed_ns::DOUBLE * c.cores) / 3.6e12, 0) AS hours"
            );
            let sql = ask(&select, &format!("GROUP BY ALL ORDER BY hours DESC, c.{column} LIMIT {EXAMPLES}"));
            self.rows(&sql, &conditions.values, |row| {
                let name: Option<String> = row.get(0)?;
                Ok(json!({"name": name, "jobs": row.get::<_, u64>(1)?, "core_hours": row.get::<_, f64>(2)?}))
            })
        };
        let examples = ask(
            "c.shown",
            &format!("ORDER BY c.elapsed_ns * c.cores DESC NULLS LAST, c.shown LIMIT {EXAMPLES}"),
        );
        let examples = self.rows(&examples, &conditions.values, |row| row.get::<_, String>(0))?;
        let difference = than.map(|than| self.difference(which, condition, than)).transpose()?;
        Ok(Value::from(object([
            ("criterion", json!(condition.to_string())),
            ("jobs", json!(jobs)),
            ("core_hours", json!(core_hours)),
            ("users", json!(users)),
            ("partitions", json!(partitions)),
            ("unknown", json!(self.unknown(which, condition)?)),
            ("most_users", json!(most("\"user\"")?)),
            ("most_partitions", json!(most("partition")?)),
            ("examples", json!(examples)),
            ("difference", json!(difference)),
        ])))
    }

    /// Jobs of which nobody can say.
    fn unknown(&self, which: &Which, condition: &Condition) -> Result<u64, StoreError> {
        let of = Which { conditions: vec![condition.clone()], ..Which::default() };
        let sql = condition.sql();
        let (conditions, beside) = (which.conditions(), of.beside(std::iter::empty()));
        let mut values: Vec<_> = conditions.values.clone();
        values.extend(sql.values.into_iter().map(crate::query::jobs::bound));
        let sql = format!(
            "SELECT count(*) FROM accounting c {beside} {} AND ({}) IS NULL",
            conditions.sql(),
            sql.text
        );
        Ok(self.rows(&sql, &values, |row| row.get::<_, u64>(0))?.iter().sum())
    }

    /// Jobs that only the one finds, and those that only the other has.
    fn difference(&self, which: &Which, condition: &Condition, than: Wanted) -> Result<Value, StoreError> {
        let mut without = which.clone();
        without.conditions.push(condition.clone());
        without.tagged.none.push(than);
        let mut has = which.clone();
        has.tagged.all.push(than);
        let mut both = has.clone();
        both.conditions.push(condition.clone());
        let (now, both) = (self.count_accounted(&has)?, self.count_accounted(&both)?);
        Ok(json!({"only_new": self.count_accounted(&without)?, "both": both, "only_old": now - both}))
    }

    fn count_accounted(&self, which: &Which) -> Result<u64, StoreError> {
        let (conditions, beside) = (which.conditions(), which.beside(std::iter::empty()));
        let sql = format!("SELECT count(*) FROM accounting c {beside} {}", conditions.sql());
        Ok(self.rows(&sql, &conditions.values, |row| row.get::<_, u64>(0))?.iter().sum())
    }
}
