//! Attacks on the agent's memory and time: whatever one user's processes and messages occupy is bounded, and what does not fit is counted.

use std::cell::Cell;
use std::path::Path;
use std::process::Command;

use crate::common::{guest, is_root, program};
use crate::stage::{Attack, Scene, Seen, Table, comes, no_more, unless};
use crate::users::{ACCOMPLICE, ATTACKER, NEWCOMER, Owner};
use crate::victim::preloaded;

/// Sends messages of a kind; gives how many.
fn send(scene: &Scene, kind: &str, count: u64) -> u64 {
    let mut command = scene.command("attack_messages", ATTACKER);
    let mut attack = Attack::start(command.args([scene.socket(), kind, &count.to_string()]));
    let sent = attack.number();
    attack.end();
    // A message that waits for its process is given up, and counted, after a second.
    scene.let_victim_run(100);
    sent
}

/// Starts processes of a kind, which stay while the victim works; gives how many.
fn start(scene: &Scene, kind: &str, count: u64, size: u64) -> u64 {
    let mut command = scene.command("attack_processes", ATTACKER);
    let mut attack = Attack::start(command.args([kind, &count.to_string(), &size.to_string()]));
    let started = attack.number();
    // The agent looks at a process again after a second.
    scene.let_victim_run(60);
    attack.end();
    started
}

/// Each message was used or counted: none was about a program that ran.
fn all_refused(sent: u64) -> impl Fn(&Seen) -> Vec<String> {
    move |seen| {
        let refused = seen.refused();
        unless(refused >= sent, format!("{sent} messages were sent, {refused} counted as refused"))
    }
}

/// Each process has a record, or is counted as dropped.
fn all_recorded(started: u64) -> impl Fn(&Seen) -> Vec<String> {
    move |seen| {
        let recorded = seen.images_of(ATTACKER, "");
        let dropped = seen.dropped();
        let all = recorded + dropped;
        unless(
            all >= started,
            format!("{started} processes ran, {recorded} recorded, {dropped} counted as dropped"),
        )
    }
}

#[test]
fn messages_take_bounded_memory() {
    if !is_root("messages_take_bounded_memory") {
        return;
    }
    let owner = Owner::create();
    let mut table = Table::new("Messages that are large once decoded", "");
    let sent = Cell::new(0);
    let lists = |scene: &mut Scene| sent.set(send(scene, "empty-lists", 779));
    table.play("779 messages with lists of 8,192 empty items", lists, |seen| all_refused(sent.get())(seen));
    let from_many = |scene: &mut Scene| {
        let mut command = Command::new(program("attack_messages", "cc", "attack_messages.c", &["-pthread"]));
        let well = owner.run(1, 200, command.args([scene.socket(), "empty-lists", "8"]));
        scene.check(well == 200, format!("{well} of 200 subordinate uids sent"));
        scene.let_victim_run(100);
    };
    table.play("the same from 200 subordinate uids", from_many, all_refused(1600));
    let unmatched = |scene: &mut Scene| sent.set(send(scene, "unmatched", 3000));
    table.play("3,000 messages of processes that are gone", unmatched, |seen| all_refused(sent.get())(seen));
    let paths = |scene: &mut Scene| {
        let mut command = scene.command("attack_messages", ATTACKER);
        let mut attack = Attack::start(command.args([scene.socket(), "live", "1000"]));
        attack.number();
        scene.let_victim_run(60);
        attack.end();
    };
    table.play("1,000 programs with 46 kB of library paths each", paths, no_more);
    table.finish();
}

#[test]
fn processes_take_bounded_memory() {
    if !is_root("processes_take_bounded_memory") {
        return;
    }
    let mut table = Table::new("Processes that are large in memory", "");
    for (name, kind, count, size) in [
        ("3,000 processes with 15 kB of arguments", "arguments", 3000, 15_000),
        ("1,000 processes with 250 kB of kept variables", "environment", 1000, 250_000),
        ("3,000 claimed jobs and ranks with 15 kB of arguments", "jobs", 3000, 15_000),
        ("1,500 executables", "files", 1500, 0),
        ("1,000 mount namespaces", "namespaces", 1000, 0),
    ] {
        let started = Cell::new(0);
        let attack = |scene: &mut Scene| started.set(start(scene, kind, count, size));
        table.play(name, attack, |seen| all_recorded(started.get())(seen));
    }
    let execs = |scene: &mut Scene| {
        let mut command = scene.command("attack_processes", ATTACKER);
        scene.check(
            command.args(["execs", "15000"]).output().unwrap().status.success(),
            "the attack itself failed",
        );
    };
    table.play("one process that executes a program 15,000 times", execs, all_recorded(15_000));
    table.finish();
}

/// Two processes send as fast as the limit allows.
#[test]
fn a_flood_within_the_limit_costs_nobody_a_record() {
    if !is_root("a_flood_within_the_limit_costs_nobody_a_record") {
        return;
    }
    let mut table = Table::new("Floods", "");
    let sent = Cell::new(0);
    let flood = |scene: &mut Scene| {
        let quiet = scene.latency("quiet");
        let begin = |_| {
            let mut command = scene.command("attack_messages", ATTACKER);
            Attack::start(command.args([scene.socket(), "heavy", "27500"]))
        };
        let mut attacks: Vec<Attack> = (0..2).map(begin).collect();
        let attacked = scene.latency("while-flooded");
        scene.check_slower("another user's record", quiet, attacked);
        sent.set(attacks.iter_mut().map(Attack::number).sum());
        attacks.into_iter().for_each(Attack::end);
        scene.let_victim_run(100);
    };
    // Two programs, one start message each; all others are too many.
    let refused = |seen: &Seen| all_refused(sent.get() - 2)(seen);
    table.play("55,000 heavy messages from two processes", flood, refused);
    table.finish();
}

/// Subordinate uids count as their owner: what they use up is the owner's.
#[test]
fn subordinate_uids_leave_sockets_for_others() {
    if !is_root("subordinate_uids_leave_sockets_for_others") {
        return;
    }
    let owner = Owner::create();
    let mut table = Table::new("Subordinate uids", "");
    let attack = |scene: &mut Scene| {
        let mut command = Command::new("/bin/true");
        command.env("LD_PRELOAD", guest()).env("JOBGLASS_SOCKET", scene.socket());
        let well = owner.run(1, 4200, &mut command);
        scene.check(well == 4200, format!("{well} of 4,200 subordinate uids ran"));
        for uid in [NEWCOMER, ACCOMPLICE] {
            let one = program("nothing", "cc", "nothing.c", &[]);
            assert!(preloaded(&one, scene.socket(), uid).status().unwrap().success());
            let own = format!("{}.{uid}", scene.socket());
            scene.check(
                comes(5, || Path::new(&own).exists()),
                format!("user {uid} has no socket of their own"),
            );
            assert!(preloaded(&one, scene.socket(), uid).arg("newcomer").status().unwrap().success());
        }
    };
    table.play("4,200 subordinate uids run a program", attack, |seen| {
        let rows = seen.rows("newcomer");
        let heard = rows.iter().filter(|row| crate::common::has_source(row, "guest")).count();
        unless(heard == 2, format!("{heard} of 2 new users' programs have their message"))
    });
    table.finish();
}
