//! The process that runs one target.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weir_fuzz::Target;

use crate::Arguments;
use crate::mutate::Mutator;

/// Maximum number of kept inputs with a new outcome, apart from seeds. Later ones replace earlier ones.
const MAX_KEPT: usize = 4096;

/// Runs a target, first on its unchanged seeds, until the time or the number of executions is reached.
pub fn feed(target: &Target, current: &Path, arguments: &Arguments) -> io::Result<()> {
    let file = File::create(current)?;
    let mut corpus = (target.seeds)();
    let seeds = corpus.len();
    let mut mutator = Mutator::new(arguments.seed, target.words);
    let mut seen = HashSet::new();
    let watch = watch(arguments)?;
    let end = Instant::now() + Duration::from_secs_f64(arguments.seconds);
    let mut executions = 0;
    let mut input = Vec::new();
    let mut kept = 0;
    while executions < arguments.executions && Instant::now() < end {
        let as_it_is = corpus.get(executions as usize).filter(|_| (executions as usize) < seeds);
        match as_it_is {
            Some(seed) => input.clone_from(seed),
            None => mutator.next(&corpus, &mut input),
        }
        write_current(&file, &input)?;
        executions += 1;
        watch.store(executions, Ordering::Relaxed);
        let digest = (target.run)(&input);
        if seen.insert(digest) && executions as usize > seeds {
            if corpus.len() < seeds + MAX_KEPT {
                corpus.push(input.clone());
            } else if let Some(place) = corpus.get_mut(seeds + kept % MAX_KEPT) {
                place.clone_from(&input);
            }
            kept += 1;
        }
    }
    println!(
        "{:10} {executions:9} executions from {seeds} seeds, {} distinct outcomes, seed {}",
        target.name,
        seen.len(),
        arguments.seed
    );
    Ok(())
}

/// The length comes first: the file is not truncated each time.
fn write_current(file: &File, input: &[u8]) -> io::Result<()> {
    file.write_all_at(&(input.len() as u64).to_le_bytes(), 0)?;
    file.write_all_at(input, 8)
}

/// The input of the interrupted execution.
pub fn read_current(path: &Path) -> io::Result<Vec<u8>> {
    let bytes = fs::read(path)?;
    let Some((len, input)) = bytes.split_first_chunk() else { return Ok(Vec::new()) };
    let len = usize::try_from(u64::from_le_bytes(*len)).unwrap_or(usize::MAX);
    Ok(input.get(..len).unwrap_or(input).to_vec())
}

/// Ends the process if one execution takes too long or memory grows too far. Each execution is reported to it.
fn watch(arguments: &Arguments) -> io::Result<Arc<AtomicU64>> {
    let emitted = Arc::new(AtomicU64::new(0));
    let executions = Arc::clone(&emitted);
    let slow = Duration::from_secs(arguments.slow);
    let max = resident()? + arguments.memory;
    thread::spawn(move || {
        let (mut last, mut since) = (0, Instant::now());
        loop {
            thread::sleep(Duration::from_millis(20));
            let now = executions.load(Ordering::Relaxed);
            if now != last {
                (last, since) = (now, Instant::now());
            }
            if now > 0 && since.elapsed() > slow {
                eprintln!("one input takes longer than {} s", slow.as_secs());
                std::process::exit(102);
            }
            if resident().is_ok_and(|mebibytes| mebibytes > max) {
                eprintln!("resident memory is above {max} MiB");
                std::process::exit(103);
            }
        }
    });
    Ok(emitted)
}

/// Resident memory of this process in MiB.
fn resident() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let kibibytes =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().split(' ').next()?.parse().ok());
    Ok(kibibytes.unwrap_or(0_u64) / 1024)
}
