//! The `jobglass` command: thin, every part of it in a module named after what was typed.
#![warn(clippy::print_stderr)]

#[macro_use]
mod output;

mod agent_command;
mod args;
mod ask;
mod doctor;
mod generate;
mod import_command;
mod plot;
mod run;
mod sample;
mod spool;
mod table;
mod top;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command, SpoolCommand};

/// Nothing was found, or a check failed.
const NOTHING: u8 = 1;
/// Wrong use, or an error.
const ERROR: u8 = 2;

fn main() -> ExitCode {
    let outcome = match Args::parse().command {
        Command::Processes(args) => ask::processes(&args),
        Command::Jobs(args) => ask::jobs::run(&args),
        Command::Job(args) => ask::job(&args),
        Command::Tags { command } => ask::tags::run(&command),
        Command::Searches { command } => ask::searches::run(&command),
        Command::Notes { command } => ask::notes::notes(&command),
        Command::Cases { command } => ask::notes::cases(&command),
        Command::Series(args) => ask::series::series(&args),
        Command::Nodes(args) => ask::nodes(&args),
        Command::Site(args) => ask::site::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Rate(args) => ask::rate::run(&args),
        Command::ShortJobs(args) => ask::short_jobs(&args),
        Command::Programs(args) => ask::programs(&args),
        Command::Libraries(args) => ask::libraries(&args),
        Command::Modules(args) => ask::modules(&args),
        Command::Uses(args) => ask::uses(&args),
        Command::EnvCheck(args) => ask::env_check(&args),
        Command::Import { command } => import_command::run(&command),
        Command::Export { command } => import_command::export(&command),
        Command::Login(args) => ask::login(&args),
        Command::Whoami(args) => ask::whoami(&args),
        Command::Agent(args) => agent_command::run(args),
        Command::Run(args) => run::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Sample(args) => sample::run(&args),
        Command::Spool { command: SpoolCommand::Read(args) } => spool::read(&args),
        Command::Generate(args) => generate::run(&args),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(NOTHING),
        // Whoever read our output has read enough.
        Err(_) if output::is_closed() => ExitCode::SUCCESS,
        Err(error) => {
            say!("jobglass: {error:#}");
            ExitCode::from(ERROR)
        }
    }
}
