//! Which secrets are taken out of command lines, and what stays readable: `data/redaction.tsv`.

use std::time::Instant;

use jobglass_record::rules::{Deep, Redactor, Rules};
use proptest::prelude::*;

const TABLE: &str = include_str!("data/redaction.tsv");

struct Line {
    typed: &'static str,
    gone: Vec<&'static str>,
    stays: Vec<&'static str>,
}

fn lines() -> Vec<Line> {
    let list = |text: &'static str| text.split(" :: ").filter(|part| !part.is_empty()).collect();
    let line = |row: &'static str| {
        let mut columns = row.split('\t');
        let typed = columns.next().unwrap();
        let mut next = || list(columns.next().unwrap_or_else(|| panic!("three columns: {row}")));
        Line { typed, gone: next(), stays: next() }
    };
    TABLE.lines().filter(|row| !row.starts_with('#')).map(line).collect()
}

/// The arguments of a line that is one command; `None` of any other.
fn arguments(line: &str) -> Option<Vec<String>> {
    if line.contains(['|', ';', '&', '$', '`', '<', '>', '(']) && !line.contains("'") {
        return None;
    }
    let (mut all, mut word, mut quote, mut any) = (Vec::new(), String::new(), None, false);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\\', None | Some('"')) => word.extend(chars.next()),
            (c, Some(q)) if c == q => quote = None,
            (c, Some(_)) => word.push(c),
            ('\'' | '"', None) => (quote, any) = (Some(c), true),
            (' ', None) => {
                if any || !word.is_empty() {
                    all.push(std::mem::take(&mut word));
                }
                any = false;
            }
            ('|' | ';' | '&' | '$' | '`' | '<' | '>' | '(', None) => return None,
            (c, None) => word.push(c),
        }
    }
    all.push(word);
    let is_assignment = all[0].contains('=');
    (!is_assignment).then_some(all)
}

fn shown(args: &[Vec<u8>]) -> String {
    args.iter().map(|arg| String::from_utf8_lossy(arg).into_owned()).collect::<Vec<_>>().join(" ")
}

/// As the preload library and then the agent do.
fn twice(args: &[String]) -> Vec<Vec<u8>> {
    let mut redactor = Redactor::new(Rules::builtin(), args[0].as_bytes());
    let one = |arg: &String| {
        let mut out = Vec::new();
        redactor.arg(arg.as_bytes(), &mut out);
        out
    };
    Deep::new(Rules::builtin()).argv(&args.iter().map(one).collect::<Vec<_>>())
}

/// All ways in which a line is recorded: how, the text before, the text after.
fn ways(line: &Line) -> Vec<(&'static str, String, String)> {
    let deep = Deep::new(Rules::builtin());
    let text = |text: &str| String::from_utf8(deep.text(text.as_bytes())).unwrap();
    let shell: Vec<String> = ["bash", "-c", line.typed].map(str::to_owned).to_vec();
    let mut all = vec![
        ("script", line.typed.to_owned(), text(line.typed)),
        ("bash -c", shell.join(" "), shown(&deep.argv(&shell))),
        ("bash -c, twice", shell.join(" "), shown(&twice(&shell))),
    ];
    if let Some(args) = arguments(line.typed) {
        all.push(("arguments", args.join(" "), shown(&deep.argv(&args))));
        all.push(("arguments, twice", args.join(" "), shown(&twice(&args))));
    }
    all
}

fn faults(line: &Line) -> Vec<String> {
    let mut faults = Vec::new();
    for (way, before, after) in ways(line) {
        for secret in line.gone.iter().filter(|secret| after.contains(**secret)) {
            faults.push(format!("LEAK {secret} as {way}: {after}"));
        }
        for part in &line.stays {
            let part = part.replace(['\'', '"', '\\'], "");
            let plain = after.replace(['\'', '"', '\\'], "");
            let is_there = if part == "=" { after == before } else { plain.contains(&part) };
            if !is_there {
                faults.push(format!("LOST {part} as {way}: {after}"));
            }
        }
    }
    faults
}

#[test]
fn secrets_go_and_the_rest_stays() {
    let lines = lines();
    assert!(lines.len() >= 200, "{} lines", lines.len());
    let faults: Vec<String> = lines.iter().flat_map(faults).collect();
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
}

/// Pieces of which hostile and usual lines are made.
const PIECES: &[&str] = &[
    "curl",
    "mysql",
    "bash",
    "-c",
    "-u",
    "-p",
    "-pX1",
    "--password",
    "--password=",
    "password",
    "token",
    "TOKEN=",
    "=",
    ":",
    " ",
    " ",
    " ",
    "\n",
    "\\\n",
    "'",
    "\"",
    "\\",
    "\\\"",
    "$(",
    ")",
    "`",
    "|",
    ";",
    "&",
    "<<<",
    "{",
    "}",
    "[",
    "]",
    ",",
    "@",
    "/",
    "://",
    "user:pw@h.example",
    "https://a:b@c/",
    "Authorization: Bearer ",
    "Cookie: ",
    "ghp_0123456789abcdef",
    "eyJhbGciOiJIUzI1NiJ9",
    "***",
    "value",
    "echo",
    "kinit",
    "sudo",
    "-S",
    "send",
    "expect",
    "assword",
    "login",
    "$NAME",
    "${X}",
    "identified by ",
    "-----BEGIN PRIVATE KEY-----",
    "-----END",
    "é",
    "X1y2",
    "--wrap=",
    "docker",
    "config",
    "set",
    "-----BEGIN RSA PRIVATE KEY-----",
    "hooks.slack.com/services/",
    "sk-",
    "%3D",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn what_was_redacted_is_not_changed_again(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..24)) {
        let deep = Deep::new(Rules::builtin());
        let text = deep.text(pieces.concat().as_bytes());
        prop_assert_eq!(deep.text(&text), text);
        let argv = deep.argv(&pieces);
        prop_assert_eq!(deep.argv(&argv), argv);
    }

    #[test]
    fn a_plain_word_is_what_redaction_leaves_alone(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..6),
        word in "[a-zA-Z0-9_.-]{0,24}",
    ) {
        let deep = Deep::new(Rules::builtin());
        for text in [pieces.concat(), word.clone(), pieces.concat() + &word, word + &pieces.concat()] {
            let text: String = text.chars().filter(|c| c.is_ascii_alphanumeric() || "_.-/ =".contains(*c)).collect();
            if deep.is_plain(text.as_bytes()) {
                prop_assert_eq!(deep.text(text.as_bytes()), text.as_bytes());
            }
        }
    }

    #[test]
    fn any_bytes_pass_without_a_panic(argv in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..6)) {
        let deep = Deep::new(Rules::builtin());
        let once = deep.argv(&argv);
        prop_assert_eq!(once.len(), argv.len());
        let text = deep.text(&argv.concat());
        prop_assert_eq!(deep.text(&text), text);
    }

    #[test]
    fn the_value_of_a_secret_never_survives(value in "[A-Z]{8,20}", name in "(--)?(db-)?(password|PGPASSWORD|token|api_key)") {
        let option = format!("{name}={value}");
        let shell = format!("run {name}={value} more");
        let mut redactor = Redactor::new(Rules::builtin(), b"a");
        let mut out = Vec::new();
        for arg in ["a", &option, &shell] {
            redactor.arg(arg.as_bytes(), &mut out);
        }
        let out = String::from_utf8(out).unwrap();
        prop_assert!(!out.contains(&value) && out.contains("more"), "{out:?}");
    }
}

/// Long texts of one piece repeated are the worst that is known: a scan that begins anew at each of them takes minutes.
#[test]
fn long_texts_take_time_in_proportion() {
    let deep = Deep::new(Rules::builtin());
    let begin = Instant::now();
    for piece in PIECES.iter().chain(&[
        "a:",
        "token=\"",
        "token=$(",
        "a-",
        "password: [",
        "\"a b\" ",
        "'curl -u ",
        "docker gh ",
    ]) {
        let argument = piece.repeat(16 * 1024 / piece.len());
        deep.argv(&["bash", "-c", &argument]);
    }
    let script = TABLE.repeat((1 << 20) / TABLE.len() + 1);
    deep.text(script.as_bytes());
    for piece in ["token=\"", "a:b ", "password ", "-----BEGIN ", "$(", "\\\n", "'"] {
        deep.text(piece.repeat((1 << 20) / piece.len()).as_bytes());
    }
    assert!(begin.elapsed().as_secs() < 60, "{:?}", begin.elapsed());
}

#[test]
fn a_variables_name_may_make_all_of_it_a_secret() {
    let deep = Deep::new(Rules::builtin());
    for (name, value, expected) in [
        ("OMPI_MCA_my_password", "hunter2", "***"),
        ("JOBGLASS_TOKEN", "abc", "***"),
        ("OMP_NUM_THREADS", "4", "4"),
        ("LD_LIBRARY_PATH", "/opt/token/lib:/usr/lib", "/opt/token/lib:/usr/lib"),
        ("FI_PROVIDER", "https://a:b@c/", "https://a:***@c/"),
        ("OMPI_MCA_x", "{\"token\": \"abc\"}", "{\"token\": \"***\"}"),
    ] {
        let full = deep.variable(name.as_bytes(), value.as_bytes());
        assert_eq!(String::from_utf8(full).unwrap(), expected, "{name}");
        let mut simple = Vec::new();
        Redactor::new(Rules::builtin(), b"").variable(name.as_bytes(), value.as_bytes(), &mut simple);
        assert_eq!(deep.variable(name.as_bytes(), &simple), expected.as_bytes(), "{name}");
    }
}

/// What the preload library takes out by itself.
#[test]
fn simple_secrets_do_not_leave_the_process() {
    for (typed, expected) in [
        ("a --password=x&y", "a --password=***"),
        ("a --password hunter2 b", "a --password *** b"),
        ("a --password --verbose", "a --password --verbose"),
        ("a --api_key=K --access-token=K", "a --api_key=*** --access-token=***"),
        ("env PGPASSWORD=hunter2 psql", "env PGPASSWORD=*** psql"),
        ("a https://bob:pw@h/x?y=1", "a https://bob:***@h/x?y=1"),
        ("a https://h/x?token=abc&y=1", "a https://h/x?token=***&y=1"),
        ("curl -u bob:pw -ubob:pw h", "curl -u *** -u*** h"),
        ("mysql -psecret -u bob", "mysql -p*** -u bob"),
        ("cp -pr a b", "cp -pr a b"),
        ("ffmpeg -pass 1", "ffmpeg -pass 1"),
        ("a ghp_0123456789abcdef", "a ***"),
        ("a --password-file f --max-tokens=512", "a --password-file f --max-tokens=512"),
        ("a --auth-token=K --auth=file", "a --auth-token=*** --auth=file"),
        ("a TOKEN=$(echo PWD=x;y", "a TOKEN=$(echo PWD=x;y"),
    ] {
        let args: Vec<&str> = typed.split(' ').collect();
        let mut redactor = Redactor::new(Rules::builtin(), args[0].as_bytes());
        let one = |arg: &&str| {
            let mut out = Vec::new();
            redactor.arg(arg.as_bytes(), &mut out);
            out
        };
        assert_eq!(shown(&args.iter().map(one).collect::<Vec<_>>()), expected);
    }
}
