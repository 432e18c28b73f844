//! Looking for originals in what was written.

use crate::exit::{Exit, complain};
use std::path::Path;
use weir_capture::{Files, Input, ReadOptions};
use weir_output::anon::{Anonymiser, Leak, Originals};
use weir_output::figures::count;
use weir_wire::Chunk;

/// Leaks that are told one by one.
const TOLD: usize = 20;

/// Looks for originals in a capture that was made; exit code 4 where one is found.
pub fn look(originals: &Originals, anonymiser: &mut Anonymiser, path: &Path, quiet: bool) -> Exit {
    let finder = match originals.finder(anonymiser) {
        Ok(finder) => finder,
        Err(error) => return complain(Exit::Output, format!("audit: {error}")),
    };
    let mut files = match Files::open(&[Input::Path(path.to_owned())], &ReadOptions::default()) {
        Ok(files) => files,
        Err(error) => return complain(Exit::Output, format!("audit: {error}")),
    };
    let (mut chunk, mut packets, mut leaks) = (Chunk::default(), 0_u64, 0_usize);
    loop {
        match files.fill(&mut chunk) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => return complain(Exit::Output, format!("audit: {error}")),
        }
        for packet in chunk.batch().packets() {
            packets += 1;
            for leak in finder.packet(&packet) {
                leaks += 1;
                if leaks <= TOLD {
                    tell(&format!("packet {packets}"), &leak);
                }
            }
        }
    }
    conclude(originals, &format!("{} packets", count(packets)), leaks, quiet)
}

fn tell(place: &str, leak: &Leak) {
    let form = if leak.is_text { "text" } else { "octets" };
    eprintln!("weir: audit: {place}, octet {}: {} as {form}", leak.at, leak.what.escape_debug());
}

fn conclude(originals: &Originals, through: &str, leaks: usize, quiet: bool) -> Exit {
    let (addresses, names) = originals.len();
    let wanted = format!("{} addresses and {} names", count(addresses as u64), count(names as u64));
    if leaks > 0 {
        let text = format!("audit: of {wanted}, {} LEAKS in {through}", count(leaks as u64));
        return complain(Exit::Output, text);
    }
    if !quiet {
        println!("audit: of {wanted}, none in {through}");
    }
    Exit::Good
}
