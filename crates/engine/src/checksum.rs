//! The choice of checksums to verify, and the conclusions from them.

use crate::ChecksumMode;
use std::net::Ipv6Addr;
use weir_api::{ChecksumSenders, Ledger};
use weir_wire::{Batch, Checksum, Hints, Layers, Packet, addresses, is_pseudo_header_sum, verify};

/// In mode `auto`, one packet in this number is verified. The choice depends on the packet's time alone, so that it is
/// independent of the number of workers.
const SAMPLE: u64 = 16;
/// Maximum number of senders that are reported.
const SENDERS: usize = 4;
/// IP protocol.
const UDP: u8 = 17;

/// Verifies checksums as the mode requires.
pub(crate) struct ChecksumWatch {
    mode: ChecksumMode,
    /// Whether every packet is verified: at the beginning of a run, where a small capture would otherwise have no
    /// result.
    pub closely: bool,
    /// The lowest addresses of senders that offload checksums.
    senders: Vec<[u8; 16]>,
    /// Who sends right and who sends wrong checksums.
    evidence: ChecksumSenders,
}

impl ChecksumWatch {
    pub fn new(mode: ChecksumMode) -> Self {
        Self { mode, closely: true, senders: Vec::new(), evidence: ChecksumSenders::default() }
    }

    /// Counts the checksums of a block. The flow table decides what a wrong checksum means for a flow.
    pub fn look(&mut self, block: Batch<'_>, layers: &[Layers], ledger: &mut Ledger) {
        match self.mode {
            ChecksumMode::Off => {}
            ChecksumMode::Auto if !self.closely => {
                for (slot, layers) in block.slots.iter().zip(layers) {
                    let mixed = slot.time.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
                    if mixed.is_multiple_of(SAMPLE) {
                        self.verify(&block.packet(slot), layers, ledger);
                    }
                }
            }
            ChecksumMode::Auto | ChecksumMode::On | ChecksumMode::Tcp => {
                for (packet, layers) in block.packets().zip(layers) {
                    self.verify(&packet, layers, ledger);
                }
            }
        }
    }

    fn verify(&mut self, packet: &Packet<'_>, layers: &Layers, ledger: &mut Ledger) {
        let found = verify(packet, layers);
        let pending = packet.hints.has(Hints::CHECKSUM_PENDING);
        let nothing = |checksum| matches!(checksum, Checksum::Absent | Checksum::Unknown);
        if nothing(found.network) && nothing(found.transport) && !pending {
            return;
        }
        ledger.checksums_verified += 1;
        if found.network == Checksum::Bad {
            ledger.checksums_bad += 1;
            self.note(packet, layers, false);
        } else if pending || found.transport == Checksum::Bad && is_pseudo_header_sum(packet, layers) {
            // A file does not mark an offloaded checksum, but the value that Linux leaves in its place can be
            // recognised.
            ledger.checksums_offloaded += 1;
            self.note_sender(packet, layers);
        } else if found.transport == Checksum::Bad {
            ledger.checksums_bad += 1;
            self.note(packet, layers, false);
        } else if found.transport == Checksum::Good
            || found.transport == Checksum::Absent && layers.ip_proto != UDP
        {
            // A datagram without a checksum, or a segment cut short, does not tell who completes the others.
            self.note(packet, layers, true);
        }
    }

    fn note(&mut self, packet: &Packet<'_>, layers: &Layers, is_right: bool) {
        if let Some((source, destination)) = addresses(packet, layers) {
            let [source, destination] =
                [source, destination].map(|address| Ipv6Addr::from(address).to_canonical());
            self.evidence.add(source, destination, layers.ip_proto, is_right);
        }
    }

    fn note_sender(&mut self, packet: &Packet<'_>, layers: &Layers) {
        if let Some((sender, _)) = addresses(packet, layers)
            && let Err(place) = self.senders.binary_search(&sender)
        {
            self.senders.insert(place, sender);
            self.senders.truncate(SENDERS);
        }
    }

    /// Hands over the senders noted since the last call.
    pub fn take_senders(&mut self) -> Vec<[u8; 16]> {
        std::mem::take(&mut self.senders)
    }

    /// Hands over the evidence since the last call.
    pub fn take_evidence(&mut self) -> ChecksumSenders {
        std::mem::take(&mut self.evidence)
    }
}
