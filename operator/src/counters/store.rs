//! The windows of all applications.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use counters::{
    CollectedWindow, GroupProfile, LoadScale, MeasuredNumbers, MembershipTracker, WindowChoice, Windows,
};
use world::ApplicationKey;

/// The windows of all applications.
#[derive(Debug, Default)]
pub struct LoadStore(Mutex<BTreeMap<ApplicationKey, ApplicationLoad>>);

/// What is kept of an application.
#[derive(Debug)]
struct ApplicationLoad {
    windows: Windows,
    tracker: MembershipTracker,
}

/// A window to be added: its evaluation time, what was reported, and when the application last changed.
#[derive(Clone, Copy, Debug)]
pub struct NewWindow<'a> {
    /// When it ended, in seconds of Prometheus' clock.
    pub ended_at: f64,
    /// What was reported.
    pub collected: &'a CollectedWindow,
    /// When the application last changed, in seconds since the epoch, as far as its objects say.
    pub last_change: Option<f64>,
    /// Whether it ended before the present observation.
    pub is_earlier: bool,
}

impl LoadStore {
    fn all(&self) -> MutexGuard<'_, BTreeMap<ApplicationKey, ApplicationLoad>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Observes the actors of an application, twice in a window; windows under another scale are forgotten.
    pub fn observe(&self, key: &ApplicationKey, scale: &LoadScale, members: BTreeSet<(String, String)>) {
        let mut all = self.all();
        let load = all.entry(key.clone()).or_insert_with(|| ApplicationLoad {
            windows: Windows::new(scale.clone()),
            tracker: MembershipTracker::default(),
        });
        if load.windows.scale() != scale {
            load.windows = Windows::new(scale.clone());
        }
        load.tracker.observe(members);
    }

    /// Adds a window of an application that was observed.
    pub fn add(&self, key: &ApplicationKey, window: &NewWindow) {
        let mut all = self.all();
        let Some(load) = all.get_mut(key) else { return };
        let seconds = load.windows.scale().window_seconds;
        // Before this replica led, only objects say what changed.
        let is_unchanged = !load.tracker.has_changed()
            && window.last_change.is_some_and(|change| change < window.ended_at - 1.5 * seconds);
        let is_settled = is_unchanged || (!window.is_earlier && load.tracker.is_settled());
        load.windows.add(window.ended_at, window.collected, is_settled);
    }

    /// Adds a window without data.
    pub fn add_missing(&self, key: &ApplicationKey) {
        if let Some(load) = self.all().get_mut(key) {
            load.windows.add_missing();
        }
    }

    /// Forgets deleted applications.
    pub fn retain(&self, is_kept: impl Fn(&ApplicationKey) -> bool) {
        self.all().retain(|key, _| is_kept(key));
    }

    /// The measured numbers of an application; `None` before its first window.
    pub fn measured(
        &self,
        key: &ApplicationKey,
        profiles: &BTreeMap<String, GroupProfile>,
        choice: WindowChoice,
    ) -> Option<MeasuredNumbers> {
        self.all().get(key).map(|load| load.windows.measure(profiles, choice))
    }

    /// A copy of the windows of an application.
    pub fn windows(&self, key: &ApplicationKey) -> Option<Windows> {
        self.all().get(key).map(|load| load.windows.clone())
    }
}
