//! Session descriptions (RFC 8866): the media to be sent, their destination, and their codecs.

use super::buffers;
use crate::record::fields_from;
use crate::rtp::{Codec, announced};
use crate::{Buffer, Expected, Field, Kind, Out, Privacy, UDP, Value, field, values};
use std::net::IpAddr;
use weir_wire::{Direction, Time};

/// Maximum number of lines; a call with video and audio and many candidates has about a hundred.
const MAX_LINES: usize = 512;
/// Maximum number of media that are read and announced.
const MAX_MEDIA: usize = 16;
/// Time for which announced media are expected, in nanoseconds: a telephone may ring for minutes (in RFC 3261 an
/// INVITE expires after three, and a call on hold restarts).
const PATIENCE: u64 = 600_000_000_000;

/// The fields of a medium.
pub(super) static MEDIA: [Field; 6] = [
    field("media", Kind::Text, "Media description: kind, port, protocol, formats (m=).").eve("media"),
    field("media_info", Kind::Text, "Title of the medium (i=).").eve("media_info").privacy(Privacy::Content),
    field("bandwidths", Kind::List(&Kind::Text), "Bandwidths of the medium (b=).").eve("bandwidths"),
    field("connection_data", Kind::Text, "Connection address of the medium (c=).")
        .eve("connection_data")
        .privacy(Privacy::Address),
    field("encryption_key", Kind::Text, "Encryption key of the medium (k=).")
        .eve("encryption_key")
        .privacy(Privacy::Secret),
    field("attributes", Kind::List(&Kind::Text), "Attributes of the medium (a=).")
        .eve("attributes")
        .privacy(Privacy::Content),
];

/// The fields of a time.
pub(super) static TIMES: [Field; 2] = [
    field("time", Kind::Text, "Start and end of the session (t=).").eve("time"),
    field("repeat_time", Kind::Text, "Repetition of the session (r=).").eve("repeat_time"),
];

#[derive(Default)]
struct Medium<'a> {
    media: &'a [u8],
    info: Option<&'a [u8]>,
    bandwidths: Vec<&'a [u8]>,
    connection: Option<&'a [u8]>,
    key: Option<&'a [u8]>,
    attributes: Vec<&'a [u8]>,
}

/// The fields of a description in a message's record.
pub(super) const FIELDS: &[Field] = fields_from(super::SIP_MESSAGE.fields, "sdp_version");

/// A session description.
#[derive(Default)]
pub(super) struct Description<'a> {
    version: Option<&'a [u8]>,
    origin: Option<&'a [u8]>,
    name: Option<&'a [u8]>,
    info: Option<&'a [u8]>,
    uri: Option<&'a [u8]>,
    email: Option<&'a [u8]>,
    phone: Option<&'a [u8]>,
    connection: Option<&'a [u8]>,
    bandwidths: Vec<&'a [u8]>,
    times: Vec<(&'a [u8], Option<&'a [u8]>)>,
    zone: Option<&'a [u8]>,
    key: Option<&'a [u8]>,
    attributes: Vec<&'a [u8]>,
    media: Vec<Medium<'a>>,
}

impl<'a> Description<'a> {
    /// Reads a body; `None` if it is no session description.
    pub fn read(body: &'a [u8]) -> Option<Self> {
        let mut this = Self::default();
        let lines = body.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
        for line in lines.filter(|line| !line.is_empty()).take(MAX_LINES) {
            let [kind, b'=', value @ ..] = line else { return None };
            this.line(*kind, value.trim_ascii_start());
        }
        this.version.map(|_| this)
    }

    fn line(&mut self, kind: u8, value: &'a [u8]) {
        if kind == b'm' {
            if self.media.len() < MAX_MEDIA {
                self.media.push(Medium { media: value, ..Medium::default() });
            }
            return;
        }
        if let Some(medium) = self.media.last_mut() {
            match kind {
                b'i' => medium.info = Some(value),
                b'c' => medium.connection = Some(value),
                b'b' => medium.bandwidths.push(value),
                b'k' => medium.key = Some(value),
                b'a' => medium.attributes.push(value),
                _ => {}
            }
            return;
        }
        match kind {
            b'v' => self.version = Some(value),
            b'o' => self.origin = Some(value),
            b's' => self.name = Some(value),
            b'i' => self.info = Some(value),
            b'u' => self.uri = Some(value),
            b'e' => self.email = Some(value),
            b'p' => self.phone = Some(value),
            b'c' => self.connection = Some(value),
            b'b' => self.bandwidths.push(value),
            b't' => self.times.push((value, None)),
            b'r' => {
                if let Some((_, repeat)) = self.times.last_mut() {
                    *repeat = Some(value);
                }
            }
            b'z' => self.zone = Some(value),
            b'k' => self.key = Some(value),
            b'a' => self.attributes.push(value),
            _ => {}
        }
    }

    /// Its values: those of the last fields of a message.
    pub fn values(&self) -> Vec<Value<'a>> {
        let list = |values: &[&'a [u8]]| match values {
            [] => Value::None,
            values => values.iter().copied().collect(),
        };
        let times =
            self.times.iter().map(|(time, repeat)| values!(TIMES, time = *time, repeat_time = *repeat));
        let media = self.media.iter().map(|medium| {
            values!(
                MEDIA,
                media = medium.media,
                media_info = medium.info,
                bandwidths = list(&medium.bandwidths),
                connection_data = medium.connection,
                encryption_key = medium.key,
                attributes = list(&medium.attributes),
            )
        });
        values!(
            FIELDS,
            sdp_version = self.version.and_then(number).map(u64::from),
            sdp_origin = self.origin,
            sdp_name = self.name,
            sdp_info = self.info,
            sdp_uri = self.uri,
            sdp_email = self.email,
            sdp_phone = self.phone,
            sdp_connection = self.connection,
            sdp_bandwidths = list(&self.bandwidths),
            sdp_times = Value::rows(times),
            sdp_zone = self.zone,
            sdp_key = self.key,
            sdp_attributes = list(&self.attributes),
            sdp_media = Value::rows(media),
        )
    }

    /// Shows rules its texts.
    pub fn show(&self, side: Direction, out: &mut dyn Out) {
        if !out.asked().has_buffers() {
            return;
        }
        let mut give = |buffer: &'static Buffer, text: Option<&[u8]>| {
            if let Some(text) = text {
                out.emit(buffer, side, text);
            }
        };
        give(&buffers::ORIGIN, self.origin);
        give(&buffers::SESSION_NAME, self.name);
        give(&buffers::SESSION_INFO, self.info);
        give(&buffers::SESSION_URI, self.uri);
        give(&buffers::EMAIL, self.email);
        give(&buffers::PHONE_NUMBER, self.phone);
        give(&buffers::CONNECTION_DATA, self.connection);
        self.bandwidths.iter().for_each(|text| give(&buffers::BANDWIDTH, Some(text)));
        for (time, repeat) in &self.times {
            give(&buffers::TIME, Some(time));
            give(&buffers::REPEAT_TIME, *repeat);
        }
        give(&buffers::TIMEZONE, self.zone);
        give(&buffers::ENCRYPTION_KEY, self.key);
        self.attributes.iter().for_each(|text| give(&buffers::ATTRIBUTE, Some(text)));
        for medium in &self.media {
            give(&buffers::MEDIA, Some(medium.media));
            give(&buffers::MEDIA_INFO, medium.info);
            give(&buffers::MEDIA_CONNECTION, medium.connection);
            give(&buffers::MEDIA_KEY, medium.key);
        }
    }

    /// Announces the flows of the media; `flow` identifies the flow of the description, and `call` the call.
    pub fn announce(&self, flow: u64, call: Option<&[u8]>, time: Time, out: &mut dyn Out) {
        for medium in &self.media {
            let mut words = medium.media.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
            let (Some(_), Some(port), Some(protocol)) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            let port = port.split(|byte| *byte == b'/').next().and_then(number);
            let is_rtp = protocol.windows(4).any(|word| word == b"RTP/");
            let address = medium.connection.or(self.connection).and_then(address);
            // A port of zero refuses the medium; an address of zeros puts it on hold.
            let (Some(port @ 1..), true, Some(address)) = (port, is_rtp, address) else { continue };
            if address.is_unspecified() || address.is_multicast() {
                continue;
            }
            let codecs: Vec<Codec> = words
                .filter_map(number)
                .filter_map(|kind| u8::try_from(kind).ok())
                .take(32)
                .map(|kind| medium.codec(kind))
                .collect();
            let control = medium.control_port(port);
            let ports = [Some(port), control];
            for port in ports.into_iter().flatten() {
                out.expect(Expected {
                    flow,
                    responder: (address, port),
                    initiator: None,
                    ip_proto: UDP,
                    from: time,
                    until: Time(time.0.saturating_add(PATIENCE)),
                    protocol: &crate::rtp::PROTOCOL,
                    parser: announced(&codecs, call),
                });
            }
        }
    }
}

impl Medium<'_> {
    fn attribute(&self, name: &[u8]) -> impl Iterator<Item = &[u8]> {
        self.attributes.iter().filter_map(move |attribute| attribute.strip_prefix(name))
    }

    /// The codec of a payload type.
    fn codec(&self, kind: u8) -> Codec {
        let map = self.attribute(b"rtpmap:").find_map(|map| {
            let (number_, name) = map.split_at_checked(map.iter().position(|byte| *byte == b' ')?)?;
            (number(number_)? == u16::from(kind)).then(|| name.trim_ascii())
        });
        map.map_or_else(|| Codec::of(kind), |map| Codec::named(kind, map))
    }

    /// The address of RTCP, if it differs from that of RTP.
    fn control_port(&self, port: u16) -> Option<u16> {
        if self.attributes.contains(&&b"rtcp-mux"[..]) {
            return None;
        }
        let said = self.attribute(b"rtcp:").find_map(|said| number(said.split(|o| *o == b' ').next()?));
        said.or_else(|| port.checked_add(1))
    }
}

fn number(text: &[u8]) -> Option<u16> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The address in `IN IP4 192.0.2.1`, without the suffix for multicast.
fn address(text: &[u8]) -> Option<IpAddr> {
    let word = text.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).nth(2)?;
    std::str::from_utf8(word.split(|byte| *byte == b'/').next()?).ok()?.parse().ok()
}
