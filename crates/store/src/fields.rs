//! The fields that expressions and queries over a store may name: those of flows, and of every table of records.

use super::moment::Moments;
use std::collections::BTreeSet;
use std::path::Path;
use weir_api::web;
use weir_filter::FLOW;
use weir_filter::fields::{FieldInfo, FieldKind, Fields};
use weir_output::fields::kind_of;
use weir_proto::{Field, Kind, Privacy, Table};

/// Times in expressions.
const TIMES: &str = "a time such as `now`, `2026-03-15`, `\"3 days ago 14:05\"` or seconds since the epoch";

/// Bytes of a file of `in @FILE`.
const MAX_FILE: u64 = 64 << 20;

/// A field of a flow.
pub struct FlowField {
    /// Its name.
    pub name: &'static str,
    /// The kind of its values.
    pub kind: FieldKind,
    /// One line for the manual.
    pub help: &'static str,
    /// Source of its values.
    pub source: FlowSource,
}

/// The place of a flow's field in a store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FlowSource {
    /// An expression over columns.
    Column(&'static str),
    /// As a column, with words that are values too.
    Words(&'static str),
    /// Sum of members of the detail.
    Detail(&'static [&'static str]),
}

macro_rules! flow_fields {
    ($($name:literal $kind:ident $source:expr, $help:literal;)*) => {
        /// Every field of a flow.
        pub static FLOW_FIELDS: &[FlowField] =
            &[$(FlowField { name: $name, kind: FieldKind::$kind, help: $help, source: $source }),*];
    };
}

use FlowSource::{Column, Detail, Words};

flow_fields! {
    "bytes" Number Column("fbytes + rbytes"), "Bytes on the wire, in both directions.";
    "sent_bytes" Number Column("fbytes"), "Bytes that the client sent.";
    "received_bytes" Number Column("rbytes"), "Bytes that the server sent.";
    "packets" Number Column("fpackets + rpackets"), "Packets, in both directions.";
    "sent_packets" Number Column("fpackets"), "Packets that the client sent.";
    "received_packets" Number Column("rpackets"), "Packets that the server sent.";
    "duration" Duration Column("(last - first) / 1e9"), "Time from the first packet to the last, in seconds.";
    "first" Time Column("first / 1e9"), "Time of the first packet.";
    "last" Time Column("last / 1e9"), "Time of the last packet.";
    "state" Text Column("state"), "State of the connection, as in Zeek's conn.log.";
    "service" Text Words("service"), "Protocols identified in the flow, separated by blanks.";
    "name" Text Column("name"), "Name that the client had resolved to the server's address.";
    "client" Address Column("src"), "Address of the client, the initiator.";
    "client_port" Number Column("sport"), "Port of the client; for ICMP, the type.";
    "server" Address Column("dst"), "Address of the server, the responder.";
    "server_port" Number Column("dport"), "Port of the server; for ICMP, the code.";
    "ip_proto" Number Column("proto"), "Number of the IP protocol.";
    "vlan" Number Column("nullif(vlan, 0)"), "Outer VLAN identifier.";
    "inner_vlan" Number Detail(&["inner_vlan"]), "Inner VLAN identifier.";
    "tunnel" Text Detail(&["tunnel"]), "Kind of the tunnel that carried the flow.";
    "community_id" Text Detail(&["community_id"]), "Community ID: a hash of the flow's addresses, ports and protocol that other programs write, too.";
    "history" Text Detail(&["history"]), "Letters of the connection's events, as in Zeek's conn.log.";
    "reason" Text Detail(&["reason"]), "Why the flow ended.";
    "interface" Number Detail(&["interface"]), "Number of the interface that captured the flow.";
    "payload_bytes" Number Detail(&["payload_bytes", "reverse_payload_bytes"]), "Bytes of payload, in both directions.";
    "sent_payload_bytes" Number Detail(&["payload_bytes"]), "Bytes of payload that the client sent.";
    "received_payload_bytes" Number Detail(&["reverse_payload_bytes"]), "Bytes of payload that the server sent.";
    "retransmitted" Number Detail(&["retransmitted", "reverse_retransmitted"]), "Retransmitted segments, in both directions.";
    "sent_retransmitted" Number Detail(&["retransmitted"]), "Segments that the client retransmitted.";
    "received_retransmitted" Number Detail(&["reverse_retransmitted"]), "Segments that the server retransmitted.";
    "missed_bytes" Number Detail(&["missed_bytes", "reverse_missed_bytes"]), "Bytes of streams that the sensor did not see.";
    "bad_checksums" Number Detail(&["bad_checksums", "reverse_bad_checksums"]), "Packets with a wrong checksum.";
    "later_fragments" Number Detail(&["later_fragments", "reverse_later_fragments"]), "IP fragments other than the first one of their packet; they have no ports.";
    "sent_tcp_flags" Text Detail(&["tcp_flags"]), "TCP flags that the client set: the letters of CWR, ECE, URG, ACK, PSH, RST, SYN and FIN, with a dot for each that is not set.";
    "received_tcp_flags" Text Detail(&["reverse_tcp_flags"]), "TCP flags that the server set, in the notation of sent_tcp_flags.";
    "sent_ttl" Number Detail(&["ttl"]), "Time to live of the client's packets.";
    "received_ttl" Number Detail(&["reverse_ttl"]), "Time to live of the server's packets.";
    "client_mac" Text Detail(&["mac"]), "Hardware address that sent the client's packets on the link: its own, or a router's.";
    "server_mac" Text Detail(&["reverse_mac"]), "Hardware address that sent the server's packets on the link: its own, or a router's.";
}

impl FlowField {
    /// The field of a name.
    pub fn find(name: &str) -> Option<&'static FlowField> {
        FLOW_FIELDS.iter().find(|field| field.name == name)
    }
}

/// The tables of a name; several protocols can share one.
pub fn tables(name: &str) -> impl Iterator<Item = &'static Table> {
    weir_proto::tables().filter(move |table| table.name == name)
}

/// Whether values of a field can be below zero.
pub fn can_be_negative(field: FieldInfo) -> bool {
    fn is_signed(kind: &Kind) -> bool {
        match kind {
            Kind::Int | Kind::Real => true,
            Kind::List(of) | Kind::Set(of) => is_signed(of),
            _ => false,
        }
    }
    let mut known = tables(field.table).flat_map(|table| table.fields);
    known.any(|known| known.name == field.name && is_signed(&known.kind))
}

/// The fields that a column of the name `table_field` can be made of by a function, each with its table.
fn of_column_name(name: &str) -> impl Iterator<Item = (&'static Table, &'static Field)> + '_ {
    weir_proto::tables().flat_map(move |table| {
        let field = name.strip_prefix(table.name).and_then(|rest| rest.strip_prefix('_'));
        table.fields.iter().filter(move |known| Some(known.name) == field).map(move |known| (table, known))
    })
}

/// The field, as `table.field`, whose name a function made the name `table_field` of a column of.
pub fn of_column(name: &str) -> Option<String> {
    of_column_name(name).next().map(|(table, field)| format!("{}.{}", table.name, field.name))
}

/// Whether a field, or a field of its rows, holds payload.
pub fn is_payload(field: &Field) -> bool {
    matches!(field.privacy, Privacy::Content | Privacy::Secret)
        || matches!(field.kind, Kind::Rows(fields) if fields.iter().any(is_payload))
}

/// Whether a column that a function made of a field of records, as `table_field`, has values that hold payload.
pub(crate) fn column_holds_payload(name: &str) -> bool {
    of_column_name(name).any(|(_, field)| is_payload(field))
}

/// The kind's word in answers.
fn kind_word(kind: FieldKind) -> &'static str {
    match kind {
        FieldKind::Bool => "bool",
        FieldKind::Number => "number",
        FieldKind::Duration => "duration",
        FieldKind::Time => "time",
        FieldKind::Text => "text",
        FieldKind::Address => "address",
    }
}

/// The fields of flows and of every table of records, as answers describe them.
pub fn described() -> Vec<web::FieldTable> {
    let of_flows = FLOW_FIELDS.iter().map(|field| web::TestedField {
        name: field.name.to_owned(),
        help: field.help.to_owned(),
        kind: kind_word(field.kind).to_owned(),
        list: matches!(field.source, FlowSource::Words(_)),
        payload: false,
        aliases: Vec::new(),
    });
    let mut found = vec![web::FieldTable {
        name: FLOW.to_owned(),
        help: "Properties of flows.".to_owned(),
        fields: of_flows.collect(),
    }];
    for table in weir_proto::tables() {
        let at = found.iter().position(|known| known.name == table.name).unwrap_or_else(|| {
            found.push(web::FieldTable {
                name: table.name.to_owned(),
                help: table.help.to_owned(),
                fields: Vec::new(),
            });
            found.len() - 1
        });
        let Some(known) = found.get_mut(at) else { continue };
        for field in table.fields {
            if !known.fields.iter().any(|other| other.name == field.name) {
                known.fields.push(described_field(table.name, field));
            }
        }
    }
    found
}

fn described_field(table: &str, field: &Field) -> web::TestedField {
    let key = match field.eve.split_once('.') {
        Some((front, key)) if front == table => key,
        _ => field.eve,
    };
    let mut aliases: Vec<String> = Vec::new();
    for other in [field.zeek, key] {
        if !other.is_empty() && other != field.name && !aliases.iter().any(|known| known == other) {
            aliases.push(other.to_owned());
        }
    }
    web::TestedField {
        name: field.name.to_owned(),
        help: field.help.to_owned(),
        kind: kind_word(kind_of(field.kind)).to_owned(),
        list: matches!(field.kind, Kind::List(_) | Kind::Set(_) | Kind::Rows(_)),
        payload: is_payload(field),
        aliases,
    }
}

/// The files that `in @FILE` may read. Paths are relative to a folder.
#[derive(Clone, Copy, Debug, Default)]
pub enum Lists<'m> {
    /// None: the text is that of a client.
    #[default]
    None,
    /// Those of these names: the text is that of a client, which may name the lists of the running configuration.
    Known(&'m Path, &'m BTreeSet<String>),
    /// All: the text is that of the command line or of the configuration's file.
    All(&'m Path),
}

impl Lists<'_> {
    /// The content of a list.
    ///
    /// # Errors
    ///
    /// The text may not name the file, or the file cannot be read. The reason is the same for files that exist and for others
    /// where the text may not name them.
    pub fn read(self, path: &str) -> Result<Vec<u8>, String> {
        let folder = match self {
            Lists::None => {
                return Err("the pages cannot read files: use `weir query` or weir.toml".to_owned());
            }
            Lists::Known(_, known) if !known.contains(path) => {
                return Err("only lists that the running configuration names can be used here; others are read after weir.toml \
                    itself is changed, at the next start or SIGHUP"
                    .to_owned());
            }
            Lists::Known(folder, _) | Lists::All(folder) => folder,
        };
        weir_files::read_named(folder, Path::new(path), MAX_FILE).map_err(|error| error.to_string())
    }
}

/// The registry of a store's fields.
pub struct StoreFields<'m> {
    /// Whether fields that hold payload may be tested.
    pub payload: bool,
    /// The files that lists may be read from.
    pub lists: Lists<'m>,
    /// Zone and `now` of times.
    pub moments: &'m Moments,
}

impl Fields for StoreFields<'_> {
    fn tables(&self) -> Vec<&'static str> {
        let mut names: Vec<&str> = weir_proto::tables().map(|table| table.name).chain([FLOW]).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn names(&self, table: &str) -> Vec<&'static str> {
        if table == FLOW {
            return FLOW_FIELDS.iter().map(|field| field.name).collect();
        }
        weir_output::fields::names(table)
    }

    fn find(&self, table: &str, name: &str) -> Result<Option<FieldInfo>, String> {
        if table == FLOW {
            let found = FlowField::find(name);
            return Ok(found.map(|field| FieldInfo {
                table: FLOW,
                name: field.name,
                kind: field.kind,
                place: weir_output::flow_fields::flow_field(field.name).unwrap_or(FieldInfo::STORED),
            }));
        }
        let Some((found, field)) = weir_output::fields::find(table, name) else { return Ok(None) };
        if !self.payload && is_payload(field) {
            return Err(format!("{}.{} holds payload: it needs the right packets", found.table, found.name));
        }
        Ok(Some(found))
    }

    fn time(&self, text: &str) -> Result<f64, String> {
        let moment = self.moments.parse(text);
        moment.map(|moment| moment.from as f64 / 1e9).map_err(|_| TIMES.to_owned())
    }

    fn list(&self, path: &str) -> Result<Vec<u8>, String> {
        self.lists.read(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry(moments: &Moments) -> StoreFields<'_> {
        StoreFields { payload: true, lists: Lists::None, moments }
    }

    #[test]
    fn every_field_of_every_table_is_found_by_its_name() {
        let moments = Moments::default();
        let known = registry(&moments);
        let mut count = 0;
        for table in known.tables() {
            for name in known.names(table) {
                let found = known.find(table, name).unwrap().unwrap();
                assert_eq!((found.table, found.name), (table, name));
                count += 1;
            }
        }
        assert!(count > 500, "{count}");
    }

    #[test]
    fn every_field_is_described_once_and_its_aliases_find_it() {
        let moments = Moments::default();
        let known = registry(&moments);
        let tables = described();
        assert_eq!(tables[0].name, FLOW);
        let mut names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, known.tables());
        for table in &tables {
            let mut fields: Vec<&str> = table.fields.iter().map(|field| field.name.as_str()).collect();
            fields.sort_unstable();
            let mut all = known.names(&table.name);
            all.sort_unstable();
            assert_eq!(fields, all, "{}", table.name);
            for field in &table.fields {
                assert!(!field.help.is_empty(), "{}.{}", table.name, field.name);
                for alias in &field.aliases {
                    assert!(known.find(&table.name, alias).unwrap().is_some(), "{}.{alias}", table.name);
                }
            }
        }
        let http = tables.iter().find(|table| table.name == "http").unwrap();
        let status = http.fields.iter().find(|field| field.name == "status_code").unwrap();
        assert_eq!((status.kind.as_str(), status.list, status.payload), ("number", false, false));
        assert!(status.aliases.contains(&"status".to_owned()), "{:?}", status.aliases);
        assert!(http.fields.iter().any(|field| field.name == "user_agent" && field.payload));
    }

    #[test]
    fn names_of_other_programs_stand_for_fields() {
        let moments = Moments::default();
        let known = registry(&moments);
        for (table, other, name) in [
            ("http", "status", "status_code"),
            ("http", "http_user_agent", "user_agent"),
            ("tls", "sni", "server_name"),
            ("dns", "qtype_name", "type_name"),
            ("x509", "certificate.not_valid_after", "not_after"),
            ("x509", "san.dns", "dns_names"),
        ] {
            let found = known.find(table, other).unwrap().unwrap_or_else(|| panic!("{table}.{other}"));
            assert_eq!((found.table, found.name), (table, name));
        }
    }

    #[test]
    fn columns_of_fields_with_payload_are_known() {
        for (column, holds) in [
            ("http_user_agent", true),
            ("http_host", false),
            ("dns_query", false),
            ("records", false),
            ("source", false),
        ] {
            assert_eq!(column_holds_payload(column), holds, "{column}");
        }
        for table in weir_proto::tables() {
            for field in table.fields {
                let column = format!("{}_{}", table.name, field.name);
                assert!(column_holds_payload(&column) || !is_payload(field), "{column}");
            }
        }
    }

    #[test]
    fn payload_is_withheld() {
        let moments = Moments::default();
        let bare = StoreFields { payload: false, ..registry(&moments) };
        assert!(bare.find("http", "user_agent").unwrap_err().contains("the right packets"));
        assert!(bare.find("http", "host").unwrap().is_some());
        assert!(bare.list("/etc/passwd").is_err());
    }

    #[test]
    fn clients_read_no_files_but_the_lists_of_the_configuration() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["known", "secret"] {
            std::fs::write(folder.path().join(name), "192.0.2.1\n").unwrap();
        }
        let known = BTreeSet::from(["known".to_owned()]);
        let lists = Lists::Known(folder.path(), &known);
        assert_eq!(lists.read("known").unwrap(), b"192.0.2.1\n");
        let refused = lists.read("secret").unwrap_err();
        let whole = folder.path().join("known");
        for path in ["", "absent", "./known", "../known", whole.to_str().unwrap(), "/etc/passwd"] {
            assert_eq!(lists.read(path).unwrap_err(), refused, "{path}");
            assert!(Lists::None.read(path).is_err());
        }
        assert!(Lists::None.read("known").is_err());
        assert_eq!(Lists::All(folder.path()).read("secret").unwrap(), b"192.0.2.1\n");
    }
}
