//! The table of rules that every guest reads at start, and the redaction it steers. A damaged table, whatever
//! the arguments, must never fault inside a user's process.
#![no_main]

use libfuzzer_sys::fuzz_target;
use record::rules::{MAGIC, Redactor, Rules, Section};

fuzz_target!(|input: (&[u8], Vec<Vec<u8>>)| {
    let (table, argv) = input;
    let _ = Rules::new(table).map(|rules| ask(rules, &argv));
    let marked = [&MAGIC, table].concat();
    let _ = Rules::new(&marked).map(|rules| ask(rules, &argv));
    ask(Rules::builtin(), &argv);
});

fn ask(rules: Rules, argv: &[Vec<u8>]) {
    for section in
        [Section::Env, Section::Secret, Section::Token, Section::Option, Section::SkipExe, Section::SkipUid]
    {
        rules.entries(section).for_each(drop);
    }
    let program = argv.first().map_or(&[][..], Vec::as_slice);
    let mut redactor = Redactor::new(rules, program);
    let mut out = Vec::new();
    for arg in argv {
        rules.keeps_variable(arg);
        rules.skips_exe(arg);
        rules.skips_uid(arg);
        redactor.arg(arg, &mut out);
        redactor.variable(b"OMP_X", arg, &mut out);
    }
}
