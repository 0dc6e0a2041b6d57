//! Where home directories lie: `{home}` in a pattern of a criterion stands for each of the site's.

/// What stands for a home directory's parent in patterns: `runs('{home}/*/gmx*')`.
const HOME: &str = "{home}";

/// Whether patterns can begin with it: an absolute path, in which nothing is special to a pattern or a criterion.
pub(crate) fn is_usable(home: &str) -> bool {
    let is_plain = |letter: char| !letter.is_control() && !"'*?[]{}\\".contains(letter);
    home.len() > 1 && home.starts_with('/') && !home.ends_with('/') && home.chars().all(is_plain)
}

/// A question that names homes, `runs('{home}/*/gmx*')`, is asked of each of them.
pub(crate) fn expand(criterion: &str, homes: &[String]) -> String {
    let (mut expanded, mut rest) = (String::new(), criterion);
    while let Some((before, question, after)) = next_question(rest) {
        let each: Vec<String> = homes.iter().map(|home| question.replace(HOME, home)).collect();
        expanded.push_str(&format!("{before}({})", each.join(" or ")));
        rest = after;
    }
    expanded + rest
}

/// What stands before the first question that names homes, the question, and what follows it.
fn next_question(text: &str) -> Option<(&str, &str, &str)> {
    let at = text.find(HOME)?;
    let bracket = text[..at].rfind("('")?;
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let start = text[..bracket].trim_end_matches(is_name).len();
    let end = at + text[at..].find("')")? + 2;
    Some((&text[..start], &text[start..end], &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_home_is_asked_about() {
        let homes = ["/home".to_owned(), "/u".to_owned()];
        for (criterion, expected) in [
            ("a > 1", "a > 1"),
            ("not runs('{home}/*/x')", "not (runs('/home/*/x') or runs('/u/*/x'))"),
            (
                "runs('y') or sets('P=*:{home}/*') and runs('{home}/z')",
                "runs('y') or (sets('P=*:/home/*') or sets('P=*:/u/*')) and (runs('/home/z') or runs('/u/z'))",
            ),
            // What is no question is left for the parser to complain about.
            ("{home} = 1", "{home} = 1"),
            ("runs('{home}", "runs('{home}"),
        ] {
            assert_eq!(expand(criterion, &homes), expected);
        }
    }

    #[test]
    fn homes_are_absolute_paths_without_patterns() {
        for (home, usable) in [
            ("/home", true),
            ("/a b/c", true),
            ("home", false),
            ("/", false),
            ("/h/", false),
            ("/h*", false),
            ("/h'", false),
        ] {
            assert_eq!(is_usable(home), usable, "{home}");
        }
    }
}
