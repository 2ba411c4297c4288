//! A decision that is not there is made from what is observed.

use std::collections::BTreeMap;

use placement::{Answer, Budget, Snapshot, SolveError, Strategy};

/// Whoever runs somewhere stays there, and `search` looks for places for the others alone: a deleted decision reshuffles
/// nothing.
///
/// Where what runs is not feasible, or a policy's rules are about places, `search` has the whole.
pub struct Observed(pub Box<dyn Strategy>);

impl Strategy for Observed {
    fn name(&self) -> &'static str {
        "observed"
    }

    fn summary(&self) -> &'static str {
        "what runs stays where it is, and places are looked for only for the rest"
    }

    fn solve(&self, snapshot: &Snapshot, budget: &Budget) -> Result<Answer, SolveError> {
        let search = &self.0;
        if snapshot.rules().is_some() || !snapshot.violations(&snapshot.incumbent()).is_empty() {
            return search.solve(snapshot, budget);
        }
        let mut file = snapshot.file().clone();
        for actor in file.actors.iter_mut().filter(|actor| actor.current.is_some()) {
            actor.fixed = true;
        }
        let Ok(rest) = Snapshot::new(file) else { return search.solve(snapshot, budget) };
        let answer = search.solve(&rest, budget)?;
        // What is proven, is proven of the rest alone.
        Ok(Answer { optimal: false, bound: BTreeMap::new(), ..answer })
    }
}
