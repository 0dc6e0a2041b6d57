//! What the node is made of, as it is recorded.

use record::reading::Hardware;
use sample::node::hardware;

/// Reads it. `cards` are the models of the GPUs, which drivers know.
pub fn read(cards: Vec<String>) -> Hardware {
    record(&hardware::Hardware::read("/proc", "/sys"), cards)
}

fn record(found: &hardware::Hardware, cards: Vec<String>) -> Hardware {
    let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
    let peak = &found.peak;
    Hardware {
        model: found.processor.model.as_ref().map(text),
        sockets: found.topology.sockets,
        cores: found.topology.cores,
        threads: found.topology.threads,
        memory: found.memory,
        numa: Some(found.numa.len() as u64).filter(|domains| *domains > 0),
        peak_flops: peak.flops,
        peak_rule: Some(peak.rule.clone()).filter(|rule| !rule.is_empty()),
        cards,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_node_is_described_and_what_is_unknown_is_absent() {
        let here = read(vec!["A100".into()]);
        assert!(here.threads.is_some_and(|threads| threads > 0) && here.memory.is_some(), "{here:?}");
        assert!(here.peak_rule.is_some(), "{here:?}");
        let nothing = record(&hardware::Hardware::default(), Vec::new());
        assert_eq!(nothing, Hardware::default());
    }
}
