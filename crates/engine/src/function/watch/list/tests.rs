use super::*;
use proptest::prelude::*;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_api::mapped;

fn list(content: &str) -> List {
    let mut list = List::new(7);
    list.add("bad.txt", None, content.as_bytes()).unwrap();
    list.finish();
    list
}

fn of(list: &List, address: &str) -> Option<(String, u32)> {
    let address = mapped(address.parse().unwrap()).to_be_bytes();
    shown(list, list.address(address))
}

fn shown(list: &List, id: Option<u32>) -> Option<(String, u32)> {
    let shown = list.shown(id?).unwrap();
    assert_eq!(shown.file, "bad.txt");
    Some((shown.entry.into(), shown.line))
}

fn named(list: &List, name: &str) -> Option<(String, u32)> {
    shown(list, list.name(name.as_bytes()))
}

fn some(entry: &str, line: u32) -> Option<(String, u32)> {
    Some((entry.to_owned(), line))
}

#[test]
fn addresses_and_the_smallest_net_are_found_with_their_lines() {
    let list = list("# bad\n10.0.0.0/8\n\n10.1.0.0/16 # offices\r\n  10.1.2.3\n2001:db8::/32\n2001:db8::1\n");
    assert_eq!(of(&list, "10.9.9.9"), some("10.0.0.0/8", 2));
    assert_eq!(of(&list, "10.1.9.9"), some("10.1.0.0/16", 4));
    assert_eq!(of(&list, "10.1.2.3"), some("10.1.2.3", 5));
    assert_eq!(of(&list, "::ffff:10.1.2.3"), some("10.1.2.3", 5));
    assert_eq!(of(&list, "11.1.2.3"), None);
    assert_eq!(of(&list, "2001:db8:1::"), some("2001:db8::/32", 6));
    assert_eq!(of(&list, "2001:db8::1"), some("2001:db8::1", 7));
    assert_eq!(of(&list, "2001:db9::1"), None);
    assert!(list.notes().is_empty());
}

#[test]
fn nets_of_everything_are_of_one_family() {
    assert_eq!(of(&list("0.0.0.0/0"), "255.1.2.3"), some("0.0.0.0/0", 1));
    assert_eq!(of(&list("0.0.0.0/0"), "2001:db8::1"), None);
    assert_eq!(of(&list("::/0"), "2001:db8::1"), some("::/0", 1));
    assert_eq!(of(&list("::/0"), "255.1.2.3"), None);
}

#[test]
fn the_first_of_equal_lines_counts_and_bits_after_a_prefix_do_not() {
    let list = list("10.1.2.3/8\n10.0.0.0/8\n192.0.2.1/32\n192.0.2.1\nA.example.\na.EXAMPLE\n");
    assert_eq!(of(&list, "10.200.0.1"), some("10.0.0.0/8", 1));
    assert_eq!(of(&list, "192.0.2.1"), some("192.0.2.1", 3));
    assert_eq!(named(&list, "a.example"), some("a.example", 5));
    assert_eq!(list.entries.len(), 3);
}

#[test]
fn a_name_is_found_with_all_under_it_and_the_longest_counts() {
    let list = list("example.org\nwww.bad.example.org\ntest\n_tcp.a-b.example\n");
    assert_eq!(named(&list, "Example.ORG."), some("example.org", 1));
    assert_eq!(named(&list, "a.bad.example.org"), some("example.org", 1));
    assert_eq!(named(&list, "x.www.bad.example.org"), some("www.bad.example.org", 2));
    assert_eq!(named(&list, "any.test"), some("test", 3));
    assert_eq!(named(&list, "_ldap._tcp.a-b.example"), some("_tcp.a-b.example", 4));
    for other in ["badexample.org", "org", "example.org.uk", "", ".", "..", "example.org..", "a b"] {
        assert_eq!(named(&list, other), None, "{other}");
    }
    assert_eq!(named(&list, &format!("{}example.org", "a.".repeat(121))), some("example.org", 1));
    assert_eq!(named(&list, &format!("{}example.org", "a.".repeat(122))), None, "it is no name");
}

#[test]
fn wrong_lines_are_named_with_the_reason_and_the_others_count() {
    let long = format!("{}.example", "a".repeat(64));
    let longest = format!("{}example", "a.".repeat(124));
    let lines = [
        ("10.0.0.256", "not an IPv4 address"),
        ("10.0.0.0/33", "longer than the address"),
        ("10.0.0.0/", "number of bits"),
        ("10.0.0.0/+8", "number of bits"),
        ("example.org/8", "begins with an address"),
        ("2001:db8:::1", "not an IPv6 address"),
        ("::/129", "longer than the address"),
        ("a..example", "empty label"),
        (&long, "63 bytes"),
        (&longest, "253 bytes"),
        ("b\u{fc}cher.example", "xn--"),
        ("0.0.0.0 a.example", "comment"),
        ("*.example", "letters, digits"),
    ];
    for (line, reason) in lines {
        let list = list(&format!("a.example\n{line}\n192.0.2.1\n"));
        let [note] = list.notes() else { panic!("{line}: {:?}", list.notes()) };
        assert!(note.starts_with("bad.txt:2: left out: ") && note.contains(reason), "{line}: {note}");
        assert_eq!((named(&list, "a.example").is_some(), of(&list, "192.0.2.1").is_some()), (true, true));
    }
    let bytes = b"\xef\xbb\xbfa.example\n\xff\xfe\n";
    let mut list = List::new(1);
    list.add("bad.txt", None, bytes).unwrap();
    assert_eq!((list.entries.len(), list.notes().len()), (1, 1));
}

#[test]
fn a_file_of_wrong_lines_has_few_notes_and_their_number() {
    let list = list(&"no name\n".repeat(100_000));
    assert_eq!(list.notes().len(), NAMED as usize + 1);
    assert_eq!(list.notes().last().unwrap(), "bad.txt: 99990 more lines are left out");
    assert!(list.memory() < 4096);
}

#[test]
fn several_files_are_one_list_with_their_own_lines() {
    let mut list = List::new(1);
    list.add("one", None, b"a.example\n192.0.2.1").unwrap();
    list.add("two", None, b"\nb.example\n192.0.2.1").unwrap();
    let shown = |id: Option<u32>| list.shown(id.unwrap()).unwrap();
    let b = shown(list.name(b"b.example"));
    assert_eq!((&*b.entry, b.file, b.line), ("b.example", "two", 2));
    let address = shown(list.address(mapped("192.0.2.1".parse().unwrap()).to_be_bytes()));
    assert_eq!((address.file, address.line), ("one", 2));
    for n in 2..MAX_FILES {
        list.add(&n.to_string(), None, b"").unwrap();
    }
    assert!(list.add("more", None, b"").is_err());
}

#[test]
fn a_million_names_take_less_than_100_mb() {
    let mut content = String::new();
    for n in 0..MAX_ENTRIES {
        let _ = writeln!(content, "host-{n:x}.some-domain-{:x}.example", n % 5_000);
    }
    let list = list(&content);
    assert_eq!(list.entries.len(), MAX_ENTRIES);
    assert!(list.memory() < 100_000_000, "{}", list.memory());
    assert_eq!(
        named(&list, "www.host-f423f.some-domain-1387.example"),
        some("host-f423f.some-domain-1387.example", 1_000_000)
    );
    let mut more = List::new(1);
    assert!(
        more.add("big", None, format!("{content}one.more\n").as_bytes()).unwrap_err().contains("1000000")
    );
}

/// A line of a list, of few addresses and names so that they meet.
fn line() -> impl Strategy<Value = String> {
    let v4 = (0_u32..4, 0_u32..3, 0_u32..3)
        .prop_map(|(a, b, c)| Ipv4Addr::from(a << 30 | b << 15 | c).to_string());
    let v6 = (0_u128..3, 0_u128..3, 0_u128..3)
        .prop_map(|(a, b, c)| Ipv6Addr::from(a << 126 | b << 80 | c).to_string());
    prop_oneof![
        v4.clone(),
        v6.clone(),
        (v4, 0_u8..=33).prop_map(|(address, bits)| format!("{address}/{bits}")),
        (v6, 0_u8..=129).prop_map(|(address, bits)| format!("{address}/{bits}")),
        "[ab]{1,2}(\\.[abAB]{1,2}){0,3}\\.?",
        "[a.#/: 0-9]{0,6}",
    ]
}

/// The line that a plain search finds for an address or a name, over all lines.
fn plain(lines: &[String], value: &str) -> Option<u32> {
    let address: Option<IpAddr> = value.parse().ok();
    let name = value.to_ascii_lowercase();
    let of_line = |line: &str| -> Option<usize> {
        let text = line.split('#').next().unwrap_or_default().trim();
        match (address, Watched::parse(text.as_bytes()).ok()?) {
            (Some(address), Watched::Net(..)) => {
                let (net, bits) = text.split_once('/').map_or((text, None), |(net, bits)| (net, Some(bits)));
                let net: IpAddr = net.parse().unwrap();
                let most = if net.is_ipv4() { 32 } else { 128 };
                let bits = bits.map_or(most, |bits| bits.parse().unwrap());
                let wide = |address: IpAddr| match address {
                    IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
                    IpAddr::V6(v6) => v6.to_bits(),
                };
                let is_in = net.is_ipv4() == address.is_ipv4()
                    && (0..bits).all(|bit| (wide(net) ^ wide(address)) >> (127 - bit) & 1 == 0);
                is_in.then_some(bits)
            }
            (None, Watched::Name(watched)) => {
                let watched = String::from_utf8(watched.to_ascii_lowercase()).unwrap();
                let is_under = name == watched || name.ends_with(&format!(".{watched}"));
                is_under.then_some(watched.len())
            }
            _ => None,
        }
    };
    let found = lines.iter().zip(1_u32..).filter_map(|(line, at)| Some((of_line(line)?, at)));
    // The most of the bits or letters, and of these the first line.
    found.max_by_key(|(length, at)| (*length, u32::MAX - at)).map(|(_, at)| at)
}

proptest! {
    #[test]
    fn a_lookup_finds_what_a_search_over_all_lines_finds(
        lines in prop::collection::vec(line(), 0..40),
        names in prop::collection::vec("[abAB]{1,2}(\\.[ab]{1,2}){0,4}", 1..20),
        addresses in prop::collection::vec((0_u32..4, 0_u32..3, 0_u32..3), 1..20),
    ) {
        let list = list(&lines.join("\n"));
        for name in names {
            prop_assert_eq!(named(&list, &name).map(|(_, line)| line), plain(&lines, &name), "{}", name);
        }
        for (a, b, c) in addresses {
            let v4 = Ipv4Addr::from(a << 30 | b << 15 | c).to_string();
            let v6 = Ipv6Addr::from(u128::from(a) << 126 | u128::from(b) << 80 | u128::from(c)).to_string();
            for address in [v4, v6] {
                let found = of(&list, &address).map(|(_, line)| line);
                prop_assert_eq!(found, plain(&lines, &address), "{}", address);
            }
        }
    }

    #[test]
    fn any_bytes_make_a_list_whose_entries_are_found(content in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut list = List::new(3);
        list.add("bad.txt", None, &content).unwrap();
        for id in 0..list.entries.len() as u32 {
            let entry = list.shown(id).unwrap().entry;
            let found = match entry.split('/').next().unwrap().parse::<IpAddr>() {
                Ok(address) => list.address(mapped(address).to_be_bytes()),
                Err(_) => list.name(entry.as_bytes()),
            };
            prop_assert!(found.is_some(), "{}", entry);
        }
    }
}
