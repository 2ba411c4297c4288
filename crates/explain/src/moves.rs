//! Single moves from one assignment, with what the policy's rules say of them.

use placement::ix::{ActorIx, UnitIx};
use placement::{Assignment, Criterion, Ruling, Snapshot, State};

/// An assignment from which one actor at a time is taken off and looked at elsewhere.
pub(crate) struct Moves<'a> {
    pub state: State<'a>,
    ruling: Option<Ruling<'a>>,
    /// Which level counts who is excused, and which penalties.
    levels: [Option<usize>; 2],
}

impl<'a> Moves<'a> {
    pub fn new(snapshot: &'a Snapshot, assignment: &Assignment) -> Self {
        let level = |criterion: Criterion| {
            snapshot.objectives().levels().iter().position(|level| level.contains(&criterion))
        };
        Self {
            state: State::of(snapshot, assignment),
            ruling: snapshot.rules().map(|rules| Ruling::of(rules, assignment)),
            levels: [Criterion::Excused, Criterion::Policy].map(level),
        }
    }

    /// Takes an actor off its unit, and says which that was.
    pub fn take(&mut self, actor: ActorIx) -> Option<UnitIx> {
        let unit = self.state.take(actor)?;
        if let Some(ruling) = &mut self.ruling {
            ruling.take(actor, unit);
        }
        Some(unit)
    }

    pub fn put(&mut self, actor: ActorIx, unit: UnitIx) {
        self.state.put(actor, unit);
        if let Some(ruling) = &mut self.ruling {
            ruling.put(actor, unit);
        }
    }

    /// What the levels would be, those that others decide left out, if the actor, which has no place now, were on the
    /// unit: two such prices differ by as much as the wholes do.
    pub fn price(&mut self, actor: ActorIx, unit: UnitIx) -> Vec<i64> {
        let mut price = self.state.price(actor, unit);
        if let Some(ruling) = &mut self.ruling {
            ruling.put(actor, unit);
            let [excused, policy] = self.levels;
            for (level, value) in [(excused, ruling.excused()), (policy, ruling.penalty())] {
                if let Some(level) = level {
                    price[level] += value;
                }
            }
            ruling.take(actor, unit);
        }
        price
    }

    /// The cases of the policy's rules that would be broken if the actor, which has no place now, were on the unit.
    pub fn broken_cases(&mut self, actor: ActorIx, unit: UnitIx) -> Vec<usize> {
        let Some(ruling) = &mut self.ruling else { return Vec::new() };
        ruling.put(actor, unit);
        let broken = if ruling.degree() > 0 { ruling.broken().collect() } else { Vec::new() };
        ruling.take(actor, unit);
        broken
    }
}
