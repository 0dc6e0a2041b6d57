//! Messages in the name of others, about what did not happen, or to hide.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use testkit::install;

use crate::common::{Row, guest, is_root, program, simple};
use crate::stage::{Attack, Scene, Seen, Table, unless};
use crate::users::{ACCOMPLICE, ATTACKER, VICTIM};

fn forge(scene: &Scene, kind: &str, mark: &str) -> Command {
    let mut command = scene.command("attack_forge", ATTACKER);
    command.args([scene.socket(), kind, mark]);
    command
}

fn run(scene: &mut Scene, command: &mut Command) {
    let output = command.output().unwrap();
    scene.check(output.status.success(), format!("the attack itself failed: {command:?}: {output:?}"));
    // A message that waits for its program is given up, and counted, after a second.
    scene.let_victim_run(60);
}

/// No record has the content that was made up.
fn nowhere(seen: &Seen, mark: &str) -> Vec<String> {
    let rows = seen.rows("made-up");
    let forged: Vec<&Row> = rows.iter().filter(|row| row["argv"][1] == mark).collect();
    let of_whom = |row: &&Row| format!("{} (uid {})", row["exe"], row["uid"]);
    let what: Vec<String> = forged.iter().map(of_whom).collect();
    unless(forged.is_empty(), format!("{mark}: a record was made up: {}", what.join(", ")))
}

/// A message that is not its sender's own is dropped, and counted.
fn dropped(mark: &'static str) -> impl Fn(&Seen) -> Vec<String> {
    move |seen| {
        let uncounted = unless(seen.refused() > 0, format!("{mark}: the message is not counted as refused"));
        [nowhere(seen, mark), uncounted].concat()
    }
}

#[test]
fn messages_in_the_name_of_others_are_dropped() {
    if !is_root("messages_in_the_name_of_others_are_dropped") {
        return;
    }
    let mut table = Table::new("Forged senders", "");
    let setuid = |scene: &mut Scene| {
        let helper = scene.node().dir.path().join("helper");
        install(&program("attack_root", "cc", "attack_root.c", &["-static"]), &helper, "4755");
        run(scene, forge(scene, "setuid", "as-root").arg(&helper));
    };
    table.play("a child sends for a set-user-ID program", setuid, dropped("as-root"));
    let child = |scene: &mut Scene| run(scene, &mut forge(scene, "child", "by-child"));
    table.play("a child sends on its parent's connection", child, dropped("by-child"));
    let cross = |scene: &mut Scene| {
        let mut command = forge(scene, "cross", "by-another");
        run(scene, command.args([ATTACKER.to_string(), ACCOMPLICE.to_string()]).uid(0).gid(0));
    };
    table.play("another user sends on a connection passed to them", cross, dropped("by-another"));
    table.play("in the name of a process number used again", reuse, dropped("by-number"));
    table.finish();
}

/// A process of the victim's gets the number of one that has connected for the attacker, and is gone.
fn reuse(scene: &mut Scene) {
    for _ in 0..50 {
        let mut attack = Attack::start(&mut forge(scene, "reuse", "by-number"));
        let wanted = attack.number();
        fs::write("/proc/sys/kernel/ns_last_pid", (wanted - 1).to_string()).unwrap();
        let mut command =
            Command::new(program("attack_processes", "cc", "attack_processes.c", &["-pthread"]));
        command.args(["stay", "1"]).env_clear().uid(VICTIM).gid(VICTIM).stdin(Stdio::piped());
        let mut stays = command.spawn().unwrap();
        let is_again = u64::from(stays.id()) == wanted;
        if is_again {
            // By now the agent knows the new process.
            scene.let_victim_run(10);
        }
        attack.go_on();
        attack.end();
        if is_again {
            scene.let_victim_run(10);
        }
        drop(stays.stdin.take());
        stays.wait().unwrap();
        if is_again {
            return;
        }
    }
    scene.problem("no process number was used again in 50 attempts");
}

#[test]
fn messages_about_what_did_not_happen_are_dropped() {
    if !is_root("messages_about_what_did_not_happen_are_dropped") {
        return;
    }
    let mut table = Table::new("Forged times and second messages", "");
    for (name, kind, mark) in [
        ("a time an hour ahead", "future", "in-future"),
        ("a time an hour ago", "past", "in-past"),
        ("the largest time", "largest", "never"),
    ] {
        let attack = |scene: &mut Scene| run(scene, &mut forge(scene, kind, mark));
        table.play(name, attack, dropped(mark));
    }
    let twice = |scene: &mut Scene| run(scene, &mut forge(scene, "twice", "again"));
    table.play("two messages about one program", twice, |seen| {
        // The first is a good one: if it were not taken, no attack here would prove anything.
        let first = seen.rows("again-first").len();
        let not_taken =
            unless(first == 1, format!("{first} records of the program that sent a good message"));
        [dropped("again-second")(seen), not_taken].concat()
    });
    let behind = |scene: &mut Scene| {
        let mut command = forge(scene, "twice", "behind");
        run(scene, command.env("LD_PRELOAD", guest()).env("JOBGLASS_SOCKET", scene.socket()));
    };
    table.play("two messages behind the preload library's own", behind, |seen| {
        let rows = seen.rows("behind");
        let own = rows.iter().filter(|row| row["argv"][2] == "twice" && row["argv"][3] == "behind").count();
        let lost = unless(own == 1, format!("{own} records with the program's own arguments"));
        [dropped("behind-first")(seen), dropped("behind-second")(seen), lost].concat()
    });
    table.finish();
}

/// Only the agent's own rules suppress a record.
#[test]
fn programs_cannot_hide_themselves() {
    if !is_root("programs_cannot_hide_themselves") {
        return;
    }
    let skipped = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs/skipped");
    install(&simple("nothing"), &skipped, "755");
    let rules = format!("[privacy]\nskip_programs = [\"{}\"]\n", skipped.display());
    let mut table = Table::new("Suppressed records", &rules);
    let attack = |scene: &mut Scene| {
        for number in 0..3 {
            run(scene, &mut forge(scene, "suppress", &format!("hide-{number}")));
            let mut with_library = forge(scene, "suppress", &format!("hide-also-{number}"));
            run(scene, with_library.env("LD_PRELOAD", guest()).env("JOBGLASS_SOCKET", scene.socket()));
        }
        let mut command = Command::new(&skipped);
        command.arg("by-rule").env_clear().env("LD_PRELOAD", guest()).env("JOBGLASS_SOCKET", scene.socket());
        run(scene, command.uid(ATTACKER).gid(ATTACKER));
    };
    table.play("six programs ask not to be recorded, one is in the rules", attack, |seen| {
        let found = |needle: &str| seen.rows(needle).iter().filter(|row| row["uid"] == ATTACKER).count();
        let hidden =
            [("\"hide-0\"", 1), ("\"hide-1\"", 1), ("\"hide-2\"", 1), ("hide-also-", 3), ("by-rule", 0)];
        let wrong = hidden.iter().filter(|(needle, expected)| found(needle) != *expected);
        wrong
            .map(|(needle, expected)| format!("{needle}: {} records, not {expected}", found(needle)))
            .collect()
    });
    table.finish();
}
