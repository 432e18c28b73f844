//! Counters of the server: refusals, failed log-ins, downloads and lost log lines.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// A counter that only increases.
#[derive(Debug, Default)]
pub struct Total(AtomicU64);

impl Total {
    /// Adds one.
    pub fn one(&self) {
        self.add(1);
    }

    /// Adds `more`.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }
}

/// Counters of the server.
#[derive(Debug, Default)]
pub struct Counts {
    /// Answers with payload that have been started.
    pub downloads: Total,
    /// Bytes of these answers.
    pub download_bytes: Total,
    /// Log-ins with a wrong password or token.
    pub failed_logins: Total,
    /// Log-ins that were not verified because their address failed before.
    pub delayed_logins: Total,
    /// Requests of authenticated clients without the right of the route.
    pub refused_rights: Total,
    /// Connections that were closed because their address had reached its limit.
    pub refused_connections: Total,
    /// Event streams that were refused because the client, or all clients together, had reached the limit.
    pub refused_streams: Total,
    /// Configuration checks that were refused because a limit was reached.
    pub refused_checks: Total,
    /// Lines of the access log that could not be written.
    pub lost_lines: Total,
}

impl Counts {
    /// The counters with names and descriptions.
    fn rows(&self) -> [(&'static str, &'static str, &Total); 9] {
        [
            ("downloads", "Answers with payload that have been started.", &self.downloads),
            ("download_bytes", "Bytes of answers with payload.", &self.download_bytes),
            ("failed_logins", "Log-ins with a wrong password or token.", &self.failed_logins),
            (
                "delayed_logins",
                "Log-ins that were not verified because their address failed before.",
                &self.delayed_logins,
            ),
            ("refused_rights", "Requests without the right of their route.", &self.refused_rights),
            (
                "refused_connections",
                "Connections that were closed because their address had reached its limit.",
                &self.refused_connections,
            ),
            ("refused_streams", "Event streams beyond a limit.", &self.refused_streams),
            ("refused_checks", "Configuration checks beyond a limit.", &self.refused_checks),
            ("lost_access_lines", "Lines of the access log that could not be written.", &self.lost_lines),
        ]
    }

    /// All counters as OpenMetrics text.
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
