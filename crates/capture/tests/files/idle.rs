//! Pipes that are idle for a while, or forever.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_capture::{Input, ReadOptions};

use super::support::{Outcome, gzip, pcap, read, scratch, zstandard};

const PAUSE: Duration = Duration::from_millis(50);
/// Far longer than the test needs, and far shorter than the limit of a hanging test.
const SOON: Duration = Duration::from_secs(60);

/// Reads a fifo whose writer sends `parts` with pauses in between and keeps it open; stopped once all is written.
/// Without parts the fifo has no writer.
fn stopped(parts: &[&[u8]]) -> Outcome {
    let directory = scratch();
    let path = directory.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let stop = Arc::new(AtomicBool::new(false));
    let begun = Instant::now();
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            let writer = (!parts.is_empty()).then(|| written(&path, parts));
            std::thread::sleep(4 * PAUSE);
            stop.store(true, Ordering::Relaxed);
            // The fifo stays open until the reader has had time to hang.
            std::thread::sleep(4 * PAUSE);
            drop(writer);
        });
        read(
            &[Input::Path(path.clone())],
            &ReadOptions { stop: Some(Arc::clone(&stop)), ..Default::default() },
        )
    });
    assert!(begun.elapsed() < SOON, "the read hung");
    outcome
}

fn written(path: &Path, parts: &[&[u8]]) -> std::fs::File {
    // Opened for reading too, so that opening does not wait for the reader.
    let mut fifo =
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path).unwrap();
    for part in parts {
        fifo.write_all(part).unwrap();
        std::thread::sleep(PAUSE);
    }
    fifo
}

#[test]
fn an_idle_pipe_ends_when_it_is_stopped() {
    let file = pcap(&[(1, b"one"), (2, b"two"), (3, b"three")]);
    let packed = [gzip(&file), zstandard(&file)];
    let cases: [(&str, &[&[u8]], usize); 7] = [
        ("no writer", &[], 0),
        ("nothing written", &[b""], 0),
        ("half a file header", &[&file[..10]], 0),
        ("half a record", &[&file[..24], &file[24..24 + 19 + 8]], 1),
        ("between two records", &[&file[..30], &file[30..]], 3),
        ("gzip", &[&packed[0][..12], &packed[0][12..]], 3),
        ("zstd", &[&packed[1][..12], &packed[1][12..]], 3),
    ];
    for (case, parts, packets) in cases {
        let outcome = stopped(parts);
        assert_eq!(outcome.packets.len(), packets, "{case}");
        assert!(outcome.errors.is_empty(), "{case}: {:?}", outcome.errors);
        assert!(outcome.inputs.iter().all(|input| input.problem.is_none()), "{case}");
    }
}

#[test]
fn a_pipe_that_pauses_is_read_to_its_end() {
    let directory = scratch();
    let path = directory.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let file = pcap(&[(1, b"one"), (2, b"two"), (3, b"three")]);
    let stop = Arc::new(AtomicBool::new(false));
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            // The reader waits for a writer here, not the writer for a reader.
            std::thread::sleep(3 * PAUSE);
            let mut fifo = OpenOptions::new().write(true).open(&path).unwrap();
            for part in file.chunks(20) {
                fifo.write_all(part).unwrap();
                std::thread::sleep(PAUSE);
            }
        });
        read(
            &[Input::Path(path.clone())],
            &ReadOptions { stop: Some(Arc::clone(&stop)), ..Default::default() },
        )
    });
    assert_eq!((outcome.packets.len(), outcome.errors.len()), (3, 0), "{:?}", outcome.errors);
}
