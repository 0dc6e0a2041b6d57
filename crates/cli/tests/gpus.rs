//! GPUs from the driver's library to the answer: played by a library of our own that has the real names and layouts.

mod common;
#[path = "common/server.rs"]
#[allow(dead_code, reason = "only the server is used here")]
mod server;
#[path = "common/watched.rs"]
#[allow(dead_code, reason = "not all of it is used here")]
mod watched;

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};

use common::*;
use watched::Watched;

const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

/// A server, and an agent on a node whose GPUs are a play.
struct Played(Watched);

impl Played {
    fn start(scenario: &str) -> Played {
        let dir = tempfile::tempdir().unwrap();
        let built = program("libnvml_stand_in.so", "cc", "nvml_stand_in.c", &["-shared", "-fPIC", "-ldl"]);
        let library = dir.path().join("libnvidia-ml.so.1");
        fs::copy(built, &library).unwrap();
        fs::write(dir.path().join("scenario"), scenario).unwrap();
        Played(Watched::start_in(dir, &format!("every_seconds = 1.0\nnvml = \"{}\"\n", library.display())))
    }

    fn play(&self, scenario: &str) {
        fs::write(self.0.dir.path().join("scenario"), scenario).unwrap();
    }

    /// A program of a batch job that was given these cards.
    fn job(&self, id: &str, cards: &str) -> Child {
        self.0
            .node
            .command("/bin/sleep")
            .arg("infinity")
            .env("SLURM_JOB_ID", id)
            .env("SLURM_JOB_GPUS", cards)
            .env("SLURM_GPUS_ON_NODE", "2")
            .stdin(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn doctor(&self, library: &Path) -> Row {
        let config = self.0.dir.path().join("doctor.toml");
        fs::write(&config, format!("[sampling]\nnvml = \"{}\"\n", library.display())).unwrap();
        let output = std::process::Command::new(jobglass())
            .args(["doctor", "--json", "--config"])
            .arg(config)
            .output()
            .unwrap();
        parse(&output).into_iter().find(|check| check["check"] == "gpus").unwrap()
    }
}

fn number(row: &Row) -> f64 {
    row.as_f64().unwrap_or_else(|| panic!("no number: {row}"))
}

#[test]
fn a_reserved_card_that_is_idle_is_seen_beside_one_that_works() {
    if !is_root("a_reserved_card_that_is_idle_is_seen_beside_one_that_works") {
        return;
    }
    let played = Played::start("cards 3\nidle 0\nidle 1\nidle 2\n");
    let mut job = played.job("77", "0-1");
    played.play(&format!("cards 3\nuser 0 {}\nidle 1\nidle 2\n", job.id()));
    let mut found = Row::Null;
    wait_until("the job's GPUs", || {
        found = played.0.resources("77");
        found["metrics"]["gpu"]["max"].as_f64() == Some(70.0)
    });
    let (gpu, memory) = (&found["metrics"]["gpu"], &found["metrics"]["gpu_memory"]);
    assert_eq!((number(&gpu["last"]), number(&memory["max"]) / GIB), (70.0, 5.0), "{found:#}");
    assert_eq!(number(&found["reserved"]["gpus"]), 2.0);
    // 0.7 of 2 is neither little nor much; before the card worked, it was little.
    assert_eq!((number(&gpu["above"]), number(&gpu["below"]) < 1.0), (0.0, true), "{found:#}");
    assert!(
        number(&found["metrics"]["gpu_power"]["max"]) > 0.0
            && number(&found["metrics"]["gpu_energy"]["total"]) >= 0.0
    );

    // Card by card: the one works, the other does not, and the third is not the job's.
    let series = played.0.ask(&["series", "77", "card_utilisation", "--json"]);
    let most = |card: &str| {
        let own = series.iter().filter(|row| row["card"].as_str().is_some_and(|name| name.starts_with(card)));
        own.map(|row| number(&row["value"])).reduce(f64::max)
    };
    assert_eq!(
        (most("GPU-00000000"), most("GPU-00000001"), most("GPU-00000002")),
        (Some(70.0), Some(0.0), None)
    );
    let text = String::from_utf8(played.0.server.ask(&["job", "77", "--resources"]).output().unwrap().stdout)
        .unwrap();
    assert!(text.lines().any(|line| line.starts_with("GPU") && line.contains("2 GPUs")), "{text}");

    let nodes = played.0.ask(&["nodes", "--json"]);
    let cards = nodes[0]["hardware"]["cards"].as_str().unwrap();
    assert_eq!(cards.matches("H100").count(), 3, "{cards}");

    // The driver no longer answers: all else goes on.
    played.play(&format!("cards 3\nuser 0 {}\nhang 0 600000\n", job.id()));
    let readings = |found: &Row| number(&found["readings"]);
    let before = readings(&played.0.resources("77"));
    wait_until("readings without the driver", || readings(&played.0.resources("77")) > before + 5.0);
    job.kill().unwrap();
    job.wait().unwrap();
}

#[test]
fn the_doctor_says_what_gpus_there_are_and_what_is_wrong_with_them() {
    let played = Played::start("cards 2\n");
    let library = played.0.dir.path().join("libnvidia-ml.so.1");
    let found = played.doctor(&library);
    assert!(found["finding"].as_str().unwrap().starts_with("2 GPUs: NVIDIA H100"), "{found:#}");
    played.play("cards 2\nbroken\n");
    let found = played.doctor(&library);
    assert_eq!(found["state"], "warn", "{found:#}");
    played.play("");
}
