//! On how many nodes a placement lies.
//!
//! What is hot lies on all nodes, and where it cools each keeps its part, also where less would be sent between fewer: no step of a few
//! items empties a node. So one chain tries runs that keep out of some nodes from the first, and what leads to something better is what
//! all later runs keep out of.

use placement::ix::{ItemIx, IxVec, KindIx, NodeIx, UnitIx};
use placement::weighted::NOWHERE;

use crate::anneal::schedule::Annealing;
use crate::evaluation::rank::{Rank, Ranked, is_significantly_better};
use crate::model::Model;

/// How many nodes are left empty: what lies between enough and too many is halved.
pub(crate) struct Footprint {
    room: Room,
    /// What is tried.
    trial: Annealing,
    /// Nodes that runs keep out of.
    empty: Vec<NodeIx>,
    /// Those of the trial that is under way.
    tried: Option<Vec<NodeIx>>,
    /// More than these were too many.
    most: usize,
    /// Whether a run of the schedule comes before the next trial.
    rests: bool,
    /// The best of runs that are no longer than a trial.
    best: Option<Ranked>,
}

impl Footprint {
    /// None is empty, and trials are such runs.
    pub fn new(model: &Model, trial: Annealing) -> Self {
        let room = Room::new(model);
        Self { room, trial, empty: Vec::new(), tried: None, most: usize::MAX, rests: false, best: None }
    }

    /// Nodes that runs keep out of.
    pub fn empty(&self) -> &[NodeIx] {
        &self.empty
    }

    /// A run has ended with this as its best.
    pub fn note(&mut self, run: &Annealing, found: Option<Ranked>) {
        if run.is_trial
            && let Some(tried) = self.tried.take()
        {
            if found.as_ref().is_some_and(|(rank, _)| self.is_worth_while(*rank)) {
                (self.empty, self.best) = (tried, found);
            } else {
                (self.most, self.rests) = (tried.len().saturating_sub(1), true);
            }
        } else if run.length <= self.trial.length
            && !run.from_best
            && found.as_ref().is_some_and(|(rank, _)| self.best.as_ref().is_none_or(|(best, _)| rank < best))
        {
            self.best = found;
        }
    }

    fn is_worth_while(&self, rank: Rank) -> bool {
        self.best.as_ref().is_none_or(|(best, _)| is_significantly_better(rank, *best))
    }

    /// What a chain tries after such a run, if it is time: the run, and the nodes that it keeps out of.
    pub fn next_trial(&mut self, model: &Model, after: &Annealing) -> Option<(Annealing, &[NodeIx])> {
        // What shorter runs end with says too little.
        if std::mem::take(&mut self.rests) || after.length < self.trial.length / 2 {
            return None;
        }
        let (_, places) = self.best.as_ref()?;
        let mut tried = self.room.emptied(model, places, &self.empty);
        let more = tried.len().min(self.most).saturating_sub(self.empty.len());
        if more == 0 {
            return None;
        }
        tried.truncate(self.empty.len() + more.div_ceil(2));
        Some((self.trial, self.tried.insert(tried)))
    }
}

/// What is needed, and what there is: of each limit of a unit, by kind for those that run on no other kind, and of all. Sums over a
/// world of the largest numbers pass 64 bits.
#[derive(Clone)]
struct Room {
    needed: Vec<i128>,
    left: Vec<i128>,
    /// Half of the mean work, which a unit may be left with: by kind, and of all.
    waste: Vec<i128>,
}

impl Room {
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

    /// Adds what a node's units have left, so many times.
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

    /// Nodes that can be empty beside those that are, as far as the sums say: zone by zone, the one with the least work first, and in it
    /// the nodes with the least.
    fn emptied(&self, model: &Model, places: &IxVec<ItemIx, UnitIx>, empty: &[NodeIx]) -> Vec<NodeIx> {
        let zone = |node: NodeIx| model.regions.zone(node);
        let nodes = || NodeIx::first(model.units_of_node.len());
        let mut of_node = IxVec::of(0, model.units_of_node.len());
        let mut of_zone = IxVec::of(0, nodes().map(|node| zone(node).at() + 1).max().unwrap_or(0));
        for item in ItemIx::first(model.free).filter(|item| places[*item] != NOWHERE) {
            let (node, work) = (model.node_of[places[item]], model.needs(item, places[item])[0]);
            let work = i128::from(work);
            of_node[node] += work;
            of_zone[zone(node)] += work;
        }
        let mut order: Vec<NodeIx> = nodes().filter(|node| !empty.contains(node)).collect();
        order.sort_by_key(|node| (of_zone[zone(*node)], zone(*node), of_node[*node], *node));
        let mut room = self.clone();
        for node in empty {
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
        [empty, &order].concat()
    }
}

#[cfg(test)]
mod tests {
    use placement::Snapshot;

    use super::*;
    use crate::anneal::schedule::Schedule;

    /// Two zones of two nodes with two units each, and eight actors that need so much work.
    fn world(work: u32) -> Snapshot {
        let unit = |at: usize| format!("u{at}:cpu:10:node=n{},zone=z{}", at / 2, at / 4);
        let units: Vec<String> = (0..8).map(unit).collect();
        let actors: Vec<String> = (0..8).map(|at| format!("a{at}:cpu={work}")).collect();
        testkit::line::world(&units.join(" "), &actors.join(" "), "")
    }

    /// Where each actor is on the unit of this number.
    fn at(units: [usize; 8]) -> IxVec<ItemIx, UnitIx> {
        units.map(UnitIx::new).into_iter().collect()
    }

    fn trial(model: &Model) -> Annealing {
        Schedule::new((model.free, model.steps()), 0, false, None).trial()
    }

    /// The nodes that are tried after runs that ended with these objectives.
    fn tried(snapshot: &Snapshot, places: [usize; 8], ends: &[i64]) -> Vec<Vec<usize>> {
        let model = Model::new(snapshot);
        let mut footprint = Footprint::new(&model, trial(&model));
        let mut run = trial(&model);
        run.is_trial = false;
        let mut tried = Vec::new();
        for end in ends {
            footprint.note(&run, Some(((0, 0, *end), at(places))));
            run.is_trial = footprint.next_trial(&model, &run).is_some();
            let nodes = footprint.tried.iter().flatten();
            tried.push(nodes.map(|node| node.at()).collect());
        }
        tried
    }

    #[test]
    fn what_has_the_least_work_is_emptied_first_as_far_as_there_is_room_elsewhere() {
        // Each unit may be left with half of what one needs: 16 go on two units, so three of four nodes could be empty, and 32 on four.
        let places = [0, 0, 1, 2, 4, 5, 6, 0];
        assert_eq!(tried(&world(2), places, &[1000]), [[3, 2]]);
        assert_eq!(tried(&world(4), places, &[1000]), [[3]]);
        assert_eq!(tried(&world(9), places, &[1000]), [Vec::<usize>::new()]);
    }

    #[test]
    fn what_is_significantly_better_is_kept_and_else_a_run_comes_between() {
        let places = [0, 0, 1, 2, 4, 5, 6, 0];
        let (two, one, none) = (vec![3, 2], vec![3], vec![]);
        // A hundredth is chance.
        assert_eq!(tried(&world(2), places, &[1000, 990, 985]), [two.clone(), none.clone(), one.clone()]);
        // One more is tried, and then no more.
        let ends = [1000, 980, 985, 985];
        assert_eq!(tried(&world(2), places, &ends), [two.clone(), vec![3, 2, 1], none.clone(), none.clone()]);
        assert_eq!(tried(&world(2), places, &[1000, 980, 900, 800])[2], none);
    }

    #[test]
    fn sums_over_units_of_the_largest_capacity_are_summed_all_the_same() {
        let unit = |at: usize| format!("u{at}:cpu:9007199254740991:node=n{at}");
        let units: Vec<String> = (0..2048).map(unit).collect();
        let snapshot = testkit::line::world(&units.join(" "), "a:cpu=1 b:cpu=1", "");
        let model = Model::new(&snapshot);
        let places = [0, 1].map(UnitIx::new).into_iter().collect();
        assert_eq!(Room::new(&model).emptied(&model, &places, &[]).len(), 2047);
    }
}
