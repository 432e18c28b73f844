//! Parquet files (Apache Parquet format 2): answers to queries, and the log `parquet`.

mod answer;
pub mod columns;
pub mod log;

pub use answer::write;
