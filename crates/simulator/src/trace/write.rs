//! Writer of trace files, row by row.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::read::TraceError;
use super::rows::{HEADER, Row};

/// Writes rows one by one; times in the shortest form that parses to the same number.
#[derive(Debug)]
pub struct Writer<W: Write> {
    output: W,
}

impl<W: Write> Writer<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn new(mut output: W) -> io::Result<Self> {
        writeln!(output, "{HEADER}")?;
        Ok(Self { output })
    }

    /// Writes one row.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&mut self, row: Row) -> io::Result<()> {
        writeln!(self.output, "{},{},{},{}", row.at, row.from, row.time, row.to)
    }

    /// Flushes the output.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// Writes a whole trace file, in bounded memory.
///
/// # Errors
/// The file cannot be written.
pub fn write_file(path: &Path, rows: impl IntoIterator<Item = Row>) -> Result<(), TraceError> {
    let write = || -> io::Result<()> {
        let mut writer = Writer::new(BufWriter::with_capacity(1 << 18, File::create(path)?))?;
        for row in rows {
            writer.write(row)?;
        }
        writer.finish()
    };
    write().map_err(|source| TraceError::Write { path: path.to_owned(), source })
}
