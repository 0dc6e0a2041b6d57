//! What the library and the agent read of an environment is what `docs/what-is-collected.md` tells users.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use jobglass_record::rules::defaults;
use jobglass_record::wire::IDENTIFYING;

/// The names in backquotes between two marks of the document.
fn named(document: &str, from: &str, to: &str) -> BTreeSet<String> {
    let part = document.split(from).nth(1).and_then(|rest| rest.split(to).next()).unwrap();
    part.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn users_are_told_of_every_variable_that_is_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/what-is-collected.md");
    let document = String::from_utf8(fs::read(path).unwrap()).unwrap();
    let identifying: BTreeSet<String> =
        IDENTIFYING.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    assert_eq!(named(&document, "**Identifying variables**", "**Kept variables**"), identifying);
    let mut kept = named(&document, "**Kept variables**", "The library leaves out");
    kept.remove("*");
    assert_eq!(kept, defaults::ENV.iter().map(|name| (*name).to_owned()).collect());
}
