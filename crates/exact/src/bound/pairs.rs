//! Pairs of actors, and where the two can be together.

use std::collections::{BTreeMap, BTreeSet};

use placement::file::Scope;
use placement::ix::{ActorIx, IxVec, KindIx, NodeIx, PlaceIx, SetIx};

use crate::bound::kind_view::KindView;

/// The most pairs with variables; the program would take minutes otherwise.
const MAX_PAIRS: usize = 40_000;

/// Two actors, the smaller first.
pub type ActorPair = (ActorIx, ActorIx);

/// Pairs with variables, and the relations that bind them.
pub struct Pairs {
    /// Ascending: pairs connected by a message, a drag or a relation, directly or transitively.
    pub all: Vec<ActorPair>,
    /// Pairs that must not share a place, by the widest scope.
    pub apart: BTreeMap<ActorPair, Scope>,
    /// Pairs that must share a place, by the narrowest scope.
    pub together: BTreeMap<ActorPair, Scope>,
}

impl Pairs {
    /// Finds the connected pairs, by growing distance up to the limit.
    ///
    /// Relations of too many pairs are left out, which keeps the bound valid.
    pub fn new(view: &KindView) -> Self {
        let problem = view.problem;
        let mut pairs = Self { all: Vec::new(), apart: BTreeMap::new(), together: BTreeMap::new() };
        let mut related = 0;
        for relation in &problem.relations {
            let members = relation.actors.len();
            related += members * members.saturating_sub(1) / 2;
            if related > MAX_PAIRS {
                break;
            }
            for (position, &a) in relation.actors.iter().enumerate() {
                // What fixed actors violate among themselves does not count.
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
        pairs.all = connected_pairs(&near);
        pairs
    }

    fn bind(&mut self, two: ActorPair, apart: bool, scope: Scope) {
        if apart {
            self.apart.entry(two).and_modify(|known| *known = scope.max(*known)).or_insert(scope);
        } else {
            self.together.entry(two).and_modify(|known| *known = scope.min(*known)).or_insert(scope);
        }
    }
}

/// Pairs by growing distance, ascending; all of a distance or none.
fn connected_pairs(near: &IxVec<ActorIx, Vec<ActorIx>>) -> Vec<ActorPair> {
    let ordered = |a: ActorIx, b: ActorIx| (a.min(b), a.max(b));
    let tied = near.enumerate().flat_map(|(a, peers)| peers.iter().map(move |&b| ordered(a, b)));
    let mut all: BTreeSet<ActorPair> = tied.collect();
    let mut frontier: Vec<ActorPair> = all.iter().copied().collect();
    while !frontier.is_empty() {
        let mut next = BTreeSet::new();
        for &(a, b) in &frontier {
            let beside = |from: ActorIx, to: ActorIx| near[to].iter().map(move |&c| ordered(from, c));
            let new = beside(a, b).chain(beside(b, a)).filter(|pair| pair.0 != pair.1 && !all.contains(pair));
            next.extend(new);
            if all.len() + next.len() > MAX_PAIRS {
                return all.into_iter().collect();
            }
        }
        frontier = next.iter().copied().collect();
        all.extend(next);
    }
    all.into_iter().collect()
}

/// Where two actors can be together according to their candidates.
#[derive(Clone, Debug)]
pub struct Common {
    /// By kind: the largest limit of each unit dimension over common candidates; `None` without any.
    pub limits: IxVec<KindIx, Option<Vec<i64>>>,
    /// Whether they have candidates on one node.
    pub node: bool,
    /// Whether they have candidates in one zone.
    pub zone: bool,
}

/// [`Common`] by pair of candidate sets, cached.
#[derive(Default)]
pub struct Commons(BTreeMap<(SetIx, SetIx), Common>);

impl Commons {
    /// Where `a` and `b` can be together.
    pub fn of(&mut self, view: &KindView, a: ActorIx, b: ActorIx) -> &Common {
        let (set_a, set_b) = (view.problem.candidate_set[a], view.problem.candidate_set[b]);
        self.0.entry((set_a.min(set_b), set_a.max(set_b))).or_insert_with(|| common(view, a, b))
    }
}

fn common(view: &KindView, a: ActorIx, b: ActorIx) -> Common {
    let problem = view.problem;
    let (at_a, at_b) = (problem.candidates(a), problem.candidates(b));
    let mut limits: IxVec<KindIx, Option<Vec<i64>>> = IxVec::of(None, problem.kinds.len());
    for &unit in at_a.iter().filter(|unit| at_b.binary_search(unit).is_ok()) {
        let here: Vec<i64> = view.of_units().map(|(_, limits)| limits[unit]).collect();
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
