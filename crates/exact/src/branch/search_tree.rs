//! The search tree: first the class of every item, then the partition of each class.

use placement::ix::UnitIx;
use placement::{Assignment, Snapshot};

use crate::branch::interruption::{Interruption, charge};
use crate::branch::model::{Model, SupportedSnapshot, ones};
use crate::branch::partition::PartitionProblem;
use crate::branch::subproblem::Subproblem;
use crate::branch::value::Value;

/// The limits of a search.
pub struct WorkLimits<'a> {
    /// Steps of work, the same on every machine; a thousand million take some seconds.
    pub work: u64,
    /// Checked often; once it is true, the search ends.
    pub stop: &'a dyn Fn() -> bool,
}

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProofStatus {
    /// No feasible assignment is better than the best known.
    Proven,
    /// There may be a better one.
    Open,
    /// `stop` or `found` ended it.
    Stopped,
}

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Solved {
    /// How it ended.
    pub status: ProofStatus,
    /// Steps of work done.
    pub work: u64,
}

/// Searches for assignments better than `start`. `found` receives each one, and returns whether to go on.
///
/// Levels are compared lexicographically. Assignments found place every actor and overload no unit; where there is none the
/// status is open. `start` must be feasible. `None` where the snapshot is not supported. That is the case with more than 64
/// movable actors or classes of units, with overload that is not the first level or can be equal on all units, and with
/// criteria other than sums over actors and pairs. Rules, power caps and numbers that do not fit are not supported either.
pub fn solve(
    snapshot: &Snapshot,
    start: &Assignment,
    limits: &WorkLimits,
    found: &mut dyn FnMut(Assignment) -> bool,
) -> Option<Solved> {
    let world = SupportedSnapshot::new(snapshot)?;
    if world.fits::<i64>() {
        return solve_in::<i64>(world, start, limits, found);
    }
    if world.fits::<i128>() { solve_in::<i128>(world, start, limits, found) } else { None }
}

/// The same with numbers of this type.
fn solve_in<N: Value>(
    world: SupportedSnapshot,
    start: &Assignment,
    limits: &WorkLimits,
    found: &mut dyn FnMut(Assignment) -> bool,
) -> Option<Solved> {
    let model = Model::<N>::new(world, start)?;
    let best = model.start.unwrap_or(N::LARGEST + N::from(1));
    let mut tree = Tree { model: &model, start, best, left: limits.work, limits, found, is_open: false };
    let ended = tree.explore(Subproblem::root(&model));
    let status = match ended {
        // Better ones may leave actors out or overload units.
        Ok(()) if tree.is_open || tree.best > N::LARGEST => ProofStatus::Open,
        Ok(()) => ProofStatus::Proven,
        Err(Interruption::Stopped) => ProofStatus::Stopped,
        Err(Interruption::LimitExceeded) => ProofStatus::Open,
    };
    Some(Solved { status, work: limits.work - tree.left })
}

struct Tree<'a, N> {
    model: &'a Model<N>,
    start: &'a Assignment,
    /// The cost of the best known.
    best: N,
    /// Steps of work that are left.
    left: u64,
    limits: &'a WorkLimits<'a>,
    found: &'a mut dyn FnMut(Assignment) -> bool,
    /// Whether a class was too large to be partitioned.
    is_open: bool,
}

impl<N: Value> Tree<'_, N> {
    fn spend(&mut self, work: u64) -> Result<(), Interruption> {
        charge(&mut self.left, work)?;
        if (self.limits.stop)() { Err(Interruption::Stopped) } else { Ok(()) }
    }

    /// Solves a subproblem.
    fn explore(&mut self, mut subproblem: Subproblem<N>) -> Result<(), Interruption> {
        subproblem.work = 0;
        let is_open = subproblem.tighten(self.model, self.best);
        self.spend(subproblem.work + 1)?;
        if !is_open {
            return Ok(());
        }
        let Some(item) = self.branching_item(&subproblem) else { return self.partition_classes(&subproblem) };
        let mut classes: Vec<usize> = ones(subproblem.domains[item]).collect();
        classes.sort_by_key(|&class| subproblem.least[item][class]);
        for class in classes {
            let mut child = subproblem.clone();
            child.domains[item] = 1 << class;
            self.explore(child)?;
        }
        Ok(())
    }

    /// The open item that matters most: a wrong class is expensive, and it has many ties.
    fn branching_item(&self, subproblem: &Subproblem<N>) -> Option<usize> {
        let open = (0..self.model.items.len()).filter(|&item| subproblem.decided(item).is_none());
        let weight = |&item: &usize| {
            let mut least: Vec<N> =
                ones(subproblem.domains[item]).map(|class| subproblem.least[item][class]).collect();
            least.sort_unstable();
            let regret = (least[1] - least[0]).wide();
            let class = subproblem.domains[item].trailing_zeros() as usize;
            let exposures = self.model.items[item]
                .ties
                .iter()
                .map(|&(_, tie)| self.model.exposure(&self.model.ties[tie], class));
            (4 * regret + exposures.map(N::wide).sum::<i128>(), std::cmp::Reverse(item))
        };
        open.max_by_key(weight)
    }

    /// All classes are decided: partitions each of them.
    fn partition_classes(&mut self, subproblem: &Subproblem<N>) -> Result<(), Interruption> {
        let model = self.model;
        let classes: Vec<usize> = (0..model.items.len())
            .map(|item| subproblem.decided(item).expect("all classes are decided"))
            .collect();
        let mut sum = model.cost_outside_partitions(&classes);
        let mut problems: Vec<PartitionProblem<N>> = (0..model.classes.len())
            .filter(|&class| !model.is_single(class))
            .filter_map(|class| PartitionProblem::new(model, class, &classes))
            .collect();
        problems.sort_by_key(PartitionProblem::size);
        let mut places: Vec<UnitIx> = classes.iter().map(|&class| model.classes[class].first()).collect();
        for problem in &problems {
            let most = self.best - N::from(1) - sum;
            let mut left = self.left;
            let stop = self.limits.stop;
            let solved = problem.solve(most, &mut left, stop);
            self.left = left;
            match solved {
                Ok(Some(partition)) => {
                    sum += partition.cost;
                    partition.put(problem, model, &mut places);
                }
                Ok(None) => return Ok(()),
                Err(Interruption::LimitExceeded) if self.left > 0 => {
                    self.is_open = true;
                    return Ok(());
                }
                Err(halt) => return Err(halt),
            }
        }
        if sum >= self.best {
            return Ok(());
        }
        self.best = sum;
        let mut assignment = self.start.clone();
        for (item, place) in model.items.iter().zip(places) {
            assignment[item.actor] = Some(place);
        }
        if (self.found)(assignment) { Ok(()) } else { Err(Interruption::Stopped) }
    }
}
