//! What the site's rules let through of a program's arguments and environment.
//!
//! Simple secrets are taken out where arguments are first seen. What is expensive to recognize (JSON, command lines in
//! arguments) is left to the thread that writes: it does so once for each row, and holds up no kernel event.

use record::bytes::Bytes;
use record::entry::Image;
use record::guest::Start;
use record::rules::{Deep, Redactor, Rules};

/// Keeps of a message's arguments and environment what the rules allow: in a container the library knows the built-in
/// ones only.
pub fn redact(start: &mut Start, rules: &[u8]) {
    let Some(rules) = Rules::new(rules) else {
        (start.argv, start.env) = Default::default();
        return;
    };
    let program = start.argv.first().cloned().unwrap_or_default();
    let mut redactor = Redactor::new(rules, &program);
    for arg in &mut start.argv {
        let mut out = Vec::with_capacity(arg.len());
        redactor.arg(arg, &mut out);
        arg.0 = out;
    }
    start.env.retain(|variable| {
        let at = variable.iter().position(|b| *b == b'=').unwrap_or(variable.len());
        rules.keeps_variable(variable.get(..at).unwrap_or(&[]))
    });
}

/// Takes all secrets out of a record, before it is written anywhere.
pub fn redact_record(image: &mut Image, rules: &[u8]) {
    let Some(rules) = Rules::new(rules) else {
        (image.argv, image.env) = (None, None);
        return;
    };
    let deep = Deep::new(rules);
    if let Some(argv) = &mut image.argv {
        *argv = deep.argv(argv).into_iter().map(Bytes).collect();
    }
    for variable in image.env.iter_mut().flatten() {
        let at = variable.iter().position(|b| *b == b'=').unwrap_or(variable.len());
        let (name, value) = variable.split_at(at);
        let value = value.strip_prefix(b"=").unwrap_or(value);
        *variable = Bytes([name, b"=", &deep.variable(name, value)].concat());
    }
}
