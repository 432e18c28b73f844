//! Buffers and numbers of messages.

use crate::watch::{CLIENT, SERVER, Watch, set_of};
use weir_detect::Program;
use weir_wire::Direction::{self, Forward, Reverse};

#[test]
fn headers_of_rules_with_parts_of_both_sides() {
    let rules = "alert http 10.0.0.1 any -> 10.0.0.2 80 (http.method; content:\"GET\"; http.stat_code; content:\"200\"; sid:1;)
alert tcp 10.0.0.1 any -> 10.0.0.2 80 (flow:to_server; content:\"GET\"; http.uri; content:\"/x\"; sid:2;)
alert tcp 10.0.0.2 80 -> 10.0.0.1 any (http.method; content:\"GET\"; http.stat_code; content:\"200\"; sid:3;)";
    let found = |client, port| {
        let mut watch = Watch::new(rules).named("http").between((client, 40_000), (SERVER, port));
        watch.chunk(Forward, b"GET /x").transaction(Forward, 0).transaction(Reverse, 0);
        watch.message(Forward, &[("http.method", "GET"), ("http.uri", "/x")]);
        watch.chunk(Reverse, b"200").message(Reverse, &[("http.stat_code", "200")]);
        let mut sids = watch.end().sids();
        sids.sort_unstable();
        sids
    };
    assert_eq!(found(CLIENT, 80), [1, 2, 3]);
    assert_eq!(found([10, 0, 0, 3], 80), []);
    assert_eq!(found(CLIENT, 81), []);
}

#[test]
fn conditions_hold_in_one_transaction() {
    let rules =
        "alert http any any -> any any (http.method; content:\"GET\"; http.uri; content:\"/evil\"; sid:1;)
alert http any any -> any any (http.uri; content:\"/evil\"; http.stat_code; content:\"200\"; sid:2;)
alert http any any -> any any (flow:to_server; http.uri; content:\"/evil\"; bsize:5; sid:3;)";
    let request = |watch: &mut Watch, number, method, uri| {
        watch.transaction(Forward, number);
        watch.message(Forward, &[("http.method", method), ("http.uri", uri)]).sids()
    };
    let mut watch = Watch::new(rules).named("http");
    assert_eq!(request(&mut watch, 0, "GET", "/evil"), [1, 3]);
    assert_eq!(request(&mut watch, 1, "PUT", "/evil"), [3]);
    assert_eq!(request(&mut watch, 2, "GET", "/evik"), []);
    assert_eq!(request(&mut watch, 3, "GET", "/evil2"), [1]);
    // The answers to 0 to 3: the first and the last one belong to a request that fits.
    for (number, code, expected) in
        [(0, "200", &[2_u32][..]), (1, "404", &[]), (2, "200", &[]), (3, "200", &[2])]
    {
        watch.transaction(Reverse, number).message(Reverse, &[("http.stat_code", code)]);
        let found = watch.matches();
        assert!(found.iter().all(|one| one.transaction == Some(number)));
        assert_eq!(found.len(), expected.len(), "{number}");
    }
    // A buffer of a transaction and one of the next.
    let mut watch = Watch::new(rules).named("http");
    watch.transaction(Forward, 0).message(Forward, &[("http.method", "GET")]);
    watch.transaction(Forward, 1).message(Forward, &[("http.uri", "/evil")]);
    assert_eq!(watch.end().sids(), [3]);
    // Values of one transaction that are completed one after the other, and again.
    let mut watch = Watch::new(rules).named("http");
    watch.message(Forward, &[("http.uri", "/evil")]).message(Forward, &[("http.method", "GET")]);
    watch.message(Forward, &[("http.uri", "/evil")]);
    assert_eq!(watch.end().sids(), [3, 1]);
}

#[test]
fn each_use_of_a_multiple_buffer_is_about_one_value() {
    let rules =
        "alert dns any any -> any any (dns.query; content:\"evil\"; dns.query; content:\"good\"; sid:1;)
alert dns any any -> any any (dns.query; content:\"evil\"; content:\"good\"; sid:2;)
alert dns any any -> any any (dns.query; dotprefix; content:\".example.com\"; endswith; sid:3;)";
    let found = |names: &[&str]| {
        let mut watch = Watch::new(rules).over(17).named("dns");
        let values: Vec<_> = names.iter().map(|name| ("dns.query", *name)).collect();
        watch.message(Forward, &values).sids()
    };
    assert_eq!(found(&["evil", "good"]), [1]);
    assert_eq!(found(&["good", "evil"]), [1]);
    assert_eq!(found(&["evil"]), []);
    assert_eq!(found(&["evilgood"]), [1, 2]);
    for (name, expected) in [
        ("example.com", &[3_u32][..]),
        ("a.example.com", &[3]),
        ("badexample.com", &[]),
        ("example.com.x", &[]),
    ] {
        assert_eq!(found(&[name]), expected, "{name}");
        assert_eq!(found(&["other", name]), expected, "{name}");
    }
    // More uses than a byte counts.
    let many = "dns.query; content:\"a\"; ".repeat(300);
    let rule = format!("alert dns any any -> any any ({many} dns.query; content:\"z\"; sid:1;)");
    let mut watch = Watch::new(&rule).over(17).named("dns");
    assert_eq!(watch.message(Forward, &[("dns.query", "a")]).sids(), []);
    assert_eq!(watch.message(Forward, &[("dns.query", "z")]).sids(), [1]);
}

#[test]
fn bodies_come_in_pieces() {
    const LIMIT: usize = 100 << 10;
    let rules = "alert http any any -> any any (http.request_body; content:\"needle\"; sid:1;)
alert http any any -> any any (file.data; content:\"needle\"; http.method; content:\"PUT\"; sid:2;)
alert http any any -> any any (http.request_body; content:\"needle\"; endswith; sid:3;)";
    for (length, end, expected) in [
        (2_000, 1_000, &[1_u32, 2][..]),
        (1_000, 1_000, &[1, 2, 3]),
        (LIMIT, LIMIT, &[1, 2, 3]),
        (LIMIT + 9_000, LIMIT, &[1, 2, 3]),
        (LIMIT + 9_000, LIMIT + 1, &[]),
    ] {
        let mut body = vec![b'.'; length];
        body[end - 6..end].copy_from_slice(b"needle");
        for size in [1, 1_000, length] {
            for is_ended in [true, false] {
                let mut watch = Watch::new(rules).named("http");
                watch.message(Forward, &[("http.method", "PUT")]);
                body.chunks(size).for_each(|piece| _ = watch.buffer("http.request_body", Forward, piece));
                if is_ended {
                    watch.buffer("http.request_body", Forward, b"");
                    assert_eq!(watch.sids(), expected, "{length} {end} {size}");
                }
                let rest = if is_ended { &[] } else { expected };
                assert_eq!(watch.end().sids(), rest, "{length} {end} {size}");
                assert!(watch.memory() < 300_000, "{}", watch.memory());
            }
        }
    }
    // A request without a body ends one of no bytes; the next one has one.
    let mut watch = Watch::new(rules).named("http");
    watch.message(Forward, &[("http.method", "PUT")]).buffer("http.request_body", Forward, b"");
    assert_eq!(watch.sids(), []);
    watch.transaction(Forward, 1).buffer("http.request_body", Forward, b"needle");
    // The body is looked at although its end is missing.
    watch.transaction(Forward, 2).message(Forward, &[("http.method", "PUT")]);
    assert_eq!(watch.sids(), [1, 3]);
}

#[test]
fn raw_headers_come_in_lines() {
    let rule =
        "alert http any any -> any any (flow:to_server; http.header.raw; content:\"1|0d 0a|B: 2\"; sid:1;)
alert http any any -> any any (http.header.raw; content:\"B: 3\"; http.method; content:\"GET\"; sid:2;)";
    for (last, expected) in [("B: 2\r\n", 1), ("B: 3\r\n", 2)] {
        let mut watch = Watch::new(rule).named("http");
        for line in ["A: 1\r\n", last, ""] {
            watch.buffer("http.header.raw", Forward, line.as_bytes());
        }
        assert_eq!(watch.message(Forward, &[("http.method", "GET")]).sids(), [expected]);
    }
}

#[test]
fn buffers_may_be_absent() {
    let rules = "alert http any any -> any any (flow:to_server; http.referer; absent; sid:1;)
alert http any any -> any any (flow:to_server; http.referer; absent:or_else; content:\"abc\"; sid:2;)
alert http any any -> any any (flow:to_server; http.method; content:!\"PUT\"; http.referer; absent; sid:3;)
alert http any any -> any any (flow:to_server; http.referer; absent; http.method; content:!\"PUT\"; sid:4;)
alert http any any -> any any (flow:to_server; http.referer; content:!\"abc\"; sid:5;)
alert http any any -> any any (flow:to_server; http.referer; absent; http.method; content:\"PUT\"; sid:6;)";
    let found = |values: &[(&str, &str)]| {
        let mut sids = Watch::new(rules).named("http").message(Forward, values).sids();
        sids.sort_unstable();
        sids
    };
    assert_eq!(found(&[("http.method", "GET")]), [1, 2, 3, 4]);
    assert_eq!(found(&[("http.method", "PUT")]), [1, 2, 6]);
    assert_eq!(found(&[("http.method", "GET"), ("http.referer", "abc")]), [2]);
    assert_eq!(found(&[("http.method", "GET"), ("http.referer", "abx")]), [5]);
    // The parser is asked for something that shows that a message is there.
    let set = set_of("alert http any any -> any any (http.referer; absent; sid:1;)");
    let program = Program::new(&set, &[]);
    assert!(program.buffers().iter().any(|buffer| buffer.name == "http.method"));
    // What the parser names last comes before the message is complete.
    let mut watch = Watch::new(rules).named("http");
    watch.buffer("http.header.raw", Forward, b"x").buffer("http.header.raw", Forward, b"");
    assert_eq!(watch.message(Forward, &[("http.referer", "abx"), ("http.method", "GET")]).sids(), [5]);
}

#[test]
fn numbers_of_messages() {
    let rules = "alert dns any any -> any any (dns.opcode:4; sid:1;)
alert dns any any -> any any (dns.rcode:nxdomain; sid:2;)
alert dns any any -> any any (dns.rcode:!0; flow:to_client; sid:3;)
alert dns any any -> any any (dns.rrtype:txt; sid:4;)
alert dns any any -> any any (dns.rrtype:10-20; dns.rrtype:>255; sid:5;)
alert dns any any -> any any (dns.rcode:3; dns.queries.rrname; content:\"evil\"; sid:6;)";
    let found = |side: Direction, numbers: &[(&str, u64)], values: &[(&str, &str)]| {
        let mut sids = Watch::new(rules).named("dns").over(17).counted(side, numbers, values).sids();
        sids.sort_unstable();
        sids
    };
    assert_eq!(found(Forward, &[("dns.opcode", 4)], &[]), [1]);
    assert!(found(Forward, &[("dns.opcode", 5)], &[]).is_empty());
    assert_eq!(found(Reverse, &[("dns.rcode", 3)], &[]), [2, 3]);
    assert_eq!(found(Forward, &[("dns.rcode", 3)], &[]), [2]);
    assert_eq!(found(Reverse, &[("dns.rcode", 2)], &[]), [3]);
    assert!(found(Reverse, &[("dns.rcode", 0)], &[]).is_empty());
    // Any of several numbers passes, and each test is about any of them. Ranges leave their ends out.
    assert_eq!(found(Forward, &[("dns.rrtype", 1), ("dns.rrtype", 16)], &[]), [4]);
    assert_eq!(found(Forward, &[("dns.rrtype", 256), ("dns.rrtype", 11)], &[]), [5]);
    assert!(found(Forward, &[("dns.rrtype", 255), ("dns.rrtype", 11)], &[]).is_empty());
    assert!(found(Forward, &[("dns.rrtype", 256), ("dns.rrtype", 20)], &[]).is_empty());
    // Numbers and buffers are those of one message.
    assert_eq!(found(Forward, &[("dns.rcode", 3)], &[("dns.queries.rrname", "evil.example")]), [2, 6]);
    assert_eq!(found(Forward, &[("dns.rcode", 3)], &[("dns.queries.rrname", "good.example")]), [2]);
    let mut watch = Watch::new(rules).named("dns").over(17);
    watch.counted(Forward, &[("dns.rcode", 3)], &[]).transaction(Forward, 1);
    assert_eq!(watch.message(Forward, &[("dns.queries.rrname", "evil.example")]).sids(), [2]);
    watch.transaction(Forward, 2).message(Forward, &[("dns.queries.rrname", "evil.example")]);
    assert!(watch.counted(Reverse, &[("dns.rcode", 0)], &[]).sids().is_empty());
    // Parsers are asked for the numbers that rules test, and for no others.
    let program = Program::new(&set_of("alert dns any any -> any any (dns.opcode:4; sid:1;)"), &[]);
    assert_eq!(program.buffers().iter().map(|buffer| buffer.name).collect::<Vec<_>>(), ["dns.opcode"]);
}

#[test]
fn versions_and_states_of_tls() {
    let rules = "alert tls any any -> any any (tls.version:1.2; flow:to_client; sid:1;)
alert tcp any any -> any any (ssl_version:!tls1.3,tls1.2; sid:2;)
alert tcp any any -> any any (ssl_version:tls1.0,tls1.1; sid:3;)
alert tls any any -> any any (ssl_state:client_hello|client_keyx; sid:4;)
alert tls any any -> any any (ssl_state:!client_hello; tls.sni; content:\"evil\"; sid:5;)
alert tls any any -> any any (tls.cert_chain_len:>2; sid:6;)";
    let found = |side: Direction, name: &str, number: u64| {
        let mut sids = Watch::new(rules).named("tls").counted(side, &[(name, number)], &[]).sids();
        sids.sort_unstable();
        sids
    };
    assert_eq!(found(Reverse, "tls.version", 0x303), [1, 2]);
    assert_eq!(found(Forward, "tls.version", 0x303), [2]);
    assert!(found(Reverse, "tls.version", 0x304).is_empty());
    assert_eq!(found(Reverse, "tls.version", 0x301), [2, 3]);
    assert_eq!(found(Reverse, "tls.version", 0x300), [2]);
    assert_eq!(found(Forward, "tls.state", 1), [4]);
    assert_eq!(found(Forward, "tls.state", 16), [4]);
    assert!(found(Reverse, "tls.state", 2).is_empty() && found(Reverse, "tls.state", 12).is_empty());
    assert_eq!(found(Reverse, "tls.cert_chain_len", 3), [6]);
    assert!(found(Reverse, "tls.cert_chain_len", 2).is_empty());
    // The state and the name are of the handshake, whose messages are complete each.
    let mut watch = Watch::new(rules).named("tls");
    let hello = [("tls.sni", "evil.example")];
    assert_eq!(watch.counted(Forward, &[("tls.state", 1)], &hello).sids(), [4]);
    assert_eq!(watch.counted(Forward, &[("tls.state", 16)], &[]).sids(), [5]);
}

#[test]
fn the_entropy_of_a_buffer() {
    let found = |test: &str, body: &[u8]| {
        let rule = format!("alert http any any -> any any (http.request_body; {test} sid:1;)");
        let mut watch = Watch::new(&rule).named("http");
        watch.buffer("http.request_body", Forward, body).buffer("http.request_body", Forward, b"");
        watch.complete(Forward).matches().len()
    };
    for (test, expected) in [
        ("entropy:value > 1.9;", 1),
        ("entropy:value > 2;", 0),
        ("entropy:value >= 2;", 1),
        ("entropy:value = 2;", 1),
        ("entropy:value 1-2;", 0),
        ("entropy:value 1-2.1;", 1),
        ("entropy:bytes 2, value = 1;", 1),
        ("entropy:bytes 4, offset 1, value > 0;", 0),
        ("entropy:bytes 3, offset 1, value > 1.58;", 1),
        ("content:\"c\"; entropy:value = 2;", 1),
        ("content:\"e\"; entropy:value = 2;", 0),
    ] {
        assert_eq!(found(test, b"abcd"), expected, "{test}");
    }
    assert_eq!(found("entropy:value < 1;", b"aaaa"), 1);
}

/// How often a rule of a protocol matches a message of the client with a number, and one of the server with it.
fn numbered(protocol: &str, options: &str, buffer: &str, number: u64) -> usize {
    let rule = format!("alert {protocol} any any -> any any ({options} sid:1;)");
    let named = if protocol == "krb5" { "kerberos" } else { protocol };
    let mut watch = Watch::new(&rule).named(named);
    watch.counted(Forward, &[(buffer, number)], &[]).counted(Reverse, &[(buffer, number)], &[]);
    watch.matches().len()
}

#[test]
fn numbers_and_flags_of_protocols() {
    for (protocol, buffer, options, hits, misses) in [
        ("smb", "smb.version", "smb.version:2;", 2, 1),
        ("ftp", "ftp.mode", "ftp.mode:active;", 1, 0),
        ("ftp", "ftp.mode", "ftp.mode:passive;", 0, 1),
        ("ftp", "ftp.reply_received", "ftp.reply_received:on;", 1, 0),
        ("ftp", "ftp.reply_received", "ftp.reply_received:no;", 0, 1),
        ("mqtt", "mqtt.connack.session_present", "mqtt.connack.session_present:yes;", 1, 0),
        ("mqtt", "mqtt.flags", "mqtt.flags:retain;", 1, 8),
        ("mqtt", "mqtt.flags", "mqtt.flags:retain;", 9, 0),
        ("mqtt", "mqtt.flags", "mqtt.flags:!retain,dup;", 8, 9),
        ("mqtt", "mqtt.flags", "mqtt.flags:!retain,!dup;", 0, 1),
        ("mqtt", "mqtt.flags", "mqtt.flags:>7;", 8, 7),
        ("websocket", "websocket.mask", "websocket.mask:>4;", 5, 4),
        ("websocket", "websocket.flags", "websocket.flags:fin,!comp;", 0x80, 0xc0),
        ("websocket", "websocket.flags", "websocket.flags:fin,!comp;", 0xb0, 0),
        ("dnp3", "dnp3.func", "dnp3_func:cold_restart;", 13, 14),
        ("dnp3", "dnp3.func", "dnp3_func:129;", 129, 130),
        ("dnp3", "dnp3.ind", "dnp3_ind:need_time,object_unknown;", 0x1002, 0x8001),
        ("dnp3", "dnp3.ind", "dnp3_ind:need_time,object_unknown;", 2, 0),
        ("krb5", "krb5.err_code", "krb5_err_code:25;", 25, 24),
        ("krb5", "krb5.err_code", "krb5_err_code:!25;", 24, 25),
    ] {
        assert_eq!(numbered(protocol, options, buffer, hits), 2, "{options} {hits}");
        assert_eq!(numbered(protocol, options, buffer, misses), 0, "{options} {misses}");
    }
    // These are of one side.
    for (protocol, buffer, options, hits, misses) in [
        ("mqtt", "mqtt.connect.flags", "mqtt.connect.flags:username,password,clean_session;", 0xc2, 0x82),
        ("mqtt", "mqtt.connect.flags", "mqtt.connect.flags:username,!will;", 0x80, 0x84),
        ("krb5", "krb5.weak_encryption", "krb5.weak_encryption;", 1, 0),
        ("krb5", "krb5.ticket_encryption", "krb5.ticket_encryption:weak;", 24, 25),
        ("krb5", "krb5.ticket_encryption", "krb5.ticket_encryption:weak;", 7, 8),
        ("krb5", "krb5.ticket_encryption", "krb5.ticket_encryption:!weak;", 18, 23),
        ("krb5", "krb5.ticket_encryption", "krb5.ticket_encryption:rc4-hmac,18;", 18, 17),
        ("krb5", "krb5.ticket_encryption", "krb5.ticket_encryption:RC4-HMAC;", 23, 24),
        ("krb5", "krb5.ticket_encryption", "krb5.ticket_encryption:-1;", 0xffff, 0xfffe),
    ] {
        assert_eq!(numbered(protocol, options, buffer, hits), 1, "{options} {hits}");
        assert_eq!(numbered(protocol, options, buffer, misses), 0, "{options} {misses}");
    }
}

#[test]
fn descriptions_of_sessions() {
    let rule = r#"alert sip any any -> any any (flow:to_server; sip.method; content:"INVITE"; sdp.origin; content:"alice"; startswith; sdp.media.media; content:"audio"; sdp.media.media; content:"video"; sid:1;)"#;
    let invite = |origin, other| {
        let mut watch = Watch::new(rule).over(17).named("sip");
        let media = [("sdp.media.media", "audio 1 RTP/AVP 0"), ("sdp.media.media", other)];
        watch.message(Forward, &[&[("sip.method", "INVITE"), ("sdp.origin", origin)], &media[..]].concat());
        watch.matches().len()
    };
    assert_eq!(invite("alice 1", "video 2"), 1);
    assert_eq!(invite(" alice 1", "video 2"), 0);
    assert_eq!(invite("alice 1", "audio 2"), 0);
}

#[test]
fn the_address_of_a_trap() {
    let rule = r#"alert snmp any any -> any any (snmp.trap_address; content:"192.0.2.1"; bsize:9; sid:1;)"#;
    let mut watch = Watch::new(rule).over(17).named("snmp");
    watch.message(Forward, &[("snmp.trap_address", "192.0.2.1")]);
    watch.transaction(Forward, 1).message(Forward, &[("snmp.trap_address", "192.0.2.10")]);
    assert_eq!(watch.matches().len(), 1);
}

#[test]
fn both_sides_of_a_transaction() {
    let rules = "alert http 10.0.0.1 any => 10.0.0.2 80 (http.uri; content:\"/a\"; http.stat_code; content:\"200\"; sid:1;)
alert http 10.0.0.2 80 => 10.0.0.1 any (http.uri; content:\"/a\"; http.stat_code; content:\"200\"; sid:2;)
alert http any any => any any (http.header; content:\"Host: a\"; http.stat_code; content:\"200\"; sid:3;)
alert http any any => any 81 (http.stat_code; content:\"200\"; sid:4;)
alert http any any => any 80 (http.stat_code; content:\"200\"; sid:5;)";
    let request = [("http.uri", "/a"), ("http.header", "Host: a\r\n")];
    let mut watch = Watch::new(rules).named("http");
    assert_eq!(watch.message(Forward, &request).sids(), []);
    assert_eq!(watch.message(Reverse, &[("http.stat_code", "200")]).sids(), [1, 3, 5]);
    watch.transaction(Forward, 1).transaction(Reverse, 1).message(Forward, &request);
    assert_eq!(watch.message(Reverse, &[("http.stat_code", "201")]).sids(), []);
    // A field of either side is one of the request.
    watch.transaction(Forward, 2).transaction(Reverse, 2).message(Forward, &[("http.header", "Host: b\r\n")]);
    let answer = [("http.stat_code", "200"), ("http.header", "Host: a\r\n")];
    assert_eq!(watch.message(Reverse, &answer).sids(), [5]);
}

#[test]
fn the_validity_of_certificates() {
    let rules = "alert tls any any -> any any (tls_cert_notbefore:>2015-10-22T23:59:59; sid:1;)
alert tls any any -> any any (tls_cert_notbefore:<2015-10; sid:2;)
alert tls any any -> any any (tls_cert_notafter:2016<>2016-01-02; sid:3;)
alert tls any any -> any any (tls_cert_notafter:2016; sid:4;)
alert tls any any -> any any (tls_cert_expired; sid:5;)
alert tls any any -> any any (tls_cert_valid; sid:6;)";
    let found = |name: &str, number: u64| {
        let mut sids = Watch::new(rules).named("tls").counted(Reverse, &[(name, number)], &[]).sids();
        sids.sort_unstable();
        sids
    };
    // 2015-10-22T23:59:59 is second 1445558399, 2015-10-01 1443657600, 2016-01-01 1451606400, 2016-01-02 1451692800.
    assert_eq!(found("tls.cert_not_before", 1_445_558_399), [1]);
    assert!(found("tls.cert_not_before", 1_445_558_398).is_empty());
    assert_eq!(found("tls.cert_not_before", 1_443_657_600), [2]);
    assert!(found("tls.cert_not_before", 1_443_657_601).is_empty());
    assert!(found("tls.cert_not_after", 1_451_606_399).is_empty());
    assert_eq!(found("tls.cert_not_after", 1_451_606_400), [3, 4]);
    assert_eq!(found("tls.cert_not_after", 1_451_606_401), [3]);
    assert_eq!(found("tls.cert_not_after", 1_451_692_800), [3]);
    assert!(found("tls.cert_not_after", 1_451_692_801).is_empty());
    assert_eq!(found("tls.cert_validity", 0), [6]);
    assert_eq!(found("tls.cert_validity", 1), [5]);
    assert!(found("tls.cert_validity", 2).is_empty());
}

#[test]
fn banners_of_ssh_in_the_old_manner() {
    let rules = "alert tcp any any -> any any (ssh.softwareversion:PuTTY; sid:1;)
alert tcp any any -> any any (ssh.softwareversion:!\"OpenSSH\"; sid:2;)
alert tcp any any -> any any (ssh.protoversion:2_compat; sid:3;)
alert tcp any any -> any any (ssh.protoversion:1.99; sid:4;)";
    let found = |name: &str, text: &str| {
        let mut sids = Watch::new(rules).named("ssh").counted(Forward, &[], &[(name, text)]).sids();
        sids.sort_unstable();
        sids
    };
    assert_eq!(found("ssh.software", "PuTTY_Release_0.60"), [1, 2]);
    assert!(found("ssh.software", "OpenSSH_9.2").is_empty());
    assert_eq!(found("ssh.proto", "2.0"), [3]);
    assert_eq!(found("ssh.proto", "1.99"), [3, 4]);
    assert!(found("ssh.proto", "1.5").is_empty());
}
