//! Tests the driver as a program.

use std::process::{Command, Output};

fn smoke(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_smoke")).args(arguments).output().expect("it runs")
}

#[test]
fn an_input_in_a_file_is_run_again() {
    let input = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let tried = smoke(&["--target", "wire", "--input", input]);
    assert!(tried.status.success(), "{tried:?}");
    assert_eq!(String::from_utf8_lossy(&tried.stdout), format!("wire {input}\n"));
}

#[test]
fn an_absent_target_and_an_absent_input_are_errors() {
    for arguments in
        [["--target", "nowhere", "--list"].as_slice(), &["--target", "wire", "--input", "/nowhere"]]
    {
        let tried = smoke(arguments);
        assert_eq!(tried.status.code(), Some(2), "{tried:?}");
        assert!(tried.stderr.starts_with(b"smoke: "), "{tried:?}");
    }
}
