//! What the doors of the server have refused, recorded and handed out.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// A counter that only goes up.
#[derive(Debug, Default)]
pub struct Total(AtomicU64);

impl Total {
    /// One more.
    pub fn one(&self) {
        self.add(1);
    }

    /// So many more.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }
}

/// Counters of the server's doors.
#[derive(Debug, Default)]
pub struct Counts {
    /// Answers with payload that have begun.
    pub downloads: Total,
    /// Bytes of these answers.
    pub download_bytes: Total,
    /// Passwords and tokens that were wrong.
    pub failed_logins: Total,
    /// Log-ins that were not looked at because their address had failed before.
    pub delayed_logins: Total,
    /// Requests of known clients without the right of the route.
    pub refused_rights: Total,
    /// Connections that were closed because their address had its share.
    pub refused_connections: Total,
    /// Event streams that were refused because the client, or all of them, had as many as they may.
    pub refused_streams: Total,
    /// Configuration checks that were refused for the same reason.
    pub refused_checks: Total,
    /// Lines of the access log that could not be written.
    pub lost_lines: Total,
}

impl Counts {
    /// Each with its name and meaning.
    fn rows(&self) -> [(&'static str, &'static str, &Total); 9] {
        [
            ("downloads", "Answers with payload that have begun.", &self.downloads),
            ("download_bytes", "Bytes of answers with payload.", &self.download_bytes),
            ("failed_logins", "Passwords and tokens that were wrong.", &self.failed_logins),
            (
                "delayed_logins",
                "Log-ins that were not looked at because their address had failed before.",
                &self.delayed_logins,
            ),
            ("refused_rights", "Requests without the right of their route.", &self.refused_rights),
            (
                "refused_connections",
                "Connections that were closed because their address had its share.",
                &self.refused_connections,
            ),
            ("refused_streams", "Event streams beyond a limit.", &self.refused_streams),
            ("refused_checks", "Configuration checks beyond a limit.", &self.refused_checks),
            ("lost_access_lines", "Lines of the access log that could not be written.", &self.lost_lines),
        ]
    }

    /// All of them as OpenMetrics text.
    pub fn metrics(&self) -> String {
        let mut text = String::new();
        for (name, help, total) in self.rows() {
            let value = total.0.load(Ordering::Relaxed);
            let _ = writeln!(
                text,
                "# HELP weir_{name} {help}\n# TYPE weir_{name} counter\nweir_{name}_total {value}"
            );
        }
        text
    }
}
