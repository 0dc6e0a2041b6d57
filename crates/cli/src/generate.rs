//! `jobglass generate`: man pages and completions from the definitions in [`crate::args`].

use std::fs;

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::{Args, GenerateArgs};

pub fn run(args: &GenerateArgs) -> Result<bool> {
    let (man, completions) = (args.dir.join("man/man1"), args.dir.join("completions"));
    for dir in [&man, &completions] {
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    let command = Args::command();
    clap_mangen::generate_to(command.clone(), &man).context("cannot write man pages")?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut command.clone(), "jobglass", &completions)
            .context("cannot write completions")?;
    }
    Ok(true)
}
