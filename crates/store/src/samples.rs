//! Writes what was measured: one row per job and reading, per command and GPU in it, and per node.

use duckdb::{Appender, Connection, ToSql};
use record::metric::{self, Of, id};
use record::reading::{CardReading, CommandReading, Hardware, JobReading, Reading, Values};

use crate::StoreError;
use crate::write::signed;

/// The metrics of a command, in the order of the columns.
pub(crate) const OF_COMMANDS: [u16; 7] =
    [id::CPU_USER, id::CPU_SYSTEM, id::MEMORY, id::PROCESSES, id::THREADS, id::READ_BYTES, id::WRITE_BYTES];

/// The appenders of the tables.
pub struct Samples<'c> {
    job: Appender<'c>,
    command: Appender<'c>,
    node: Appender<'c>,
    card: Appender<'c>,
    hardware: Appender<'c>,
}

/// A stream, and the number of an entry in it.
type Source = (u32, u64);

impl<'c> Samples<'c> {
    pub fn open(connection: &'c Connection) -> Result<Samples<'c>, StoreError> {
        Ok(Samples {
            job: connection.appender("job_sample")?,
            command: connection.appender("command_sample")?,
            node: connection.appender("node_sample")?,
            card: connection.appender("card_sample")?,
            hardware: connection.appender("node_hardware")?,
        })
    }

    pub fn flush(&mut self) -> Result<(), StoreError> {
        for table in [&mut self.job, &mut self.command, &mut self.node, &mut self.card, &mut self.hardware] {
            table.flush()?;
        }
        Ok(())
    }

    pub fn reading(&mut self, source: Source, reading: &Reading) -> Result<(), StoreError> {
        for job in &reading.jobs {
            self.job(source, reading, job)?;
            for command in &job.commands {
                self.command(source, reading, job, command)?;
            }
            for card in &job.cards {
                self.card(source, reading, Some(job), card)?;
            }
        }
        for card in &reading.cards {
            self.card(source, reading, None, card)?;
        }
        if let Some(hardware) = &reading.hardware {
            self.hardware(source, reading, hardware)?;
        }
        if reading.node.is_empty() { Ok(()) } else { self.node(source, reading) }
    }

    fn job(&mut self, source: Source, reading: &Reading, job: &JobReading) -> Result<(), StoreError> {
        let reserved = job.reserved.unwrap_or_default();
        let (time, start, every) = (signed(reading.time), signed(job.start), signed(job.every));
        let (end, memory) = (job.end.map(signed), reserved.memory.map(signed));
        let since_boot = reading.since_boot.map(signed);
        let measured = columns(&job.values, metric::of(Of::Job).map(|metric| metric.id));
        let mut row: Vec<&dyn ToSql> = vec![
            &source.0,
            &source.1,
            &job.cluster,
            &job.job,
            &job.session,
            &reading.host,
            &job.node,
            &time,
            &job.uid,
            &job.user,
            &start,
            &end,
            &every,
            &reserved.cpus,
            &memory,
            &reserved.gpus,
            &job.is_shared,
            &reading.boot,
            &since_boot,
        ];
        row.extend(measured.iter().map(|value| value as &dyn ToSql));
        Ok(self.job.append_row(&row[..])?)
    }

    fn command(
        &mut self,
        source: Source,
        reading: &Reading,
        job: &JobReading,
        command: &CommandReading,
    ) -> Result<(), StoreError> {
        let (time, name) = (signed(reading.time), command.command.to_string());
        let measured = columns(&command.values, OF_COMMANDS.into_iter());
        let mut row: Vec<&dyn ToSql> = vec![
            &source.0,
            &source.1,
            &job.cluster,
            &job.job,
            &job.session,
            &reading.host,
            &job.node,
            &time,
            &name,
        ];
        row.extend(measured.iter().map(|value| value as &dyn ToSql));
        Ok(self.command.append_row(&row[..])?)
    }

    fn card(
        &mut self,
        source: Source,
        reading: &Reading,
        job: Option<&JobReading>,
        card: &CardReading,
    ) -> Result<(), StoreError> {
        let time = signed(reading.time);
        let nobody = JobReading::default();
        let job = job.unwrap_or(&nobody);
        let measured = columns(&card.values, metric::of(Of::Card).map(|metric| metric.id));
        let mut row: Vec<&dyn ToSql> = vec![
            &source.0,
            &source.1,
            &job.cluster,
            &job.job,
            &job.session,
            &reading.host,
            &job.node,
            &time,
            &card.card,
            &card.index,
            &card.model,
            &card.parent,
            &card.failing,
            &card.is_shared,
        ];
        row.extend(measured.iter().map(|value| value as &dyn ToSql));
        Ok(self.card.append_row(&row[..])?)
    }

    fn hardware(&mut self, source: Source, reading: &Reading, of: &Hardware) -> Result<(), StoreError> {
        let time = signed(reading.time);
        let cards = (!of.cards.is_empty()).then(|| of.cards.join("; "));
        let row: [&dyn ToSql; 13] = [
            &source.0,
            &source.1,
            &reading.host,
            &time,
            &of.model,
            &of.sockets,
            &of.cores,
            &of.threads,
            &of.memory,
            &of.numa,
            &of.peak_flops,
            &of.peak_rule,
            &cards,
        ];
        Ok(self.hardware.append_row(&row[..])?)
    }

    fn node(&mut self, source: Source, reading: &Reading) -> Result<(), StoreError> {
        let (time, since_boot) = (signed(reading.time), reading.since_boot.map(signed));
        let measured = columns(&reading.node, metric::of(Of::Node).map(|metric| metric.id));
        let mut row: Vec<&dyn ToSql> =
            vec![&source.0, &source.1, &reading.host, &time, &reading.boot, &since_boot];
        row.extend(measured.iter().map(|value| value as &dyn ToSql));
        Ok(self.node.append_row(&row[..])?)
    }
}

fn columns(values: &Values, ids: impl Iterator<Item = u16>) -> Vec<Option<i64>> {
    ids.map(|id| values.get(id).map(signed)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The columns of metrics, in the order of a table.
    fn measured(table: &str) -> Vec<String> {
        let connection = Connection::open_in_memory().unwrap();
        crate::schema::migrate(&connection).unwrap();
        let sql = "SELECT column_name FROM information_schema.columns WHERE table_name = ? AND data_type = 'BIGINT' \
                   AND NOT ends_with(column_name, '_ns') AND column_name <> 'reserved_memory' ORDER BY ordinal_position";
        let mut query = connection.prepare(sql).unwrap();
        query.query_map([table], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    /// A metric that is added to the catalogue needs a step of the schema.
    #[test]
    fn the_tables_have_the_columns_of_the_catalogue() {
        let names = |of| metric::of(of).map(|metric| metric.name.to_owned()).collect::<Vec<_>>();
        assert_eq!(measured("job_sample"), names(Of::Job));
        assert_eq!(measured("node_sample"), names(Of::Node));
        assert_eq!(measured("card_sample"), names(Of::Card));
        let commands = OF_COMMANDS.map(|id| metric::by_id(id).unwrap().name.to_owned());
        assert_eq!(measured("command_sample"), commands);
    }
}
