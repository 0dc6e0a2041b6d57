//! What the agent says to whoever reads its log.

use std::fmt::Display;
use std::io::Write;

/// A line in the log. A log that cannot be written, on a full disk for example, is no reason to stop.
pub fn say(what: impl Display) {
    let _ = writeln!(std::io::stderr(), "jobglass agent: {what}");
}
