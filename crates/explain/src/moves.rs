//! Single moves from an assignment, including the policy's rules.

use placement::ix::{ActorIx, UnitIx};
use placement::{Assignment, Criterion, RuleEvaluator, Snapshot, State};

/// An assignment from which one actor at a time is moved.
pub(crate) struct Moves<'a> {
    pub state: State<'a>,
    evaluator: Option<RuleEvaluator<'a>>,
    /// The levels that count grandfathered violations, and penalties.
    levels: [Option<usize>; 2],
}

impl<'a> Moves<'a> {
    pub fn new(snapshot: &'a Snapshot, assignment: &Assignment) -> Self {
        let level = |criterion: Criterion| {
            snapshot.objectives().levels().iter().position(|level| level.contains(&criterion))
        };
        Self {
            state: State::of(snapshot, assignment),
            evaluator: snapshot.rules().map(|rules| RuleEvaluator::of(rules, assignment)),
            levels: [Criterion::Excused, Criterion::Policy].map(level),
        }
    }

    /// Removes an actor from its unit, and returns the unit.
    pub fn take(&mut self, actor: ActorIx) -> Option<UnitIx> {
        let unit = self.state.take(actor)?;
        if let Some(evaluator) = &mut self.evaluator {
            evaluator.take(actor, unit);
        }
        Some(unit)
    }

    pub fn put(&mut self, actor: ActorIx, unit: UnitIx) {
        self.state.put(actor, unit);
        if let Some(evaluator) = &mut self.evaluator {
            evaluator.put(actor, unit);
        }
    }

    /// The actor's share of each level if it were on the unit; it has no place now. Two such prices differ by as much as the
    /// costs of the whole assignments.
    pub fn price(&mut self, actor: ActorIx, unit: UnitIx) -> Vec<i64> {
        let mut price = self.state.price(actor, unit);
        if let Some(evaluator) = &mut self.evaluator {
            evaluator.put(actor, unit);
            let [excused, policy] = self.levels;
            for (level, value) in [(excused, evaluator.excused()), (policy, evaluator.penalty())] {
                if let Some(level) = level {
                    price[level] += value;
                }
            }
            evaluator.take(actor, unit);
        }
        price
    }

    /// The policy cases that would be violated if the actor, which has no place now, were on the unit.
    pub fn broken_cases(&mut self, actor: ActorIx, unit: UnitIx) -> Vec<usize> {
        let Some(evaluator) = &mut self.evaluator else { return Vec::new() };
        evaluator.put(actor, unit);
        let broken = if evaluator.degree() > 0 { evaluator.broken().collect() } else { Vec::new() };
        evaluator.take(actor, unit);
        broken
    }
}
