//! The time range of a command: --since and --until.

use clap::Args;

/// A time range, by its ends.
#[derive(Clone, Debug, Default, Args)]
pub struct TimeOptions {
    /// From this time on: 2026-03-15, 2026-03-15T12:30:00+01:00, "yesterday 14:05", "3 days ago", 14:05, or 2h before
    /// the end of the captures or of the store.
    #[arg(long, value_name = "TIME", help_heading = "Input", hide_short_help = true)]
    pub since: Option<String>,

    /// Before this time, in the forms of --since.
    #[arg(long, value_name = "TIME", help_heading = "Input", hide_short_help = true)]
    pub until: Option<String>,
}

impl TimeOptions {
    /// Whether an end is given.
    pub fn is_given(&self) -> bool {
        self.since.is_some() || self.until.is_some()
    }
}

/// A time range in a zone, for commands that have no other use of a zone.
#[derive(Clone, Debug, Default, Args)]
pub struct ZonedTimeOptions {
    #[command(flatten)]
    pub times: TimeOptions,

    /// Zone of the times of --since and --until (e.g. Europe/Berlin) instead of UTC.
    #[arg(long, value_name = "ZONE", help_heading = "Input", hide_short_help = true)]
    pub tz: Option<String>,
}
