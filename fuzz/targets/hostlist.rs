//! Lists of nodes: whatever they say, there are bounds on what is made of them, and names survive folding.
#![no_main]

use std::collections::BTreeSet;

use hostlist::{expand, fold};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(names) = expand(text) else { return };
    let names: BTreeSet<String> = names.into_iter().collect();
    let folded = fold(names.iter().map(String::as_str)).expect("a name from a list can be in a list");
    let again: BTreeSet<String> = expand(&folded).expect("a folded list expands").into_iter().collect();
    assert_eq!(names, again);
});
