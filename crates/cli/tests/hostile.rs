//! Users against an agent: whatever their processes send or do, the agent stays within its limits and other users lose nothing.
//!
//! The agent runs with the capabilities, limits and memory of the unit that is shipped. A victim's programs run alongside every
//! attack, and each of them must have a complete record. Every test prints a table of what it did.

mod common;
#[path = "common/unit.rs"]
mod unit;

#[path = "hostile/descriptors.rs"]
mod descriptors;
#[path = "hostile/forgery.rs"]
mod forgery;
#[path = "hostile/memory.rs"]
mod memory;
#[path = "hostile/oddities.rs"]
mod oddities;
#[path = "hostile/paths.rs"]
mod paths;
#[path = "hostile/stage.rs"]
mod stage;
#[path = "hostile/users.rs"]
mod users;
#[path = "hostile/victim.rs"]
mod victim;

use std::fs;

use common::is_root;
use unit::{Confined, Unit};

/// The harness itself: what the unit says is what the agent has.
#[test]
fn the_agent_has_the_units_capabilities_and_limits() {
    if !is_root("the_agent_has_the_units_capabilities_and_limits") {
        return;
    }
    let unit = Unit::shipped();
    let confined = Confined::start("");
    let read = |file: &str| {
        let text = fs::read(format!("/proc/{}/{file}", confined.node.agent_pid())).unwrap();
        String::from_utf8(text).unwrap()
    };
    let status = read("status");
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
        line.unwrap_or_else(|| panic!("no {name}")).trim().to_owned()
    };
    let expected = format!("{:016x}", capability_mask(&unit.capabilities()));
    for set in ["CapBnd", "CapPrm", "CapEff"] {
        assert_eq!(field(set), expected, "{set}");
    }
    assert_eq!((field("CapInh"), field("NoNewPrivs")), ("0".repeat(16), "1".into()));
    assert_eq!(field("Uid").split_whitespace().next(), Some("0"));
    let limits = read("limits");
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(files.split_whitespace().nth(4), Some(unit.descriptors().to_string().as_str()), "{files}");
    assert_eq!(confined.groups.memory_limit(), unit.memory_max());
    assert!(read("cgroup").contains("jobglass-unit-"), "{}", read("cgroup"));
}

/// Numbers of `linux/capability.h`.
fn capability_mask(names: &[String]) -> u64 {
    const KNOWN: [(&str, u32); 7] = [
        ("chown", 0),
        ("dac_read_search", 2),
        ("net_admin", 12),
        ("sys_ptrace", 19),
        ("syslog", 34),
        ("perfmon", 38),
        ("checkpoint_restore", 40),
    ];
    let number = |name: &String| {
        let known = KNOWN.iter().find(|(known, _)| known == name);
        known.unwrap_or_else(|| panic!("add the number of CAP_{name}")).1
    };
    names.iter().map(|name| 1 << number(name)).sum()
}
