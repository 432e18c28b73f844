//! Series for other tools: files for `rrdtool restore`, and OpenMetrics text with times.

use crate::{Archive, Steps, Store, StoreError, TimeRange};
use std::fmt::Write;
use weir_api::web::SeriesInfo;

/// RRD's XML for a missing number.
fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "NaN".to_owned(), |value| format!("{value:.10e}"))
}

/// A series as XML for `rrdtool restore`: average, minimum and maximum of each tier.
pub fn rrd(archive: &Archive) -> String {
    let Archive { step, update, .. } = archive;
    let mut xml =
        String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<rrd>\n<version>0003</version>\n");
    let _ = write!(
        xml,
        "<step>{step}</step>\n<lastupdate>{update}</lastupdate>\n<ds><name>value</name><type>GAUGE</type>\
         <minimal_heartbeat>{}</minimal_heartbeat><min>NaN</min><max>NaN</max><last_ds>U</last_ds>\
         <value>0</value><unknown_sec>0</unknown_sec></ds>\n",
        2 * step
    );
    for (length, rows) in &archive.tiers {
        for (name, of) in [("AVERAGE", 0), ("MIN", 1), ("MAX", 2)] {
            let _ = write!(
                xml,
                "<rra><cf>{name}</cf><pdp_per_row>{}</pdp_per_row><params><xff>0.5</xff></params><cdp_prep><ds>\
                 <primary_value>NaN</primary_value><secondary_value>NaN</secondary_value><value>NaN</value>\
                 <unknown_datapoints>0</unknown_datapoints></ds></cdp_prep>\n<database>\n",
                length / step
            );
            for row in rows {
                let value = row.and_then(|row| row.get(of).copied());
                let _ = writeln!(xml, "<row><v>{}</v></row>", number(value));
            }
            xml.push_str("</database>\n</rra>\n");
        }
    }
    xml.push_str("</rrd>\n");
    xml
}

/// The points of series as OpenMetrics text with times, for `promtool tsdb create-blocks-from openmetrics`.
///
/// # Errors
///
/// The store fails.
pub fn open_metrics(
    store: &dyn Store,
    series: &[SeriesInfo],
    span: TimeRange,
    points: usize,
) -> Result<String, StoreError> {
    let escape = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let mut text =
        String::from("# HELP weir_series Series of Weir, each in its unit.\n# TYPE weir_series gauge\n");
    for info in series {
        let data = store.kept_points(std::slice::from_ref(&info.id), span, Steps::About(points))?;
        let Some(points) = data.series.first() else { continue };
        for (time, value) in data.times.iter().zip(&points.avg) {
            if let Some(value) = value {
                let (id, unit) = (escape(&info.id), escape(&info.unit));
                let _ = writeln!(text, "weir_series{{id=\"{id}\",unit=\"{unit}\"}} {value} {time}");
            }
        }
    }
    text.push_str("# EOF\n");
    Ok(text)
}
