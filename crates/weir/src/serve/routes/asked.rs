//! Parameters of requests, parsed strictly.

use crate::serve::app::Shared;
use crate::serve::failure::Failure;
use crate::serve::rights::{Client, Right};
use axum::extract::FromRequestParts;
use axum::extract::Query;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use weir_filter::FlowTest;
use weir_output::zone::Zone;
use weir_store::TimeRange;
use weir_store::moment::Moments;
use weir_store::query::Asking;

/// The query parameters of a request.
pub struct Ask<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Ask<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(asked)) => Ok(Ask(asked)),
            Err(rejection) => {
                let text = rejection.body_text();
                let text = text.trim_start_matches("Failed to deserialize query string: ");
                Err(Failure::question(plainly(text), "/api/openapi.json lists the parameters"))
            }
        }
    }
}

/// A message of the deserializer in the words of the other errors.
fn plainly(message: &str) -> String {
    if let Some(name) = message.strip_prefix("missing field ") {
        return format!("the parameter {name} is missing");
    }
    if let Some(name) = message.strip_prefix("duplicate field ") {
        return format!("the parameter {name} is given twice");
    }
    match message.split_once(": ") {
        Some((name, "invalid float literal")) => format!("the parameter `{name}` is not a number"),
        Some((name, reason)) if reason.contains("digit") || reason.contains("empty string") => {
            format!("the parameter `{name}` is not a whole number")
        }
        Some((name, reason)) if reason.contains("number too") => {
            format!("the parameter `{name}` is out of range")
        }
        _ => message.to_owned(),
    }
}

/// Whether what a mute hides is asked for, in place of the rest.
///
/// # Errors
///
/// The word is neither `yes` nor `no`.
pub fn is_muted(word: Option<&str>) -> Result<bool, Failure> {
    match word {
        None | Some("no") => Ok(false),
        Some("yes") => Ok(true),
        Some(_) => Err(Failure::question("invalid muted", "expected yes or no")),
    }
}

/// The latest valid time, in seconds since the epoch: its nanoseconds fit into 64 bits.
const LATEST: f64 = 18_446_744_073.0;

/// Converts a time range from seconds to nanoseconds.
///
/// # Errors
///
/// A time is out of range, or the end is before the start.
pub fn span(from: Option<f64>, to: Option<f64>) -> Result<TimeRange, Failure> {
    let time = |name: &str, value: Option<f64>| match value {
        None => Ok(None),
        Some(value) if (0.0..=LATEST).contains(&value) => {
            // Seconds and fraction are converted separately: a 64-bit float is not precise enough for the nanoseconds
            // of a present date.
            let fraction = (value.fract() * 1e9).round() as u64;
            Ok(Some(value.trunc() as u64 * 1_000_000_000 + fraction))
        }
        Some(value) => Err(Failure::question(
            format!("invalid {name}: {value}"),
            "expected a time in seconds since the epoch, such as 1750000000 or 1750000000.5",
        )),
    };
    let (from, to) = (time("from", from)?, time("to", to)?);
    if from.zip(to).is_some_and(|(from, to)| from > to) {
        return Err(Failure::question("the range ends before it starts", "`from` must not be after `to`"));
    }
    Ok(TimeRange { from, to })
}

/// Completes a time range by ends in the words of the query language; of a stretch of time, such as a day, its beginning.
///
/// # Errors
///
/// A time is not understood, an end is given twice, or the range is empty.
pub fn in_words(
    moments: &Moments,
    given: TimeRange,
    since: Option<&str>,
    until: Option<&str>,
) -> Result<TimeRange, Failure> {
    let end = |name: &str, given: Option<u64>, text: Option<&str>| match (given, text) {
        (given, None) => Ok(given),
        (Some(_), Some(_)) => {
            let error = format!("{name} is given twice");
            Err(Failure::question(error, "`from` or `since`, `to` or `until`"))
        }
        (None, Some(text)) => match moments.parse(text) {
            Ok(moment) => Ok(Some(moment.from)),
            Err(accepted) => Err(Failure::question(format!("{name}: {text:?} is not a time"), accepted)),
        },
    };
    let (from, to) = (end("since", given.from, since)?, end("until", given.to, until)?);
    if from.zip(to).is_some_and(|(from, to)| from >= to) {
        return Err(Failure::question("the end must be after the start", "`since` before `until`"));
    }
    Ok(TimeRange { from, to })
}

/// Checks a number of rows or points, with a default and a maximum.
///
/// # Errors
///
/// It is 0 or above the maximum.
pub fn count(name: &str, asked: Option<usize>, otherwise: usize, max: usize) -> Result<usize, Failure> {
    match asked.unwrap_or(otherwise) {
        n if (1..=max).contains(&n) => Ok(n),
        n => Err(Failure::question(
            format!("invalid {name}: {n}"),
            format!("expected a number from 1 to {max}"),
        )),
    }
}

/// How times and fields of a client's questions are read; times count back from the end of what is stored.
///
/// # Errors
///
/// There is no store or no such zone, or the store fails.
pub async fn asking(app: &Shared, client: &Client, zone: Option<&str>) -> Result<Asking<'static>, Failure> {
    let (_, now) = app.ask(|store| store.extent()).await?.unwrap_or_default();
    let zone = Zone::named(zone.unwrap_or(&app.hub.about.zone))
        .map_err(|error| Failure::question(error, "`zone=Europe/Berlin`"))?;
    Ok(Asking {
        options: app.expression_options.to_options(),
        moments: Moments { zone, now },
        without_payload: !client.rights.has(Right::Packets),
        ..Asking::default()
    })
}

/// Compiles an expression for stored records.
///
/// # Errors
///
/// The error, with its position in the expression.
pub async fn record_test(app: &Shared, client: &Client, text: Option<&str>) -> Result<FlowTest, Failure> {
    let text = text.unwrap_or_default();
    if text.trim().is_empty() {
        return Ok(FlowTest::All(Vec::new()));
    }
    Ok(asking(app, client, None).await?.test_of_records(text)?)
}

/// Compiles an expression for stored flows.
///
/// # Errors
///
/// The error, with its position in the expression.
pub async fn flow_test(app: &Shared, client: &Client, text: Option<&str>) -> Result<FlowTest, Failure> {
    let text = text.unwrap_or_default();
    if text.trim().is_empty() {
        return Ok(FlowTest::All(Vec::new()));
    }
    Ok(asking(app, client, None).await?.test(text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_converted_and_checked() {
        assert_eq!(span(None, None).ok(), Some(TimeRange::default()));
        let halves = span(Some(1.5), Some(1_750_000_000.25)).ok();
        assert_eq!(
            halves,
            Some(TimeRange { from: Some(1_500_000_000), to: Some(1_750_000_000_250_000_000) })
        );
        for wrong in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, -0.001, 1e300, 2e10] {
            assert!(span(Some(wrong), None).is_err() && span(None, Some(wrong)).is_err(), "{wrong}");
        }
        assert!(span(Some(2.0), Some(1.0)).is_err());
    }

    #[test]
    fn ranges_are_read_in_the_words_of_queries() {
        let hour = 3_600_000_000_000;
        let moments = Moments { now: 1_800_000_000_000_000_000, ..Moments::default() };
        let day = 1_800_000_000_000_000_000 / (24 * hour) * 24 * hour;
        let read = |since, until| in_words(&moments, TimeRange::default(), since, until).ok();
        let of = |from, to| Some(TimeRange { from: Some(from), to });
        assert_eq!(
            read(Some("yesterday 9:00"), Some("today 0:30")),
            of(day - 15 * hour, Some(day + hour / 2))
        );
        assert_eq!(read(Some("2h"), None), of(moments.now - 2 * hour, None));
        assert_eq!(read(Some("yesterday"), Some("today")), of(day - 24 * hour, Some(day)));
        assert!(read(Some("today"), Some("yesterday")).is_none() && read(Some("now"), Some("now")).is_none());
        let wrong = in_words(&moments, TimeRange::default(), Some("yesterdy"), None).unwrap_err();
        assert_eq!(wrong.error, "since: \"yesterdy\" is not a time");
        assert!(wrong.help.unwrap_or_default().contains("`3 days ago`"));
        let given = TimeRange { from: Some(1), to: None };
        assert!(in_words(&moments, given, Some("2h"), None).is_err());
        assert_eq!(in_words(&moments, given, None, Some("2h")).ok(), of(1, Some(moments.now - 2 * hour)));
    }

    #[test]
    fn errors_of_parameters_are_in_plain_words() {
        for (message, words) in [
            ("missing field `list`", "the parameter `list` is missing"),
            ("limit: invalid digit found in string", "the parameter `limit` is not a whole number"),
            ("from: invalid float literal", "the parameter `from` is not a number"),
            ("limit: number too large to fit in target type", "the parameter `limit` is out of range"),
            ("duplicate field `from`", "the parameter `from` is given twice"),
            ("something else", "something else"),
        ] {
            assert_eq!(plainly(message), words);
        }
    }

    #[test]
    fn counts_are_checked() {
        assert_eq!(count("limit", None, 20, 100).ok(), Some(20));
        assert_eq!(count("limit", Some(100), 20, 100).ok(), Some(100));
        assert!(count("limit", Some(0), 20, 100).is_err() && count("limit", Some(101), 20, 100).is_err());
    }
}
