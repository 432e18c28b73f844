//! Idle standard input.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};
use support::{conversation, finish, handles, pcap, program, signal, start};

/// Far shorter than the limit of a hanging test, and far longer than the test needs.
const SOON: Duration = Duration::from_secs(60);

#[test]
fn an_interrupt_ends_a_run_on_an_idle_pipe() {
    for (packets, summary) in [(6, "6 packets"), (0, "0 packets")] {
        let mut child = start(program().arg("-").stdin(Stdio::piped()));
        let mut to = child.stdin.take().unwrap();
        if packets > 0 {
            to.write_all(&pcap(1, &conversation(1_000_000_000))).unwrap();
        }
        handles(&child, 2);
        std::thread::sleep(Duration::from_millis(500));
        let begun = Instant::now();
        signal(&child, "INT");
        // The pipe stays open.
        finish(child).exits(130).prints(summary).prints("interrupted").prints("LOSS      none");
        assert!(begun.elapsed() < SOON);
        drop(to);
    }
}
