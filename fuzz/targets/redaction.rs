//! Redaction of arguments and scripts, with command lines in command lines. Whatever the bytes, it ends, and what it returns
//! it does not change again: a record that passes the agent and the server is the same behind both.
#![no_main]

use libfuzzer_sys::fuzz_target;
use record::rules::{Deep, Rules};

fuzz_target!(|bytes: &[u8]| {
    let deep = Deep::new(Rules::builtin());
    let text = deep.text(bytes);
    assert_eq!(deep.text(&text), text);
    let argv: Vec<&[u8]> = bytes.split(|b| *b == 0).collect();
    let once = deep.argv(&argv);
    assert_eq!(once.len(), argv.len());
    assert_eq!(deep.argv(&once), once);
});
