//! Writes the hostile captures of [`weir_bench::hostile`] into a folder.

use std::path::Path;

use weir_bench::hostile::{BYTES, Capture, Way, cases, of_talk, talks};

use crate::pcap::Writer;
use crate::{Facts, Result};

/// Writes those that are made by hand, and those that are made of conversations.
pub fn write(folder: &Path, conversations: &Path) -> Result<Facts> {
    std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut all = Facts::default();
    let mut one = |name: &str, about: &str, capture: &Capture| -> Result<()> {
        let facts = file(&folder.join(format!("{name}.pcap")), capture)?;
        println!("{name}\t{}\t{about}", facts.bytes);
        all.packets += facts.packets;
        all.bytes += facts.bytes;
        Ok(())
    };
    for case in cases() {
        one(case.name, case.about, &case.capture(BYTES))?;
    }
    for (name, talk) in talks(conversations)? {
        for (word, way) in Way::ALL {
            if let Some(capture) = of_talk(&talk, way, BYTES) {
                one(&format!("talk-{name}-{word}"), &format!("{name}: {}", way.about()), &capture)?;
            }
        }
    }
    Ok(all)
}

fn file(path: &Path, capture: &Capture) -> Result<Facts> {
    let mut out = Writer::create(path)?;
    for (at, frame) in (0..).zip(&capture.frames) {
        out.write(at * capture.step, frame)?;
    }
    out.finish()
}
