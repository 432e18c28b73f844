//! Channels of IRC: Ourmon's table of channels, and the channels of each host.
//!
//! The parser counts the messages of each connection by channel, see [`weir_proto::IRC_CHANNEL`]; here they are added up. Whether a host of
//! a channel scans is decided where the list meets that of `syn`, of the sums of both.

use super::keyed_rows::{KeyedRows, Row, Weighed};
use super::record_key::{self, Keys, TEXT};
use super::{Argument, Arguments, Function, FunctionSpec, InputKind, Memory};
use crate::Item;
use crate::fields::RecordView;
use std::borrow::Cow;
use std::sync::Arc;
use weir_api::{
    Datum, Distinct, DistinctValues, Fold, Folded, KeyColumn, Level, Reading, Schema, Shown, Table,
    TableColumn, TableRow,
};
use weir_filter::fields::FieldValue;
use weir_proto::Value;

pub(super) static IRC: FunctionSpec = FunctionSpec {
    name: "irc",
    help: "Channels of IRC: joins, messages, pings, pongs and hosts of each, or the channels of each host. The hosts are clients. Nothing of the text of messages is read.",
    arguments: &[
        Argument {
            name: "by",
            help: "`channel`: channels, with the number of their hosts; `host`: hosts and channels, with the numbers of each.",
            default: Some("channel"),
        },
        Argument { name: "show", help: "Number of rows to show, 1 to 1000.", default: Some("10") },
        Argument { name: "rows", help: "Number of rows to keep, 16 to 65536.", default: Some("1024") },
    ],
    levels: &[Level::Record],
    input: InputKind::Packets,
    memory: |arguments| {
        let (_, _, rows) = shape(arguments)?;
        let bytes = 1024 + rows * ROW + room(rows);
        Ok(Memory { state: bytes + KeyedRows::<Talk>::doors_of(rows), reading: bytes })
    },
    judge: None,
    delivers: None,
    identifies: false,
    build: |arguments| {
        let (by, show, rows) = shape(arguments)?;
        let schema = Schema {
            name: Cow::Borrowed("irc"),
            keys: Cow::Borrowed(by.keys()),
            columns: Cow::Borrowed(by.columns()),
            shown: Shown::Heaviest(show),
        };
        Ok(Box::new(Irc {
            by,
            schema: Arc::new(schema),
            rows: KeyedRows::new(rows, arguments.seeds.run),
            key: Keys::default(),
            hosts: 0,
        }))
    },
};

/// The tables whose records it reads.
pub(super) const TABLES: [&str; 1] = [weir_proto::IRC_CHANNEL.name];

/// What the rows are by, rows to show, and rows to keep.
fn shape(arguments: &Arguments<'_>) -> Result<(By, u32, usize), String> {
    let by = arguments.choice("by", &[("channel", By::Channel), ("host", By::Host)])?;
    Ok((by, arguments.within("show", 1..=1000)?, arguments.within("rows", 16..=1 << 16)?))
}

/// What a row is of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum By {
    Channel,
    Host,
}

const CHANNEL: KeyColumn =
    KeyColumn::new("channel", "irc.value", "Name of the channel, its ASCII letters in lower case.");
const HOST: KeyColumn = KeyColumn::new("host", "", "The client.");

const TOTAL: TableColumn = messages("total", "Messages of the four kinds.");
const JOINS: TableColumn = messages("joins", "JOINs of clients.");
const MESSAGES: TableColumn = messages("messages", "PRIVMSGs and NOTICEs to the channel, of both sides.");
const PINGS: TableColumn = messages("pings", "PINGs of connections that are in the channel, of both sides.");
const PONGS: TableColumn = messages("pongs", "PONGs of connections that are in the channel, of both sides.");
const HOSTS: TableColumn = TableColumn::new("hosts", Fold::Distinct, "", "Distinct clients.");

const fn messages(name: &'static str, help: &'static str) -> TableColumn {
    TableColumn::new(name, Fold::Sum, "messages", help)
}

impl By {
    fn keys(self) -> &'static [KeyColumn] {
        static BY_CHANNEL: [KeyColumn; 1] = [CHANNEL];
        static BY_HOST: [KeyColumn; 2] = [HOST, CHANNEL];
        match self {
            Self::Channel => &BY_CHANNEL,
            Self::Host => &BY_HOST,
        }
    }

    fn columns(self) -> &'static [TableColumn] {
        static BY_CHANNEL: [TableColumn; 6] = [TOTAL, JOINS, MESSAGES, PINGS, PONGS, HOSTS];
        static BY_HOST: [TableColumn; 5] = [TOTAL, JOINS, MESSAGES, PINGS, PONGS];
        match self {
            Self::Channel => &BY_CHANNEL,
            Self::Host => &BY_HOST,
        }
    }
}

/// Maximum bytes of a row without its hosts, with its place in the index. A byte that is no text becomes three.
const ROW: usize = 2 * (size_of::<TableRow>() + size_of::<Row<Talk>>())
    + 6 * size_of::<Folded>()
    + 2 * size_of::<Datum>()
    + 3 * TEXT
    + 64;

/// Bytes that all rows share for their hosts: sixteen for each row, and as if 64 rows had as many as are counted.
fn room(rows: usize) -> usize {
    rows * 16 * size_of::<u128>() + 64 * Distinct::SIZE
}

/// What is counted of a row.
#[derive(Clone, Debug, Default)]
struct Talk {
    /// Joins, messages, pings and pongs.
    counts: [u64; 4],
    hosts: DistinctValues,
    /// Records whose host found no room. They count to the error, so that a row without one lacks nothing.
    uncounted: u64,
}

/// Rows are ranked by their messages.
impl Weighed for Talk {
    fn weight(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    fn memory(&self) -> usize {
        self.hosts.memory()
    }
}

/// A list.
struct Irc {
    by: By,
    schema: Arc<Schema>,
    rows: KeyedRows<Talk>,
    /// Reused memory.
    key: Keys,
    /// Bytes of heap memory of all hosts, with those of displaced rows.
    hosts: usize,
}

impl Irc {
    fn channel(&mut self, view: &RecordView<'_>) {
        let [
            Value::Text(channel),
            Value::Uint(joins),
            Value::Uint(messages),
            Value::Uint(pings),
            Value::Uint(pongs),
        ] = view.record.values.as_slice()
        else {
            return;
        };
        let client = u128::from_be_bytes(view.endpoints.address[0]);
        self.key.clear();
        if self.by == By::Host {
            self.key.push(&FieldValue::Address(client));
        }
        self.key.push(&FieldValue::Text(channel));
        let counts = [*joins, *messages, *pings, *pongs];
        let gain = counts.iter().fold(0, |sum: u64, count| sum.saturating_add(*count));
        // A row that is displaced now gives its room to later ones.
        let room = room(self.rows.capacity()).saturating_sub(self.hosts.saturating_sub(self.rows.freed()));
        let Some(talk) = self.rows.value(self.key.whole(), gain, Talk::default) else { return };
        talk.counts.iter_mut().zip(counts).for_each(|(sum, more)| *sum = sum.saturating_add(more));
        if self.by == By::Channel {
            let before = talk.hosts.memory();
            let counted = talk.hosts.add_within(client, room);
            talk.uncounted += u64::from(counted.is_none());
            self.hosts += talk.hosts.memory().saturating_sub(before);
        }
    }
}

impl Function for Irc {
    fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn item(&mut self, item: &Item<'_>) {
        if let Item::Requested(view) = item
            && *view.record.table == weir_proto::IRC_CHANNEL
        {
            self.channel(view);
        }
    }

    fn take(&mut self) -> Reading {
        let (rows, absent) = self.rows.take();
        self.hosts = 0;
        let by = self.by;
        let rows = rows.into_iter().map(|Row { key, value, error, .. }| {
            let mut values = vec![Folded::Sum(value.weight())];
            values.extend(value.counts.map(Folded::Sum));
            if by == By::Channel {
                values.push(Folded::Distinct(value.hosts));
            }
            TableRow { key: record_key::parts(&key), values, error: error.saturating_add(value.uncounted) }
        });
        Reading::Table(Table::new(Arc::clone(&self.schema), self.rows.capacity(), rows.collect(), absent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::tests::table_of;
    use std::collections::BTreeSet;
    use weir_api::FunctionCall;
    use weir_filter::FlowEndpoints;
    use weir_proto::{IRC_CHANNEL, Record};
    use weir_wire::{Time, mapped};

    /// What a connection of the client 10.0.x.y counted of a channel.
    type Counted = (u16, Vec<u8>, [u64; 4]);

    fn show(function: &mut dyn Function, (client, channel, counts): &Counted) {
        let [high, low] = client.to_be_bytes();
        let address = [mapped([10, 0, high, low]), mapped([192, 0, 2, 1])];
        let endpoints = FlowEndpoints { address, port: [4000, 6667], protocol: 6, vlan: 0 };
        let values = std::iter::once(Value::Text(channel.as_slice().into()));
        let values = values.chain(counts.iter().map(|count| Value::Uint(*count))).collect();
        let record = Record::new(&IRC_CHANNEL, Time(1), values);
        let view = RecordView { endpoints, record: &record };
        function.item(&Item::Requested(&view));
        // What other functions see of a record is not counted.
        function.item(&Item::Record(&view));
    }

    fn table(by: &str, rows: usize, counted: &[Counted], workers: usize) -> Table {
        let call = FunctionCall::new("irc").with("by", by).with("rows", rows);
        table_of(&IRC, &call, (counted, workers), show)
    }

    fn counted(client: u16, channel: &str, counts: [u64; 4]) -> Counted {
        (client, channel.as_bytes().to_vec(), counts)
    }

    fn rows(table: &Table) -> Vec<(Vec<Datum>, Vec<u64>)> {
        let rows = table.rows.by_key().into_iter();
        rows.map(|row| (row.key.clone(), row.values.iter().map(Folded::weight).collect())).collect()
    }

    #[test]
    fn channels_and_hosts_have_their_messages() {
        let all = [
            counted(1, "#a", [1, 2, 0, 0]),
            counted(1, "#a", [0, 0, 3, 4]),
            counted(2, "#a", [1, 0, 0, 0]),
            counted(1, "#b", [1, 5, 0, 0]),
            counted(2, "", [0, 1, 0, 0]),
        ];
        let (text, host) = (
            |text: &str| Datum::Text(text.into()),
            |low: u8| Datum::Address(std::net::IpAddr::from([10, 0, 0, low])),
        );
        let by_channel = vec![
            (vec![text("")], vec![1, 0, 1, 0, 0, 1]),
            (vec![text("#a")], vec![11, 2, 2, 3, 4, 2]),
            (vec![text("#b")], vec![6, 1, 5, 0, 0, 1]),
        ];
        let by_host = vec![
            (vec![host(1), text("#a")], vec![10, 1, 2, 3, 4]),
            (vec![host(1), text("#b")], vec![6, 1, 5, 0, 0]),
            (vec![host(2), text("")], vec![1, 0, 1, 0, 0]),
            (vec![host(2), text("#a")], vec![1, 1, 0, 0, 0]),
        ];
        for (by, expected) in [("channel", by_channel), ("host", by_host)] {
            let whole = table(by, 64, &all, 1);
            assert_eq!(rows(&whole), expected, "{by}");
            assert!(whole.is_exact());
            for workers in [2, 3, 7] {
                assert_eq!(table(by, 64, &all, workers), whole, "{by} {workers}");
            }
        }
    }

    /// Of more channels than rows, each row is right within its error, and no more memory is held than stated.
    #[test]
    fn a_flood_of_channels_is_bounded() {
        let long = "\u{1b}[2J".repeat(70);
        let mut all = Vec::new();
        for n in 0..20_000_u64 {
            all.push(counted(n as u16, &format!("#{n}{long}"), [1, 0, 0, 0]));
            all.push(counted((n % 700) as u16, &format!("#busy{}", n % 5), [0, 2, 0, 0]));
            all.push((3, [b"#".as_slice(), &[0xff; 300], &n.to_be_bytes()].concat(), [0, 0, 1, 0]));
        }
        for by in ["channel", "host"] {
            let stated = IRC.memory(&FunctionCall::new("irc").with("by", by).with("rows", 64)).unwrap();
            for workers in [1, 2] {
                let table = table(by, 64, &all, workers);
                assert!(!table.is_exact() && table.rows.len() <= 64);
                assert!(table.memory() <= stated.reading, "{} > {}", table.memory(), stated.reading);
                if by == "host" {
                    continue;
                }
                for n in 0..5 {
                    let key = [Datum::Text(format!("#busy{n}").into())];
                    let row = table.rows.iter().find(|row| row.key == key).unwrap();
                    assert!(row.weight() <= 8_000 && 8_000 <= row.weight() + row.error, "{row:?}");
                    let hosts = row.values[5].weight();
                    assert!(hosts <= 140 && 140 <= hosts + row.error, "{hosts} + {}", row.error);
                }
            }
        }
    }

    /// Hosts that find no room are in the error of their row.
    #[test]
    fn hosts_without_room_are_in_the_error() {
        let all: Vec<Counted> = (0..400 * 400_u32)
            .map(|n| counted((n % 400) as u16, &format!("#{}", n / 400), [1, 0, 0, 0]))
            .collect();
        let whole = table("channel", 400, &all, 1);
        let shown: BTreeSet<bool> = whole
            .rows
            .iter()
            .map(|row| {
                let hosts = row.values[5].weight();
                assert_eq!(row.weight(), 400);
                // The number of more hosts than are kept one by one is an estimate.
                assert!(hosts <= 400 && hosts + row.error >= 380, "{hosts} + {}", row.error);
                row.error > 0
            })
            .collect();
        assert_eq!(shown, [false, true].into());
        let stated = IRC.memory(&FunctionCall::new("irc").with("rows", 400)).unwrap();
        assert!(whole.memory() <= stated.reading, "{} > {}", whole.memory(), stated.reading);
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for (name, value) in [("by", "port"), ("rows", "15"), ("rows", "65537"), ("show", "0")] {
            let call = FunctionCall::new("irc").with(name, value);
            assert!(IRC.call(&call, 1_u64).is_err(), "{name} = {value}");
            assert!(IRC.memory(&call).is_err(), "{name} = {value}");
        }
    }
}
