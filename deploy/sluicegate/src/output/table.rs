//! Tables without lines, which people read and `awk` splits.

use comfy_table::{ContentArrangement, Table as Grid, presets};

use super::clean;

/// What an empty cell shows, so that columns stay countable.
const NOTHING: &str = "-";

/// Rows under a heading.
#[derive(Debug)]
pub(crate) struct Table {
    grid: Grid,
    columns: usize,
}

impl Table {
    /// An empty table. Without a heading when it shall be quiet.
    pub(crate) fn new(columns: &[&str], quiet: bool) -> Self {
        let mut grid = Grid::new();
        grid.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        if !quiet {
            grid.set_header(columns.iter().map(|name| name.to_uppercase()));
        }
        Self { grid, columns: columns.len() }
    }

    /// Adds a row of as many cells as there are columns.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<_> = cells
            .into_iter()
            .map(|cell| if cell.is_empty() { NOTHING.to_owned() } else { clean(&cell) })
            .collect();
        debug_assert_eq!(cells.len(), self.columns, "a row fills the table's columns");
        self.grid.add_row(cells);
    }

    /// Has it no rows?
    pub(crate) fn is_empty(&self) -> bool {
        self.grid.is_empty()
    }

    /// The table, with a line end after every row.
    pub(crate) fn render(mut self) -> String {
        for column in self.grid.column_iter_mut() {
            column.set_padding((0, 2));
        }
        let mut text = String::new();
        for line in self.grid.lines() {
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_empty_cells_show() {
        let mut table = Table::new(&["name", "base_url"], false);
        table.row(["a".into(), "http://u".into()]);
        table.row(["longer".into(), String::new()]);
        assert_eq!(table.render(), "NAME    BASE_URL\na       http://u\nlonger  -\n");
    }

    #[test]
    fn quiet_tables_have_no_heading() {
        let mut table = Table::new(&["name"], true);
        assert!(table.is_empty());
        table.row(["a\nb".into()]);
        assert_eq!(table.render(), "a\u{fffd}b\n");
    }
}
