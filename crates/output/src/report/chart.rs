//! Charts as SVG, without a script: they take the page's colours.

use super::number;
use crate::figures;
use crate::model::{Described, Moment};
use std::fmt::Write as _;

const WIDTH: f64 = 320.0;
const HEIGHT: f64 = 170.0;
/// Space for the figures at the axes.
const LEFT: f64 = 34.0;
const BOTTOM: f64 = 20.0;
const TOP: f64 = 8.0;
const RIGHT: f64 = 8.0;

/// Points of a fitted curve.
const POINTS: usize = 80;

fn across(share: f64, width: f64) -> f64 {
    LEFT + share.clamp(0.0, 1.0) * (width - LEFT - RIGHT)
}

fn up(share: f64, height: f64) -> f64 {
    height - BOTTOM - share.clamp(0.0, 1.0) * (height - BOTTOM - TOP)
}

/// Bytes on the wire over time, as bits per second.
pub fn time(moments: &[Moment], step: u64, label: &str) -> String {
    let (width, height) = (900.0, 190.0);
    let rate = |moment: &Moment| moment.bytes as f64 * 8e9 / step.max(1) as f64;
    let max = moments.iter().map(rate).fold(1.0, f64::max);
    let base = up(0.0, height);
    let mut path = format!("M{LEFT:.1} {base:.1}");
    let mut end = LEFT;
    for (at, moment) in moments.iter().enumerate() {
        let share = |at: usize| across(at as f64 / moments.len() as f64, width);
        let y = up(rate(moment) / max, height);
        end = share(at + 1);
        let _ = write!(path, "L{:.1} {y:.1}L{end:.1} {y:.1}", share(at));
    }
    let _ = write!(path, "L{end:.1} {base:.1}Z");
    let top = figures::bit_rate(max);
    let seconds = moments.len() as f64 * step as f64 / 1e9;
    format!(
        "<svg class=\"time\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{label}\">\
         <path class=\"axis\" d=\"M{LEFT} {TOP}V{base}H{}\"/><path class=\"area\" d=\"{path}\"/>\
         <text x=\"{}\" y=\"20\">{top}</text><text x=\"{LEFT}\" y=\"{}\">0</text>\
         <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{} s</text></svg>",
        width - RIGHT,
        LEFT + 4.0,
        height - 5.0,
        width - RIGHT,
        height - 5.0,
        number(seconds)
    )
}

/// Cumulative share of values over the logarithm of the value, and that of the best fit.
pub fn distribution(described: &Described, unit: &str, label: &str) -> String {
    let positive = || described.quantiles.iter().copied().filter(|value| *value > 0.0);
    let min = positive().next().unwrap_or(1.0);
    let max = positive().next_back().unwrap_or(1.0);
    // At least a decade, so that a single value has an axis.
    let (low, high) = if max / min < 10.0 {
        let middle = (min * max).sqrt();
        (middle / 3.2, middle * 3.2)
    } else {
        (min, max)
    };
    let x = |value: f64| across((value.max(low) / low).ln() / (high / low).ln(), WIDTH);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{label}\">\
         <path class=\"axis\" d=\"M{LEFT} {TOP}V{b}H{r}M{LEFT} {m}H{r}M{LEFT} {t}H{r}\"/>",
        b = up(0.0, HEIGHT),
        m = up(0.5, HEIGHT),
        t = up(1.0, HEIGHT),
        r = WIDTH - RIGHT,
    );
    for (share, text) in [(0.0, "0"), (0.5, "50%"), (1.0, "100%")] {
        let _ = write!(
            svg,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
            LEFT - 4.0,
            up(share, HEIGHT) + 4.0
        );
    }
    let ends = [(low, "start"), ((low * high).sqrt(), "middle"), (high, "end")];
    for (value, anchor) in ends {
        let text = with_unit(value, unit);
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{text}</text>",
            x(value),
            HEIGHT - 5.0
        );
    }
    let count = described.quantiles.len().saturating_sub(1).max(1) as f64;
    let mut seen = String::new();
    let mut before = up(0.0, HEIGHT);
    for (at, value) in described.quantiles.iter().enumerate() {
        let (px, py) = (x(*value), up(at as f64 / count, HEIGHT));
        let first = if seen.is_empty() { 'M' } else { 'L' };
        let _ = write!(seen, "{first}{px:.1} {before:.1}L{px:.1} {py:.1}");
        before = py;
    }
    let _ = write!(svg, "<path class=\"seen\" d=\"{seen}\"/>");
    if let Some(fitted) = described.fits.first() {
        let mut curve = String::new();
        for at in 0..=POINTS {
            let value = low * (high / low).powf(at as f64 / POINTS as f64);
            let first = if at == 0 { 'M' } else { 'L' };
            let _ = write!(curve, "{first}{:.1} {:.1}", x(value), up(fitted.fit.cdf(value), HEIGHT));
        }
        let _ = write!(svg, "<path class=\"fit\" d=\"{curve}\"/>");
    }
    svg + "</svg>"
}

/// A value with its unit, in the short form of an axis.
pub fn with_unit(value: f64, unit: &str) -> String {
    match unit {
        "s" => {
            let (value, unit) = if value == 0.0 || value >= 1.0 {
                (value, "s")
            } else if value < 1e-3 {
                (value * 1e6, "µs")
            } else {
                (value * 1e3, "ms")
            };
            format!("{} {unit}", number(value))
        }
        "bytes" => figures::si(value, "B"),
        _ => number(value),
    }
}
