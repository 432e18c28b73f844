//! Logs of a subscription's own: the rows of the flows and records that reach the function.

use super::{Argument, Arguments, Function, FunctionSpec, InputKind, Memory};
use crate::Item;
use crate::target::{LogFormat, NamedLog, Target};
use std::borrow::Cow;
use std::sync::{Arc, LazyLock};
use weir_api::{Fold, Folded, Level, Reading, Schema, Shown, Table, TableColumn, TableRow};

/// Over flows.
pub(super) static LOG: FunctionSpec = FunctionSpec { levels: &[Level::Flow], ..SPEC };

/// Over records.
pub(super) static LOG_OF_RECORDS: FunctionSpec = FunctionSpec { levels: &[Level::Record], ..SPEC };

const SPEC: FunctionSpec = FunctionSpec {
    name: "log",
    help: "Writes what reaches it into a log of its own in the directory of logs: flows as NAME.ndjson or NAME.csv, records as NAME.ndjson or a file NAME.TABLE.csv for each table. Its reading is the number of rows.",
    arguments: &[
        Argument {
            name: "to",
            help: "The name of the log: letters, digits, hyphens and underscores, at most 64.",
            default: None,
        },
        Argument { name: "format", help: "The form of the rows: ndjson or csv.", default: Some("ndjson") },
    ],
    levels: &[Level::Flow, Level::Record],
    input: InputKind::Packets,
    memory: |arguments| named(arguments).map(|_| Memory { state: 1024, reading: 1024 }),
    judge: None,
    delivers: Some(|arguments, _| named(arguments).map(Target::Log)),
    identifies: false,
    build: |arguments| named(arguments).map(|_| Box::new(Rows::default()) as Box<dyn Function>),
};

/// The log of a call.
fn named(arguments: &Arguments<'_>) -> Result<NamedLog, String> {
    let name = arguments.name("to")?.into();
    Ok(NamedLog { name, format: arguments.choice("format", &LogFormat::ALL)? })
}

/// The number of rows, whose table has no keys.
static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    const COLUMNS: &[TableColumn] =
        &[TableColumn::new("rows", Fold::Sum, "rows", "Flows or records that reached it.")];
    Arc::new(Schema {
        name: Cow::Borrowed("logged"),
        keys: Cow::Borrowed(&[]),
        columns: Cow::Borrowed(COLUMNS),
        shown: Shown::Heaviest(1),
    })
});

/// The number of rows since the last reading.
#[derive(Default)]
pub(super) struct Rows(u64);

impl Function for Rows {
    fn item(&mut self, item: &Item<'_>) {
        self.0 += u64::from(matches!(item, Item::FlowEnd(..) | Item::Record(_)));
    }

    fn take(&mut self) -> Reading {
        let rows = match std::mem::take(&mut self.0) {
            0 => Vec::new(),
            rows => vec![TableRow { key: Vec::new(), values: vec![Folded::Sum(rows)], error: 0 }],
        };
        Reading::Table(Table::new(Arc::clone(&SCHEMA), 1, rows, 0))
    }
}
