//! `jobglass import`: reads what others have kept, and brings it to the server.
//!
//! * `input`: a file, whatever it is packed in.
//! * `report`: what could not be read, told and kept.
//! * `sender`: jobs on their way to the server, many in a request.
//! * `progress`: how far it is.
//! * `slurm`: what Slurm's commands wrote, and what they say now.
//! * `cleo`: what Cleo left.
//! * `clustercockpit`: its archive and database, and an archive for it.
//! * `monitor`: what other monitoring systems measure.
//! * `stop`: the wish to stop.

mod cleo;
mod clustercockpit;
mod input;
mod monitor;
mod progress;
mod report;
mod sender;
mod slurm;
mod stop;

use anyhow::Result;

use crate::args::{ExportCommand, ImportCommand};

pub use monitor::{Prefix, listen_address};

/// Says whether everything could be read.
pub fn run(command: &ImportCommand) -> Result<bool> {
    match command {
        ImportCommand::Slurm(args) => slurm::run(args),
        ImportCommand::Cleo(args) => cleo::run(args),
        ImportCommand::ClusterCockpit(args) => clustercockpit::run(args),
        ImportCommand::Ganglia(args) => monitor::ganglia(args),
        ImportCommand::Collectd(args) => monitor::collectd(args),
        ImportCommand::Influx(args) => monitor::influx(args),
    }
}

/// Says whether everything could be given.
pub fn export(command: &ExportCommand) -> Result<bool> {
    match command {
        ExportCommand::ClusterCockpit(args) => clustercockpit::export(args),
    }
}
