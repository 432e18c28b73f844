//! The protocols that were identified on services, from stored flows.

use super::condition::bounds;
use super::partition::{Part, Progress};
use crate::{StoreError, TimeRange};
use rusqlite::params_from_iter;
use rusqlite::types::Value as Sql;
use std::collections::{BTreeMap, BTreeSet};
use weir_api::Key;
use weir_output::Applications;
use weir_output::row::ip;
use weir_proto::PROTOCOLS;

/// Maximum number of servers' ports whose protocols are named apart: those of the lowest addresses. Every port has its
/// protocols in any case.
const MAX_SERVERS: usize = 4096;

/// The protocols that were identified in the flows of a range on the ports of these keys. Flows without an identified
/// protocol do not count: the store does not tell which of them had payload.
pub fn identified(
    parts: &[Part],
    span: TimeRange,
    keys: &[Key],
) -> Result<Applications<'static>, StoreError> {
    let ports: BTreeSet<u16> = keys
        .iter()
        .filter_map(|key| match *key {
            Key::Port { port, .. } | Key::Talker { port, .. } => Some(port),
            _ => None,
        })
        .collect();
    if ports.is_empty() {
        return Ok(Applications::default());
    }
    let (mut by_port, mut by_server) = (BTreeMap::new(), BTreeMap::new());
    let (from, to) = bounds(span);
    let places = vec!["?"; ports.len()].join(", ");
    let text = format!(
        "SELECT proto, dport, dst, service, sum(fbytes + rbytes) FROM flows
         WHERE service IS NOT NULL AND last >= ? AND first < ? AND dport IN ({places}) GROUP BY proto, dport, dst, service"
    );
    let values: Vec<Sql> =
        [from, to].into_iter().chain(ports.iter().map(|port| i64::from(*port))).map(Sql::Integer).collect();
    let mut progress = Progress::default();
    for part in parts {
        let go_on = progress.ask(part, |connection| {
            let mut query = connection.prepare_cached(&text)?;
            let mut rows = query.query(params_from_iter(&values))?;
            while let Some(row) = rows.next()? {
                let services: String = row.get(3)?;
                let first = services.split(' ').next().unwrap_or_default();
                if let Some(protocol) = PROTOCOLS.iter().find(|protocol| protocol.name == first) {
                    let (service, bytes) = ((row.get(1)?, row.get(0)?), row.get::<_, i64>(4)? as u64);
                    *by_port.entry((service, protocol.name)).or_default() += bytes;
                    *by_server.entry((ip(row.get(2)?), service, protocol.name)).or_default() += bytes;
                    if by_server.len() > MAX_SERVERS {
                        by_server.pop_last();
                    }
                }
            }
            Ok(())
        })?;
        // Names are not worth an error: without time for all flows, those so far name the services.
        if !go_on {
            break;
        }
    }
    Ok(Applications::of_sums(&by_port, &by_server))
}
