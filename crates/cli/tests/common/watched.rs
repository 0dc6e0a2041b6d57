//! A server, and an agent that sends to it: what the agent reads is asked for as people ask.

use tempfile::TempDir;

use crate::common::{Node, Row, parse};
use crate::server::Server;

/// Both are stopped at the end.
pub struct Watched {
    pub server: Server,
    pub node: Node,
    pub dir: TempDir,
}

impl Watched {
    /// With this in the agent's configuration, under `[sampling]`.
    pub fn start(sampling: &str) -> Watched {
        Watched::start_in(tempfile::tempdir().unwrap(), sampling)
    }

    /// The same, with all files of the server in this directory.
    pub fn start_in(dir: TempDir, sampling: &str) -> Watched {
        let server = Server::start(dir.path().to_owned(), None);
        server.wait_ready();
        let node = Node::configured(&format!(
            "[server]\nurl = \"{}\"\ntoken_file = \"{}\"\n[sampling]\n{sampling}",
            server.url(),
            server.data.join("ingest.token").display(),
        ));
        Watched { server, node, dir }
    }

    /// The rows of an answer; none if there is nothing.
    pub fn ask(&self, arguments: &[&str]) -> Vec<Row> {
        let output = self.server.ask(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{arguments:?}: {said}");
        parse(&output)
    }

    /// What a job reserved and used; null if nothing was measured.
    pub fn resources(&self, job: &str) -> Row {
        self.ask(&["job", job, "--resources", "--json"]).into_iter().next().unwrap_or(Row::Null)
    }

    /// The ends and lengths of a metric's spans, in seconds, with the first one (from the beginning of the job) left out.
    pub fn spans(&self, job: &str, metric: &str) -> Vec<(f64, f64)> {
        let rows = self.ask(&["series", job, metric, "--json"]);
        let at = |row: &Row, name: &str| {
            let time: jiff::Timestamp = row[name].as_str().unwrap().parse().unwrap();
            time.as_nanosecond() as f64 / 1e9
        };
        rows.iter().skip(1).map(|row| (at(row, "to"), at(row, "to") - at(row, "from"))).collect()
    }
}
