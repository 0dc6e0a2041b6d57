//! Examples in help texts and man pages: what a shell makes of them when they are pasted.

/// The commands of a program that stand in the examples of a help text or a man page, each as its words without the name.
///
/// Examples are the lines between `Examples:` and the next empty one. Whatever is wider than 80 columns would be broken by a terminal, and a line
/// that is continued says so.
#[track_caller]
pub fn examples(text: &str, program: &str) -> Vec<Vec<String>> {
    let lines = text.lines().map(plain).skip_while(|line| line != "Examples:").skip(1);
    let block: Vec<String> = lines
        .take_while(|line| !line.trim().is_empty() && line != ".fi")
        .filter(|line| line != ".nf")
        .collect();
    for line in &block {
        assert!(line.chars().count() <= 80, "wider than a terminal: {line}");
    }
    let joined = block.join("\n").replace("\\\n", " ");
    joined.lines().flat_map(pipeline).filter_map(|words| own(words, program)).collect()
}

/// The words of a command of this program. What begins with another word is another program, or is no command at all.
#[track_caller]
fn own(words: Vec<String>, program: &str) -> Option<Vec<String>> {
    let others = ["jobglass", "jobglass-server", "jq", "head", "sacct"];
    let name = words.first()?;
    assert!(others.contains(&name.as_str()), "no command of ours, nor of anybody's: {words:?}");
    (name == program).then(|| words[1..].to_vec())
}

/// A line of a man page as it is shown.
fn plain(line: &str) -> String {
    let shown = [
        ("\\-", "-"),
        ("\\*(Aq", "'"),
        ("\\(rs", "\\"),
        ("\\(ti", "~"),
        ("\\(ha", "^"),
        ("\\(ga", "`"),
        ("\\&", ""),
    ];
    shown.iter().fold(line.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// The words of each command of a pipeline, as a shell has them; redirections are not followed.
#[track_caller]
fn pipeline(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let (mut word, mut quote): (Option<String>, Option<char>) = (None, None);
    for c in line.chars().chain([' ']) {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, '|' | ' ' | '>') => {
                let all = commands.last_mut().expect("there is one");
                all.extend(word.take());
                match c {
                    '|' => commands.push(Vec::new()),
                    '>' => break,
                    _ => {}
                }
            }
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    assert_eq!(quote, None, "a quote is not closed: {line}");
    commands.retain(|words| !words.is_empty());
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_what_a_shell_makes_of_them() {
        let text = "Show something\n\nExamples:\n  jobglass jobs --where \"runs('gmx*') and x\" | jq '.a | b'\n  \
                    jobglass rate 7 \\\n    --for 10m     # a word\n  sacct | jobglass import slurm --file -\n  jobglass-server x >f\n\nMore: jobglass no\n";
        let expected = [
            vec!["jobs", "--where", "runs('gmx*') and x"],
            vec!["rate", "7", "--for", "10m"],
            vec!["import", "slurm", "--file", "-"],
        ];
        assert_eq!(examples(text, "jobglass"), expected);
        assert_eq!(examples(text, "jobglass-server"), [["x"]]);
        let page = "Examples:\n.nf\n  jobglass a \\-\\-to \\(ti/x \\*(Aq\\(ha\\*(Aq \\(rs\n    b\n.fi\n";
        assert_eq!(examples(page, "jobglass"), [["a", "--to", "~/x", "^", "b"]]);
    }

    #[test]
    #[should_panic(expected = "wider than a terminal")]
    fn an_example_that_a_terminal_breaks_is_found() {
        examples(&format!("Examples:\n  jobglass {}", "x".repeat(80)), "jobglass");
    }
}
