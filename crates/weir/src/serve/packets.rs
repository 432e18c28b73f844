//! Packets of the capture file or of a live run's dump, read again through an expression.

use super::app::{ExpressionOptions, Shared};
use super::body::Pieces;
use super::failure::Failure;
use super::rights::Client;
use super::routes::Ask;
use super::routes::asked::{flow_test, span};
use crate::dump::index::DumpIndex;
use crate::run::by_record::choose;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use utoipa::{IntoParams, ToSchema};
use weir_capture::{Files, Input, Order, ReadError, ReadOptions, Severity};
use weir_engine::ChosenFlows;
use weir_filter::{ErrorKind, Filter, FlowTest};
use weir_output::figures::count;
use weir_store::TimeRange;
use weir_wire::{Layers, LinkType, Packet, PacketBuf, decode};

/// Maximum time to read a capture for one answer.
const MAX_LENGTH: Duration = Duration::from_secs(25);
/// Maximum time of a download, whose client may be slow.
const MAX_DOWNLOAD: Duration = Duration::from_secs(600);
/// Maximum bytes of a download.
const MAX_BYTES: u64 = 4 << 30;
/// Flows whose packets a filter over flows and records selects: some 16 MB of memory.
const MAX_FLOWS: usize = 100_000;
/// Bytes per message to the client.
const GATHER: usize = 64 << 10;

/// Capture files that can be read again.
#[derive(Clone)]
pub struct PacketSource {
    /// The files.
    pub captures: Captures,
    /// How they are read: the times, the bytes and the repairs of the run.
    pub reading: ReadOptions,
    /// Expression of the run, if the files have not been filtered by it.
    pub expression: String,
    /// The flows that the run selected, if an expression over flows and records did.
    pub chosen: Option<Arc<ChosenFlows>>,
    /// How expressions are interpreted.
    pub expression_options: ExpressionOptions,
}

/// Capture files.
#[derive(Clone)]
pub enum Captures {
    /// Files that the run has read.
    Read(Vec<Input>),
    /// Files that the run writes.
    Written(DumpIndex),
}

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

/// A selection of packets.
struct Wanted {
    /// The packets of the run.
    of_run: Selected,
    /// Those of them that the client asks for.
    asked: Selected,
    span: TimeRange,
    /// Maximum number of packets.
    limit: Option<u64>,
}

/// What packets must match.
#[derive(Default)]
struct Selected {
    filter: Option<Filter>,
    /// The packets are of one of these flows.
    flows: Option<Arc<ChosenFlows>>,
}

impl Selected {
    fn has(&self, packet: &Packet<'_>, layers: &Layers) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.matches(packet, layers))
            && self.flows.as_ref().is_none_or(|flows| flows.has(packet, layers))
    }
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

impl PacketSource {
    /// Whether the files still exist.
    pub fn is_there(&self) -> bool {
        match &self.captures {
            Captures::Read(files) => !files.is_empty() && files.iter().all(Input::can_be_read_again),
            Captures::Written(dump_index) => !dump_index.of(TimeRange::default()).paths.is_empty(),
        }
    }

    /// Opens the files that may have packets of a time range. The text reports files that no longer exist.
    fn open(&self, span: TimeRange) -> Result<(Files, Option<String>), ReadError> {
        let (inputs, order, gone) = match &self.captures {
            Captures::Read(files) => (files.clone(), Order::Time, 0),
            // The files are in sequence, and the last one grows.
            Captures::Written(dump_index) => {
                let files = dump_index.of(span);
                (files.paths.into_iter().map(Input::Path).collect(), Order::Listed, files.gone)
            }
        };
        let files = Files::open(&inputs, &ReadOptions { order, ..self.reading.clone() })?;
        let notice = format!("{gone} files of the dump no longer exist; their packets are left out");
        Ok((files, (gone > 0).then_some(notice)))
    }

    fn is_written(&self) -> bool {
        matches!(self.captures, Captures::Written(_))
    }

    /// Passes matching packets to `show`, in order, until it returns false. Returns what was left out.
    fn read(
        &self,
        wanted: &Wanted,
        longest: Duration,
        show: &mut dyn FnMut(&Packet<'_>) -> bool,
    ) -> Result<Option<String>, Failure> {
        let mut left = wanted.limit;
        if left == Some(0) {
            return Ok(None);
        }
        let (mut files, mut partial) = match self.open(wanted.span) {
            Ok(opened) => opened,
            // No file of the dump has packets of that time.
            Err(ReadError::NoCapture { .. }) if self.is_written() => return Ok(None),
            Err(error) => return Err(Failure::unknown(error.to_string())),
        };
        let (mut chunk, started) = (PacketBuf::default(), Instant::now());
        let (mut link, mut others) = (None, 0_u64);
        'read: loop {
            match files.fill(&mut chunk) {
                Ok(true) => {}
                Ok(false) => break,
                // The record that is being written is incomplete.
                Err(error) if self.is_written() && error.severity() == Severity::Partial => {}
                // The summary has reported this error.
                Err(error) => partial = Some(error.to_string()),
            }
            for packet in chunk.batch().packets() {
                let TimeRange { from, to } = wanted.span;
                let time = packet.time.0;
                if from.is_some_and(|from| time < from) || to.is_some_and(|to| time >= to) {
                    continue;
                }
                let layers = decode(&packet);
                if !wanted.of_run.has(&packet, &layers) || !wanted.asked.has(&packet, &layers) {
                    continue;
                }
                // A pcap file has one link type.
                if *link.get_or_insert(packet.link) != packet.link {
                    others += 1;
                    continue;
                }
                if !show(&packet) {
                    partial = Some(format!("downloads are limited to {} GiB", MAX_BYTES >> 30));
                    break 'read;
                }
                left = left.map(|left| left - 1);
                if left == Some(0) {
                    break 'read;
                }
            }
            // Packets that arrived after the request are left out: a growing file might never end.
            let progress = files.progress();
            if self.is_written() && progress.total.is_some_and(|total| progress.bytes > total) {
                break;
            }
            if started.elapsed() > longest {
                partial = Some(format!(
                    "reading stopped after {} s, before the end of the capture",
                    longest.as_secs()
                ));
                break;
            }
        }
        if others > 0 && partial.is_none() {
            partial = Some(format!("{others} packets of other link types are left out"));
        }
        Ok(partial)
    }
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
