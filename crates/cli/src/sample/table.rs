//! A reading as a table: one line per job and session.

use std::io::{self, Write};

use record::metric::id;
use record::reading::{JobReading, Reading};

use crate::table::{Table, has_colour, human_bytes, terminal_width};

pub fn print(out: &mut impl Write, reading: &Reading) -> io::Result<()> {
    let mut table = Table::new(&[
        ">PROCESSES",
        ">THREADS",
        ">LOAD",
        ">CPU S",
        ">MEMORY",
        ">PEAK",
        ">READ",
        ">WRITTEN",
        "JOB OR SESSION",
        "COMMANDS",
    ]);
    let mut jobs: Vec<&JobReading> = reading.jobs.iter().collect();
    jobs.sort_by_key(|job| std::cmp::Reverse(job.values.get(id::CPU)));
    for job in jobs {
        let number = |id| job.values.get(id).map_or("?".into(), |value| value.to_string());
        let bytes = |id| job.values.get(id).map_or("?".into(), human_bytes);
        let cpu = job.values.get(id::CPU).map_or("?".into(), |ns| format!("{:.1}", ns as f64 / 1e9));
        let commands: Vec<String> = job.commands.iter().map(|command| command.command.to_string()).collect();
        table.add(vec![
            number(id::PROCESSES),
            number(id::THREADS),
            number(id::JOB_LOAD),
            cpu,
            bytes(id::MEMORY),
            bytes(id::MEMORY_PEAK),
            bytes(id::READ_BYTES),
            bytes(id::WRITE_BYTES),
            job.job.clone().or(job.session.clone()).unwrap_or_default(),
            commands.join(" "),
        ]);
    }
    table.print(out, terminal_width(), has_colour())
}
