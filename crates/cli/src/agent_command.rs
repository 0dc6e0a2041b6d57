//! `jobglass agent`

use agent::run::Flags;
use anyhow::Result;

use crate::args::AgentArgs;

pub fn run(args: AgentArgs) -> Result<bool> {
    let flags = Flags { config: args.config, spool: args.spool, socket: args.socket };
    if args.check {
        flags.configure()?;
        eprintln!("jobglass agent: the configuration is good");
        return Ok(true);
    }
    agent::run::run(flags)?;
    Ok(true)
}
