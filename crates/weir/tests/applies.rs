//! Expressions that cannot apply to a capture's link type are refused, or reported if other captures are read too. A
//! count of 0 would hide that no packet was tested.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::path::PathBuf;
use support::*;
use weir_wire::build;

const START: u64 = 1_700_000_000 * SECOND;
const RAW: u32 = 101;
/// D-Bus, which is not decoded.
const DBUS: u32 = 231;

struct Desk {
    folder: tempfile::TempDir,
}

impl Desk {
    fn new() -> Desk {
        let folder = tempfile::tempdir().unwrap();
        let ip = || build::ip().ipv4([10, 0, 0, 1], [255, 255, 255, 255]).udp(5, 6).payload(b"x");
        put(folder.path(), "ethernet.pcap", &pcap(1, &conversation(START)));
        put(folder.path(), "raw.pcap", &pcap(RAW, &[(START, ip()), (START, ip())]));
        put(folder.path(), "dbus.pcap", &pcap(DBUS, &[(START, vec![b'l', 1, 0, 1])]));
        let mixed = [
            section(),
            interface(1),
            enhanced(0, START, &conversation(START)[2].1),
            interface(DBUS as u16),
            enhanced(1, START, &[b'l', 1, 0, 1]),
        ];
        put(folder.path(), "mixed.pcapng", &mixed.concat());
        Desk { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a line of words; a word that names a file in the folder is replaced by its path.
    fn weir(&self, line: &str) -> Ran {
        let of = |word: &str| match self.path(word) {
            path if path.exists() || word.ends_with(".out") => text(&path).to_owned(),
            _ => word.replace('_', " "),
        };
        weir(line.split_whitespace().map(of))
    }

    /// Packets of each expression that has a row.
    fn counts(&self, line: &str) -> Vec<(String, u64)> {
        let rows = self.weir(&format!("count --json {line}")).json();
        rows.iter()
            .map(|row| (row["expression"].as_str().unwrap().to_owned(), row["packets"].as_u64().unwrap()))
            .collect()
    }
}

#[test]
fn a_link_type_that_is_not_decoded_is_refused() {
    let desk = Desk::new();
    let refused = desk.weir("count -e tcp dbus.pcap").exits(2).says("dbus.pcap: link type DBUS: filter:");
    assert_eq!(refused.text(), "");
    desk.weir("count --strict-bpf -e tcp dbus.pcap").exits(2);
    // Bytes and lengths exist regardless of the link type.
    assert_eq!(
        desk.counts("-e len_>_1 -e link[0]_=_108 dbus.pcap"),
        [("len > 1".into(), 1), ("link[0] = 108".into(), 1)]
    );
    desk.weir("count -e len_>_1 dbus.pcap").exits(0).quietly();
}

#[test]
fn an_expression_that_cannot_apply_is_refused() {
    let desk = Desk::new();
    for line in [
        "count -e vlan raw.pcap",
        "count --strict-bpf -e vlan raw.pcap",
        "count -e ether_host_1:2:3:4:5:6 raw.pcap",
    ] {
        let refused = desk
            .weir(line)
            .exits(2)
            .says("raw.pcap: link type RAW: filter:")
            .says("not supported on DLT_RAW");
        assert_eq!(refused.text(), "");
    }
    desk.weir("count -e arp raw.pcap").exits(2).says("expression rejects all packets");
    // Expressions that apply are counted too.
    assert_eq!(desk.counts("-e vlan -e udp raw.pcap"), [("udp".into(), 2)]);
    desk.weir("count -e vlan -e udp raw.pcap").exits(2).says("raw.pcap: link type RAW");
}

#[test]
fn a_file_that_does_not_fit_is_reported_and_the_others_are_counted() {
    let desk = Desk::new();
    assert_eq!(desk.counts("-e tcp dbus.pcap ethernet.pcap"), [("tcp".into(), 4)]);
    desk.weir("count -e tcp dbus.pcap ethernet.pcap").exits(2).says("dbus.pcap: link type DBUS");
    assert_eq!(desk.counts("-e not_vlan raw.pcap ethernet.pcap"), [("not vlan".into(), 6)]);
    desk.weir("count -e not_vlan raw.pcap ethernet.pcap").exits(2).says("raw.pcap: link type RAW");
    // It is a valid result that no packet of one file is ARP.
    desk.weir("count -e arp raw.pcap ethernet.pcap").exits(0).quietly();
}

#[test]
fn an_interface_that_does_not_fit_is_reported() {
    let desk = Desk::new();
    assert_eq!(desk.counts("-e tcp mixed.pcapng"), [("tcp".into(), 1)]);
    desk.weir("count -e tcp mixed.pcapng").exits(2).says("mixed.pcapng: link type DBUS");
    let bytes = std::fs::read(desk.path("mixed.pcapng")).unwrap();
    weir_reads(["count", "-e", "tcp", "-"], bytes).exits(2).says("link type DBUS").prints("tcp");
    let bytes = std::fs::read(desk.path("dbus.pcap")).unwrap();
    let refused = weir_reads(["count", "-e", "tcp", "-"], bytes).exits(2).says("link type DBUS");
    assert_eq!(refused.text(), "");
}

#[test]
fn a_run_with_such_an_expression_writes_nothing() {
    let desk = Desk::new();
    for line in [
        "dbus.pcap tcp",
        "raw.pcap vlan",
        "dbus.pcap -w x.out tcp",
        "raw.pcap -w x.out vlan",
        "-r raw.pcap -w - vlan",
    ] {
        let refused = desk.weir(line).exits(2).says("link type");
        assert_eq!(refused.text(), "", "{line}");
        assert!(std::fs::read_dir(desk.folder.path()).unwrap().count() == 4, "{line}");
    }
    // Without an expression there are facts about any link type.
    desk.weir("dbus.pcap").exits(0);
    desk.weir("dbus.pcap ethernet.pcap tcp").exits(2).says("dbus.pcap: link type DBUS").prints("tcp");
}

/// As in tcpdump, if the interface and therefore its netmask are unknown.
#[test]
fn ip_broadcast_of_files_assumes_no_netmask() {
    let desk = Desk::new();
    assert_eq!(desk.counts("-e ip_broadcast raw.pcap"), [("ip broadcast".into(), 2)]);
    assert_eq!(desk.counts("-e ip_broadcast ethernet.pcap"), [("ip broadcast".into(), 0)]);
}

/// libpcap's optimiser removes a load without effect, so that it does not reject packets that are too short for it.
#[test]
fn loads_without_effect_reject_no_packet() {
    let desk = Desk::new();
    for expression in [
        "ether[1000:2]_&_0_=_0",
        "ether[1000]_*_0_=_0",
        "ether[1000]_=_0_or_ether[1000]_!=_0",
        "0_&_ether[1000:4]_=_0",
    ] {
        let counted = desk.counts(&format!("--strict-bpf -e {expression} ethernet.pcap"));
        assert_eq!(counted[0].1, 6, "{expression}");
    }
    assert_eq!(desk.counts("--strict-bpf -e ether[1000]_&_1_=_0 ethernet.pcap")[0].1, 0);
}
