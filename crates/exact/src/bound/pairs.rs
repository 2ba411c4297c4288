//! Pairs of actors, and where the two can be together.

use std::collections::{BTreeMap, BTreeSet};

use placement::file::{Constraint, Scope};

use crate::bound::world::World;

/// More pairs than this are not looked at: the program would take minutes.
const MOST_PAIRS: usize = 40_000;

/// Pairs that are worth variables, and which relations bind them.
pub struct Pairs {
    /// Ascending: tied by a message or a drag, bound by a relation, or tied over others.
    pub all: Vec<(usize, usize)>,
    /// Pairs that must not share a place, with the widest scope of which they must not.
    pub apart: BTreeMap<(usize, usize), Scope>,
    /// Pairs that must share a place, with the narrowest scope of which they must.
    pub together: BTreeMap<(usize, usize), Scope>,
}

impl Pairs {
    /// Finds the pairs: those that are tied, then those that are tied over others, as long as there is room for them.
    pub fn new(world: &World) -> Self {
        let snapshot = world.snapshot;
        let mut pairs = Self { all: Vec::new(), apart: BTreeMap::new(), together: BTreeMap::new() };
        for constraint in &snapshot.file().constraints {
            match constraint {
                Constraint::Apart { on, actors, .. } => {
                    pairs.bind(world, actors, |pairs| &mut pairs.apart, |known| known.max(*on), *on);
                }
                Constraint::Together { on, actors, .. } => {
                    pairs.bind(world, actors, |pairs| &mut pairs.together, |known| known.min(*on), *on);
                }
                _ => {}
            }
        }
        let mut near: Vec<Vec<usize>> = (0..snapshot.actors())
            .map(|actor| snapshot.edges(actor).iter().map(|edge| edge.peer.at()).collect())
            .collect();
        for &(a, b) in pairs.together.keys() {
            near[a].push(b);
            near[b].push(a);
        }
        pairs.all = within_reach(&near);
        pairs
    }

    fn bind(
        &mut self,
        world: &World,
        actors: &[String],
        which: impl Fn(&mut Self) -> &mut BTreeMap<(usize, usize), Scope>,
        both: impl Fn(Scope) -> Scope,
        on: Scope,
    ) {
        let mut at: Vec<usize> = actors.iter().filter_map(|actor| world.snapshot.actor(actor)).collect();
        at.sort_unstable();
        at.dedup();
        for (position, &a) in at.iter().enumerate() {
            for &b in &at[position + 1..] {
                // What fixed actors break among themselves is held against nobody.
                if !(world.snapshot.is_fixed(a) && world.snapshot.is_fixed(b)) {
                    which(self).entry((a, b)).and_modify(|known| *known = both(*known)).or_insert(on);
                }
            }
        }
    }
}

/// Pairs by growing distance, ascending; all of a distance or none.
fn within_reach(near: &[Vec<usize>]) -> Vec<(usize, usize)> {
    let ordered = |a: usize, b: usize| (a.min(b), a.max(b));
    let tied = near.iter().enumerate().flat_map(|(a, peers)| peers.iter().map(move |&b| ordered(a, b)));
    let mut all: BTreeSet<(usize, usize)> = tied.collect();
    let mut rim: Vec<(usize, usize)> = all.iter().copied().collect();
    while !rim.is_empty() {
        let mut wider = BTreeSet::new();
        for &(a, b) in &rim {
            let beside = |from: usize, to: usize| near[to].iter().map(move |&c| ordered(from, c));
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
    pub limits: Vec<Option<Vec<i64>>>,
    /// They have candidates on one node.
    pub node: bool,
    /// They have candidates in one zone.
    pub zone: bool,
}

/// [`Common`] by pair of candidate sets, worked out once.
#[derive(Default)]
pub struct Commons(BTreeMap<(usize, usize), Common>);

impl Commons {
    /// Where `a` and `b` can meet.
    pub fn of(&mut self, world: &World, a: usize, b: usize) -> &Common {
        let (set_a, set_b) = (world.snapshot.candidate_set(a), world.snapshot.candidate_set(b));
        self.0.entry((set_a.min(set_b), set_a.max(set_b))).or_insert_with(|| common(world, a, b))
    }
}

fn common(world: &World, a: usize, b: usize) -> Common {
    let snapshot = world.snapshot;
    let (at_a, at_b) = (snapshot.candidates(a), snapshot.candidates(b));
    let mut limits: Vec<Option<Vec<i64>>> = vec![None; world.kinds];
    for &unit in at_a.iter().filter(|unit| at_b.binary_search(unit).is_ok()) {
        let here = world.dimensions.iter().filter(|dimension| !dimension.of_nodes);
        let here: Vec<i64> = here.map(|dimension| dimension.limits[unit]).collect();
        match &mut limits[world.unit_kind[unit]] {
            Some(most) => most.iter_mut().zip(here).for_each(|(most, here)| *most = (*most).max(here)),
            none => *none = Some(here),
        }
    }
    let nodes: BTreeSet<usize> = at_a.iter().map(|&unit| snapshot.node_of(unit)).collect();
    let zones: BTreeSet<usize> = at_a.iter().map(|&unit| world.unit_zone[unit]).collect();
    Common {
        limits,
        node: at_b.iter().any(|&unit| nodes.contains(&snapshot.node_of(unit))),
        zone: at_b.iter().any(|&unit| zones.contains(&world.unit_zone[unit])),
    }
}
