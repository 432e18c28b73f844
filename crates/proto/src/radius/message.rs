//! Messages with their attributes (RFC 2865, 3 and 5), and EAP within them (RFC 3579, RFC 3748).

use weir_wire::Reader;

/// Codes of messages (RFC 2865, 3; RFC 2866, 3; RFC 5176, 2.3).
pub mod code {
    pub const ACCESS_REQUEST: u8 = 1;
    pub const ACCESS_ACCEPT: u8 = 2;
    pub const ACCESS_REJECT: u8 = 3;
    pub const ACCOUNTING_REQUEST: u8 = 4;
    pub const ACCOUNTING_RESPONSE: u8 = 5;
    pub const ACCESS_CHALLENGE: u8 = 11;
    pub const STATUS_SERVER: u8 = 12;
    pub const DISCONNECT_REQUEST: u8 = 40;
    pub const DISCONNECT_ACK: u8 = 41;
    pub const DISCONNECT_NAK: u8 = 42;
    pub const COA_REQUEST: u8 = 43;
    pub const COA_ACK: u8 = 44;
    pub const COA_NAK: u8 = 45;
}

/// Types of attributes (RFC 2865, 5; RFC 2866, 5; RFC 2868, RFC 2869, RFC 3162, RFC 5176, RFC 6911).
pub mod attribute {
    pub const USER_NAME: u8 = 1;
    pub const USER_PASSWORD: u8 = 2;
    pub const CHAP_PASSWORD: u8 = 3;
    pub const NAS_ADDRESS: u8 = 4;
    pub const NAS_PORT: u8 = 5;
    pub const FRAMED_ADDRESS: u8 = 8;
    pub const REPLY_MESSAGE: u8 = 18;
    pub const STATE: u8 = 24;
    pub const CALLED_STATION: u8 = 30;
    pub const CALLING_STATION: u8 = 31;
    pub const NAS_IDENTIFIER: u8 = 32;
    pub const STATUS: u8 = 40;
    pub const INPUT_BYTES: u8 = 42;
    pub const OUTPUT_BYTES: u8 = 43;
    pub const SESSION: u8 = 44;
    pub const SESSION_TIME: u8 = 46;
    pub const INPUT_PACKETS: u8 = 47;
    pub const OUTPUT_PACKETS: u8 = 48;
    pub const TERMINATE_CAUSE: u8 = 49;
    pub const INPUT_GIGAWORDS: u8 = 52;
    pub const OUTPUT_GIGAWORDS: u8 = 53;
    pub const TUNNEL_CLIENT: u8 = 66;
    pub const CONNECT_INFO: u8 = 77;
    pub const EAP_MESSAGE: u8 = 79;
    pub const AUTHENTICATOR: u8 = 80;
    pub const NAS_ADDRESS6: u8 = 95;
    pub const ERROR_CAUSE: u8 = 101;
    pub const FRAMED_ADDRESS6: u8 = 168;
}

/// Bytes of a message before its attributes.
const HEADER: usize = 20;
/// Maximum length of a message in bytes (RFC 2865, 3).
const MAX_MESSAGE: usize = 4096;

/// A message.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    pub code: u8,
    pub identifier: u8,
    /// Request or response authenticator: equal in repeated messages.
    pub authenticator: [u8; 16],
    attributes: &'a [u8],
    /// Bytes of the datagram after the message, which are ignored.
    pub behind: usize,
}

impl<'a> Message<'a> {
    /// The message of a datagram; `None` if its code or its length is none of RADIUS.
    pub fn read(datagram: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(datagram);
        let (code, identifier, length) = (reader.u8()?, reader.u8()?, usize::from(reader.u16()?));
        let authenticator = *reader.take(16)?.first_chunk()?;
        let is_known = matches!(code, 1..=5 | 11..=13 | 40..=45);
        if !is_known || !(HEADER..=MAX_MESSAGE).contains(&length) {
            return None;
        }
        let attributes = reader.take(length - HEADER)?;
        Some(Self { code, identifier, authenticator, attributes, behind: reader.rest().len() })
    }

    /// The attributes, up to the first that is malformed.
    pub fn attributes(&self) -> Attributes<'a> {
        Attributes(Reader::new(self.attributes))
    }

    /// The first attribute of a type.
    pub fn first(&self, kind: u8) -> Option<&'a [u8]> {
        self.attributes().find(|(known, _)| *known == kind).map(|(_, value)| value)
    }

    /// Whether the attributes fill the message.
    pub fn is_well_formed(&self) -> bool {
        let mut attributes = self.attributes();
        attributes.by_ref().for_each(drop);
        attributes.0.rest().is_empty()
    }

    /// Whether the message asks for an answer.
    pub fn is_request(&self) -> bool {
        use code::*;
        matches!(
            self.code,
            ACCESS_REQUEST | ACCOUNTING_REQUEST | STATUS_SERVER | 13 | DISCONNECT_REQUEST | COA_REQUEST
        )
    }

    /// Whether the message is a request with all that its code requires (RFC 2865, 4.1; RFC 2866, 4.1), each value of the length that
    /// its type has.
    pub fn is_complete_request(&self) -> bool {
        use attribute::*;
        let has = |kinds: &[u8]| self.attributes().any(|(kind, _)| kinds.contains(&kind));
        let fits = self.attributes().all(|(kind, value)| match kind {
            NAS_ADDRESS | NAS_PORT | 6 | 7 | FRAMED_ADDRESS | STATUS | 41..=43 | 46..=49 | 61 => {
                value.len() == 4
            }
            USER_PASSWORD => (16..=128).contains(&value.len()) && value.len().is_multiple_of(16),
            CHAP_PASSWORD => value.len() == 17,
            AUTHENTICATOR | NAS_ADDRESS6 => value.len() == 16,
            _ => true,
        });
        let has_needed = match self.code {
            code::ACCESS_REQUEST => has(&[USER_PASSWORD, CHAP_PASSWORD, STATE, EAP_MESSAGE]),
            code::ACCOUNTING_REQUEST => has(&[STATUS]) && has(&[SESSION]),
            _ => false,
        };
        has_needed && fits && has(&[NAS_ADDRESS, NAS_IDENTIFIER, NAS_ADDRESS6]) && self.is_well_formed()
    }

    /// Whether the message may answer a request with this code.
    pub fn answers(&self, request: u8) -> bool {
        use code::*;
        let requests: &[u8] = match self.code {
            ACCESS_ACCEPT => &[ACCESS_REQUEST, STATUS_SERVER],
            ACCESS_REJECT | ACCESS_CHALLENGE => &[ACCESS_REQUEST],
            // Status-Server to the port of accounting (RFC 5997, 4.2).
            ACCOUNTING_RESPONSE => &[ACCOUNTING_REQUEST, STATUS_SERVER],
            DISCONNECT_ACK | DISCONNECT_NAK => &[DISCONNECT_REQUEST],
            COA_ACK | COA_NAK => &[COA_REQUEST],
            _ => &[],
        };
        requests.contains(&request)
    }

    /// The EAP packet, which is cut into attributes of 253 bytes.
    pub fn eap(&self) -> Vec<u8> {
        let parts = self.attributes().filter(|(kind, _)| *kind == attribute::EAP_MESSAGE);
        parts.flat_map(|(_, value)| value).copied().collect()
    }
}

/// Attributes with type and value.
pub struct Attributes<'a>(Reader<'a>);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let mut ahead = Reader::new(self.0.rest());
        let (kind, length) = (ahead.u8()?, usize::from(ahead.u8()?));
        let value = ahead.take(length.checked_sub(2)?)?;
        self.0 = ahead;
        Some((kind, value))
    }
}

/// What an EAP packet says.
pub enum Eap<'a> {
    /// The peer's name in an answer to a request of type Identity.
    Identity(&'a [u8]),
    /// The number of the method.
    Method(u8),
}

impl<'a> Eap<'a> {
    /// Reads a packet; `None` for one without either (RFC 3748, 4 and 5).
    pub fn read(packet: &'a [u8]) -> Option<Self> {
        const REQUEST: u8 = 1;
        const RESPONSE: u8 = 2;
        const IDENTITY: u8 = 1;
        let mut reader = Reader::new(packet);
        let (code, _, length) = (reader.u8()?, reader.u8()?, usize::from(reader.u16()?));
        let mut data = Reader::new(reader.take(length.checked_sub(4)?)?);
        match (code, data.u8()?) {
            (RESPONSE, IDENTITY) => Some(Self::Identity(data.rest())),
            (REQUEST | RESPONSE, method @ 4..) => Some(Self::Method(method)),
            _ => None,
        }
    }
}
