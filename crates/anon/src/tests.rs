//! Properties of every packet, row and record, in every mode.

use super::*;
use crate::fixtures;
use proptest::prelude::*;
use std::net::{IpAddr, Ipv6Addr};
use weir_proto::Value;
use weir_wire::build::{self, flags, packet};
use weir_wire::{Checksum, Checksums, FlowKey, LinkType, Packet, decapsulate, decode, verify};

const KEY: Key = Key(*b"0123456789abcdefghijklmnopqrstuv");

fn anonymiser(mode: Mode, payload: Payload) -> Anonymiser {
    Anonymiser::new(Policy { mode, payload, ..Policy::default() }, &KEY).unwrap()
}

fn message(name: &[&str], address: [u8; 4]) -> Vec<u8> {
    let mut bytes = vec![0x12, 0x34, 0x81, 0x80, 0, 1, 0, 2, 0, 0, 0, 0];
    for label in name {
        bytes.push(label.len() as u8);
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.extend([0, 0, 1, 0, 1]);
    bytes.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
    bytes.extend(address);
    bytes.extend([0xc0, 12, 0, 16, 0, 1, 0, 0, 0, 60, 0, 6, 5]);
    bytes.extend(b"hello");
    bytes
}

const A: [u8; 4] = [10, 20, 30, 40];
const B: [u8; 4] = [192, 0, 2, 77];

/// Ethernet frames of many kinds, with correct checksums.
fn frames() -> Vec<Vec<u8>> {
    let v4 = || build::ethernet().ipv4(A, B);
    let six = |last: u8| {
        let mut bytes = [0x20; 16];
        bytes[15] = last;
        bytes
    };
    let v6 = || build::ethernet().ipv6(six(1), six(2));
    let inner = build::ethernet().ipv4(B, A).tcp(3, 4, flags::SYN).payload(b"inner words");
    let vxlan = [&[8, 0, 0, 0, 0, 0, 7, 0][..], &inner].concat();
    let quoted = build::ip().ipv4(B, A).udp(53, 4000).payload(b"quoted words");
    let quoted6 = build::ip().ipv6(six(2), six(1)).tcp(80, 4000, flags::ACK).payload(b"quoted words");
    let solicitation = [&six(2)[..], &[1, 1, 2, 3, 4, 5, 6, 7]].concat();
    vec![
        v4().tcp(4000, 80, flags::ACK).payload(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n"),
        v4().tcp(4000, 80, flags::SYN).options(&[2, 4, 5, 180, 30, 8, 0x30, 1, 10, 20, 30, 40]).payload(b""),
        v4().udp(4000, 53).payload(&message(&["www", "smith-family", "org"], A)),
        v4().udp(4000, 9).payload(b"odd"),
        v4().udp(4000, 4789).payload(&vxlan),
        v4().icmp(3, 1, [0; 4]).payload(&quoted),
        v4().icmp(5, 1, A).payload(&quoted),
        v4().icmp(8, 0, [1, 2, 3, 4]).payload(b"ping"),
        v6().tcp(4000, 80, flags::ACK).payload(b"words"),
        v6().udp(4000, 5353).payload(&message(&["janes-phone", "local"], B)),
        v6().icmp(1, 0, [0; 4]).payload(&quoted6),
        v6().icmp(135, 0, [0; 4]).payload(&solicitation),
        build::ethernet().ipv4(A, B).ipv4(B, A).udp(1, 2).payload(b"within"),
    ]
}

fn sums(data: &[u8]) -> Vec<Checksums> {
    let packet = packet(data, LinkType::ETHERNET);
    let mut layers = decode(&packet);
    let mut sums = vec![verify(&packet, &layers)];
    while let Some(inner) = decapsulate(&packet, &layers) {
        sums.push(verify(&packet, &inner));
        layers = inner;
    }
    sums
}

const MODES: [Mode; 4] = [Mode::Nullip, Mode::Table, Mode::CryptoPan, Mode::IpCrypt];
const PAYLOADS: [Payload; 3] = [Payload::Cut, Payload::Blank, Payload::Keep];

fn made(anonymiser: &mut Anonymiser, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    anonymiser.packet(&packet(data, LinkType::ETHERNET), &mut out).data.to_vec()
}

#[test]
fn endpoints_are_mapped_and_the_rest_of_the_key_is_kept() {
    for mode in MODES {
        let mut anonymiser = anonymiser(mode, Payload::Blank);
        for frame in frames() {
            let image = made(&mut anonymiser, &frame);
            assert_eq!(image.len(), frame.len());
            let (before, after) = (packet(&frame, LinkType::ETHERNET), packet(&image, LinkType::ETHERNET));
            let (was, is) = (decode(&before), decode(&after));
            assert_eq!(was, is, "{mode:?} {frame:02x?}");
            let ends = |packet: &Packet<'_>| weir_wire::addresses(packet, &was).unwrap();
            let ((source, destination), (from, to)) = (ends(&before), ends(&after));
            assert_eq!(from, anonymiser.addresses.v6(source));
            assert_eq!(to, anonymiser.addresses.v6(destination));
            assert_ne!(&image[..12], &frame[..12]);
        }
    }
}

#[test]
fn correct_checksums_stay_correct_and_wrong_ones_wrong() {
    for (mode, payload) in MODES.iter().flat_map(|mode| PAYLOADS.map(|payload| (*mode, payload))) {
        let mut anonymiser = anonymiser(mode, payload);
        for frame in frames() {
            assert!(sums(&frame).iter().all(|sums| sums.transport != Checksum::Bad));
            let image = made(&mut anonymiser, &frame);
            if payload == Payload::Cut {
                assert!(image.len() <= frame.len() && sums(&image)[0].network != Checksum::Bad);
                continue;
            }
            assert_eq!(sums(&image), sums(&frame), "{mode:?} {payload:?} {frame:02x?}");
            // The outermost sums, by one bit.
            let layers = decode(&packet(&frame, LinkType::ETHERNET));
            let at = layers.transport as usize
                + [2, 16, 6][usize::from(layers.ip_proto == 6) + 2 * usize::from(layers.ip_proto == 17)];
            for at in [(layers.ip_proto != 4).then_some(at), (frame[14] == 0x45).then_some(24)]
                .into_iter()
                .flatten()
            {
                let mut wrong = frame.clone();
                wrong[at] ^= 0x40;
                let image = made(&mut anonymiser, &wrong);
                assert_eq!(sums(&image), sums(&wrong), "{mode:?} {payload:?} {at} {frame:02x?}");
            }
        }
    }
}

/// Offloaded checksums stay offloaded.
#[test]
fn an_offloaded_checksum_stays_offloaded() {
    let mut frame = build::ethernet().ipv4(A, B).tcp(1, 2, flags::ACK).payload(b"words");
    let length = (frame.len() - 34) as u16;
    let mut pseudo = [&A[..], &B, &[0, 6], &length.to_be_bytes()].concat();
    pseudo.truncate(12);
    frame[50..52].copy_from_slice(&weir_wire::checksum::sum(&pseudo).to_be_bytes());
    let is_pending = |data: &[u8]| {
        let packet = packet(data, LinkType::ETHERNET);
        weir_wire::is_pseudo_header_sum(&packet, &decode(&packet))
    };
    assert!(is_pending(&frame));
    assert!(is_pending(&made(&mut anonymiser(Mode::CryptoPan, Payload::Blank), &frame)));
}

#[test]
fn names_in_dns_messages_equal_those_in_logs() {
    let mut anonymiser = anonymiser(Mode::CryptoPan, Payload::Blank);
    let frame =
        build::ethernet().ipv4(A, B).udp(4000, 53).payload(&message(&["WWW", "smith-family", "org"], A));
    let image = made(&mut anonymiser, &frame);
    let mut names = Vec::new();
    dns::names(&image[42..], |name| names.push(String::from_utf8(name.to_vec()).unwrap()));
    let expected = anonymiser.text(Privacy::Name, b"www.smith-family.org");
    assert_eq!(names, vec![String::from_utf8(expected).unwrap(); 3]);
    assert!(names[0].ends_with(".org"));
    let mapped = anonymiser.addresses.v4(A);
    assert!(image.windows(4).any(|window| window == mapped));
    assert!(!image.windows(5).any(|window| window == b"hello"), "text records say anything");
}

#[test]
fn no_private_data_is_left_unless_payload_is_kept() {
    for mode in MODES {
        let mut originals = Originals::default();
        let frames = frames();
        frames.iter().for_each(|frame| originals.packet(&packet(frame, LinkType::ETHERNET)));
        assert!(originals.len().0 >= 4 && originals.len().1 == 2, "{:?}", originals.len());
        let mut blank = anonymiser(mode, Payload::Blank);
        let finder = originals.finder(&mut blank).unwrap();
        for frame in &frames {
            assert!(!finder.packet(&packet(frame, LinkType::ETHERNET)).is_empty(), "{frame:02x?}");
            let image = made(&mut blank, frame);
            assert_eq!(finder.packet(&packet(&image, LinkType::ETHERNET)), []);
        }
        let mut keep = anonymiser(mode, Payload::Keep);
        let said =
            build::ethernet().ipv4(A, B).udp(1, 2).payload(b"\x01 I am 10.20.30.40 of WWW.Smith-Family.org");
        let found = finder.packet(&packet(&made(&mut keep, &said), LinkType::ETHERNET));
        let what: Vec<&str> = found.iter().map(|leak| leak.what.as_str()).collect();
        assert_eq!(what, ["10.20.30.40", "www.smith-family.org"]);
        assert_eq!(finder.text(b"110.20.30.401 x10.20.30.40").len(), 0, "parts of others");
    }
}

#[test]
fn arp_and_other_protocols_are_rewritten() {
    let mut anonymiser = anonymiser(Mode::CryptoPan, Payload::Blank);
    let mac = [2, 3, 4, 5, 6, 8];
    let mut arp = [&[0xff; 6][..], &mac, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &mac, &A, &[0; 6], &B].concat();
    arp.extend(b"memory of the card");
    let image = made(&mut anonymiser, &arp);
    assert_eq!(&image[..6], &[0xff; 6], "all are all");
    assert_eq!(image[6..12], image[22..28], "one host is one");
    assert_ne!(&image[6..12], &mac);
    assert_eq!(image[28..32], anonymiser.addresses.v4(A));
    assert_eq!(image[38..42], anonymiser.addresses.v4(B));
    assert!(image[32..38].iter().chain(&image[42..]).all(|byte| *byte == 0));
    let lldp = [&[1, 0x80, 0xc2, 0, 0, 0x0e][..], &mac, &[0x88, 0xcc], b"the name of a switch"].concat();
    let image = made(&mut anonymiser, &lldp);
    assert!(image[14..].iter().all(|byte| *byte == 0) && image[12..14] == lldp[12..14]);
    assert_eq!(image[0] & 1, 1, "a group is a group");
}

#[test]
fn vendors_are_kept_if_allowed() {
    let policy = Policy { vendors: true, ..Policy::default() };
    let anonymiser = Anonymiser::new(policy, &KEY).unwrap();
    let mut mac = [0x00, 0x1b, 0x21, 1, 2, 3];
    anonymiser.mac(&mut mac);
    assert_eq!(mac[..3], [0x00, 0x1b, 0x21]);
    assert_ne!(mac[3..], [1, 2, 3]);
}

#[test]
fn a_flow_and_its_records_have_one_identifier() {
    let policy = Policy { shift: -3_600_000_000_000, ..Policy::default() };
    let mut anonymiser = Anonymiser::new(policy, &KEY).unwrap();
    let (mut identity, original) = (fixtures::identity(), fixtures::identity());
    let mut row = fixtures::flow();
    row.id = original.id();
    anonymiser.flow(&mut row);
    anonymiser.identity(&mut identity);
    assert_eq!((row.key, row.id, row.first), (identity.key, identity.id(), identity.first));
    assert_ne!(identity.id(), original.id());
    assert_ne!(identity.community_id(0), original.community_id(0));
    assert_eq!(row.community_id(0), identity.community_id(0));
    assert_eq!(row.duration(), fixtures::flow().duration());
    assert_eq!(row.first.0 + 3_600_000_000_000, original.first.0);
    // The endpoints keep their ports and order.
    let ((source, port), (was, was_port)) = (identity.initiator(), original.initiator());
    assert_eq!((source, port), (anonymiser.addresses.ip(was), was_port));
    let FlowKey { addr: [low, high], .. } = identity.key;
    assert!(low <= high);
}

#[test]
fn snapshots_contain_no_original_address() {
    let mut anonymiser = anonymiser(Mode::CryptoPan, Payload::Blank);
    let mut snapshot = fixtures::snapshot();
    snapshot.answers.push(fixtures::answer("scans", None, "scans", fixtures::scans()));
    let weir_api::Reading::Table(table) = fixtures::scans() else { panic!("a table") };
    let found = weir_api::Trials::found(&table);
    found.into_iter().for_each(|scan| snapshot.add_events(&[scan.event()]));
    let events = snapshot.events.clone();
    let before = format!("{snapshot:?}");
    anonymiser.snapshot(&mut snapshot);
    assert_eq!(snapshot.events.len(), 2);
    for (event, original) in snapshot.events.iter().zip(&events) {
        assert_eq!((event.kind, event.count), (original.kind, original.count));
        assert_eq!(event.number("failed"), original.number("failed"));
        let source = original.subject.source().map(|source| anonymiser.addresses.ip(source));
        assert_eq!(event.subject.source(), source);
    }
    let after = format!("{snapshot:?}");
    for address in ["10.99.0.1", "10.99.0.2", "10.99.0.77", "10.99.0.102"] {
        let is_in = |text: &str| {
            text.match_indices(address)
                .any(|(at, found)| !text[at + found.len()..].starts_with(|c: char| c.is_ascii_digit()))
        };
        assert!(is_in(&before) && !is_in(&after), "{address}");
    }
    let mut null = Anonymiser::new(Policy { mode: Mode::Nullip, ..Policy::default() }, &KEY).unwrap();
    let mut snapshot = fixtures::snapshot();
    let all = |snapshot: &weir_api::Snapshot| {
        let weir_api::Reading::Top(top) = &snapshot.answers[0].reading else { panic!("a list of talkers") };
        top.rows.iter().map(|row| row.count.bytes).sum::<u64>()
    };
    let sum = all(&snapshot);
    null.snapshot(&mut snapshot);
    assert_eq!(all(&snapshot), sum, "rows that became equal are added");
}

#[test]
fn an_empty_series_does_not_show_by_how_much_times_are_shifted() {
    let policy = Policy { shift: 5_000_000_000, ..Policy::default() };
    let mut anonymiser = Anonymiser::new(policy, &KEY).unwrap();
    let (empty, mut filled) = (weir_api::Series::new(1_000_000_000), weir_api::Series::new(1_000_000_000));
    filled.add(7_000_000_000, &weir_api::Count { packets: 1, bytes: 60 });
    let answer = |series| fixtures::answer("rate", None, "rate", weir_api::Reading::Series(series));
    let answers = vec![answer(empty.clone()), answer(filled.clone())];
    let mut snapshot = weir_api::Snapshot { answers, ..weir_api::Snapshot::default() };
    anonymiser.snapshot(&mut snapshot);
    filled.first = 12;
    let readings: Vec<weir_api::Reading> = snapshot.answers.into_iter().map(|one| one.reading).collect();
    assert_eq!(readings, [empty, filled].map(weir_api::Reading::Series));
}

#[test]
fn texts_are_treated_by_their_content() {
    let mut anonymiser = anonymiser(Mode::CryptoPan, Payload::Blank);
    let mut text =
        |privacy, text: &str| String::from_utf8(anonymiser.text(privacy, text.as_bytes())).unwrap();
    let mail = text(Privacy::Mail, "\"Jane Smith\" <jane@mail.smith.org>, bob@smith.org");
    assert!(!mail.to_lowercase().contains("jane") && !mail.contains("smith"), "{mail}");
    assert_eq!(mail.matches('@').count(), 2);
    let host = text(Privacy::Name, "smith.org");
    assert_eq!(mail.matches(&host).count(), 2, "{mail} {host}");
    let url = text(Privacy::Url, "http://jane:pw@smith.org:8080/home/jane/cv.pdf?user=jane&x=1#top");
    assert!(url.starts_with("http://") && url.contains(&format!("@{host}:8080/")), "{url}");
    assert!(url.contains(".pdf?") && !url.contains("jane") && !url.contains("home"), "{url}");
    assert_eq!(url.matches(&text(Privacy::User, "jane")).count(), 1);
    let bracketed = text(Privacy::Name, "[2001:db8::1]:443");
    assert!(bracketed.ends_with("]:443") && !bracketed.contains("2001:db8::1"), "{bracketed}");
    let listed = text(Privacy::Address, "10.20.30.40, 192.0.2.77:5060");
    assert!(!listed.contains("10.20.30.40") && listed.ends_with(":5060"), "{listed}");
}

#[test]
fn a_policy_decides_the_treatment_of_each_class() {
    let mut policy = Policy::default();
    assert_eq!(policy.treatment(Privacy::Content), Treatment::Drop);
    assert_eq!(policy.treatment(Privacy::Plain), Treatment::Keep);
    policy.set("name=keep, content=blank").unwrap();
    assert_eq!(
        (policy.treatment(Privacy::Name), policy.treatment(Privacy::Content)),
        (Treatment::Keep, Treatment::Blank)
    );
    assert!(policy.set("nam=keep").unwrap_err().contains("name, address"));
    assert!(policy.set("name=kep").unwrap_err().contains("pseudonym"));
    assert!(policy.set("name").is_err());
}

#[test]
fn free_text_of_a_record_is_dropped() {
    let mut anonymiser = anonymiser(Mode::CryptoPan, Payload::Blank);
    let mut record = fixtures::record();
    let private: Vec<bool> =
        record.table.fields.iter().map(|field| field.privacy == Privacy::Content).collect();
    assert!(private.contains(&true), "the sample has free text");
    anonymiser.record(&mut record);
    for (value, private) in record.values.iter().zip(private) {
        assert!(!private || *value == Value::None);
    }
}

#[test]
fn mapped_addresses_equal_those_of_ipv4() {
    let mut anonymiser = anonymiser(Mode::CryptoPan, Payload::Blank);
    let v4 = anonymiser.addresses.ip("10.1.2.3".parse().unwrap());
    let v6 = anonymiser.addresses.ip("::ffff:10.1.2.3".parse().unwrap());
    let IpAddr::V6(v6) = v6 else { panic!("the version stays") };
    assert_eq!(Ipv6Addr::to_canonical(&v6), v4);
}

proptest! {
    /// Any bytes: no panic, the length is kept, and equal input gives equal output.
    #[test]
    fn malformed_packets_keep_their_length(
        which in 0_usize..13,
        cut in 0_usize..400,
        changes in proptest::collection::vec((0_usize..400, any::<u8>()), 0..6),
        link in prop_oneof![Just(1_u16), Just(0), Just(101), Just(105), Just(113), Just(127), Just(276), Just(147)],
        keep in any::<bool>(),
    ) {
        let mut data = frames()[which].clone();
        for (at, value) in changes {
            let length = data.len();
            data[at % length] = value;
        }
        data.truncate(cut.max(1));
        let payload = if keep { Payload::Keep } else { Payload::Blank };
        let (mut one, mut two) = (anonymiser(Mode::CryptoPan, payload), anonymiser(Mode::CryptoPan, payload));
        let packet = packet(&data, LinkType(link));
        let (mut first, mut second) = (Vec::new(), Vec::new());
        one.packet(&packet, &mut first);
        one.packet(&packet, &mut second);
        prop_assert_eq!(&first, &second);
        two.packet(&packet, &mut second);
        prop_assert_eq!(&first, &second);
        prop_assert_eq!(first.len(), data.len());
    }
}

#[test]
fn lines_over_segments_are_private_and_repeatable() {
    use weir_wire::build::flags::{ACK, SYN};
    let mut anonymiser = Anonymiser::new(
        Policy { payload: Payload::Keep, ..Policy::default() },
        &Key(*b"0123456789abcdefghijklmnopqrstuv"),
    )
    .unwrap();
    let said = b"GET /home/jane HTTP/1.1\r\nHost: smith.org\r\n\r\n";
    let host = |line: &[u8]| line.windows(6).position(|window| window == b"Host: ");
    for cut in 1..said.len() {
        let tcp = |seq: u32, flags, data: &[u8]| {
            build::ethernet()
                .ipv4([10, 0, 0, 1], [10, 0, 0, 2])
                .tcp(4000 + cut as u16, 80, flags)
                .seq(seq)
                .payload(data)
        };
        let mut map = |frame: Vec<u8>| {
            let mut out = Vec::new();
            anonymiser.packet(&build::packet(&frame, LinkType::ETHERNET), &mut out).data[54..].to_vec()
        };
        map(tcp(99, SYN, b""));
        let (first, second) =
            (map(tcp(100, ACK, &said[..cut])), map(tcp(100 + cut as u32, ACK, &said[cut..])));
        let whole = [first.clone(), second.clone()].concat();
        let text = String::from_utf8(whole.clone()).unwrap();
        assert!(!text.contains("jane") && !text.contains("smith"), "{cut}: {text}");
        assert_eq!(host(&whole), host(said), "{cut}: {text}");
        assert_eq!(map(tcp(100 + cut as u32, ACK, &said[cut..])), second, "the segment is retransmitted");
        // A segment without its predecessor begins within a line.
        let alone = String::from_utf8(map(tcp(7_000, ACK, &said[cut..]))).unwrap();
        assert!(!alone.contains("jane") && !alone.contains("smith"), "{cut}: {alone}");
    }
}

#[test]
fn keys_of_lists_are_treated_as_the_fields_that_they_come_from() {
    use weir_api::{
        Fold, Folded, KeyColumn, NETWORK_NAMES, OWN_WORDS, Reading, Schema, Shown, Snapshot, TableColumn,
        TableRow,
    };
    const MAC: [u8; 6] = [0, 0x1b, 0x21, 1, 2, 3];
    let column =
        |field: &str| KeyColumn { name: "key".into(), field: field.to_owned().into(), help: "A key.".into() };
    let table = || {
        let schema = Schema {
            name: "records".into(),
            keys: ["dns.query", "tls.version", "", "http.status_code", "", OWN_WORDS, NETWORK_NAMES]
                .map(column)
                .to_vec()
                .into(),
            columns: vec![TableColumn {
                name: "records".into(),
                fold: Fold::Sum,
                unit: "".into(),
                help: "Number.".into(),
            }]
            .into(),
            shown: Shown::Heaviest(10),
        };
        let text = |text: &str| weir_api::Datum::Text(text.into());
        let key = vec![
            text("www.weir.test"),
            text("TLSv1.3"),
            weir_api::Datum::Address("192.0.2.7".parse().unwrap()),
            weir_api::Datum::Number(200),
            weir_api::Datum::Mac(MAC),
            text("beacon"),
            text("Jane's home"),
        ];
        let rows = vec![TableRow { key, values: vec![Folded::Sum(3)], error: 0 }];
        weir_api::Table::new(schema, 10, rows, 0)
    };
    let image = |anonymiser: &mut Anonymiser| {
        let mut answer = fixtures::answer("names", None, "top", Reading::Table(table()));
        let mut snapshot = Snapshot { answers: vec![answer.clone()], ..Snapshot::default() };
        anonymiser.snapshot(&mut snapshot);
        answer = snapshot.answers.remove(0);
        let Reading::Table(table) = answer.reading else { panic!("a table") };
        table.rows[0].key.clone()
    };
    let mut anonymiser = anonymiser(Mode::CryptoPan, Payload::Cut);
    let found = image(&mut anonymiser);
    let name = String::from_utf8(anonymiser.text(Privacy::Name, b"www.weir.test")).unwrap();
    assert_eq!(found[0], weir_api::Datum::Text(name.as_str().into()));
    assert_ne!(name, "www.weir.test");
    assert_eq!(
        (&found[1], &found[3]),
        (&weir_api::Datum::Text("TLSv1.3".into()), &weir_api::Datum::Number(200))
    );
    assert_eq!(found[2], weir_api::Datum::Address(anonymiser.addresses.ip("192.0.2.7".parse().unwrap())));
    // Hardware addresses as in packets, names of networks as other names, and kinds as they are.
    let mut mac = MAC;
    anonymiser.mac(&mut mac);
    assert_eq!((&found[4], mac == MAC), (&weir_api::Datum::Mac(mac), false));
    assert_eq!(found[5], weir_api::Datum::Text("beacon".into()));
    let network = String::from_utf8(anonymiser.text(Privacy::Name, b"Jane's home")).unwrap();
    assert_eq!(found[6], weir_api::Datum::Text(network.as_str().into()));
    assert!(!network.contains("Jane"), "{network}");
}
