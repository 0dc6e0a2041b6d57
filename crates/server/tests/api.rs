//! The API as it describes itself, tried with whatever fits the description and whatever does not.

mod common;

use std::path::Path;
use std::process::Command;

use common::{Server, batch, image};

/// Where scripts/need puts it.
const SCHEMATHESIS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/python/bin/schemathesis");

/// How it sends what it has made up.
const HOOKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests");

#[test]
fn schemathesis_finds_nothing() {
    if !Path::new(SCHEMATHESIS).exists() {
        let why = "target/python is not there (scripts/need test makes it)";
        return testkit::skip("schemathesis_finds_nothing", why);
    }
    let server = Server::start(&["--host-rate", "100000", "--host-burst", "100000"]);
    let entries = [image("alice", 1, 1_700_000_000_000_000_000), image("bob", 2, 1_700_000_000_000_000_001)];
    assert_eq!(server.post(&batch("n1", 1, &entries), &server.token("ingest"), &[]).0, 200);
    for (token, who) in [(server.token("admin"), "a reader"), (server.token("ingest"), "a sender")] {
        let output = Command::new(SCHEMATHESIS)
            .current_dir(server.dir.path())
            .env("PYTHONPATH", HOOKS)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("SCHEMATHESIS_HOOKS", "schemathesis_hooks")
            .args(["run", &format!("http://{}/api/v1/openapi.json", server.address)])
            .args([
                "--header",
                &format!("Authorization: Bearer {token}"),
                "--max-examples",
                "60",
                "--seed",
                "20261116",
            ])
            // Bytes that fit the description of a batch are seldom a batch.
            .args(["--exclude-checks", "positive_data_acceptance"])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{who}: {text}");
        let summary = text.lines().skip_while(|line| !line.starts_with("Test cases")).nth(1);
        eprintln!("{who}: {}", summary.unwrap_or("no summary").trim());
        assert!(summary.is_some_and(|line| line.contains("passed")), "{who}: {text}");
    }
    let log = server.stop();
    assert!(!log.contains("panicked") && !log.contains("ERROR"), "{log}");
}
