//! Compares sets of expressions with libpcap, each strategy in turn: counts, bytes and match sets of every expression.

use std::sync::Arc;

use weir_filter::{Filter, MASK_PACKETS, Masks, MatchCounter, Options, Set, Strategy, Total};
use weir_wire::{Batch, Layers, LinkType, PacketBuf, decode};

use crate::differential::{options, seed, setting};
use crate::ffi::{Owned, Pcap, Program};
use crate::grammar::{Random, expression, folded};
use crate::packets::{any, pool, tagged};

const SNAPLEN: u32 = 262_144;
const NETMASK: u32 = 0xffff_ff00;

const STRATEGIES: [Strategy; 3] = [Strategy::Columns, Strategy::Index, Strategy::Programs];

/// Packets of a round: more than two batches, so that the boundaries of batches are tested.
const PACKETS: usize = 1_300;

/// Typical filters: nets, hosts, ports and flags of the packets, most of them simple.
fn usual(r: &mut Random, packets: &[Owned], link: LinkType) -> String {
    let layers_of = |r: &mut Random| {
        let packet = &packets[r.below(packets.len())];
        (packet, decode(&packet.view(link)))
    };
    let address = |r: &mut Random| {
        let (packet, layers) = layers_of(r);
        let side = r.below(2);
        match weir_wire::addresses(&packet.view(link), &layers) {
            Some(pair) => std::net::Ipv6Addr::from([pair.0, pair.1][side]).to_canonical(),
            None => std::net::IpAddr::from([10, 0, r.below(3) as u8, r.below(256) as u8]),
        }
    };
    let net = |r: &mut Random| {
        let kind = r.pick(&["", "src ", "dst ", "src or dst ", "src and dst "]);
        match address(r) {
            std::net::IpAddr::V4(a) if r.one_in(3) => format!("{kind}host {a}"),
            std::net::IpAddr::V4(a) => {
                let len = r.below(33) as u32;
                let net = u32::from(a) & u32::MAX.checked_shl(32 - len).unwrap_or(0);
                format!("{kind}net {}/{len}", std::net::Ipv4Addr::from(net))
            }
            std::net::IpAddr::V6(a) if r.one_in(3) => format!("ip6 {kind}host {a}"),
            std::net::IpAddr::V6(a) => {
                let len = r.below(129) as u32;
                let net = u128::from(a) & u128::MAX.checked_shl(128 - len).unwrap_or(0);
                format!("{kind}net {}/{len}", std::net::Ipv6Addr::from(net))
            }
        }
    };
    let port = |r: &mut Random| {
        let (_, layers) = layers_of(r);
        let side = r.below(2);
        let port = if r.one_in(4) { r.below(65_536) as u16 } else { layers.ports[side] };
        let of = r.pick(&["", "tcp ", "udp ", "sctp "]);
        let kind = r.pick(&["", "src ", "dst ", "", ""]);
        match r.below(5) {
            0 => format!("{of}{kind}portrange {port}-{}", port.saturating_add(r.below(3_000) as u16)),
            _ => format!("{of}{kind}port {port}"),
        }
    };
    let flags = |r: &mut Random| {
        r.pick(&[
            "tcp[13] & 2 != 0",
            "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
            "ip[8] < 64",
            "len > 200",
            "less 100",
            "greater 1000",
            "icmp[0] = 8",
            "icmp6[0] == 128",
            "ip[6:2] & 0x1fff != 0",
            "ether multicast",
            "ether broadcast",
            "ip multicast",
            "ip6 multicast",
            "udp[4:2] > 100",
            "tcp[20:4] = 0x47455420",
            "ip[2:2] > 576",
            "ether[12:2] > 0x800",
            "ip6[7] > 60",
            "vlan",
            "ether dst 01:00:5e:00:00:fb",
            "tcp[(tcp[12] >> 4) * 4] > 3",
        ])
        .to_owned()
    };
    let word = |r: &mut Random| {
        r.pick(&[
            "tcp",
            "udp",
            "icmp",
            "ip",
            "ip6",
            "arp",
            "icmp6",
            "sctp",
            "ip proto 47",
            "proto 17",
            "ether proto 0x88cc",
        ])
        .to_owned()
    };
    let vlan = |r: &mut Random| {
        r.pick(&[
            "vlan",
            "vlan 5",
            "vlan 5",
            "vlan 6",
            "vlan 0",
            "vlan 7",
            "vlan 4095",
            "not vlan",
            "not vlan 5",
        ])
        .to_owned()
    };
    let one = |r: &mut Random| match r.below(14) {
        0..=4 => net(r),
        5..=8 => port(r),
        9 => word(r),
        10..=11 => vlan(r),
        12 => folded(r, &["ether", "ip", "tcp", "udp", "ip6"]),
        _ => flags(r),
    };
    let mut text = one(r);
    for _ in 0..r.below(4) {
        let join = r.pick(&[" and ", " and ", " or ", " and not ", " or not "]);
        text = match r.below(6) {
            0 => format!("not ({text}){join}{}", one(r)),
            1 => format!("({text}){join}({} or {})", one(r), one(r)),
            _ => format!("{text}{join}{}", one(r)),
        };
    }
    text
}

struct Case {
    text: String,
    theirs: Program,
}

/// An expression that both compile, with libpcap's verdict for every packet.
fn case(r: &mut Random, packets: &[Owned], link: LinkType, strict: bool) -> Option<Case> {
    let text = if r.one_in(4) { expression(r, link, true) } else { usual(r, packets, link) };
    let theirs = Pcap::empty(link, SNAPLEN).compile(&text, true, NETMASK).ok()?;
    if !strict {
        Filter::compile(&text, &options(strict)).ok()?;
    }
    let unsure = |code: u16, k: u32| matches!(code, 0x60 | 0x61) || code == 0x05 && k >= 1 << 31;
    (!theirs.insns().iter().any(|i| unsure(i.code, i.k))).then_some(Case { text, theirs })
}

fn batch_of(packets: &[Owned], link: LinkType) -> PacketBuf {
    let mut chunk = PacketBuf::default();
    for packet in packets {
        chunk.push(&packet.view(link));
    }
    chunk
}

/// For each expression and packet, whether it matches.
type Truth = Vec<Vec<bool>>;

fn total(batch: Batch<'_>, matches: impl Iterator<Item = bool>) -> Total {
    let mut total = Total::default();
    for (packet, _) in batch.packets().zip(matches).filter(|(_, matches)| *matches) {
        total.packets += 1;
        total.bytes += u64::from(packet.wire_len);
    }
    total
}

/// Compares counts, bytes, remainders and match sets of one strategy and returns the differences.
fn differences(
    set: Set,
    batch: Batch<'_>,
    layers: Option<&[Layers]>,
    texts: &[String],
    truth: &Truth,
    remainders: &[Vec<u32>],
) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut counter = MatchCounter::new(Arc::new(set.with_remainders(remainders.to_vec())));
    // In parts, so that columns fill up over several calls.
    for (slots, at) in batch.slots.chunks(257).zip((0..).step_by(257)) {
        let layers = layers.and_then(|layers| layers.get(at..at + slots.len()));
        counter.packets(Batch { bytes: batch.bytes, slots }, layers);
    }
    let totals = counter.take();
    for ((text, truth), counted) in texts.iter().zip(truth).zip(&totals.expressions) {
        let expected = total(batch, truth.iter().copied());
        if expected != *counted {
            wrong.push(format!("{text}\n  counted {counted:?}, {expected:?} match"));
        }
    }
    for (lines, counted) in remainders.iter().zip(&totals.remainders) {
        let none = (0..batch.len()).map(|at| !lines.iter().any(|line| truth[*line as usize][at]));
        let expected = total(batch, none);
        if expected != *counted {
            wrong.push(format!("remainder of {lines:?}\n  counted {counted:?}, expected {expected:?}"));
        }
    }
    if counter.take().expressions.iter().any(|total| *total != Total::default()) {
        wrong.push("counts that were taken are returned again".to_owned());
    }
    let mut sets: Vec<Vec<u32>> = vec![Vec::new(); batch.len()];
    counter.match_sets(batch, layers, &mut |at, matched| sets[at] = matched.to_vec());
    for (at, found) in sets.iter().enumerate() {
        let expected: Vec<u32> = (0..texts.len() as u32).filter(|text| truth[*text as usize][at]).collect();
        if expected != *found {
            let irregular = (0..texts.len() as u32).find(|t| expected.contains(t) != found.contains(t));
            let text = irregular.map_or("twice", |irregular| &texts[irregular as usize]);
            wrong.push(format!("{text}\n  match set of packet {at}: {:x?}", batch.get(at).unwrap().data));
        }
    }
    let Some(layers) = layers else { return wrong };
    // The masks of a batch have nothing of the batch before it.
    let mut masks = Masks::default();
    for (slots, at) in batch.slots.chunks(MASK_PACKETS).zip((0..).step_by(MASK_PACKETS)) {
        counter.masks(Batch { bytes: batch.bytes, slots }, &layers[at..at + slots.len()], &mut masks);
        let mut matching: Vec<u32> = masks.matching().map(|(expression, _)| expression).collect();
        matching.sort_unstable();
        for (number, (text, truth)) in (0..).zip(texts.iter().zip(truth)) {
            let truth = &truth[at..at + slots.len()];
            let mask = masks.of(number).unwrap();
            let found = (0..slots.len()).map(|n| mask[n / 64] >> (n % 64) & 1 == 1);
            let is_named = matching.binary_search(&number).is_ok();
            if !found.eq(truth.iter().copied()) || is_named != truth.contains(&true) {
                wrong.push(format!("{text}\n  mask of packets from {at}"));
            }
        }
    }
    wrong
}

fn compare(pairs: u64, largest: usize, strict: bool, links: &[LinkType]) {
    let mut r = Random::new(seed());
    let pool = pool(4_000);
    let (mut done, mut matched, mut rounds, mut wrong) = (0_u64, 0_u64, 0_usize, Vec::new());
    while done < pairs && wrong.len() < 5 {
        let link = links[rounds % links.len()];
        rounds += 1;
        let packets: Vec<Owned> = (0..PACKETS)
            .map(|_| {
                let packet = match r.one_in(3) {
                    true => any(&mut r, &pool[&link]),
                    false => pool[&link][r.below(pool[&link].len())].clone(),
                };
                if r.one_in(3) { tagged(&mut r, packet, link) } else { packet }
            })
            .collect();
        let chunk = batch_of(&packets, link);
        let batch = chunk.batch();
        let layers: Vec<Layers> = batch.packets().map(|packet| decode(&packet)).collect();
        // Small and large sets: from 1 to `largest`, in powers of two.
        let wanted = 1 << r.below(largest.ilog2() as usize + 1);
        let cases: Vec<Case> =
            (0..wanted * 4).filter_map(|_| case(&mut r, &packets, link, strict)).take(wanted).collect();
        let texts: Vec<String> = cases.iter().map(|case| case.text.clone()).collect();
        let options = options(strict);
        let truth: Truth = if strict {
            cases.iter().map(|case| packets.iter().map(|p| case.theirs.run(p) != 0).collect()).collect()
        } else {
            let filters = texts.iter().map(|text| Filter::compile(text, &options).unwrap());
            let verdicts =
                |filter: Filter| batch.packets().zip(&layers).map(|(p, l)| filter.matches(&p, l)).collect();
            filters.map(verdicts).collect()
        };
        matched += truth.iter().flatten().filter(|matches| **matches).count() as u64;
        let lines: Vec<u32> = (0..texts.len() as u32).collect();
        let remainders: Vec<Vec<u32>> = lines.chunks(1 + r.below(9)).map(<[u32]>::to_vec).collect();
        let set = |strategy| {
            Set::compile(&texts, &options).unwrap_or_else(|e| panic!("{}: {e}", texts[e.index])).by(strategy)
        };
        for strategy in STRATEGIES {
            let given = (!strict || r.one_in(2)).then_some(layers.as_slice());
            for text in differences(set(strategy), batch, given, &texts, &truth, &remainders) {
                wrong.push(format!("{link} {strategy:?}: {text}"));
            }
            done += (texts.len() * packets.len()) as u64;
        }
    }
    wrong.sort_by_key(String::len);
    for text in wrong.iter().take(8) {
        println!("{text}");
    }
    println!("{rounds} sets, {done} pairs, {matched} matches, {} differences", wrong.len());
    assert!(wrong.is_empty() && matched > 0);
}

#[test]
fn sets_decide_as_libpcap() {
    compare(setting("WEIR_SET_PAIRS", 4_000_000), 64, true, &[LinkType::ETHERNET]);
}

#[test]
fn large_sets_decide_as_libpcap() {
    compare(setting("WEIR_SET_PAIRS", 8_000_000), 1024, true, &[LinkType::ETHERNET]);
}

#[test]
fn sets_decide_as_libpcap_on_every_link_type() {
    compare(setting("WEIR_SET_PAIRS", 2_000_000), 64, true, &crate::packets::oracle());
}

#[test]
fn sets_look_through_tags_as_single_expressions() {
    compare(setting("WEIR_SET_PAIRS", 2_000_000), 64, false, weir_filter::LINK_TYPES);
}

/// Changing a set takes little time and is exact.
#[test]
fn a_set_changes_by_one() {
    let mut r = Random::new(seed());
    let texts: Vec<String> = (0..10_000)
        .map(|n| format!("net 10.{}.{}.0/24 and tcp port {}", r.below(256), n % 256, 1 + r.below(1024)))
        .collect();
    let options = Options::default();
    let set = Set::compile(&texts, &options).unwrap();
    let with = set.with("udp port 53", &options).unwrap();
    assert_eq!((set.len(), with.len(), with.without(0).len()), (10_000, 10_001, 10_000));
    let error = set.with("udp prt 53", &options).unwrap_err();
    assert!(error.to_string().contains("prt"), "{error}");
}
