//! The table `[server]`: the server of the pages, and its users.

use super::Setting;
use super::fault::Fault;
use super::read::{ConfigReader, Key};
use std::net::IpAddr;
use std::path::PathBuf;
use toml::de::DeTable;

/// The server's settings in a file. A missing one has the default of the command line.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Server {
    /// Address; `None`: both loopback addresses.
    pub listen: Setting<Option<IpAddr>>,
    /// TCP port.
    pub port: Setting<Option<u16>>,
    /// Path of the certificate (PEM).
    pub tls_cert: Setting<Option<PathBuf>>,
    /// Path of the private key (PEM).
    pub tls_key: Setting<Option<PathBuf>>,
    /// Path of the file of users.
    pub users: Setting<Option<PathBuf>>,
    /// Path of the file of tokens.
    pub tokens: Setting<Option<PathBuf>>,
    /// Path of the access log.
    pub access_log: Setting<Option<PathBuf>>,
}

const FILE: &str = "a file, such as \"/etc/weir/users\"";

pub(super) static KEYS: [Key<Server>; 7] = [
    Key {
        name: "listen",
        takes: "an address, such as \"192.0.2.1\" or \"::\"",
        read: |r, node, server| {
            let wrong = || "not an IPv4 or IPv6 address".to_owned();
            let address = r.parsed(node, |text| text.parse().map_err(|_| wrong()));
            r.set(node, address.map(Some), &mut server.listen);
        },
    },
    Key {
        name: "port",
        takes: "a whole number from 1 to 65535",
        read: |r, node, server| {
            let port = r.integer(node, 1, 65_535).map(|port| Some(port as u16));
            r.set(node, port, &mut server.port);
        },
    },
    Key { name: "tls_cert", takes: FILE, read: |r, node, server| r.set_path(node, &mut server.tls_cert) },
    Key { name: "tls_key", takes: FILE, read: |r, node, server| r.set_path(node, &mut server.tls_key) },
    Key { name: "users", takes: FILE, read: |r, node, server| r.set_path(node, &mut server.users) },
    Key { name: "tokens", takes: FILE, read: |r, node, server| r.set_path(node, &mut server.tokens) },
    Key { name: "access_log", takes: FILE, read: |r, node, server| r.set_path(node, &mut server.access_log) },
];

/// Checks that certificate and private key are given together.
pub(super) fn check(r: &mut ConfigReader<'_>, table: &DeTable<'_>) {
    for (one, other) in [("tls_cert", "tls_key"), ("tls_key", "tls_cert")] {
        if let (Some(node), false) = (table.get(one), table.contains_key(other)) {
            r.faults.push(Fault::new(node.span(), format!("{one} without {other}")));
        }
    }
}
