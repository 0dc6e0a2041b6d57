//! `jobglass spool read`: shows what an agent has recorded.

mod json;
mod table;

use std::collections::HashMap;
use std::io::{BufWriter, Write};

use agent::spool::Reader;
use anyhow::Result;
use record::entry::{Entry, File, ObjectList};

use crate::args::{Kind, SpoolReadArgs};
use crate::output;
pub use json::time;

/// Files and lists that images refer to.
#[derive(Default)]
pub struct Known {
    pub files: HashMap<u64, File>,
    pub lists: HashMap<u64, ObjectList>,
}

/// Says whether there was something and it was whole.
pub fn read(args: &SpoolReadArgs) -> Result<bool> {
    let (known, is_whole) = referred(args)?;
    let mut out = BufWriter::new(output::stdout());
    let mut printed = 0u64;
    let mut table = table::Table::default();
    let mut reader = Reader::open(&args.dir)?;
    for (_, entry) in reader.by_ref().flatten() {
        let is_wanted = match &entry {
            Entry::Image(_) => matches!(args.kind, Kind::Image | Kind::All),
            Entry::File(_) => matches!(args.kind, Kind::File | Kind::All),
            Entry::Gap(_) => matches!(args.kind, Kind::Gap | Kind::All),
            Entry::Health(_) => matches!(args.kind, Kind::Health | Kind::All),
            Entry::Reading(_) => matches!(args.kind, Kind::Reading | Kind::All),
            Entry::Objects(_) => false,
        };
        if !is_wanted {
            continue;
        }
        printed += 1;
        if args.json || args.kind == Kind::All {
            writeln!(out, "{}", output::json(&json::entry(&entry, &known))?)?;
        } else {
            table.add(&entry, &known);
        }
    }
    table.print(&mut out)?;
    out.flush()?;
    if let Some(error) = reader.error() {
        return Err(error.into());
    }
    if printed == 0 && is_whole {
        say!("jobglass: nothing in {}", args.dir.display());
    }
    Ok(printed > 0 && is_whole)
}

/// Reads everything that is referred to; a file's hash may come behind the images that executed it.
fn referred(args: &SpoolReadArgs) -> Result<(Known, bool)> {
    let mut known = Known::default();
    let mut is_whole = true;
    let mut reader = Reader::open(&args.dir)?;
    for item in reader.by_ref() {
        match item {
            Ok((_, Entry::File(file))) => drop(known.files.insert(file.id, file)),
            Ok((_, Entry::Objects(list))) => drop(known.lists.insert(list.id, list)),
            Ok(_) => {}
            Err(damage) => {
                is_whole = false;
                say!("jobglass: damaged: {damage}");
            }
        }
    }
    match reader.error() {
        Some(error) => Err(error.into()),
        None => Ok((known, is_whole)),
    }
}
