//! The address of a webhook.

use crate::place::Place;
use std::fmt;
use ureq::http::Uri;

/// Its name among the outputs.
pub const NAME: &str = "webhook";

/// Where events are posted to. Its path may be a secret.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Address {
    text: String,
    place: Place,
    is_secure: bool,
}

impl Address {
    /// The host and the port.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Whether it is one of HTTPS.
    pub fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// The address without its path.
    pub fn server(&self) -> String {
        format!("{}://{}", if self.is_secure { "https" } else { "http" }, self.place)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl std::str::FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "expected an address such as `https://host.example/path`".to_owned();
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let (is_secure, port) = match uri.scheme_str() {
            Some("https") => (true, 443),
            Some("http") => (false, 80),
            _ => return Err(wrong()),
        };
        let authority = uri.authority().ok_or_else(wrong)?;
        let place = Place::parse(authority.as_str(), port).ok_or_else(wrong)?;
        Ok(Self { text: text.to_owned(), place, is_secure })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed() {
        for (text, server, is_secure) in [
            ("https://hook.example/a/secret?b=c", "https://hook.example:443", true),
            ("http://192.0.2.1", "http://192.0.2.1:80", false),
            ("https://[2001:db8::1]:8443/", "https://[2001:db8::1]:8443", true),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!((address.to_string().as_str(), address.server().as_str()), (text, server));
            assert_eq!(address.is_secure(), is_secure);
        }
        for wrong in
            ["", "hook.example", "ftp://hook.example", "https://", "/path", "https://ann:pass@hook.example/"]
        {
            let error = wrong.parse::<Address>().unwrap_err();
            assert!(error.starts_with("expected an address"), "{wrong}: {error}");
        }
    }
}
