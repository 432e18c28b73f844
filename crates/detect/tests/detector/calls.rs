//! Calls of DCE/RPC.

use crate::watch::Watch;
use weir_wire::Direction::{self, Forward, Reverse};

/// The control of services (SVCCTL), version 2, as buffers have it.
const SVCCTL: &[u8] = b"\x36\x7a\xbb\x81\x98\x44\x35\xf1\xad\x32\x98\xf0\x38\x00\x10\x03\0\x02";

/// A call of DCE/RPC or its response.
fn call(watch: &mut Watch, side: Direction, operation: u64, is_little: bool, data: &[u8]) {
    watch.buffer("dcerpc.iface", side, SVCCTL);
    watch.buffer("dcerpc.opnum", side, &operation.to_be_bytes());
    watch.buffer("dcerpc.byte_order", side, &u64::from(is_little).to_be_bytes());
    watch.buffer("dcerpc.stub_data", side, data).complete(side);
}

/// The sides of the calls that a rule matches in.
fn called(options: &str, carrier: &str, protocol: &str) -> Vec<Direction> {
    let rule = format!("alert {protocol} any any -> any any ({options} sid:1;)");
    let mut watch = Watch::new(&rule).named(carrier);
    call(&mut watch, Forward, 15, true, b"\x01\x02\0\0request");
    call(&mut watch, Reverse, 15, true, b"\x03\0\0\0response");
    watch.matches().iter().map(|found| found.direction).collect()
}

#[test]
fn interfaces_and_operations_of_calls() {
    const UUID: &str = "dcerpc.iface:367abb81-9844-35f1-ad32-98f038001003";
    let both = vec![Forward, Reverse];
    for (options, expected) in [
        (format!("{UUID};"), both.clone()),
        (format!("{UUID},any_frag;"), both.clone()),
        (format!("{UUID}; flow:to_server;"), vec![Forward]),
        ("dce_iface:367abb81-9844-35f1-ad32-98f038001004;".to_owned(), vec![]),
        (format!("{UUID},=2;"), both.clone()),
        (format!("{UUID},2;"), both.clone()),
        (format!("{UUID},=3;"), vec![]),
        (format!("{UUID},!2;"), vec![]),
        (format!("{UUID},!3;"), both.clone()),
        (format!("{UUID},<3,any_frag;"), both.clone()),
        (format!("{UUID},<2;"), vec![]),
        (format!("{UUID},<=2;"), both.clone()),
        (format!("{UUID},>1;"), both.clone()),
        (format!("{UUID},>2;"), vec![]),
        ("dcerpc.opnum:15;".to_owned(), both.clone()),
        ("dcerpc.opnum:14;".to_owned(), vec![]),
        ("dce_opnum:1,3-14,16;".to_owned(), vec![]),
        ("dce_opnum:1,3-15;".to_owned(), both.clone()),
        ("dcerpc.opnum:15-20;".to_owned(), both.clone()),
        ("dcerpc.opnum:>14;".to_owned(), both.clone()),
        ("dcerpc.opnum:>15;".to_owned(), vec![]),
        ("dcerpc.opnum:!15;".to_owned(), vec![]),
        (format!("{UUID}; dcerpc.opnum:15; dcerpc.stub_data; content:\"request\";"), vec![Forward]),
        (format!("{UUID}; dcerpc.opnum:16; dcerpc.stub_data; content:\"request\";"), vec![]),
        (format!("{UUID}; dce_stub_data; content:\"resp\"; offset:4; depth:4;"), vec![Reverse]),
        (format!("{UUID}; dce_stub_data; content:\"resp\"; offset:5; depth:4;"), vec![]),
    ] {
        assert_eq!(called(&options, "dce_rpc", "dcerpc"), expected, "{options}");
        assert_eq!(called(&options, "smb", "smb"), expected, "{options}");
        assert_eq!(called(&options, "smb", "tcp"), expected, "{options}");
    }
    // A pipe of SMB has calls, and its flow both names.
    assert_eq!(called(&format!("{UUID};"), "smb", "dcerpc"), both);
}

#[test]
fn numbers_in_calls_have_the_order_of_the_call() {
    let rule = |test: &str| {
        format!(
            "alert dcerpc any any -> any any (dcerpc.stub_data; {test} content:\"!\"; distance:0; sid:1;)"
        )
    };
    for (test, is_little, expected) in [
        ("byte_test:2,=,0x0201,0,dce;", true, 1),
        ("byte_test:2,=,0x0201,0,dce;", false, 0),
        ("byte_test:2,=,0x0102,0,dce;", false, 1),
        ("byte_test:2,=,0x0102,0,dce;", true, 0),
        ("byte_test:2,=,0x0102,0;", true, 1),
        ("byte_jump:2,2,dce;", true, 1),
        ("byte_jump:2,2,dce;", false, 0),
        ("byte_extract:2,2,n,dce; byte_test:1,=,n,4;", true, 1),
        ("byte_extract:2,2,n,dce; byte_test:1,=,n,4;", false, 0),
    ] {
        let mut watch = Watch::new(&rule(test)).named("dce_rpc");
        call(&mut watch, Forward, 1, is_little, b"\x01\x02\x03\0\x03..!");
        assert_eq!(watch.matches().len(), expected, "{test} {is_little}");
    }
}
