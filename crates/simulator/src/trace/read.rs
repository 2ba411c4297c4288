//! Reader of trace files: line by line, in bounded memory.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::rows::{Builder, HEADER, Row, Trace};

/// A trace error: location, problem and remedy.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be opened or read.
    #[error("{}: cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("{}: cannot be written", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A line is invalid.
    #[error("{}: line {line}: {problem}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// Problem and remedy.
        problem: String,
    },
}

/// An iterator-like reader of rows that holds one line at a time.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    path: PathBuf,
    line: usize,
    text: Vec<u8>,
}

impl<R: BufRead> Reader<R> {
    /// Reads the header from `input`; `path` is used in errors only.
    ///
    /// # Errors
    /// The first line is not the header.
    pub fn new(input: R, path: &Path) -> Result<Self, TraceError> {
        let mut reader = Self { input, path: path.to_owned(), line: 0, text: Vec::new() };
        reader.next_line()?;
        if !is_header(&reader.text) {
            return Err(reader.wrong(format!(
                "the first line is {}; it must be the header {HEADER}",
                quoted(&String::from_utf8_lossy(&reader.text))
            )));
        }
        Ok(reader)
    }

    /// Number of the last line read, from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    /// Reads the next row; `None` at the end.
    ///
    /// # Errors
    /// The file cannot be read, or the line is not a row.
    pub fn read(&mut self) -> Result<Option<Row>, TraceError> {
        if !self.next_line()? {
            return Ok(None);
        }
        match parse(&self.text) {
            Ok(row) => Ok(Some(row)),
            Err(problem) => Err(self.wrong(problem)),
        }
    }

    fn next_line(&mut self) -> Result<bool, TraceError> {
        self.text.clear();
        let read = self.input.read_until(b'\n', &mut self.text);
        let read = read.map_err(|source| TraceError::Read { path: self.path.clone(), source })?;
        self.line += usize::from(read > 0 || self.line == 0);
        for end in [b'\n', b'\r'] {
            if self.text.last() == Some(&end) {
                self.text.pop();
            }
        }
        Ok(read > 0)
    }

    fn wrong(&self, problem: String) -> TraceError {
        TraceError::Line { path: self.path.clone(), line: self.line, problem }
    }
}

/// Whether a line has the names of the header; published traces have blanks after the commas.
fn is_header(line: &[u8]) -> bool {
    let names = |text: &'static str| text.split(',').map(str::as_bytes);
    line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).eq(names(HEADER))
}

fn parse(line: &[u8]) -> Result<Row, String> {
    let text = str::from_utf8(line).map_err(|_| format!("the line is not text; a row is {HEADER}"))?;
    let mut fields = text.split(',');
    let (at, from, time, to) = (fields.next(), fields.next(), fields.next(), fields.next());
    let (Some(at), Some(from), Some(time), Some(to), None) = (at, from, time, to, fields.next()) else {
        let count = text.split(',').count();
        return Err(format!(
            "{count} fields in {}; a row has four, {HEADER} (is the line cut off?)",
            quoted(text)
        ));
    };
    Ok(Row {
        at: number(at, "src_ts", "a number")?,
        from: number(from, "src_id", "the number of an actor")?,
        time: number(time, "dst_ts", "a number")?,
        to: number(to, "dst_id", "the number of an actor")?,
    })
}

fn number<T: FromStr>(text: &str, field: &str, wanted: &str) -> Result<T, String> {
    text.trim().parse().map_err(|_| format!("{field} is {}; it must be {wanted}", quoted(text)))
}

/// The start of a text in quotation marks, as lines can have any length.
fn quoted(text: &str) -> String {
    let start = text.char_indices().nth(80).map_or(text, |(end, _)| &text[..end]);
    format!("{start:?}{}", if start.len() < text.len() { "…" } else { "" })
}

/// Reads a whole trace file into memory: 24 bytes a row.
///
/// # Errors
/// The first invalid line.
pub fn read_file(path: &Path) -> Result<Trace, TraceError> {
    let file = File::open(path).map_err(|source| TraceError::Read { path: path.to_owned(), source })?;
    let mut reader = Reader::new(BufReader::with_capacity(1 << 18, file), path)?;
    let mut builder = Builder::default();
    while let Some(row) = reader.read()? {
        builder.add(row, reader.line()).map_err(|problem| reader.wrong(problem))?;
    }
    builder.finish().map_err(|(line, problem)| TraceError::Line { path: path.to_owned(), line, problem })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Reader, TraceError};

    fn last_error(text: &str) -> String {
        let mut reader = match Reader::new(text.as_bytes(), Path::new("t.csv")) {
            Ok(reader) => reader,
            Err(error) => return error.to_string(),
        };
        loop {
            match reader.read() {
                Ok(Some(_)) => {}
                Ok(None) => return "none".to_owned(),
                Err(error) => return error.to_string(),
            }
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_file_line_and_what_to_do() {
        let header = "src_ts,src_id,dst_ts,dst_id\n";
        let long = format!("{},0,2,0\n", "x".repeat(90));
        let cut = format!("t.csv: line 2: src_ts is \"{}\"…; it must be a number", "x".repeat(80));
        let cases: [(&str, &str); 9] = [
            ("", "t.csv: line 1: the first line is \"\"; it must be the header src_ts,src_id,dst_ts,dst_id"),
            (
                "1,0,2,0\n",
                "t.csv: line 1: the first line is \"1,0,2,0\"; it must be the header src_ts,src_id,dst_ts,dst_id",
            ),
            (
                "1,0,2,0\n1,0",
                "t.csv: line 3: 2 fields in \"1,0\"; a row has four, src_ts,src_id,dst_ts,dst_id (is the line cut off?)",
            ),
            (
                "\n",
                "t.csv: line 2: 1 fields in \"\"; a row has four, src_ts,src_id,dst_ts,dst_id (is the line cut off?)",
            ),
            (
                "1,0,2,0,5\n",
                "t.csv: line 2: 5 fields in \"1,0,2,0,5\"; a row has four, src_ts,src_id,dst_ts,dst_id (is the line cut off?)",
            ),
            (&long, &cut),
            ("x,0,2,0\n", "t.csv: line 2: src_ts is \"x\"; it must be a number"),
            ("1,-1,2,0\n", "t.csv: line 2: src_id is \"-1\"; it must be the number of an actor"),
            ("1,0,2,0\r\n1.5, 0,2,0", "none"),
        ];
        for (index, (rows, expected)) in cases.into_iter().enumerate() {
            let text = if index < 2 { rows.to_owned() } else { format!("{header}{rows}") };
            assert_eq!(last_error(&text), expected, "{rows:?}");
        }
    }

    #[test]
    fn blanks_around_the_names_of_the_header_are_ignored() {
        for header in ["src_ts, src_id, dst_ts, dst_id", " src_ts,src_id ,\tdst_ts,dst_id \r"] {
            let text = format!("{header}\n1, 0, 2, 0\n");
            let mut reader = Reader::new(text.as_bytes(), Path::new("t.csv")).unwrap();
            let row = reader.read().unwrap().unwrap();
            assert_eq!((row.at, row.from, row.time, row.to), (1.0, 0, 2.0, 0), "{header:?}");
        }
        for header in ["src_ts src_id dst_ts dst_id", "src_ts,src_id,dst_ts", "src_ts,src_id,dst_ts,dst_id,"]
        {
            assert!(last_error(&format!("{header}\n")).contains("it must be the header"), "{header:?}");
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = super::read_file(Path::new("nowhere/t.csv")).unwrap_err();
        assert!(matches!(error, TraceError::Read { .. }));
        assert!(error.to_string().starts_with("nowhere/t.csv: cannot be read"), "{error}");
    }
}
