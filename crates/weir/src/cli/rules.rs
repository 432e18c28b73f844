//! Rules: `weir rules`.

use super::checksum::Checksum;
use super::values::bytes;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Check rules of Suricata and Snort, count what they ask for, explain one or try it on captures, measure what they cost, merge them into one file, or list what they may say.
#[derive(Debug, Subcommand)]
pub enum RulesCommand {
    /// Read rule files and name each rule that is refused, with its place and reason; exit code 1 if there is one.
    Check(RuleFiles),
    /// Count rules by action, protocol, buffer and keyword.
    Stats(RuleFiles),
    /// Explain a rule: what each option means, by which literal it is found and where, or why it is not in force.
    Explain {
        /// The sid of the rule, or its gid and sid: 1:2019401.
        sid: String,
        #[command(flatten)]
        files: RuleFiles,
    },
    /// Try one rule on captures, and say for each packet, stream and transaction what of the rule failed first.
    Test {
        /// The sid of the rule, or its gid and sid: 1:2019401.
        sid: String,
        #[command(flatten)]
        captures: RuleCaptures,
    },
    /// Measure what each rule costs on captures.
    Profile(RuleCaptures),
    /// Count pairs of bytes in the payload of captures, by which rules are found by their rarest literal: a file for --rule-rarity.
    Train {
        /// Capture files or directories, `-` for standard input.
        #[arg(required = true, value_name = "CAPTURE")]
        captures: Vec<PathBuf>,
        /// The file.
        #[arg(short, long, required = true, value_name = "FILE")]
        output: PathBuf,
    },
    /// Merge rules of files, directories and archives into one file, as suricata-update does, and print what has changed.
    Update(RuleUpdate),
    /// List all keywords of rules, with their values and help.
    Keywords {
        /// Print a JSON object.
        #[arg(short, long)]
        json: bool,
    },
}

/// Rules that look at the flows of a run.
#[derive(Clone, Debug, Default, Args)]
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
    /// Read Suricata's configuration (suricata.yaml): variables, what is looked at of streams and bodies, and what becomes of
    /// verdicts. Keys without a counterpart are named once.
    #[arg(long, value_name = "FILE", requires = "rules", help_heading = "Rules", hide_short_help = true)]
    pub suricata_config: Option<PathBuf>,
    /// Set a key of Suricata's configuration, e.g. `stream.midstream=true`. May be repeated.
    #[arg(
        long,
        value_name = "KEY=VALUE",
        requires = "rules",
        help_heading = "Rules",
        hide_short_help = true
    )]
    pub suricata_set: Vec<String>,
    /// Judge as if packets were dropped: alerts of `drop` and `reject` have the action `blocked`, and later packets of a dropped flow are
    /// not looked at by rules. No packet is touched.
    #[arg(long, requires = "rules", help_heading = "Rules", hide_short_help = true)]
    pub simulate_ips: bool,
    /// Read the names of categories of reputations, which `iprep` names: lines `NUMBER,NAME,DESCRIPTION`.
    #[arg(long, value_name = "FILE", requires = "rules", help_heading = "Rules", hide_short_help = true)]
    pub rule_categories: Option<PathBuf>,
    /// Read reputations of addresses for `iprep`: lines `ADDRESS,CATEGORY,SCORE`. May be repeated.
    #[arg(
        long,
        value_name = "FILE",
        requires = "rule_categories",
        help_heading = "Rules",
        hide_short_help = true
    )]
    pub rule_reputation: Vec<PathBuf>,
    /// Read the countries of addresses for `geoip` from a database in the MaxMind DB format.
    #[arg(long, value_name = "FILE", requires = "rules", help_heading = "Rules", hide_short_help = true)]
    pub rule_geoip: Option<PathBuf>,
    /// Find rules by the literals that are rarest by this file of `weir rules train`, in place of ordinary traffic.
    #[arg(long, value_name = "FILE", requires = "rules", help_heading = "Rules", hide_short_help = true)]
    pub rule_rarity: Option<PathBuf>,
    /// Verify each rule wherever its buffers are, and search for no literal: slow, with equal alerts.
    #[arg(long, requires = "rules", help_heading = "Rules", hide_short_help = true)]
    pub no_prefilter: bool,
}

/// Captures that rules look at.
#[derive(Debug, Args)]
pub struct RuleCaptures {
    /// Capture files or directories, `-` for standard input.
    #[arg(required = true, value_name = "CAPTURE")]
    pub captures: Vec<PathBuf>,
    #[command(flatten)]
    pub rules: RuleOptions,
    /// Verify checksums, as in a run.
    #[arg(long, value_enum, value_name = "MODE", default_value_t = Checksum::Auto)]
    pub checksum: Checksum,
    /// Print a JSON object.
    #[arg(short, long)]
    pub json: bool,
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
    /// Read the names of categories of reputations, which `iprep` names: lines `NUMBER,NAME,DESCRIPTION`.
    #[arg(long, value_name = "FILE")]
    pub rule_categories: Option<PathBuf>,
    /// Read reputations of addresses for `iprep`: lines `ADDRESS,CATEGORY,SCORE`. May be repeated.
    #[arg(long, value_name = "FILE", requires = "rule_categories")]
    pub rule_reputation: Vec<PathBuf>,
    /// Read the countries of addresses for `geoip` from a database in the MaxMind DB format.
    #[arg(long, value_name = "FILE")]
    pub rule_geoip: Option<PathBuf>,
    /// Read also rules that a `#` switches off.
    #[arg(long)]
    pub all: bool,
    /// Print a JSON object.
    #[arg(short, long)]
    pub json: bool,
}

/// Sources of rules, the file that they become, and what is done with them on the way.
#[derive(Debug, Args)]
pub struct RuleUpdate {
    /// Rule files, directories with files `*.rules`, and archives (.tar.gz, .tar) with such.
    #[arg(required_unless_present = "local", value_name = "SOURCE")]
    pub sources: Vec<PathBuf>,
    /// The merged rule file, or a directory for `weir.rules`. Its classification.config and the like are written beside it.
    #[arg(short, long, required = true, value_name = "FILE")]
    pub output: PathBuf,
    /// Further rules: a file or a directory. May be repeated.
    #[arg(long, value_name = "PATH")]
    pub local: Vec<PathBuf>,
    /// Switch off the rules that lines of a file name: sids, `group:NAME`, `re:EXPRESSION`, `metadata: KEY VALUE`. May be repeated.
    #[arg(long, value_name = "FILE")]
    pub disable_conf: Vec<PathBuf>,
    /// Switch on the rules that lines of a file name. May be repeated.
    #[arg(long, value_name = "FILE")]
    pub enable_conf: Vec<PathBuf>,
    /// Replace parts of rules by lines `RULES "FROM" "TO"`, FROM being a regular expression. May be repeated.
    #[arg(long, value_name = "FILE")]
    pub modify_conf: Vec<PathBuf>,
    /// Make `drop` of `alert` in the rules that lines of a file name. May be repeated.
    #[arg(long, value_name = "FILE")]
    pub drop_conf: Vec<PathBuf>,
    /// Leave out files of directories and archives with such a name. May be repeated; "" leaves out none.
    #[arg(long, value_name = "PATTERN", default_value = "*deleted.rules")]
    pub ignore: Vec<String>,
    /// Maximum size of all sources, unpacked.
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = bytes)]
    pub max_unpacked: u64,
    /// Set a variable of addresses or ports for the check of the merged rules, e.g. `HOME_NET=[10.0.0.0/8]`.
    #[arg(long, value_name = "NAME=VALUE")]
    pub rule_var: Vec<String>,
    /// Write nothing, and print what would change.
    #[arg(long)]
    pub dry_run: bool,
    /// Print a JSON object, with the sids.
    #[arg(short, long)]
    pub json: bool,
}
