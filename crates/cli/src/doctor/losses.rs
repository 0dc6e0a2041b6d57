//! What is left out on purpose, and what was lost: the answer to "why is this run missing?".

use agent::clock::wall_ns;
use agent::counters::Counters;
use record::rules::{Rules, Section};

use super::report::Check;
use super::spool::Content;
use super::{Node, counted};

/// Counters that mean a loss, and what can be done about each.
const LOSSES: &[(&str, &str)] = &[
    ("guest_messages_bad", "guests of another version run, or a program plays with the socket"),
    (
        "guest_messages_flood",
        "a user starts more programs than messages_per_second allows; raise it if that is meant",
    ),
    (
        "guest_messages_unmatched",
        "the processes were not seen by the kernel's events: are they in another pid namespace?",
    ),
    ("guest_lost", "the agent was too slow for 3 ms, or a sandbox cut the guest off: see queue, events_lost"),
    ("images_dropped_spool", "make room on the disk, or raise spool.max_mib"),
    ("images_dropped_queue", "the disk is too slow: put the spool on another one"),
    ("events_lost", "the agent did not get the processor in time: look at CPUQuota, nice and limits.cpus"),
    ("stats_overruns", "the agent did not get the processor in time: look at CPUQuota, nice and limits.cpus"),
    (
        "mappings_lost",
        "programs mapped code faster than the agent read of it; files of short programs may be missing",
    ),
    ("files_dropped", "too many new files at once; they are looked at when they are seen again"),
    ("late_unwatched", "raise limits.guests, and LimitNOFILE of the unit"),
    ("programs_without_path", "very short programs without the guest: nothing can be done but to load it"),
];

pub fn check(node: &Node, spool: &Content) -> Vec<Check> {
    let mut checks = vec![filters(node, spool)];
    checks.extend(losses(spool));
    checks
}

/// Which rules suppress records, and how many they have.
fn filters(node: &Node, spool: &Content) -> Check {
    const NAME: &str = "filters";
    let table = node.rules();
    let Some(rules) = Rules::new(&table) else {
        return Check::skip(NAME, "there are no valid rules to look at");
    };
    let list = |section| {
        let entries: Vec<_> =
            rules.entries(section).map(|rule| String::from_utf8_lossy(rule).into_owned()).collect();
        if entries.is_empty() { "none".to_owned() } else { entries.join(" ") }
    };
    let suppressed = match spool.health() {
        Ok(health) => {
            let n = value(&health.counters, "suppressed_by_rule");
            format!("{} suppressed since the agent's start", counted(n, "image", "images"))
        }
        Err(_) => "how many they suppressed is in the spool, which cannot be read here".to_owned(),
    };
    let (programs, users) = (list(Section::SkipExe), list(Section::SkipUid));
    let finding = format!("skipped programs: {programs}; skipped users: {users}; {suppressed}");
    if rules.skips_uid(node.uid.to_string().as_bytes()) {
        let advice = format!(
            "your own programs are not recorded: privacy.skip_uids in {}",
            node.config_path.display()
        );
        return Check::warn(NAME, finding, advice);
    }
    Check::ok(NAME, finding)
}

/// One line for each kind of loss since the agent's start.
fn losses(spool: &Content) -> Vec<Check> {
    const NAME: &str = "losses";
    let health = match spool.health() {
        Ok(health) => health,
        Err(why) => return vec![Check::skip(NAME, why)],
    };
    let lost = LOSSES.iter().filter_map(|(name, advice)| {
        let n = value(&health.counters, name);
        let finding = || format!("{name} = {n}: {}", meaning(name));
        (n > 0).then(|| Check::warn(NAME, finding(), *advice))
    });
    let lost: Vec<Check> = lost.collect();
    if lost.is_empty() {
        let age = wall_ns().saturating_sub(health.time) / 1_000_000_000;
        return vec![Check::ok(NAME, format!("none, says the agent's report of {age} s ago"))];
    }
    lost
}

fn value(counters: &[(String, u64)], name: &str) -> u64 {
    counters.iter().find(|(known, _)| known == name).map_or(0, |(_, value)| *value)
}

fn meaning(name: &str) -> &'static str {
    Counters::MEANINGS.iter().find(|(known, _)| *known == name).map_or("", |(_, meaning)| meaning.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_loss_is_a_counter_with_a_meaning() {
        for (name, _) in LOSSES {
            assert!(!meaning(name).is_empty(), "{name}");
        }
    }
}
