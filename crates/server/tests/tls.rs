//! TLS: who vouches for the server, and a certificate that is renewed while it runs.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use testkit::{Killed, wait_for, wait_until};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// A certificate that vouches for itself, and its key.
fn certify(dir: &Path) {
    let output = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ])
        .args(["-subj", "/CN=jobglass test", "-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
        .arg(dir.join("new.key"))
        .arg("-out")
        .arg(dir.join("new.pem"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Whoever renews a certificate writes two files, one after the other.
    fs::rename(dir.join("new.key"), dir.join("server.key")).unwrap();
    fs::rename(dir.join("new.pem"), dir.join("server.pem")).unwrap();
}

/// Whether somebody who trusts these certificates gets an answer.
fn is_trusted(address: SocketAddr, trusted: &[u8]) -> bool {
    let certificates: Vec<Certificate<'static>> = parse_pem(trusted)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    let tls = TlsConfig::builder().root_certs(RootCerts::new_with_certs(&certificates)).build();
    let config = ureq::Agent::config_builder().tls_config(tls).timeout_global(Some(Duration::from_secs(10)));
    config.build().new_agent().get(format!("https://{address}/health")).call().is_ok()
}

#[test]
fn a_certificate_is_renewed_while_the_server_runs() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    certify(dir.path());
    let first = fs::read(path("server.pem")).unwrap();
    let server = Command::new(env!("CARGO_BIN_EXE_jobglass-server"))
        .args(["--listen", "127.0.0.1:0", "--data"])
        .arg(path("data"))
        .arg("--tls-cert")
        .arg(path("server.pem"))
        .arg("--tls-key")
        .arg(path("server.key"))
        .stderr(Stdio::from(fs::File::create(path("log")).unwrap()))
        .spawn()
        .unwrap();
    let _server = Killed(server);
    let log = || String::from_utf8(fs::read(path("log")).unwrap()).unwrap();
    let address: SocketAddr = wait_for("the server to be ready", || {
        let text = log();
        let (_, rest) = text.split_once("ready address=")?;
        rest.split(' ').next()?.parse().ok()
    });
    assert!(is_trusted(address, &first), "{}", log());
    certify(dir.path());
    let second = fs::read(path("server.pem")).unwrap();
    wait_until("the new certificate to be used", || is_trusted(address, &second));
    assert!(!is_trusted(address, &first), "the old one vouches for nothing any more");
    // One that is damaged is not taken; the last good one stays.
    fs::write(path("server.pem"), "damaged").unwrap();
    assert!(is_trusted(address, &second), "{}", log());
    let plain =
        ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(5))).build().new_agent();
    assert!(plain.get(format!("http://{address}/health")).call().is_err(), "nothing is told without TLS");
}
