//! Parquet files (Apache Parquet format 2): answers to queries, and the log `parquet`.

mod answer;
mod columns;
pub(crate) mod log;
mod stored;

pub use answer::write;
pub use stored::{Exported, export};
