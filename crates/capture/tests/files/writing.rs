//! Writing packets, and reading them back.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use weir_capture::{
    FileFormat, Files, Input, InterfaceInfo, PacketWriter, Patience, ReadOptions, Rotate, Statistics, Target,
    WriteError, WriteOptions, salvage,
};
use weir_wire::{Hints, LinkType, Packet, PacketBuf, Time};

use crate::support::{Owned, pcap_header, read_bytes, read_path, record, scratch};

const SECOND: u64 = 1_000_000_000;

fn packet(time: u64, data: &[u8]) -> Packet<'_> {
    Packet {
        time: Time(time),
        data,
        wire_len: data.len() as u32,
        interface: 0,
        link: LinkType::ETHERNET,
        hints: Hints::default(),
        number: 0,
    }
}

fn writer(path: &Path, options: WriteOptions) -> PacketWriter {
    PacketWriter::create(Target::Path(path.to_owned()), options, &[], Time(0)).unwrap()
}

/// Names of the files in a directory, without the random part of unfinished files.
fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .map(|name| {
            name.strip_suffix(".part")
                .map_or(name.clone(), |name| format!("{}.part", &name[..name.len() - 17]))
        })
        .collect();
    names.sort();
    names
}

/// The unfinished file in a directory, in progress or left by a killed process.
fn part(directory: &Path) -> PathBuf {
    let mut entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.find(|path| path.extension().is_some_and(|end| end == "part")).unwrap()
}

fn any_packet() -> impl Strategy<Value = Owned> {
    let data = prop::collection::vec(any::<u8>(), 0..200);
    let comments = prop::collection::vec("[a-z]{1,9}", 0..3);
    (0..4_000_000_000 * SECOND, data, 0..2_000_u32, 0..4_u32, comments).prop_map(
        |(time, data, more, interface, comments)| Owned {
            time: Time(time),
            wire_len: data.len() as u32 + more,
            data,
            interface,
            link: LinkType::ETHERNET,
            comments,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Reading returns the written packets in every format; classic pcap has one interface and no comments.
    #[test]
    fn write_then_read_is_identity(packets in prop::collection::vec(any_packet(), 0..60), ticks in any::<bool>()) {
        let directory = scratch();
        for name in ["x.pcap", "x.pcapng", "x.pcap.gz", "x.pcapng.zst"] {
            let path = directory.path().join(name);
            let options = WriteOptions { nanoseconds: true, ..WriteOptions::default() };
            let interfaces = vec![
                InterfaceInfo { link: LinkType::ETHERNET, name: Some("eth0".into()), ..InterfaceInfo::default() };
                4
            ];
            let mut writer =
                PacketWriter::create(Target::Path(path.clone()), options, &interfaces, Time(0)).unwrap();
            for owned in &packets {
                let packet = Packet {
                    interface: owned.interface,
                    wire_len: owned.wire_len,
                    ..packet(owned.time.0, &owned.data)
                };
                writer.write_with_comments(&packet, owned.comments.iter().map(String::as_str)).unwrap();
                if ticks {
                    writer.tick(owned.time).unwrap();
                }
            }
            let (written, result) = writer.close();
            result.unwrap();
            prop_assert_eq!((written.packets, written.lost), (packets.len() as u64, 0));
            let outcome = read_path(&path);
            prop_assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
            prop_assert_eq!(outcome.packets.len(), packets.len());
            let mut met = Vec::new();
            for (read, owned) in outcome.packets.iter().zip(&packets) {
                let mut expected = owned.clone();
                if name.contains("pcapng") {
                    // Interfaces are numbered in the order of their first packet.
                    if !met.contains(&owned.interface) {
                        met.push(owned.interface);
                    }
                    let number = met.iter().position(|interface| *interface == owned.interface);
                    expected.interface = number.unwrap() as u32;
                } else {
                    expected.interface = 0;
                    expected.comments.clear();
                }
                prop_assert_eq!(read, &expected);
            }
        }
    }
}

#[test]
fn pcapng_keeps_names_drops_and_directions() {
    let directory = scratch();
    let path = directory.path().join("x.pcapng");
    let eth = InterfaceInfo {
        name: Some("eth0".into()),
        description: Some("uplink".into()),
        link: LinkType::ETHERNET,
        snaplen: 96,
        ..InterfaceInfo::default()
    };
    let options = WriteOptions {
        application: "weir 1".into(),
        comments: vec!["case 7".into()],
        ..WriteOptions::default()
    };
    let mut writer = PacketWriter::create(Target::Path(path.clone()), options, &[eth], Time(0)).unwrap();
    let raw = InterfaceInfo { name: Some("tun0".into()), link: LinkType::RAW, ..InterfaceInfo::default() };
    writer.describe(1, raw);
    writer.write(&Packet { hints: Hints::OUTBOUND, ..packet(7, b"out") }).unwrap();
    writer.write(&Packet { link: LinkType::RAW, interface: 1, ..packet(8, b"raw") }).unwrap();
    writer.statistics(0, Statistics { received: 70, dropped: 30 });
    writer.close().1.unwrap();

    let mut files = Files::open(&[Input::Path(path.clone())], &ReadOptions::default()).unwrap();
    let mut chunk = PacketBuf::default();
    while files.fill(&mut chunk).unwrap() {}
    let [eth, raw] = files.interfaces() else { panic!("{:?}", files.interfaces()) };
    assert_eq!((eth.name.as_deref(), eth.description.as_deref()), (Some("eth0"), Some("uplink")));
    assert_eq!((eth.snaplen, eth.received, eth.dropped), (96, Some(70), Some(30)));
    assert_eq!((raw.name.as_deref(), raw.link, raw.received), (Some("tun0"), LinkType::RAW, None));
    let info = files.describe().next().unwrap();
    assert_eq!(
        (info.comments.as_slice(), info.machine.as_slice()),
        (&["case 7".to_owned()][..], &["weir 1".to_owned()][..])
    );
    let bytes = std::fs::read(&path).unwrap();
    let outbound = [2, 0, 4, 0, 2, 0, 0, 0];
    assert!(bytes.windows(8).any(|window| window == outbound), "epb_flags has the direction outbound");
}

#[test]
fn classic_pcap_has_one_link_type_and_the_needed_resolution() {
    let directory = scratch();
    let path = directory.path().join("x.pcap");
    let mut other = writer(&path, WriteOptions::default());
    other.write(&packet(1_000, b"abc")).unwrap();
    let error = other.write(&Packet { link: LinkType::RAW, ..packet(2_000, b"def") }).unwrap_err();
    assert!(matches!(error, WriteError::LinkType { .. }), "{error}");
    let (written, result) = other.close();
    assert!(result.is_ok() && written.packets == 1 && written.lost == 1);
    let magic = || u32::from_le_bytes(std::fs::read(&path).unwrap()[..4].try_into().unwrap());
    assert_eq!(magic(), 0xa1b2_c3d4);
    let mut fine = writer(&path, WriteOptions::default());
    fine.write(&packet(1_001, b"abc")).unwrap();
    fine.close().1.unwrap();
    assert_eq!(magic(), 0xa1b2_3c4d);
    writer(&path, WriteOptions::default()).close().1.unwrap();
    let none = read_path(&path);
    assert!(none.packets.is_empty() && none.errors.is_empty(), "a file without packets is a valid capture");
}

#[test]
fn a_file_gets_its_name_when_it_is_finished() {
    let directory = scratch();
    let path = directory.path().join("x.pcap");
    std::fs::write(&path, "what was there before").unwrap();
    let mut unfinished = writer(&path, WriteOptions::default());
    unfinished.write(&packet(1, b"abc")).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"what was there before");
    unfinished.tick(Time(SECOND)).unwrap();
    assert_eq!(names(directory.path()), [".x.pcap.part", "x.pcap"]);
    assert_eq!(read_path(&part(directory.path())).packets.len(), 1, "a tick writes it to disk");
    unfinished.close().1.unwrap();
    assert_eq!(names(directory.path()), ["x.pcap"]);
    assert_eq!(read_path(&path).packets.len(), 1);

    let mut direct = writer(&path, WriteOptions { unbuffered: true, ..WriteOptions::default() });
    for number in 1..4 {
        direct.write(&packet(number, b"abc")).unwrap();
        assert_eq!(read_path(&path).packets.len() as u64, number, "-U");
    }
}

/// The process was killed: the file has a temporary name, and may end inside a record.
#[test]
fn an_unfinished_file_is_salvaged() {
    let directory = scratch();
    let path = directory.path().join("x.pcapng.gz");
    let mut killed = writer(&path, WriteOptions::default());
    for number in 0..3 {
        killed.write(&packet(number, b"abc")).unwrap();
        killed.tick(Time(number * SECOND)).unwrap();
    }
    std::mem::forget(killed);
    let part = part(directory.path());
    let bytes = std::fs::read(&part).unwrap();
    std::fs::write(&part, &bytes[..bytes.len() - 5]).unwrap();
    std::fs::write(&path, b"in the way").unwrap();
    let error = salvage(&part).unwrap_err().to_string();
    assert!(error.contains("File exists"), "{error}");
    std::fs::remove_file(&path).unwrap();
    let (named, repaired) = salvage(&part).unwrap();
    assert_eq!((named, repaired.packets), (path.clone(), 3));
    assert_eq!(names(directory.path()), ["x.pcapng.gz"]);
    assert_eq!(read_path(&path).packets.len(), 3);
    assert!(salvage(&path).unwrap_err().to_string().contains("expected a name like .NAME."));
}

#[test]
fn the_header_is_written_before_the_first_packet() {
    let directory = scratch();
    for name in ["x.pcap", "x.pcapng"] {
        let path = directory.path().join(name);
        let eth = InterfaceInfo { link: LinkType::ETHERNET, ..InterfaceInfo::default() };
        let options = WriteOptions { unbuffered: true, ..WriteOptions::default() };
        let writer = PacketWriter::create(Target::Path(path.clone()), options, &[eth], Time(0)).unwrap();
        let outcome = read_path(&path);
        assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
        drop(writer);
    }
}

#[test]
fn time_rotation_needs_no_packets() {
    let directory = scratch();
    let rotate = Rotate { seconds: Some(10), files: Some(3), ..Rotate::default() };
    let path = directory.path().join("%H%M%S.pcapng");
    let mut writer = writer(&path, WriteOptions { rotate, ..WriteOptions::default() });
    writer.write(&packet(1, b"abc")).unwrap();
    for second in 1..=25 {
        writer.tick(Time(second * SECOND)).unwrap();
    }
    assert!(!writer.is_complete());
    assert_eq!(names(directory.path()), [".000020.pcapng.part", "000000.pcapng", "000010.pcapng"]);
    writer.tick(Time(30 * SECOND)).unwrap();
    assert!(writer.is_complete());
    writer.write(&packet(31 * SECOND, b"not written any more")).unwrap();
    let (written, result) = writer.close();
    assert!(result.is_ok() && written.files == 3 && written.packets == 1 && written.lost == 0);
    assert_eq!(names(directory.path()), ["000000.pcapng", "000010.pcapng", "000020.pcapng"]);
    for (name, packets) in [("000000.pcapng", 1), ("000010.pcapng", 0), ("000020.pcapng", 0)] {
        let outcome = read_path(&directory.path().join(name));
        assert!(outcome.errors.is_empty() && outcome.packets.len() == packets, "{name}");
    }
}

/// With equal packets and options, the files equal tcpdump's byte by byte.
#[test]
fn size_rotation_equals_that_of_tcpdump() {
    if Command::new("tcpdump").arg("--version").output().is_err() {
        println!("skipped: tcpdump is not installed");
        return;
    }
    let mut source = pcap_header(0xa1b2_c3d4, 1);
    let frame: Vec<u8> = (0..1_000).map(|byte| byte as u8).collect();
    for number in 0..5_500_u64 {
        // Microseconds, because the helper writes the given number into that field.
        record(&mut source, number * SECOND + number, &frame[..60 + number as usize % 940]);
    }
    let directory = scratch();
    let input = directory.path().join("source.pcap");
    std::fs::write(&input, &source).unwrap();
    let mut compared = 0;
    for (files, expected) in [(None, 3), (Some(2), 2), (Some(12), 3), (Some(1), 1)] {
        let (ours, theirs): (PathBuf, PathBuf) = (
            directory.path().join(format!("ours{files:?}")),
            directory.path().join(format!("theirs{files:?}")),
        );
        std::fs::create_dir(&ours).unwrap();
        std::fs::create_dir(&theirs).unwrap();
        let mut command = Command::new("tcpdump");
        command.arg("-r").arg(&input).arg("-w").arg(theirs.join("x.pcap")).args(["-C", "1", "-Z", "root"]);
        if let Some(files) = files {
            command.arg("-W").arg(files.to_string());
        }
        let output = command.output().unwrap();
        if !output.status.success() {
            println!("skipped: tcpdump cannot write here: {}", String::from_utf8_lossy(&output.stderr));
            return;
        }
        let rotate = Rotate { bytes: Some(1_000_000), files, ..Rotate::default() };
        let mut writer =
            writer(&ours.join("x.pcap"), WriteOptions { rotate, snaplen: 65_535, ..WriteOptions::default() });
        for owned in read_path(&input).packets {
            writer.write(&Packet { wire_len: owned.wire_len, ..packet(owned.time.0, &owned.data) }).unwrap();
        }
        writer.close().1.unwrap();
        assert_eq!(names(&ours), names(&theirs), "-W {files:?}");
        assert_eq!(names(&ours).len(), expected);
        for name in names(&ours) {
            assert!(
                std::fs::read(ours.join(&name)).unwrap() == std::fs::read(theirs.join(&name)).unwrap(),
                "-W {files:?}: {name} differs"
            );
            compared += 1;
        }
    }
    println!("{compared} files are those of tcpdump -C");
}

#[test]
fn a_full_disk_is_reported_and_its_packets_counted() {
    let mut writer = PacketWriter::create(
        Target::Path("/dev/full".into()),
        WriteOptions { format: Some(FileFormat::Pcap), ..WriteOptions::default() },
        &[],
        Time(0),
    )
    .unwrap();
    writer.write(&packet(1, b"abc")).unwrap();
    let error = writer.tick(Time(SECOND)).unwrap_err();
    assert!(error.to_string().starts_with("/dev/full: no space left after 0 packets"), "{error}");
    assert!(matches!(writer.trouble(), Some(WriteError::Full { .. })));
    writer.tick(Time(2 * SECOND)).unwrap();
    writer.write(&packet(2, b"abc")).unwrap();
    let (written, result) = writer.close();
    assert!(matches!(result, Err(WriteError::Full { .. })));
    assert_eq!((written.packets, written.lost), (0, 2));
}

#[test]
fn a_file_that_cannot_be_created_is_an_error() {
    let target = Target::Path("/nonexistent/x.pcap".into());
    let error = PacketWriter::create(target, WriteOptions::default(), &[], Time(0)).map(|_| ()).unwrap_err();
    assert!(error.to_string().starts_with("/nonexistent/x.pcap: cannot create: No such file"), "{error}");
}

/// Once the run ends, a reader that stops reading causes losses and a delay of at most the grace; the records that it
/// has received are whole.
#[test]
fn packets_for_a_stalled_reader_are_lost_and_counted() {
    let directory = scratch();
    for name in ["x.pcap", "x.pcap.gz"] {
        let path = directory.path().join(name);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        // Opened for reading and writing, so that neither side waits for the other.
        let mut reader = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let patience = Patience { ends: Arc::new(AtomicBool::new(true)), grace: Duration::ZERO };
        let options = WriteOptions { patience: Some(patience), ..WriteOptions::default() };
        let mut writer = writer(&path, options);
        // Bytes that gzip cannot compress.
        let mut state = 1_u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .take(1_400)
        .collect();
        for number in 0..20_000 {
            writer.write(&packet(number, &noise[number as usize % 700..])).unwrap();
        }
        let before = writer.written();
        assert!(before.lost > 10_000, "{before:?}");
        assert_eq!(before.packets + before.lost, 20_000);
        drain(&mut reader, &mut writer);
        let (written, result) = writer.close();
        result.unwrap();
        assert_eq!(written.packets + written.lost, 20_000);
        assert_eq!(written.lost, before.lost, "the reader has taken all held packets");
    }
}

/// While the run lasts, a slow reader causes no loss.
#[test]
fn a_slow_reader_gets_every_packet() {
    let directory = scratch();
    let path = directory.path().join("x.pcap");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let mut reader = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let ends = Arc::new(AtomicBool::new(false));
    for patience in [None, Some(Patience { ends: Arc::clone(&ends), grace: Duration::from_secs(60) })] {
        let mut writer = writer(&path, WriteOptions { patience, ..WriteOptions::default() });
        let data = [7; 1_400];
        let all = 24 + 2_000 * (16 + data.len());
        let taken = std::thread::spawn(move || {
            // A pipe buffers 64 KiB, so that the writer has to wait.
            std::thread::sleep(Duration::from_millis(300));
            let mut bytes = vec![0; all];
            std::io::Read::read_exact(&mut reader, &mut bytes).unwrap();
            (reader, bytes)
        });
        for number in 0..2_000 {
            writer.write(&packet(number, &data)).unwrap();
        }
        ends.store(true, Ordering::Relaxed);
        let (written, result) = writer.close();
        result.unwrap();
        let bytes;
        (reader, bytes) = taken.join().unwrap();
        assert_eq!((written.packets, written.lost), (2_000, 0));
        assert_eq!(read_bytes(&bytes).packets.len(), 2_000);
    }
}

/// Reads until everything that the writer holds has arrived.
fn drain(reader: &mut std::fs::File, writer: &mut PacketWriter) {
    let mut all = Vec::new();
    let mut block = vec![0; 64 << 10];
    let packets = writer.written().packets as usize;
    for _ in 0..100_000 {
        writer.tick(Time(SECOND)).unwrap();
        // Data is always available: a tick refills the pipe from the held packets.
        let count = std::io::Read::read(reader, &mut block).unwrap();
        all.extend_from_slice(&block[..count]);
        let outcome = read_bytes(&all);
        if outcome.packets.len() == packets {
            return;
        }
    }
    panic!("the reader never got the {packets} packets");
}

#[test]
fn a_reader_that_closes_the_pipe_is_an_error() {
    let directory = scratch();
    let path = directory.path().join("x.pcapng");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let both = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let mut writer = writer(&path, WriteOptions::default());
    drop(both);
    writer.write(&packet(1, b"abc")).unwrap();
    let error = writer.tick(Time(SECOND)).unwrap_err();
    assert!(matches!(error, WriteError::Closed { .. }), "{error}");
    let (written, _) = writer.close();
    assert_eq!((written.packets, written.lost), (0, 1));
}
