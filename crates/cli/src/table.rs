//! Aligned columns.

use crate::style::{Style, Tone};
use crate::text::one_line;

/// Rows under headings. Each column is as wide as its widest cell.
#[derive(Debug)]
pub struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<(String, Tone)>>,
}

impl Table {
    /// A table without rows.
    pub fn new(headings: &[&'static str]) -> Self {
        Self { headings: headings.to_vec(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = (String, Tone)>) {
        self.rows.push(cells.into_iter().map(|(text, tone)| (one_line(&text), tone)).collect());
    }

    /// Renders the table without empty columns.
    pub fn render(&self, style: Style) -> String {
        let shown: Vec<usize> = (0..self.headings.len())
            .filter(|&column| self.rows.iter().any(|row| !row[column].0.is_empty()))
            .collect();
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].0.chars().count());
            cells.chain([self.headings[column].len()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.headings.len()).map(width).collect();
        let line = |cell: &dyn Fn(usize) -> (String, Tone)| {
            let mut line = String::new();
            for (position, &column) in shown.iter().enumerate() {
                let (text, tone) = cell(column);
                let missing = widths[column] - text.chars().count();
                line += &style.paint(tone, &text);
                if position + 1 < shown.len() {
                    line += &" ".repeat(missing + 2);
                }
            }
            line.truncate(line.trim_end().len());
            line + "\n"
        };
        let headings = line(&|column| (self.headings[column].to_owned(), Tone::Heading));
        let rows = self.rows.iter().map(|row| line(&|column| row[column].clone()));
        std::iter::once(headings).chain(rows).collect()
    }
}
