//! The search: which class every item is in, and then how each class is partitioned.

use placement::ix::UnitIx;
use placement::{Assignment, Snapshot};

use crate::branch::interruption::{Interruption, charge};
use crate::branch::model::{Model, SupportedSnapshot, ones};
use crate::branch::partition::Problem;
use crate::branch::subproblem::Subproblem;
use crate::branch::value::Value;

/// How long to search.
pub struct WorkLimits<'a> {
    /// Steps of work, the same on every machine; a thousand million take some seconds.
    pub work: u64,
    /// Asked often; once it is true, the search ends.
    pub stop: &'a dyn Fn() -> bool,
}

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProofStatus {
    /// Nothing feasible is better than the start, or the last that was found.
    Proven,
    /// Something may be.
    Open,
    /// `stop` said so, or `found` did.
    Stopped,
}

/// What came of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Solved {
    /// How it ended.
    pub status: ProofStatus,
    /// Steps of work that it took.
    pub work: u64,
}

/// Searches what is better than `start`; `found` gets each assignment that is, and says whether to go on.
///
/// The levels are compared in their order. What is found places every actor and overloads no unit; where there is no such
/// assignment the status is open. `start` must be feasible. `None` where the world is not for this search: more than 64 actors that can
/// move or 64 classes of units, overload that is not the first level or can be the same on all units, criteria other than sums over actors and pairs, rules about
/// where actors are, caps on power, numbers that do not fit.
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

/// The same in numbers that the world fits.
fn solve_in<N: Value>(
    world: SupportedSnapshot,
    start: &Assignment,
    limits: &WorkLimits,
    found: &mut dyn FnMut(Assignment) -> bool,
) -> Option<Solved> {
    let model = Model::<N>::new(world, start)?;
    let best = model.start.unwrap_or(N::LARGEST + N::from(1));
    let mut tree = Tree { model: &model, start, best, left: limits.work, limits, found, is_open: false };
    let ended = tree.look(Subproblem::whole(&model));
    let status = match ended {
        // There may be better ones that leave actors out, or overload units.
        Ok(()) if tree.is_open || tree.best > N::LARGEST => ProofStatus::Open,
        Ok(()) => ProofStatus::Proven,
        Err(Interruption::Stopped) => ProofStatus::Stopped,
        Err(Interruption::TooMuch) => ProofStatus::Open,
    };
    Some(Solved { status, work: limits.work - tree.left })
}

struct Tree<'a, N> {
    model: &'a Model<N>,
    start: &'a Assignment,
    /// What the best known costs.
    best: N,
    /// Steps of work that are left.
    left: u64,
    limits: &'a WorkLimits<'a>,
    found: &'a mut dyn FnMut(Assignment) -> bool,
    /// A class was too large to be partitioned to the end.
    is_open: bool,
}

impl<N: Value> Tree<'_, N> {
    fn spend(&mut self, work: u64) -> Result<(), Interruption> {
        charge(&mut self.left, work)?;
        if (self.limits.stop)() { Err(Interruption::Stopped) } else { Ok(()) }
    }

    /// Searches a part to its end.
    fn look(&mut self, mut part: Subproblem<N>) -> Result<(), Interruption> {
        part.work = 0;
        let is_open = part.tighten(self.model, self.best);
        self.spend(part.work + 1)?;
        if !is_open {
            return Ok(());
        }
        let Some(item) = self.choose(&part) else { return self.part(&part) };
        let mut classes: Vec<usize> = ones(part.domains[item]).collect();
        classes.sort_by_key(|&class| part.least[item][class]);
        for class in classes {
            let mut inner = part.clone();
            inner.domains[item] = 1 << class;
            self.look(inner)?;
        }
        Ok(())
    }

    /// The open item that matters most: a wrong class costs it much, and it is tied to much.
    fn choose(&self, part: &Subproblem<N>) -> Option<usize> {
        let open = (0..self.model.items.len()).filter(|&item| part.decided(item).is_none());
        let weight = |&item: &usize| {
            let mut least: Vec<N> = ones(part.domains[item]).map(|class| part.least[item][class]).collect();
            least.sort_unstable();
            let regret = (least[1] - least[0]).wide();
            let class = part.domains[item].trailing_zeros() as usize;
            let exposures = self.model.items[item]
                .ties
                .iter()
                .map(|&(_, tie)| self.model.exposure(&self.model.ties[tie], class));
            (4 * regret + exposures.map(N::wide).sum::<i128>(), std::cmp::Reverse(item))
        };
        open.max_by_key(weight)
    }

    /// All classes are decided: parts each of them.
    fn part(&mut self, part: &Subproblem<N>) -> Result<(), Interruption> {
        let model = self.model;
        let classes: Vec<usize> =
            (0..model.items.len()).map(|item| part.decided(item).expect("all classes are decided")).collect();
        let mut sum = model.between(&classes);
        let mut problems: Vec<Problem<N>> = (0..model.classes.len())
            .filter(|&class| !model.is_single(class))
            .filter_map(|class| Problem::new(model, class, &classes))
            .collect();
        problems.sort_by_key(Problem::size);
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
                Err(Interruption::TooMuch) if self.left > 0 => {
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
