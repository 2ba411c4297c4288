//! Standard output for the result alone: METIS prints there that it was asked for too many parts.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::os::fd::AsFd as _;

use crate::Failure;

/// Standard output, put aside: what libraries print goes to standard error, also what C's library still holds at the end.
pub struct Aside(File);

impl Aside {
    /// Puts standard output aside until the program ends.
    pub fn new() -> Result<Self, Failure> {
        let aside = std::io::stdout().as_fd().try_clone_to_owned()?;
        nix::unistd::dup2_stdout(std::io::stderr())?;
        Ok(Self(aside.into()))
    }

    /// Prints a result; that the reader has gone away is no error.
    pub fn print(mut self, text: &str) -> Result<(), Failure> {
        match self.0.write_all(text.as_bytes()) {
            Err(source) if source.kind() != ErrorKind::BrokenPipe => Err(source.into()),
            _ => Ok(()),
        }
    }
}
