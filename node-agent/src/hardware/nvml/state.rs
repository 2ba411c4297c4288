//! The state of the NVML thread.

use std::sync::Arc;

use nvml_wrapper::{Nvml, error::NvmlError};

use super::{library::Library, trouble::Trouble};

/// The state of the NVML thread.
pub struct State {
    library: Arc<Library>,
    nvml: Option<Nvml>,
}

impl State {
    pub fn new(library: Arc<Library>) -> Self {
        // The requests report any error.
        let nvml = library.load().ok();
        Self { library, nvml }
    }

    /// Calls NVML, after loading it if that may have become possible.
    pub fn ask<A>(&mut self, ask: impl FnOnce(&Nvml) -> Result<A, NvmlError>) -> Result<A, Trouble> {
        let nvml = match self.nvml.take() {
            Some(nvml) => nvml,
            None => self.library.load()?,
        };
        let answer = ask(&nvml);
        // A driver that was unloaded or replaced is loaded again next time.
        if !answer.as_ref().is_err_and(|error| self.library.doubts_after(error)) {
            self.nvml = Some(nvml);
        }
        Ok(answer?)
    }
}
