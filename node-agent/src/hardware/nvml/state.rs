//! What the thread that asks NVML has.

use std::sync::Arc;

use nvml_wrapper::{Nvml, error::NvmlError};

use super::{library::Library, trouble::Trouble};

/// What the thread that asks NVML has.
pub struct State {
    library: Arc<Library>,
    nvml: Option<Nvml>,
}

impl State {
    pub fn new(library: Arc<Library>) -> Self {
        // Whatever is wrong, who asks is told.
        let nvml = library.load().ok();
        Self { library, nvml }
    }

    /// Asks NVML, loading it first where that may have become possible.
    pub fn ask<A>(&mut self, ask: impl FnOnce(&Nvml) -> Result<A, NvmlError>) -> Result<A, Trouble> {
        let nvml = match self.nvml.take() {
            Some(nvml) => nvml,
            None => self.library.load()?,
        };
        let answer = ask(&nvml);
        // A driver that was unloaded or replaced is loaded anew the next time.
        if !answer.as_ref().is_err_and(|error| self.library.doubts_after(error)) {
            self.nvml = Some(nvml);
        }
        Ok(answer?)
    }
}
