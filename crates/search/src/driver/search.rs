//! A search that can be run for a while, looked at, told of something better, and run on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::ablation::Ablation;
use crate::anneal::annealer::Chain;
use crate::anneal::annealing_chain::{AnnealingChain, quench_steps};
use crate::anneal::schedule::Schedule;
use crate::anneal::worker::{WORTH_A_THREAD, Worker, run_all};
use crate::construction::initial_placement::place_the_rest;
use crate::driver::deadline::Pace;
use crate::driver::drop_violators::drop_violators;
use crate::driver::feasibility_probe::laid_out;
use crate::driver::hub_restarts::Starts;
use crate::driver::incumbent::Found;
use crate::driver::open_nodes::Footprint;
use crate::evaluation::rank::{Rank, is_significantly_better, rank};
use crate::evaluation::solution::{NO_LIMIT, Solution};
use crate::model::{Model, ROUND};
use crate::moves::ejection::eject;
use crate::moves::load_balancing::even_out;
use placement::ix::{ItemIx, IxVec, UnitIx};
use placement::weighted::NOWHERE;
use placement::{Assignment, Budget, Snapshot};

/// How many chains there are that anneal, and threads of all chains. What is found does not depend on how many processors
/// there are.
const CHAINS: u32 = 2;

/// Chains that are exchanged and followed to where they would come to rest.
const FOLLOWED: usize = 2;

/// How late a look at the best may be before it is given up: what is a little late is still what the effort of the answer replays.
const MERCY: Duration = Duration::from_millis(50);

/// A snapshot laid out for searching.
pub struct SearchInstance<'a> {
    model: Model<'a>,
    /// Whether a clock ended it before all was known; then there is no search.
    is_cut: bool,
}

impl<'a> SearchInstance<'a> {
    /// Lays it out; this takes about a second for 20,000 actors on 4,000 units, and milliseconds for 1,000.
    /// A search of what `stop` cut short ends with a first placement.
    pub fn new(snapshot: &'a Snapshot, stop: &dyn Fn() -> bool) -> Self {
        let (model, is_cut) = laid_out(snapshot, stop);
        Self { model, is_cut }
    }

    /// The same to be searched without a part.
    #[must_use]
    pub fn without(mut self, part: Option<Ablation>) -> Self {
        self.model.without = part;
        self
    }
}

/// A search under way: chains that anneal, each by a schedule of its own, and the best that was found.
///
/// It is decided by the start, the seed, and how many pieces were run between two calls of [`AnnealingSearch::offer`].
pub struct AnnealingSearch<'t> {
    model: &'t Model<'t>,
    /// Where chains are to begin, before they do.
    start: Option<Start<'t>>,
    /// Better placements that were offered before chains began.
    offered: Vec<Assignment>,
    /// None before chains have begun.
    chains: Vec<AnnealingChain<'t>>,
    best: Found<'t>,
    /// The best as the chains know it.
    best_places: IxVec<ItemIx, UnitIx>,
    best_rank: Rank,
    /// Whether a run has found something better within the limits than what it began with.
    is_within: bool,
    /// Where the last run ended, as long as none has; until a look takes it up.
    nearly: Option<IxVec<ItemIx, UnitIx>>,
    pace: Pace,
    /// How many nodes are left empty, where there is a choice.
    footprint: Option<Footprint>,
    /// What runs may begin with other than the best, where nothing is there.
    starts: Option<Starts>,
}

/// Everybody placed as far as that is easy.
struct Start<'t> {
    solution: Solution<'t>,
    /// Whether most were there before.
    is_warm: bool,
    rng: fastrand::Rng,
}

impl<'t> AnnealingSearch<'t> {
    /// Starts from `start`, whose actors without a place are given one; whoever stands against a limit there is placed
    /// anew. Where `stop` ends that, it is the whole search.
    pub fn new(instance: &'t SearchInstance, start: &Assignment, seed: u64, stop: &dyn Fn() -> bool) -> Self {
        let model = &instance.model;
        let mut solution = Solution::new(model);
        solution.adopt(&model.places(start));
        if solution.broken() > 0 {
            solution = Solution::new(model);
            solution.adopt_with_care(&model.places(start));
        }
        let kept = solution.place.raw()[..model.free].iter().filter(|place| **place != NOWHERE).count();
        let is_whole = place_the_rest(&mut solution, stop) && !instance.is_cut;
        let mut best = Found::new(model.snapshot, start);
        best.offer(model.assignment(&solution.place));
        Self {
            model,
            offered: Vec::new(),
            chains: Vec::new(),
            best,
            best_places: solution.place.clone(),
            best_rank: (usize::MAX, i64::MAX, i64::MAX),
            is_within: false,
            nearly: None,
            // What runs is not to be torn apart for being overloaded: chains see to that where it costs least.
            start: is_whole.then(|| Start {
                solution,
                is_warm: kept * 2 > model.free,
                rng: fastrand::Rng::with_seed(seed),
            }),
            pace: Pace::default(),
            footprint: None,
            starts: None,
        }
    }

    /// Makes room for who has no place, brings loads within capacities, and sets the chains up; the first piece does it otherwise.
    /// False where `stop` ended it: then nothing has come of it, and the search has ended.
    pub fn begin(&mut self, budget: &Budget) -> bool {
        if let Some(start) = self.start.take() {
            _ = self.begin_from(start, budget);
        }
        !self.chains.is_empty()
    }

    fn begin_from(&mut self, start: Start<'t>, budget: &Budget) -> Option<()> {
        let stop = budget.stop;
        let (model, Start { mut solution, is_warm, mut rng }) = (self.model, start);
        if solution.unplaced > 0 && model.without != Some(Ablation::Ejection) {
            eject(&mut solution, &mut rng.clone(), stop)?;
        }
        let before = solution.clone();
        even_out(&mut solution, &mut rng, stop)?;
        for offered in &self.offered {
            let other = adopted(model, offered, 0);
            let is_better =
                (other.unplaced, other.overloads().0) < (solution.unplaced, solution.overloads().0);
            if is_better && other.broken() == 0 {
                solution = other;
            }
        }
        solution.set_slack(if model.has_limit { solution.overloads().0 } else { NO_LIMIT });
        let ((), took) = Pace::timed(budget, || {
            self.best.offer(model.assignment(&before.place));
            self.best.offer(model.assignment(&solution.place));
        });
        self.pace.note_offers(2, took);
        let mut begin = if is_warm { before } else { solution.clone() };
        begin.set_slack(solution.slack);
        let chains = (0..CHAINS).map(|chain| {
            let schedule = Schedule::new((model.free, model.steps()), chain, is_warm, model.without);
            AnnealingChain::new(Chain::new(begin.clone(), rng.u64(..)), schedule)
        });
        self.chains = chains.collect();
        let has_choice = model.regions.has_nodes && model.has_limit && solution.slack == 0 && !is_warm;
        if has_choice && model.without != Some(Ablation::OpenNodeRestriction) {
            let trial = self.chains.last().map(|replica| replica.schedule.trial());
            self.footprint = trial.map(|trial| Footprint::new(model, trial));
        }
        if model.regions.has_nodes && !is_warm && model.without != Some(Ablation::HubRestarts) {
            self.starts = Some(Starts::new(model, solution.slack));
        }
        if solution.broken() == 0 {
            self.best_rank = rank(&solution);
        }
        self.best_places.clone_from(&solution.place);
        for offered in std::mem::take(&mut self.offered) {
            self.take_up(&offered);
        }
        Some(())
    }

    /// Runs so many pieces on every chain, or fewer if the budget's clock leaves time for no more than a look at the best; says how
    /// many.
    pub fn run(&mut self, pieces: u64, budget: &Budget) -> u64 {
        // What chains begin with counts with their first round alone.
        let is_first = self.start.is_some();
        if pieces == 0 || !self.begin(budget) {
            return 0;
        }
        thread::scope(|scope| {
            let workers = if pieces < WORTH_A_THREAD { 0 } else { CHAINS - 1 };
            let workers: Vec<_> = (0..workers).map(|_| Worker::new(scope)).collect();
            let mut done = 0;
            while done < pieces && (done == 0 && is_first || !self.is_over(pieces - done, budget)) {
                // How long a piece takes is to be known soon.
                let is_paced = budget.left.is_none() || self.pace.is_known();
                let most = if is_paced { u64::MAX } else { WORTH_A_THREAD };
                let (ran, took) = Pace::timed(budget, || self.anneal((pieces - done).min(most), &workers));
                self.pace.note_round(ran, took);
                done += ran;
                self.share_best(budget.stop);
            }
            done
        })
    }

    /// Whether the clock says stop, or leaves no time for another round and a look at the best after it.
    fn is_over(&self, pieces: u64, budget: &Budget) -> bool {
        (budget.stop)() || !self.has_time_for(1, self.next_round(pieces), budget)
    }

    /// Whether there is time for so many looks at the best after so many pieces; yes where no clock is known.
    pub(crate) fn has_time_for(&self, looks: u32, pieces: u64, budget: &Budget) -> bool {
        let one = || if self.pace.is_known() { self.look_after(pieces) } else { Duration::ZERO };
        budget.left.is_none_or(|left| left() > one() * looks)
    }

    /// What so many pieces and a look at the best after them take.
    fn look_after(&self, pieces: u64) -> Duration {
        let followed = quench_steps(self.model) / self.model.steps();
        self.pace.of_look(pieces, followed, FOLLOWED as u64 + 2)
    }

    /// Pieces of the next round, of so many that are left.
    fn next_round(&self, pieces: u64) -> u64 {
        let left = self.chains.iter().map(AnnealingChain::left).min();
        // Where pieces take long, a round has fewer, so that the clock is looked at as often.
        let most = (ROUND / self.model.length_of_piece()).max(1);
        left.unwrap_or(most).min(most).min(pieces)
    }

    /// Anneals so many pieces, at most up to where a chain may look at what the others have found.
    fn anneal(&mut self, pieces: u64, workers: &[Worker<'t>]) -> u64 {
        let round = self.next_round(pieces);
        run_all(&mut self.chains, &[round; CHAINS as usize], workers);
        round
    }

    /// Has chains that have finished an annealing run tell what they found, and begin the next.
    fn share_best(&mut self, stop: &dyn Fn() -> bool) {
        let mut ended: Vec<usize> = (0..self.chains.len()).collect();
        ended.retain(|chain| self.chains[*chain].left() == 0);
        for chain in &ended {
            self.hear(*chain);
        }
        for chain in ended {
            self.begin_next(chain, stop);
        }
    }

    /// Takes note of what a chain has found in the run that it has finished.
    fn hear(&mut self, chain: usize) {
        self.chains[chain].note_end();
        let AnnealingChain { chain, annealing, .. } = &self.chains[chain];
        let found = chain.has_best().then(|| (chain.best_rank(), chain.best_places()));
        if let Some((rank, places)) = found.as_ref().filter(|(rank, _)| *rank < self.best_rank) {
            self.best_rank = *rank;
            self.best_places.clone_from(places);
            self.is_within = true;
        }
        self.nearly = (!self.is_within).then(|| chain.solution.place.clone());
        if let Some(footprint) = &mut self.footprint {
            footprint.note(annealing, found);
        }
    }

    /// Has a chain begin its next run; the last one is who tries something.
    fn begin_next(&mut self, chain: usize, stop: &dyn Fn() -> bool) {
        let is_last = chain + 1 == self.chains.len();
        if is_last && self.begin_trial(stop) {
            return;
        }
        let is_late = self.is_to_begin_late(chain, is_last);
        let replica = &mut self.chains[chain];
        let empty = self.footprint.as_ref().map(Footprint::empty);
        if is_late {
            replica.reheat_from_best(&self.best_places, empty.unwrap_or_default());
            return;
        }
        if let Some(empty) = empty {
            replica.chain.keep_out_of(empty);
        }
        replica.begin_next();
        if replica.annealing.from_best {
            replica.chain.go_to(&self.best_places);
        }
    }

    /// Has the last chain try something, where there is something to be tried.
    fn begin_trial(&mut self, stop: &dyn Fn() -> bool) -> bool {
        let Some(replica) = self.chains.last_mut() else { return false };
        if let Some(footprint) = &mut self.footprint
            && let Some((trial, nodes)) = footprint.next_trial(self.model, &replica.annealing)
        {
            replica.chain.keep_out_of(nodes);
            replica.begin(trial);
            return true;
        }
        if replica.annealing.length >= replica.schedule.trial().length / 2
            && let Some(starts) = &mut self.starts
            && let Some(places) = starts.next(self.model, stop)
        {
            replica.begin(replica.schedule.trial_of_start());
            replica.chain.go_to(&places);
            return true;
        }
        false
    }

    /// Whether a chain leaves out where it is hot: the last one does after a long run, others where theirs ended above the best by more
    /// than chance.
    fn is_to_begin_late(&self, chain: usize, is_last: bool) -> bool {
        let (best, elsewhere) = (self.best_rank, self.chains[chain].elsewhere());
        self.model.without != Some(Ablation::Reheats)
            && best.0 < usize::MAX
            && elsewhere.is_some_and(|elsewhere| is_last || is_significantly_better(best, elsewhere))
    }

    /// The best so far. Chains in the middle of an annealing run are followed to where they would come to rest in a hurry, unless
    /// the clock is far from leaving time for that; they themselves stay where they are.
    pub fn best(&mut self, budget: &Budget) -> Assignment {
        let (best, took) = Pace::timed(budget, || self.look(budget));
        self.pace.note_look(took);
        best
    }

    fn look(&mut self, budget: &Budget) -> Assignment {
        // A budget without a known clock has ended at a look, and what that finds is part of what its effort replays.
        let begun = Instant::now();
        let is_out_of_time = || budget.left.is_some_and(|left| left().is_zero());
        let is_hopeless = is_out_of_time() && self.look_after(0) > MERCY * 2;
        let is_too_late = || is_out_of_time() && begun.elapsed() >= MERCY;
        // In a large world it takes long until a run ends within the limits. What is a little over them until then is not lost, and
        // takes less time than all else here.
        let model = self.model;
        let nearly = self.nearly.take();
        let evened = nearly.and_then(|nearly| evened_out(model, &nearly, &is_too_late));
        let stop = || is_hopeless || is_too_late();
        // From the middle on it is worth being finished if that is soon. All are, or none: what its effort replays finishes all.
        let given_up = AtomicBool::new(false);
        let is_given_up = |part: f64| {
            let takes_long = || part < 0.5 || begun.elapsed().mul_f64((1.0 - part) / part) > MERCY;
            let is_late = stop() && takes_long();
            given_up.fetch_or(is_late, Ordering::Relaxed) || is_late
        };
        let mut resting: Vec<(&AnnealingChain, Option<IxVec<ItemIx, UnitIx>>)> =
            self.chains.iter().take(FOLLOWED).map(|replica| (replica, None)).collect();
        in_parallel(&mut resting, |(replica, found)| *found = replica.quenched(&is_given_up));
        let is_whole = !given_up.into_inner();
        let mut found: Vec<IxVec<ItemIx, UnitIx>> =
            resting.into_iter().filter_map(|(_, found)| found.filter(|_| is_whole)).collect();
        let chains = self.chains.iter().map(|replica| &replica.chain).filter(|chain| chain.has_best());
        found.extend(chains.min_by_key(|chain| chain.best_rank()).map(Chain::best_places));
        found.extend(evened);
        for places in found.iter().chain([&self.best_places]) {
            self.best.offer(model.assignment(places));
        }
        if self.best.vector.is_none() && model.snapshot.rules().is_some() {
            let places =
                self.chains.first().map_or(&self.best_places, |replica| &replica.chain.solution.place);
            let found = drop_violators(model.snapshot, model.assignment(places), &stop);
            self.best.offer(found);
        }
        self.best.assignment.clone()
    }

    /// Tells the chains of something better, found elsewhere.
    pub fn offer(&mut self, assignment: &Assignment) {
        self.best.offer(assignment.clone());
        if self.chains.is_empty() {
            self.offered.push(assignment.clone());
        } else {
            self.take_up(assignment);
        }
    }

    fn take_up(&mut self, assignment: &Assignment) {
        let solution = adopted(self.model, assignment, self.chains[0].chain.solution.slack);
        let rank = rank(&solution);
        if solution.total_excess() == 0 && solution.broken() == 0 && rank < self.best_rank {
            self.best_rank = rank;
            self.best_places.clone_from(&solution.place);
        }
    }
}

/// An assignment as it is, where each unit may have so much overload.
fn adopted<'t>(model: &'t Model<'t>, assignment: &Assignment, slack: i64) -> Solution<'t> {
    let mut solution = Solution::new(model);
    solution.set_slack(slack);
    solution.adopt(&model.places(assignment));
    solution
}

/// Places where loads are brought within capacities; `None` where `stop` ended that.
fn evened_out(
    model: &Model,
    places: &IxVec<ItemIx, UnitIx>,
    stop: &dyn Fn() -> bool,
) -> Option<IxVec<ItemIx, UnitIx>> {
    let mut solution = Solution::new(model);
    solution.adopt(places);
    // The same whenever it is looked at.
    even_out(&mut solution, &mut fastrand::Rng::with_seed(0), stop)?;
    Some(solution.place)
}

/// Does the same to each, on as many threads.
fn in_parallel<T: Send>(each: &mut [T], work: impl Fn(&mut T) + Sync) {
    let Some((first, others)) = each.split_first_mut() else { return };
    thread::scope(|scope| {
        for other in others {
            scope.spawn(|| work(other));
        }
        work(first);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::incumbent::vector;

    /// Twelve units that 48 actors fill to the last bit: what is evened out leaves a little too much somewhere.
    #[test]
    fn chains_keep_to_the_least_overload_that_is_known() {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut actors = Vec::new();
        for unit in 0..12 {
            let mut cuts = [0, rng.u32(1..1_000), rng.u32(1..1_000), rng.u32(1..1_000), 1_000];
            cuts.sort_unstable();
            let works = cuts.windows(2).map(|cut| cut[1] - cut[0]);
            actors.extend(works.filter(|work| *work > 0).map(|work| (unit, work)));
        }
        rng.shuffle(&mut actors);
        let actor = |(at, (_, work)): (usize, &(usize, u32))| format!("a{at}:cpu={work}");
        let units: Vec<String> = (0..12).map(|at| format!("u{at}:cpu:1000:node=n{at}")).collect();
        let named: Vec<String> = actors.iter().enumerate().map(actor).collect();
        let snapshot = testkit::line::world(&units.join(" "), &named.join(" "), "a0 to a1 1");
        let full = testkit::line::places(actors.iter().map(|(unit, _)| Some(*unit)));
        assert_eq!(snapshot.violations(&full), []);
        let instance = SearchInstance::new(&snapshot, &|| false);
        let slack = |offered: Option<&Assignment>| {
            let mut search = AnnealingSearch::new(&instance, &snapshot.incumbent(), 1, &|| false);
            if let Some(offered) = offered {
                search.offer(offered);
            }
            assert!(search.begin(&Budget::effort(None, 1)));
            search.chains.iter().map(|replica| replica.chain.solution.slack).collect::<Vec<_>>()
        };
        assert!(slack(None).iter().all(|slack| *slack > 0), "what is evened out fills all units here");
        assert_eq!(slack(Some(&full)), [0, 0]);
    }

    /// Three who are a little too much for a unit, and all of them apart, which is all that is known to be within the limits.
    fn three_who_belong_together() -> (Snapshot, Assignment) {
        let units = "u:cpu:10:node=n0 v:cpu:10:node=n1 w:cpu:10:node=n2";
        let ties = "a to b 10; a to c 10; b to c 10";
        let snapshot = testkit::line::world(units, "a:cpu=6 b:cpu=3 c:cpu=2", ties);
        (snapshot, testkit::line::places([Some(0), Some(1), Some(2)]))
    }

    #[test]
    fn where_a_run_ended_a_little_over_the_limits_is_brought_within_them() {
        let (snapshot, apart) = three_who_belong_together();
        let instance = SearchInstance::new(&snapshot, &|| false);
        let best = |nearly: Option<Assignment>| {
            let mut search = AnnealingSearch::new(&instance, &apart, 1, &|| false);
            search.nearly = nearly.map(|nearly| search.model.places(&nearly));
            search.best(&Budget::effort(None, 1))
        };
        assert_eq!(best(None), apart);
        let found = best(Some(testkit::line::places([Some(0); 3])));
        assert_eq!(snapshot.violations(&found), []);
        assert!(vector(&snapshot, &found) < vector(&snapshot, &apart), "{found:?}");
    }

    #[test]
    fn where_a_run_ended_is_kept_until_one_has_found_something_within_the_limits() {
        let (snapshot, apart) = three_who_belong_together();
        let instance = SearchInstance::new(&snapshot, &|| false);
        let budget = Budget::effort(None, 1);
        let mut search = AnnealingSearch::new(&instance, &apart, 1, &|| false);
        assert!(search.begin(&budget));
        search.hear(0);
        assert_eq!(search.nearly.as_ref(), Some(&search.chains[0].chain.solution.place));
        assert!(!search.is_within);
        let run = search.chains[0].left();
        assert_eq!(search.run(run, &budget), run);
        assert!(search.is_within);
        assert_eq!(search.nearly, None);
    }

    #[test]
    fn a_look_that_is_given_up_on_its_way_finds_nothing() {
        let snapshot = testkit::line::world("u:cpu:9 v:cpu:9", "a:cpu=1 b:cpu=1", "a to b 1");
        let instance = SearchInstance::new(&snapshot, &|| false);
        let mut search = AnnealingSearch::new(&instance, &snapshot.incumbent(), 1, &|| false);
        assert_eq!(search.run(1, &Budget::effort(None, 1)), 1);
        let replica = &search.chains[0];
        assert!(replica.quenched(&|_| false).is_some());
        for given_up in [0.0, 0.45, 0.95] {
            assert_eq!(replica.quenched(&|part| part >= given_up), None);
        }
    }
}
