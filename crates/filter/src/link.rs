//! Link types by the form of their header.

use weir_wire::LinkType;

/// Whether frames of the link type are Ethernet, with or without a switch chip's tag.
pub(crate) fn is_ethernet(link: LinkType) -> bool {
    tagged_ethernet(link).is_some()
}

/// Offset of the addresses and of the type of an Ethernet-like frame.
pub(crate) fn tagged_ethernet(link: LinkType) -> Option<(u32, u32)> {
    match link {
        LinkType::ETHERNET => Some((0, 12)),
        LinkType::DSA_TAG_BRCM | LinkType::DSA_TAG_DSA => Some((0, 16)),
        LinkType::DSA_TAG_EDSA => Some((0, 20)),
        LinkType::DSA_TAG_BRCM_PREPEND => Some((4, 16)),
        _ => None,
    }
}

/// Whether the network header of packets of a link type is found by decoding them, if the verdict need not be
/// libpcap's.
pub(crate) fn finds_network_by_layers(link: LinkType) -> bool {
    matches!(
        link,
        LinkType::SLIP
            | LinkType::SLIP_BSDOS
            | LinkType::FRELAY
            | LinkType::FRELAY_WITH_DIR
            | LinkType::PFLOG
            | LinkType::ARCNET
            | LinkType::ARCNET_LINUX
            | LinkType::NFLOG
            | LinkType::IPOIB
    )
}
