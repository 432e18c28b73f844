//! Rules: `weir rules`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Check rules of Suricata and Snort, count what they ask for, or list what they may say.
#[derive(Debug, Subcommand)]
pub enum RulesCommand {
    /// Read rule files and name each rule that is refused, with its place and reason; exit code 1 if there is one.
    Check(RuleFiles),
    /// Count rules by action, protocol, buffer and keyword.
    Stats(RuleFiles),
    /// List all keywords of rules, with their values and help.
    Keywords {
        /// Print a JSON object.
        #[arg(short, long)]
        json: bool,
    },
}

/// Rules that look at the flows of a run.
#[derive(Clone, Debug, Args)]
pub struct RuleOptions {
    /// Look at flows with the rules of Suricata or Snort in a file, or in the files *.rules of a directory. May be repeated. Their
    /// alerts are records of the table `alert`, which logs have: --log eve,fast.
    #[arg(short = 'S', long = "rules", value_name = "PATH", action = clap::ArgAction::Append, help_heading = "Rules")]
    pub rules: Vec<PathBuf>,
    /// Set a variable of addresses or ports of rules, e.g. `HOME_NET=[10.0.0.0/8]`. May be repeated.
    #[arg(
        long,
        value_name = "NAME=VALUE",
        requires = "rules",
        help_heading = "Rules",
        hide_short_help = true
    )]
    pub rule_var: Vec<String>,
    /// Give alerts the payload in which their rule matched, at most 4 KiB, and the packet at which it did.
    #[arg(long, requires = "rules", help_heading = "Rules", hide_short_help = true)]
    pub alert_payload: bool,
    /// Follow the thresholds of the user (threshold.config): `suppress`, `threshold`, `event_filter` and `rate_filter`.
    #[arg(long, value_name = "FILE", requires = "rules", help_heading = "Rules", hide_short_help = true)]
    pub threshold_config: Option<PathBuf>,
}

/// Rule files, and how they are read.
#[derive(Debug, Args)]
pub struct RuleFiles {
    /// Rule files, or directories: of these all files `*.rules`.
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Set a variable of addresses or ports, e.g. `HOME_NET=[10.0.0.0/8]`.
    #[arg(long, value_name = "NAME=VALUE")]
    pub rule_var: Vec<String>,
    /// Read the thresholds of the user (threshold.config).
    #[arg(long, value_name = "FILE")]
    pub threshold_config: Option<PathBuf>,
    /// Read also rules that a `#` switches off.
    #[arg(long)]
    pub all: bool,
    /// Print a JSON object.
    #[arg(short, long)]
    pub json: bool,
}
