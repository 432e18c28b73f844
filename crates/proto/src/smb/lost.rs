//! Messages after a gap. The length of a message shows where the next one begins, if the gap ends within it; otherwise the next
//! one is sought by its mark.

use super::{COMPRESSED, ENCRYPTED, NEW, OLD, Rest, SESSION_MESSAGE, Side, Smb};
use crate::work::looked_at;
use crate::{Out, Probe};
use weir_wire::stream::Chunk;

/// The number of bytes that show that a message begins: its length, and its mark with the length of its header.
const HEAD: usize = 10;
/// The length of the header of versions 2 and 3, after their mark.
const HEADER: &[u8] = &[64, 0];

/// The marks of messages with the bytes after them, and the minimum length of such a message in bytes.
const MARKS: [(&[u8], &[u8], usize); 4] =
    [(NEW, HEADER, 64), (OLD, &[], 35), (ENCRYPTED, &[], 52), (COMPRESSED, &[], 16)];

/// Whether a message begins here.
fn begins(bytes: &[u8]) -> Probe {
    let head = bytes.get(..HEAD).unwrap_or(bytes);
    let length = match head {
        [SESSION_MESSAGE, high, middle, low, ..] => u32::from_be_bytes([0, *high, *middle, *low]) as usize,
        [SESSION_MESSAGE, ..] | [] => return Probe::Maybe,
        _ => return Probe::Reject,
    };
    let word = head.get(4..).unwrap_or_default();
    for (mark, behind, least) in MARKS {
        let all = mark.iter().chain(behind);
        if length >= least && word.iter().zip(all).all(|(byte, wanted)| byte == wanted) {
            let is_whole = word.len() >= mark.len() + behind.len();
            return if is_whole { Probe::Match } else { Probe::Maybe };
        }
    }
    Probe::Reject
}

impl Rest {
    /// Takes note of bytes of its data that have arrived, or are missing.
    pub(super) fn pass(&mut self, bytes: usize) {
        self.data -= bytes.min(self.data);
        if let Some((_, offset)) = &mut self.to {
            *offset += bytes as u64;
        }
    }
}

impl Side {
    /// Goes to the next message. Bytes that may begin it wait for the next chunk.
    pub(super) fn seek(&mut self, data: &mut &[u8], out: &mut dyn Out) {
        looked_at(data.len());
        let begun = |at: &usize| data.get(*at..).map_or(Probe::Reject, begins);
        let at = (0..data.len()).find(|at| begun(at) != Probe::Reject).unwrap_or(data.len());
        let is_found = begun(&at) == Probe::Match;
        let bytes = data.get(at..).unwrap_or_default();
        out.message(bytes.len());
        if is_found {
            *data = bytes;
            (self.is_lost, self.doubt) = (false, 2);
        } else {
            self.held = bytes.to_vec();
            *data = &[];
        }
    }
}

impl Smb {
    /// Takes a gap.
    pub(super) fn miss(&mut self, side: &mut Side, chunk: &Chunk<'_>, out: &mut dyn Out) {
        let gap = usize::try_from(chunk.gap).unwrap_or(usize::MAX);
        if !side.is_lost && side.rest.is_none() {
            // Of a message with data of a file, that before the gap is good.
            let begun = side.frames.begun().to_vec();
            if let [_, high, middle, low, message @ ..] = begun.as_slice() {
                let whole = u32::from_be_bytes([0, *high, *middle, *low]) as usize;
                if gap <= whole.saturating_sub(message.len()) {
                    side.rest = self.message(&begun, true, chunk, out).ok().flatten();
                }
            }
        }
        side.frames.forget();
        side.held.clear();
        match &mut side.rest {
            Some(rest) if gap <= rest.bytes => {
                rest.bytes -= gap;
                rest.pass(gap.min(rest.data));
            }
            rest => {
                *rest = None;
                side.is_lost = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::{Collected, talks};
    use crate::talk::{Talk, Turn};

    /// A conversation without some bytes of its client, from the position `begin` of the turn with the most bytes.
    fn without(begin: usize, bytes: usize) -> Talk {
        let (_, mut talk) =
            talks("smb", 445).into_iter().find(|(path, _)| path.ends_with("files.talk")).unwrap();
        let length = |turn: &Turn| if let Turn::Data(_, data) = turn { data.len() } else { 0 };
        let at = (0..talk.turns.len()).max_by_key(|at| length(&talk.turns[*at])).unwrap();
        let Turn::Data(side, data) = talk.turns[at].clone() else { unreachable!() };
        let cut = [
            Turn::Data(side, data[..begin].to_vec()),
            Turn::Gap(side, bytes as u64),
            Turn::Data(side, data[begin + bytes..].to_vec()),
        ];
        talk.turns.splice(at..=at, cut);
        talk
    }

    /// What is known of the file that is written, and the number of anomalies.
    fn written(emitted: &Collected) -> (Vec<String>, usize) {
        let of = |name: &'static str| emitted.records.iter().filter(move |record| record.table.name == name);
        let files = of("files").filter(|file| *file.get("is_orig") == true.into());
        let shown = |file: &crate::Record<'_>, name| format!("{:?}", file.get(name));
        (
            files
                .map(|file| ["seen_bytes", "missing_bytes"].map(|name| shown(file, name)).join(" "))
                .collect(),
            of("anomaly").count(),
        )
    }

    #[test]
    fn of_a_message_that_is_cut_only_the_missing_data_is_lost() {
        // Of the first 68,000 bytes of data, 112 after the beginning of their message.
        for begin in [116, 117, 30_000, 65_000, 66_000] {
            let talk = without(begin, 1000);
            let (files, anomalies) = written(&talk.emitted(|data| vec![data.to_vec()]));
            assert_eq!(files, ["Uint(69000) Uint(1000)"], "{begin}");
            assert_eq!(anomalies, 0, "{begin}");
            for size in [1, 7, 1460] {
                let cut = talk.emitted(|data| data.chunks(size).map(<[u8]>::to_vec).collect());
                assert_eq!(written(&cut).0, files, "{begin}, pieces of {size}");
            }
        }
    }

    #[test]
    fn without_the_beginning_of_its_data_a_message_is_passed_over() {
        for begin in [1, 4, 8, 100] {
            let (files, anomalies) = written(&without(begin, 40).emitted(|data| vec![data.to_vec()]));
            assert_eq!((files, anomalies), (vec!["Uint(2000) Uint(68000)".to_owned()], 0), "{begin}");
        }
    }

    #[test]
    fn the_next_message_is_found_by_its_mark_however_the_bytes_are_cut() {
        let head = [b"\0\0\0\x80".as_slice(), NEW, HEADER].concat();
        let noise = b"content \0\0\0\0\0\0\x01\0\xfeSMB\0\0\0\0\x08\xffSMBr\0";
        let bytes = [noise.as_slice(), &head, b"behind"].concat();
        for size in 1..=bytes.len() {
            let (mut side, mut found) = (Side { is_lost: true, ..Side::default() }, Vec::new());
            for piece in bytes.chunks(size) {
                let joined = [std::mem::take(&mut side.held), piece.to_vec()].concat();
                let mut data = joined.as_slice();
                if side.is_lost {
                    side.seek(&mut data, &mut Collected::default());
                    assert!(side.held.len() < HEAD);
                }
                found.extend_from_slice(data);
            }
            assert_eq!(found, bytes[noise.len()..], "pieces of {size}");
        }
    }
}
