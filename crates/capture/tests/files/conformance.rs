//! Captures of other projects: block, packet and comment counts compared with those of other readers.

use std::path::Path;
use std::process::Command;

use pcap_parser::pcapng::{Block as NgBlock, OptionCode};
use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
use pcap_parser::{PcapBlockOwned, PcapError, PcapNGReader};

use weir_capture::Severity;

use crate::support::{is_capture, read_path, shared, walk};

/// Block counts of a test file: lines such as `\tEPB: 4` of the text file next to it.
fn listed(text: &str, name: &str) -> u64 {
    let prefix = format!("{name}: ");
    text.lines()
        .find_map(|line| line.trim().strip_prefix(&prefix))
        .map_or(0, |count| count.trim().parse().unwrap())
}

#[test]
fn pcapng_test_files_have_the_documented_blocks() {
    let Some(data) = shared() else { return };
    let files: Vec<_> = walk(&data.join("pcapng-test"))
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "pcapng"))
        .collect();
    let passed = files
        .iter()
        .filter(|path| {
            let text = std::fs::read_to_string(path.with_extension("txt")).unwrap();
            let outcome = read_path(path);
            assert!(outcome.errors.is_empty(), "{}: {:?}", path.display(), outcome.errors);
            let blocks = outcome.inputs[0].blocks;
            let ours = [
                blocks.sections,
                blocks.interfaces,
                blocks.enhanced,
                blocks.simple,
                blocks.obsolete,
                blocks.names,
                blocks.statistics,
                blocks.custom,
                blocks.custom_private,
            ];
            let names = ["SHB", "IDB", "EPB", "SPB", "PB", "NRB", "ISB", "CB", "DCB"];
            let theirs = names.map(|name| listed(&text, name));
            assert_eq!(ours, theirs, "{}: {names:?}", path.display());
            assert_eq!(blocks.other, 0, "{}", path.display());
            outcome.packets.len() as u64 == theirs[2] + theirs[3] + theirs[4]
        })
        .count();
    let required = 24;
    println!("pcapng-test: passed {passed} of {}, required {required}", files.len());
    assert!(passed >= required && passed == files.len());
}

/// Packets and comments as counted by the pcap-parser crate; `None` if it gives up.
fn by_pcap_parser(path: &Path) -> Option<(u64, u64, u64)> {
    let mut reader = PcapNGReader::new(1 << 20, std::fs::File::open(path).ok()?).ok()?;
    let (mut packets, mut on_packets, mut on_others) = (0, 0, 0);
    let comments = |options: &[pcap_parser::PcapNGOption<'_>]| {
        options.iter().filter(|option| option.code == OptionCode::Comment).count() as u64
    };
    loop {
        match reader.next() {
            Ok((offset, block)) => {
                match block {
                    PcapBlockOwned::NG(NgBlock::EnhancedPacket(block)) => {
                        packets += 1;
                        on_packets += comments(&block.options);
                        assert!(block.packet_data().len() >= block.caplen as usize);
                    }
                    PcapBlockOwned::NG(NgBlock::SimplePacket(_)) => packets += 1,
                    PcapBlockOwned::NG(NgBlock::SectionHeader(block)) => {
                        on_others += comments(&block.options)
                    }
                    PcapBlockOwned::NG(NgBlock::InterfaceDescription(block)) => {
                        on_others += comments(&block.options);
                    }
                    PcapBlockOwned::NG(NgBlock::InterfaceStatistics(block)) => {
                        on_others += comments(&block.options);
                    }
                    _ => {}
                }
                reader.consume(offset);
            }
            Err(PcapError::Eof) => return Some((packets, on_packets, on_others)),
            Err(PcapError::Incomplete(_)) => reader.refill().ok()?,
            Err(_) => return None,
        }
    }
}

#[test]
fn packets_and_comments_agree_with_pcap_parser() {
    let Some(data) = shared() else { return };
    let (mut compared, mut comments, mut abandoned, mut refused) = (0, 0, 0, 0);
    for path in walk(&data).iter().filter(|path| is_capture(path)) {
        let mut head = [0; 4];
        let read =
            std::fs::File::open(path).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut head));
        if read.is_err() || head != [0x0a, 0x0d, 0x0d, 0x0a] {
            continue;
        }
        let Some(theirs) = by_pcap_parser(path) else {
            abandoned += 1;
            continue;
        };
        let outcome = read_path(path);
        if outcome.errors.iter().any(|error| error.severity() == Severity::Unreadable) {
            // libpcap refuses these versions too; pcap-parser does not check them.
            refused += 1;
            continue;
        }
        let info = &outcome.inputs[0];
        let old = info.blocks.obsolete;
        let on_packets: u64 = outcome.packets.iter().map(|packet| packet.comments.len() as u64).sum();
        assert_eq!(on_packets, info.packet_comments);
        let others = info.comments.len() as u64 + info.texts_dropped;
        assert_eq!((info.packets - old, on_packets, others), theirs, "{}", path.display());
        compared += 1;
        comments += on_packets + others;
    }
    println!(
        "pcap-parser: {compared} files with {comments} comments agree; it gave {abandoned} up, we refused {refused}"
    );
    assert!(compared >= 140 && refused <= 2);
}

/// `tcpdump --count`: the number of packets up to the end or the first error, and whether an error occurred.
fn by_tcpdump(path: &Path) -> Option<(u64, bool)> {
    let output = Command::new("tcpdump").arg("--count").arg("-r").arg(path).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let count = text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0);
    Some((count, !output.status.success()))
}

#[test]
fn counts_agree_with_tcpdump() {
    let Some(data) = shared() else { return };
    if Command::new("tcpdump").arg("--version").output().is_err() {
        println!("skipped: tcpdump is not installed");
        return;
    }
    let files: Vec<_> = walk(&data.join("tcpdump")).into_iter().filter(|path| is_capture(path)).collect();
    let mut passed = 0;
    for path in &files {
        let (count, failed) = by_tcpdump(path).unwrap();
        let outcome = read_path(path);
        let ours = (outcome.packets.len() as u64, !outcome.errors.is_empty());
        if ours == (count, failed) {
            passed += 1;
        } else {
            println!("{}: {ours:?}, tcpdump {count} {failed}", path.display());
        }
    }
    let required = 341;
    println!("tcpdump --count: passed {passed} of {}, required {required}", files.len());
    assert!(passed >= required && passed == files.len());
}

#[test]
fn every_capture_is_read() {
    let Some(data) = shared() else { return };
    let breadth = data.with_file_name("breadth");
    let folders = [data, breadth].into_iter().filter(|folder| folder.is_dir());
    let files: Vec<_> = folders.flat_map(|folder| walk(&folder)).filter(|path| is_capture(path)).collect();
    let (mut packets, mut bad) = (0, 0);
    for path in &files {
        let outcome = read_path(path);
        packets += outcome.packets.len();
        assert!(outcome.errors.len() <= 1, "one input gives one error");
        // The packets do not depend on the size of the buffers.
        let small = weir_capture::ReadOptions { chunk_bytes: 4096, ..Default::default() };
        let again = crate::support::read(&[weir_capture::Input::Path(path.clone())], &small);
        assert!(again.packets == outcome.packets, "{}: differs in small chunks", path.display());
        if let Some(error) = outcome.errors.first() {
            bad += 1;
            println!("{error}");
        }
    }
    println!("{} captures, {packets} packets, {bad} end badly", files.len());
    assert!(files.len() >= 1_500 && packets > 70_000 && bad <= 9);
}
