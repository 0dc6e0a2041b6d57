//! `jobglass import ganglia`: asks gmond and gmetad for their state, and listens to what gmond and gmetric send.

use std::io::{BufReader, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use import::ganglia::{Packets, xml};

use super::gate::Gate;
use super::{Shared, lock, now, open, serve, spawn, udp};
use crate::args::ImportGangliaArgs;
use crate::import_command::stop::Stop;

/// How long a daemon may take to answer, and to go on answering.
const PATIENCE: Duration = Duration::from_secs(10);
/// Metrics of hosts whose metadata are remembered.
const KNOWN: usize = 1_500_000;

pub fn run(args: &ImportGangliaArgs) -> Result<bool> {
    let every = Duration::from_secs_f64(args.every);
    let (feed, stop) = (open(&args.monitor, every)?, Stop::at_signals()?);
    let mut sources = Vec::new();
    if let Some(address) = args.listen {
        let gate = Gate::new(&args.senders.allow, None)?;
        gate.guard(address, false)?;
        let (socket, feed, stop) = (udp::bind(address)?, feed.clone(), stop.clone());
        let mut packets = Packets::new(KNOWN);
        sources.push(spawn("gmetric", &stop.clone(), move || {
            udp::receive(&socket, &gate, &feed, &stop, |bytes, sender| {
                packets.packet(bytes, &sender.ip().to_string(), now(), &mut *lock(&feed));
            })
        })?);
    }
    for address in args.poll.clone() {
        let (feed, stop, query, once) = (feed.clone(), stop.clone(), args.query.clone(), args.once);
        sources.push(spawn("gmond", &stop.clone(), move || {
            poll(&address, query.as_deref(), &feed, &stop, every, once)
        })?);
    }
    if sources.is_empty() {
        bail!("nothing to import from: give --poll HOST:PORT, or --listen ADDRESS:PORT");
    }
    serve(&args.monitor, &feed, &stop, sources)
}

/// Asks a daemon again and again. One that is away is asked again; it is said once.
fn poll(
    address: &str,
    query: Option<&str>,
    feed: &Shared,
    stop: &Stop,
    every: Duration,
    once: bool,
) -> Result<()> {
    let mut is_away = false;
    while !stop.is_set() {
        let began = Instant::now();
        match ask(address, query, feed) {
            Ok(()) if std::mem::replace(&mut is_away, false) => {
                say!("jobglass: {address} answers again")
            }
            Ok(()) => {}
            Err(error) if once => return Err(error),
            Err(error) => {
                if !std::mem::replace(&mut is_away, true) {
                    say!("jobglass: {error:#}; asking again");
                }
            }
        }
        if once {
            return Ok(());
        }
        stop.wait(every.saturating_sub(began.elapsed()));
    }
    Ok(())
}

fn ask(address: &str, query: Option<&str>, feed: &Shared) -> Result<()> {
    let context = || format!("cannot ask {address}");
    let to = address.to_socket_addrs().with_context(context)?.next().with_context(context)?;
    let mut stream = TcpStream::connect_timeout(&to, PATIENCE).with_context(context)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    if let Some(query) = query {
        writeln!(stream, "{query}").with_context(context)?;
    }
    let mut feed = lock(feed);
    let read = xml::read(BufReader::new(stream), &mut *feed);
    // A document is a whole round of all that is told in parts.
    feed.finish();
    read.with_context(|| format!("{address} answers with something that cannot be read"))
}
