//! Pairs of actors, and where the two can be together.

use std::collections::{BTreeMap, BTreeSet};

use placement::file::Scope;
use placement::ix::{ActorIx, IxVec, KindIx, NodeIx, PlaceIx, SetIx};

use crate::bound::kind_view::KindView;

/// More pairs than this are not looked at: the program would take minutes.
const MOST_PAIRS: usize = 40_000;

/// Two actors, the smaller first.
pub type Two = (ActorIx, ActorIx);

/// Pairs that are worth variables, and which relations bind them.
pub struct Pairs {
    /// Ascending: tied by a message or a drag, bound by a relation, or tied over others.
    pub all: Vec<Two>,
    /// Pairs that must not share a place, with the widest scope of which they must not.
    pub apart: BTreeMap<Two, Scope>,
    /// Pairs that must share a place, with the narrowest scope of which they must.
    pub together: BTreeMap<Two, Scope>,
}

impl Pairs {
    /// Finds the pairs: those that are tied, then those that are tied over others, as long as there is room for them.
    ///
    /// Relations of more pairs than are looked at are left out: what they demand makes a bound no less right.
    pub fn new(world: &KindView) -> Self {
        let problem = world.problem;
        let mut pairs = Self { all: Vec::new(), apart: BTreeMap::new(), together: BTreeMap::new() };
        let mut bound = 0;
        for relation in &problem.relations {
            let members = relation.actors.len();
            bound += members * members.saturating_sub(1) / 2;
            if bound > MOST_PAIRS {
                break;
            }
            for (position, &a) in relation.actors.iter().enumerate() {
                // What fixed actors break among themselves is held against nobody.
                let others = relation.actors[position + 1..].iter();
                for &b in others.filter(|b| !(problem.fixed[a] && problem.fixed[**b])) {
                    pairs.bind((a, b), relation.apart, relation.scope);
                }
            }
        }
        let peers = |edges: &Vec<placement::Edge>| edges.iter().map(|edge| edge.peer).collect();
        let mut near: IxVec<ActorIx, Vec<ActorIx>> = problem.edges.iter().map(peers).collect();
        for &(a, b) in pairs.together.keys() {
            near[a].push(b);
            near[b].push(a);
        }
        pairs.all = within_reach(&near);
        pairs
    }

    fn bind(&mut self, two: Two, apart: bool, scope: Scope) {
        if apart {
            self.apart.entry(two).and_modify(|known| *known = scope.max(*known)).or_insert(scope);
        } else {
            self.together.entry(two).and_modify(|known| *known = scope.min(*known)).or_insert(scope);
        }
    }
}

/// Pairs by growing distance, ascending; all of a distance or none.
fn within_reach(near: &IxVec<ActorIx, Vec<ActorIx>>) -> Vec<Two> {
    let ordered = |a: ActorIx, b: ActorIx| (a.min(b), a.max(b));
    let tied = near.enumerate().flat_map(|(a, peers)| peers.iter().map(move |&b| ordered(a, b)));
    let mut all: BTreeSet<Two> = tied.collect();
    let mut rim: Vec<Two> = all.iter().copied().collect();
    while !rim.is_empty() {
        let mut wider = BTreeSet::new();
        for &(a, b) in &rim {
            let beside = |from: ActorIx, to: ActorIx| near[to].iter().map(move |&c| ordered(from, c));
            let new = beside(a, b).chain(beside(b, a)).filter(|pair| pair.0 != pair.1 && !all.contains(pair));
            wider.extend(new);
            if all.len() + wider.len() > MOST_PAIRS {
                return all.into_iter().collect();
            }
        }
        rim = wider.iter().copied().collect();
        all.extend(wider);
    }
    all.into_iter().collect()
}

/// Where two actors can meet as far as their candidates decide.
#[derive(Clone, Debug)]
pub struct Common {
    /// By kind: the largest limit of each of the units' dimensions over common candidates; `None` without any.
    pub limits: IxVec<KindIx, Option<Vec<i64>>>,
    /// They have candidates on one node.
    pub node: bool,
    /// They have candidates in one zone.
    pub zone: bool,
}

/// [`Common`] by pair of candidate sets, worked out once.
#[derive(Default)]
pub struct Commons(BTreeMap<(SetIx, SetIx), Common>);

impl Commons {
    /// Where `a` and `b` can meet.
    pub fn of(&mut self, world: &KindView, a: ActorIx, b: ActorIx) -> &Common {
        let (set_a, set_b) = (world.problem.candidate_set[a], world.problem.candidate_set[b]);
        self.0.entry((set_a.min(set_b), set_a.max(set_b))).or_insert_with(|| common(world, a, b))
    }
}

fn common(world: &KindView, a: ActorIx, b: ActorIx) -> Common {
    let problem = world.problem;
    let (at_a, at_b) = (problem.candidates(a), problem.candidates(b));
    let mut limits: IxVec<KindIx, Option<Vec<i64>>> = IxVec::of(None, problem.kinds.len());
    for &unit in at_a.iter().filter(|unit| at_b.binary_search(unit).is_ok()) {
        let here: Vec<i64> = world.of_units().map(|(_, limits)| limits[unit]).collect();
        match &mut limits[problem.unit_kind[unit]] {
            Some(most) => most.iter_mut().zip(here).for_each(|(most, here)| *most = (*most).max(here)),
            none => *none = Some(here),
        }
    }
    let nodes: BTreeSet<NodeIx> = at_a.iter().map(|&unit| problem.unit_node[unit]).collect();
    let zones: BTreeSet<PlaceIx> = at_a.iter().map(|&unit| problem.unit_zone[unit]).collect();
    Common {
        limits,
        node: at_b.iter().any(|&unit| nodes.contains(&problem.unit_node[unit])),
        zone: at_b.iter().any(|&unit| zones.contains(&problem.unit_zone[unit])),
    }
}
