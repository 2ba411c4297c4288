//! The output of the demo: one line per step with the elapsed seconds, tables, and bold text only on a terminal.

use std::{
    cell::RefCell,
    fmt::Display,
    io::{IsTerminal as _, Write as _, stdout},
    time::Instant,
};

/// The output on stdout.
pub struct Story {
    started: Instant,
    terminal: bool,
    /// All of it, without bold text.
    text: RefCell<String>,
}

impl Story {
    /// Starts the clock.
    pub fn begin() -> Self {
        Self { started: Instant::now(), terminal: stdout().is_terminal(), text: RefCell::new(String::new()) }
    }

    /// All output so far.
    pub fn text(&self) -> String {
        self.text.borrow().clone()
    }

    /// A new step, with the time.
    pub fn step(&self, text: impl Display) {
        let seconds = self.started.elapsed().as_secs_f64();
        let time = format!("{seconds:6.1} s ");
        self.record(&format!("{time} {text}"));
        self.print(&format!("{} {text}\n", self.bold(&time)));
    }

    /// A line of the current step; an empty one separates.
    pub fn say(&self, text: impl Display) {
        let line = format!("{MARGIN}{text}");
        let line = line.trim_end();
        self.record(&line.replace(BOLD, "").replace(NORMAL, ""));
        self.print(&format!("{line}\n"));
    }

    fn record(&self, line: &str) {
        let mut text = self.text.borrow_mut();
        text.push_str(line);
        text.push('\n');
    }

    /// The progress of a wait, on a line that the next one overwrites; only on a terminal.
    pub fn progress(&self, text: impl Display) {
        if self.terminal {
            self.print(&format!("{MARGIN}{text}\u{1b}[K\r"));
        }
    }

    /// A table after an empty line, with columns as wide as their widest cell.
    pub fn table<const N: usize>(&self, headings: [&str; N], rows: &[[String; N]]) {
        let width = |column: usize| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.chain([headings[column].len()]).max().unwrap_or_default()
        };
        let line = |cells: [&str; N]| {
            let padded = |(column, cell): (usize, &&str)| format!("{cell:<width$}", width = width(column));
            let line = cells.iter().enumerate().map(padded).collect::<Vec<_>>().join("  ");
            line.trim_end().to_owned()
        };
        self.say("");
        self.say(self.bold(&line(headings)));
        for row in rows {
            self.say(line(row.each_ref().map(String::as_str)));
        }
    }

    fn bold(&self, text: &str) -> String {
        if self.terminal { format!("{BOLD}{text}{NORMAL}") } else { text.to_owned() }
    }

    fn print(&self, text: &str) {
        let clear = if self.terminal { "\u{1b}[K" } else { "" };
        let mut out = stdout().lock();
        // a closed pipe must not prevent the cleanup
        let _ = write!(out, "{clear}{text}").and_then(|()| out.flush());
    }
}

/// Escape sequences of a terminal.
const BOLD: &str = "\u{1b}[1m";
const NORMAL: &str = "\u{1b}[0m";
/// As wide as the time of a step.
const MARGIN: &str = "          ";

/// A number with thousands separators.
pub fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::from(if number < 0 { "-" } else { "" });
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
