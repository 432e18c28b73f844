//! Answers as tables: CSV or NDJSON instead of one JSON object, with `format=csv` or `format=ndjson`.

use crate::serve::failure::Failure;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};
use weir_output::csv::cell;

/// Routes whose answers have rows.
pub static TABLES: &[&str] = &[
    "/api/v1/alerts",
    "/api/v1/distinct",
    "/api/v1/events",
    "/api/v1/findings",
    "/api/v1/flows",
    "/api/v1/new",
    "/api/v1/query",
    "/api/v1/records/{table}",
    "/api/v1/series/data",
    "/api/v1/top",
];

/// Those of them that write their rows in the format themselves, while they read them.
pub static STREAMED: &[&str] = &["/api/v1/flows", "/api/v1/records/{table}"];

/// The header, or trailer, with what a table leaves out.
pub const PARTIAL: &str = "x-weir-partial";

/// The parameter of the format.
pub const PARAMETER: &str = "format";

/// A form of a table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Format {
    /// A line of names, then a line for each row (RFC 4180).
    Csv,
    /// A JSON object for each row, on a line.
    NdJson,
}

impl Format {
    /// Every form with its name.
    pub const ALL: [(&'static str, Format); 2] = [("csv", Format::Csv), ("ndjson", Format::NdJson)];

    /// The media type.
    pub fn media(self) -> &'static str {
        match self {
            Format::Csv => "text/csv; charset=utf-8",
            Format::NdJson => "application/x-ndjson",
        }
    }

    /// Writes the line of names, if the form has one.
    pub fn push_names(self, out: &mut Vec<u8>, names: &[String]) {
        if self == Format::Csv {
            let names: Vec<Value> = names.iter().map(|name| Value::from(name.as_str())).collect();
            line(out, names.iter());
        }
    }

    /// Writes the line of a row; `names` are the columns of CSV.
    pub fn push_row(self, out: &mut Vec<u8>, names: &[String], row: &Map<String, Value>) {
        match self {
            Format::NdJson => {
                out.extend(serde_json::to_vec(row).unwrap_or_default());
                out.push(b'\n');
            }
            Format::Csv => line(out, names.iter().map(|name| row.get(name).unwrap_or(&Value::Null))),
        }
    }

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, format)| *format == self).map_or("", |(name, _)| name)
    }
}

/// The format that a query of an address asks for; `None` for an answer in JSON.
pub fn asked(query: &str) -> Result<Option<Format>, Failure> {
    let mut asked = None;
    for pair in query.split('&') {
        let Some(name) = pair.strip_prefix(PARAMETER).and_then(|rest| rest.strip_prefix('=')) else {
            continue;
        };
        asked = match name {
            "json" => None,
            name => match Format::ALL.iter().find(|(known, _)| *known == name) {
                Some((_, format)) => Some(*format),
                None => {
                    let text = format!("invalid format {name:?}");
                    return Err(Failure::question(text, "expected `csv`, `ndjson` or `json`"));
                }
            },
        };
    }
    Ok(asked)
}

/// Answers a request of a route of [`TABLES`] in the format that it asks for.
pub async fn answer(request: Request, next: Next) -> Response {
    let format = match asked(request.uri().query().unwrap_or_default()) {
        Ok(None) => return next.run(request).await,
        Ok(Some(format)) => format,
        Err(failure) => return failure.into_response(),
    };
    let path = request.uri().path();
    let name = path.rsplit('/').next().unwrap_or_default();
    let file: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    let response = next.run(request).await;
    if !response.status().is_success() {
        return response;
    }
    // The answer is in memory already: its size is limited by the number of rows.
    let Ok(bytes) = to_bytes(response.into_body(), usize::MAX).await else { return unanswered() };
    // All connections wait on this thread.
    let written = tokio::task::spawn_blocking(move || {
        let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let table = Table::of(answer);
        (table.left_out.clone(), table.write(format))
    });
    let Ok((left_out, text)) = written.await else { return unanswered() };
    let mut response = Body::from(text).into_response();
    let headers = response.headers_mut();
    set_headers(headers, format, &file, left_out.as_deref());
    response
}

/// Sets the headers of a table: its type, the name of its file, and what it leaves out.
pub fn set_headers(headers: &mut HeaderMap, format: Format, file: &str, left_out: Option<&str>) {
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(format.media()));
    let disposition = format!("attachment; filename=\"weir-{file}.{}\"", format.name());
    let texts = [(header::CONTENT_DISPOSITION.as_str(), Some(disposition.as_str())), (PARTIAL, left_out)];
    for (name, text) in texts {
        if let Some(value) = text.and_then(|text| HeaderValue::from_str(text).ok()) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}

fn unanswered() -> Response {
    Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "the answer could not be written as a table")
        .into_response()
}

/// Says that a table has only `count` of the rows that match.
pub fn cut(count: u64, matched: Option<u64>) -> Option<String> {
    let matched = matched.filter(|matched| *matched > count)?;
    Some(format!("{count} of {matched} rows; `limit` and `offset` give the others"))
}

/// Rows with the same columns.
struct Table {
    names: Vec<String>,
    rows: Vec<Map<String, Value>>,
    /// What the rows leave out.
    left_out: Option<String>,
}

impl Table {
    /// The rows of an answer: those of `columns`, objects in `rows` or `events`, or the points of series.
    fn of(answer: Value) -> Self {
        let Value::Object(mut answer) = answer else { return Self::new(Vec::new(), None) };
        let matched = answer.get("matched").and_then(Value::as_u64);
        let partial = answer.get("partial").and_then(Value::as_str).map(str::to_owned);
        let rows = match (answer.remove("columns"), answer.remove("times"), answer.remove("series")) {
            (Some(Value::Array(columns)), ..) => of_columns(&columns, answer.remove("rows")),
            (_, Some(Value::Array(times)), Some(Value::Array(series))) => of_series(times, &series),
            _ => {
                let rows = answer.remove("rows").or_else(|| answer.remove("events"));
                let Some(Value::Array(rows)) = rows else { return Self::new(Vec::new(), partial) };
                rows.into_iter().map(flat).collect()
            }
        };
        let count = rows.len() as u64;
        Self::new(rows, partial.or_else(|| cut(count, matched)))
    }

    fn new(rows: Vec<Map<String, Value>>, left_out: Option<String>) -> Self {
        let mut names: Vec<String> = Vec::new();
        for row in &rows {
            // Rows of one kind have their names in one order; a new name stands after the one before it.
            let mut at = 0;
            for name in row.keys() {
                at = match names.get(at..).and_then(|rest| rest.iter().position(|known| known == name)) {
                    Some(place) => at + place + 1,
                    None if names.contains(name) => at,
                    None => {
                        names.insert(at, name.clone());
                        at + 1
                    }
                };
            }
        }
        Self { names, rows, left_out }
    }

    fn write(&self, format: Format) -> Vec<u8> {
        let mut out = Vec::new();
        format.push_names(&mut out, &self.names);
        self.rows.iter().for_each(|row| format.push_row(&mut out, &self.names, row));
        out
    }
}

fn line<'v>(out: &mut Vec<u8>, values: impl Iterator<Item = &'v Value>) {
    for (at, value) in values.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        match value {
            Value::Null => {}
            Value::Number(number) => out.extend(number.to_string().bytes()),
            value => cell(out, &text(value)),
        }
    }
    out.extend(b"\r\n");
}

/// A value as text; those of a list with commas between them.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(values) if !values.iter().any(Value::is_object) => {
            values.iter().map(text).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

/// A row without objects and pairs in it: the members of `values` are columns, and the packets and bytes of a flow are one
/// column for each direction, named as its fields.
pub fn flat(row: Value) -> Map<String, Value> {
    let Value::Object(row) = row else { return Map::new() };
    let mut flat = Map::new();
    for (name, value) in row {
        match (name.as_str(), value) {
            ("values", Value::Object(values)) => flat.extend(values),
            (_, Value::Object(members)) => {
                flat.extend(members.into_iter().map(|(member, value)| (format!("{name}.{member}"), value)));
            }
            ("packets" | "bytes", Value::Array(pair)) => {
                let directions = ["sent", "received"].map(|direction| format!("{direction}_{name}"));
                flat.extend(directions.into_iter().zip(pair));
            }
            (_, value) => {
                flat.insert(name, value);
            }
        }
    }
    flat
}

/// Rows of cells under named columns; a name that occurs again has its number after it.
fn of_columns(columns: &[Value], rows: Option<Value>) -> Vec<Map<String, Value>> {
    let mut names: Vec<String> = Vec::new();
    for column in columns {
        let name = column.get("name").and_then(Value::as_str).unwrap_or_default();
        let mut unique = name.to_owned();
        for number in 2.. {
            if !names.contains(&unique) {
                break;
            }
            unique = format!("{name}_{number}");
        }
        names.push(unique);
    }
    let Some(Value::Array(rows)) = rows else { return Vec::new() };
    let row = |cells: Value| match cells {
        Value::Array(cells) => names.iter().cloned().zip(cells).collect(),
        _ => Map::new(),
    };
    rows.into_iter().map(row).collect()
}

/// The averages of series, a row for each time.
fn of_series(times: Vec<Value>, series: &[Value]) -> Vec<Map<String, Value>> {
    let row = |(at, time): (usize, Value)| {
        let mut row = Map::new();
        row.insert("time".to_owned(), time);
        for one in series {
            let id = one.get("id").and_then(Value::as_str).unwrap_or_default();
            let value = one.get("avg").and_then(|values| values.get(at)).cloned();
            row.insert(id.to_owned(), value.unwrap_or_default());
        }
        row
    };
    times.into_iter().enumerate().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn csv(answer: Value) -> String {
        String::from_utf8(Table::of(answer).write(Format::Csv)).unwrap()
    }

    #[test]
    fn rows_of_flows_records_queries_and_series_are_tables() {
        let flows = json!({"rows": [
            {"uid": "C1", "packets": [3, 4], "bytes": [30, 40], "service": null},
            {"uid": "C2", "packets": [1, 0], "bytes": [60, 0], "service": "dns"},
        ], "matched": 2});
        let expected = "uid,sent_packets,received_packets,sent_bytes,received_bytes,service\r\nC1,3,4,30,40,\r\n\
                        C2,1,0,60,0,dns\r\n";
        assert_eq!(csv(flows), expected);
        let records = json!({"table": "dns", "rows": [
            {"time": 1.5, "values": {"query": "a", "answers": ["192.0.2.1", "b"]}},
            {"time": 2, "values": {"query": "=cmd|' /C calc'!A0", "code": 3, "answers": []}},
        ]});
        let expected =
            "time,query,code,answers\r\n1.5,a,,\"192.0.2.1, b\"\r\n2,\"'=cmd|' /C calc'!A0\",3,\r\n";
        assert_eq!(csv(records), expected);
        let query = json!({"columns": [{"name": "source", "unit": ""}, {"name": "port", "unit": ""}, {"name": "port", "unit": ""}],
            "rows": [["10.0.0.1", 1, 2]], "total": [null, 1, 2]});
        assert_eq!(csv(query), "source,port,port_2\r\n10.0.0.1,1,2\r\n");
        let series = json!({"times": [0, 60], "series": [{"id": "ledger/caught", "avg": [1.0, null]}]});
        assert_eq!(csv(series), "time,ledger/caught\r\n0,1.0\r\n60,\r\n");
        assert_eq!(csv(json!([])), "\r\n");
    }

    #[test]
    fn lines_of_json_are_rows_and_what_is_left_out_is_stated() {
        let table = Table::of(json!({"rows": [{"key": {"address": "::1"}, "spark": [1, 2]}], "matched": 7}));
        let text = String::from_utf8(table.write(Format::NdJson)).unwrap();
        assert_eq!(text, "{\"key.address\":\"::1\",\"spark\":[1,2]}\n");
        assert_eq!(table.left_out.as_deref(), Some("1 of 7 rows; `limit` and `offset` give the others"));
    }

    #[test]
    fn formats_are_parsed() {
        assert_eq!(asked("filter=format%3Dcsv").unwrap(), None);
        assert_eq!(asked("a=b&format=csv").unwrap(), Some(Format::Csv));
        assert_eq!(asked("format=ndjson&x=").unwrap(), Some(Format::NdJson));
        assert_eq!(asked("format=json").unwrap(), None);
        assert!(asked("format=xml").is_err());
    }
}
