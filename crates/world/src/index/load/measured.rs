//! Measured numbers of applications.

use std::sync::Arc;

use counters::MeasuredNumbers;
use crds::{ActorApplication, RebalanceMode};

use crate::numbers::Exact;
use crate::snapshot::measured::MeasuredDemand;
use crate::{ApplicationKey, Index, Policy};

impl Index {
    /// Counters of applications are read: windows judge moves for load, also while there are none.
    pub fn expect_counters(&mut self) {
        self.reads_counters = true;
    }

    /// Nothing is measured of an application, and nothing is expected: the manifest's numbers hold.
    pub fn set_unmeasured(&mut self, key: &ApplicationKey) {
        self.set_measured(key, None);
        self.unmeasured.insert(key.clone());
    }

    /// Whether windows judge moves of an application for load, whether or not it is measured at present.
    pub fn is_judged_by_windows(
        &self,
        (key, application): (&ApplicationKey, &ActorApplication),
        policy: &Policy,
    ) -> bool {
        let mode = application.spec.rebalance.unwrap_or(policy.rebalance.mode);
        self.reads_counters && mode != RebalanceMode::Off && !self.unmeasured.contains(key)
    }

    /// Sets the measured numbers of an application; `None` if there are none, or not yet.
    pub fn set_measured(&mut self, key: &ApplicationKey, measured: Option<Arc<MeasuredDemand>>) {
        self.unmeasured.remove(key);
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
