//! Writing flows and records into partitions of time.

use super::late;
use super::schema::{self, Kind, describe};
use crate::Keep;
use crate::StoreError;
use rusqlite::{Connection, params};
use std::path::{Path, PathBuf};
use weir_output::json::Object;
use weir_output::records::json::{Shapes, Style};
use weir_output::row::{COLUMNS, Endpoints, Times, services, write_members};
use weir_output::{FlowIdentity, FlowRecord};
use weir_proto::Record;

/// Columns in the table itself: all other facts of a flow are in its detail.
const IN_TABLE: [&str; 15] = [
    "start",
    "end",
    "uid",
    "protocol",
    "ip_proto",
    "services",
    "source",
    "source_port",
    "destination",
    "destination_port",
    "packets",
    "reverse_packets",
    "state",
    // It follows from the state.
    "state_words",
    "destination_name",
];

/// A flow or a record to write.
#[derive(Clone, Debug)]
pub enum Row {
    /// A flow.
    Flow(Box<FlowRecord>, Option<Box<str>>),
    /// A record.
    Record(Box<RecordRow>),
}

/// A record to write.
#[derive(Clone, Debug)]
pub struct RecordRow {
    table: &'static str,
    flow: FlowIdentity,
    time: u64,
    body: String,
}

impl Row {
    /// Approximate memory of a waiting row in bytes.
    pub fn memory(&self) -> usize {
        size_of::<Row>()
            + match self {
                Row::Flow(_, name) => {
                    size_of::<FlowRecord>() + name.as_ref().map_or(0, |name| name.len() + 16)
                }
                Row::Record(record) => size_of::<RecordRow>() + record.body.capacity(),
            }
    }

    /// Time of the row, in nanoseconds since the epoch.
    pub fn time(&self) -> u64 {
        match self {
            Row::Flow(flow, _) => flow.last.0,
            Row::Record(record) => record.time,
        }
    }
}

/// Builds rows of records.
pub struct Maker(Shapes);

impl Default for Maker {
    fn default() -> Self {
        Self(Shapes::new(Style { times: Times::Epoch, name: |field| field.name, skips_empty: false }))
    }
}

impl Maker {
    /// The values of a record as a JSON object.
    pub fn body(&mut self, record: &Record<'_>) -> String {
        let mut body = Vec::with_capacity(256);
        Object::write(&mut body, |object| self.0.write(object, record.table, &record.values));
        String::from_utf8(body).unwrap_or_default()
    }

    /// The row of a record.
    pub fn record(&mut self, flow: &FlowIdentity, record: &Record<'_>) -> Row {
        let body = self.body(record);
        Row::Record(Box::new(RecordRow { table: record.table.name, flow: *flow, time: record.time.0, body }))
    }
}

/// A partition that is written into.
pub struct Partition {
    connection: Connection,
    path: PathBuf,
    /// The time in its file name.
    begun: u64,
    is_empty: bool,
}

impl Partition {
    /// Continues the last partition of a folder, or creates the first one.
    pub fn open(folder: &Path, now: u64, keep: &Keep) -> Result<Self, StoreError> {
        if let Some((second, path)) = schema::partitions(folder).pop()
            && keep.has_room(second * 1_000_000_000, now, schema::size(&path))
        {
            return Self::at(path, second, keep);
        }
        Self::begin(folder, now, keep)
    }

    /// Creates a new partition. If one of that second exists, the name has the next free second.
    pub fn begin(folder: &Path, now: u64, keep: &Keep) -> Result<Self, StoreError> {
        let mut second = now / 1_000_000_000;
        let name = |second: u64| folder.join(format!("{}{second:012}.db", schema::PARTITION));
        while name(second).exists() {
            second += 1;
        }
        Self::at(name(second), second, keep)
    }

    fn at(path: PathBuf, second: u64, keep: &Keep) -> Result<Self, StoreError> {
        let connection = schema::open(&path, Kind::Rows)?;
        keep.bound_log(&connection).map_err(describe(&path))?;
        let has_rows: bool = connection
            .query_row("SELECT EXISTS (SELECT 1 FROM meta)", [], |row| row.get(0))
            .map_err(describe(&path))?;
        Ok(Self { connection, path, begun: second * 1_000_000_000, is_empty: !has_rows })
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Path of its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The time in its file name: that of its first rows, in nanoseconds since the epoch.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// The database.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Writes rows, all or none. Late segments are added to the row of their connection, here or in the partition before. Returns
    /// the number of flows that could not be added there.
    pub fn write(&mut self, rows: &[Row]) -> Result<u64, StoreError> {
        let describe = describe(&self.path);
        let mut before = late::Before::new(&self.path);
        let transaction = self.connection.transaction().map_err(describe)?;
        {
            let mut flows = transaction
                .prepare_cached(
                    "INSERT INTO flows (uid, first, last, proto, src, sport, dst, dport, fpackets, rpackets, fbytes,
                     rbytes, vlan, state, service, name, detail)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
                )
                .map_err(describe)?;
            let mut records = transaction
                .prepare_cached(
                    "INSERT INTO records (tbl, uid, time, proto, src, sport, dst, dport, vlan, body)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
                )
                .map_err(describe)?;
            let (mut first, mut last) = (u64::MAX, 0);
            for row in rows {
                match row {
                    Row::Flow(flow, _)
                        if flow.follows != 0
                            && (late::add(&transaction, flow).map_err(describe)? || before.has(flow)) => {}
                    Row::Flow(flow, name) => {
                        let (source, destination) = (flow.initiator(), flow.responder());
                        let services = services(flow).collect::<Vec<_>>().join(" ");
                        flows
                            .execute(params![
                                flow.id as i64,
                                flow.first.0 as i64,
                                flow.last.0 as i64,
                                flow.key.proto,
                                source.0,
                                source.1,
                                destination.0,
                                destination.1,
                                flow.forward.packets as i64,
                                flow.reverse.packets as i64,
                                flow.forward.frame_bytes as i64,
                                flow.reverse.frame_bytes as i64,
                                flow.vlan[0],
                                flow.state.name(),
                                (!services.is_empty()).then_some(services),
                                name.as_deref(),
                                detail(flow),
                            ])
                            .map_err(describe)?;
                        first = first.min(flow.first.0);
                    }
                    Row::Record(record) => {
                        let flow = &record.flow;
                        let lower = usize::from(!flow.initiator_is_lower);
                        let end = |at: usize| {
                            let address = flow.key.addr.get(at).copied().unwrap_or_default();
                            (address, flow.key.port.get(at).copied().unwrap_or_default())
                        };
                        let (source, destination) = (end(lower), end(1 - lower));
                        records
                            .execute(params![
                                record.table,
                                flow.id() as i64,
                                record.time as i64,
                                flow.key.proto,
                                source.0,
                                source.1,
                                destination.0,
                                destination.1,
                                flow.vlan[0],
                                record.body,
                            ])
                            .map_err(describe)?;
                        first = first.min(record.time);
                    }
                }
                last = last.max(row.time());
            }
            transaction
                .execute(
                    "INSERT INTO meta VALUES ('first', ?1), ('last', ?2) ON CONFLICT (name) DO UPDATE SET value =
                     CASE name WHEN 'first' THEN min(value, excluded.value) ELSE max(value, excluded.value) END",
                    params![first.min(i64::MAX as u64) as i64, last as i64],
                )
                .map_err(describe)?;
        }
        transaction.commit().map_err(describe)?;
        self.is_empty = false;
        Ok(before.write())
    }
}

/// The facts about a flow without a column, as a JSON object.
fn detail(flow: &FlowRecord) -> String {
    let ends = Endpoints::of(flow);
    let mut out = vec![b'{'];
    let columns = COLUMNS.iter().filter(|column| !IN_TABLE.contains(&column.name));
    write_members(
        &mut out,
        columns.map(|column| (column.name, (column.value)(flow, &ends))),
        Times::Epoch,
        true,
    );
    out.push(b'}');
    String::from_utf8(out).unwrap_or_default()
}
