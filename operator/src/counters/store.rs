//! The windows of all applications.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use counters::{
    CollectedWindow, GroupProfile, LoadScale, MeasuredNumbers, MembershipTracker, WindowChoice, Windows,
};
use world::{ApplicationKey, LoadRecord};

/// The windows of all applications.
#[derive(Debug, Default)]
pub struct LoadStore(Mutex<BTreeMap<ApplicationKey, ApplicationLoad>>);

/// What is kept of an application.
#[derive(Debug)]
struct ApplicationLoad {
    uid: String,
    windows: Windows,
    tracker: MembershipTracker,
    /// The last search for measured load.
    record: Option<Arc<LoadRecord>>,
}

/// A window to be added: its evaluation time, what was reported, and when the application last changed.
#[derive(Clone, Copy, Debug)]
pub struct NewWindow<'a> {
    /// When it ended, in seconds of Prometheus' clock.
    pub ended_at: f64,
    /// What was reported.
    pub collected: &'a CollectedWindow,
    /// When the application last changed, in seconds of the cluster's clock, as far as its objects say.
    pub last_change: Option<f64>,
    /// How far Prometheus' clock is ahead of the cluster's, in seconds, at most.
    pub ahead: f64,
    /// Whether it ended before the present observation.
    pub is_earlier: bool,
}

impl LoadStore {
    fn all(&self) -> MutexGuard<'_, BTreeMap<ApplicationKey, ApplicationLoad>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Observes the actors of an application, twice in a window.
    ///
    /// Windows under another scale, and those of an application that was recreated, are forgotten.
    pub fn observe(
        &self,
        key: &ApplicationKey,
        uid: &str,
        scale: &LoadScale,
        members: BTreeSet<(String, String)>,
    ) {
        let mut all = self.all();
        let new = || ApplicationLoad {
            uid: uid.to_owned(),
            windows: Windows::new(scale.clone()),
            tracker: MembershipTracker::default(),
            record: None,
        };
        let load = all.entry(key.clone()).or_insert_with(new);
        if load.uid != uid {
            *load = new();
        }
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
            && window
                .last_change
                .is_some_and(|change| change + window.ahead < window.ended_at - 1.5 * seconds);
        let is_settled = is_unchanged || (!window.is_earlier && load.tracker.is_settled());
        load.windows.add(window.ended_at, window.collected, is_settled);
    }

    /// Adds a window without data.
    pub fn add_missing(&self, key: &ApplicationKey) {
        if let Some(load) = self.all().get_mut(key) {
            load.windows.add_missing();
        }
    }

    /// Forgets all windows of an application.
    pub fn forget_windows(&self, key: &ApplicationKey) {
        if let Some(load) = self.all().get_mut(key) {
            load.windows = Windows::new(load.windows.scale().clone());
        }
    }

    /// Forgets deleted applications, and returns them.
    pub fn retain(&self, is_kept: impl Fn(&ApplicationKey) -> bool) -> Vec<ApplicationKey> {
        self.all().extract_if(.., |key, _| !is_kept(key)).map(|(key, _)| key).collect()
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

    /// Forgets the windows of an application before the newest usable ones.
    pub fn keep_newest(&self, key: &ApplicationKey, kept: usize) {
        if let Some(load) = self.all().get_mut(key) {
            load.windows.keep_newest(kept);
        }
    }

    /// Keeps the last search for measured load.
    pub fn record(&self, key: &ApplicationKey, record: LoadRecord) {
        if let Some(load) = self.all().get_mut(key) {
            load.record = Some(Arc::new(record));
        }
    }

    /// The last search for measured load; `None` if there is none.
    pub fn last_search(&self, key: &ApplicationKey) -> Option<Arc<LoadRecord>> {
        self.all().get(key)?.record.clone()
    }

    /// A copy of the windows of an application.
    pub fn windows(&self, key: &ApplicationKey) -> Option<Windows> {
        self.all().get(key).map(|load| load.windows.clone())
    }
}

#[cfg(test)]
mod tests {
    use counters::AnnoyanceScale;

    use super::*;

    fn scale(seconds: f64) -> LoadScale {
        LoadScale { window_seconds: seconds, message_quantum: 1.0, annoyance: AnnoyanceScale::default() }
    }

    /// Whether each kept window is settled, the newest first.
    fn settled(store: &LoadStore, key: &ApplicationKey) -> Vec<bool> {
        let windows = store.windows(key).unwrap();
        windows.summaries().iter().map(|window| window.is_settled).collect()
    }

    #[test]
    fn windows_are_settled_by_observation_or_by_the_age_of_the_pods() {
        let key = ApplicationKey { namespace: "n".to_owned(), name: "a".to_owned() };
        let (store, collected) = (LoadStore::default(), CollectedWindow::default());
        let observe = |pod: &str| {
            let members = [("a-0".to_owned(), pod.to_owned())].into();
            store.observe(&key, "uid", &scale(10.0), members);
        };
        let add = |ended_at, last_change, is_earlier| {
            store.add(
                &key,
                &NewWindow { ended_at, collected: &collected, last_change, ahead: 0.0, is_earlier },
            );
        };
        observe("p");
        add(100.0, Some(84.0), false);
        add(90.0, Some(84.0), true);
        add(80.0, None, true);
        assert_eq!(settled(&store, &key), [true, false, false]);
        // A change, and then three half windows without one.
        for (pod, ended_at, expected) in
            [("q", 105.0, false), ("q", 110.0, false), ("q", 115.0, false), ("q", 120.0, true)]
        {
            observe(pod);
            add(ended_at, Some(0.0), false);
            assert_eq!(settled(&store, &key)[0], expected, "{ended_at}");
        }
        store.add_missing(&key);
        assert_eq!(settled(&store, &key)[..2], [false, true]);
    }

    #[test]
    fn the_age_of_pods_is_compared_on_prometheus_clock() {
        let key = ApplicationKey { namespace: "n".to_owned(), name: "a".to_owned() };
        let collected = CollectedWindow::default();
        // The pods changed at second 1000 of the cluster's clock.
        for (ahead, ended_at, expected) in [
            (0.0, 1014.0, false),
            (0.0, 1016.0, true),
            (60.0, 1016.0, false),
            (60.0, 1074.0, false),
            (60.0, 1076.0, true),
            (-60.0, 954.0, false),
            (-60.0, 956.0, true),
        ] {
            let store = LoadStore::default();
            store.observe(&key, "uid", &scale(10.0), BTreeSet::new());
            let window = NewWindow {
                ended_at,
                collected: &collected,
                last_change: Some(1000.0),
                ahead,
                is_earlier: false,
            };
            store.add(&key, &window);
            assert_eq!(settled(&store, &key), [expected], "{ahead} {ended_at}");
        }
    }

    #[test]
    fn windows_of_another_scale_or_application_are_forgotten() {
        let key = ApplicationKey { namespace: "n".to_owned(), name: "a".to_owned() };
        let store = LoadStore::default();
        let count = |uid: &str, seconds| {
            store.observe(&key, uid, &scale(seconds), BTreeSet::new());
            store.add_missing(&key);
            settled(&store, &key).len()
        };
        assert_eq!([count("1", 10.0), count("1", 10.0), count("1", 20.0), count("1", 20.0)], [1, 2, 1, 2]);
        assert_eq!([count("2", 20.0), count("2", 20.0)], [1, 2]);
        assert!(store.retain(|_| true).is_empty());
        assert_eq!(store.retain(|_| false), std::slice::from_ref(&key), "its load is no longer planned for");
        assert!(store.windows(&key).is_none());
    }
}
