//! Several inputs as one stream.

use std::io::Write;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use weir_capture::{Input, Order, ReadOptions};

use crate::support::{Owned, enhanced, gzip, interface, option, pcap, read, scratch, section};

fn inputs(files: &[Vec<u8>]) -> (tempfile::TempDir, Vec<Input>) {
    let directory = scratch();
    let inputs = files
        .iter()
        .enumerate()
        .map(|(number, bytes)| {
            let path = directory.path().join(format!("{number}.pcap"));
            std::fs::write(&path, bytes).unwrap();
            Input::Path(path)
        })
        .collect();
    (directory, inputs)
}

fn texts(packets: &[Owned]) -> Vec<String> {
    packets.iter().map(|packet| String::from_utf8_lossy(&packet.data).into_owned()).collect()
}

#[test]
fn a_clock_that_goes_back_does_not_break_the_merge() {
    let files =
        [pcap(&[(10, b"a1"), (5, b"a2"), (20, b"a3")]), pcap(&[(7, b"b1"), (12, b"b2"), (20, b"b3")])];
    let (_directory, inputs) = inputs(&files);
    let merged = read(&inputs, &ReadOptions::default());
    assert_eq!(texts(&merged.packets), ["b1", "a1", "a2", "b2", "a3", "b3"]);
    let listed = read(&inputs, &ReadOptions { order: Order::Listed, ..ReadOptions::default() });
    assert_eq!(texts(&listed.packets), ["a1", "a2", "a3", "b1", "b2", "b3"]);
    let three = read(&inputs, &ReadOptions { packets: Some(3), ..ReadOptions::default() });
    assert_eq!(texts(&three.packets), ["b1", "a1", "a2"]);
}

#[test]
fn comments_stay_with_their_packets_in_a_merge() {
    let file = |times: &[u64], name: &str| {
        let mut file = [section(false), interface(false, 1, &option(false, 9, &[9]))].concat();
        for time in times {
            let text = format!("{name} at {time}");
            file.extend(enhanced(false, 0, *time, text.as_bytes(), &option(false, 1, text.as_bytes())));
        }
        file
    };
    let (_directory, inputs) = inputs(&[file(&[1, 4, 5], "a"), file(&[2, 3, 9], "b")]);
    let merged = read(&inputs, &ReadOptions::default());
    assert_eq!(texts(&merged.packets), ["a at 1", "b at 2", "b at 3", "a at 4", "a at 5", "b at 9"]);
    for packet in &merged.packets {
        assert_eq!(packet.comments, [String::from_utf8_lossy(&packet.data)]);
    }
    assert_eq!(merged.interfaces, 2);
}

#[test]
#[ignore = "run by standard_input_is_merged_like_other_inputs, with its own standard input"]
fn standard_input_is_read() {
    let Some(path) = std::env::var_os(LATER) else {
        println!("skipped: {LATER} is not set");
        return;
    };
    let later = Input::Path(path.into());
    let outcome = read(&[later, Input::Stdin], &ReadOptions::default());
    println!("\nread {}", texts(&outcome.packets).join(" "));
}

/// Environment variable with a file that overlaps in time with standard input.
const LATER: &str = "WEIR_TEST_LATER";

#[test]
fn standard_input_is_merged_like_other_inputs() {
    for packed in [false, true] {
        let (_directory, inputs) = inputs(&[pcap(&[(2, b"b2"), (4, b"b4")])]);
        let Input::Path(path) = &inputs[0] else { panic!("not a path") };
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "order::standard_input_is_read", "--ignored", "--nocapture"])
            .env(LATER, path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let bytes = pcap(&[(1, b"a1"), (3, b"a3"), (5, b"a5")]);
        let bytes = if packed { gzip(&bytes) } else { bytes };
        let mut stdin = child.stdin.take().unwrap();
        // In two parts, the second one later.
        stdin.write_all(&bytes[..40]).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(50));
        stdin.write_all(&bytes[40..]).unwrap();
        drop(stdin);
        let text = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
        assert!(text.lines().any(|line| line == "read a1 b2 a3 b4 a5"), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Merging files whose clocks go forward is a stable sort of all their packets.
    #[test]
    fn a_merge_is_a_sort(
        files in prop::collection::vec(prop::collection::vec((0..60_u64, 0..600_usize), 0..80), 2..6),
        gap in 0..100_u64,
    ) {
        let mut all = Vec::new();
        let mut bytes = Vec::new();
        for (number, packets) in files.iter().enumerate() {
            let mut time = number as u64 * gap * 20;
            let mut file = pcap(&[]);
            for (index, (step, length)) in packets.iter().enumerate() {
                time += step;
                let mut data = format!("{number}:{index}:").into_bytes();
                data.resize(data.len() + length, b'.');
                crate::support::record(&mut file, time, &data);
                all.push((time, data));
            }
            bytes.push(file);
        }
        all.sort_by_key(|(time, _)| *time);
        let (_directory, inputs) = inputs(&bytes);
        let merged = read(&inputs, &ReadOptions { chunk_bytes: 4_096, ..ReadOptions::default() });
        prop_assert!(merged.errors.is_empty());
        let merged: Vec<_> = merged.packets.into_iter().map(|packet| (packet.time.0, packet.data)).collect();
        prop_assert_eq!(merged, all);
    }
}
