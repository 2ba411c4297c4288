//! The mapper `genetic`: a genetic algorithm over types, processor counts and orders.

use super::ect::{ect, mapped};
use super::timeline::{Plan, Timeline};
use crate::cost::{ParallelModel, Vector};
use crate::{Budget, Graph, MapError, Mapped, Mapper, Platform, StoppedBy};

/// The genetic algorithm of the semi-static paper (4.5), after Wang, Siegel et al. (1997).
///
/// A unit of effort is one generation of one run. Without an effort limit there are [`Settings::runs`] runs; every
/// other one is seeded with the mapping of [`Ect`](super::Ect).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Genetic {
    /// The parameters.
    pub vector: Vector,
    /// Settings of the search.
    pub settings: Settings,
}

/// Settings of the genetic algorithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Number of runs, each from another population.
    pub runs: u64,
    /// Population size.
    pub population: usize,
    /// Maximum number of generations per run.
    pub generations: u64,
    /// Generations without improvement that end a run.
    pub patience: u64,
    /// Crossover probability.
    pub crossover: f64,
    /// Mutation probability.
    pub mutation: f64,
    /// Whether every other run is seeded with the mapping of ECT.
    pub seeded: bool,
}

impl Default for Settings {
    /// The paper's values; its population size is not published.
    fn default() -> Self {
        Self {
            runs: 10,
            population: 50,
            generations: 1000,
            patience: 150,
            crossover: 0.4,
            mutation: 0.4,
            seeded: true,
        }
    }
}

impl Mapper for Genetic {
    fn name(&self) -> &'static str {
        "genetic"
    }

    fn map(&self, graph: &Graph, platform: &Platform, budget: &Budget) -> Result<Mapped, MapError> {
        let model = ParallelModel::new(self.name(), graph, platform, &self.vector)?;
        let evolved = evolve(&model, &self.settings, &[], budget);
        Ok(mapped(&model, &evolved.plan, evolved.evaluations, evolved.effort, evolved.stopped_by))
    }
}

/// Result of the genetic algorithm.
#[derive(Clone, Debug, PartialEq)]
pub struct Evolved {
    /// The best plan.
    pub plan: Plan,
    /// Its makespan.
    pub makespan: f64,
    /// Number of evaluated plans.
    pub evaluations: u64,
    /// Number of generations over all runs.
    pub effort: u64,
    /// Why the search ended.
    pub stopped_by: StoppedBy,
}

/// Runs the genetic algorithm within a budget; `known` seeds the population of every run.
pub fn evolve(model: &ParallelModel, settings: &Settings, known: &[Plan], budget: &Budget) -> Evolved {
    let greedy = settings.seeded.then(|| ect(model));
    let mut run = GeneticRun {
        model,
        settings,
        graph: Precedence::new(model),
        rng: fastrand::Rng::with_seed(budget.seed),
        scratch: Scratch::default(),
        roulette: roulette(settings.population.max(2)),
        evaluations: 0,
        effort: 0,
        budget,
    };
    let mut best: Option<(f64, Plan)> = None;
    let mut stopped_by = StoppedBy::Converged;
    for number in 0..settings.runs.max(1) {
        let seeds = known.iter().chain(greedy.iter().filter(|_| number.is_multiple_of(2)));
        let seeds: Vec<Plan> = seeds.cloned().collect();
        let (found, ended) = run.once(&seeds);
        if best.as_ref().is_none_or(|(least, _)| found.0 < *least) {
            best = Some(found);
        }
        if ended != StoppedBy::Converged {
            stopped_by = ended;
            break;
        }
    }
    let (makespan, plan) = best.expect("there is at least one run");
    Evolved { plan, makespan, evaluations: run.evaluations, effort: run.effort, stopped_by }
}

/// Cumulative roulette wheel shares by rank: each rank's share is 1 + 1/P times that of the next.
fn roulette(population: usize) -> Vec<f64> {
    #[expect(clippy::cast_precision_loss, reason = "populations are small")]
    let ratio = 1.0 + 1.0 / population as f64;
    let mut share = 1.0;
    let mut sum = 0.0;
    (0..population)
        .map(|_| {
            sum += share;
            share /= ratio;
            sum
        })
        .collect()
}

/// Precedence constraints.
struct Precedence {
    before: Vec<Vec<usize>>,
    after: Vec<Vec<usize>>,
    /// By task: compatible types.
    kinds: Vec<Vec<usize>>,
}

impl Precedence {
    fn new(model: &ParallelModel) -> Self {
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); model.tasks()];
        let mut after: Vec<Vec<usize>> = before.clone();
        for (task, before) in before.iter_mut().enumerate() {
            for &(from, _) in model.received(task) {
                before.push(from);
                after[from].push(task);
            }
        }
        let able = |task| (0..model.kinds().len()).filter(|kind| model.optimum(task, *kind) > 0).collect();
        Self { before, after, kinds: (0..model.tasks()).map(able).collect() }
    }
}

/// Reused buffers.
#[derive(Default)]
struct Scratch {
    timeline: Timeline,
    place: Vec<usize>,
    waits: Vec<usize>,
    free: Vec<usize>,
}

/// A plan with its makespan, `None` after a change.
#[derive(Clone, Debug, Default)]
struct Individual {
    plan: Plan,
    makespan: Option<f64>,
}

impl Individual {
    fn makespan(&self) -> f64 {
        self.makespan.unwrap_or(f64::INFINITY)
    }

    /// Copies another individual, reusing allocations.
    fn become_like(&mut self, other: &Self) {
        self.plan.kinds.clone_from(&other.plan.kinds);
        self.plan.processors.clone_from(&other.plan.processors);
        self.plan.order.clone_from(&other.plan.order);
        self.makespan = other.makespan;
    }
}

struct GeneticRun<'a, 'b> {
    model: &'a ParallelModel,
    settings: &'a Settings,
    graph: Precedence,
    rng: fastrand::Rng,
    scratch: Scratch,
    roulette: Vec<f64>,
    evaluations: u64,
    effort: u64,
    budget: &'a Budget<'b>,
}

impl GeneticRun<'_, '_> {
    /// One run: its best plan, and why it ended.
    fn once(&mut self, seeds: &[Plan]) -> ((f64, Plan), StoppedBy) {
        let size = self.roulette.len();
        let mut population = self.first(seeds, size);
        let mut next = population.clone();
        let mut ranks: Vec<usize> = Vec::with_capacity(size);
        let mut ended = StoppedBy::Converged;
        let mut best = rank(&population, &mut ranks);
        let mut idle = 0;
        for _ in 0..self.settings.generations {
            if self.budget.effort.is_some_and(|most| self.effort >= most) {
                ended = StoppedBy::Effort;
                break;
            }
            if (self.budget.stop)() {
                ended = StoppedBy::Deadline;
                break;
            }
            self.breed(&population, &ranks, &mut next);
            std::mem::swap(&mut population, &mut next);
            self.effort += 1;
            let found = rank(&population, &mut ranks);
            idle = if found < best { 0 } else { idle + 1 };
            best = found;
            if idle >= self.settings.patience {
                break;
            }
        }
        ((best, population.swap_remove(ranks[0]).plan), ended)
    }

    /// Initial population: the given plans, then random ones, distinct as long as new ones are found.
    fn first(&mut self, seeds: &[Plan], size: usize) -> Vec<Individual> {
        let mut population: Vec<Individual> = Vec::with_capacity(size);
        let mut tries = 0;
        while population.len() < size {
            let plan = match seeds.get(tries) {
                Some(seed) => seed.clone(),
                None => self.random(),
            };
            tries += 1;
            // A tiny graph has fewer plans than a population; duplicates are then allowed.
            let known = || population.iter().any(|other| other.plan == plan);
            if tries > 20 * size || !known() {
                let mut individual = Individual { plan, makespan: None };
                self.price(&mut individual);
                population.push(individual);
            }
        }
        population
    }

    /// Random types, processor counts and order.
    fn random(&mut self) -> Plan {
        let tasks = self.model.tasks();
        let mut plan =
            Plan { kinds: vec![0; tasks], processors: vec![1; tasks], order: Vec::with_capacity(tasks) };
        for task in 0..tasks {
            self.rematch(&mut plan, task);
        }
        let Scratch { waits, free, .. } = &mut self.scratch;
        waits.clear();
        waits.extend(self.graph.before.iter().map(Vec::len));
        free.clear();
        free.extend((0..tasks).filter(|task| waits[*task] == 0));
        while !free.is_empty() {
            let task = free.swap_remove(self.rng.usize(0..free.len()));
            plan.order.push(task);
            for &after in &self.graph.after[task] {
                waits[after] -= 1;
                if waits[after] == 0 {
                    free.push(after);
                }
            }
        }
        plan
    }

    /// Draws another type and a processor count for it.
    fn rematch(&mut self, plan: &mut Plan, task: usize) {
        let kinds = &self.graph.kinds[task];
        plan.kinds[task] = kinds[self.rng.usize(0..kinds.len())];
        self.reallot(plan, task);
    }

    fn reallot(&mut self, plan: &mut Plan, task: usize) {
        plan.processors[task] = self.rng.usize(1..=self.model.optimum(task, plan.kinds[task]));
    }

    fn price(&mut self, individual: &mut Individual) {
        if individual.makespan.is_none() {
            self.evaluations += 1;
            individual.makespan = Some(self.scratch.timeline.makespan(self.model, &individual.plan));
        }
    }

    /// The next generation: the best unchanged, the others selected by rank, crossed and mutated.
    fn breed(&mut self, population: &[Individual], ranks: &[usize], next: &mut [Individual]) {
        next[0].become_like(&population[ranks[0]]);
        let wheel = self.roulette[self.roulette.len() - 1];
        for child in &mut next[1..] {
            let drawn = self.rng.f64() * wheel;
            let rank = self.roulette.partition_point(|sum| *sum <= drawn).min(ranks.len() - 1);
            child.become_like(&population[ranks[rank]]);
        }
        for pair in next[1..].chunks_exact_mut(2) {
            if self.rng.f64() < self.settings.crossover {
                let (a, b) = pair.split_at_mut(1);
                self.cross(&mut a[0], &mut b[0]);
            }
        }
        for child in &mut next[1..] {
            if self.rng.f64() < self.settings.mutation {
                self.mutate(child);
            }
            self.price(child);
        }
    }

    /// Crossover: swaps types and processor counts behind one point; behind another, each adopts the order of the other.
    fn cross(&mut self, a: &mut Individual, b: &mut Individual) {
        let tasks = self.model.tasks();
        let point = self.rng.usize(0..tasks);
        a.plan.kinds[point..].swap_with_slice(&mut b.plan.kinds[point..]);
        a.plan.processors[point..].swap_with_slice(&mut b.plan.processors[point..]);
        let point = self.rng.usize(0..tasks);
        let Scratch { place, waits: other, .. } = &mut self.scratch;
        ranks_of(&b.plan.order, place);
        ranks_of(&a.plan.order, other);
        a.plan.order[point..].sort_unstable_by_key(|&task| place[task]);
        b.plan.order[point..].sort_unstable_by_key(|&task| other[task]);
        (a.makespan, b.makespan) = (None, None);
    }

    /// Mutates one task: its type, its processor count, or its position between predecessors and successors.
    fn mutate(&mut self, child: &mut Individual) {
        let task = self.rng.usize(0..self.model.tasks());
        match self.rng.u8(0..3) {
            0 => self.rematch(&mut child.plan, task),
            1 => self.reallot(&mut child.plan, task),
            _ => {
                let place = &mut self.scratch.place;
                ranks_of(&child.plan.order, place);
                let after =
                    self.graph.before[task].iter().map(|&before| place[before] + 1).max().unwrap_or(0);
                let until = self.graph.after[task].iter().map(|&after| place[after] - 1).min();
                let until = until.unwrap_or(self.model.tasks() - 1);
                let (from, to) = (place[task], self.rng.usize(after..=until));
                if from < to {
                    child.plan.order[from..=to].rotate_left(1);
                } else {
                    child.plan.order[to..=from].rotate_right(1);
                }
            }
        }
        child.makespan = None;
    }
}

/// Stable sort by makespan; returns the minimum.
fn rank(population: &[Individual], ranks: &mut Vec<usize>) -> f64 {
    ranks.clear();
    ranks.extend(0..population.len());
    ranks.sort_by(|&a, &b| population[a].makespan().total_cmp(&population[b].makespan()));
    population[ranks[0]].makespan()
}

/// Position of each task in an order.
fn ranks_of(order: &[usize], place: &mut Vec<usize>) {
    place.resize(order.len(), 0);
    for (position, &task) in order.iter().enumerate() {
        place[task] = position;
    }
}
