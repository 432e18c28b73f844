//! Stores: `weir query` and `weir store`.

use super::times::{TimeOptions, ZonedTimeOptions};
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Query a store: a query on one line, or as a JSON object.
#[derive(Debug, Args)]
#[command(after_help = QUESTIONS)]
pub struct Query {
    /// The query.
    #[arg(required = true, num_args = 1..)]
    pub question: Vec<String>,
    /// Directory of the store.
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Print a JSON object.
    #[arg(short, long, conflicts_with = "csv")]
    pub json: bool,
    /// Print CSV.
    #[arg(long)]
    pub csv: bool,
    /// Write a Parquet file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "csv"])]
    pub parquet: Option<PathBuf>,
    /// Read and show times in this zone (e.g. Europe/Berlin) instead of UTC.
    #[arg(long, value_name = "ZONE")]
    pub tz: Option<String>,
    #[command(flatten)]
    pub times: TimeOptions,
}

const QUESTIONS: &str = "\
Questions: a subject, then clauses in any order; `where` takes the rest of the line.
  top KEY[, KEY]             the heaviest: sender, receiver, client, server, host, service, protocol,
                             pair, talker, flow, vlan, state, application, name, or a field such as
                             tls.server_name or flow.state
  count | count TABLE|flows by KEY[, KEY]
  quantiles FIELD by KEY     flow.duration, dns.rtt, stream.first_byte; quantiles series NAME
  flows | flow UID | records TABLE | list NAME | series NAME | distinct | new
Clauses:
  by bytes|packets|flows|records|FIELD|distinct KEY (top)    limit 20    order -bytes (flows)
  since 24h  since yesterday  since 3 days ago 14:05  until 1h  in 2026-03  at today 14:05
  points 24 | every 1h       values over time        compare | compare 1w    with the time before
  show FIELD, FIELD          text WORD (records)     where EXPR
EXPR is pcap-filter(7), `src` being the sender of packets, with tests of fields:
  host 10.0.0.7 and dns.rcode_name = NXDOMAIN       tls.server_name under example.org
  http.status_code in (500, 503) and not http.uri ~ \"^/health\"      flow.bytes > 10M";

/// Show the state of a store, or list or export its series.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Show size, maximum size, and retention of a store.
    State {
        /// Directory of the store.
        #[arg(short, long, value_name = "DIR", default_value = ".")]
        dir: PathBuf,
        /// Print a JSON object.
        #[arg(short, long)]
        json: bool,
    },
    /// List all series with unit and meaning.
    Series {
        /// Directory of the store.
        #[arg(short, long, value_name = "DIR", default_value = ".")]
        dir: PathBuf,
    },
    /// Export series for other tools.
    Export {
        /// Directory of the store.
        #[arg(short, long, value_name = "DIR", default_value = ".")]
        dir: PathBuf,
        /// Directory for one file per series, readable by `rrdtool restore`.
        #[arg(long, value_name = "DIR", required_unless_present = "prometheus")]
        rrd: Option<PathBuf>,
        /// Print OpenMetrics text with times, for `promtool tsdb create-blocks-from openmetrics`.
        #[arg(long, conflicts_with = "rrd")]
        prometheus: bool,
        /// Export only these series.
        #[arg(short, long, value_name = "NAME")]
        series: Vec<String>,
        #[command(flatten)]
        times: Box<ZonedTimeOptions>,
    },
}
