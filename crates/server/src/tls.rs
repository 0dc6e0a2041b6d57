//! The server's certificate, read again when its file has changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use anyhow::Context;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;

/// A certificate with its key.
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    current: Mutex<(Option<SystemTime>, Arc<ServerConfig>)>,
}

impl Tls {
    /// Reads both files, or says which one is wrong.
    pub fn open(certificate: &Path, key: &Path) -> anyhow::Result<Tls> {
        let config = read(certificate, key)?;
        let current = Mutex::new((changed(certificate), Arc::new(config)));
        Ok(Tls { certificate: certificate.to_owned(), key: key.to_owned(), current })
    }

    /// What the next connection uses. A new certificate that cannot be used leaves the old one.
    pub fn config(&self) -> Arc<ServerConfig> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = changed(&self.certificate);
        if stamp != current.0 {
            current.0 = stamp;
            match read(&self.certificate, &self.key) {
                Ok(config) => {
                    tracing::info!(certificate = %self.certificate.display(), "a new certificate");
                    current.1 = Arc::new(config);
                }
                Err(error) => tracing::error!("the old certificate stays in use: {error:#}"),
            }
        }
        current.1.clone()
    }
}

fn changed(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|meta| meta.modified()).ok()
}

fn read(certificate: &Path, key: &Path) -> anyhow::Result<ServerConfig> {
    let in_certificate = || format!("cannot read the certificate {}", certificate.display());
    let chain: Vec<CertificateDer> = CertificateDer::pem_file_iter(certificate)
        .and_then(|certificates| certificates.collect())
        .with_context(in_certificate)?;
    let secret = PrivateKeyDer::from_pem_file(key)
        .with_context(|| format!("cannot read the key {}", key.display()))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .with_context(|| format!("{} and {} do not belong together", certificate.display(), key.display()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
