//! What the attributes of requests and answers say.

use super::message::{Eap, Message, attribute, code};
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_wire::Reader;

/// Maximum number of bytes of an identity in EAP that are kept.
const MAX_IDENTITY: usize = 253;

/// The values of a row: the first of each kind in the requests, and those of the answers.
#[derive(Default)]
pub struct Facts {
    pub username: Option<Vec<u8>>,
    pub mac: Option<String>,
    pub framed_addr: Option<IpAddr>,
    pub tunnel_client: Option<Vec<u8>>,
    pub connect_info: Option<Vec<u8>>,
    pub reply_msg: Option<Vec<u8>>,
    pub answer: Option<u8>,
    pub nas_address: Option<IpAddr>,
    pub nas_identifier: Option<Vec<u8>>,
    pub nas_port: Option<u32>,
    pub called_station: Option<Vec<u8>>,
    pub calling_station: Option<Vec<u8>>,
    pub assigned_address: Option<IpAddr>,
    pub assigned_address6: Option<IpAddr>,
    pub message: Option<Vec<u8>>,
    pub eap_identity: Option<Vec<u8>>,
    pub eap_method: Option<u8>,
    pub status: Option<u32>,
    pub session: Option<Vec<u8>>,
    pub session_time: Option<u32>,
    pub input: Traffic,
    pub output: Traffic,
    pub terminate_cause: Option<u32>,
    pub error_cause: Option<u32>,
}

/// Traffic of one direction of a session.
#[derive(Default)]
pub struct Traffic {
    low: Option<u32>,
    /// Number of times that `low` has passed 2^32 (RFC 2869, 5.1).
    high: Option<u32>,
    pub packets: Option<u32>,
}

impl Traffic {
    /// Number of bytes.
    pub fn bytes(&self) -> Option<u64> {
        self.low.map(|low| u64::from(self.high.unwrap_or_default()) << 32 | u64::from(low))
    }
}

impl Facts {
    /// Takes the attributes of a request.
    pub fn take_request(&mut self, message: &Message<'_>) {
        self.take_eap(message);
        for (kind, value) in message.attributes() {
            match kind {
                attribute::USER_NAME => keep(&mut self.username, value),
                attribute::CALLING_STATION => {
                    self.mac.get_or_insert_with(|| mac(value));
                    keep(&mut self.calling_station, value);
                }
                attribute::CALLED_STATION => keep(&mut self.called_station, value),
                attribute::TUNNEL_CLIENT => keep(&mut self.tunnel_client, untagged(value)),
                attribute::CONNECT_INFO => keep(&mut self.connect_info, value),
                attribute::NAS_ADDRESS | attribute::NAS_ADDRESS6 => {
                    self.nas_address = self.nas_address.or_else(|| address(value));
                }
                attribute::NAS_IDENTIFIER => keep(&mut self.nas_identifier, value),
                attribute::NAS_PORT => self.nas_port = self.nas_port.or_else(|| number(value)),
                // In a request for a login, the address is a wish of the client.
                attribute::FRAMED_ADDRESS | attribute::FRAMED_ADDRESS6
                    if message.code != code::ACCESS_REQUEST =>
                {
                    self.assign(value);
                }
                attribute::STATUS => self.status = number(value),
                attribute::SESSION => keep(&mut self.session, value),
                attribute::SESSION_TIME => self.session_time = number(value),
                attribute::INPUT_BYTES => self.input.low = number(value),
                attribute::OUTPUT_BYTES => self.output.low = number(value),
                attribute::INPUT_GIGAWORDS => self.input.high = number(value),
                attribute::OUTPUT_GIGAWORDS => self.output.high = number(value),
                attribute::INPUT_PACKETS => self.input.packets = number(value),
                attribute::OUTPUT_PACKETS => self.output.packets = number(value),
                attribute::TERMINATE_CAUSE => self.terminate_cause = number(value),
                _ => {}
            }
        }
    }

    /// Takes the attributes of an answer.
    pub fn take_answer(&mut self, message: &Message<'_>) {
        self.answer = Some(message.code);
        self.take_eap(message);
        let is_challenge = message.code == code::ACCESS_CHALLENGE;
        for (kind, value) in message.attributes() {
            match kind {
                attribute::FRAMED_ADDRESS if is_challenge => {
                    self.framed_addr = self.framed_addr.or_else(|| address(value));
                }
                attribute::FRAMED_ADDRESS | attribute::FRAMED_ADDRESS6 => self.assign(value),
                attribute::REPLY_MESSAGE if is_challenge => keep(&mut self.reply_msg, value),
                attribute::REPLY_MESSAGE => keep(&mut self.message, value),
                attribute::ERROR_CAUSE => self.error_cause = number(value),
                _ => {}
            }
        }
    }

    /// Takes the address of the session. Two IPv4 addresses leave the choice to the user or to the access server
    /// (RFC 2865, 5.8).
    fn assign(&mut self, value: &[u8]) {
        const BY_USER: Ipv4Addr = Ipv4Addr::BROADCAST;
        const BY_NAS: Ipv4Addr = Ipv4Addr::new(255, 255, 255, 254);
        match address(value) {
            Some(IpAddr::V4(address)) if address == BY_USER || address == BY_NAS => {}
            Some(address @ IpAddr::V4(_)) => self.assigned_address = Some(address),
            Some(address) => self.assigned_address6 = Some(address),
            None => {}
        }
    }

    fn take_eap(&mut self, message: &Message<'_>) {
        match Eap::read(&message.eap()) {
            Some(Eap::Identity(name)) => {
                keep(&mut self.eap_identity, name.get(..MAX_IDENTITY).unwrap_or(name));
            }
            Some(Eap::Method(method)) => self.eap_method = Some(method),
            None => {}
        }
    }

    /// Heap memory in bytes.
    pub fn memory(&self) -> usize {
        let texts = [
            &self.username,
            &self.tunnel_client,
            &self.connect_info,
            &self.reply_msg,
            &self.nas_identifier,
            &self.called_station,
            &self.calling_station,
            &self.message,
            &self.eap_identity,
            &self.session,
        ];
        let texts = texts.into_iter().flatten().map(Vec::capacity);
        texts.sum::<usize>() + self.mac.as_ref().map_or(0, String::capacity)
    }
}

/// Keeps the first value.
fn keep(known: &mut Option<Vec<u8>>, value: &[u8]) {
    known.get_or_insert_with(|| value.to_vec());
}

fn number(value: &[u8]) -> Option<u32> {
    Reader::new(value).u32().filter(|_| value.len() == 4)
}

fn address(value: &[u8]) -> Option<IpAddr> {
    if let Ok(bytes) = <[u8; 4]>::try_from(value) {
        return Some(Ipv4Addr::from(bytes).into());
    }
    <[u8; 16]>::try_from(value).ok().map(|bytes| Ipv6Addr::from(bytes).into())
}

/// A text without the tag that may precede it (RFC 2868, 3.3).
fn untagged(value: &[u8]) -> &[u8] {
    match value {
        [tag, text @ ..] if *tag <= 0x1f => text,
        text => text,
    }
}

/// A hardware address of 48 or 64 bits in any notation, as Zeek writes it: with colons; empty if the text is none.
fn mac(text: &[u8]) -> String {
    let mut digits = text.iter().filter(|byte| byte.is_ascii_hexdigit());
    let count = digits.clone().count();
    let mut mac = String::new();
    if count != 12 && count != 16 {
        return mac;
    }
    while let (Some(high), Some(low)) = (digits.next(), digits.next()) {
        let separator = if mac.is_empty() { "" } else { ":" };
        let [high, low] = [*high, *low].map(|byte| char::from(byte.to_ascii_lowercase()));
        let _ = write!(mac, "{separator}{high}{low}");
    }
    mac
}
