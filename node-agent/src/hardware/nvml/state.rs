//! The NVML session of a thread.

use std::sync::Arc;

use nvml_wrapper::{Nvml, error::NvmlError};

use super::{failure::NvmlFailure, library::Library};

/// An NVML session, which is opened again after the driver was unloaded or replaced.
pub struct Session {
    library: Arc<Library>,
    nvml: Option<Nvml>,
}

impl Session {
    pub fn new(library: Arc<Library>) -> Self {
        // The first query reports an error.
        let nvml = library.load().ok();
        Self { library, nvml }
    }

    /// Calls NVML, and loads it first if necessary.
    pub fn query<T>(&mut self, call: impl FnOnce(&Nvml) -> Result<T, NvmlError>) -> Result<T, NvmlFailure> {
        let nvml = match self.nvml.take() {
            Some(nvml) => nvml,
            None => self.library.load()?,
        };
        let result = call(&nvml);
        // After the driver was unloaded or replaced, the next query loads the library again.
        if !result.as_ref().is_err_and(|error| self.library.invalidate_after(error)) {
            self.nvml = Some(nvml);
        }
        Ok(result?)
    }
}
