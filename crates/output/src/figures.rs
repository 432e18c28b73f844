//! Formatting of numbers, rates, shares and bars: SI units, aligned, never wider than the given width.
//!
//! Every text has a known width on a terminal and contains no control characters.

use std::fmt::Write;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// A whole number with a comma between thousands: `1,657`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count in at most six columns: in full to 99,999, then as `1.23 M`.
pub fn short_count(n: u64) -> String {
    if n < 100_000 { count(n) } else { si(n as f64, "").trim_end().to_owned() }
}

/// A number and its noun, which takes an `s` unless the number is 1: `1 flow`, `1,657 packets`.
pub fn counted(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(n), if n == 1 { "" } else { "s" })
}

/// Bytes with a decimal prefix and one decimal: `512 B`, `316.4 kB`, `1.2 GB`.
pub fn bytes(n: u64) -> String {
    if n < 1000 {
        return format!("{n} B");
    }
    let (value, prefix) = scaled(n as f64, 999.95);
    format!("{value:.1} {prefix}B")
}

/// Bits per second: `4.63 Mb/s`.
pub fn bit_rate(bits_per_second: f64) -> String {
    si(bits_per_second, "b/s")
}

/// Packets per second: `1,657 pkt/s`, from a million on with a prefix; `<1` for less than 1 and more than 0.
pub fn packet_rate(packets_per_second: f64) -> String {
    if (1.0..999_999.5).contains(&packets_per_second) {
        format!("{} pkt/s", count(packets_per_second.round() as u64))
    } else {
        si(packets_per_second, "pkt/s")
    }
}

/// Three significant digits, an SI prefix and a unit; below 1 the value is 0 or `<1`.
pub fn si(value: f64, unit: &str) -> String {
    if !(value.is_finite() && value > 0.0) {
        return format!("0 {unit}");
    }
    if value < 1.0 {
        return format!("<1 {unit}");
    }
    let (value, prefix) = scaled(value, 999.5);
    let decimals = match (prefix, value) {
        ("", _) => 0,
        (_, v) if v < 9.995 => 2,
        (_, v) if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {prefix}{unit}")
}

/// The value below `limit` after scaling, and its prefix.
fn scaled(value: f64, limit: f64) -> (f64, &'static str) {
    let mut value = value;
    for prefix in ["", "k", "M", "G", "T", "P"] {
        if value < limit {
            return (value, prefix);
        }
        value /= 1000.0;
    }
    (value, "E")
}

/// A duration in nanoseconds: `55 ms`, `0.547 s`, `2 min 03 s`, `1 h 02 min`, `3 d 04 h`.
pub fn duration(nanoseconds: u64) -> String {
    let seconds = nanoseconds / 1_000_000_000;
    match nanoseconds {
        0..1_000 => format!("{nanoseconds} ns"),
        1_000..1_000_000 => format!("{} us", nanoseconds / 1_000),
        1_000_000..100_000_000 => format!("{} ms", nanoseconds / 1_000_000),
        _ if seconds < 60 => format!("{:.3} s", nanoseconds as f64 / 1e9),
        _ if seconds < 3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ if seconds < 86_400 => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {:02} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// A share in percent. It is `100%` only if the part is the whole and `0%` only if it is 0; else at most `>99%` and at
/// least `<1%`.
pub fn percent(part: u64, whole: u64) -> String {
    match (part, whole) {
        (0, _) | (_, 0) => "0%".to_owned(),
        (part, whole) if part >= whole => "100%".to_owned(),
        (part, whole) => {
            let share = 100.0 * part as f64 / whole as f64;
            if share < 1.0 {
                "<1%".to_owned()
            } else if share > 99.0 {
                ">99%".to_owned()
            } else {
                format!("{share:.0}%")
            }
        }
    }
}

/// A share of loss in percent, precise enough to show that it is not 0.
pub fn loss_percent(share: f64) -> String {
    match share {
        s if s <= 0.0 => "0%".to_owned(),
        s if s < 0.01 => "<0.01%".to_owned(),
        s if s < 10.0 => format!("{s:.2}%"),
        s => format!("{s:.1}%"),
    }
}

/// A horizontal bar of at most `width` columns, in eighths of a column; any value above 0 is visible.
pub fn bar(value: u64, greatest: u64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if value == 0 || greatest == 0 || width == 0 {
        return String::new();
    }
    let share = (value as f64 / greatest as f64).min(1.0);
    let eighths = ((share * width as f64 * 8.0).round() as usize).clamp(1, width * 8);
    let mut out = "█".repeat(eighths / 8);
    out.push_str(EIGHTHS.get(eighths % 8).copied().unwrap_or_default());
    out
}

/// One column for each value, with its share of the maximum as height. 0 is a space, to distinguish it from small
/// values.
pub fn sparkline(values: &[u64]) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let greatest = values.iter().copied().max().unwrap_or_default();
    values
        .iter()
        .map(|&value| {
            let level = (value as f64 / greatest.max(1) as f64 * 8.0).ceil() as usize;
            level.checked_sub(1).and_then(|level| LEVELS.get(level.min(7))).copied().unwrap_or(' ')
        })
        .collect()
}

/// Adds up neighbours so that at most `width` values are left. Returns them, and the number of original values in
/// each.
pub fn squeeze(values: &[u64], width: usize) -> (Vec<u64>, usize) {
    let each = values.len().div_ceil(width.max(1)).max(1);
    (
        values.chunks(each).map(|part| part.iter().fold(0, |sum: u64, v| sum.saturating_add(*v))).collect(),
        each,
    )
}

/// A number with two digits after the point, or six if it is below a hundredth.
pub fn decimal(number: f64) -> String {
    if number == 0.0 || number.abs() >= 0.01 { format!("{number:.2}") } else { format!("{number:.6}") }
}

/// Columns that a text takes on a terminal.
pub fn width(text: &str) -> usize {
    text.width()
}

/// Appends a character that is not to be shown itself: `\x1b` up to ff, as Zeek and C write it, else `\u202e` as JSON does; above
/// ffff it has as many digits as it needs.
pub fn push_escaped(out: &mut String, c: char) {
    let _ = match u32::from(c) {
        code @ ..=0xff => write!(out, "\\x{code:02x}"),
        code => write!(out, "\\u{code:04x}"),
    };
}

/// The text without anything that a terminal would interpret or that would disturb a line: control characters, and
/// characters that change the direction of writing or have no width, become `\x1b` or `\u202e`.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || c.width().unwrap_or(0) == 0 {
            push_escaped(&mut out, c);
        } else {
            out.push(c);
        }
    }
    out
}

/// The printable text in at most `width` columns; a truncated text ends with `…`.
pub fn fit(text: &str, width: usize) -> String {
    let text = printable(text);
    if text.width() <= width {
        return text;
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used + 1 > width {
            break;
        }
        out.push(c);
    }
    if width > 0 {
        out.push('…');
    }
    out
}

/// The printable text on lines of at most `width` columns, broken at spaces if possible. If there are more than `max`
/// lines (at least 1), the last one ends with `…`.
pub fn wrap(text: &str, width: usize, max: usize) -> Vec<String> {
    let text = printable(text);
    let mut lines = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        if lines.len() + 1 >= max || rest.width() <= width {
            lines.push(fit(rest, width));
            break;
        }
        let (mut used, mut end, mut space) = (0, 0, None);
        for (at, c) in rest.char_indices() {
            // The space at the end of a line takes no column.
            if c == ' ' {
                space = Some(at);
            }
            used += c.width().unwrap_or(0);
            if used > width {
                break;
            }
            end = at + c.len_utf8();
        }
        let first = rest.chars().next().map_or(1, char::len_utf8);
        let (line, after) = rest.split_at(space.filter(|at| *at > 0).unwrap_or(end.max(first)));
        lines.push(fit(line.trim_end(), width));
        rest = after.trim_start();
    }
    lines
}

/// The printable text in exactly `width` columns, on the left.
pub fn left(text: &str, width: usize) -> String {
    let mut text = fit(text, width);
    text.extend(std::iter::repeat_n(' ', width.saturating_sub(text.width())));
    text
}

/// The printable text in exactly `width` columns, on the right.
pub fn right(text: &str, width: usize) -> String {
    let text = fit(text, width);
    format!("{}{text}", " ".repeat(width.saturating_sub(text.width())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_with_prefixes() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(counted(1, "flow"), "1 flow");
        assert_eq!(counted(0, "flow"), "0 flows");
        assert_eq!(
            [0, 999, 1000, 316_400, 999_949, 999_950].map(bytes),
            ["0 B", "999 B", "1.0 kB", "316.4 kB", "999.9 kB", "1.0 MB"]
        );
        assert_eq!(bytes(u64::MAX), "18.4 EB");
        assert_eq!(
            [4_627_000.0, 999.4, 999.6, 46_270.0, 462_700.0].map(bit_rate),
            ["4.63 Mb/s", "999 b/s", "1.00 kb/s", "46.3 kb/s", "463 kb/s"]
        );
        assert_eq!([0.0, 0.2, f64::NAN, f64::INFINITY].map(bit_rate), ["0 b/s", "<1 b/s", "0 b/s", "0 b/s"]);
        assert_eq!(
            [0.0, 1e-9, 0.7, 1.4, 1656.7, 999_999.4, 1_488_000.0].map(packet_rate),
            ["0 pkt/s", "<1 pkt/s", "<1 pkt/s", "1 pkt/s", "1,657 pkt/s", "999,999 pkt/s", "1.49 Mpkt/s"]
        );
        assert_eq!(short_count(99_999), "99,999");
        assert_eq!(short_count(1_234_567), "1.23 M");
    }

    #[test]
    fn durations_have_a_suitable_unit() {
        let cases = [
            (5, "5 ns"),
            (55_000, "55 us"),
            (55_000_000, "55 ms"),
            (547_000_000, "0.547 s"),
            (123_000_000_000, "2 min 03 s"),
            (3_720_000_000_000, "1 h 02 min"),
            (273_600_000_000_000, "3 d 04 h"),
        ];
        for (nanoseconds, text) in cases {
            assert_eq!(duration(nanoseconds), text);
        }
    }

    #[test]
    fn a_share_is_0_or_100_percent_only_if_exact() {
        assert_eq!(percent(0, 10), "0%");
        assert_eq!(percent(1, 1_000_000), "<1%");
        assert_eq!(percent(50, 100), "50%");
        assert_eq!(percent(999_999, 1_000_000), ">99%");
        assert_eq!(percent(7, 7), "100%");
        assert_eq!(percent(7, 0), "0%");
        assert_eq!([0.0, 0.001, 0.5, 28.4].map(loss_percent), ["0%", "<0.01%", "0.50%", "28.4%"]);
    }

    #[test]
    fn sparklines_and_bars_keep_their_width() {
        assert_eq!(bar(10, 10, 4), "████");
        assert_eq!(bar(5, 10, 3), "█▌");
        assert_eq!(bar(1, 1_000_000, 12), "▏");
        assert_eq!(bar(0, 10, 4), "");
        assert_eq!(bar(20, 10, 4), "████");
        assert_eq!(sparkline(&[0, 1, 4, 8]), " ▁▄█");
        assert_eq!(sparkline(&[0, 0]), "  ");
        assert_eq!(sparkline(&[u64::MAX, 1]), "█▁");
        let (cells, each) = squeeze(&[1, 2, 3, 4, 5], 2);
        assert_eq!((cells, each), (vec![6, 9], 3));
        assert_eq!(squeeze(&[], 5).0, Vec::<u64>::new());
    }

    #[test]
    fn long_text_is_broken_at_spaces() {
        assert_eq!(wrap("one two three", 7, 9), ["one two", "three"]);
        assert_eq!(wrap("one two three", 6, 9), ["one", "two", "three"]);
        assert_eq!(wrap("one two three", 6, 2), ["one", "two t…"]);
        assert_eq!(wrap("unbreakable", 4, 9), ["unbr", "eaka", "ble"]);
        assert_eq!(wrap("日本語", 3, 9), ["日", "本", "語"]);
        assert_eq!(wrap("  ", 3, 9), Vec::<String>::new());
        for columns in 0..20 {
            for line in wrap("a日\u{7} b\u{300}c\u{200d}語 日本語 xxxxxxxxx", columns, 5) {
                assert!(width(&line) <= columns, "{columns} {line:?}");
            }
        }
    }

    #[test]
    fn hostile_text_is_escaped_and_has_the_stated_width() {
        assert_eq!(printable("a\u{1b}[31mb\u{202e}c\n"), "a\\x1b[31mb\\u202ec\\x0a");
        assert_eq!(fit("日本語のファイル", 7), "日本語…");
        assert_eq!(width(&left("日本", 5)), 5);
        assert_eq!(right("7", 4), "   7");
        for w in 0..20 {
            assert!(width(&fit("a日\u{7}b\u{300}c\u{200d}語", w)) <= w, "{w}");
        }
    }
}
