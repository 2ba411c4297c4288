//! Already violated limits as rules, beside those of a policy.

use std::cell::Cell;
use std::collections::BTreeMap;

use num_integer::gcd;

use crate::file::format::SnapshotFile;
use crate::ix::{ActorIx, IxVec, KindIx, NodeIx, UnitIx};
use crate::problem::dense::Problem;
use crate::rules::ground::{GroundConstraint, GroundRule};
use crate::{Rules, SuspendedLimit, SuspendedLimits};

/// The remaining quantity of a suspended limit: more than any valid sum, and far from overflow.
pub(crate) const UNLIMITED: i64 = 1 << 60;

/// Memory for all suspended limits of a snapshot as rules, while they are grounded and grandfathered.
const MEMORY: usize = 512 << 20;

/// Memory of a literal, rounded up: in bodies before and after grandfathering, in the index of its uses, and as a placement.
const BYTES_PER_LITERAL: usize = 512;

/// Literals of all suspended limits together. A limit for which too few are left is not grounded: it binds, and the checker
/// grandfathers no violation of it.
pub(crate) const MOST_LITERALS: usize = MEMORY / BYTES_PER_LITERAL;

/// Literals that are left of [`MOST_LITERALS`].
struct LiteralBudget(Cell<usize>);

impl LiteralBudget {
    fn new() -> Self {
        Self(Cell::new(MOST_LITERALS))
    }

    /// Takes literals; false, and none taken, if too few are left.
    fn take(&self, literals: usize) -> bool {
        let left = self.0.get().checked_sub(literals);
        left.inspect(|left| self.0.set(*left)).is_some()
    }
}

/// What runs now, by unit and by node, ascending.
pub(crate) struct CurrentPlacement<'a> {
    pub file: &'a SnapshotFile,
    pub problem: &'a Problem,
    pub on_unit: IxVec<UnitIx, Vec<ActorIx>>,
    pub on_node: IxVec<NodeIx, Vec<(ActorIx, UnitIx)>>,
    /// By kind: the number of its units.
    of_kind: IxVec<KindIx, usize>,
    /// By kind: the number of movable actors that support it.
    movable: IxVec<KindIx, usize>,
    budget: LiteralBudget,
}

impl<'a> CurrentPlacement<'a> {
    pub fn new(file: &'a SnapshotFile, problem: &'a Problem) -> Self {
        let mut on_unit = IxVec::of(Vec::new(), problem.capacity.len());
        let mut on_node = IxVec::of(Vec::new(), problem.nodes.len());
        for (actor, place) in problem.running.enumerate() {
            if let Some(unit) = *place {
                on_unit[unit].push(actor);
                on_node[problem.unit_node[unit]].push((actor, unit));
            }
        }
        let mut of_kind: IxVec<KindIx, usize> = IxVec::of(0, problem.kinds.len());
        problem.unit_kind.iter().for_each(|kind| of_kind[*kind] += 1);
        let mut movable: IxVec<KindIx, usize> = IxVec::of(0, problem.kinds.len());
        for actor in &problem.movable {
            let ways = problem.implementations[*actor].enumerate().filter(|(_, way)| way.is_some());
            ways.for_each(|(kind, _)| movable[kind] += 1);
        }
        Self { file, problem, on_unit, on_node, of_kind, movable, budget: LiteralBudget::new() }
    }

    /// Takes the literals of a limit; false if the limits before it have left too few.
    pub fn affords(&self, literals: usize) -> bool {
        self.budget.take(literals)
    }

    /// The maximum number of actors that are represented on a unit: those that support its kind, and those there.
    pub fn visitors(&self, unit: UnitIx) -> usize {
        self.movable[self.problem.unit_kind[unit]] + self.on_unit[unit].len()
    }

    /// The maximum number of units on which an actor is represented: those of its kinds, and the one where it runs; one for a fixed actor.
    pub fn places(&self, actor: ActorIx) -> usize {
        if self.problem.fixed[actor] {
            return 1;
        }
        let kinds = self.problem.implementations[actor].iter().zip(&self.of_kind);
        1 + kinds.filter(|(way, _)| way.is_some()).map(|(_, units)| units).sum::<usize>()
    }

    /// Whether all actors use this much, and movable ones some of it.
    pub fn is_broken(&self, uses: impl Iterator<Item = (ActorIx, i64)>, limit: i64) -> bool {
        let (mut sum, mut ours) = (0, false);
        for (actor, amount) in uses.filter(|(_, amount)| *amount > 0) {
            sum += amount;
            ours |= !self.problem.fixed[actor];
        }
        ours && sum > limit.max(0)
    }
}

/// Collects rules for the limits of a file.
pub(crate) struct Writer<'a> {
    pub file: &'a SnapshotFile,
    pub problem: &'a Problem,
    pub suspended: &'a SuspendedLimits,
    /// Whether every unit counts as a candidate of every movable actor, for questions about dropped limits.
    pub everywhere: bool,
    /// For limits over every unit.
    budget: LiteralBudget,
    written: RuleCircuit,
    next: u32,
}

/// Rules before grandfathering.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleCircuit {
    ground: Vec<GroundRule>,
    inputs: BTreeMap<(ActorIx, UnitIx), u32>,
    demands: Vec<GroundConstraint>,
}

impl<'a> Writer<'a> {
    pub fn new(file: &'a SnapshotFile, problem: &'a Problem, everywhere: bool) -> Self {
        Self {
            file,
            problem,
            suspended: &problem.suspended_limits,
            everywhere,
            budget: LiteralBudget::new(),
            written: RuleCircuit::default(),
            next: 1,
        }
    }

    pub fn finish(self) -> RuleCircuit {
        self.written
    }

    /// The literal of a placement.
    pub fn at(&mut self, actor: ActorIx, unit: UnitIx) -> i32 {
        let atom = *self.written.inputs.entry((actor, unit)).or_insert_with(|| {
            self.next += 1;
            self.next - 1
        });
        literal(atom)
    }

    /// The candidates of an actor, and the unit where it runs even if it is none, ascending.
    pub fn places(&self, actor: ActorIx) -> Vec<UnitIx> {
        if self.everywhere && !self.problem.fixed[actor] {
            return self.problem.capacity.positions().collect();
        }
        let mut units = self.problem.candidates(actor).to_vec();
        if let Some(here) = self.problem.running[actor]
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
            || problem.running[actor] == Some(unit)
            || problem.candidates(actor).binary_search(&unit).is_ok()
    }

    /// Grounds a limit; over every unit, if requested, only if enough literals are left for that.
    pub fn everywhere_if(&mut self, literals: usize, write: impl FnOnce(&mut Self)) {
        let is_asked = self.everywhere;
        self.everywhere = is_asked && self.budget.take(literals);
        write(self);
        self.everywhere = is_asked;
    }

    /// A literal that is equivalent to a body with positive weights; in lowest terms, so that a limit is independent of units of
    /// measurement.
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

    /// A literal that holds if at least this many of some literals do.
    pub fn at_least(&mut self, count: i64, of: &[i32]) -> i32 {
        self.if_sum(count, of.iter().map(|literal| (*literal, 1)).collect())
    }

    /// A literal that holds if one of some literals does.
    pub fn any(&mut self, of: &[i32]) -> i32 {
        if let [one] = *of { one } else { self.at_least(1, of) }
    }

    /// Adds a case that must not hold.
    pub fn never(&mut self, literal: i32, limit: SuspendedLimit, says: String) {
        let (atom, rule) = (literal.unsigned_abs(), says.clone());
        self.written.demands.push(GroundConstraint { atom, rule, says, limit: Some(limit) });
    }

    /// Adds a case: the use must not exceed a limit.
    pub fn at_most(
        &mut self,
        uses: &[(ActorIx, UnitIx, i64)],
        most: i64,
        limit: SuspendedLimit,
        says: String,
    ) {
        let taken = uses.iter().filter(|(.., amount)| *amount > 0);
        let body = taken.map(|&(actor, unit, amount)| (self.at(actor, unit), amount)).collect();
        let passed = self.if_sum(most.max(0) + 1, body);
        self.never(passed, limit, says);
    }
}

impl RuleCircuit {
    pub fn is_empty(&self) -> bool {
        self.demands.is_empty()
    }

    /// These rules together with those of a policy.
    ///
    /// # Errors
    /// If they need more atoms than can be numbered.
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
