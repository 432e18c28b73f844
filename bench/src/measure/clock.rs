//! Measures the time of the measuring thread.

use rustix::time::{ClockId, clock_gettime};

/// CPU time of this thread, in nanoseconds.
pub fn cpu() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds of CPU time that `work` takes.
pub fn timed(work: impl FnOnce()) -> u64 {
    let before = cpu();
    work();
    cpu() - before
}

/// The median of the rounds; 0 without rounds.
pub fn median(mut taken: Vec<f64>) -> f64 {
    taken.sort_by(f64::total_cmp);
    let middle = taken.len() / 2;
    match taken.get(middle) {
        Some(upper) if taken.len() % 2 == 1 => *upper,
        Some(upper) => (taken.get(middle - 1).copied().unwrap_or(*upper) + upper) / 2.0,
        None => 0.0,
    }
}

/// Resident memory of this process, in MiB.
pub fn resident() -> Result<f64, Box<dyn std::error::Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_value() {
        for (taken, middle) in [(vec![], 0.0), (vec![3.0, 1.0, 9.0], 3.0), (vec![4.0, 1.0, 2.0, 9.0], 3.0)] {
            assert_eq!(median(taken), middle);
        }
    }
}
