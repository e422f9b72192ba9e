//! A table, as CSV for programs and in columns for people.

/// A table; each row has a cell for each column.
pub(crate) struct Table {
    /// The title: the line above the table, for people.
    pub(crate) title: String,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub(super) fn new(title: impl Into<String>, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|&column| column.to_owned()).collect();
        Self { title: title.into(), columns, rows: Vec::new() }
    }

    /// Parses the output of [`Table::csv`]: RFC 4180, a head first. Cells beyond the head are
    /// dropped.
    pub(crate) fn parse(title: impl Into<String>, csv: &str) -> Self {
        let mut rows = records(csv).into_iter();
        let columns = rows.next().unwrap_or_default();
        let mut table = Self { title: title.into(), columns, rows: Vec::new() };
        rows.for_each(|row| table.push(row));
        table
    }

    /// The names of the columns.
    pub(crate) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The rows; each has a cell for each column.
    pub(crate) fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// Adds a row; missing cells are empty.
    pub(super) fn push(&mut self, mut row: Vec<String>) {
        row.resize(self.columns.len(), String::new());
        self.rows.push(row);
    }

    /// A head, then one line for each row.
    pub(super) fn csv(&self) -> String {
        let mut text = String::new();
        for row in std::iter::once(&self.columns).chain(&self.rows) {
            let cells: Vec<String> = row.iter().map(|cell| quoted(cell)).collect();
            text.push_str(&cells.join(","));
            text.push('\n');
        }
        text
    }

    /// The title, then the columns; numbers, with a mark or without, are aligned to the right.
    pub(super) fn text(&self) -> String {
        let mut text = format!("\n{}\n", self.title);
        let lines = || std::iter::once(&self.columns).chain(&self.rows);
        let width = |at: usize| lines().map(|row| row[at].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let number = |at: usize| {
            self.rows
                .iter()
                .all(|row| row[at].is_empty() || row[at].trim_end_matches(['!', '?']).parse::<f64>().is_ok())
        };
        let right: Vec<bool> = (0..self.columns.len()).map(number).collect();
        for row in lines() {
            let cells = row.iter().zip(widths.iter().zip(&right)).map(|(cell, (&width, &right))| {
                if right { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
            });
            let line = cells.collect::<Vec<_>>().join("  ");
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Splits CSV into rows of cells, by RFC 4180.
fn records(csv: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell, mut within) = (Vec::new(), Vec::new(), String::new(), false);
    let mut characters = csv.chars().peekable();
    while let Some(character) = characters.next() {
        match (character, within) {
            ('"', true) if characters.next_if_eq(&'"').is_some() => cell.push('"'),
            ('"', _) => within = !within,
            (',', false) => row.push(std::mem::take(&mut cell)),
            ('\n', false) => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            ('\r', false) => {}
            (other, _) => cell.push(other),
        }
    }
    if !cell.is_empty() || !row.is_empty() {
        row.push(cell);
        rows.push(row);
    }
    rows
}

/// A cell in the format of RFC 4180.
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.to_owned() }
}

/// A number with `places` digits after the point, or nothing.
pub(super) fn number(value: Option<f64>, places: usize) -> String {
    value.map(|value| format!("{value:.places$}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_they_must_be_and_short_rows_filled() {
        let mut table = Table::new("t", &["a", "b"]);
        table.push(vec!["1,\"2\"".to_owned()]);
        table.push(vec!["x".to_owned(), number(Some(1.25), 1)]);
        assert_eq!(table.csv(), "a,b\n\"1,\"\"2\"\"\",\nx,1.2\n");
        let read = Table::parse("t", &table.csv());
        assert_eq!((read.columns(), read.rows()), (&table.columns[..], &table.rows[..]));
        assert_eq!(Table::parse("t", "a,b\r\n1,2,3\n\n4").rows(), [["1", "2"], ["", ""], ["4", ""]]);
    }

    #[test]
    fn numbers_stand_to_the_right_and_words_to_the_left() {
        let mut table = Table::new("title", &["word", "number"]);
        table.push(vec!["a".to_owned(), "1".to_owned()]);
        table.push(vec!["longer".to_owned(), "22".to_owned()]);
        assert_eq!(table.text(), "\ntitle\nword    number\na            1\nlonger      22\n");
    }
}
