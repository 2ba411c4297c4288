//! Clingo's verdict on a plan before it is committed: counted, and on a disagreement reported, with the snapshot kept.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use placement::{JudgeError, Plan, PlanError, Snapshot, SolveError};
use world::ApplicationKey;

use crate::error::Error;
use crate::runtime::metrics::{MISMATCH, Metrics};

/// The consequence of a disagreement.
const DISCARDED: &str = "the plan is discarded";

/// How many snapshots are kept.
const MAX_KEPT: usize = 4;

/// Snapshots of plans that clingo disagreed with, the last one per application, for bug reports.
#[derive(Clone, Default)]
pub struct Mismatches(Arc<Mutex<BTreeMap<ApplicationKey, String>>>);

impl Mismatches {
    /// The snapshot of the last such plan.
    pub fn of(&self, key: &ApplicationKey) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Counts a verdict, and keeps the snapshot on a disagreement.
    ///
    /// # Errors
    /// Why there is no plan.
    pub fn judged(
        &self,
        key: &ApplicationKey,
        snapshot: &Snapshot,
        planned: Result<Plan, PlanError>,
        metrics: &Metrics,
    ) -> Result<Plan, Error> {
        let count = |judged: &str| metrics.judged.with_label_values(&[judged]).inc();
        match planned {
            Ok(plan) => {
                count(plan.judged.into());
                Ok(plan)
            }
            Err(defect) if let Some(problem) = disagreement(&defect) => {
                count(MISMATCH);
                let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                if kept.len() >= MAX_KEPT && !kept.contains_key(key) {
                    kept.pop_first();
                }
                kept.insert(key.clone(), snapshot.write());
                let ApplicationKey { namespace, name } = key;
                Err(Error::Mismatch(format!(
                    "{problem}; {DISCARDED}. This is a bug: attach the response of /debug/mismatch/{namespace}/{name} to \
                     a report"
                )))
            }
            Err(other) => Err(other.into()),
        }
    }
}

/// What the planner holds against the answer of clingo or of the search.
fn disagreement(error: &PlanError) -> Option<String> {
    match error {
        PlanError::Judge(JudgeError::Mismatch(problem)) => {
            Some(format!("clingo rejects the plan: {problem}"))
        }
        PlanError::Solve {
            source: source @ (SolveError::Mismatch { .. } | SolveError::Proof(_)), ..
        } => Some(source.to_string()),
        PlanError::Infeasible { .. } | PlanError::Claim { .. } => Some(error.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use placement::{Budget, plan};
    use portfolio::{ClingoJudge, Limits, Purpose, strategy};
    use prometheus::Registry;

    use super::*;

    #[test]
    fn a_mismatch_is_counted_and_its_snapshot_is_kept() {
        let (mismatches, metrics) = (Mismatches::default(), Metrics::new(Registry::new()).unwrap());
        let snapshot = Snapshot::read(r#"{"version":1,"units":[],"actors":[],"exchangeCost":{}}"#).unwrap();
        let key = |name: usize| ApplicationKey { namespace: "shop".into(), name: name.to_string() };
        assert_eq!(mismatches.of(&key(0)), None);
        for name in 0..6 {
            let differs = Err(match name {
                0 => PlanError::Judge(JudgeError::Mismatch("1 is not 2".into())),
                1 => PlanError::Infeasible { strategy: "asp", violations: Vec::new() },
                2 => PlanError::Claim { strategy: "asp", claimed: vec![0, 3], found: vec![0, 2] },
                _ => {
                    let source = SolveError::Mismatch { reported: "1".to_owned(), exact: "2".to_owned() };
                    PlanError::Solve { strategy: "asp", source }
                }
            });
            let refused = mismatches.judged(&key(name), &snapshot, differs, &metrics).unwrap_err();
            assert_eq!((refused.reason(), refused.is_reported()), ("Mismatch", true));
            let says = [
                "1 is not 2",
                "asp proposed what is not feasible",
                "asp claims that no placement costs less than [0, 3], and one costs [0, 2]",
                "the solver's costs 1 differ from the exact 2",
            ];
            let (chain, says) = (refused.chain(), says[name.min(3)]);
            assert!(chain.contains(says) && chain.contains("the plan is discarded"), "{chain}");
        }
        let kept: Vec<usize> = (0..6).filter(|name| mismatches.of(&key(*name)).is_some()).collect();
        assert_eq!((kept, mismatches.of(&key(5))), (vec![2, 3, 4, 5], Some(snapshot.write())));
        assert_eq!(metrics.judged.with_label_values(&[MISMATCH]).get(), 6);
    }

    /// From a judge with wrong numbers to the metric, the error and the kept snapshot.
    #[test]
    fn a_plan_is_discarded_when_the_judge_disagrees() {
        let text = r#"{"version":1,"units":[{"id":"u","kind":"cpu","node":"n","capacity":9}],"actors":[{"id":"shop/app/a",
            "runsOn":{"cpu":1}}],"exchangeCost":{"otherKind":1},"policy":{"name":"p","program":":~ run_on(A,_). [1,A]"}}"#;
        let snapshot = Snapshot::read(text).unwrap();
        let executable = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/other-numbers.sh");
        let judge = ClingoJudge::with_executable(executable, Limits::default(), 2_000);
        let greedy = strategy("greedy", Purpose::Production).unwrap().make(Limits::default());
        let planned = plan(&snapshot, &*greedy, &judge, &Budget::effort(Some(100), 1));
        let (mismatches, metrics) = (Mismatches::default(), Metrics::new(Registry::new()).unwrap());
        let key = ApplicationKey { namespace: "shop".into(), name: "app".into() };
        let refused = mismatches.judged(&key, &snapshot, planned, &metrics).unwrap_err();
        assert_eq!(refused.reason(), "Mismatch", "what the event is called");
        let says = "policy p: its ground rules cost 1, but clingo computes 7; the plan is discarded";
        assert!(refused.chain().contains(says), "{}", refused.chain());
        assert_eq!(metrics.judged.with_label_values(&[MISMATCH]).get(), 1);
        let kept = Snapshot::read(&mismatches.of(&key).unwrap()).unwrap();
        assert_eq!(kept.write(), snapshot.write(), "and it can be planned again elsewhere");
    }
}
