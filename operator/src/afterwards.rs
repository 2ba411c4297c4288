//! What is placed at once is judged when it is decided: a process takes ten times as long as the decision, for which somebody waits.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use placement::{Judged, Plan, Snapshot};
use portfolio::ClingoJudge;
use tokio::sync::Semaphore;
use world::ApplicationKey;

use crate::metrics::Metrics;

/// Worlds that are kept for it; where more wait, the newest are not judged.
const MOST_WAITING: usize = 8;

/// A plan that is decided, what it was decided in, and who judges it.
pub struct Placed {
    pub snapshot: Arc<Snapshot>,
    pub plan: Plan,
    pub judge: ClingoJudge,
}

/// What waits to be judged, the last of each application, and whose turn it is.
pub struct Afterwards {
    waiting: Mutex<BTreeMap<ApplicationKey, Placed>>,
    /// One is judged at a time.
    pub turn: Semaphore,
}

impl Default for Afterwards {
    fn default() -> Self {
        Self { waiting: Mutex::default(), turn: Semaphore::new(1) }
    }
}

impl Afterwards {
    /// Keeps what is to be judged; whether somebody is to be sent for it. Who is not judged for that is counted.
    pub fn put(&self, key: &ApplicationKey, placed: Placed, metrics: &Metrics) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let (is_known, is_full) = (waiting.contains_key(key), waiting.len() >= MOST_WAITING);
        if is_known || is_full {
            metrics.judged.with_label_values(&[<&str>::from(Judged::None)]).inc();
        }
        if is_known || !is_full {
            waiting.insert(key.clone(), placed);
        }
        !is_known && !is_full
    }

    /// What is to be judged of an application.
    pub fn take(&self, key: &ApplicationKey) -> Option<Placed> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(key)
    }
}

#[cfg(test)]
mod tests {
    use placement::{Budget, NoPolicy, plan};
    use portfolio::{Limits, Use, strategy};
    use prometheus::Registry;

    use super::*;

    #[test]
    fn the_last_of_each_is_judged_and_who_is_not_is_counted() {
        let (afterwards, metrics) = (Afterwards::default(), Metrics::new(Registry::new()).unwrap());
        let snapshot = r#"{"version":1,"units":[],"actors":[],"exchangeCost":{}}"#;
        let snapshot = Arc::new(Snapshot::read(snapshot).unwrap());
        let greedy = strategy("greedy", Use::Production).unwrap().make(Limits::default());
        let mut decided = plan(&snapshot, &*greedy, &NoPolicy, &Budget::effort(Some(1), 1)).unwrap();
        let mut put = |name: usize, effort| {
            decided.effort = effort;
            let judge = ClingoJudge::new(Limits::default(), 1);
            let placed = Placed { snapshot: snapshot.clone(), plan: decided.clone(), judge };
            let key = ApplicationKey { namespace: "shop".into(), name: name.to_string() };
            (afterwards.put(&key, placed, &metrics), key)
        };
        let (is_first, key) = put(0, 1);
        assert!(is_first, "somebody is sent for it");
        assert!(!put(0, 2).0, "who is sent takes the last");
        assert_eq!((1..=MOST_WAITING).filter(|name| put(*name, 1).0).count(), MOST_WAITING - 1);
        assert_eq!(metrics.judged.with_label_values(&["none"]).get(), 2);
        assert_eq!(afterwards.take(&key).unwrap().plan.effort, 2);
        assert!(afterwards.take(&key).is_none());
    }
}
