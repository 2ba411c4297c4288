//! Exact integer costs of an assignment.

use std::collections::BTreeMap;

use strum::{EnumCount as _, IntoEnumIterator as _};

use crate::criteria::{PairSums, Placed, SUMS_FIT, add};
use crate::evaluation::tally::channel_sums;
use crate::file::format::Constraint;
use crate::ix::{ActorIx, IxVec, UnitIx};
use crate::{Assignment, Criterion, Objectives, Snapshot};

/// The cost of an assignment: unplaced actors, then every criterion that needs no judge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Actors without a place.
    pub unplaced: i64,
    /// Penalties from the judge; 0 before it was asked.
    pub policy: i64,
    /// By criterion, except `policy` ([`Cost::of`]); 0 for criteria that are only computed if a level names them.
    pub values: [i64; Criterion::COUNT],
}

impl Cost {
    /// The same with another value of one criterion.
    #[must_use]
    pub fn with(mut self, criterion: Criterion, value: i64) -> Self {
        match criterion {
            Criterion::Policy => self.policy = value,
            other => self.values[other as usize] = value,
        }
        self
    }

    /// The vector as text, `unplaced` omitted if it is 0.
    pub fn in_words(&self, snapshot: &Snapshot) -> String {
        let levels = snapshot.objectives().levels().iter();
        let mut words: Vec<String> = levels
            .map(|level| {
                let value: i64 = level.iter().map(|criterion| self.of(*criterion)).sum();
                format!("{} {value}", Objectives::key(level))
            })
            .collect();
        if self.unplaced > 0 {
            words.insert(0, format!("unplaced {}", self.unplaced));
        }
        words.join(", ")
    }

    /// The value of one criterion.
    pub fn of(&self, criterion: Criterion) -> i64 {
        match criterion {
            Criterion::Policy => self.policy,
            other => self.values[other as usize],
        }
    }

    /// The vector that is compared: unplaced actors, then each level of the snapshot's objectives.
    pub fn vector(&self, snapshot: &Snapshot) -> Vec<i64> {
        let levels = snapshot.objectives().levels();
        std::iter::once(self.unplaced)
            .chain(levels.iter().map(|level| level.iter().map(|criterion| self.of(*criterion)).sum()))
            .collect()
    }

    /// The criteria by name: the five that are always reported, and those of the objectives.
    pub fn by_name(&self, snapshot: &Snapshot) -> BTreeMap<String, i64> {
        Criterion::named()
            .filter(|criterion| criterion.is_always_reported() || snapshot.objectives().names(*criterion))
            .map(|criterion| (criterion.to_string(), self.of(criterion)))
            .collect()
    }
}

impl Snapshot {
    /// Prices an assignment exactly, feasible or not, with `policy` left 0.
    ///
    /// An actor on a kind that it does not support causes no load. Sums are checked: a snapshot in which one could
    /// exceed 2^53 is refused on input.
    pub fn cost(&self, assignment: &Assignment) -> Cost {
        let placed = Placed::new(self, assignment, false);
        let unplaced = assignment.iter().filter(|place| place.is_none()).count();
        let mut cost = Cost {
            unplaced: i64::try_from(unplaced).expect("there are no more than actors"),
            ..Cost::default()
        };
        for criterion in Criterion::iter() {
            if criterion.is_always_reported() || self.objectives().names(criterion) {
                cost.values[criterion as usize] = criterion.measure().value(&placed);
            }
        }
        cost
    }

    /// An application's own share of the total cost `whole`: edges with an own end, its own moves and groups, and for criteria over
    /// units those that host its actors, with all their load. Latency, policy penalties and grandfathered violations are not divided,
    /// as they are no sums over actors.
    #[must_use]
    pub fn own_part(&self, assignment: &Assignment, whole: &Cost) -> Cost {
        let placed = Placed::new(self, assignment, true);
        let is_part = |criterion: &Criterion| {
            !matches!(criterion, Criterion::Latency | Criterion::Policy | Criterion::Excused)
                && (criterion.is_always_reported() || self.objectives().names(*criterion))
        };
        let parts = Criterion::iter().filter(is_part);
        parts.fold(whole.clone(), |own, criterion| own.with(criterion, criterion.measure().value(&placed)))
    }

    /// A load in thousandths of the unit's capacity, rounded up.
    pub fn fullness(&self, unit: UnitIx, load: i64) -> i64 {
        let capacity = i128::from(self.capacity(unit));
        i64::try_from((i128::from(load) * 1000 + capacity - 1) / capacity).expect(SUMS_FIT)
    }

    /// The value of the criterion `policy`: the penalties of the policy's rules, and the weights of preferences
    /// whose actor is placed elsewhere.
    pub fn penalty(&self, assignment: &Assignment) -> i64 {
        let of_rules = self.rules().map_or(0, |rules| rules.penalty(assignment));
        let missed = self.file().constraints.iter().filter_map(|constraint| {
            let Constraint::Prefer { actor, unit, weight } = constraint else { return None };
            let place = assignment[self.problem.actor_by_id[actor]]?;
            (place != self.problem.unit_by_id[unit]).then(|| i64::try_from(*weight).expect(SUMS_FIT))
        });
        missed.fold(of_rules, add)
    }
}

impl<'a> Placed<'a> {
    /// With `own_only`, contributions of fixed actors alone are left out.
    fn new(snapshot: &'a Snapshot, assignment: &'a Assignment, own_only: bool) -> Self {
        let problem = snapshot.problem();
        let counts = |actor: ActorIx| !own_only || !snapshot.is_fixed(actor);
        let mut placed = Self {
            part: None,
            snapshot,
            assignment,
            load: IxVec::of(0, snapshot.units()),
            in_use: IxVec::of(false, snapshot.units()),
            pairs: PairSums::default(),
        };
        let pairs = &mut placed.pairs;
        for (actor, place) in assignment.enumerate() {
            let Some(unit) = *place else { continue };
            let work = problem.implementation(actor, unit).map_or(0, |needs| needs.work);
            placed.load[unit] = add(placed.load[unit], work);
            placed.in_use[unit] |= counts(actor);
            let edges = problem.edges[actor].iter().filter(|edge| edge.peer > actor);
            for edge in edges.filter(|edge| counts(actor) || counts(edge.peer)) {
                let Some(other) = assignment[edge.peer] else { continue };
                if unit == other {
                    pairs.together = add(pairs.together, edge.interference);
                } else {
                    let price = edge.rate.checked_mul(problem.exchange_cost(unit, other)).expect(SUMS_FIT);
                    pairs.exchanged = add(pairs.exchanged, price);
                    pairs.apart = add(pairs.apart, edge.annoyance);
                }
            }
        }
        placed.add_channels(own_only);
        placed.part = own_only.then(|| placed.in_use.clone());
        placed
    }

    /// Adds the cost of group channels that no edge represents.
    fn add_channels(&mut self, own_only: bool) {
        let problem = self.snapshot.problem();
        let all = channel_sums(problem, self.assignment, |_| true);
        // Channels among fixed actors belong to no application.
        let is_left_out = |actor| own_only && self.snapshot.is_fixed(actor);
        let others = channel_sums(problem, self.assignment, is_left_out);
        self.pairs.exchanged = add(self.pairs.exchanged, all.exchanged - others.exchanged);
        self.pairs.apart = add(self.pairs.apart, all.apart - others.apart);
    }
}
