//! The certificates of authorities that a connection with TLS trusts.

use std::path::Path;
use std::sync::Arc;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Maximum bytes of a file of certificates. Those of a system have a quarter of a million.
const MAX: u64 = 4 << 20;

/// Where systems keep the certificates that they trust: Debian and Alpine, Fedora, openSUSE, and what several link to these.
static OF_SYSTEM: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The certificates of a file, or those that the system trusts, in PEM format.
///
/// # Errors
/// The file cannot be read or has no certificate, or the system has no such file.
pub fn roots(file: Option<&Path>) -> Result<String, String> {
    let found = OF_SYSTEM.iter().map(Path::new).find(|path| path.is_file());
    let path = file.or(found).ok_or("this system has no file of trusted certificates: name one")?;
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let bytes = weir_files::read_named(Path::new(""), path, MAX).map_err(|error| wrong(&error))?;
    let text = String::from_utf8(bytes).map_err(|_| wrong(&"expected certificates in PEM format"))?;
    store(&text).map_err(|error| wrong(&error))?;
    Ok(text)
}

/// The certificates of a text. Those that cannot be read are left out, as long as one can.
fn store(text: &str) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(CertificateDer::pem_slice_iter(text.as_bytes()).flatten());
    if store.is_empty() { Err("expected certificates in PEM format".to_owned()) } else { Ok(store) }
}

/// The settings of a client that trusts the certificates of a text.
///
/// # Errors
/// The text has no certificate.
pub(super) fn client(text: &str) -> Result<Arc<ClientConfig>, String> {
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(Arc::new(config.with_root_certificates(store(text)?).with_no_client_auth()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_certificates_is_refused_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        assert!(roots(Some(&file)).unwrap_err().contains("ca.pem: "));
        std::fs::write(&file, "nothing").unwrap();
        assert!(roots(Some(&file)).unwrap_err().ends_with("ca.pem: expected certificates in PEM format"));
        let key = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        std::fs::write(&file, key.cert.pem()).unwrap();
        assert_eq!(roots(Some(&file)).unwrap(), key.cert.pem());
    }
}
