//! The connection to a server, for whoever speaks to one: agent, commands, doctor.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

const CONNECT: Duration = Duration::from_secs(5);

/// Why there can be no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("cannot read {}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{} has no certificate in it", .0.display())]
    NoCertificate(PathBuf),
}

/// Trusts the certificates in `ca_file`, or those of Mozilla's list; waits `answer` for a whole answer.
pub fn connect(ca_file: Option<&Path>, answer: Duration, name: &str) -> Result<Agent, ConnectError> {
    let mut tls = TlsConfig::builder();
    if let Some(path) = ca_file {
        let text = fs::read(path).map_err(|source| ConnectError::File { path: path.to_owned(), source })?;
        let certificate = |item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        };
        let certificates: Vec<Certificate<'static>> = parse_pem(&text).filter_map(certificate).collect();
        if certificates.is_empty() {
            return Err(ConnectError::NoCertificate(path.to_owned()));
        }
        tls = tls.root_certs(RootCerts::new_with_certs(&certificates));
    }
    let config = Agent::config_builder()
        .tls_config(tls.build())
        .http_status_as_error(false)
        .timeout_connect(Some(CONNECT))
        .timeout_global(Some(answer))
        .user_agent(format!("{name}/{}", env!("CARGO_PKG_VERSION")))
        .build();
    Ok(config.new_agent())
}
