//! Writing flows and records into partitions of time.

use super::connection::describe;
use super::late;
use super::schema::{self, Kind};
use crate::Keep;
use crate::StoreError;
use crate::share::Sides;
use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};
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

/// What a flow moved within a time.
#[derive(Clone, Debug)]
pub struct FlowPart {
    /// Number of the flow, and time of its first packet.
    pub flow: (u64, u64),
    /// The time, in nanoseconds since the epoch, its end excluded.
    pub span: (u64, u64),
    /// What was moved.
    pub sums: Sides,
}

/// What the store has of a flow that ends or goes on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stored {
    /// Number of its row as an open flow; 0 if it has none.
    pub row: i64,
    /// Sum of its parts.
    pub parted: Sides,
}

/// The number of open flows without a row, among the numbers of a partition.
pub const LEFT_OUT: &str = "open left out";
/// Least size of the cache of pages, in KiB.
const MIN_CACHE: i64 = 512;

/// A flow or a record to write.
#[derive(Clone, Debug)]
pub enum Row {
    /// A flow that has ended.
    Flow(Box<FlowRecord>, Option<Box<str>>, Stored),
    /// An open flow.
    Open(Box<FlowRecord>, Option<Box<str>>, Stored),
    /// A part of a flow.
    Part(Box<FlowPart>),
    /// The row of an open flow that is left out from now on.
    Forgotten(i64),
    /// The row of an open flow whose end was lost.
    Unfinished(i64),
    /// Number of open flows without a row.
    LeftOut(u64),
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
                Row::Flow(_, name, _) | Row::Open(_, name, _) => {
                    size_of::<FlowRecord>() + name.as_ref().map_or(0, |name| name.len() + 16)
                }
                Row::Part(_) => size_of::<FlowPart>(),
                Row::Forgotten(_) | Row::Unfinished(_) | Row::LeftOut(_) => 0,
                Row::Record(record) => size_of::<RecordRow>() + record.body.capacity(),
            }
    }

    /// The first and the last time of the row, in nanoseconds since the epoch; `None` for one that only removes.
    fn extent(&self) -> Option<(u64, u64)> {
        match self {
            Row::Flow(flow, ..) | Row::Open(flow, ..) => Some((flow.first.0, flow.last.0)),
            Row::Record(record) => Some((record.time, record.time)),
            Row::Part(part) => Some((part.span.0, part.span.1.saturating_sub(1))),
            Row::Forgotten(_) | Row::Unfinished(_) | Row::LeftOut(_) => None,
        }
    }

    /// Time of the row, in nanoseconds since the epoch.
    pub fn time(&self) -> u64 {
        self.extent().map_or(0, |(_, last)| last)
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
    pub fn open(folder: &Path, now: u64, keep: &Keep, cache: usize) -> Result<Self, StoreError> {
        let Some((second, path)) = schema::partitions(folder).pop() else {
            return Self::begin(folder, now, keep, cache);
        };
        let last = Self::at(path, second, keep, cache)?;
        last.end_open()?;
        match keep.has_room(last.begun, now, schema::size(&last.path)) {
            true => Ok(last),
            false => Self::begin(folder, now, keep, cache),
        }
    }

    /// Creates a new partition. If one of that second exists, the name has the next free second.
    pub fn begin(folder: &Path, now: u64, keep: &Keep, cache: usize) -> Result<Self, StoreError> {
        let mut second = now / 1_000_000_000;
        let name = |second: u64| folder.join(format!("{}{second:012}.db", schema::PARTITION));
        while name(second).exists() {
            second += 1;
        }
        Self::at(name(second), second, keep, cache)
    }

    fn at(path: PathBuf, second: u64, keep: &Keep, cache: usize) -> Result<Self, StoreError> {
        let connection = schema::open(&path, Kind::Rows)?;
        keep.bound_log(&connection).map_err(describe(&path))?;
        // Identifiers of flows are random: each row changes a page anywhere in the index. A page that does not fit is written to the
        // log and read again. A negative number is in KiB.
        let kib = i64::try_from(cache >> 10).unwrap_or(i64::MAX);
        connection.pragma_update(None, "cache_size", -kib.max(MIN_CACHE)).map_err(describe(&path))?;
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
        for row in rows {
            if let Row::Flow(flow, ..) = row
                && flow.follows != 0
                && (late::add(&transaction, flow).map_err(describe)? || before.has(flow))
            {
                continue;
            }
            write_row(&transaction, row).map_err(describe)?;
        }
        let extent =
            rows.iter().filter_map(Row::extent).reduce(|(a, b), (from, to)| (a.min(from), b.max(to)));
        if let Some((first, last)) = extent {
            widen(&transaction, first, last).map_err(describe)?;
        }
        transaction.commit().map_err(describe)?;
        self.is_empty = false;
        Ok(before.write())
    }

    /// Takes the open flows of the partition before.
    pub fn take_open(&mut self, before: &Self) -> Result<(), StoreError> {
        let transaction = self.connection.transaction().map_err(describe(&self.path))?;
        let old = &before.connection;
        let extent = copy_open(old, &transaction).map_err(describe(&self.path))?;
        let Some((first, last)) = extent else { return Ok(()) };
        let left_out =
            old.query_row("SELECT ifnull(max(value), 0) FROM meta WHERE name = ?1", [LEFT_OUT], |row| {
                row.get(0)
            });
        let left_out: i64 = left_out.map_err(describe(&before.path))?;
        write_left_out(&transaction, left_out as u64).map_err(describe(&self.path))?;
        widen(&transaction, first, last).map_err(describe(&self.path))?;
        transaction.commit().map_err(describe(&self.path))?;
        self.is_empty = false;
        old.execute("DELETE FROM flows WHERE id < 0", []).map_err(describe(&before.path))?;
        write_left_out(old, 0).map_err(describe(&before.path))
    }

    /// Ends the open flows of a run that ended without a word: their rows so far are what is known.
    fn end_open(&self) -> Result<(), StoreError> {
        let describe = describe(&self.path);
        let transaction = self.connection.unchecked_transaction().map_err(describe)?;
        let open: Vec<i64> = transaction
            .prepare("SELECT id FROM flows WHERE id < 0")
            .and_then(|mut query| query.query_map([], |row| row.get(0))?.collect())
            .map_err(describe)?;
        for row in open {
            unfinished(&transaction, row).map_err(describe)?;
        }
        write_left_out(&transaction, 0).map_err(describe)?;
        transaction.commit().map_err(describe)
    }
}

/// Copies the rows of open flows from one database to another. Returns their first and last time.
fn copy_open(from: &Connection, to: &Connection) -> rusqlite::Result<Option<(u64, u64)>> {
    let mut extent: Option<(u64, u64)> = None;
    let mut flows = from.prepare(&format!("SELECT id, {FLOW_COLUMNS} FROM flows WHERE id < 0"))?;
    let mut rows = flows.query([])?;
    while let Some(row) = rows.next()? {
        insert_copy(to, "INSERT OR REPLACE INTO flows VALUES", row)?;
        let (first, last) = (row.get::<_, i64>(2)? as u64, row.get::<_, i64>(3)? as u64);
        extent = Some(extent.map_or((first, last), |(a, b)| (a.min(first), b.max(last))));
    }
    let mut parted =
        from.prepare("SELECT parted.* FROM parted JOIN flows USING (uid, first) WHERE flows.id < 0")?;
    let mut rows = parted.query([])?;
    while let Some(row) = rows.next()? {
        insert_copy(to, "INSERT OR REPLACE INTO parted VALUES", row)?;
    }
    Ok(extent)
}

fn insert_copy(to: &Connection, insert: &str, row: &rusqlite::Row<'_>) -> rusqlite::Result<()> {
    let count = row.as_ref().column_count();
    let values: Vec<Value> = (0..count).map(|at| row.get(at)).collect::<Result<_, _>>()?;
    let places = vec!["?"; count].join(", ");
    to.prepare_cached(&format!("{insert} ({places})"))?.execute(params_from_iter(values))?;
    Ok(())
}

/// The columns of a flow beside its number.
const FLOW_COLUMNS: &str = "uid, first, last, proto, src, sport, dst, dport, fpackets, rpackets, fbytes, rbytes, vlan, state, \
                            service, name, detail";

fn write_row(to: &Connection, row: &Row) -> rusqlite::Result<()> {
    match row {
        Row::Flow(flow, name, stored) => {
            if stored.row < 0 {
                forget(to, stored.row)?;
            }
            write_flow(to, None, flow, name.as_deref())?;
            write_parted(to, flow, stored)
        }
        Row::Open(flow, name, stored) => {
            write_flow(to, Some(stored.row), flow, name.as_deref())?;
            write_parted(to, flow, stored)
        }
        Row::Part(part) => write_part(to, part),
        Row::Forgotten(row) => forget(to, *row),
        Row::Unfinished(row) => unfinished(to, *row),
        Row::LeftOut(flows) => write_left_out(to, *flows),
        Row::Record(record) => write_record(to, record),
    }
}

fn write_flow(
    to: &Connection,
    row: Option<i64>,
    flow: &FlowRecord,
    name: Option<&str>,
) -> rusqlite::Result<()> {
    let (source, destination) = (flow.initiator(), flow.responder());
    let services = services(flow).collect::<Vec<_>>().join(" ");
    to.prepare_cached(&format!(
        "INSERT OR REPLACE INTO flows (id, {FLOW_COLUMNS})
         VALUES (ifnull(?1, (SELECT max(ifnull(max(id), 0), 0) + 1 FROM flows)), ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,
         ?12, ?13, ?14, ?15, ?16, ?17, ?18)"
    ))?
    .execute(params![
        row,
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
        name,
        detail(flow),
    ])?;
    Ok(())
}

/// Packets, then bytes, of each direction, as the database has them.
fn columns([forward, reverse]: &Sides) -> [i64; 4] {
    [forward.packets, reverse.packets, forward.bytes, reverse.bytes].map(u64::cast_signed)
}

/// Writes the sum of the parts of a flow, if it has any.
fn write_parted(to: &Connection, flow: &FlowRecord, stored: &Stored) -> rusqlite::Result<()> {
    let [fpackets, rpackets, fbytes, rbytes] = columns(&stored.parted);
    if (fpackets, rpackets) == (0, 0) {
        return Ok(());
    }
    to.prepare_cached("INSERT OR REPLACE INTO parted VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?.execute(params![
        flow.id as i64,
        flow.first.0 as i64,
        fpackets,
        rpackets,
        fbytes,
        rbytes,
    ])?;
    Ok(())
}

fn write_part(to: &Connection, part: &FlowPart) -> rusqlite::Result<()> {
    let [fpackets, rpackets, fbytes, rbytes] = columns(&part.sums);
    to.prepare_cached(
        "INSERT INTO parts VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO UPDATE SET
         fpackets = fpackets + excluded.fpackets, rpackets = rpackets + excluded.rpackets,
         fbytes = fbytes + excluded.fbytes, rbytes = rbytes + excluded.rbytes",
    )?
    .execute(params![
        part.flow.0 as i64,
        part.flow.1 as i64,
        part.span.0 as i64,
        part.span.1 as i64,
        fpackets,
        rpackets,
        fbytes,
        rbytes,
    ])?;
    Ok(())
}

/// Notes the number of open flows without a row. A partition has no number before it has rows.
fn write_left_out(to: &Connection, flows: u64) -> rusqlite::Result<()> {
    let text = match flows {
        0 => "UPDATE meta SET value = ?2 WHERE name = ?1",
        _ => "INSERT OR REPLACE INTO meta VALUES (?1, ?2)",
    };
    to.prepare_cached(text)?.execute(params![LEFT_OUT, flows.min(i64::MAX as u64) as i64])?;
    Ok(())
}

fn forget(from: &Connection, row: i64) -> rusqlite::Result<()> {
    from.prepare_cached("DELETE FROM flows WHERE id = ?1")?.execute([row])?;
    Ok(())
}

/// Makes the row of an open flow one that does not change again.
fn unfinished(within: &Connection, row: i64) -> rusqlite::Result<()> {
    within
        .prepare_cached(
            "UPDATE flows SET id = (SELECT max(max(id), 0) + 1 FROM flows),
             detail = json_set(detail, '$.reason', 'unfinished') WHERE id = ?1",
        )?
        .execute([row])?;
    Ok(())
}

fn write_record(to: &Connection, record: &RecordRow) -> rusqlite::Result<()> {
    let flow = &record.flow;
    let lower = usize::from(!flow.initiator_is_lower);
    let end = |at: usize| {
        let address = flow.key.addr.get(at).copied().unwrap_or_default();
        (address, flow.key.port.get(at).copied().unwrap_or_default())
    };
    let (source, destination) = (end(lower), end(1 - lower));
    to.prepare_cached(
        "INSERT INTO records (tbl, uid, time, proto, src, sport, dst, dport, vlan, body)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?
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
    ])?;
    Ok(())
}

/// Widens the noted time of a partition.
fn widen(within: &Connection, first: u64, last: u64) -> rusqlite::Result<()> {
    within.execute(
        "INSERT INTO meta VALUES ('first', ?1), ('last', ?2) ON CONFLICT (name) DO UPDATE SET value =
         CASE name WHEN 'first' THEN min(value, excluded.value) ELSE max(value, excluded.value) END",
        params![first.min(i64::MAX as u64) as i64, last.min(i64::MAX as u64) as i64],
    )?;
    Ok(())
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
