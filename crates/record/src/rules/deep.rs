//! Takes secrets out of command lines, scripts and free text: what the agent spools and what the server stores.
//!
//! On top of what [`super::full`] does for one argument after the other it knows
//!
//! * programs that others start, and what is secret in them: `sudo mysql -pX`;
//! * command lines in arguments: `bash -c '…'`, `--wrap='…'`, `ssh host '…'`;
//! * what is written to a program that reads a secret: `echo X | kinit`, `sudo -S <<< X`;
//! * private keys, `.netrc` lines and `send "X"` in scripts of `expect`.
//!
//! What it returns it would not change again: it is applied until nothing changes.

use super::full::Redactor;
use super::names::letter;
use super::redact::{REDACTED, base_name};
use super::shell::{Token, Word, tokens};
use super::value::{Place, is_reference};
use super::{Rules, Section, options};

/// Command lines in command lines are looked through so deep.
const DEPTH: usize = 4;
/// What still changes when it was applied so often is not kept at all. Two times are usual, the second without a change.
const ROUNDS: usize = 8;
/// Launchers name the program that they start among their first arguments. To look for one takes microseconds, and a
/// command line may have thousands of arguments.
const STARTED_MAX: usize = 128;
/// A program's name behind one of these is the name of something else: a container, a host, a job.
const NAMES_SOMETHING: [&[u8]; 8] =
    [b"--name", b"--hostname", b"--host", b"--network", b"--link", b"--job-name", b"-J", b"-h"];

/// Redacts by one table of rules.
pub struct Deep<'a> {
    rules: Rules<'a>,
    /// The first letters of programs with rules of their own, by bit.
    programs: [u32; 32],
}

/// An argument, and what is known of it.
struct Arg<'w> {
    value: &'w [u8],
    /// It is a word of a shell's text.
    word: Option<&'w Word>,
}

/// What follows a line in a script.
#[derive(Default, Clone, Copy)]
struct Around {
    /// A script for `expect` that answers when it is asked for a password.
    is_dialog: bool,
    depth: usize,
}

impl<'a> Deep<'a> {
    /// By these rules.
    pub fn new(rules: Rules<'a>) -> Self {
        let mut programs = [0; 32];
        for rule in rules.entries(Section::Option) {
            let names = rule.split(|b| *b == b' ').next().unwrap_or(&[]);
            for name in names.split(|b| *b == b',') {
                mark(&mut programs, name);
            }
        }
        Deep { rules, programs }
    }

    /// The arguments of a program without their secrets.
    pub fn argv<T: AsRef<[u8]>>(&self, argv: &[T]) -> Vec<Vec<u8>> {
        let mut list: Vec<Vec<u8>> = argv.iter().map(|arg| arg.as_ref().to_vec()).collect();
        for _ in 0..ROUNDS {
            let args: Vec<Arg> = list.iter().map(|value| Arg { value, word: None }).collect();
            let next = self.args(&args, Around::default());
            if next == list {
                return list;
            }
            list = next;
        }
        vec![REDACTED.to_vec(); list.len()]
    }

    /// Whether a text is a single word without a secret: it need not be taken apart.
    pub fn is_plain(&self, text: &[u8]) -> bool {
        Redactor::new(self.rules, b"").is_plain_word(text)
    }

    /// A command line, a script or a comment without its secrets.
    pub fn text(&self, text: &[u8]) -> Vec<u8> {
        let mut text = text.to_vec();
        for _ in 0..ROUNDS {
            let next = self.script(&without_keys(&text), Around { is_dialog: is_dialog(&text), depth: 0 });
            if next == text {
                return text;
            }
            text = next;
        }
        REDACTED.to_vec()
    }

    /// The value of a variable without its secrets; all of it is one if the name says so.
    pub fn variable(&self, name: &[u8], value: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(value.len());
        if !Redactor::new(self.rules, b"").secret_value(name, value, &mut out) {
            out = self.text(value);
        }
        out
    }

    /// Whether the value of what has this name is a secret.
    pub fn is_secret_name(&self, name: &str) -> bool {
        Redactor::new(self.rules, b"").is_secret_name(name.as_bytes())
    }

    /// One pass over the arguments of a program and of those that it starts.
    fn args(&self, args: &[Arg], around: Around) -> Vec<Vec<u8>> {
        let program = args.first().map_or(&[][..], |arg| arg.value);
        let mut redactor = Redactor::new(self.rules, program);
        let mut before: &[u8] = b"";
        let mut all = Vec::with_capacity(args.len());
        for (number, arg) in args.iter().enumerate() {
            let is_secret = redactor.expects_secret();
            let is_early = (1..STARTED_MAX).contains(&number);
            let is_started = is_early
                && !is_secret
                && self.is_program(arg.value, before)
                && !redactor.is_subcommand(arg.value);
            let is_word = arg.word.is_some_and(|word| !word.is_quoted());
            redactor.set_shell_word(arg.word.map(|word| !word.is_literal), is_word);
            let mut out = Vec::with_capacity(arg.value.len());
            redactor.arg(arg.value, &mut out);
            if is_started {
                redactor.set_program(arg.value);
            }
            if !is_secret && out.iter().any(u8::is_ascii_whitespace) {
                out = self.nested(&without_keys(&out), around);
            }
            before = arg.value;
            all.push(out);
        }
        all
    }

    /// Whether an argument is a program with rules of its own.
    fn is_program(&self, arg: &[u8], before: &[u8]) -> bool {
        let name = base_name(arg);
        let is_marked = |name: &[u8]| match name {
            [first, second, ..] => {
                self.programs.get(usize::from(first & 31)).is_some_and(|set| set & letter(*second) != 0)
            }
            _ => false,
        };
        is_marked(name) && !NAMES_SOMETHING.contains(&before) && options::is_listed(self.rules, name)
    }

    /// An argument that may be a command line: `--wrap=…` is one behind its name.
    fn nested(&self, text: &[u8], around: Around) -> Vec<u8> {
        if around.depth >= DEPTH {
            return text.to_vec();
        }
        let is_name = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
        let len = text.iter().take_while(|b| is_name(b)).count();
        let begin = if text.get(len) == Some(&b'=') { len + 1 } else { 0 };
        let (name, rest) = text.split_at(begin.min(text.len()));
        let is_dialog = around.is_dialog || is_dialog(text);
        let mut out = name.to_vec();
        out.extend(self.script(rest, Around { is_dialog, depth: around.depth + 1 }));
        out
    }

    /// One pass over a text, line by line. A line that ends with a backslash goes on in the next.
    fn script(&self, text: &[u8], around: Around) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len());
        let mut named = false;
        let mut rest = text;
        while !rest.is_empty() {
            let (line, behind) = rest.split_at(line_len(rest));
            let line = self.commands(line, around);
            let mut redactor = Redactor::new(self.rules, b"");
            redactor.set_shell_word(Some(true), false);
            redactor.set_named(named);
            let was_named = named;
            named = redactor.text(&line, Place::Line, &mut out) && !was_named;
            rest = behind;
        }
        out
    }

    /// One pass over the commands of a line.
    fn commands(&self, line: &[u8], around: Around) -> Vec<u8> {
        let tokens = tokens(line);
        let mut commands = Command::all(&tokens);
        let reads: Vec<bool> = commands.iter().map(|command| self.reads_secret(command)).collect();
        for (at, command) in commands.iter_mut().enumerate() {
            let is_read = command.is_piped && reads.get(at + 1) == Some(&true);
            let is_for_secret = command.is_file_of.is_some_and(|word| self.names_secret_file(&word.value))
                || command.is_file_of.is_some() && at > 0 && reads.get(at - 1) == Some(&true);
            command.is_secret = (is_read || is_for_secret) && command.only_prints();
        }
        let mut out = Vec::with_capacity(line.len());
        let mut copied = 0;
        for (command, reads) in commands.iter().zip(reads) {
            for (word, value) in self.command(command, reads, around) {
                if value != word.value {
                    out.extend_from_slice(line.get(copied..word.start).unwrap_or(&[]));
                    out.extend(word.quote(&value));
                    copied = word.end;
                }
            }
        }
        out.extend_from_slice(line.get(copied..).unwrap_or(&[]));
        out
    }

    /// The words of a command, in their order, and what is to stand there.
    fn command<'w>(
        &self,
        command: &Command<'w>,
        reads_secret: bool,
        around: Around,
    ) -> Vec<(&'w Word, Vec<u8>)> {
        let words = &command.words;
        let begin = words.iter().take_while(|word| is_assignment(&word.value)).count();
        let (assignments, words) = words.split_at(begin);
        // Of assignments as of the arguments of `env`: a value is all of its word.
        let env = Arg { value: b"env", word: None };
        let assigned: Vec<Arg> =
            std::iter::once(env).chain(assignments.iter().map(|word| of(word))).collect();
        let mut values: Vec<Vec<u8>> = self.args(&assigned, around).into_iter().skip(1).collect();
        let args: Vec<Arg> = words.iter().map(|word| of(word)).collect();
        values.extend(self.args(&args, around));
        let mut all: Vec<(&Word, Vec<u8>)> = command.words.iter().copied().zip(values).collect();
        for (at, (word, value)) in all.iter_mut().enumerate() {
            let is_option = word.value.starts_with(b"-");
            let is_printed = command.is_secret && at > begin && !is_option && !is_known(word);
            if is_printed || around.is_dialog && is_sent(words, at) || follows_login(words, at) {
                *value = REDACTED.to_vec();
            }
        }
        for word in &command.inputs {
            let is_secret = reads_secret && !is_known(word);
            let value = if is_secret { REDACTED.to_vec() } else { self.nested(&word.value, around) };
            all.push((word, value));
        }
        all.sort_by_key(|(word, _)| word.start);
        all
    }

    /// `--password-file`: what is in the file is a secret.
    fn names_secret_file(&self, option: &[u8]) -> bool {
        let name = option.strip_suffix(b"=").unwrap_or(option);
        let name = name.strip_suffix(b"file").map(|name| name.strip_suffix(b"-").unwrap_or(name));
        name.is_some_and(|name| Redactor::new(self.rules, b"").is_secret_name(name))
    }

    /// Whether what is written to a command is a secret: by the rules, or because an option says so (`--password-stdin`).
    fn reads_secret(&self, command: &Command) -> bool {
        let values = command.words.iter().map(|word| word.value.as_slice());
        let says_so = |arg: &[u8]| {
            let name = arg.strip_suffix(b"stdin").and_then(|name| name.split_last());
            name.is_some_and(|(_, name)| Redactor::new(self.rules, b"").is_secret_name(name))
        };
        let early = values.clone().take(STARTED_MAX);
        let reads = |program: &[u8]| options::reads_secret(self.rules, base_name(program), early.clone());
        values.clone().any(says_so) || early.clone().filter(|arg| self.is_program(arg, b"")).any(reads)
    }
}

fn of(word: &Word) -> Arg<'_> {
    Arg { value: &word.value, word: Some(word) }
}

/// Marks a program's name; `X*` by its first two letters as well.
fn mark(programs: &mut [u32; 32], name: &[u8]) {
    if let [first, second, ..] = name
        && let Some(set) = programs.get_mut(usize::from(first & 31))
    {
        *set |= letter(*second);
    }
}

/// A simple command.
#[derive(Default)]
struct Command<'t> {
    words: Vec<&'t Word>,
    /// Behind `<<<`.
    inputs: Vec<&'t Word>,
    is_piped: bool,
    /// What it prints is a file for another command, `<(…)`; the word before, which may be an option.
    is_file_of: Option<&'t Word>,
    /// It prints a secret that the next one reads.
    is_secret: bool,
}

impl<'t> Command<'t> {
    fn all(tokens: &'t [Token]) -> Vec<Command<'t>> {
        let mut all = vec![Command::default()];
        let mut before = &Token::End;
        for token in tokens {
            let Some(last) = all.last_mut() else { break };
            let word = last.words.last().copied();
            match (token, before) {
                (Token::Word(word), Token::HereString) => last.inputs.push(word),
                // The name of a file.
                (Token::Word(_), Token::Redirection) => {}
                (Token::Word(word), _) => last.words.push(word),
                (Token::Pipe, _) => {
                    last.is_piped = true;
                    all.push(Command::default());
                }
                (Token::End, Token::Redirection) => {
                    all.push(Command { is_file_of: word, ..Command::default() })
                }
                (Token::End, _) => all.push(Command::default()),
                _ => {}
            }
            before = token;
        }
        all
    }

    fn only_prints(&self) -> bool {
        let program = self.words.iter().map(|word| base_name(&word.value)).next();
        program.is_some_and(|name| matches!(name, b"echo" | b"printf" | b"print" | b"yes"))
    }
}

/// Whether a word is only the name of a variable.
fn is_known(word: &Word) -> bool {
    !word.is_literal && is_reference(&word.value)
}

/// `NAME=value`
fn is_assignment(word: &[u8]) -> bool {
    let len = word.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
    len > 0 && word.get(len) == Some(&b'=')
}

/// `send "X\r"`, `send -- "X\r"`
fn is_sent(words: &[&Word], at: usize) -> bool {
    let is_send = |word: &&Word| matches!(word.value.as_slice(), b"send" | b"exp_send" | b"send_slow");
    let earlier = words.get(..at).unwrap_or(&[]);
    earlier.iter().any(is_send) && words.get(at).is_some_and(|word| !word.value.starts_with(b"-"))
}

/// `login bob password X`, in what becomes a `.netrc`
fn follows_login(words: &[&Word], at: usize) -> bool {
    let is = |back: usize, name: &[u8]| {
        at.checked_sub(back).and_then(|at| words.get(at)).is_some_and(|word| word.value == name)
    };
    is(1, b"password") && (is(3, b"login") || is(3, b"machine") || is(3, b"default"))
}

/// Whether a text answers the question for a password.
fn is_dialog(text: &[u8]) -> bool {
    contains(text, b"ssword") && contains(text, b"expect") && contains(text, b"send")
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    find(text, part).is_some()
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

/// The length of the first line with its end; of several where a backslash stands before it.
fn line_len(text: &[u8]) -> usize {
    let is_end = |at: &usize| text.get(*at) == Some(&b'\n') && (*at == 0 || text.get(at - 1) != Some(&b'\\'));
    (0..text.len()).find(is_end).map_or(text.len(), |at| at + 1)
}

/// A text without the content of private keys.
fn without_keys(text: &[u8]) -> Vec<u8> {
    const BEGIN: &[u8] = b"-----BEGIN ";
    const KEY: &[u8] = b"PRIVATE KEY";
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(begin) = find(rest, BEGIN) {
        let (before, key) = rest.split_at(begin + BEGIN.len());
        out.extend_from_slice(before);
        rest = key;
        let head = key.get(..key.len().min(64)).unwrap_or(&[]);
        let Some(title) = find(head, b"-----").filter(|end| contains(&head[..*end], KEY)) else { continue };
        let (title, body) = key.split_at(title + 5);
        let end = find(body, b"-----END").unwrap_or(body.len());
        out.extend_from_slice(title);
        out.extend_from_slice(REDACTED);
        rest = body.get(end..).unwrap_or(&[]);
    }
    out.extend_from_slice(rest);
    out
}
