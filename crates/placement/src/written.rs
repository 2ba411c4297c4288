//! Limits of a file that what runs breaks already, written out as rules beside those of a policy.

use std::collections::BTreeMap;

use crate::file::SnapshotFile;
use crate::ix::{ActorIx, IxVec, KindIx, NodeIx, UnitIx};
use crate::problem::Problem;
use crate::rules::{GroundConstraint, GroundRule};
use crate::{Lifted, LiftedLimit, Rules};

/// What is left of a limit that was taken off: more than any sum of a sound world, and far from where adding wraps.
pub(crate) const UNLIMITED: i64 = 1 << 60;

/// Literals above which a limit is not written out: then it binds, and the checker excuses nobody of it either.
pub(crate) const MOST_LITERALS: usize = 1_000_000;

/// Who is where now, by unit and by node, ascending.
pub(crate) struct Now<'a> {
    pub file: &'a SnapshotFile,
    pub problem: &'a Problem,
    pub on_unit: IxVec<UnitIx, Vec<ActorIx>>,
    pub on_node: IxVec<NodeIx, Vec<(ActorIx, UnitIx)>>,
    /// By kind: how many units are of it.
    of_kind: IxVec<KindIx, usize>,
}

impl<'a> Now<'a> {
    pub fn new(file: &'a SnapshotFile, problem: &'a Problem) -> Self {
        let mut on_unit = IxVec::of(Vec::new(), problem.capacity.len());
        let mut on_node = IxVec::of(Vec::new(), problem.nodes.len());
        for (actor, place) in problem.current.enumerate() {
            if let Some(unit) = *place {
                on_unit[unit].push(actor);
                on_node[problem.unit_node[unit]].push((actor, unit));
            }
        }
        let mut of_kind: IxVec<KindIx, usize> = IxVec::of(0, problem.kinds.len());
        problem.unit_kind.iter().for_each(|kind| of_kind[*kind] += 1);
        Self { file, problem, on_unit, on_node, of_kind }
    }

    /// At how many units an actor is written of at most: those of its kinds, and the one that it is on; of a fixed one that alone.
    pub fn places(&self, actor: ActorIx) -> usize {
        if self.problem.fixed[actor] {
            return 1;
        }
        let kinds = self.problem.implementations[actor].iter().zip(&self.of_kind);
        1 + kinds.filter(|(way, _)| way.is_some()).map(|(_, units)| units).sum::<usize>()
    }

    /// Whether so much is used by all, and some of it by who can move.
    pub fn is_broken(&self, uses: impl Iterator<Item = (ActorIx, i64)>, limit: i64) -> bool {
        let (mut sum, mut ours) = (0, false);
        for (actor, amount) in uses.filter(|(_, amount)| *amount > 0) {
            sum += amount;
            ours |= !self.problem.fixed[actor];
        }
        ours && sum > limit.max(0)
    }
}

/// Rules that are being written for the limits of a file.
pub(crate) struct Writer<'a> {
    pub file: &'a SnapshotFile,
    pub problem: &'a Problem,
    pub lifted: &'a Lifted,
    /// Whether every unit is a place of everybody who can move, for who asks what would be without some limits.
    pub everywhere: bool,
    written: Written,
    next: u32,
}

/// Rules before anybody asked what they excuse.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written {
    ground: Vec<GroundRule>,
    inputs: BTreeMap<(ActorIx, UnitIx), u32>,
    demands: Vec<GroundConstraint>,
}

impl<'a> Writer<'a> {
    pub fn new(file: &'a SnapshotFile, problem: &'a Problem, everywhere: bool) -> Self {
        Self { file, problem, lifted: &problem.lifted, everywhere, written: Written::default(), next: 1 }
    }

    pub fn finish(self) -> Written {
        self.written
    }

    /// The literal that says that an actor is on a unit.
    pub fn at(&mut self, actor: ActorIx, unit: UnitIx) -> i32 {
        let atom = *self.written.inputs.entry((actor, unit)).or_insert_with(|| {
            self.next += 1;
            self.next - 1
        });
        literal(atom)
    }

    /// The units on which an actor can be, and the one that it is on though it cannot, ascending.
    pub fn places(&self, actor: ActorIx) -> Vec<UnitIx> {
        if self.everywhere && !self.problem.fixed[actor] {
            return self.problem.capacity.positions().collect();
        }
        let mut units = self.problem.candidates(actor).to_vec();
        if let Some(here) = self.problem.current[actor]
            && let Err(position) = units.binary_search(&here)
        {
            units.insert(position, here);
        }
        units
    }

    /// Whether a unit is one of those.
    pub fn is_place(&self, actor: ActorIx, unit: UnitIx) -> bool {
        let problem = self.problem;
        (self.everywhere && !problem.fixed[actor])
            || problem.current[actor] == Some(unit)
            || problem.candidates(actor).binary_search(&unit).is_ok()
    }

    /// Has a limit written out; of every unit, where that is asked, only if it is small enough for that.
    pub fn everywhere_if(&mut self, is_small: bool, write: impl FnOnce(&mut Self)) {
        let is_asked = self.everywhere;
        self.everywhere &= is_small;
        write(self);
        self.everywhere = is_asked;
    }

    /// The literal that holds where a body does, whose weights are above 0; written in lowest terms, so that a limit says the
    /// same in any units of measurement.
    pub fn if_sum(&mut self, lower: i64, mut body: Vec<(i32, i64)>) -> i32 {
        let head = self.next;
        self.next += 1;
        let common = body.iter().fold(0, |common, (_, weight)| gcd(common, *weight)).max(1);
        for (_, weight) in &mut body {
            *weight /= common;
        }
        let lower = (lower - 1).div_euclid(common) + 1;
        self.written.ground.push(GroundRule { head, lower, body, any: false });
        literal(head)
    }

    /// The literal that holds where so many of these do.
    pub fn at_least(&mut self, count: i64, of: &[i32]) -> i32 {
        self.if_sum(count, of.iter().map(|literal| (*literal, 1)).collect())
    }

    /// The literal that holds where one of these does.
    pub fn any(&mut self, of: &[i32]) -> i32 {
        if let [one] = *of { one } else { self.at_least(1, of) }
    }

    /// What must not be.
    pub fn never(&mut self, literal: i32, limit: LiftedLimit, says: String) {
        let (atom, rule) = (literal.unsigned_abs(), says.clone());
        self.written.demands.push(GroundConstraint { atom, rule, says, limit: Some(limit) });
    }

    /// What is used must not pass a limit.
    pub fn at_most(&mut self, uses: &[(ActorIx, UnitIx, i64)], most: i64, limit: LiftedLimit, says: String) {
        let taken = uses.iter().filter(|(.., amount)| *amount > 0);
        let body = taken.map(|&(actor, unit, amount)| (self.at(actor, unit), amount)).collect();
        let passed = self.if_sum(most.max(0) + 1, body);
        self.never(passed, limit, says);
    }
}

impl Written {
    pub fn is_empty(&self) -> bool {
        self.demands.is_empty()
    }

    /// These rules beside those of a policy.
    ///
    /// # Errors
    /// When they take more atoms than can be numbered.
    pub fn beside(&self, policy: Rules) -> Result<Rules, String> {
        let actors = policy.inputs.len();
        let shift = u32::try_from(policy.atoms()).map_err(|_| "there are too many atoms".to_owned())?;
        let mut atoms: BTreeMap<u32, u32> = BTreeMap::new();
        let Rules { mut ground, inputs: known, mut demands, penalties, .. } = policy;
        let of_policy =
            known.enumerate().flat_map(|(actor, of)| of.iter().map(move |(u, a)| (actor, *u, *a)));
        let mut inputs: Vec<(ActorIx, UnitIx, u32)> = of_policy.collect();
        for (&(actor, unit), &atom) in &self.inputs {
            let theirs = known.get(actor).into_iter().flatten().find(|(at, _)| *at == unit);
            let mapped = theirs.map_or(atom + shift, |(_, theirs)| *theirs);
            atoms.insert(atom, mapped);
            if theirs.is_none() {
                inputs.push((actor, unit, mapped));
            }
        }
        let mapped = |atom: u32| atoms.get(&atom).copied().unwrap_or(atom + shift);
        let turned = |part: i32| literal(mapped(part.unsigned_abs())) * part.signum();
        ground.extend(self.ground.iter().map(|rule| GroundRule {
            head: mapped(rule.head),
            lower: rule.lower,
            body: rule.body.iter().map(|(part, weight)| (turned(*part), *weight)).collect(),
            any: rule.any,
        }));
        let own = self.demands.iter();
        demands.extend(own.map(|demand| GroundConstraint { atom: mapped(demand.atom), ..demand.clone() }));
        Rules::new(actors, ground, &inputs, demands, penalties)
    }
}

fn literal(atom: u32) -> i32 {
    i32::try_from(atom).expect("limits of too many literals are not written out")
}

/// Euclid's greatest common divisor.
pub(crate) fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
