//! The fields of flows that have ended, for expressions at flow level: those of the table [`weir_filter::FLOW`], with the values
//! that a store has for a flow.

use crate::FlowRecord;
use crate::fields::{endpoints_of, span_seconds};
use weir_filter::fields::{FieldTest, FieldValue, Number};
use weir_filter::{FlowEndpoints, FlowRow, FlowTest};
use weir_flow::Side;
use weir_proto::PROTOCOLS;
use weir_wire::{Direction, Tunnel};

/// Calls its second argument with every value of a field of a flow: none, one, or those of a list.
type Values = fn(&FlowRecord, &mut dyn FnMut(FieldValue<'_>));

/// The fields that are known when a flow ends, by name. The store has some besides.
static FLOW_FIELDS: &[(&str, Values)] = &[
    ("bytes", |f, each| whole(f.forward.frame_bytes + f.reverse.frame_bytes, each)),
    ("sent_bytes", |f, each| whole(f.forward.frame_bytes, each)),
    ("received_bytes", |f, each| whole(f.reverse.frame_bytes, each)),
    ("packets", |f, each| whole(f.forward.packets + f.reverse.packets, each)),
    ("sent_packets", |f, each| whole(f.forward.packets, each)),
    ("received_packets", |f, each| whole(f.reverse.packets, each)),
    ("duration", |f, each| real(span_seconds(f.last.0.saturating_sub(f.first.0)), each)),
    ("first", |f, each| real(f.first.0 as f64 / 1e9, each)),
    ("last", |f, each| real(f.last.0 as f64 / 1e9, each)),
    ("state", |f, each| text(f.state.name().as_bytes(), each)),
    ("service", |f, each| {
        let names: Vec<&str> = services(f).collect();
        text_or_none(names.join(" ").as_bytes(), each);
        if names.len() > 1 {
            names.iter().for_each(|name| text(name.as_bytes(), each));
        }
    }),
    ("client", |f, each| each(FieldValue::Address(u128::from_be_bytes(f.initiator().0)))),
    ("client_port", |f, each| whole(f.initiator().1.into(), each)),
    ("server", |f, each| each(FieldValue::Address(u128::from_be_bytes(f.responder().0)))),
    ("server_port", |f, each| whole(f.responder().1.into(), each)),
    ("ip_proto", |f, each| whole(f.key.proto.into(), each)),
    ("vlan", |f, each| nonzero(f.vlan[0].into(), each)),
    ("inner_vlan", |f, each| nonzero(f.vlan[1].into(), each)),
    ("tunnel", |f, each| text_or_none(tunnel(f.tunnel).unwrap_or_default().as_bytes(), each)),
    ("community_id", |f, each| text(&f.community_id(0).text(), each)),
    ("history", |f, each| text_or_none(f.history.to_string().as_bytes(), each)),
    ("reason", |f, each| text(f.end.name().as_bytes(), each)),
    ("interface", |f, each| whole(f.interface.into(), each)),
    ("payload_bytes", |f, each| whole(f.forward.payload_bytes + f.reverse.payload_bytes, each)),
    ("sent_payload_bytes", |f, each| whole(f.forward.payload_bytes, each)),
    ("received_payload_bytes", |f, each| whole(f.reverse.payload_bytes, each)),
    ("retransmitted", |f, each| of_tcp(f, |tcp| tcp.retransmitted.map(u64::from).iter().sum(), each)),
    ("sent_retransmitted", |f, each| of_tcp(f, |tcp| tcp.retransmitted[0].into(), each)),
    ("received_retransmitted", |f, each| of_tcp(f, |tcp| tcp.retransmitted[1].into(), each)),
    ("missed_bytes", |f, each| of_tcp(f, |tcp| tcp.missed_bytes.iter().sum(), each)),
    ("bad_checksums", |f, each| {
        whole(u64::from(f.forward.bad_checksums) + u64::from(f.reverse.bad_checksums), each);
    }),
    ("later_fragments", |f, each| {
        nonzero(u64::from(f.forward.later_fragments) + u64::from(f.reverse.later_fragments), each);
    }),
    ("sent_tcp_flags", |f, each| flags(f, Direction::Forward, each)),
    ("received_tcp_flags", |f, each| flags(f, Direction::Reverse, each)),
    ("sent_ttl", |f, each| ttl(&f.forward, each)),
    ("received_ttl", |f, each| ttl(&f.reverse, each)),
    ("client_mac", |f, each| mac(&f.forward, each)),
    ("server_mac", |f, each| mac(&f.reverse, each)),
];

/// The place of a field of flows by which expressions name it; `None` if it is not known when a flow ends.
pub fn flow_field(name: &str) -> Option<usize> {
    FLOW_FIELDS.iter().position(|(known, _)| *known == name)
}

/// Names of the protocols identified in a flow, the first one first.
pub fn services(flow: &FlowRecord) -> impl Iterator<Item = &'static str> {
    let found = flow.services.into_iter().filter_map(|place| place.checked_sub(1));
    found.filter_map(|at| PROTOCOLS.get(usize::from(at))).map(|protocol| protocol.name)
}

/// The carrier of a flow, in a word; `None` without one.
pub fn tunnel(tunnel: Tunnel) -> Option<&'static str> {
    Some(match tunnel {
        Tunnel::None => return None,
        Tunnel::IpInIp => "ip-in-ip",
        Tunnel::Gre => "gre",
        Tunnel::GreEthernet => "gre-ethernet",
        Tunnel::Erspan => "erspan",
        Tunnel::Vxlan => "vxlan",
        Tunnel::Geneve => "geneve",
        Tunnel::GtpU => "gtp-u",
        Tunnel::L2tp => "l2tp",
        Tunnel::Teredo => "teredo",
        Tunnel::Ayiya => "ayiya",
        Tunnel::EtherIp => "etherip",
        Tunnel::Capwap => "capwap",
    })
}

/// The letters of TCP's flags that are set, from the most significant, as in nfdump: `...AP.SF`.
pub fn flag_letters(flags: u8) -> [u8; 8] {
    let mut letters = *b"CEUAPRSF";
    for (at, letter) in letters.iter_mut().enumerate() {
        if flags & (0x80 >> at) == 0 {
            *letter = b'.';
        }
    }
    letters
}

/// A flow that has ended, as tests see it.
pub(crate) struct EndedFlow<'f> {
    endpoints: FlowEndpoints,
    flow: &'f FlowRecord,
}

impl<'f> EndedFlow<'f> {
    pub fn new(flow: &'f FlowRecord) -> Self {
        Self { endpoints: endpoints_of(flow), flow }
    }
}

impl FlowRow for EndedFlow<'_> {
    fn endpoints(&self) -> &FlowEndpoints {
        &self.endpoints
    }

    fn field(&self, test: &FieldTest) -> bool {
        let mut verdict = Default::default();
        if let Some((_, values)) = FLOW_FIELDS.get(test.field.place) {
            values(self.flow, &mut |value| test.see(&mut verdict, &value));
        }
        test.verdict(verdict)
    }

    fn has_row(&self, _: &str, _: &FlowTest) -> bool {
        false
    }
}

fn whole(number: u64, each: &mut dyn FnMut(FieldValue<'_>)) {
    each(FieldValue::Number(Number::Whole(number.into())));
}

fn real(number: f64, each: &mut dyn FnMut(FieldValue<'_>)) {
    each(FieldValue::Number(Number::Real(number)));
}

fn nonzero(number: u64, each: &mut dyn FnMut(FieldValue<'_>)) {
    if number > 0 {
        whole(number, each);
    }
}

fn text(text: &[u8], each: &mut dyn FnMut(FieldValue<'_>)) {
    each(FieldValue::Text(text));
}

fn text_or_none(bytes: &[u8], each: &mut dyn FnMut(FieldValue<'_>)) {
    if !bytes.is_empty() {
        text(bytes, each);
    }
}

fn of_tcp(
    flow: &FlowRecord,
    number: fn(&weir_flow::TcpSummary) -> u64,
    each: &mut dyn FnMut(FieldValue<'_>),
) {
    if let Some(tcp) = &flow.tcp {
        whole(number(tcp), each);
    }
}

fn flags(flow: &FlowRecord, direction: Direction, each: &mut dyn FnMut(FieldValue<'_>)) {
    if flow.tcp.is_some() {
        text(&flag_letters(flow.side(direction).tcp_flags), each);
    }
}

fn ttl(side: &Side, each: &mut dyn FnMut(FieldValue<'_>)) {
    if side.packets > 0 {
        whole(side.ttl.into(), each);
    }
}

fn mac(side: &Side, each: &mut dyn FnMut(FieldValue<'_>)) {
    if side.mac != [0; 6] {
        text(weir_api::mac_text(&side.mac).as_bytes(), each);
    }
}
