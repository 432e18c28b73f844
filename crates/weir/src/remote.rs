//! `weir config apply`: asks a running program to apply a configuration, as its pages do.

use crate::cli::Apply;
use crate::config::{Config, Outcome, Server, load_file, read_text};
use crate::configuration::{Checked, applied_text};
use serde::Deserialize;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls::crypto::ring::default_provider;
use ureq::Agent;
use ureq::http::Response;
use ureq::tls::{Certificate, RootCerts, TlsConfig, parse_pem};
use ureq::{Body, tls};
use weir_output::figures::printable;

/// Time for the whole request. A plan of 10,000 subscriptions compiles in a second.
const PATIENCE: Duration = Duration::from_secs(30);
/// The path of the request.
const PATH: &str = "/api/v1/config/apply";

/// An answer other than 200.
#[derive(Deserialize)]
struct Failure {
    error: String,
    help: Option<String>,
}

/// Sends the file, and prints what it changed. A file with errors is not sent.
pub fn apply(options: &Apply) -> Outcome {
    let config = match load_file(&options.file) {
        Ok(config) => config,
        Err(errors) => return Outcome::failed(errors),
    };
    match ask(options, &config) {
        Ok(checked) => outcome(&options.file, &checked),
        Err(error) => Outcome::failed(format!("weir: {}\n", error.trim_end())),
    }
}

/// What the program answers.
fn ask(options: &Apply, config: &Config) -> Result<Checked, String> {
    let to = options.to.clone().unwrap_or_else(|| address(&config.server));
    let to = to.trim_end_matches('/');
    let text = read_text(&options.file)?;
    let certificate = options.certificate.as_ref().or(config.server.tls_cert.value.as_ref());
    if to.starts_with("https:") && certificate.is_none() {
        return Err(format!("{}: its certificate is needed: --certificate FILE", printable(to)));
    }
    let agent = agent(certificate)?;
    let mut request = agent.post(format!("{to}{PATH}")).header("content-type", "application/json");
    if let Some(path) = &options.token_file {
        let token = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        request = request.header("authorization", format!("Bearer {}", token.trim()));
    }
    let answer = request.send(serde_json::json!({ "text": text }).to_string());
    let answer = answer.map_err(|error| {
        format!("{}: {error}; is `weir serve` running there? --to gives another address", printable(to))
    })?;
    read(answer).map_err(|error| format!("{}: {error}", printable(to)))
}

fn read(mut answer: Response<Body>) -> Result<Checked, String> {
    let status = answer.status();
    let text = answer.body_mut().read_to_string().map_err(|error| error.to_string())?;
    if status.is_success() {
        return serde_json::from_str(&text).map_err(|error| format!("the answer is not understood: {error}"));
    }
    match serde_json::from_str::<Failure>(&text) {
        Ok(Failure { error, help }) => {
            Err(format!("{error}{}", help.map(|help| format!("; {help}")).unwrap_or_default()))
        }
        Err(_) => Err(format!("answered with {status}")),
    }
}

/// A client that waits for a limited time and trusts that certificate. It uses no proxy.
fn agent(certificate: Option<&PathBuf>) -> Result<Agent, String> {
    let mut secure = TlsConfig::builder().unversioned_rustls_crypto_provider(Arc::new(default_provider()));
    if let Some(path) = certificate {
        let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let found: Vec<Certificate<'static>> = parse_pem(&bytes)
            .filter_map(Result::ok)
            .filter_map(|item| match item {
                tls::PemItem::Certificate(certificate) => Some(certificate),
                _ => None,
            })
            .collect();
        if found.is_empty() {
            return Err(format!("{}: expected a certificate in PEM format", path.display()));
        }
        secure = secure.root_certs(RootCerts::new_with_certs(&found));
    }
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(None)
        .timeout_global(Some(PATIENCE))
        .tls_config(secure.build());
    Ok(config.build().into())
}

/// Where the program of a configuration serves its pages.
fn address(server: &Server) -> String {
    let scheme = if server.tls_cert.value.is_some() { "https" } else { "http" };
    let host = match server.listen.value {
        None => "localhost".to_owned(),
        Some(address) if address.is_unspecified() => "localhost".to_owned(),
        Some(IpAddr::V4(v4)) => v4.to_string(),
        Some(IpAddr::V6(v6)) => format!("[{v6}]"),
    };
    format!("{scheme}://{host}:{}", server.port.value.unwrap_or(crate::cli::PORT))
}

/// What is printed: the lines that changed and what needs a restart, or all errors.
fn outcome(file: &Path, checked: &Checked) -> Outcome {
    let file = printable(&file.to_string_lossy());
    if checked.applied {
        let lines: String = checked.difference.lines().map(|line| format!("{}\n", printable(line))).collect();
        let text = applied_text(checked.changed(), &checked.restart);
        return Outcome { stdout: format!("{lines}{text}\n"), ..Outcome::default() };
    }
    let mut errors = String::new();
    for wrong in &checked.errors {
        let place = if wrong.line > 0 { format!(":{}:{}", wrong.line, wrong.column) } else { String::new() };
        let help = wrong.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
        errors.push_str(&printable(&format!("{file}{place}: {}{help}", wrong.message)));
        errors.push('\n');
    }
    Outcome::failed(errors + "nothing was changed\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_follows_from_the_table_of_the_server() {
        let address = |text: &str| address(&crate::config::load(Path::new("F"), text).unwrap().server);
        assert_eq!(address(""), "http://localhost:8470");
        assert_eq!(address("[server]\nlisten = \"192.0.2.1\"\nport = 9\n"), "http://192.0.2.1:9");
        let secure = "[server]\nlisten = \"::\"\ntls_cert = \"c\"\ntls_key = \"k\"\n";
        assert_eq!(address(secure), "https://localhost:8470");
        assert_eq!(address("[server]\nlisten = \"2001:db8::1\"\n"), "http://[2001:db8::1]:8470");
    }
}
