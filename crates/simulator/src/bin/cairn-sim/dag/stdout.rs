//! Reserves standard output for the result: METIS prints a warning there if it gets more parts than vertices.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::os::fd::AsFd as _;

use crate::Failure;

/// The real standard output; file descriptor 1 points to standard error, also for output that the C library still buffers.
pub struct ReservedStdout(File);

impl ReservedStdout {
    /// Redirects file descriptor 1 until the program ends.
    pub fn new() -> Result<Self, Failure> {
        let stdout = std::io::stdout().as_fd().try_clone_to_owned()?;
        nix::unistd::dup2_stdout(std::io::stderr())?;
        Ok(Self(stdout.into()))
    }

    /// Prints a result; a closed pipe is not an error.
    pub fn print(mut self, text: &str) -> Result<(), Failure> {
        match self.0.write_all(text.as_bytes()) {
            Err(source) if source.kind() != ErrorKind::BrokenPipe => Err(source.into()),
            _ => Ok(()),
        }
    }
}
