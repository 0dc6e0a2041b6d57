//! Man pages and completions of a command, from the definition of its parser.
//!
//! Examples stand there as they are typed: a man page would otherwise fill their lines, stretch the spaces in them and hyphenate words, and
//! nobody could paste them.

use std::fs;
use std::io;
use std::path::Path;

use clap::Command;
use clap_complete::Shell;

/// Examples begin behind this line and end with an empty one.
const EXAMPLES: &str = "Examples:";

/// Characters that are shown otherwise in a man page, and what shows them as they are.
const AS_TYPED: [(&str, &str); 4] = [("\\\\", "\\(rs"), ("~", "\\(ti"), ("^", "\\(ha"), ("`", "\\(ga")];

/// Writes `man/man1/…` and `completions/…` into a directory.
pub fn generate(command: &Command, dir: &Path) -> io::Result<()> {
    let (man, completions) = (dir.join("man/man1"), dir.join("completions"));
    for dir in [&man, &completions] {
        fs::create_dir_all(dir).map_err(|error| beside(error, "make", dir))?;
    }
    clap_mangen::generate_to(command.clone(), &man)
        .map_err(|error| beside(error, "write man pages into", &man))?;
    for page in fs::read_dir(&man)? {
        let path = page?.path();
        fs::write(&path, as_typed(&String::from_utf8_lossy(&fs::read(&path)?)))
            .map_err(|error| beside(error, "write", &path))?;
    }
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut command.clone(), command.get_name(), &completions)
            .map_err(|error| beside(error, "write completions into", &completions))?;
    }
    Ok(())
}

fn beside(error: io::Error, what: &str, path: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("cannot {what} {}: {error}", path.display()))
}

/// A man page whose examples are not filled.
fn as_typed(page: &str) -> String {
    let mut out = String::with_capacity(page.len() + 64);
    let mut is_example = false;
    for line in page.lines() {
        if is_example && (line.is_empty() || line.starts_with(".SH")) {
            out.push_str(".fi\n");
            is_example = false;
        }
        let text = if is_example {
            AS_TYPED.iter().fold(line.to_owned(), |text, (from, to)| text.replace(from, to))
        } else {
            line.to_owned()
        };
        out.push_str(&text);
        out.push('\n');
        if line == EXAMPLES {
            out.push_str(".nf\n");
            is_example = true;
        }
    }
    out
}

/// The help of a command and of all below it, as a terminal of 80 columns shows it.
pub fn helps(command: &Command) -> Vec<String> {
    let own = command.clone().term_width(80).render_long_help().to_string();
    let below = command.get_subcommands().filter(|command| !command.is_hide_set()).flat_map(helps);
    [own].into_iter().chain(below).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_in_man_pages_are_not_filled() {
        let page =
            ".SH EXTRA\nWhat it is ~\n\nExamples:\n  a \\-\\-to ~/x '^' \\\\\n    b\n\nMore ^\n.SH VERSION\n";
        let expected = ".SH EXTRA\nWhat it is ~\n\nExamples:\n.nf\n  a \\-\\-to \\(ti/x '\\(ha' \\(rs\n    b\n.fi\n\nMore ^\n.SH VERSION\n";
        assert_eq!(as_typed(page), expected);
        assert_eq!(
            as_typed(".SH EXTRA\nExamples:\n  a\n.SH VERSION\n"),
            ".SH EXTRA\nExamples:\n.nf\n  a\n.fi\n.SH VERSION\n"
        );
    }
}
