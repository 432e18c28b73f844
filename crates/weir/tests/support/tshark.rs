//! tshark as an oracle.

use std::path::Path;
use std::process::{Command, Stdio};

/// Whether it is installed; if not, says that the test is skipped.
pub fn is_installed() -> bool {
    let is_there = Command::new("tshark").arg("--version").stdin(Stdio::null()).output().is_ok();
    if !is_there {
        println!("skipped: tshark is not installed");
    }
    is_there
}

/// The values of fields in a capture: a line for each packet, the fields separated by semicolons. Names are not resolved.
pub fn fields(capture: &Path, options: &[&str], fields: &[&str]) -> String {
    let mut command = Command::new("tshark");
    command.arg("-n").args(options).args(["-T", "fields", "-E", "separator=;", "-r"]).arg(capture);
    command.args(fields.iter().flat_map(|field| ["-e", field]));
    let ran = command.stdin(Stdio::null()).output().unwrap();
    String::from_utf8_lossy(&ran.stdout).into_owned()
}
