//! The table `[anon]`: anonymisation.

use super::read::{Key, in_order};
use std::path::PathBuf;
use weir_anon::{CLASSES, FieldRule, Mode, Payload, Treatment};

/// The anonymisation settings in a file. A missing one has the default of the command line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Anon {
    /// The mapping of addresses; without it nothing is anonymised.
    pub mode: Option<Mode>,
    /// Path of the file with the key.
    pub key_file: Option<PathBuf>,
    /// Treatment of payload.
    pub payload: Option<Payload>,
    /// Number of seconds by which times are shifted.
    pub shift: Option<f64>,
    /// Whether the vendor half of hardware addresses is kept.
    pub keep_vendors: bool,
    /// Whether top-level domains are replaced by pseudonyms too.
    pub hide_top_domains: bool,
    /// Treatments of classes, in the order of the file.
    pub classes: Vec<(&'static str, Treatment)>,
    /// Treatments of single fields.
    pub fields: Vec<FieldRule>,
}

// The reader refuses a time that is not a number.
impl Eq for Anon {}

/// Maximum shift of times in seconds: about thirty years.
pub const MAX_SHIFT: f64 = 1e9;

pub(super) static KEYS: [Key<Anon>; 8] = [
    Key {
        name: "mode",
        takes: "\"nullip\", \"table\", \"cryptopan\" or \"ipcrypt\"",
        read: |r, node, anon| {
            let names = Mode::ALL.map(|(name, _)| name);
            let word = r.word(node, &names);
            anon.mode = word
                .and_then(|word| Mode::ALL.into_iter().find(|(name, _)| *name == word))
                .map(|(_, mode)| mode);
        },
    },
    Key {
        name: "key_file",
        takes: "a file of 32 bytes or 64 hexadecimal digits, such as \"/etc/weir/key\"",
        read: |r, node, anon| match r.string(node) {
            Some("") => r.refuse(node.span(), "an empty path"),
            path => anon.key_file = path.map(PathBuf::from),
        },
    },
    Key {
        name: "payload",
        takes: "\"cut\", \"blank\" or \"keep\"",
        read: |r, node, anon| {
            let names = Payload::ALL.map(|(name, _)| name);
            let word = r.word(node, &names);
            let found = word.and_then(|word| Payload::ALL.into_iter().find(|(name, _)| *name == word));
            anon.payload = found.map(|(_, payload)| payload);
        },
    },
    Key {
        name: "shift",
        takes: "seconds as text, such as \"-86400\" or \"0.5\"",
        read: |r, node, anon| {
            let Some(text) = r.string(node) else { return };
            match text.parse::<f64>() {
                Ok(seconds) if seconds.abs() <= MAX_SHIFT => anon.shift = Some(seconds),
                _ => r.refuse(node.span(), format!("times cannot be moved by {text:?} seconds")),
            }
        },
    },
    Key {
        name: "keep_vendors",
        takes: "true or false",
        read: |r, node, anon| anon.keep_vendors = r.boolean(node).unwrap_or_default(),
    },
    Key {
        name: "hide_top_domains",
        takes: "true or false",
        read: |r, node, anon| anon.hide_top_domains = r.boolean(node).unwrap_or_default(),
    },
    Key {
        name: "classes",
        takes: "a table, such as { name = \"keep\", url = \"drop\" }",
        read: |r, node, anon| {
            let Some(table) = r.table(node) else { return };
            let treatments = Treatment::ALL.map(|(name, _)| name);
            for (name, value) in in_order(table) {
                let Some((class, _)) = CLASSES.iter().find(|(class, _)| class == name.get_ref()) else {
                    r.unknown_key(name, CLASSES.iter().map(|(class, _)| *class));
                    continue;
                };
                let word = r.word(value, &treatments);
                let found = word.and_then(|word| Treatment::ALL.into_iter().find(|(name, _)| *name == word));
                anon.classes.extend(found.map(|(_, treatment)| (*class, treatment)));
            }
        },
    },
    Key {
        name: "fields",
        takes: "a list of \"PROTOCOL,FIELD,FUNCTION\", such as [\"IP,TTL,ZERO\", \"HTTP,HOST,HASHED,SHA_2,STRIP_REST\"]",
        read: |r, node, anon| {
            for element in r.array(node) {
                let Some(text) = r.string(element) else { continue };
                match text.parse::<FieldRule>() {
                    Ok(rule) => anon.fields.push(rule),
                    Err(error) => r.refuse(element.span(), error),
                }
            }
        },
    },
];
