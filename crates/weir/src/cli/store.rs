//! Stores: `weir query` and `weir store`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Query a store: a query on one line, or as a JSON object.
#[derive(Debug, Args)]
#[command(after_help = QUESTIONS)]
pub struct Query {
    /// The query.
    #[arg(required = true, num_args = 1..)]
    pub question: Vec<String>,
    /// The folder of the store.
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
}

const QUESTIONS: &str = "\
Query: a subject, then clauses in any order; `where` takes the rest of the line.
  top KEY      src, dst, talker, service, flow, protocol, pair, vlan, state, application, name
  list NAME    a list of the configuration
  flows | count | distinct | records TABLE | series NAME
Clauses:
  by bytes|packets|flows     since 24h     until 1h     in 2026-03     limit 20
  order -bytes (flows)       points 600 (series)        text WORD (records)
  where EXPR                 pcap-filter(7) over flows: `src` is the initiator";

/// Show the state of a store, or export its series.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Show size, maximum size, and retention of a store.
    State {
        /// The folder of the store.
        #[arg(short, long, value_name = "DIR", default_value = ".")]
        dir: PathBuf,
        /// Print a JSON object.
        #[arg(short, long)]
        json: bool,
    },
    /// List all series with unit and meaning.
    Series {
        /// The folder of the store.
        #[arg(short, long, value_name = "DIR", default_value = ".")]
        dir: PathBuf,
    },
    /// Export series for other tools.
    Export {
        /// The folder of the store.
        #[arg(short, long, value_name = "DIR", default_value = ".")]
        dir: PathBuf,
        /// Folder for one file per series, readable by `rrdtool restore`.
        #[arg(long, value_name = "DIR", required_unless_present = "prometheus")]
        rrd: Option<PathBuf>,
        /// Print OpenMetrics text with times, for `promtool tsdb create-blocks-from openmetrics`.
        #[arg(long, conflicts_with = "rrd")]
        prometheus: bool,
        /// Export only these series.
        #[arg(short, long, value_name = "NAME")]
        series: Vec<String>,
    },
}
