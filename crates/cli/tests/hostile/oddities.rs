//! Smaller attacks that reading the code suggests: names that are no text, numbers that overflow, processes in odd states.

use std::os::unix::process::CommandExt;
use std::process::Command;

use serde_json::Value;

use crate::common::{guest, is_root};
use crate::stage::{Attack, Scene, Seen, Table, unless};
use crate::users::ATTACKER;

/// With the preload library: a program may be gone before anybody else can look at it.
fn processes(scene: &Scene) -> Command {
    let mut command = scene.command("attack_processes", ATTACKER);
    command.env("LD_PRELOAD", guest()).env("JOBGLASS_SOCKET", scene.socket());
    command
}

fn start(scene: &Scene, kind: &str, count: u32, size: u32) -> Attack {
    let mut command = processes(scene);
    let mut attack = Attack::start(command.args([kind, &count.to_string(), &size.to_string()]));
    attack.number();
    attack
}

fn send(scene: &Scene, kind: &str, mark: &str) {
    let mut command = scene.command("attack_messages", ATTACKER);
    Attack::start(command.args([scene.socket(), kind, "3", mark])).end();
}

#[test]
fn odd_processes_are_recorded_like_others() {
    if !is_root("odd_processes_are_recorded_like_others") {
        return;
    }
    let mut table = Table::new("Odd processes", "");
    let attack = |scene: &mut Scene| {
        for (kind, count) in [
            ("names", 30),
            ("titles", 20),
            ("memory", 20),
            ("sessions", 300),
            ("copies", 300),
            ("threads", 10_000),
        ] {
            start(scene, kind, count, 0).end();
        }
        let program = processes(scene).get_program().to_owned();
        let mut inside = Command::new("unshare");
        inside.args(["--user", "--pid", "--fork"]).arg(program).args(["linger", "1", "in-pid-namespace"]);
        let inside = inside.env_clear().env("PATH", "/usr/bin").uid(ATTACKER).gid(ATTACKER);
        scene.check(inside.status().unwrap().success(), "no process namespace could be made");
        // Nobody can look into these while they are stopped, and everybody tries.
        let stopped = start(scene, "stopped", 50, 0);
        scene.let_victim_run(80);
        stopped.end();
    };
    table.play("names, titles, sessions, copies, threads, stopped processes", attack, |seen: &Seen| {
        let images = |needle: &str| seen.images_of(ATTACKER, needle);
        let rows = seen.rows(&format!("\"uid\":{ATTACKER},"));
        let strange = rows.iter().filter(|row| row["exe"].as_str().is_some_and(|exe| exe.contains("/f")));
        let strange = strange.count();
        let none = unless(strange >= 30, format!("{strange} of 30 programs with strange names are recorded"));
        let memory = images("memfd:nowhere");
        let no_memory = unless(memory >= 20, format!("{memory} of 20 programs without a file are recorded"));
        let inside = seen.rows("in-pid-namespace").iter().filter(|row| row["argv"][1] == "linger").count();
        let no_inside = unless(inside == 1, format!("{inside} records of a program in a process namespace"));
        [none, no_memory, no_inside].concat()
    });
    table.finish();
}

#[test]
fn numbers_and_environments_cannot_break_the_agent() {
    if !is_root("numbers_and_environments_cannot_break_the_agent") {
        return;
    }
    let mut table = Table::new("Numbers and environments", "");
    let numbers = |scene: &mut Scene| {
        send(scene, "numbers", "numbers");
        send(scene, "repeat", "repeat");
    };
    table.play("the largest numbers, every key many times", numbers, |seen: &Seen| {
        // What a process says that it used is never more than the kernel can have counted.
        let too_much = |value: &Value| value.as_f64().is_some_and(|value| value > 1e15);
        let rows = seen.rows("numbers");
        let absurd = rows
            .iter()
            .filter(|row| ["user_cpu_s", "read_bytes", "write_bytes"].iter().any(|key| too_much(&row[*key])));
        let absurd = absurd.count();
        unless(absurd == 0, format!("{absurd} records with absurd numbers"))
    });
    let environment = |scene: &mut Scene| {
        for (name, value) in [
            ("JOBGLASS_RATE", "0.000000001s"),
            ("JOBGLASS_RATE", "-1"),
            ("JOBGLASS_RATE", "99999999999999999999999s"),
            ("SLURM_JOB_ID", "18446744073709551616"),
            ("SLURM_JOB_ID", "../../etc/passwd"),
            ("SLURM_PROCID", "4294967296"),
            ("SLURM_CLUSTER_NAME", "another\u{1b}[31mcluster"),
            ("container", "\u{fffd}\u{7f}\n"),
            ("LOADEDMODULES", ":::::::"),
        ] {
            let mut command = processes(scene);
            assert!(command.args(["exit", "1", "odd"]).env(name, value).status().unwrap().success());
        }
    };
    table.play("odd variables", environment, |seen: &Seen| {
        let rows = seen.rows("\"odd\"");
        unless(rows.len() == 9, format!("{} of 9 programs with odd variables are recorded", rows.len()))
    });
    table.finish();
}
