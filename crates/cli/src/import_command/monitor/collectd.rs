//! `jobglass import collectd`: listens to its packets and posts, and reads the files it has written.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use import::collectd::csv::{self, Place};
use import::collectd::{Network, Security, Stored, Types, Users, http as post};
use import::monitor::{Dropped, Take};

use super::gate::Gate;
use super::request::Refusal;
use super::{Shared, http, lock, open, serve, spawn, udp};
use crate::args::{CollectdSecurity, ImportCollectdArgs};
use crate::import_command::stop::Stop;

/// collectd's own interval.
const EVERY: Duration = Duration::from_secs(10);
/// Values that wait while a tree of files is read.
const AT_ONCE: usize = 50;

pub fn run(args: &ImportCollectdArgs) -> Result<bool> {
    let (feed, stop) = (open(&args.monitor, EVERY)?, Stop::at_signals()?);
    let stored = if args.rates { Stored::Rates } else { Stored::Counts };
    let mut sources = Vec::new();
    if let Some(address) = args.listen {
        let gate = Gate::new(&args.senders.allow, None)?;
        gate.guard(address, security(args) != Security::None)?;
        let network = Network { security: security(args), users: users(args)?, types: types(args)? };
        let (socket, feed, stop) = (udp::bind(address)?, feed.clone(), stop.clone());
        sources.push(spawn("collectd", &stop.clone(), move || {
            udp::receive(&socket, &gate, &feed, &stop, |bytes, _| network.packet(bytes, &mut *lock(&feed)))
        })?);
    }
    if let Some(address) = args.http {
        let gate = Gate::new(&args.senders.allow, args.http_token_file.as_deref())?;
        gate.guard(address, false)?;
        let (listener, feed, stop) = (http::bind(address)?, feed.clone(), stop.clone());
        sources.push(spawn("write_http", &stop.clone(), move || {
            http::serve(&listener, &gate, &feed, &stop, |_, body| {
                post::read(body, stored, &mut *lock(&feed)).map_err(|error| {
                    let text = format!("not what write_http posts with Format \"JSON\": {error}");
                    Refusal::new(400, text).counted(Dropped::Malformed)
                })
            })
        })?);
    }
    if let Some(dir) = args.csv.clone() {
        let (types, feed, stop) = (types(args)?, feed.clone(), stop.clone());
        sources.push(spawn("csv", &stop.clone(), move || tree(&dir, &types, stored, &feed, &stop))?);
    }
    if sources.is_empty() {
        bail!("nothing to import from: give --listen ADDRESS:PORT, --http ADDRESS:PORT or --csv DIR");
    }
    serve(&args.monitor, &feed, &stop, sources)
}

fn security(args: &ImportCollectdArgs) -> Security {
    match args.security {
        CollectdSecurity::None => Security::None,
        CollectdSecurity::Sign => Security::Sign,
        CollectdSecurity::Encrypt => Security::Encrypt,
    }
}

fn users(args: &ImportCollectdArgs) -> Result<Users> {
    let Some(path) = &args.auth_file else {
        if security(args) != Security::None {
            bail!("--security needs --auth-file, with lines of user: password");
        }
        return Ok(Users::default());
    };
    let name = path.display().to_string();
    let bytes = fs::read(path).with_context(|| format!("cannot read {name}"))?;
    Ok(Users::parse(&bytes, &name)?)
}

fn types(args: &ImportCollectdArgs) -> Result<Types> {
    let mut types = Types::shipped();
    for path in &args.types_db {
        let name = path.display().to_string();
        let bytes = fs::read(path).with_context(|| format!("cannot read {name}"))?;
        for line in types.add(&bytes, &name) {
            say!("jobglass: {line}");
        }
    }
    Ok(types)
}

/// Reads a tree of files, host/plugin-instance/type-instance, in the order of their names: those of a day follow each other.
fn tree(dir: &Path, types: &Types, stored: Stored, feed: &Shared, stop: &Stop) -> Result<()> {
    let mut waiting = vec![dir.to_owned()];
    let mut files = 0;
    while let Some(path) = waiting.pop() {
        if stop.is_set() {
            break;
        }
        if !path.is_dir() {
            file(&path, types, stored, feed)?;
            files += 1;
            if files % AT_ONCE == 0 {
                // Whoever sends them must keep up.
                stop.wait(Duration::from_millis(100));
            }
            continue;
        }
        let context = || format!("cannot read {}", path.display());
        let entries = fs::read_dir(&path).with_context(context)?;
        let mut paths: Vec<_> =
            entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>().with_context(context)?;
        paths.sort_by(|a, b| b.cmp(a));
        waiting.append(&mut paths);
    }
    Ok(())
}

fn file(path: &Path, types: &Types, stored: Stored, feed: &Shared) -> Result<()> {
    let mut feed = lock(feed);
    let place = match Place::parse(&path.display().to_string()) {
        Ok(place) => place,
        Err(why) => {
            say!("jobglass: {}: {why}", path.display());
            feed.dropped(why);
            return Ok(());
        }
    };
    let context = || format!("cannot read {}", path.display());
    let content = BufReader::new(File::open(path).with_context(context)?);
    csv::read(content, &place, types, stored, &mut *feed).with_context(context)
}
