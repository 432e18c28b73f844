//! Names of services: the protocols that were identified, and by port only where none was.

use crate::{Applications, ports};
use std::net::IpAddr;
use weir_api::Key;

/// The mark after a name that the port suggests and no content confirms.
const BY_PORT: char = '?';
/// The least share of a port's bytes, as a divisor, with which a second protocol is named.
const SECOND: u64 = 10;

/// How services are named.
#[derive(Clone, Copy, Debug, Default)]
pub struct Naming<'a> {
    /// The protocols that were identified.
    applications: Option<&'a Applications<'a>>,
    is_numeric: bool,
}

impl<'a> Naming<'a> {
    /// Names by content where a protocol was identified, else by port.
    pub fn by_content(applications: &'a Applications<'_>) -> Self {
        Self { applications: Some(applications), is_numeric: false }
    }

    /// No names.
    pub fn numeric() -> Self {
        Self { applications: None, is_numeric: true }
    }

    /// [`Self::by_content`] with `names`, else [`Self::numeric`].
    pub fn of(applications: &'a Applications<'_>, names: bool) -> Self {
        if names { Self::by_content(applications) } else { Self::numeric() }
    }

    /// The name of a port of an IP protocol, on one server or on all: `http`; `tls+http` if a second protocol has a
    /// tenth of the bytes; `https?` if only the port suggests it.
    pub fn service(&self, ip_proto: u8, port: u16, server: Option<IpAddr>) -> Option<String> {
        if self.is_numeric || !ports::has_ports(ip_proto) {
            return None;
        }
        self.identified(ip_proto, port, server)
            .or_else(|| ports::service(ip_proto, port).map(|name| format!("{name}{BY_PORT}")))
    }

    /// The protocols that were identified in most of a port's bytes.
    pub fn identified(&self, ip_proto: u8, port: u16, server: Option<IpAddr>) -> Option<String> {
        let shares = self.applications?.shares(ip_proto, port, server);
        let mut ranked: Vec<(&str, u64)> = shares.iter().map(|share| (share.name, share.bytes)).collect();
        ranked.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        let all: u64 = ranked.iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes));
        let (first, rest) = ranked.split_first()?;
        let first = Some(first.0).filter(|name| !name.is_empty())?;
        let second = rest.iter().filter(|(_, bytes)| bytes.saturating_mul(SECOND) >= all);
        let second = second.map(|(name, _)| *name).find(|name| !name.is_empty());
        Some(second.map_or_else(|| first.to_owned(), |second| format!("{first}+{second}")))
    }

    /// The name of a key's service.
    pub fn of_key(&self, key: &Key) -> Option<String> {
        match *key {
            Key::Port { protocol, port } => self.service(protocol, port, None),
            Key::Talker { protocol, port, server, .. } => self.service(protocol, port, Some(server)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// The applications of flows of TCP: port, server, protocol and bytes.
    fn applications<'a>(flows: &[(u16, IpAddr, &'a str, u64)]) -> Applications<'a> {
        let (mut ports, mut servers) = (BTreeMap::new(), BTreeMap::new());
        for (port, server, name, bytes) in flows {
            *ports.entry(((*port, 6), *name)).or_default() += bytes;
            *servers.entry((*server, (*port, 6), *name)).or_default() += bytes;
        }
        Applications::of_sums(&ports, &servers)
    }

    #[test]
    fn content_names_a_service_and_the_port_only_suggests_one() {
        let [one, other] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse::<IpAddr>().unwrap());
        let mut flows = vec![
            (443, one, "ssh", 1_000),
            (443, other, "tls", 10_000),
            (80, one, "http", 900),
            (80, one, "tls", 100),
            (80, one, "", 500),
            (21, one, "", 501),
            (21, one, "ftp", 500),
            (8000, one, "http", 1),
        ];
        let found = applications(&flows);
        let naming = Naming::by_content(&found);
        let name = |port, server| naming.service(6, port, server);
        assert_eq!(name(443, Some(one)).as_deref(), Some("ssh"));
        assert_eq!(name(443, Some(other)).as_deref(), Some("tls"));
        assert_eq!(name(443, None).as_deref(), Some("tls"));
        assert_eq!(name(80, None).as_deref(), Some("http"));
        assert_eq!(name(8000, Some(other)).as_deref(), Some("http"), "as elsewhere on that port");
        assert_eq!(name(21, None).as_deref(), Some("ftp?"), "most of it is unidentified");
        assert_eq!(name(25, None).as_deref(), Some("smtp?"));
        assert_eq!(name(40_000, None), None);
        assert_eq!(naming.service(1, 0, None), None);
        assert_eq!(Naming::numeric().service(6, 80, None), None);
        flows.push((80, one, "tls", 1_000));
        assert_eq!(
            Naming::by_content(&applications(&flows)).service(6, 80, None).as_deref(),
            Some("tls+http")
        );
    }
}
