//! Pages: `weir open` and `weir serve`.

use super::run::RunOptions;
use clap::Args;
use std::net::IpAddr;
use std::path::PathBuf;

/// The default port of the pages.
pub const PORT: u16 = 8470;

/// Analyse a capture, print its summary, and serve its pages until Ctrl-C.
///
/// Takes all options of a summary. The last line is the address of the pages; no browser is started. The exit code is
/// that of the analysis.
#[derive(Debug, Args)]
pub struct Open {
    #[command(flatten)]
    pub run: RunOptions,

    #[command(flatten)]
    pub pages: Pages,

    /// Store the results and exit, without pages: `weir serve --store DIR` serves them later.
    #[arg(long, requires = "store", help_heading = "Pages")]
    pub no_wait: bool,
}

/// The port and the store of the pages.
#[derive(Debug, Args)]
pub struct Pages {
    /// Port of the pages [default: 8470; `weir open` uses the next free port].
    #[arg(long, value_name = "N", help_heading = "Pages", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,

    /// Store the results in a directory. Without it they go to a temporary one that is removed at the end.
    #[arg(long, value_name = "DIR", help_heading = "Pages")]
    pub store: Option<PathBuf>,
}

/// Monitor a link, store the results, and serve its pages.
///
/// Takes all options of a live run. Without interfaces, the pages of an existing store are served. On loopback every user
/// of the machine may look, and the user who started the program may download packets. Other addresses need TLS, and
/// users or tokens with rights: look, packets (download packets, see payload) and write (apply a configuration).
#[derive(Debug, Args)]
pub struct Serve {
    #[command(flatten)]
    pub run: RunOptions,

    #[command(flatten)]
    pub pages: Pages,

    /// Address of the pages [default: 127.0.0.1 and ::1]. Any other needs --tls-cert and --tls-key, and --user-file or
    /// --token-file.
    #[arg(long, value_name = "ADDRESS", help_heading = "Pages")]
    pub listen: Option<IpAddr>,

    /// Certificate of the pages (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "Pages")]
    pub tls_cert: Option<PathBuf>,

    /// Private key of the certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Pages")]
    pub tls_key: Option<PathBuf>,

    /// Tokens, a line each: `TOKEN NAME RIGHTS`, such as `... backup look,packets`. RIGHTS are look, packets (download
    /// packets, see payload) and write (apply a configuration). `TOKEN` alone has the right look. Only the owner may
    /// have access to the file (chmod 600).
    #[arg(long, value_name = "FILE", help_heading = "Pages")]
    pub token_file: Option<PathBuf>,

    /// Users, a line each: `NAME:RIGHTS:HASH`, as --hash-password prints, with rights as in --token-file. Only the
    /// owner may have access to the file (chmod 600).
    #[arg(long, value_name = "FILE", help_heading = "Pages")]
    pub user_file: Option<PathBuf>,

    /// Log downloads of packets, applied configurations and failed log-ins to this file, one JSON object a line,
    /// and to standard error; FILE.1 has the previous lines [default: access.log in the directory of --store].
    #[arg(long, value_name = "FILE", help_heading = "Pages")]
    pub access_log: Option<PathBuf>,

    /// Read a password from standard input, print its line for --user-file, and exit.
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "weir", help_heading = "Pages")]
    pub hash_password: Option<String>,
}
