//! Criteria by which placements are compared. One file each; less is better.
//!
//! A new criterion is a file here that implements [`Measure`], its `mod` line in this one, its line in the list of
//! [`Criterion`], and its program in `policies/` (docs/ARCHITECTURE.md goes through an example). Nothing else in this crate or in `search` names one.

mod annoyance;
mod bottleneck;
mod busiest;
mod communication;
pub mod congestion;
mod consolidate;
mod drags;
pub mod encoding;
mod energy;
mod excused;
mod interference;
mod latency;
mod licence;
mod migration;
mod overload;
mod policy;
mod spread;

use crate::criterion::{Criterion, each_criterion};
use crate::file::format::SnapshotFile;
use crate::ix::{ActorIx, IxVec, UnitIx};
use crate::problem::room::Rooms;
use crate::{Assignment, Snapshot};

pub use encoding::{Encoding, Facts, Finished, Scaling};

macro_rules! measures {
    ($($(#[doc = $doc:literal])+ $name:ident in $module:ident;)*) => {
        /// In the order of the criteria.
        const MEASURES: &[&dyn Measure] = &[$(&$module::$name),*];
    };
}

each_criterion!(measures);

/// The programs of the criteria, in order.
pub fn programs() -> impl Iterator<Item = &'static str> {
    MEASURES.iter().map(|measure| measure.program())
}

/// The structure of a criterion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CriterionClass {
    /// A sum over actors: the cost of each depends on its unit alone.
    Actors,
    /// A sum over pairs of actors.
    Pairs,
    /// A sum over units, domains or groups of a function of what they host.
    Places,
    /// Not a sum of contributions of single actors.
    NonAdditive,
}

/// The implementation of one criterion.
pub trait Measure: Sync {
    /// Its structure, which determines the methods below that are called.
    fn class(&self) -> CriterionClass;

    /// Whether it is always reported; the others are only computed if a level names them.
    fn is_always_reported(&self) -> bool {
        false
    }

    /// The exact integer value of an assignment, computed from scratch.
    fn value(&self, placed: &Placed) -> i64;

    /// An upper bound of its value.
    fn most(&self, amounts: &Amounts) -> i128;

    /// An upper bound in an unchecked file, and the field that it is due to, such as `units`, `power`.
    fn largest(&self, file: &SnapshotFile, sums: &FileSums) -> Option<(&'static str, &'static str, u128)> {
        let _ = (file, sums);
        None
    }

    /// For pairs: the relevant part of the sums over pairs.
    fn of_pairs(&self, pairs: &PairSums) -> i64 {
        let _ = pairs;
        0
    }

    /// For actors: the unit where each costs nothing, and its cost elsewhere.
    fn preferred_units(&self, snapshot: &Snapshot) -> Vec<UnaryPreference> {
        let _ = snapshot;
        Vec::new()
    }

    /// For the other structures: its value, updated incrementally.
    fn incremental_term(&self, snapshot: &Snapshot) -> Option<Box<dyn IncrementalTerm>> {
        let _ = snapshot;
        None
    }

    /// The number of values that its incremental term reads to compute its value; 0 if that is updated with every step.
    fn evaluation_cost(&self, snapshot: &Snapshot) -> usize {
        let _ = snapshot;
        0
    }

    /// Whether a value of 0 means that no unit is overloaded, or all equally.
    fn is_limit_of_load(&self) -> bool {
        false
    }

    /// What it counts of a unit besides its actors, its kind and its domains: units are symmetric only if that is
    /// equal. Sums over actors and pairs are compared anyway; any other criterion has no symmetric units unless
    /// it overrides this.
    fn symmetry_key(&self, snapshot: &Snapshot, rooms: &Rooms, unit: UnitIx) -> Vec<Option<i64>> {
        let _ = (snapshot, rooms);
        match self.class() {
            CriterionClass::Actors | CriterionClass::Pairs => Vec::new(),
            CriterionClass::Places | CriterionClass::NonAdditive => vec![Some(i64::from(unit.raw()))],
        }
    }

    /// Writes the facts that its program needs, if a level names it.
    fn facts(&self, world: &Encoding, facts: &mut Facts) {
        let _ = (world, facts);
    }

    /// Writes, for a finished placement, facts that its program would otherwise search for; the program verifies them.
    fn witness(&self, world: &Encoding, assignment: &Assignment, facts: &mut Facts) {
        let _ = (world, assignment, facts);
    }

    /// The effort of a solver to verify it on a finished placement, apart from edges, in facts.
    fn effort_to_judge(&self, world: &Encoding) -> usize {
        let _ = world;
        0
    }

    /// The constant part that the program leaves out; `alone` is the value with fixed actors only.
    fn constant_part(&self, world: &Encoding, alone: i64) -> i64 {
        let _ = world;
        alone
    }

    /// The largest sum of its program's tuples.
    fn most_sum(&self, world: &Encoding) -> i64 {
        match self.class() {
            CriterionClass::Pairs => {
                let message = world.most_message();
                let sums = world.open_edges().map(|(_, edge)| PairSums {
                    exchanged: edge.rate.saturating_mul(message),
                    apart: edge.annoyance,
                    together: edge.interference,
                });
                sums.map(|sums| self.of_pairs(&sums)).fold(0, i64::saturating_add)
            }
            CriterionClass::Actors => {
                let homes = self.preferred_units(world.snapshot).into_iter();
                let prices = homes.filter(|home| !world.problem().fixed[home.actor]).map(|home| home.price);
                prices.fold(0, i64::saturating_add)
            }
            CriterionClass::Places | CriterionClass::NonAdditive => i64::MAX,
        }
    }

    /// The largest sum of work in its program.
    fn most_work(&self, world: &Encoding) -> i64 {
        let _ = world;
        0
    }

    /// How its values shrink if numbers of the file are divided.
    fn scaling(&self) -> Scaling {
        match self.class() {
            CriterionClass::Actors | CriterionClass::Pairs => Scaling::Own,
            CriterionClass::Places | CriterionClass::NonAdditive => Scaling::Indivisible,
        }
    }

    /// Whether its values grow with exchange costs.
    fn counts_exchange(&self) -> bool {
        false
    }

    /// Whether it adds messages to work, so that neither can be divided alone.
    fn adds_messages_to_work(&self) -> bool {
        false
    }

    /// Whether it compares numbers of messages with others, so that they cannot be divided alone.
    fn counts_messages(&self) -> bool {
        self.adds_messages_to_work()
    }

    /// Divides its own numbers in a file.
    fn divide(&self, file: &mut SnapshotFile, divide: &dyn Fn(u64) -> u64) {
        let _ = (file, divide);
    }

    /// Its program for clingo.
    fn program(&self) -> &'static str;
}

/// The value of a criterion under an assignment, updated actor by actor.
pub trait IncrementalTerm: Send + Sync {
    /// Applies the addition or removal of an actor.
    fn count(&mut self, snapshot: &Snapshot, step: &Step);

    /// Its value.
    fn value(&self, snapshot: &Snapshot) -> i64;

    /// Its value after a step.
    fn with(&self, snapshot: &Snapshot, step: &Step) -> i64;

    /// Commits the present state: the next queries will differ little from it.
    fn keep(&mut self, snapshot: &Snapshot) {
        let _ = snapshot;
    }

    /// Whether it depends on an actor's unit.
    fn concerns(&self, snapshot: &Snapshot, actor: ActorIx) -> bool {
        let _ = (snapshot, actor);
        true
    }

    /// A boxed copy.
    fn boxed(&self) -> Box<dyn IncrementalTerm>;
}

impl Clone for Box<dyn IncrementalTerm> {
    fn clone(&self) -> Self {
        self.boxed()
    }
}

/// The addition of an actor to a unit or its removal, with the effect on the unit.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// The actor.
    pub actor: ActorIx,
    /// The unit.
    pub unit: UnitIx,
    /// Whether it is added.
    pub comes: bool,
    /// The unit's load before and after.
    pub load: (i64, i64),
    /// The unit's number of actors before and after.
    pub hosted: (u64, u64),
}

impl Step {
    /// 1 for an addition, -1 for a removal.
    pub fn sign(&self) -> i64 {
        if self.comes { 1 } else { -1 }
    }
}

/// An actor's cost on every unit but one.
#[derive(Clone, Copy, Debug)]
pub struct UnaryPreference {
    /// The actor.
    pub actor: ActorIx,
    /// The unit where it costs nothing.
    pub unit: UnitIx,
    /// Its cost elsewhere.
    pub price: i64,
    /// Whether that applies if it is unplaced, too.
    pub without_place: bool,
}

/// Sums over pairs of placed actors.
#[derive(Clone, Copy, Debug, Default)]
pub struct PairSums {
    /// Σ messages × exchange cost of pairs on different units.
    pub exchanged: i64,
    /// Σ annoyance of pairs on different units.
    pub apart: i64,
    /// Σ interference of pairs that share a unit.
    pub together: i64,
}

impl PairSums {
    /// The weight of each sum under these weights of criteria.
    pub fn weighed(criteria: &[(Criterion, i64)]) -> Self {
        let of = |one: Self| -> i64 {
            criteria.iter().map(|(criterion, weight)| weight * criterion.measure().of_pairs(&one)).sum()
        };
        Self {
            exchanged: of(Self { exchanged: 1, ..Self::default() }),
            apart: of(Self { apart: 1, ..Self::default() }),
            together: of(Self { together: 1, ..Self::default() }),
        }
    }
}

/// An assignment with its loads.
pub struct Placed<'a> {
    /// The snapshot.
    pub snapshot: &'a Snapshot,
    /// The placements.
    pub assignment: &'a Assignment,
    /// By unit: Σ work.
    pub load: IxVec<UnitIx, i64>,
    /// By unit: whether it hosts anything.
    pub in_use: IxVec<UnitIx, bool>,
    /// Over all pairs, each once.
    pub pairs: PairSums,
    /// If only a share is priced ([`Snapshot::own_part`]): by unit, whether it hosts an actor of that share.
    pub part: Option<IxVec<UnitIx, bool>>,
}

impl Placed<'_> {
    /// The relevant units, with their loads.
    pub fn units(&self) -> impl Iterator<Item = (UnitIx, i64)> {
        let loads = self.load.enumerate().map(|(unit, load)| (unit, *load));
        loads.filter(|(unit, _)| self.part.as_ref().is_none_or(|part| part[*unit]))
    }

    /// Whether an actor counts.
    pub fn counts(&self, actor: ActorIx) -> bool {
        self.part.is_none() || !self.snapshot.is_fixed(actor)
    }
}

/// Upper bounds of sums in a checked snapshot.
pub struct Amounts<'a> {
    /// The snapshot.
    pub snapshot: &'a Snapshot,
    /// Σ over actors of their largest work on any kind.
    pub work: i64,
    /// The maximum cost of one message.
    pub message: i128,
    /// Over all pairs, each once: messages, annoyance, interference.
    pub edges: (i128, i128, i128),
}

/// Upper bounds of sums in an unchecked file.
pub struct FileSums {
    /// Σ over actors of their largest work on any kind.
    pub work: u128,
    /// The maximum cost of one message.
    pub message: u128,
}

impl Criterion {
    /// Its implementation.
    pub fn measure(self) -> &'static dyn Measure {
        MEASURES[self as usize]
    }

    /// Whether it is always reported; the others are only computed if a level names them.
    pub fn is_always_reported(self) -> bool {
        self.measure().is_always_reported()
    }

    /// Whether it is not a sum of contributions of single actors.
    pub fn is_non_additive(self) -> bool {
        self.measure().class() == CriterionClass::NonAdditive
    }
}

/// Σ over units of a function of load and number of actors: the incremental term of such a criterion.
#[derive(Clone)]
pub(crate) struct OverUnits {
    /// The cost of a unit.
    pub cost: fn(&Snapshot, UnitIx, i64, u64) -> i64,
    pub sum: i64,
}

impl OverUnits {
    fn change(&self, snapshot: &Snapshot, step: &Step) -> i64 {
        (self.cost)(snapshot, step.unit, step.load.1, step.hosted.1)
            - (self.cost)(snapshot, step.unit, step.load.0, step.hosted.0)
    }
}

impl IncrementalTerm for OverUnits {
    fn count(&mut self, snapshot: &Snapshot, step: &Step) {
        self.sum += self.change(snapshot, step);
    }

    fn value(&self, _: &Snapshot) -> i64 {
        self.sum
    }

    fn with(&self, snapshot: &Snapshot, step: &Step) -> i64 {
        self.sum + self.change(snapshot, step)
    }

    fn boxed(&self) -> Box<dyn IncrementalTerm> {
        Box::new(self.clone())
    }
}

/// Why a sum cannot overflow.
pub(crate) const SUMS_FIT: &str = "worlds whose sums could pass 2^53 are refused on input";

/// A sum that cannot overflow in a checked snapshot.
pub(crate) fn add(a: i64, b: i64) -> i64 {
    a.checked_add(b).expect(SUMS_FIT)
}
