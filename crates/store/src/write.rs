//! Writes batches: many in one transaction, each entry once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use digest::Site;
use duckdb::{Appender, Connection, ToSql, params};
use intake::catalogue::{Catalogue, Item, PayloadKey, Stored};
use intake::{Prepared, Row, Running, Shared};
use record::batch::Stream;
use record::bytes::hex;
use record::entry::{EndedBy, File, GapReason, Image, ImageKey, JobFrom, WithoutGuest};

use crate::StoreError;
use crate::due::{self, Heard, Pending};
use crate::received::Received;
use crate::running::{self, Reports};
use crate::samples::Samples;
use crate::{job_rows, kind, measures, people, tags};

/// What became of one batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Applied {
    pub stored: u64,
    pub duplicate: u64,
    pub unknown: u64,
}

/// The one writer of a store.
pub struct Writer {
    pub(crate) connection: Connection,
    /// The name of the database, where something else may have the name of a table.
    pub(crate) database: String,
    streams: HashMap<Stream, Known>,
    next_stream: u32,
    catalogue: Arc<Catalogue>,
    pub(crate) site: Arc<Site>,
    /// Jobs whose rows are still to be made.
    pub(crate) pending: Pending,
    /// Where each column of a job's row is among [`jobs::columns`].
    pub(crate) job_order: Vec<usize>,
    /// Hashes of the lists of nodes that are kept.
    pub(crate) node_lists: HashSet<u64>,
    /// When the newest job that is accounted for was submitted: of later ones nothing can be known.
    pub(crate) newest_submit: i64,
    /// Whether there are accounts of jobs that were only measured.
    pub(crate) has_measured: bool,
    /// Whether there are records of jobs that another may complete.
    pub(crate) has_incomplete: bool,
    /// Jobs that are to be bound to what others measured.
    pub(crate) measured: measures::Pending,
    /// What others measured, and was not searched for its jobs yet.
    pub(crate) arriving: measures::Arriving,
    pub(crate) tags: Arc<tags::Shared>,
    pub(crate) people: Arc<people::Shared>,
    pub(crate) kinds: Arc<kind::There>,
    /// Those that have a tag, or cannot have one.
    pub(crate) partitions: HashSet<String>,
    /// Of programs that have ended some are remembered, because their reports may come late.
    pub(crate) remembers_ended: bool,
    /// Something has come that the tables of the site's partitions and nodes do not have yet.
    pub(crate) is_site_stale: bool,
}

/// A stream, and what has come of it.
struct Known {
    id: u32,
    received: Received,
}

/// What a transaction will have changed when it is committed.
#[derive(Default)]
struct Change {
    streams: HashMap<Stream, Known>,
    known: HashSet<u64>,
    files: HashMap<u64, bool>,
    environments: HashSet<u64>,
    payloads: Vec<(PayloadKey, Item)>,
    heard: Vec<Heard>,
    has_hardware: bool,
    reports: Reports,
}

impl Writer {
    /// Reads what is known already.
    pub(crate) fn open(
        connection: Connection,
        site: Arc<Site>,
        tags: Arc<tags::Shared>,
        people: Arc<people::Shared>,
        kinds: Arc<kind::There>,
    ) -> Result<Writer, StoreError> {
        let database = connection.query_row("SELECT current_database()", [], |row| row.get(0))?;
        let mut writer = Writer {
            connection,
            database,
            streams: HashMap::new(),
            next_stream: 1,
            catalogue: Arc::default(),
            site,
            pending: Pending::default(),
            job_order: Vec::new(),
            node_lists: HashSet::new(),
            newest_submit: i64::MIN,
            has_measured: false,
            has_incomplete: false,
            measured: measures::Pending::default(),
            arriving: measures::Arriving::default(),
            tags,
            people,
            kinds,
            partitions: HashSet::new(),
            remembers_ended: false,
            is_site_stale: false,
        };
        writer.job_order = job_rows::order(&writer.connection)?;
        writer.load_accounting()?;
        writer.renew_site()?;
        writer.declare_tags()?;
        writer.measured.load(&writer.connection, now_ns())?;
        writer.arriving.load(&writer.connection)?;
        writer.remembers_ended = running::remembers_ended(&writer.connection)?;
        writer.load_streams()?;
        writer.merge_received()?;
        writer.load_shared(0)?;
        writer.load_pending(now_ns())?;
        Ok(writer)
    }

    /// What is stored already, for those who prepare batches.
    pub fn catalogue(&self) -> Arc<Catalogue> {
        self.catalogue.clone()
    }

    fn load_streams(&mut self) -> Result<(), StoreError> {
        let mut by_id: HashMap<u32, Received> = HashMap::new();
        let mut query = self.connection.prepare("SELECT stream, first, last FROM received")?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            by_id.entry(row.get(0)?).or_default().insert(row.get(1)?, row.get(2)?);
        }
        let mut query = self.connection.prepare("SELECT id, name FROM stream")?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            let (id, name): (u32, String) = (row.get(0)?, row.get(1)?);
            let stream = parse_stream(&name).ok_or(StoreError::Damaged("a stream has no proper name"))?;
            self.streams.insert(stream, Known { id, received: by_id.remove(&id).unwrap_or_default() });
            self.next_stream = self.next_stream.max(id + 1);
        }
        Ok(())
    }

    /// Each batch adds a row; most of them join without a break.
    fn merge_received(&mut self) -> Result<(), StoreError> {
        let count: u64 = self.connection.query_row("SELECT count(*) FROM received", [], |row| row.get(0))?;
        let ranges: usize = self.streams.values().map(|known| known.received.ranges().count()).sum();
        if count < 2 * ranges as u64 {
            return Ok(());
        }
        let transaction = self.connection.transaction()?;
        transaction.execute("DELETE FROM received", [])?;
        let mut table = transaction.appender("received")?;
        for known in self.streams.values() {
            for (first, last) in known.received.ranges() {
                table.append_row(params![known.id, first, last])?;
            }
        }
        table.flush()?;
        drop(table);
        Ok(transaction.commit()?)
    }

    /// Learns anew what is stored.
    pub(crate) fn load_shared(&self, epoch: u64) -> Result<(), StoreError> {
        let mut stored = Stored { epoch, ..Stored::default() };
        let ids = "SELECT id FROM object UNION ALL SELECT DISTINCT list FROM object_list \
                   UNION ALL SELECT DISTINCT list FROM module_list";
        let mut query = self.connection.prepare(ids)?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            stored.known.insert(row.get(0)?);
        }
        let mut query = self.connection.prepare("SELECT id, hash IS NOT NULL FROM file")?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            stored.files.insert(row.get(0)?, row.get(1)?);
        }
        self.catalogue.change(|catalogue| *catalogue = stored);
        Ok(())
    }

    /// Whether a batch brings all it needs: something it left out as stored may have been deleted since.
    pub fn is_current(&self, batch: &Prepared) -> bool {
        batch.epoch == self.catalogue.read().epoch
    }

    /// Which entries of a stream are stored.
    pub fn received(&self, stream: &Stream) -> Vec<(u64, u64)> {
        self.streams.get(stream).map(|known| known.received.ranges().collect()).unwrap_or_default()
    }

    /// Stores all batches or none. When this returns, what it says is durable.
    pub fn apply(&mut self, batches: Vec<Prepared>, now_ns: i64) -> Result<Vec<Applied>, StoreError> {
        let mut change = Change::default();
        self.connection.execute_batch("BEGIN TRANSACTION")?;
        let applied = self.write(batches, now_ns, &mut change).and_then(|applied| {
            self.connection.execute_batch("COMMIT")?;
            Ok(applied)
        });
        match applied {
            Ok(applied) => {
                self.keep(change, now_ns);
                Ok(applied)
            }
            Err(error) => {
                // A commit that failed has rolled back; then this fails, which means nothing.
                let _ = self.connection.execute_batch("ROLLBACK");
                Err(error)
            }
        }
    }

    /// Appends rows of processes and nothing else, in one transaction: the floor with which benchmarks compare
    /// [`Writer::apply`]. It does not ask what is stored already.
    pub fn append_only(&mut self, batches: &[Prepared]) -> Result<(), StoreError> {
        self.connection.execute_batch("BEGIN TRANSACTION")?;
        let mut tables = Tables::open(&self.connection)?;
        for row in batches.iter().flat_map(|batch| &batch.rows) {
            tables.process(0, row)?;
        }
        tables.flush()?;
        drop(tables);
        Ok(self.connection.execute_batch("COMMIT")?)
    }

    fn keep(&mut self, change: Change, now_ns: i64) {
        self.next_stream +=
            change.streams.values().filter(|known| known.id >= self.next_stream).count() as u32;
        self.streams.extend(change.streams);
        self.is_site_stale |= change.has_hardware;
        self.remembers_ended |= change.reports.is_remembered();
        change.heard.into_iter().for_each(|heard| self.pending.note(heard, now_ns));
        self.catalogue.change(|stored| {
            stored.known.extend(change.known);
            stored.files.extend(change.files);
            change.environments.into_iter().for_each(|id| stored.environments.insert(id, ()));
            change.payloads.into_iter().for_each(|(key, item)| stored.payloads.insert(key, item));
        });
    }

    fn write(
        &self,
        batches: Vec<Prepared>,
        now_ns: i64,
        change: &mut Change,
    ) -> Result<Vec<Applied>, StoreError> {
        let mut tables = Tables::open(&self.connection)?;
        let mut applied = Vec::with_capacity(batches.len());
        for batch in batches {
            if !self.is_current(&batch) {
                return Err(StoreError::Stale);
            }
            applied.push(self.write_batch(batch, now_ns, change, &mut tables)?);
        }
        tables.flush()?;
        change.reports.settle(&self.connection, self.remembers_ended, now_ns)?;
        Ok(applied)
    }

    fn write_batch(
        &self,
        mut batch: Prepared,
        now_ns: i64,
        change: &mut Change,
        tables: &mut Tables,
    ) -> Result<Applied, StoreError> {
        let stream = self.stream(&batch, now_ns, change, tables)?;
        let (first, last) = (batch.first, batch.last);
        let total = last - first + 1;
        if stream.received.contains_all(first, last) {
            return Ok(Applied { duplicate: total, ..Applied::default() });
        }
        let (id, received) = (stream.id, &stream.received);
        let is_new = |number: u64| !received.contains(number);
        let duplicate = (first..=last).filter(|number| received.contains(*number)).count() as u64;
        let (mut unknown, mut heard) = (0, Vec::new());
        let mut reports = Reports::default();
        for row in batch.rows.iter().filter(|row| is_new(row.number)) {
            tables.image(id, row)?;
            reports.note(row);
        }
        for (number, gap) in batch.gaps.iter().filter(|(number, _)| is_new(*number)) {
            let reason = gap_reason(gap.reason);
            tables.gap.append_row(params![
                id,
                number,
                batch.host,
                signed(gap.from),
                signed(gap.to),
                reason,
                gap.forks,
                gap.events,
                gap.images
            ])?;
        }
        for (number, health) in batch.healths.iter().filter(|(number, _)| is_new(*number)) {
            let counters: serde_json::Map<String, serde_json::Value> =
                health.counters.iter().map(|(name, value)| (name.clone(), (*value).into())).collect();
            let counters = serde_json::to_string(&counters).unwrap_or_default();
            let blind = serde_json::to_string(&health.blind).unwrap_or_default();
            let (time, started) = (signed(health.time), signed(health.started));
            tables.health.append_row(params![
                id,
                number,
                batch.host,
                time,
                started,
                health.version,
                counters,
                blind
            ])?;
        }
        let mut has_hardware = false;
        for (number, reading) in batch.readings.iter().filter(|(number, _)| is_new(*number)) {
            tables.samples.reading((id, *number), reading)?;
            heard.extend(due::heard(reading));
            has_hardware |= reading.hardware.is_some();
        }
        for (number, payload) in batch.unknown.iter().filter(|(number, _)| is_new(*number)) {
            tables.unknown_entry.append_row(params![id, number, payload])?;
            unknown += 1;
        }
        tables.received.append_row(params![id, first, last])?;
        change.heard.extend(heard);
        change.has_hardware |= has_hardware;
        if let Some(stream) = change.streams.get_mut(&batch.stream) {
            stream.received.insert(first, last);
            // What is reported of an image comes before its end, unless it is still missing.
            change.reports.add(reports, !stream.received.contains_all(1, last));
        }
        self.write_shared(&mut batch.shared, change, tables)?;
        Ok(Applied { stored: total - duplicate, duplicate, unknown })
    }

    /// The stream as this transaction leaves it.
    fn stream<'c>(
        &self,
        batch: &Prepared,
        now_ns: i64,
        change: &'c mut Change,
        tables: &mut Tables,
    ) -> Result<&'c Known, StoreError> {
        if !change.streams.contains_key(&batch.stream) {
            let known = match self.streams.get(&batch.stream) {
                Some(known) => Known { id: known.id, received: known.received.clone() },
                None => {
                    let new =
                        change.streams.values().filter(|known| known.id >= self.next_stream).count() as u32;
                    let id = self.next_stream + new;
                    tables.stream.append_row(params![id, batch.stream.to_string(), batch.host, now_ns])?;
                    Known { id, received: Received::default() }
                }
            };
            change.streams.insert(batch.stream, known);
        }
        Ok(&change.streams[&batch.stream])
    }

    fn write_shared(
        &self,
        shared: &mut Shared,
        change: &mut Change,
        tables: &mut Tables,
    ) -> Result<(), StoreError> {
        for (id, file) in &shared.files {
            self.write_file(*id, file, change, tables)?;
        }
        let stored = self.catalogue.read();
        let is_known =
            |id| stored.knows(id) || change.known.contains(&id) || change.environments.contains(&id);
        shared.retain_new(is_known);
        drop(stored);
        for (id, object) in &shared.objects {
            tables.object.append_row(params![
                id,
                object.path,
                object.name,
                object.build_id,
                object.signature,
                object.file,
                object.claimed
            ])?;
        }
        for (list, objects) in &shared.lists {
            for (object, position) in objects.iter().zip(0u16..) {
                tables.object_list.append_row(params![list, position, object])?;
            }
        }
        for (list, modules) in &shared.modules {
            for ((module, file), position) in modules.iter().zip(0u16..) {
                tables.module_list.append_row(params![list, position, module, file])?;
            }
        }
        for (id, variables) in &shared.environments {
            tables.environment.append_row(params![id, variables])?;
        }
        change.known.extend(shared.objects.keys().chain(shared.lists.keys()).chain(shared.modules.keys()));
        change.environments.extend(shared.environments.keys());
        change.payloads.append(&mut shared.payloads);
        Ok(())
    }

    /// A file is told when it is first seen, and again when its content has been read.
    fn write_file(
        &self,
        id: u64,
        file: &File,
        change: &mut Change,
        tables: &mut Tables,
    ) -> Result<(), StoreError> {
        let known = change.files.get(&id).copied().or_else(|| self.catalogue.read().files.get(&id).copied());
        let has_hash = file.hash.is_some();
        if known == Some(true) || known == Some(has_hash) {
            return Ok(());
        }
        if known.is_some() {
            tables.file.flush()?;
            self.connection.execute("DELETE FROM file WHERE id = ?", params![id])?;
        }
        tables.file.append_row(params![
            id,
            file.path.to_string(),
            file.size,
            i64::try_from(file.mtime).ok(),
            file.uid,
            file.mode,
            file.hash.as_deref().map(hex),
            file.unhashed,
            file.build_id.as_deref().map(hex),
            file.signature.as_deref().map(hex),
            file.dynamic
        ])?;
        change.files.insert(id, has_hash);
        Ok(())
    }
}

/// One appender for each table.
struct Tables<'c> {
    connection: &'c Connection,
    /// Most batches have no image that runs.
    running: Option<Appender<'c>>,
    stream: Appender<'c>,
    received: Appender<'c>,
    process: Appender<'c>,
    object: Appender<'c>,
    object_list: Appender<'c>,
    file: Appender<'c>,
    module_list: Appender<'c>,
    environment: Appender<'c>,
    gap: Appender<'c>,
    health: Appender<'c>,
    samples: Samples<'c>,
    unknown_entry: Appender<'c>,
}

impl<'c> Tables<'c> {
    fn open(connection: &'c Connection) -> Result<Tables<'c>, StoreError> {
        Ok(Tables {
            connection,
            running: None,
            stream: connection.appender("stream")?,
            received: connection.appender("received")?,
            process: connection.appender("process")?,
            object: connection.appender("object")?,
            object_list: connection.appender("object_list")?,
            file: connection.appender("file")?,
            module_list: connection.appender("module_list")?,
            environment: connection.appender("environment")?,
            gap: connection.appender("gap")?,
            health: connection.appender("health")?,
            samples: Samples::open(connection)?,
            unknown_entry: connection.appender("unknown_entry")?,
        })
    }

    /// An appender that is dropped keeps its errors to itself, so each is flushed before the commit.
    fn flush(&mut self) -> Result<(), StoreError> {
        for table in [
            &mut self.stream,
            &mut self.received,
            &mut self.process,
            &mut self.object,
            &mut self.object_list,
            &mut self.file,
            &mut self.module_list,
            &mut self.environment,
            &mut self.gap,
            &mut self.health,
            &mut self.unknown_entry,
        ] {
            table.flush()?;
        }
        if let Some(running) = &mut self.running {
            running.flush()?;
        }
        self.samples.flush()
    }

    /// An image that has ended, or those that run.
    fn image(&mut self, stream: u32, row: &Row) -> Result<(), StoreError> {
        if row.image.running_at.is_none() {
            return self.process(stream, row);
        }
        let table = match &mut self.running {
            Some(table) => table,
            none => none.insert(self.connection.appender("running")?),
        };
        row.running.iter().try_for_each(|one| append(table, stream, row, &One::running(row, one)))
    }

    fn process(&mut self, stream: u32, row: &Row) -> Result<(), StoreError> {
        append(&mut self.process, stream, row, &One::ended(row))
    }
}

/// What an image that runs has of its own, where several are told together.
struct One<'r> {
    rank: Option<u32>,
    key: ImageKey,
    start: u64,
    count: u64,
    ranks: Option<&'r str>,
    /// Its id, and when it was reported.
    running: Option<(u64, i64)>,
}

impl<'r> One<'r> {
    fn ended(row: &'r Row) -> One<'r> {
        let Image { place, key, start, count, .. } = &*row.image;
        let ranks = row.ranks.as_deref();
        One { rank: place.rank, key: *key, start: *start, count: *count, ranks, running: None }
    }

    fn running(row: &Row, one: &Running) -> One<'static> {
        let seen = signed(row.image.running_at.unwrap_or(row.image.start));
        let Running { id, key, rank, start } = one;
        One { rank: *rank, key: *key, start: *start, count: 1, ranks: None, running: Some((*id, seen)) }
    }
}

/// Appends a row of `process`, or of `running`, which has two columns more.
fn append(table: &mut Appender, stream: u32, row: &Row, one: &One) -> Result<(), StoreError> {
    let (image, place, used) = (&row.image, &row.image.place, &row.image.used);
    let (id, seen) = one.running.unwrap_or_default();
    let columns: [&dyn ToSql; 47] = [
        &stream,
        &row.number,
        &place.cluster,
        &place.job.as_deref().or(place.session.as_deref()),
        &place.step,
        &one.rank,
        &image.host,
        &place.node,
        &place.session,
        &place.job_from.map(job_from),
        &place.claimed_job,
        &one.key.pid,
        &image.ppid,
        &signed(one.key.process_start),
        &one.key.exec,
        &signed(one.start),
        &image.end.map(signed),
        &ended_by(image.ended_by),
        &image.exit_code,
        &image.signal,
        &image.uid,
        &image.user,
        &row.exe,
        &row.exe_file,
        &image.exe_deleted,
        &row.argv,
        &image.argv_cut,
        &row.cwd,
        &row.modules,
        &row.environment,
        &image.container.as_ref().map(|container| &*container.kind),
        &row.container_image,
        &row.objects,
        &row.late_objects,
        &image.objects_cut,
        &used.user_ns.map(signed),
        &used.system_ns.map(signed),
        &used.max_rss_bytes.map(signed),
        &used.read_bytes.map(signed),
        &used.write_bytes.map(signed),
        &one.count,
        &image.source,
        &row.forked_from,
        &image.without_guest.map(without_guest),
        &one.ranks,
        &id,
        &seen,
    ];
    let count = if one.running.is_some() { columns.len() } else { columns.len() - 2 };
    Ok(table.append_row(&columns[..count])?)
}

pub(crate) fn now_ns() -> i64 {
    i64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX)
}

/// `prepare` has refused what does not fit.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn parse_stream(name: &str) -> Option<Stream> {
    let mut bytes = [0; 16];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(name.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(Stream(bytes))
}

fn ended_by(ended_by: EndedBy) -> &'static str {
    match ended_by {
        EndedBy::Unknown => "unknown",
        EndedBy::Exit => "exit",
        EndedBy::Signal => "signal",
        EndedBy::Exec => "exec",
    }
}

fn job_from(job_from: JobFrom) -> &'static str {
    match job_from {
        JobFrom::Cgroup => "cgroup",
        JobFrom::Stepd => "stepd",
        JobFrom::Environment => "environment",
    }
}

fn without_guest(reason: WithoutGuest) -> &'static str {
    match reason {
        WithoutGuest::NotLoaded => "not_loaded",
        WithoutGuest::Static => "static",
        WithoutGuest::Off => "off",
        WithoutGuest::Seccomp => "seccomp",
        WithoutGuest::Privileged => "privileged",
        WithoutGuest::Lost => "lost",
        WithoutGuest::Unknown => "unknown",
        WithoutGuest::Forked => "forked",
        WithoutGuest::Earlier => "earlier",
    }
}

fn gap_reason(reason: GapReason) -> &'static str {
    match reason {
        GapReason::AgentStopped => "agent_stopped",
        GapReason::AgentKilled => "agent_killed",
        GapReason::EventsLost => "events_lost",
        GapReason::SpoolFull => "spool_full",
        GapReason::SwitchedOff => "switched_off",
        GapReason::MappingsLost => "mappings_lost",
        GapReason::EndsLost => "ends_lost",
    }
}
