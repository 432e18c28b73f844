//! Compares random expressions with libpcap.

use weir_filter::{BpfInsn, Filter, Options};
use weir_wire::{LinkType, decode};

use crate::ffi::{Owned, Pcap, Program};
use crate::grammar::{Random, expression};
use crate::packets::{BY_LAYERS, any, oracle, pool};

const SNAPLEN: u32 = 262_144;
const NETMASK: u32 = 0xffff_ff00;

pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|s| s.replace('_', "").parse().ok()).unwrap_or(default)
}

/// Seed of the random expressions. It is fixed by default, so that two runs on one commit have one verdict; the long
/// tests try others.
pub fn seed() -> u64 {
    let seed = setting("WEIR_SEED", 1);
    println!("seed {seed}");
    seed
}

pub fn options(strict_bpf: bool) -> Options<'static> {
    Options { strict_bpf, snaplen: SNAPLEN, netmask: Some(NETMASK), ..Options::default() }
}

fn listing(insns: &[BpfInsn]) -> String {
    let line = |(i, x): (usize, &BpfInsn)| {
        format!(
            "({i:03}) {:#04x} jt {} jf {} k {:#x}\n",
            x.code,
            i + 1 + x.jt as usize,
            i + 1 + x.jf as usize,
            x.k
        )
    };
    insns.iter().enumerate().map(line).collect()
}

/// libpcap 1.10 and this crate compile the same program, instruction for instruction, or both reject the expression.
#[test]
fn programs_equal_libpcaps() {
    let mut r = Random::new(seed());
    let count = setting("WEIR_DIFF_PROGRAMS", 20_000);
    let (mut same, mut refused, mut wrong) = (0, 0, Vec::new());
    let links = oracle();
    for i in 0..count {
        let link = links[(i % links.len() as u64) as usize];
        let text = expression(&mut r, link, true);
        // PCAP_NETMASK_UNKNOWN is all ones.
        let netmask = [NETMASK, 0, 0xffff_0000, u32::MAX][r.below(4)];
        let theirs = Pcap::empty(link, SNAPLEN).compile(&text, true, netmask);
        let netmask = Some(netmask).filter(|netmask| *netmask != u32::MAX);
        let ours = Filter::compile_for(&text, &[link], &Options { netmask, ..options(true) });
        match (theirs, ours) {
            (Ok(theirs), Ok(ours)) => {
                let (ours, theirs) = (ours.classic(link).unwrap(), theirs.insns());
                if ours == theirs {
                    same += 1;
                } else {
                    wrong.push(format!(
                        "{link}: {text}\nours:\n{}theirs:\n{}",
                        listing(&ours),
                        listing(&theirs)
                    ));
                }
            }
            (Err(_), Err(_)) => refused += 1,
            (Err(e), Ok(_)) => wrong.push(format!("{link}: {text}\nlibpcap refuses: {e}")),
            (Ok(_), Err(e)) => wrong.push(format!("{link}: {text}\nwe refuse: {e}")),
        }
    }
    wrong.sort_by_key(String::len);
    for w in wrong.iter().take(setting("WEIR_SHOW", 8) as usize) {
        println!("{w}");
    }
    println!("{count} expressions: {same} equal, {refused} rejected by both, {} different", wrong.len());
    assert!(wrong.is_empty());
}

/// How libpcap would process a packet.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Run {
    /// It decides the packet.
    Fine,
    /// It never ends: only `protochain` loops, and it can do so for ever.
    Endless,
    /// It reads a scratch word before writing it, so that the value is undefined: offsets that `geneve` and `pppoes`
    /// compute are used after an `or`, too, and the optimiser removes code that computes others.
    Garbage,
}

/// Runs a program as bpf(4) specifies, to find the packets for which libpcap's verdict is undefined.
fn rehearse(insns: &[BpfInsn], packet: &Owned) -> Run {
    let (mut a, mut x, mut memory, mut pc) = (0u32, 0u32, [None; 16], 0usize);
    let bytes = |at: u64, n: u64| {
        let slice = packet.data.get(at as usize..(at + n) as usize)?;
        Some(slice.iter().fold(0u32, |v, b| v << 8 | u32::from(*b)))
    };
    for _ in 0..10_000 {
        let i = insns[pc];
        pc += 1;
        let b = if i.code & 8 != 0 { x } else { i.k };
        let mut jump = |taken: bool| pc += usize::from(if taken { i.jt } else { i.jf });
        let load = |n| bytes(u64::from(i.k) + if i.code & 0xe0 == 0x40 { u64::from(x) } else { 0 }, n);
        let loaded = match i.code {
            0x20 | 0x40 => load(4),
            0x28 | 0x48 => load(2),
            0x30 | 0x50 | 0xb1 => load(1),
            0x00 | 0x01 => Some(i.k),
            0x60 | 0x61 => match memory[i.k as usize] {
                None => return Run::Garbage,
                word => word,
            },
            0x80 => Some(packet.wire_len),
            _ => Some(0),
        };
        let Some(loaded) = loaded else { return Run::Fine };
        match i.code {
            0xb1 => x = (loaded & 0xf) << 2,
            0x01 | 0x61 => x = loaded,
            0x02 => memory[i.k as usize] = Some(a),
            0x03 => memory[i.k as usize] = Some(x),
            0x05 => pc = pc.wrapping_add_signed(i.k as i32 as isize),
            0x15 | 0x1d => jump(a == b),
            0x25 | 0x2d => jump(a > b),
            0x35 | 0x3d => jump(a >= b),
            0x45 | 0x4d => jump(a & b != 0),
            0x06 => return Run::Fine,
            0x07 => x = a,
            0x87 => a = x,
            code if code & 7 == 4 => {
                a = match code & 0xf0 {
                    0x00 => a.wrapping_add(b),
                    0x10 => a.wrapping_sub(b),
                    0x20 => a.wrapping_mul(b),
                    0x30 if b == 0 => return Run::Fine,
                    0x30 => a / b,
                    0x40 => a | b,
                    0x50 => a & b,
                    0x60 => a.checked_shl(b).unwrap_or(0),
                    0x70 => a.checked_shr(b).unwrap_or(0),
                    0x80 => a.wrapping_neg(),
                    0x90 if b == 0 => return Run::Fine,
                    0x90 => a % b,
                    _ => a ^ b,
                }
            }
            _ => a = loaded,
        }
    }
    Run::Endless
}

/// Both programs of an expression for a link type.
struct Both {
    text: String,
    link: LinkType,
    ours: weir_filter::Program,
    theirs: Program,
    /// Whether libpcap's verdict may be undefined for some packet.
    doubtful: bool,
}

fn both(r: &mut Random, link: LinkType, strict: bool) -> Option<Both> {
    let text = expression(r, link, strict);
    let theirs = Pcap::empty(link, SNAPLEN).compile(&text, true, NETMASK).ok()?;
    let ours = match Filter::compile_for(&text, &[link], &options(strict)) {
        Ok(filter) => filter.for_link(link).unwrap(),
        Err(e) => panic!("libpcap compiles {text} for {link}: {e}"),
    };
    let doubtful =
        theirs.insns().iter().any(|i| matches!(i.code, 0x60 | 0x61) || i.code == 0x05 && i.k >= 1 << 31);
    Some(Both { text, link, ours, theirs, doubtful })
}

/// Runs both programs on packets until there are enough pairs. Returns the number of differences.
fn compare(pairs: u64, strict: bool, links: &[LinkType], wanted: impl Fn(&Owned, LinkType) -> bool) -> u64 {
    let mut r = Random::new(seed());
    let pool = pool(if pairs > 10_000_000 { 60_000 } else { 4_000 });
    // Broken packets are generated once for this many expressions.
    let (expressions, batch) = (20, 500);
    let (mut done, mut matched, mut endless, mut garbage, mut different) = (0, 0, 0u64, 0u64, 0);
    let mut round = 0;
    while done < pairs {
        let link = links[round % links.len()];
        round += 1;
        let packets: Vec<Owned> =
            (0..batch).map(|_| any(&mut r, &pool[&link])).filter(|p| wanted(p, link)).collect();
        if packets.is_empty() {
            continue;
        }
        for _ in 0..expressions {
            let Some(both) = both(&mut r, link, strict) else { continue };
            let insns = if both.doubtful { both.theirs.insns() } else { Vec::new() };
            let run_ours =
                || packets.iter().map(|p| both.ours.run(&p.view(link), None)).collect::<Vec<u32>>();
            let run_theirs = || {
                let run = |p: &Owned| match rehearse(&insns, p) {
                    Run::Fine => Ok(both.theirs.run(p)),
                    doubt => Err(doubt),
                };
                let all = packets.iter();
                let results: Vec<Result<u32, Run>> = if both.doubtful {
                    all.map(run).collect()
                } else {
                    all.map(|p| Ok(both.theirs.run(p))).collect()
                };
                results
            };
            let (ours, theirs) = (run_ours(), run_theirs());
            for ((ours, theirs), packet) in ours.iter().zip(&theirs).zip(&packets) {
                let theirs = match theirs {
                    Ok(theirs) => theirs,
                    Err(Run::Endless) => {
                        endless += 1;
                        continue;
                    }
                    Err(_) => {
                        garbage += 1;
                        continue;
                    }
                };
                done += 1;
                matched += u64::from(*ours != 0);
                if ours != theirs {
                    different += 1;
                    if different <= 5 {
                        println!(
                            "{}: {}: ours {ours}, libpcap {theirs}, wire length {}, {:02x?}",
                            both.link, both.text, packet.wire_len, packet.data
                        );
                    }
                }
            }
        }
    }
    println!(
        "{done} pairs, {matched} matched, {different} different; left out: {endless} where libpcap does not end, \
         {garbage} where it reads undefined memory"
    );
    different
}

/// The strict verdict is libpcap's, on every packet and on broken ones.
#[test]
fn strict_verdicts_equal_libpcaps() {
    let different = compare(setting("WEIR_DIFF_PAIRS", 1_500_000), true, &oracle(), |_, _| true);
    assert_eq!(different, 0);
}

/// On packets without tags, labels and PPPoE the default verdict is libpcap's too.
#[test]
fn default_verdicts_without_tags_equal_libpcaps() {
    // A loopback header does not show its byte order: by default both orders are accepted; libpcap uses the order of
    // the file.
    let mut links = oracle();
    links.retain(|link| *link != LinkType::NULL && !BY_LAYERS.contains(link));
    let untagged = |p: &Owned, link: LinkType| {
        let layers = decode(&p.view(link));
        let pppoe = layers.pppoe && link != LinkType::PPP_ETHER;
        layers.vlan_count == 0 && layers.mpls_count == 0 && !pppoe && layers.error.is_none()
    };
    let different = compare(setting("WEIR_DIFF_PAIRS", 1_500_000) / 3, false, &links, untagged);
    assert_eq!(different, 0);
}

/// Tags, labels and PPPoE between the link layer and the network layer do not change the default verdict of an
/// expression that does not test them, or bytes or lengths of the frame.
#[test]
fn tags_are_looked_through() {
    const ABOUT_THE_FRAME: &[&str] = &["ether", "link", "byte", "len", "less", "greater", "llc"];
    let mut r = Random::new(seed());
    let frames = &pool(4_000)[&LinkType::ETHERNET];
    let link = LinkType::ETHERNET;
    let ip = |p: &Owned| match p.data.get(12..15) {
        Some([8, 0, version]) => version >> 4 == 4,
        Some([0x86, 0xdd, version]) => version >> 4 == 6,
        _ => false,
    };
    let frames: Vec<&Owned> = frames.iter().filter(|p| ip(p)).collect();
    if frames.is_empty() {
        println!("skipped: no frames");
        return;
    }
    let (mut pairs, mut matched) = (0, 0);
    while pairs < 200_000 {
        let text = expression(&mut r, link, false);
        if ABOUT_THE_FRAME.iter().any(|word| text.contains(word)) {
            continue;
        }
        let Ok(filter) = Filter::compile_for(&text, &[link], &options(false)) else { continue };
        let program = filter.for_link(link).unwrap();
        for _ in 0..200 {
            let mut plain = frames[r.below(frames.len())].clone();
            if r.one_in(4) {
                plain.data.truncate(20 + r.below(60));
            }
            if !ip(&plain) {
                continue;
            }
            let mut wrapped = plain.clone();
            for _ in 0..1 + r.below(4) {
                wrap(&mut r, &mut wrapped.data);
            }
            let (expected, found) =
                (program.run(&plain.view(link), None), program.run(&wrapped.view(link), None));
            assert_eq!(expected, found, "{text}: {:02x?} and {:02x?}", plain.data, wrapped.data);
            pairs += 1;
            matched += u64::from(found != 0);
        }
    }
    println!("{pairs} pairs, {matched} matched");
}

/// Puts a header that is looked through before the payload of a frame.
fn wrap(r: &mut Random, data: &mut Vec<u8>) {
    let kind = [data[12], data[13]];
    // After a label, the version is known only for a network packet, and PPP has no number for a tag.
    let network = matches!(kind, [8, 0] | [0x86, 0xdd]);
    let (outer, header) = match r.below(if network { 5 } else { 2 }) {
        0 => ([0x81, 0], vec![r.below(256) as u8, r.below(256) as u8, kind[0], kind[1]]),
        1 => ([0x88, 0xa8], vec![r.below(256) as u8, r.below(256) as u8, kind[0], kind[1]]),
        2 => ([0x91, 0], vec![0, r.below(256) as u8, kind[0], kind[1]]),
        3 => {
            let labels = (0..r.below(3)).flat_map(|_| [0, 16, 0, 64]);
            ([0x88, 0x47], labels.chain([0, 17, 1, 64]).collect())
        }
        _ => ([0x88, 0x64], vec![0x11, 0, 0, 9, 0, 0, 0, if kind == [8, 0] { 0x21 } else { 0x57 }]),
    };
    data[12] = outer[0];
    data[13] = outer[1];
    data.splice(14..14, header);
}
