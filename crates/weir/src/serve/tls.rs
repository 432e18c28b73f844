//! The certificate and private key for TLS.

use crate::private;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Reads the certificate and key, both PEM.
///
/// # Errors
/// The error, with the path of the file.
pub fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor, String> {
    let wrong = |path: &Path, what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
    let chain: Vec<CertificateDer<'static>> = private::open(certificate)
        .map(|file| CertificateDer::pem_reader_iter(BufReader::new(file)))
        .map_err(|error| wrong(certificate, &error))?
        .collect::<Result<_, _>>()
        .map_err(|error| wrong(certificate, &error))?;
    if chain.is_empty() {
        return Err(wrong(certificate, &"expected a certificate in PEM format"));
    }
    let secret = PrivateKeyDer::from_pem_slice(&private::read(key)?).map_err(|error| wrong(key, &error))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(|error| wrong(key, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
