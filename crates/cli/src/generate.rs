//! `jobglass generate`: man pages and completions from the definitions in [`crate::args`].

use anyhow::Result;
use clap::CommandFactory;

use crate::args::{Args, GenerateArgs};

pub fn run(args: &GenerateArgs) -> Result<bool> {
    manual::generate(&Args::command(), &args.dir)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Parser;
    use testkit::examples;

    use super::*;

    /// What is printed by `--help` on a terminal of 80 columns, and by `man`.
    #[test]
    fn examples_in_help_can_be_pasted() {
        let dir = tempfile::tempdir().unwrap();
        run(&GenerateArgs { dir: dir.path().to_owned() }).unwrap();
        let pages = fs::read_dir(dir.path().join("man/man1")).unwrap();
        let pages: Vec<String> =
            pages.map(|page| String::from_utf8(fs::read(page.unwrap().path()).unwrap()).unwrap()).collect();
        let commands = |texts: &[String]| {
            let mut all: Vec<Vec<String>> =
                texts.iter().flat_map(|text| examples(text, "jobglass")).collect();
            all.sort();
            all
        };
        let typed = commands(&manual::helps(&Args::command()));
        assert!(typed.len() > 60, "only {} examples", typed.len());
        assert_eq!(commands(&pages), typed, "the man pages have others");
        for words in typed {
            let parsed = Args::try_parse_from(["jobglass".to_owned()].iter().chain(&words));
            assert!(parsed.is_ok(), "jobglass {words:?}: {}", parsed.unwrap_err());
        }
    }
}
