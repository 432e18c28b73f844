//! What rules search in calls: the interface, the operation and the data.

use super::pdu::{Context, Pdu};
use crate::{Buffer, Out};
use std::borrow::Cow;
use weir_wire::Direction;

pub(super) static IFACE: Buffer = Buffer::whole(
    "dcerpc.iface",
    "Interface of a call, unless it was rejected: the UUID in the order of its text and the higher version number, 18 bytes.",
);
pub(super) static OPNUM: Buffer = Buffer::number("dcerpc.opnum", "Number of the operation of a call.");
pub(super) static BYTE_ORDER: Buffer = Buffer::number(
    "dcerpc.byte_order",
    "Order of bytes in the data of a call or response: 1 if the least significant byte comes first, else 0.",
);
pub(super) static STUB_DATA: Buffer = Buffer::whole(
    "dcerpc.stub_data",
    "Data of a call or response, as Suricata has them: with object and verifier, and over TCP with the 8 bytes before those of a response.",
);

/// Maximum number of bytes that are kept of the data of a side, and that are shown of one call.
pub(super) const MAX_DATA: usize = 100 << 10;

/// What rules see of a call or of a response.
pub(super) struct Shown<'a> {
    pub interface: Option<Context>,
    pub operation: Option<u16>,
    pub is_little: bool,
    /// `None` if some of them are missing.
    pub data: Option<Cow<'a, [u8]>>,
}

impl Shown<'_> {
    pub fn emit(self, side: Direction, out: &mut dyn Out) {
        if let Some(interface) = self.interface {
            let [version, _] = interface.version;
            let (uuid, version) = (interface.uuid.0.to_be_bytes(), version.to_be_bytes());
            out.emit(&IFACE, side, &[&uuid[..], &version].concat());
        }
        if let Some(operation) = self.operation {
            out.emit_number(&OPNUM, side, operation.into());
        }
        if let Some(data) = self.data {
            out.emit_number(&BYTE_ORDER, side, self.is_little.into());
            out.emit(&STUB_DATA, side, &data);
        }
    }
}

/// The data of the first packets of a call. Nothing is kept if some are missing, or if nothing asks for them.
#[derive(Default)]
pub(super) struct Joined(Option<Vec<u8>>);

impl Joined {
    /// Adds the data of a packet that is not the last one, up to `room` bytes.
    pub fn add(&mut self, pdu: &Pdu<'_>, data: &[u8], room: usize, out: &dyn Out) {
        if pdu.header.is_first() {
            self.0 = out.asked().has(&STUB_DATA).then(Vec::new);
        }
        if let Some(joined) = &mut self.0 {
            joined.extend_from_slice(data.get(..room).unwrap_or(data));
        }
    }

    /// All data, with up to `room` bytes of those of the last packet.
    pub fn end<'a>(&mut self, pdu: &Pdu<'_>, data: &'a [u8], room: usize) -> Option<Cow<'a, [u8]>> {
        let joined = self.0.take();
        if pdu.header.is_first() {
            return Some(data.get(..MAX_DATA).unwrap_or(data).into());
        }
        joined.map(|mut joined| {
            joined.extend_from_slice(data.get(..room).unwrap_or(data));
            joined.into()
        })
    }

    /// Forgets the data: what follows does not belong to them directly.
    pub fn forget(&mut self) {
        self.0 = None;
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, Vec::len)
    }

    /// Memory in bytes.
    pub fn memory(&self) -> usize {
        self.0.as_ref().map_or(0, Vec::capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::MAX_DATA;
    use crate::laws::talks;
    use crate::talk::{Talk, Turn};
    use weir_wire::Direction::{self, Forward, Reverse};

    fn talk(protocol: &str, port: u16, case: &str) -> Talk {
        let (_, talk) = talks(protocol, port).into_iter().find(|(path, _)| path.ends_with(case)).unwrap();
        talk
    }

    /// The values of a buffer, each with its transaction. Of a run of a letter its length is shown.
    fn found(talk: &Talk, buffer: &str, side: Direction) -> Vec<String> {
        let emitted = talk.asked(|data| data.chunks(700).map(<[u8]>::to_vec).collect());
        let run = |text: String| match text.bytes().next() {
            Some(first) if text.len() > 9 && text.bytes().all(|byte| byte == first) => {
                format!("{}*{}", char::from(first), text.len())
            }
            _ => text,
        };
        let found = emitted.numbered(buffer, side).into_iter();
        found.map(|(transaction, text)| format!("{transaction} {}", run(text))).collect()
    }

    #[test]
    fn calls_and_responses_have_their_interface_and_operation() {
        let talk = talk("dce_rpc", 135, "endpoints.talk");
        for side in [Forward, Reverse] {
            let emitted = talk.asked(|data| vec![data.to_vec()]);
            let of_side = emitted.buffers.iter().filter(|(_, of, _)| *of == side);
            let interfaces = of_side.filter(|(buffer, ..)| buffer.name == "dcerpc.iface");
            let interfaces: Vec<&[u8]> = interfaces.map(|(.., bytes)| bytes.as_slice()).collect();
            // The mapper of endpoints, version 3, and the activation of objects, version 0.
            let mapper = b"\xe1\xaf\x83\x08\x5d\x1f\x11\xc9\x91\xa4\x08\0+\x14\xa0\xfa\0\x03";
            let activation = b"\x99\xfc\xfe\xc4R`\x10\x1b\xbb\xcb\0\xaa\0!4z\0\0";
            assert_eq!(interfaces, [&mapper[..], activation, mapper]);
            assert_eq!(found(&talk, "dcerpc.opnum", side), ["1 3", "3 5", "4 4"]);
            assert_eq!(found(&talk, "dcerpc.byte_order", side), ["1 1", "3 1", "4 1"]);
        }
        assert_eq!(found(&talk, "dcerpc.stub_data", Forward), ["1 S*132", "3 ", "4 S*20"]);
    }

    #[test]
    fn data_of_several_packets_are_joined() {
        let big = talk("dce_rpc", 135, "big-endian.talk");
        assert_eq!(found(&big, "dcerpc.stub_data", Forward), ["1 S*97", "2 S*20", "3 SSSS"]);
        assert_eq!(found(&big, "dcerpc.byte_order", Forward), ["1 0", "2 0", "3 0"]);
        let pipe = talk("smb", 445, "pipe-parts.talk");
        // A call has the transaction of the last command that carries it.
        assert_eq!(found(&pipe, "dcerpc.stub_data", Forward), ["3 S*60", "6 S*90", "8 S*12"]);
        assert_eq!(found(&pipe, "dcerpc.stub_data", Reverse), ["4 R*90", "7 R*20"]);
    }

    #[test]
    fn a_response_over_tcp_has_the_numbers_before_its_data() {
        let talk = talk("dce_rpc", 135, "negotiated.talk");
        let [response] = found(&talk, "dcerpc.stub_data", Reverse).try_into().unwrap();
        assert!(response.starts_with("2 \x10\0\0\0\x01\0\0\0RRRR") && response.ends_with("ur\0\0\0\0"));
    }

    #[test]
    fn data_that_a_gap_cuts_are_not_shown() {
        let mut talk = talk("dce_rpc", 135, "big-endian.talk");
        // Before the last packet of the call.
        talk.turns.insert(3, Turn::Gap(Forward, 100));
        assert_eq!(found(&talk, "dcerpc.opnum", Forward), ["1 64", "2 1", "3 200"]);
        assert_eq!(found(&talk, "dcerpc.stub_data", Forward), ["2 S*20", "3 SSSS"]);
        // A gap of the other side cuts nothing.
        talk.turns[3] = Turn::Gap(Reverse, 100);
        assert_eq!(found(&talk, "dcerpc.stub_data", Forward), ["1 S*97", "2 S*20", "3 SSSS"]);
    }

    /// A packet of a call with this number of bytes of data.
    fn packet(flags: u8, call: u8, bytes: u16) -> Vec<u8> {
        let [low, high] = (bytes + 24).to_le_bytes();
        let mut packet = vec![5, 0, 0, flags, 0x10, 0, 0, 0, low, high, 0, 0, call, 0, 0, 0];
        packet.extend([0, 0, 0, 0, 0, 0, 7, 0]);
        packet.resize(packet.len() + usize::from(bytes), b'S');
        packet
    }

    #[test]
    fn data_are_limited() {
        let (first, middle, last) = (1, 0, 2);
        let mut talk = talk("dce_rpc", 135, "endpoints.talk");
        let packets = [
            packet(first, 1, 60_000),
            packet(middle, 1, 60_000),
            // Nothing is left for another call.
            packet(first, 2, 9),
            packet(last, 2, 9),
            packet(last, 1, 60_000),
            packet(first, 3, 9),
            packet(last, 3, 9),
        ];
        talk.turns = packets.into_iter().map(|packet| Turn::Data(Forward, packet)).collect();
        let all = format!("0 S*{MAX_DATA}");
        assert_eq!(found(&talk, "dcerpc.stub_data", Forward), ["1 ", &all, "2 S*18"]);
    }
}
