//! `weir talk`: its files can be parsed, and have the bytes that `weir streams` finds.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use support::*;
use weir_proto::talk::{Talk, Turn};
use weir_wire::Direction;

/// Files of a directory by name.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    files.map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap())).collect()
}

/// The bytes that a side of a conversation sends, without gaps.
fn sent(talk: &Talk, side: Direction) -> Vec<u8> {
    let of = |turn: &Turn| match turn {
        Turn::Data(direction, data) if *direction == side => data.clone(),
        _ => Vec::new(),
    };
    talk.turns.iter().flat_map(of).collect()
}

#[test]
fn conversations_have_the_bytes_of_the_streams() {
    let folder = tempfile::tempdir().unwrap();
    let (talks, streams) = (folder.path().join("talks"), folder.path().join("streams"));
    let sample = root().join("testdata/sample/sample.pcap");
    for (command, out) in [("talk", &talks), ("streams", &streams)] {
        let ran = weir([command, text(&sample), "tcp", "-o", text(out)]);
        assert_eq!(ran.code, Some(0), "{command}: {}", ran.stderr);
    }
    let (talks, mut streams) = (files(&talks), files(&streams));
    assert!(!talks.is_empty());
    for (name, text) in &talks {
        let talk = Talk::parse(std::str::from_utf8(text).unwrap(), [0, 0]).unwrap();
        assert!(
            Talk::parse(&talk.to_string(), [0, 0]).unwrap() == talk,
            "{name} is equal after parsing and writing"
        );
        // `A-B.talk`, with cN added for the Nth flow after the first between the same endpoints.
        let ends = name.strip_suffix(".talk").unwrap();
        let (ends, again) =
            ends.split_once('c').map_or((ends, String::new()), |(ends, n)| (ends, format!("c{n}")));
        let (from, to) = ends.split_once('-').unwrap();
        let names = [
            (Direction::Forward, format!("{from}-{to}{again}")),
            (Direction::Reverse, format!("{to}-{from}{again}")),
        ];
        for (side, stream) in names {
            let found = sent(&talk, side);
            let expected = streams.remove(&stream).unwrap_or_default();
            let holes: u64 = talk
                .turns
                .iter()
                .map(|turn| {
                    if let Turn::Gap(of, n) = turn
                        && *of == side
                    {
                        *n
                    } else {
                        0
                    }
                })
                .sum();
            assert_eq!(expected.len() as u64, found.len() as u64 + holes, "{stream}");
            assert!(holes > 0 || expected == found, "{stream}");
        }
    }
    assert!(streams.is_empty(), "streams without a conversation: {:?}", streams.keys());
}

#[test]
fn one_flow_goes_to_standard_output_and_others_are_counted() {
    let sample = root().join("testdata/sample/sample.pcap");
    let ran = weir(["talk", text(&sample), "udp port 53"]).exits(0).says("more flows match and are omitted");
    let talk = Talk::parse(&ran.text(), [0, 0]).unwrap();
    assert_eq!((talk.ip_proto, talk.ports[1]), (17, 53));
    assert!(talk.turns.len() >= 2, "{}", ran.text());
    let none = weir(["talk", text(&sample), "tcp port 1"]).exits(0).says("no TCP or UDP payload matches");
    assert_eq!(none.text(), "");
}

#[test]
fn a_capture_is_needed() {
    weir(["talk", "tcp port 1"]).exits(1).says("talk: no capture file");
}
