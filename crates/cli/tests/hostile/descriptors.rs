//! Descriptors passed with messages: closing one may take as long as its sender likes, and only the sender waits for it.

use std::cell::Cell;
use std::time::Duration;

use crate::common::is_root;
use crate::stage::{Attack, Scene, Seen, Table, comes, unless};
use crate::users::ATTACKER;

/// How long closing one of the attackers' sockets takes: longer than any check waits.
const LINGER_SECONDS: &str = "60";
/// A flood is refused soon.
const CONFIG: &str = "messages_per_second = 300\nmessages_burst = 300\n";

fn pass(scene: &Scene, kind: &str, count: u32) -> Attack {
    let mut command = scene.command("attack_descriptors", ATTACKER);
    let count = count.to_string();
    let mut attack = Attack::start(command.args([scene.socket(), kind, &count, LINGER_SECONDS]));
    attack.number();
    attack
}

/// Others' messages arrive as on a quiet node, a new configuration is read, and the agent ends when it is told to.
fn check_response(scene: &mut Scene, quiet: Option<Duration>) {
    let attacked = scene.latency("while-attacked");
    scene.check_slower("another user's record", quiet, attacked);
    let reloads = |scene: &Scene| scene.node().log().matches("configuration read again").count();
    let before = reloads(scene);
    scene.signal("HUP");
    scene.check(comes(5, || reloads(scene) > before), "SIGHUP was not obeyed");
}

#[test]
fn descriptors_that_take_long_to_close_stop_only_their_sender() {
    if !is_root("descriptors_that_take_long_to_close_stop_only_their_sender") {
        return;
    }
    let mut table = Table::new("Descriptors", CONFIG);
    for (name, kind, count) in [
        ("a lingering socket in the first message", "first", 8),
        ("three lingering sockets in a message", "several", 4),
        ("a lingering socket in a second message", "second", 8),
        ("a lingering socket with what is no message", "silent", 8),
        ("lingering sockets on connections that are refused", "refused", 8),
        ("a lingering socket in the queue of another", "nested", 8),
        ("descriptors of other kinds", "mixed", 60),
        ("250 pieces of memory in each of 40 messages", "many", 40),
        ("600 connections without a message", "mute", 600),
        ("shared memory in every state", "late", 60),
    ] {
        let took = Cell::new(Duration::ZERO);
        let attack = |scene: &mut Scene| {
            let quiet = scene.latency("quiet");
            let attack = pass(scene, kind, count);
            check_response(scene, quiet);
            scene.let_victim_run(20);
            scene.settle_victim();
            // The peers are still open: what is not closed by now takes its time.
            took.set(scene.stop_agent());
            attack.end();
        };
        table.play(name, attack, |_: &Seen| stopped_soon(took.get()));
    }
    table.finish();
}

fn stopped_soon(took: Duration) -> Vec<String> {
    unless(took < Duration::from_secs(5), format!("the agent ended {took:?} after SIGTERM"))
}

/// Connections that nobody has accepted are closed with the listener.
#[test]
fn unaccepted_connections_do_not_keep_the_agent_from_ending() {
    if !is_root("unaccepted_connections_do_not_keep_the_agent_from_ending") {
        return;
    }
    let mut table = Table::new("The end of the agent", CONFIG);
    let took = Cell::new(Duration::ZERO);
    let attack = |scene: &mut Scene| {
        scene.let_victim_run(20);
        scene.settle_victim();
        scene.signal("STOP");
        let attack = pass(scene, "several", 30);
        scene.signal("TERM");
        scene.signal("CONT");
        took.set(scene.stop_agent());
        attack.end();
    };
    table.play("90 lingering sockets in the backlog", attack, |_: &Seen| stopped_soon(took.get()));
    table.finish();
}
