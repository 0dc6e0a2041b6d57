//! `jobglass agent`

use agent::run::Flags;
use anyhow::Result;

use crate::args::AgentArgs;

pub fn run(args: AgentArgs) -> Result<bool> {
    let AgentArgs { config, spool, socket, server, token_file, enroll_token_file, ca_file, check } = args;
    let flags = Flags { config, spool, socket, server, token_file, enroll_token_file, ca_file };
    if check {
        flags.configure()?;
        say!("jobglass agent: the configuration is good");
        return Ok(true);
    }
    agent::run::run(flags)?;
    Ok(true)
}
