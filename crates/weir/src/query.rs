//! `weir query`: runs a query on a store, and prints the answer as a table, JSON or CSV.

use crate::cli;
use crate::database;
use crate::exit::{Exit, complain};
use crate::names::SystemNames;
use crate::times;
use serde_json::Value;
use std::path::Path;
use weir_api::web::{Answered, Column};
use weir_filter::Options;
use weir_output::aligned;
use weir_output::csv::cell;
use weir_output::figures::{bytes, count, decimal, printable};
use weir_store::StoreError;
use weir_store::fields::Lists;
use weir_store::moment::Moments;
use weir_store::query::{Asking, QueryError, Question, states};

/// Runs the command.
pub fn query(options: &cli::Query) -> Exit {
    if options.parquet.is_some() && cfg!(not(feature = "parquet")) {
        return complain(
            Exit::Usage,
            "this program is built without the feature `parquet`, which --parquet needs; packages have it: \
             make package, or cargo build --release -p weir --features parquet",
        );
    }
    let text = options.question.join(" ");
    let zone = match times::zone(options.tz.as_deref()) {
        Ok(zone) => zone,
        Err(error) => return complain(Exit::Usage, error),
    };
    // Times count back from the end of what is stored. A question that is wrong is a mistake before a store that is not there.
    let store = database::read(&options.dir, None);
    let now = store.as_ref().ok().and_then(|store| store.extent().ok().flatten()).map_or(0, |(_, last)| last);
    let moments = Moments { zone, now };
    let span = match times::of(&options.times, &moments) {
        Ok(span) => span,
        Err(error) => return complain(Exit::Usage, error),
    };
    let asking = Asking {
        options: Options { resolver: Some(&SystemNames), ..Options::default() },
        moments,
        span,
        lists: Lists::All(Path::new("")),
        ..Asking::default()
    };
    let question = match Question::parse(&text, &asking) {
        Ok(question) => question,
        Err(error) => return complain(Exit::Usage, place(&text, &error)),
    };
    #[cfg(feature = "parquet")]
    if let Some(path) = &options.parquet {
        return export(path, &options.dir, question);
    }
    let answer = store.and_then(|store| question.ask(&*store));
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return complain(exit_of(&error), error),
    };
    let text = match (options.json, options.csv) {
        (true, _) => serde_json::to_string(&answer).unwrap_or_default() + "\n",
        (_, true) => csv(&answer),
        _ => table(&answer) + &states(&answer).map(|legend| legend + "\n").unwrap_or_default(),
    };
    print!("{text}");
    if !options.json {
        for note in answer.notes.iter().chain(&answer.partial) {
            eprintln!("weir: {note}");
        }
    }
    if answer.partial.is_some() { Exit::Partial } else { Exit::Good }
}

/// Writes a Parquet file: flows and records without a limit are written one after the other, other answers at once.
#[cfg(feature = "parquet")]
fn export(path: &Path, folder: &Path, mut question: Question) -> Exit {
    let store = match database::read_patiently(folder) {
        Ok(store) => store,
        Err(error) => return complain(exit_of(&error), error),
    };
    let partial = if let Some(rows) = question.rows() {
        match weir_store::parquet::export(path, &*store, &rows) {
            Ok(exported) => exported.partial,
            Err(error) => return complain(Exit::Output, error),
        }
    } else {
        question.unlimited();
        let answer = match question.ask(&*store) {
            Ok(answer) => answer,
            Err(error) => return complain(exit_of(&error), error),
        };
        if let Err(error) = weir_output::parquet::write(path, &answer) {
            return complain(Exit::Output, error);
        }
        answer.partial
    };
    match partial {
        Some(note) => complain(Exit::Partial, note),
        None => Exit::Good,
    }
}

/// The exit code of a store's error.
pub fn exit_of(error: &StoreError) -> Exit {
    match error {
        StoreError::Unknown(_) => Exit::Usage,
        _ => Exit::Unreadable,
    }
}

/// The query with the position of its error marked below.
fn place(text: &str, error: &QueryError) -> String {
    let before = text.get(..error.offset).unwrap_or(text).chars().count();
    let wrong =
        text.get(error.offset..error.offset + error.length).unwrap_or_default().chars().count().max(1);
    format!("{error}\n  {}\n  {:before$}{:^<wrong$}", printable(text), "", "")
}

fn for_people(value: &Value, column: &Column) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => printable(text),
        Value::Number(number) => match (number.as_u64(), column.unit.as_str()) {
            (Some(n), "bytes") if column.name != "error" => bytes(n),
            (Some(n), "packets" | "flows" | "records") => count(n),
            (Some(n), _) => n.to_string(),
            (None, _) => decimal(number.as_f64().unwrap_or_default()),
        },
        other => printable(&other.to_string()),
    }
}

/// A table for display: columns as wide as their content, numbers right-aligned.
fn table(answer: &Answered) -> String {
    let head = answer.columns.iter().map(|column| match column.unit.as_str() {
        "" => column.name.clone(),
        unit if unit == column.name => column.name.clone(),
        unit => format!("{} ({unit})", column.name),
    });
    let cells = |row: &Vec<Value>| -> Vec<String> {
        let mut cells: Vec<String> =
            row.iter().zip(&answer.columns).map(|(value, column)| for_people(value, column)).collect();
        // A key without a value is a row all the same.
        if let Some(first) = cells.first_mut().filter(|first| first.is_empty()) {
            first.push('-');
        }
        cells
    };
    // Sums stand below, with their name in the first column.
    let sums = [("other", &answer.other), ("total", &answer.total)].into_iter().filter_map(|(name, row)| {
        let mut cells = cells(row.as_ref()?);
        *cells.first_mut()? = name.to_owned();
        Some(cells)
    });
    let sums = sums.filter(|_| !answer.rows.is_empty());
    let head: Vec<String> = head.collect();
    let rows: Vec<Vec<String>> = answer.rows.iter().map(cells).chain(sums).collect();
    let is_number = |at: usize| {
        let mut values =
            answer.rows.iter().filter_map(|row| row.get(at)).filter(|value| !value.is_null()).peekable();
        values.peek().is_some() && values.all(Value::is_number)
    };
    let is_number: Vec<bool> = (0..head.len()).map(is_number).collect();
    match aligned(&head, &rows, &is_number) {
        text if text.is_empty() => "nothing\n".to_owned(),
        text => text,
    }
}

/// CSV: a line of names, then a line for each row (RFC 4180).
fn csv(answer: &Answered) -> String {
    let mut out = Vec::new();
    for (at, column) in answer.columns.iter().enumerate() {
        next_cell(&mut out, at);
        cell(&mut out, &column.name);
    }
    out.extend(b"\r\n");
    for row in &answer.rows {
        for (at, value) in row.iter().enumerate() {
            next_cell(&mut out, at);
            match value {
                Value::Null => {}
                Value::String(text) => cell(&mut out, text),
                Value::Number(number) => out.extend(number.to_string().bytes()),
                other => cell(&mut out, &other.to_string()),
            }
        }
        out.extend(b"\r\n");
    }
    String::from_utf8(out).unwrap_or_default()
}

fn next_cell(out: &mut Vec<u8>, at: usize) {
    if at > 0 {
        out.push(b',');
    }
}
