//! Criteria: what placements are judged by. One file each; less is better.
//!
//! A new criterion is a file here that implements [`Measure`], its `mod` line in this one, its line in the list of
//! [`Criterion`], and its program in `policies/` (docs/ARCHITECTURE.md goes through an example). Nothing else in this crate or in `search` names one.

mod annoyance;
mod bottleneck;
mod busiest;
mod communication;
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
use crate::file::SnapshotFile;
use crate::ix::{ActorIx, IxVec, UnitIx};
use crate::room::Rooms;
use crate::{Assignment, Snapshot};

pub use encoding::{Encoding, Facts, Finished, Scaling};

macro_rules! measures {
    ($($(#[doc = $doc:literal])+ $name:ident in $module:ident;)*) => {
        /// In the order of the criteria.
        const MEASURES: &[&dyn Measure] = &[$(&$module::$name),*];
    };
}

each_criterion!(measures);

/// What criteria mean to clingo, in their order.
pub fn programs() -> impl Iterator<Item = &'static str> {
    MEASURES.iter().map(|measure| measure.program())
}

/// How a criterion adds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Over actors: what each costs where it is, whatever others do.
    Actors,
    /// Over pairs of actors.
    Pairs,
    /// Over places and groups: what each costs by what is there.
    Places,
    /// Not a sum of what single actors add to it.
    Whole,
}

/// What is known of one criterion.
pub trait Measure: Sync {
    /// How it adds up; says which of the methods below are asked.
    fn class(&self) -> Class;

    /// Whether it is reported of every placement; the others are worked out only where a level names them.
    fn is_always_told(&self) -> bool {
        false
    }

    /// What an assignment costs, worked out afresh, in exact integers.
    fn value(&self, placed: &Placed) -> i64;

    /// The most that it can amount to.
    fn most(&self, amounts: &Amounts) -> i128;

    /// What it could add up to in a file whose numbers are too large, and what is to blame, as in `units`, `power`.
    fn largest(&self, file: &SnapshotFile, sums: &FileSums) -> Option<(&'static str, &'static str, u128)> {
        let _ = (file, sums);
        None
    }

    /// Of pairs: which part of the sums over pairs counts.
    fn of_pairs(&self, pairs: &PairSums) -> i64 {
        let _ = pairs;
        0
    }

    /// Of actors: where each would cost nothing, and what it costs elsewhere.
    fn homes(&self, snapshot: &Snapshot) -> Vec<Home> {
        let _ = snapshot;
        Vec::new()
    }

    /// Of places and of the whole: its value while actors come and go.
    fn figure(&self, snapshot: &Snapshot) -> Option<Box<dyn Figure>> {
        let _ = snapshot;
        None
    }

    /// How many numbers its figure looks at to say its value; 0 where that is kept up to date with every step.
    fn looks_at(&self, snapshot: &Snapshot) -> usize {
        let _ = snapshot;
        0
    }

    /// Whether its being 0 means that no unit is loaded beyond its capacity, or all are equally far.
    fn is_limit_of_load(&self) -> bool {
        false
    }

    /// What it counts of a unit beside who comes there, its kind and its place: units are symmetric only where that is
    /// equal. What sums over actors and pairs count is looked at anyway; any other criterion has no symmetric units unless
    /// it says so.
    fn tells_apart(&self, snapshot: &Snapshot, rooms: &Rooms, unit: UnitIx) -> Vec<Option<i64>> {
        let _ = (snapshot, rooms);
        match self.class() {
            Class::Actors | Class::Pairs => Vec::new(),
            Class::Places | Class::Whole => vec![Some(i64::from(unit.raw()))],
        }
    }

    /// Says what its program has to know of a world, where a level names it.
    fn facts(&self, world: &Encoding, facts: &mut Facts) {
        let _ = (world, facts);
    }

    /// Says of a finished placement what the program would have to search for otherwise; the program sees that it is right.
    fn witness(&self, world: &Encoding, assignment: &Assignment, facts: &mut Facts) {
        let _ = (world, assignment, facts);
    }

    /// What a solver goes through to judge a finished placement by this, beside ties, counted in facts.
    fn effort_to_judge(&self, world: &Encoding) -> usize {
        let _ = world;
        0
    }

    /// What the program leaves out, because it is so whoever comes; `alone` is the value with fixed actors only.
    fn settled(&self, world: &Encoding, alone: i64) -> i64 {
        let _ = world;
        alone
    }

    /// The largest sum that its program can form of its tuples.
    fn most_sum(&self, world: &Encoding) -> i64 {
        match self.class() {
            Class::Pairs => {
                let message = world.most_message();
                let sums = world.open_edges().map(|(_, edge)| PairSums {
                    exchanged: edge.rate.saturating_mul(message),
                    apart: edge.annoyance,
                    together: edge.interference,
                });
                sums.map(|sums| self.of_pairs(&sums)).fold(0, i64::saturating_add)
            }
            Class::Actors => {
                let homes = self.homes(world.snapshot).into_iter();
                let prices = homes.filter(|home| !world.problem().fixed[home.actor]).map(|home| home.price);
                prices.fold(0, i64::saturating_add)
            }
            Class::Places | Class::Whole => i64::MAX,
        }
    }

    /// The largest sum of numbers of work that its program can form.
    fn most_work(&self, world: &Encoding) -> i64 {
        let _ = world;
        0
    }

    /// By what its values become smaller when numbers of the file are divided.
    fn scaling(&self) -> Scaling {
        match self.class() {
            Class::Actors | Class::Pairs => Scaling::Own,
            Class::Places | Class::Whole => Scaling::Indivisible,
        }
    }

    /// Whether its values grow with exchange costs.
    fn counts_exchange(&self) -> bool {
        false
    }

    /// Whether it adds messages to work: then neither can be divided alone.
    fn adds_messages_to_work(&self) -> bool {
        false
    }

    /// Divides its own numbers in a file.
    fn divide(&self, file: &mut SnapshotFile, divide: &dyn Fn(u64) -> u64) {
        let _ = (file, divide);
    }

    /// What it means to clingo.
    fn program(&self) -> &'static str;
}

/// The value of a criterion under an assignment, actor by actor.
pub trait Figure: Send + Sync {
    /// An actor comes to a unit, or leaves one.
    fn count(&mut self, snapshot: &Snapshot, step: &Step);

    /// What it comes to.
    fn value(&self, snapshot: &Snapshot) -> i64;

    /// What it would come to after a step.
    fn with(&self, snapshot: &Snapshot, step: &Step) -> i64;

    /// What was counted stays for some time: what is asked next differs little from it.
    fn keep(&mut self, snapshot: &Snapshot) {
        let _ = snapshot;
    }

    /// Whether it depends on where an actor is.
    fn concerns(&self, snapshot: &Snapshot, actor: ActorIx) -> bool {
        let _ = (snapshot, actor);
        true
    }

    /// The same again.
    fn boxed(&self) -> Box<dyn Figure>;
}

impl Clone for Box<dyn Figure> {
    fn clone(&self) -> Self {
        self.boxed()
    }
}

/// An actor comes to a unit, or leaves it, and what that makes of the unit.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Who.
    pub actor: ActorIx,
    /// Where.
    pub unit: UnitIx,
    /// Whether it comes.
    pub comes: bool,
    /// The unit's load before and after.
    pub load: (i64, i64),
    /// How many the unit hosts before and after.
    pub hosted: (u64, u64),
}

impl Step {
    /// 1 if it comes, -1 if it leaves.
    pub fn sign(&self) -> i64 {
        if self.comes { 1 } else { -1 }
    }
}

/// What an actor costs wherever it is but at home.
#[derive(Clone, Copy, Debug)]
pub struct Home {
    /// Who.
    pub actor: ActorIx,
    /// Where it costs nothing.
    pub unit: UnitIx,
    /// What it costs elsewhere.
    pub price: i64,
    /// Whether it costs that without a place too.
    pub without_place: bool,
}

/// Sums over pairs of actors that have a place.
#[derive(Clone, Copy, Debug, Default)]
pub struct PairSums {
    /// Σ messages × exchange cost of those on different units.
    pub exchanged: i64,
    /// Σ annoyance of those on different units.
    pub apart: i64,
    /// Σ interference of those that share a unit.
    pub together: i64,
}

impl PairSums {
    /// What one of each sum is worth to criteria with these weights.
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

/// A whole assignment with its loads.
pub struct Placed<'a> {
    /// The world.
    pub snapshot: &'a Snapshot,
    /// Where everybody is.
    pub assignment: &'a Assignment,
    /// By unit: Σ work.
    pub load: IxVec<UnitIx, i64>,
    /// By unit: whether it hosts anything.
    pub in_use: IxVec<UnitIx, bool>,
    /// Over all pairs, each once.
    pub pairs: PairSums,
    /// Where only a part is priced ([`Snapshot::own_part`]): by unit, whether it hosts one of that part.
    pub part: Option<IxVec<UnitIx, bool>>,
}

impl Placed<'_> {
    /// The units that count, with their loads.
    pub fn units(&self) -> impl Iterator<Item = (UnitIx, i64)> {
        let loads = self.load.enumerate().map(|(unit, load)| (unit, *load));
        loads.filter(|(unit, _)| self.part.as_ref().is_none_or(|part| part[*unit]))
    }

    /// Whether an actor counts.
    pub fn counts(&self, actor: ActorIx) -> bool {
        self.part.is_none() || !self.snapshot.is_fixed(actor)
    }
}

/// What sums can reach in a checked snapshot.
pub struct Amounts<'a> {
    /// The world.
    pub snapshot: &'a Snapshot,
    /// Σ over actors of the most work that each is on any kind.
    pub work: i64,
    /// The most that one message can cost.
    pub message: i128,
    /// Over all pairs, each once: messages, annoyance, interference.
    pub edges: (i128, i128, i128),
}

/// What sums can reach in a file that is still to be checked.
pub struct FileSums {
    /// Σ over actors of the most work that each is on any kind.
    pub work: u128,
    /// The most that one message can cost.
    pub message: u128,
}

impl Criterion {
    /// What is known of it.
    pub fn measure(self) -> &'static dyn Measure {
        MEASURES[self as usize]
    }

    /// Whether it is reported of every placement; the others are worked out only where a level names them.
    pub fn is_always_told(self) -> bool {
        self.measure().is_always_told()
    }

    /// Whether it is a figure of the whole, no sum of what single actors add to it.
    pub fn is_of_the_whole(self) -> bool {
        self.measure().class() == Class::Whole
    }
}

/// Σ over units of what each costs by its load and by how many it hosts: the figure of such a criterion.
#[derive(Clone)]
pub(crate) struct OverUnits {
    /// What a unit costs.
    pub cost: fn(&Snapshot, UnitIx, i64, u64) -> i64,
    pub sum: i64,
}

impl OverUnits {
    fn change(&self, snapshot: &Snapshot, step: &Step) -> i64 {
        (self.cost)(snapshot, step.unit, step.load.1, step.hosted.1)
            - (self.cost)(snapshot, step.unit, step.load.0, step.hosted.0)
    }
}

impl Figure for OverUnits {
    fn count(&mut self, snapshot: &Snapshot, step: &Step) {
        self.sum += self.change(snapshot, step);
    }

    fn value(&self, _: &Snapshot) -> i64 {
        self.sum
    }

    fn with(&self, snapshot: &Snapshot, step: &Step) -> i64 {
        self.sum + self.change(snapshot, step)
    }

    fn boxed(&self) -> Box<dyn Figure> {
        Box::new(self.clone())
    }
}

/// Why a sum cannot overflow.
pub(crate) const SUMS_FIT: &str = "worlds whose sums could pass 2^53 are refused on input";

/// A sum that a checked world cannot overflow.
pub(crate) fn add(a: i64, b: i64) -> i64 {
    a.checked_add(b).expect(SUMS_FIT)
}
