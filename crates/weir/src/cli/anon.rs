//! Anonymisation, of a run and of a capture.

use super::times::ZonedTimeOptions;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Anonymisation of a run.
#[derive(Debug, Args)]
pub struct AnonRun {
    /// Map addresses and replace names by pseudonyms in everything that is printed and written, packets of -w included.
    #[arg(
        id = "anonymisation",
        long = "anon",
        value_name = "MODE",
        value_enum,
        help_heading = "Anonymisation",
        hide_short_help = true
    )]
    pub mode: Option<AnonMode>,

    #[command(flatten)]
    pub how: AnonHow,
}

/// Address mapping.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum AnonMode {
    /// Replace all addresses by 0.0.0.0 or ::.
    Nullip,
    /// Prefix-preserving and random, different in each run.
    Table,
    /// Prefix-preserving with a key: Crypto-PAn. Equal in every run and at every site with that key.
    Cryptopan,
    /// Prefix-preserving with a key: ipcrypt-pfx of draft-denis-ipcrypt.
    Ipcrypt,
}

/// Treatment of payload.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum AnonPayload {
    /// Cut packets after the transport header. DNS messages are rewritten.
    Cut,
    /// Set payload bytes to 0. DNS messages are rewritten.
    Blank,
    /// Keep payload, except DNS messages and lines of known text protocols, which are rewritten. Names elsewhere in the
    /// payload remain.
    Keep,
}

/// The options of anonymisation that a run and `weir anon` share.
#[derive(Debug, Args)]
pub struct AnonHow {
    /// Key of cryptopan and ipcrypt: a file of 32 bytes, or of 64 hexadecimal digits.
    #[arg(long, value_name = "FILE", help_heading = "Anonymisation", hide_short_help = true)]
    pub key_file: Option<PathBuf>,

    /// Treatment of payload in written packets [default: blank].
    #[arg(long, value_enum, value_name = "WHAT", help_heading = "Anonymisation", hide_short_help = true)]
    pub payload: Option<AnonPayload>,

    /// Shift all times by this many seconds.
    #[arg(
        long,
        value_name = "SECONDS",
        allow_hyphen_values = true,
        help_heading = "Anonymisation",
        hide_short_help = true
    )]
    pub shift: Option<f64>,

    /// Treatment of values by class (e.g. name=keep,content=drop). Classes: name, address, url, user, mail, secret,
    /// content, fingerprint. Treatments: keep, pseudonym, drop, blank. Default: drop for secret and content, pseudonym
    /// for the others.
    #[arg(long, value_name = "CLASS=WHAT,...", help_heading = "Anonymisation", hide_short_help = true)]
    pub anon_policy: Option<String>,

    /// Treatment of one field, in the notation of MAPI's ANONYMIZE: PROTOCOL,FIELD,FUNCTION and its arguments (e.g.
    /// IP,TTL,ZERO or HTTP,HOST,HASHED,SHA_2,STRIP_REST). May be repeated.
    #[arg(long, value_name = "RULE", help_heading = "Anonymisation", hide_short_help = true)]
    pub anon_field: Vec<String>,

    /// Keep the vendor half of hardware addresses.
    #[arg(long, help_heading = "Anonymisation", hide_short_help = true)]
    pub keep_vendors: bool,

    /// Replace top-level domains by pseudonyms too.
    #[arg(long, help_heading = "Anonymisation", hide_short_help = true)]
    pub hide_top_domains: bool,
}

impl AnonHow {
    /// The first given option.
    pub fn given(&self) -> Option<&'static str> {
        let all = [
            (self.key_file.is_some(), "--key-file"),
            (self.payload.is_some(), "--payload"),
            (self.shift.is_some(), "--shift"),
            (self.anon_policy.is_some(), "--anon-policy"),
            (!self.anon_field.is_empty(), "--anon-field"),
            (self.keep_vendors, "--keep-vendors"),
            (self.hide_top_domains, "--hide-top-domains"),
        ];
        all.into_iter().find(|(is_given, _)| *is_given).map(|(_, name)| name)
    }
}

/// Write an anonymised copy of a capture.
///
/// Addresses in headers are mapped, DNS messages are rewritten, hardware addresses get pseudonyms, and payload is
/// blanked unless --payload says otherwise. Correct checksums remain correct; wrong ones remain wrong.
#[derive(Debug, Args)]
pub struct Anon {
    /// The capture, `-` for standard input.
    #[arg(value_name = "IN")]
    pub input: PathBuf,

    /// Output file: pcapng, or classic pcap if the name ends in .pcap; compressed if it ends in .gz or .zst; `-` for
    /// standard output.
    #[arg(value_name = "OUT", required_unless_present = "audit_path")]
    pub output: Option<PathBuf>,

    /// Mode of written files, in octal [default: 600]; 640 lets the group read them. Directories get the matching search
    /// permission.
    #[arg(long = "file-mode", value_name = "MODE")]
    pub file_mode: Option<weir_files::Mode>,

    /// Address mapping.
    #[arg(long, value_name = "MODE", value_enum, default_value_t = AnonMode::Cryptopan, help_heading = "Anonymisation")]
    pub mode: AnonMode,

    #[command(flatten)]
    pub how: AnonHow,

    /// Search the output for every address and name of the capture; exit with 4 if one is found.
    #[arg(long)]
    pub audit: bool,

    /// Search these files and directories, such as logs of the capture, for its addresses, names, users and mail addresses,
    /// also in gzip and zstd files. May be repeated. OUT is then optional.
    #[arg(long, value_name = "PATH")]
    pub audit_path: Vec<PathBuf>,

    /// Print no report.
    #[arg(short, long)]
    pub quiet: bool,

    #[command(flatten)]
    pub times: ZonedTimeOptions,
}
