//! Tables of figures with as many columns as fit.

use super::Palette;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Stylize;
use ratatui::text::{Line, Span};
use weir_output::figures;

/// A table. The first column is the key, left-aligned. The others are figures in order of importance. The last columns
/// are omitted if the area is too narrow.
#[derive(Clone, Debug, Default)]
pub struct FigureTable {
    /// Titles of the columns.
    pub titles: Vec<&'static str>,
    /// The rows; each has one cell per title.
    pub rows: Vec<FigureRow>,
}

/// A part and its whole.
pub type Share = (u64, u64);

/// A row of a table.
#[derive(Clone, Debug)]
pub struct FigureRow {
    /// The cells.
    pub cells: Vec<String>,
    /// Part and whole of its bar.
    pub share: Share,
}

/// Columns between two columns.
const GAP: usize = 2;
/// Width of the first column below which the second and further figures are left out.
const NAME: usize = 44;
/// Width of the first column below which the first figure is left out.
const MIN_NAME: usize = 16;
/// Minimum and maximum width of a bar.
const BAR: (usize, usize) = (6, 30);

impl FigureTable {
    /// Draws the columns and rows that fit into the area.
    pub fn render(&self, frame: &mut Frame<'_>, area: Rect, palette: Palette) {
        self.render_with(frame, area, palette, None);
    }

    /// Draws the columns and rows that fit into the area, and the selected row, the last one at most, in reverse video.
    pub fn render_with(&self, frame: &mut Frame<'_>, area: Rect, palette: Palette, selected: Option<usize>) {
        // The titles are the first line.
        let selected = selected.map(|row| row.min(self.rows.len().saturating_sub(1)) + 1);
        let lines = self.lines(area.width.into(), palette).into_iter().enumerate();
        for ((at, line), y) in lines.zip(area.y..area.bottom()) {
            let line = if selected == Some(at) { line.reversed() } else { line };
            frame.render_widget(line, Rect { y, height: 1, ..area });
        }
    }

    fn lines(&self, width: usize, palette: Palette) -> Vec<Line<'static>> {
        let widest = |column: usize| {
            let cells =
                self.rows.iter().filter_map(|row| row.cells.get(column)).map(|cell| figures::width(cell));
            cells.chain(self.titles.get(column).map(|title| title.len())).max().unwrap_or(0)
        };
        let wanted = widest(0);
        let mut rest: Vec<usize> = (1..self.titles.len()).map(widest).collect();
        let taken = |rest: &[usize]| rest.iter().map(|width| width + GAP).sum::<usize>();
        while taken(&rest) + wanted.min(if rest.len() == 1 { MIN_NAME } else { NAME }) > width
            && !rest.is_empty()
        {
            rest.pop();
        }
        let first = wanted.min(width.saturating_sub(taken(&rest)));
        let left = width.saturating_sub(first + taken(&rest) + GAP);
        let bar = if left < BAR.0 { 0 } else { left.min(BAR.1) };
        let text = |cells: &mut dyn Iterator<Item = &str>| {
            let mut line = String::new();
            for (column, cell) in cells.take(rest.len() + 1).enumerate() {
                match column.checked_sub(1).and_then(|figure| rest.get(figure)) {
                    None => line.push_str(&figures::left(cell, first)),
                    Some(width) => line.push_str(&format!("{:GAP$}{}", "", figures::right(cell, *width))),
                }
            }
            line
        };
        let titles = Line::styled(text(&mut self.titles.iter().copied()), palette.faint());
        let rows = self.rows.iter().map(|row| {
            let cells = text(&mut row.cells.iter().map(String::as_str));
            let bar = figures::bar(row.share.0, row.share.1, bar);
            Line::from(vec![Span::raw(cells), Span::raw(" ".repeat(GAP)), Span::styled(bar, palette.bar())])
        });
        std::iter::once(titles).chain(rows).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> FigureTable {
        let row = |name: &str, a: &str, b: &str, share: Share| FigureRow {
            cells: vec![name.into(), a.into(), b.into()],
            share,
        };
        FigureTable {
            titles: vec!["host", "bits/s", "bytes"],
            rows: vec![
                row("192.168.100.200", "1.20 Mb/s", "9 B", (9, 9)),
                row("10.0.0.1", "8 b/s", "1.20 kB", (3, 9)),
            ],
        }
    }

    fn text(width: usize) -> Vec<String> {
        let lines = table().lines(width, Palette { color: false });
        lines.iter().map(|line| line.to_string().trim_end().to_owned()).collect()
    }

    #[test]
    fn the_last_columns_are_omitted_on_a_narrow_screen() {
        assert_eq!(text(35)[1], "192.168.100.200  1.20 Mb/s      9 B");
        assert_eq!(text(34)[1], "192.168.100.200  1.20 Mb/s  ██████");
        assert_eq!(text(26)[..2], ["host                bits/s", "192.168.100.200  1.20 Mb/s"]);
        assert_eq!(text(20)[1], "192.168.100.200");
        assert_eq!(text(8)[1], "192.168…");
        assert_eq!(text(0)[1], "");
    }
}
