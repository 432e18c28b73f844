//! Random expressions against libpcap.

use weir_filter::{BpfInsn, Filter, LINK_TYPES, Options};

use crate::ffi::Pcap;
use crate::grammar::{Random, expression};

const SNAPLEN: u32 = 262_144;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|s| s.replace('_', "").parse().ok()).unwrap_or(default)
}

fn strict() -> Options<'static> {
    Options { strict_bpf: true, snaplen: SNAPLEN, netmask: Some(0xffff_ff00), ..Options::default() }
}

fn listing(insns: &[BpfInsn]) -> String {
    let line = |(i, x): (usize, &BpfInsn)| {
        format!("({i:03}) {:#04x} jt {} jf {} k {:#x}\n", x.code, i + 1 + x.jt as usize, i + 1 + x.jf as usize, x.k)
    };
    insns.iter().enumerate().map(line).collect()
}

/// libpcap 1.10 and we make the same program, instruction for instruction.
#[test]
fn programs_are_libpcaps() {
    let seed = setting("WEIR_SEED", std::process::id().into());
    let count = setting("WEIR_DIFF_PROGRAMS", 20_000);
    println!("seed {seed}");
    let mut r = Random::new(seed);
    let mut same = 0;
    let mut refused = 0;
    let mut wrong = Vec::new();
    for i in 0..count {
        let link = LINK_TYPES[(i % LINK_TYPES.len() as u64) as usize];
        let pcap = Pcap::empty(link, SNAPLEN);
        let text = expression(&mut r, link, true);
        let theirs = pcap.compile(&text, true, 0xffff_ff00);
        let ours = Filter::compile_for(&text, &[link], &strict());
        match (theirs, ours) {
            (Ok(theirs), Ok(ours)) => {
                let ours = ours.classic(link).unwrap();
                if ours == theirs.insns() {
                    same += 1;
                } else {
                    wrong.push(format!("{link}: {text}\nours:\n{}theirs:\n{}", listing(&ours), listing(&theirs.insns())));
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
    println!("{count} expressions: {same} the same, {refused} refused by both, {} different", wrong.len());
    assert!(wrong.is_empty());
}
