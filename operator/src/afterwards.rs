//! What is placed at once is judged when it is decided: a process takes ten times as long as the decision, for which somebody waits.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use kube::runtime::events::EventType;
use placement::{Judged, Plan, Snapshot};
use portfolio::ClingoJudge;
use tokio::sync::Semaphore;
use world::ApplicationKey;

use crate::caches::object_ref;
use crate::context::Context;
use crate::error::Error;
use crate::metrics::Metrics;
use crate::report::event;

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
    turn: Semaphore,
}

impl Default for Afterwards {
    fn default() -> Self {
        Self { waiting: Mutex::default(), turn: Semaphore::new(1) }
    }
}

impl Afterwards {
    /// Keeps what is to be judged; whether somebody is to be sent for it. Who is not judged for that is counted.
    fn put(&self, key: &ApplicationKey, placed: Placed, metrics: &Metrics) -> bool {
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

    fn take(&self, key: &ApplicationKey) -> Option<Placed> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(key)
    }
}

/// Has clingo judge what is decided already, one after the other, and of each application the last.
///
/// Where it does not agree that is told and counted, and the snapshot is kept; whatever it says, the application is searched
/// when there is time.
pub fn judge(key: &ApplicationKey, placed: Placed, ctx: &Arc<Context>) {
    if !ctx.afterwards.put(key, placed, &ctx.metrics) {
        return;
    }
    let (key, ctx) = (key.clone(), ctx.clone());
    let task = async move {
        let Ok(_turn) = ctx.afterwards.turn.acquire().await else { return };
        let Some(Placed { snapshot, plan, judge }) = ctx.afterwards.take(&key) else { return };
        let world = snapshot.clone();
        let task = tokio::task::spawn_blocking(move || plan.judged_again(&world, &judge));
        let judged = match task.await {
            Ok(judged) => ctx.mismatches.judged_afterwards(&key, &snapshot, judged, &ctx.metrics),
            Err(problem) => Err(Error::Search(problem.to_string())),
        };
        if let Err(problem) = judged {
            tracing::error!(problem = problem.chain(), "what was placed at once is not confirmed");
            if let Some(application) = ctx.caches.applications.get(&object_ref(&key)) {
                let told = event(EventType::Warning, problem.reason(), "Plan", problem.chain());
                ctx.tell(&*application, &told).await;
            }
        }
    };
    tokio::spawn(tracing::Instrument::instrument(task, tracing::Span::current()));
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
