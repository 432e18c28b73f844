//! Downloads of packets that match an expression.

use super::Ask;
use super::asked::{flow_test, span};
use crate::run::by_record::choose;
use crate::serve::app::Shared;
use crate::serve::body::Pieces;
use crate::serve::failure::Failure;
use crate::serve::packet_source::{MAX_BYTES, PacketSource, Selected, Wanted};
use crate::serve::rights::Client;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use utoipa::{IntoParams, ToSchema};
use weir_engine::ChosenFlows;
use weir_filter::{ErrorKind, Filter, FlowTest};
use weir_output::figures::count;
use weir_store::TimeRange;
use weir_wire::{LinkType, Packet};

/// Maximum time to read a capture for one answer.
const MAX_LENGTH: Duration = Duration::from_secs(25);
/// Maximum time of a download, whose client may be slow.
const MAX_DOWNLOAD: Duration = Duration::from_secs(600);
/// Flows whose packets a filter over flows and records selects: some 16 MB of memory.
const MAX_FLOWS: usize = 100_000;
/// Bytes per message to the client.
const GATHER: usize = 64 << 10;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PacketsAsked {
    /// A pcap-filter(7) expression, or one over flows and records: then the packets of the flows that match.
    filter: Option<String>,
    /// Start of the time range, in seconds since the epoch.
    from: Option<f64>,
    /// End of the time range, excluded.
    to: Option<f64>,
    /// Maximum number of packets. With the number that `/api/v1/packets/size` has returned, a download has the packets
    /// that were counted, although a dump may have grown since then.
    limit: Option<u64>,
}

/// Size of a download.
#[derive(Default, Serialize, ToSchema)]
pub struct Size {
    /// Packets.
    packets: u64,
    /// Bytes of the file.
    bytes: u64,
    /// The part that the answer omits, with the reason.
    #[schema(required = true)]
    partial: Option<String>,
}

/// Number of packets that match an expression and time range, and the size of their file.
#[utoipa::path(get, path = "/api/v1/packets/size", params(PacketsAsked),
    responses((status = 200, body = Size), (status = 400, body = Failure), (status = 404, body = Failure)))]
pub async fn size(
    State(app): State<Shared>,
    Extension(client): Extension<Client>,
    Ask(asked): Ask<PacketsAsked>,
) -> Result<Json<Size>, Failure> {
    let (source, wanted) = wanted(&app, &client, &asked).await?;
    let count = move || {
        let mut size = Size { bytes: HEADER, ..Size::default() };
        size.partial = source.read(&wanted, MAX_LENGTH, &mut |packet| {
            size.packets += 1;
            size.bytes += RECORD + packet.data.len() as u64;
            size.bytes <= MAX_BYTES
        })?;
        Ok(size)
    };
    Ok(Json(app.wait(count).await?))
}

/// Packets that match an expression and time range, as a capture file.
#[utoipa::path(get, path = "/api/v1/packets", params(PacketsAsked), responses(
    (status = 200, description = "A pcap file with nanosecond timestamps", content_type = "application/vnd.tcpdump.pcap", body = Vec<u8>),
    (status = 400, body = Failure), (status = 404, body = Failure)))]
pub async fn packets(
    State(app): State<Shared>,
    Extension(client): Extension<Client>,
    Ask(asked): Ask<PacketsAsked>,
) -> Result<Response, Failure> {
    let (source, wanted) = wanted(&app, &client, &asked).await?;
    let place = app.answers.large(&client, 8 * GATHER).await?;
    let (to, from) = mpsc::channel::<Bytes>(4);
    tokio::task::spawn_blocking(move || {
        let _place = place;
        let mut gathered: Vec<u8> = Vec::with_capacity(GATHER * 2);
        let mut sent = 0;
        let read = source.read(&wanted, MAX_DOWNLOAD, &mut |packet| {
            if gathered.is_empty() && sent == 0 {
                gathered.extend(header(packet.link));
            }
            record(&mut gathered, packet);
            if gathered.len() < GATHER {
                return true;
            }
            sent += gathered.len() as u64;
            // The client may have disconnected.
            to.blocking_send(Bytes::from(std::mem::take(&mut gathered))).is_ok() && sent <= MAX_BYTES
        });
        if gathered.is_empty() && sent == 0 {
            gathered.extend(header(LinkType::ETHERNET));
        }
        // The answer has begun: the client compares its length with the announced size.
        let _ = (read, to.blocking_send(Bytes::from(gathered)));
    });
    let headers = [
        (header::CONTENT_TYPE, "application/vnd.tcpdump.pcap"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"weir.pcap\""),
    ];
    Ok((headers, Body::new(Pieces::new(from, ()))).into_response())
}

async fn wanted(
    app: &Shared,
    client: &Client,
    asked: &PacketsAsked,
) -> Result<(PacketSource, Wanted), Failure> {
    let source = app.packets.clone().filter(PacketSource::is_there);
    let source = source.ok_or_else(|| Failure::unknown("no capture file to read packets from"))?;
    let options = source.expression_options.to_options();
    let filter = Some(Filter::compile(&source.expression, &options)?);
    let of_run = Selected { filter, flows: source.chosen.clone() };
    let mut own = Selected::default();
    let span = span(asked.from, asked.to)?;
    let text = asked.filter.as_deref().unwrap_or_default();
    match Filter::compile(text, &options) {
        Ok(filter) => own.filter = Some(filter),
        // Packets have no such fields, and their flows may.
        Err(over_packets) => match flow_test(app, client, Some(text)).await {
            Ok(test) => own.flows = Some(chosen(app, test, span).await?),
            Err(over_flows) if over_packets.kind == ErrorKind::Level => return Err(over_flows),
            Err(_) => return Err(over_packets.into()),
        },
    }
    Ok((source, Wanted { of_run, asked: own, span, limit: asked.limit }))
}

/// The stored flows that match.
async fn chosen(app: &Shared, test: FlowTest, span: TimeRange) -> Result<Arc<ChosenFlows>, Failure> {
    let found = app.ask(move |store| choose(store, &test, span, MAX_FLOWS)).await?;
    if found.number > MAX_FLOWS as u64 {
        let (flows, most) = (count(found.number), count(MAX_FLOWS as u64));
        let text = format!("{flows} flows match; the packets of {most} can be selected");
        return Err(Failure::question(text, "a shorter time range, or more conditions"));
    }
    Ok(found.flows)
}

/// Bytes of a pcap file's header, and of each record's.
const HEADER: u64 = 24;
const RECORD: u64 = 16;

/// The header of a pcap file with nanoseconds (draft-ietf-opsawg-pcap).
fn header(link: LinkType) -> Vec<u8> {
    let mut out = 0xa1b2_3c4d_u32.to_le_bytes().to_vec();
    out.extend(2_u16.to_le_bytes());
    out.extend(4_u16.to_le_bytes());
    out.extend([0; 8]);
    out.extend(262_144_u32.to_le_bytes());
    out.extend(u32::from(link.0).to_le_bytes());
    out
}

fn record(out: &mut Vec<u8>, packet: &Packet<'_>) {
    let (seconds, nanoseconds) = (packet.time.0 / 1_000_000_000, packet.time.0 % 1_000_000_000);
    out.extend((seconds as u32).to_le_bytes());
    out.extend((nanoseconds as u32).to_le_bytes());
    out.extend((packet.data.len() as u32).to_le_bytes());
    out.extend(packet.wire_len.to_le_bytes());
    out.extend(packet.data);
}
