//! The table `[packets]`: the packet file of the run, as -w writes it.

use super::Setting;
use super::read::{ConfigReader, Key, Node};
use std::path::PathBuf;
use toml::de::DeTable;

/// The packet file, and how its files follow each other.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Packets {
    /// Path of the file of matching packets. strftime(3) sequences in its name are expanded.
    pub write: Setting<Option<PathBuf>>,
    /// Nanoseconds after which a new file begins.
    pub rotate: Setting<Option<u64>>,
    /// Bytes before which a new file begins.
    pub rotate_size: Setting<Option<u64>>,
    /// Number of files that are kept.
    pub files: Setting<Option<u32>>,
    /// Path of the file of packets of unidentified flows.
    pub unidentified: Setting<Option<PathBuf>>,
}

/// A path of a file that is no standard stream.
fn file(r: &mut ConfigReader<'_>, node: &Node<'_>) -> Option<PathBuf> {
    let path = r.path(node).filter(|path| path.as_os_str() != "-");
    if path.is_none() && node.get_ref().as_str() == Some("-") {
        r.refuse(node.span(), "standard output is for -w on the command line");
    }
    path
}

pub(super) static KEYS: [Key<Packets>; 5] = [
    Key {
        name: "write",
        takes: "a file, such as \"/var/lib/weir/packets.pcapng\"",
        read: |r, node, packets| {
            let path = file(r, node);
            r.set(node, path.map(Some), &mut packets.write);
        },
    },
    Key {
        name: "unidentified",
        takes: "a file, such as \"/var/lib/weir/unidentified.pcapng\"",
        read: |r, node, packets| {
            let path = file(r, node);
            r.set(node, path.map(Some), &mut packets.unidentified);
        },
    },
    Key {
        name: "rotate",
        takes: "a duration in whole seconds, such as \"10m\", \"1h\" or \"1d\"",
        read: |r, node, packets| {
            let value = r.parsed(node, crate::cli::period).map(Some);
            r.set(node, value, &mut packets.rotate);
        },
    },
    Key {
        name: "rotate_size",
        takes: "an amount, such as \"100M\"",
        read: |r, node, packets| {
            let value = r.parsed(node, crate::cli::bytes).map(Some);
            r.set(node, value, &mut packets.rotate_size);
        },
    },
    Key {
        name: "files",
        takes: "a whole number from 1 to 1000000",
        read: |r, node, packets| {
            let value = r.integer(node, 1, 1_000_000).map(|files| Some(files as u32));
            r.set(node, value, &mut packets.files);
        },
    },
];

/// Refuses rotation of no file.
pub(super) fn check(r: &mut ConfigReader<'_>, table: &DeTable<'_>) {
    r.refuse_without(table, ("write", "a file", "write = \"FILE\""), &["rotate", "rotate_size", "files"]);
}
