//! Entries as a table for people.

use std::io::{self, Write};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use record::entry::{EndedBy, Entry, Image, source};
use record::reading::JobReading;

use super::{Known, json};
use crate::table;

/// Collects rows, then prints them in columns as wide as their content.
#[derive(Default)]
pub struct Table {
    header: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn add(&mut self, entry: &Entry, known: &Known) {
        let (header, row) = match entry {
            Entry::Image(image) => (IMAGE_HEADER, image_row(image, known)),
            Entry::File(file) => {
                let hash = file.hash.as_deref().map(record::bytes::hex);
                let hash = hash.or(file.unhashed.clone()).unwrap_or_default();
                (
                    &["SIZE", "CHANGED", "HASH", "FILE"][..],
                    vec![file.size.to_string(), local_time(file.mtime), hash, file.path.to_string()],
                )
            }
            Entry::Gap(gap) => (
                &["FROM", "TO", "REASON", "FORKS", "EVENTS", "IMAGES"][..],
                vec![
                    local_time(gap.from),
                    local_time(gap.to),
                    format!("{:?}", gap.reason),
                    number(gap.forks),
                    number(gap.events),
                    number(gap.images),
                ],
            ),
            Entry::Health(health) => {
                let set = health.counters.iter().filter(|(_, value)| *value > 0);
                let counters: Vec<String> = set.map(|(name, value)| format!("{name}={value}")).collect();
                (
                    &["TIME", "HOST", "COUNTERS"][..],
                    vec![local_time(health.time), health.host.clone(), counters.join(" ")],
                )
            }
            Entry::Reading(reading) => {
                let name = |job: &JobReading| job.job.clone().or(job.session.clone());
                let jobs: Vec<String> = reading.jobs.iter().filter_map(name).collect();
                (
                    &["TIME", "HOST", "JOBS AND SESSIONS"][..],
                    vec![local_time(reading.time), reading.host.clone(), jobs.join(" ")],
                )
            }
            Entry::Objects(_) => return,
        };
        self.header = header.to_vec();
        self.rows.push(row);
    }

    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        if self.header.is_empty() {
            return Ok(());
        }
        let mut table = table::Table::new(&self.header);
        self.rows.iter().for_each(|row| table.add(row.clone()));
        table.print(out, table::terminal_width(), table::has_colour())
    }
}

const IMAGE_HEADER: &[&str] = &[
    "START", "USER", "JOB", "NODE", "PID", "COUNT", "END", "SECONDS", "CPU", "MEMORY", "LIBS", "SEEN BY",
    "PROGRAM",
];

fn image_row(image: &Image, known: &Known) -> Vec<String> {
    let place = &image.place;
    let job = place.job.as_ref().map(|job| match (&place.step, place.rank) {
        (Some(step), Some(rank)) => format!("{job}.{step}:{rank}"),
        (Some(step), None) => format!("{job}.{step}"),
        (None, _) => job.clone(),
    });
    let lasted = image
        .end
        .or(image.running_at)
        .map(|end| format!("{:.2}", end.saturating_sub(image.start) as f64 / 1e9));
    let cpu = image.used.user_ns.zip(image.used.system_ns);
    let objects = image.objects.and_then(|id| known.lists.get(&id)).map(|list| list.objects.len());
    let late = image.late_objects.and_then(|id| known.lists.get(&id)).map_or(0, |list| list.objects.len());
    vec![
        local_time(image.start),
        image.user.clone().or(image.uid.map(|uid| uid.to_string())).unwrap_or_else(unknown),
        job.unwrap_or_else(unknown),
        place.node.clone().unwrap_or_else(unknown),
        image.key.pid.to_string(),
        image.count.to_string(),
        end(image),
        lasted.unwrap_or_else(unknown),
        cpu.map_or_else(unknown, |(user, system)| format!("{:.2}", (user + system) as f64 / 1e9)),
        image.used.max_rss_bytes.map_or_else(unknown, |bytes| format!("{}M", bytes.div_ceil(1 << 20))),
        objects.map_or_else(unknown, |n| (n + late).to_string()),
        source::names(image.source).join("+"),
        program(image),
    ]
}

fn unknown() -> String {
    "-".to_owned()
}

fn number(value: Option<u64>) -> String {
    value.map_or_else(unknown, |value| value.to_string())
}

fn end(image: &Image) -> String {
    if image.running_at.is_some() {
        return "running".to_owned();
    }
    match (image.ended_by, image.exit_code, image.signal) {
        (EndedBy::Exit, Some(code), _) => format!("exit {code}"),
        (EndedBy::Signal, _, Some(signal)) => format!("signal {signal}"),
        (EndedBy::Exec, ..) => "exec".to_owned(),
        _ => "unknown".to_owned(),
    }
}

/// The path, and what tells one run from another; control characters must not reach the terminal.
fn program(image: &Image) -> String {
    let exe = image.exe.as_ref().map_or_else(|| "?".to_owned(), ToString::to_string);
    let args: Vec<String> = image.argv.iter().flatten().skip(1).map(ToString::to_string).collect();
    let forked = if image.forked_from.is_some() { " (forked)" } else { "" };
    let text = format!("{exe}{forked} {}", args.join(" "));
    let clean: String = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if clean.chars().count() > 100 {
        return clean.chars().take(99).chain(['…']).collect();
    }
    clean
}

fn local_time(ns: u64) -> String {
    match Timestamp::from_nanosecond(i128::from(ns)) {
        Ok(time) => time.to_zoned(TimeZone::UTC).strftime("%F %T").to_string(),
        Err(_) => json::time(ns),
    }
}
