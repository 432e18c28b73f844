//! Tables as text: columns as wide as their content.

use crate::figures::{left, printable, right, width};

/// The lines of a table, each with its line break. Columns without a value are left out, and two spaces separate the others.
/// `is_number` has for each column whether its values are aligned to the right. The result is "" if no column has a value.
pub fn aligned(head: &[String], rows: &[Vec<String>], is_number: &[bool]) -> String {
    let columns = |text: &String| width(&printable(text));
    let cells = |at: usize| rows.iter().filter_map(move |row| row.get(at));
    let of_column = |at: usize, name: &String| {
        let widest = cells(at).map(columns).max().filter(|widest| *widest > 0)?;
        Some((at, widest.max(columns(name)), is_number.get(at).copied().unwrap_or(false)))
    };
    let shown: Vec<(usize, usize, bool)> =
        head.iter().enumerate().filter_map(|(at, name)| of_column(at, name)).collect();
    if shown.is_empty() {
        return String::new();
    }
    let line = |row: &[String]| {
        let cells = shown.iter().map(|(at, width, is_number)| {
            let cell = row.get(*at).map(String::as_str).unwrap_or_default();
            if *is_number { right(cell, *width) } else { left(cell, *width) }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    std::iter::once(line(head)).chain(rows.iter().map(|row| line(row))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_those_without_a_value_are_left_out() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [row(["www.example.org", "", "1,204"]), row(["m\u{fc}nchen", "", "7"])];
        let text = aligned(&row(["query", "empty", "records"]), &rows, &[false, false, true]);
        assert_eq!(
            text,
            "query            records\nwww.example.org    1,204\nm\u{fc}nchen                7\n"
        );
        assert_eq!(aligned(&row(["a", "b", "c"]), &[row(["", "", ""])], &[]), "");
    }
}
