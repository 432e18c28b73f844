//! Events by POST over HTTP and HTTPS.

use super::{Answer, Destination};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls::crypto::ring::default_provider;
use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// Maximum bytes of an answer that are read.
const MAX_ANSWER: u64 = 64 << 10;

/// A webhook.
pub struct Webhook {
    agent: Agent,
    url: String,
    /// Key of the signatures; without one there are none.
    secret: Option<Vec<u8>>,
}

impl Webhook {
    /// A webhook, without a connection yet, that trusts the certificates of `roots`. `patience` is the time of a whole request. It uses
    /// no proxy, and follows no redirect.
    pub fn new(url: String, secret: Option<Vec<u8>>, roots: Option<&str>, patience: Duration) -> Self {
        let provider = Arc::new(default_provider());
        let mut secure = TlsConfig::builder().unversioned_rustls_crypto_provider(provider);
        if let Some(text) = roots {
            let found = parse_pem(text.as_bytes()).filter_map(|item| match item {
                Ok(PemItem::Certificate(certificate)) => Some(certificate),
                _ => None,
            });
            secure =
                secure.root_certs(RootCerts::new_with_certs(&found.collect::<Vec<Certificate<'static>>>()));
        }
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .user_agent("weir")
            .timeout_global(Some(patience))
            .tls_config(secure.build());
        Self { agent: config.build().into(), url, secret }
    }
}

impl Destination for Webhook {
    fn send(&mut self, message: &[u8]) -> Answer {
        let mut request = self.agent.post(&self.url).header("content-type", "application/json");
        if let Some(secret) = &self.secret {
            request = request.header("x-weir-signature", signature(secret, message));
        }
        let mut answer = match request.send(message) {
            Ok(answer) => answer,
            Err(error) => return Answer::Failed(error.to_string()),
        };
        // A connection whose answer was read is used again.
        let _ = answer.body_mut().with_config().limit(MAX_ANSWER).read_to_vec();
        let status = answer.status().as_u16();
        let why = format!("answered with {status}");
        match status {
            200..=299 => Answer::Sent,
            429 | 500..=599 => Answer::Failed(why),
            _ => Answer::Refused(why),
        }
    }
}

/// The value of the header with the signature of a body.
fn signature(secret: &[u8], body: &[u8]) -> String {
    // A key of any length is one.
    let Ok(mut mac) = <Hmac<Sha256> as Mac>::new_from_slice(secret) else { return String::new() };
    mac.update(body);
    let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test case 2.
    #[test]
    fn a_signature_is_that_of_the_standard() {
        assert_eq!(
            signature(b"Jefe", b"what do ya want for nothing?"),
            "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }
}
