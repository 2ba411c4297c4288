//! Restricts runs to a subset of nodes, so that some stay empty. At high temperature the actors spread over all nodes,
//! and no small move empties a node later, even where less would be sent between fewer nodes. So one chain tries runs
//! with some nodes closed. If that is better, all later runs keep them closed.

use placement::ix::{ItemIx, IxVec, KindIx, NodeIx, UnitIx};
use placement::weighted::NOWHERE;

use crate::anneal::schedule::RunSchedule;
use crate::evaluation::rank::{Rank, Ranked, is_significantly_better};
use crate::model::Model;

/// How many nodes are closed: a bisection between enough and too many.
pub(crate) struct OpenNodeRestriction {
    room: NodeRoom,
    /// The schedule of a trial.
    trial: RunSchedule,
    /// Nodes that all runs keep closed.
    closed: Vec<NodeIx>,
    /// Nodes that the present trial keeps closed.
    tried: Option<Vec<NodeIx>>,
    /// More closed nodes than this were too many.
    most_closed: usize,
    /// Whether a regular run comes before the next trial.
    skips_next: bool,
    /// The best of runs that are no longer than a trial.
    best: Option<Ranked>,
}

impl OpenNodeRestriction {
    /// No node is closed, and trials have this schedule.
    pub fn new(model: &Model, trial: RunSchedule) -> Self {
        let room = NodeRoom::new(model);
        Self {
            room,
            trial,
            closed: Vec::new(),
            tried: None,
            most_closed: usize::MAX,
            skips_next: false,
            best: None,
        }
    }

    /// Nodes that all runs keep closed.
    pub fn closed(&self) -> &[NodeIx] {
        &self.closed
    }

    /// Records the best of a run that has ended.
    pub fn record_run(&mut self, run: &RunSchedule, found: Option<Ranked>) {
        if run.is_trial
            && let Some(tried) = self.tried.take()
        {
            if found.as_ref().is_some_and(|(rank, _)| self.improves(*rank)) {
                (self.closed, self.best) = (tried, found);
            } else {
                (self.most_closed, self.skips_next) = (tried.len().saturating_sub(1), true);
            }
        } else if run.length <= self.trial.length
            && !run.from_best
            && found.as_ref().is_some_and(|(rank, _)| self.best.as_ref().is_none_or(|(best, _)| rank < best))
        {
            self.best = found;
        }
    }

    fn improves(&self, rank: Rank) -> bool {
        self.best.as_ref().is_none_or(|(best, _)| is_significantly_better(rank, *best))
    }

    /// The trial that comes after such a run, if it is due, and the nodes that it keeps closed.
    pub fn next_trial(&mut self, model: &Model, after: &RunSchedule) -> Option<(RunSchedule, &[NodeIx])> {
        // The results of shorter runs are too noisy.
        if std::mem::take(&mut self.skips_next) || after.length < self.trial.length / 2 {
            return None;
        }
        let (_, places) = self.best.as_ref()?;
        let mut tried = self.room.closable(model, places, &self.closed);
        let more = tried.len().min(self.most_closed).saturating_sub(self.closed.len());
        if more == 0 {
            return None;
        }
        tried.truncate(self.closed.len() + more.div_ceil(2));
        Some((self.trial, self.tried.insert(tried)))
    }
}

/// Demand and supply per dimension: by kind for items that run on no other kind, and in total. Sums over large snapshots
/// exceed 64 bits.
#[derive(Clone)]
struct NodeRoom {
    needed: Vec<i128>,
    left: Vec<i128>,
    /// Half of the mean work, which may be lost on each unit: by kind, and in total.
    waste: Vec<i128>,
}

impl NodeRoom {
    fn new(model: &Model) -> Self {
        let (all, dims) = (model.snapshot.problem().kinds.len(), model.dims);
        let none = || vec![0; (all + 1) * dims];
        let mut room = Self { needed: none(), left: none(), waste: vec![0; all + 1] };
        let mut counts = vec![0; all + 1];
        for item in ItemIx::first(model.free) {
            let ways: Vec<(KindIx, &[i64])> = model.ways(item).collect();
            let only = if let [(kind, _)] = ways[..] { Some(kind.at()) } else { None };
            for kind in only.into_iter().chain([all]) {
                counts[kind] += 1;
                for (dim, needed) in room.needed[kind * dims..][..dims].iter_mut().enumerate() {
                    *needed += i128::from(ways.iter().map(|(_, needs)| needs[dim]).min().unwrap_or(0));
                }
            }
        }
        for (kind, count) in counts.into_iter().enumerate() {
            room.waste[kind] = room.needed[kind * dims] / (2 * count).max(1);
        }
        for node in NodeIx::first(model.units_of_node.len()) {
            room.add(model, node, 1);
        }
        room
    }

    /// Adds what a node's units have left, `times` times.
    fn add(&mut self, model: &Model, node: NodeIx, times: i128) {
        let problem = model.snapshot.problem();
        for unit in &model.units_of_node[node] {
            for kind in [problem.unit_kind[*unit].at(), problem.kinds.len()] {
                for dim in 0..model.dims {
                    let left = i128::from(model.unit_left[unit.at() * model.dims + dim].max(0));
                    let waste = if dim == 0 { self.waste[kind].min(left) } else { 0 };
                    self.left[kind * model.dims + dim] += times * (left - waste);
                }
            }
        }
    }

    /// Nodes that can be closed beside those that are, as far as the sums tell: by zone and node, the least work first.
    fn closable(&self, model: &Model, places: &IxVec<ItemIx, UnitIx>, closed: &[NodeIx]) -> Vec<NodeIx> {
        let zone = |node: NodeIx| model.node_classes.zone(node);
        let nodes = || NodeIx::first(model.units_of_node.len());
        let mut of_node = IxVec::of(0, model.units_of_node.len());
        let mut of_zone = IxVec::of(0, nodes().map(|node| zone(node).at() + 1).max().unwrap_or(0));
        for item in ItemIx::first(model.free).filter(|item| places[*item] != NOWHERE) {
            let (node, work) = (model.node_of[places[item]], model.needs(item, places[item])[0]);
            let work = i128::from(work);
            of_node[node] += work;
            of_zone[zone(node)] += work;
        }
        let mut order: Vec<NodeIx> = nodes().filter(|node| !closed.contains(node)).collect();
        order.sort_by_key(|node| (of_zone[zone(*node)], zone(*node), of_node[*node], *node));
        let mut room = self.clone();
        for node in closed {
            room.add(model, *node, -1);
        }
        order.retain(|node| {
            room.add(model, *node, -1);
            let suffices = room.left.iter().zip(&room.needed).all(|(left, needed)| left >= needed);
            if !suffices {
                room.add(model, *node, 1);
            }
            suffices
        });
        [closed, &order].concat()
    }
}

#[cfg(test)]
mod tests {
    use placement::Snapshot;

    use super::*;
    use crate::anneal::schedule::RunSequence;

    /// Two zones of two nodes with two units each, and eight actors with this work.
    fn world(work: u32) -> Snapshot {
        let unit = |at: usize| format!("u{at}:cpu:10:node=n{},zone=z{}", at / 2, at / 4);
        let units: Vec<String> = (0..8).map(unit).collect();
        let actors: Vec<String> = (0..8).map(|at| format!("a{at}:cpu={work}")).collect();
        testkit::line::world(&units.join(" "), &actors.join(" "), "")
    }

    /// A placement by unit number.
    fn at(units: [usize; 8]) -> IxVec<ItemIx, UnitIx> {
        units.map(UnitIx::new).into_iter().collect()
    }

    fn trial(model: &Model) -> RunSchedule {
        RunSequence::new((model.free, model.steps()), 0, false, None).trial()
    }

    /// The nodes that are tried after runs that ended with these objectives.
    fn tried(snapshot: &Snapshot, places: [usize; 8], ends: &[i64]) -> Vec<Vec<usize>> {
        let model = Model::new(snapshot);
        let mut restriction = OpenNodeRestriction::new(&model, trial(&model));
        let mut run = trial(&model);
        run.is_trial = false;
        let mut tried = Vec::new();
        for end in ends {
            restriction.record_run(&run, Some(((0, 0, *end), at(places))));
            run.is_trial = restriction.next_trial(&model, &run).is_some();
            let nodes = restriction.tried.iter().flatten();
            tried.push(nodes.map(|node| node.at()).collect());
        }
        tried
    }

    #[test]
    fn nodes_with_the_least_work_are_closed_first() {
        // Each unit may waste half of an actor's work: 16 need two units, so three of four nodes could be closed; 32
        // need four.
        let places = [0, 0, 1, 2, 4, 5, 6, 0];
        assert_eq!(tried(&world(2), places, &[1000]), [[3, 2]]);
        assert_eq!(tried(&world(4), places, &[1000]), [[3]]);
        assert_eq!(tried(&world(9), places, &[1000]), [Vec::<usize>::new()]);
    }

    #[test]
    fn significant_improvements_are_kept_and_failures_delay_the_next_trial() {
        let places = [0, 0, 1, 2, 4, 5, 6, 0];
        let (two, one, none) = (vec![3, 2], vec![3], vec![]);
        // A difference of a hundredth is noise.
        assert_eq!(tried(&world(2), places, &[1000, 990, 985]), [two.clone(), none.clone(), one.clone()]);
        // One more is tried, and then no more.
        let ends = [1000, 980, 985, 985];
        assert_eq!(tried(&world(2), places, &ends), [two.clone(), vec![3, 2, 1], none.clone(), none.clone()]);
        assert_eq!(tried(&world(2), places, &[1000, 980, 900, 800])[2], none);
    }

    #[test]
    fn sums_of_the_largest_capacities_do_not_overflow() {
        let unit = |at: usize| format!("u{at}:cpu:9007199254740991:node=n{at}");
        let units: Vec<String> = (0..2048).map(unit).collect();
        let snapshot = testkit::line::world(&units.join(" "), "a:cpu=1 b:cpu=1", "");
        let model = Model::new(&snapshot);
        let places = [0, 1].map(UnitIx::new).into_iter().collect();
        assert_eq!(NodeRoom::new(&model).closable(&model, &places, &[]).len(), 2047);
    }
}
