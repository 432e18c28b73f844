//! Link types that libpcap decodes partly or not at all: the verdict equals the one on the payload alone.

use weir_filter::{Filter, Options};
use weir_wire::LinkType;

use crate::differential::{options, seed, setting};
use crate::ffi::{Owned, Pcap};
use crate::grammar::{Random, expression};
use crate::packets::{BY_LAYERS, TAGGED, pool, reframe};

const SNAPLEN: u32 = 262_144;
const NETMASK: u32 = 0xffff_ff00;

/// Ethernet frames, some of them truncated after their header.
fn frames(r: &mut Random, count: usize, pool: &[Owned]) -> Vec<Owned> {
    let frame = |r: &mut Random| {
        let mut frame = pool[r.below(pool.len())].clone();
        if r.one_in(4) {
            frame.data.truncate(14 + r.below(80));
        }
        frame
    };
    (0..count).map(|_| frame(r)).collect()
}

/// Compares our verdicts on frames of `links` with those of libpcap on the packets that `alone` makes of Ethernet
/// frames.
fn compare(
    links: &[LinkType],
    oracle: LinkType,
    strict: bool,
    about_the_frame: &[&str],
    alone: impl Fn(&Owned) -> Option<Owned>,
) {
    let mut r = Random::new(seed());
    let pool = pool(4_000);
    let (mut pairs, mut matched) = (0_u64, 0_u64);
    let wanted = setting("WEIR_DIFF_PAIRS", 1_500_000) / 3;
    let mut round = 0;
    while pairs < wanted {
        let link = links[round % links.len()];
        round += 1;
        let text = expression(&mut r, oracle, strict);
        // These words test the whole frame, which differs, and so do bytes before the packet.
        if about_the_frame.iter().any(|word| text.contains(word)) || reads_backwards(&text) {
            continue;
        }
        let Ok(theirs) = Pcap::empty(oracle, SNAPLEN).compile(&text, true, NETMASK) else { continue };
        // Scratch memory that libpcap has not written.
        if theirs.insns().iter().any(|i| matches!(i.code, 0x60 | 0x61) || i.code == 0x05 && i.k >= 1 << 31) {
            continue;
        }
        let filter = Filter::compile_for(&text, &[link], &options(strict)).unwrap();
        let program = filter.for_link(link).unwrap();
        for frame in frames(&mut r, 300, &pool[&LinkType::ETHERNET]) {
            let (Some(alone), Some(framed)) = (alone(&frame), reframe(&frame, link)) else { continue };
            let (expected, found) = (theirs.run(&alone) != 0, program.run(&framed.view(link), None) != 0);
            assert_eq!(expected, found, "{link}: {text}: {:02x?}", framed.data);
            pairs += 1;
            matched += u64::from(found);
        }
    }
    println!("{pairs} pairs, {matched} matched");
    assert!(matched > 0);
}

/// Whether an index can be negative: `ip[-3:2]` reads two bytes of the link header.
fn reads_backwards(text: &str) -> bool {
    let mut depth = 0;
    text.chars().any(|letter| {
        match letter {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        depth > 0 && letter == '-'
    })
}

/// A switch chip's tag changes no verdict.
#[test]
fn tags_of_switches_change_no_verdict() {
    const ABOUT_THE_FRAME: &[&str] =
        &["ether[", "link[", "byte", "len", "less", "greater", "inbound", "outbound", "ifindex", "rnr"];
    compare(&TAGGED, LinkType::ETHERNET, true, ABOUT_THE_FRAME, |frame| Some(frame.clone()));
}

/// The payload after a header that libpcap does not decode, or decodes at the wrong offset, gets the verdict of the
/// payload after a simple header that libpcap decodes: two bytes, an EtherType and the packet.
#[test]
fn payload_after_any_header_gets_the_same_verdict() {
    const ABOUT_THE_FRAME: &[&str] = &[
        "ether",
        "link",
        "byte",
        "len",
        "less",
        "greater",
        "broadcast",
        "vlan",
        // Words for OSI and LLC, which frames identify by numbers other than EtherTypes.
        "is",
        "l1",
        "l2",
        "iih",
        "lsp",
        "snp",
        "clnp",
        "stp",
        "ipx",
        "netbeui",
    ];
    let ip = |frame: &Owned| match frame.data.get(12..15) {
        Some([8, 0, version]) if version >> 4 == 4 => reframe(frame, LinkType::C_HDLC),
        Some([0x86, 0xdd, version]) if version >> 4 == 6 => reframe(frame, LinkType::C_HDLC),
        _ => None,
    };
    compare(&BY_LAYERS, LinkType::C_HDLC, false, ABOUT_THE_FRAME, ip);
}

/// For any other link type bytes and length can be tested, and nothing else.
#[test]
fn unknown_link_types_have_bytes_and_a_length() {
    let packet = Owned { data: vec![5, 6, 7, 8], wire_len: 40 };
    for strict_bpf in [true, false] {
        let options = Options { strict_bpf, snaplen: SNAPLEN, ..Options::default() };
        for number in [231, 253, 147, 288] {
            let link = LinkType(number);
            for (text, matches) in
                [("link[1] = 6", true), ("len > 50", false), ("greater 40 and ether[0:2] = 0x506", true)]
            {
                let theirs = Pcap::empty(link, SNAPLEN).compile(text, true, NETMASK).unwrap();
                let ours = Filter::compile(text, &options).unwrap();
                assert_eq!(theirs.run(&packet) != 0, matches, "{link}: {text}");
                assert_eq!(ours.matches(&packet.view(link), &Default::default()), matches, "{link}: {text}");
                assert_eq!(ours.error(link), None);
            }
            for text in ["tcp", "host 1.2.3.4", "ip[0] = 5", "vlan", "broadcast"] {
                assert!(Pcap::empty(link, SNAPLEN).compile(text, true, NETMASK).is_err(), "{link}: {text}");
                let ours = Filter::compile(text, &options).unwrap();
                assert!(ours.error(link).is_some(), "{link}: {text}");
                assert!(!ours.matches(&packet.view(link), &Default::default()));
            }
        }
    }
}
