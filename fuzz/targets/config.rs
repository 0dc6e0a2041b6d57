//! The agent's configuration file: whatever was typed is a configuration or an error, never a panic.
#![no_main]

use std::path::Path;

use agent::config::Config;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match Config::parse(Path::new("fuzz.toml"), bytes) {
        Ok(config) => {
            // What was accepted must be usable, too.
            config.rules().expect("rules that were checked");
            let _ = (config.names(), config.rate(), config.spool_limits(), config.hash_limits());
            let _ = config.fold_rules();
        }
        Err(error) => drop(error.to_string()),
    }
});
