//! Charts and series.

use super::Ask;
use super::asked::{asking, count, flow_test, in_words, span};
use crate::serve::answers::Place;
use crate::serve::app::Shared;
use crate::serve::body::holding;
use crate::serve::failure::Failure;
use crate::serve::rights::Client;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use utoipa::IntoParams;
use weir_api::basis::Basis;
use weir_api::web::{Band, Chart, ChartLine, Charts, SeriesData, SeriesInfo, SeriesList};
use weir_output::zone::Zone;
use weir_store::{Store, StoreError, basis, counter_id};

/// Maximum series of one answer.
const MAX_SERIES: usize = 100;
/// Points of a short answer.
const SHORT: usize = 20_000;
/// Maximum points of all series of an answer, which the store keeps.
const MAX_OF_ALL: usize = 2_000_000;
/// Bytes of a point and its text.
const POINT: usize = 96;
/// Maximum points of each.
const MAX_POINTS: usize = 100_000;
/// Maximum number of weeks of a band.
const MAX_WEEKS: usize = 52;

/// All charts, built-in ones first, with the series of their lines.
#[utoipa::path(get, path = "/api/v1/charts", responses((status = 200, body = Charts)))]
pub async fn charts(State(app): State<Shared>) -> Json<Charts> {
    let known = app.ask(|store| store.series()).await.unwrap_or_default();
    let mut charts = built_in(&known);
    charts.extend(app.configuration.charts());
    Json(Charts { charts })
}

/// Finds a chart by name.
async fn chart(app: &Shared, name: &str) -> Option<Chart> {
    let is_it = |chart: &Chart| chart.name == name;
    // Configured charts do not need the list of all series.
    let is_configured =
        !["traffic", "packets"].contains(&name) && CLASSES.iter().all(|(class, ..)| *class != name);
    if is_configured {
        return app.configuration.charts().into_iter().find(is_it);
    }
    built_in(&app.ask(|store| store.series()).await.unwrap_or_default()).into_iter().find(is_it)
}

/// Built-in charts: total traffic, then classes of packets, if their series exist.
fn built_in(known: &[SeriesInfo]) -> Vec<Chart> {
    let chart = |name: &str, title: &str, unit: &str, lines: Vec<ChartLine>| Chart {
        name: name.to_owned(),
        title: title.to_owned(),
        unit: unit.to_owned(),
        configured: false,
        lines,
    };
    let line = |id: String, name: &str, expression: &str| ChartLine {
        id,
        name: name.to_owned(),
        expression: expression.to_owned(),
        remainder: false,
    };
    let mut charts = vec![
        chart("traffic", "Traffic", "bits/s", vec![line(counter_id("bytes"), "all", "")]),
        chart("packets", "Packets", "packets/s", vec![line(counter_id("caught"), "all", "")]),
    ];
    for (subscription, title, bits) in CLASSES {
        let (from, to) = (format!("class/{subscription}/"), if bits { "/bits" } else { "/packets" });
        let class = |series: &SeriesInfo| {
            let name = series.id.strip_prefix(&from)?.strip_suffix(to)?;
            let expression = if EXPRESSIONS.contains(&name) { name } else { "" };
            let label = if name == REST { "other" } else { name };
            Some(ChartLine { remainder: name == REST, ..line(series.id.clone(), label, expression) })
        };
        let lines: Vec<ChartLine> = known.iter().filter_map(class).collect();
        if !lines.is_empty() {
            charts.push(chart(subscription, title, if bits { "bits/s" } else { "packets/s" }, lines));
        }
    }
    charts
}

/// Packet classes counted in every run with pages: subscription, title, and whether bytes are drawn.
static CLASSES: [(&str, &str, bool); 3] = [
    ("ipproto", "Protocols", true),
    ("cast", "Unicast, multicast, broadcast", false),
    ("size", "Packet sizes", false),
];

/// The class of packets outside all other classes.
const REST: &str = "xtra";

/// Classes whose names are expressions.
static EXPRESSIONS: [&str; 4] = ["tcp", "udp", "icmp", "arp"];

/// All series.
#[utoipa::path(get, path = "/api/v1/series", responses((status = 200, body = SeriesList), (status = 503, body = Failure)))]
pub async fn series(State(app): State<Shared>) -> Result<Json<SeriesList>, Failure> {
    Ok(Json(SeriesList { series: app.ask(|store| store.series()).await? }))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct RangeAsked {
    /// Start of the time range, in seconds since the epoch.
    from: Option<f64>,
    /// End of the time range, excluded.
    to: Option<f64>,
    /// Instead of `from`: a start in the words of the query language, such as `13:50`, `yesterday 9:00` or `3 days ago`.
    since: Option<String>,
    /// Instead of `to`: an end in these words, excluded.
    until: Option<String>,
    /// Time zone of these words, by its IANA name (the sensor's).
    zone: Option<String>,
}

/// The time to which every answer over a range is moved: outwards to the cells that are stored there.
#[utoipa::path(get, path = "/api/v1/range", params(RangeAsked),
    responses((status = 200, body = Basis), (status = 400, body = Failure), (status = 503, body = Failure)))]
pub async fn range(
    State(app): State<Shared>,
    Extension(client): Extension<Client>,
    Ask(asked): Ask<RangeAsked>,
) -> Result<Json<Basis>, Failure> {
    let mut span = span(asked.from, asked.to)?;
    if asked.since.is_some() || asked.until.is_some() {
        let moments = asking(&app, &client, asked.zone.as_deref()).await?.moments;
        span = in_words(&moments, span, asked.since.as_deref(), asked.until.as_deref())?;
    }
    let moved = move |store: &dyn Store| {
        let moved = store.moved(span)?;
        let mut basis = Basis { source: moved.source, bound: Some(0), ..Basis::default() };
        basis::complete(store, &moved, &mut basis)?;
        Ok::<_, StoreError>(basis)
    };
    Ok(Json(app.ask(moved).await?))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct DataAsked {
    /// Identifiers of series, separated by commas; at most 100.
    #[serde(default)]
    ids: String,
    /// Instead of `ids`: a chart of /api/v1/charts, which returns its heaviest lines and the sum of all other lines.
    chart: Option<String>,
    /// Number of lines of the chart; at most 100 (12).
    top: Option<usize>,
    /// Start of the time range, in seconds since the epoch.
    from: Option<f64>,
    /// End of the time range, excluded.
    to: Option<f64>,
    /// Approximate number of points (600); fewer for a chart with thousands of lines.
    points: Option<usize>,
    /// Instead of `ids`: an expression over flows, pcap-filter(7) with tests of fields. The series `flows/bits` and
    /// `flows/packets` are computed from the stored flows that match; each flow is spread evenly over its time.
    filter: Option<String>,
}

/// Points of series: average, minimum and maximum.
#[utoipa::path(get, path = "/api/v1/series/data", params(DataAsked),
    responses((status = 200, body = SeriesData), (status = 400, body = Failure), (status = 404, body = Failure)))]
pub async fn data(
    State(app): State<Shared>,
    Extension(client): Extension<Client>,
    Ask(asked): Ask<DataAsked>,
) -> Result<Response, Failure> {
    let span = span(asked.from, asked.to)?;
    let points = count("points", asked.points, 600, MAX_POINTS)?;
    let top = count("top", asked.top, 12, MAX_SERIES)?;
    if let Some(filter) = asked.filter.filter(|filter| !filter.trim().is_empty()) {
        if asked.chart.is_some() || !asked.ids.is_empty() {
            return Err(Failure::question(
                "a stored series cannot be restricted by an expression",
                "`filter` alone",
            ));
        }
        let test = flow_test(&app, &client, Some(&filter)).await?;
        return Ok(Json(
            app.ask_over(span, move |store, span| store.points_of_flows(&test, span, points)).await?,
        )
        .into_response());
    }
    if let Some(name) = asked.chart {
        let Some(chart) = chart(&app, &name).await else {
            return Err(Failure::unknown(format!("no chart {name:?}; /api/v1/charts lists them")));
        };
        let ids: Vec<String> = chart.lines.into_iter().map(|line| line.id).collect();
        let place = place(&app, &client, points, top + 2).await?;
        let answer =
            Json(app.ask_over(span, move |store, span| store.heaviest(&ids, span, points, top)).await?);
        return Ok(holding(answer.into_response(), place));
    }
    let ids = ids(&asked.ids)?;
    let place = place(&app, &client, points, ids.len()).await?;
    let answer = Json(app.ask_over(span, move |store, span| store.points(&ids, span, points)).await?);
    Ok(holding(answer.into_response(), place))
}

/// The place of an answer with `points` points of each of `series` series, which are in memory until they are sent.
async fn place(
    app: &Shared,
    client: &Client,
    points: usize,
    series: usize,
) -> Result<Option<Place>, Failure> {
    match points.saturating_mul(series) {
        ..=SHORT => Ok(None),
        all => app.answers.large(client, all.min(MAX_OF_ALL) * POINT).await.map(Some),
    }
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct BandAsked {
    /// Identifiers of series, separated by commas; at most 100.
    ids: String,
    /// Start of the time range, in seconds since the epoch.
    from: Option<f64>,
    /// End of the time range, excluded.
    to: Option<f64>,
    /// Approximate number of points (600).
    points: Option<usize>,
    /// Number of previous weeks (4).
    weeks: Option<usize>,
    /// Time zone by which hours of the day are compared, by its IANA name (the sensor's).
    zone: Option<String>,
}

/// Minimum, median and maximum at the same time of previous weeks.
#[utoipa::path(get, path = "/api/v1/series/band", params(BandAsked),
    responses((status = 200, body = Band), (status = 400, body = Failure)))]
pub async fn band(State(app): State<Shared>, Ask(asked): Ask<BandAsked>) -> Result<Json<Band>, Failure> {
    let (ids, span) = (ids(&asked.ids)?, span(asked.from, asked.to)?);
    let points = count("points", asked.points, 600, MAX_POINTS)?;
    let weeks = count("weeks", asked.weeks, 4, MAX_WEEKS)?;
    let zone = Zone::named(asked.zone.as_deref().unwrap_or(&app.hub.about.zone))
        .map_err(|error| Failure::question(error, "`zone=Europe/Berlin`"))?;
    Ok(Json(app.ask_over(span, move |store, span| store.band(&ids, span, points, weeks, &zone)).await?))
}

fn ids(text: &str) -> Result<Vec<String>, Failure> {
    let ids: Vec<String> =
        text.split(',').map(str::trim).filter(|id| !id.is_empty()).map(str::to_owned).collect();
    match ids.len() {
        0 => Err(Failure::question("no series given", "`ids=ledger/caught`; /api/v1/series lists them")),
        n if n > MAX_SERIES => Err(Failure::question(
            format!("too many series: {n}"),
            format!("at most {MAX_SERIES} per request"),
        )),
        _ => Ok(ids),
    }
}
