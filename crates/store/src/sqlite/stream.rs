//! All flows or records of a time, one after the other, for exports without a limit.

use super::SqliteStore;
use super::partition::Progress;
use crate::{StoreError, StoredFlow, StoredRecord, TimeRange};
use rusqlite::types::Value as Sql;
use rusqlite::{Row, params_from_iter};
use std::net::IpAddr;
use std::time::Duration;
use weir_filter::{FLOW, FlowTest};
use weir_output::row::ip;

/// Longer than any export: it ends at its end.
const PATIENCE: Duration = Duration::from_secs(365 * 86_400);

impl SqliteStore {
    /// A store whose queries have no time limit.
    #[must_use]
    pub fn patient(self) -> Self {
        Self { patience: PATIENCE, ..self }
    }

    /// See [`crate::Store::each_flow`].
    pub(super) fn flows_one_by_one(
        &self,
        test: &FlowTest,
        span: TimeRange,
        each: &mut dyn FnMut(&StoredFlow<'_>),
    ) -> Result<Option<String>, StoreError> {
        const COLUMNS: &str = "uid, first, last, proto, src, sport, dst, dport, fpackets, rpackets, fbytes, rbytes, \
                               state, service, name, detail";
        let of = |row: &Row<'_>| -> rusqlite::Result<()> {
            let number = |at: usize| row.get::<_, i64>(at).map(|number| number as u64);
            let text = |at: usize| row.get_ref(at)?.as_str_or_null().map_err(rusqlite::Error::from);
            each(&StoredFlow {
                uid: number(0)?,
                times: [number(1)?, number(2)?],
                ip_proto: row.get(3)?,
                ends: ends(row, 4)?,
                packets: [number(8)?, number(9)?],
                bytes: [number(10)?, number(11)?],
                state: text(12)?.unwrap_or_default(),
                services: text(13)?,
                name: text(14)?,
                detail: text(15)?.unwrap_or_default(),
            });
            Ok(())
        };
        self.each_row(&format!("SELECT {COLUMNS} FROM flows"), FLOW, test, span, of)
    }

    /// See [`crate::Store::each_record`].
    pub(super) fn records_one_by_one(
        &self,
        table: &str,
        test: &FlowTest,
        text: &str,
        span: TimeRange,
        each: &mut dyn FnMut(&StoredRecord<'_>),
    ) -> Result<Option<String>, StoreError> {
        let text = text.to_ascii_lowercase();
        let of = |row: &Row<'_>| -> rusqlite::Result<()> {
            let body = row.get_ref(6)?.as_str().map_err(rusqlite::Error::from)?;
            if text.is_empty() || body.to_ascii_lowercase().contains(&text) {
                let number = |at: usize| row.get::<_, i64>(at).map(|number| number as u64);
                let (uid, time, ip_proto) = (number(0)?, number(1)?, row.get(7)?);
                each(&StoredRecord { uid, time, ip_proto, ends: ends(row, 2)?, body });
            }
            Ok(())
        };
        let columns = "SELECT uid, time, src, sport, dst, dport, body, proto FROM records";
        self.each_row(columns, table, test, span, of)
    }

    fn each_row(
        &self,
        select: &str,
        table: &str,
        test: &FlowTest,
        span: TimeRange,
        mut each: impl FnMut(&Row<'_>) -> rusqlite::Result<()>,
    ) -> Result<Option<String>, StoreError> {
        let parts = self.parts(span)?;
        let condition = self.condition(test, table, span, &parts)?;
        let condition = if table == FLOW {
            condition.during(span)
        } else {
            let (from, to) = super::condition::bounds(span);
            let values = [Sql::Text(table.to_owned()), Sql::Integer(from), Sql::Integer(to)];
            condition.and("tbl = ? AND time >= ? AND time < ?", values)
        };
        let text = format!("{select} WHERE {}", condition.text);
        let mut progress = Progress::default();
        // The oldest partition first.
        for part in parts.iter().rev() {
            let go_on = progress.ask(part, |connection| {
                condition.register(connection)?;
                let mut query = connection.prepare_cached(&text)?;
                let mut rows = query.query(params_from_iter(&condition.values))?;
                while let Some(row) = rows.next()? {
                    each(row)?;
                }
                Ok(())
            })?;
            if !go_on {
                break;
            }
        }
        Ok(progress.partial(parts.len()).or(condition.partial))
    }
}

fn ends(row: &Row<'_>, at: usize) -> rusqlite::Result<[(IpAddr, u16); 2]> {
    Ok([(ip(row.get(at)?), row.get(at + 1)?), (ip(row.get(at + 2)?), row.get(at + 3)?)])
}
