//! Measured numbers of applications.

use std::sync::Arc;

use counters::MeasuredNumbers;

use crate::numbers::Exact;
use crate::snapshot::measured::MeasuredDemand;
use crate::{ApplicationKey, Index};

impl Index {
    /// Sets the measured numbers of an application; `None` if there are none.
    pub fn set_measured(&mut self, key: &ApplicationKey, measured: Option<Arc<MeasuredDemand>>) {
        let before = match measured {
            Some(measured) => self.measured.insert(key.clone(), measured),
            None => self.measured.remove(key),
        };
        if before.as_ref() != self.measured.get(key) {
            self.load_changed(key);
        }
    }

    /// The measured numbers of an application under a policy with this window.
    pub fn measured(&self, key: &ApplicationKey, window: Exact) -> Option<&MeasuredNumbers> {
        self.measured.get(key)?.of_window(window)
    }
}
