//! A snapshot as the search sees it: items, classes of units, and one number to be made small.

use std::collections::BTreeMap;

use placement::file::{Constraint, Scope};
use placement::{Assignment, Criterion, Snapshot};

use crate::branch::classes::{Class, MOST, Pool, classes};

/// What the levels together may add up to, so that halves, sums over all pairs and finer prices fit into 64 bits.
pub(crate) const LARGEST: i64 = 1 << 42;

/// What is not allowed costs this: more than twice what anything feasible can.
pub(crate) const FORBIDDEN: i64 = 1 << 45;

/// Units that are compared with each other.
const MOST_UNITS: usize = 512;

/// An actor that can move.
pub(crate) struct Item {
    /// Its position in the snapshot.
    pub actor: usize,
    /// The classes that it can be in, as bits.
    pub domain: u64,
    /// By class: what it costs there whatever the other items do.
    pub costs: Vec<i64>,
    /// By class and dimension: what it needs there.
    pub needs: Vec<Vec<i64>>,
    /// The other item, and the position of what ties them.
    pub ties: Vec<(usize, usize)>,
}

/// What ties two items: what it costs where they are, and where they must not be both.
pub(crate) struct Tie {
    pub items: [usize; 2],
    /// Times the exchange cost of their units.
    rate: i64,
    /// On different units.
    apart: i64,
    /// On one unit.
    together: i64,
    /// What relations leave of the places, where there are any.
    bar: Option<Bar>,
}

/// Where two items may be both.
struct Bar {
    /// By class of one: the classes in which the other may be on another unit.
    apart: Vec<u64>,
    /// The classes in which they may share a unit.
    together: u64,
}

/// The world of the search.
pub(crate) struct Model {
    pub items: Vec<Item>,
    pub ties: Vec<Tie>,
    pub classes: Vec<Class>,
    pub pools: Vec<Pool>,
    /// By two classes: of a message between a unit of each; of one class, between two of its units.
    exchange: Vec<Vec<i64>>,
    /// What the start costs; `None` where it leaves actors out or overloads units, so that all that is found is better.
    pub start: Option<i64>,
}

/// What each criterion counts in the one number.
struct Weights(BTreeMap<Criterion, i64>);

impl Weights {
    fn of(&self, criterion: Criterion) -> i64 {
        self.0.get(&criterion).copied().unwrap_or(0)
    }
}

/// What a unit costs an item by itself: its ties to what is fixed, the price of moving, wishes that are missed.
struct Alone {
    /// By item and position in `targets`.
    costs: Vec<Vec<i64>>,
    /// By item and position in `targets`: whether it may be there.
    may: Vec<Vec<bool>>,
}

impl Model {
    /// Takes a snapshot apart; `None` where it has criteria, rules or sizes that are not for this search.
    pub fn new(snapshot: &Snapshot, start: &Assignment) -> Option<Self> {
        let movable: Vec<usize> = (0..snapshot.actors()).filter(|&actor| !snapshot.is_fixed(actor)).collect();
        if movable.len() > MOST || snapshot.rules().is_some_and(|rules| !rules.ground().is_empty()) {
            return None;
        }
        let has_cap = |constraint: &Constraint| matches!(constraint, Constraint::PowerCap { .. });
        if snapshot.file().constraints.iter().any(has_cap) {
            return None;
        }
        let mut targets: Vec<usize> =
            movable.iter().flat_map(|&actor| snapshot.candidates(actor).iter().copied()).collect();
        targets.sort_unstable();
        targets.dedup();
        if targets.len() > MOST_UNITS {
            return None;
        }
        let is_full = is_overload_full(snapshot, &movable)?;
        let weights = weights(snapshot, &movable, &targets)?;
        let alone = alone(snapshot, &movable, &targets, &weights);
        let relations = Relations::new(snapshot, &movable);
        let world =
            classes(snapshot, &movable, &targets, is_full, &relations.scopes, &alone.costs, &alone.may)?;
        let rep = |class: &Class| class.units[0];
        let exchange = world.classes.iter().map(|a| {
            let between = |b: &Class| match a.units.get(1) {
                Some(&second) if rep(a) == rep(b) => snapshot.exchange_cost(rep(a), second),
                _ => snapshot.exchange_cost(rep(a), rep(b)),
            };
            world.classes.iter().map(between).collect()
        });
        let mut model = Self {
            items: Vec::new(),
            ties: Vec::new(),
            exchange: exchange.collect(),
            classes: world.classes,
            pools: world.pools,
            start: None,
        };
        for (item, &actor) in movable.iter().enumerate() {
            let at =
                |class: &Class| targets.binary_search(&class.units[0]).expect("classes are made of targets");
            let may = |(_, class): &(usize, &Class)| alone.may[item][at(class)];
            let domain =
                model.classes.iter().enumerate().filter(may).fold(0, |bits, (class, _)| bits | 1 << class);
            model.items.push(Item {
                actor,
                domain,
                costs: model.classes.iter().map(|class| alone.costs[item][at(class)]).collect(),
                needs: world.needs[item].clone(),
                ties: Vec::new(),
            });
        }
        model.tie_up(snapshot, &movable, &weights, &relations);
        let is_whole = start.iter().all(Option::is_some) && (!is_full || snapshot.cost(start).overload == 0);
        model.start = is_whole.then(|| model.value(snapshot, start));
        Some(model)
    }

    fn tie_up(&mut self, snapshot: &Snapshot, movable: &[usize], weights: &Weights, relations: &Relations) {
        for (a, &actor) in movable.iter().enumerate() {
            for (b, &peer) in movable.iter().enumerate().skip(a + 1) {
                let edges = snapshot.edges(actor);
                let edge = edges.binary_search_by_key(&peer, |edge| edge.peer.at()).ok().map(|at| edges[at]);
                let edge = edge.unwrap_or_default();
                let tie = Tie {
                    items: [a, b],
                    rate: edge.rate * weights.of(Criterion::Communication),
                    apart: edge.annoyance * weights.of(Criterion::Annoyance),
                    together: edge.interference * weights.of(Criterion::Interference),
                    bar: relations.bar(snapshot, [actor, peer], &self.classes),
                };
                if tie.rate > 0 || tie.apart > 0 || tie.together > 0 || tie.bar.is_some() {
                    self.items[a].ties.push((b, self.ties.len()));
                    self.items[b].ties.push((a, self.ties.len()));
                    self.ties.push(tie);
                }
            }
        }
    }

    /// What a tie costs with one item on a unit of class `g` and the other on another unit, of class `h`.
    pub fn apart(&self, tie: &Tie, g: usize, h: usize) -> i64 {
        if tie.bar.as_ref().is_some_and(|bar| bar.apart[g] >> h & 1 == 0) || (g == h && self.is_single(g)) {
            return FORBIDDEN;
        }
        tie.rate * self.exchange[g][h] + tie.apart
    }

    /// What it costs with both on one unit of a class.
    #[expect(clippy::unused_self, reason = "the counterpart of `apart`")]
    pub fn together(&self, tie: &Tie, g: usize) -> i64 {
        let barred = tie.bar.as_ref().is_some_and(|bar| bar.together >> g & 1 == 0);
        if barred { FORBIDDEN } else { tie.together }
    }

    /// Whether what a tie costs means that it is not allowed.
    pub fn is_forbidden(cost: i64) -> bool {
        cost >= FORBIDDEN
    }

    /// A measure of how much a tie matters to an item of a class.
    pub fn exposure(&self, tie: &Tie, class: usize) -> i64 {
        tie.rate.saturating_mul(self.exchange[class][class].max(1)).saturating_add(tie.apart)
    }

    /// What everything costs that does not depend on how classes are partition; `classes` are those of the items.
    pub fn between(&self, classes: &[usize]) -> i64 {
        let alone = self.items.iter().zip(classes).map(|(item, &class)| item.costs[class]);
        let tied = self.ties.iter().map(|tie| {
            let [a, b] = tie.items.map(|item| classes[item]);
            match a == b {
                false => self.apart(tie, a, b),
                true if self.is_single(a) => self.together(tie, a),
                true => 0,
            }
        });
        alone.chain(tied).sum()
    }

    /// Whether a class is one unit.
    pub fn is_single(&self, class: usize) -> bool {
        self.classes[class].units.len() == 1
    }

    /// The one number of an assignment of the whole world.
    fn value(&self, snapshot: &Snapshot, assignment: &Assignment) -> i64 {
        let unit = |item: usize| assignment[self.items[item].actor].expect("all actors are placed");
        let class = |item: usize| {
            let of = |class: &Class| class.units.contains(&unit(item));
            self.classes.iter().position(of).expect("a feasible place is a candidate")
        };
        let alone = (0..self.items.len()).map(|item| self.items[item].costs[class(item)]);
        let tied = self.ties.iter().map(|tie| {
            let [a, b] = tie.items.map(unit);
            if a == b { tie.together } else { tie.rate * snapshot.exchange_cost(a, b) + tie.apart }
        });
        alone.chain(tied).sum()
    }
}

/// Whether load is limited by capacity; `None` where overload is more than a limit.
///
/// The first level may be overload alone. Where it is 0, no unit is above its capacity, or all are equally far above:
/// the latter takes more work than there is room.
fn is_overload_full(snapshot: &Snapshot, movable: &[usize]) -> Option<bool> {
    let levels = snapshot.objectives().levels();
    if !snapshot.objectives().names(Criterion::Overload) {
        return Some(false);
    }
    if levels[0] != [Criterion::Overload] {
        return None;
    }
    let work = |actor: usize, unit: usize| snapshot.implementation(actor, unit).map_or(0, |needs| needs.work);
    let most = |&actor: &usize| snapshot.candidates(actor).iter().map(|&unit| work(actor, unit)).max();
    let mut room: Vec<i128> = (0..snapshot.units()).map(|unit| i128::from(snapshot.capacity(unit))).collect();
    for actor in (0..snapshot.actors()).filter(|&actor| snapshot.is_fixed(actor)) {
        let home = snapshot.current(actor)?;
        room[home] -= i128::from(work(actor, home));
    }
    if room.iter().any(|room| *room < 0) {
        return None;
    }
    let work: i128 = movable.iter().filter_map(most).map(i128::from).sum();
    let room: i128 = room.iter().sum();
    let units = i128::try_from(snapshot.units()).ok()?;
    (work < room + units).then_some(true)
}

/// Weights that make one number of the levels, such that the least of it is the least of them in their order.
fn weights(snapshot: &Snapshot, movable: &[usize], targets: &[usize]) -> Option<Weights> {
    let mut dearest = 0;
    for &a in targets {
        // Also to units of fixed peers, which need not be targets.
        for b in 0..snapshot.units() {
            dearest = dearest.max(snapshot.exchange_cost(a, b));
        }
    }
    let of_edges = |value: &dyn Fn(&placement::Edge) -> i64| -> i128 {
        movable.iter().flat_map(|&actor| snapshot.edges(actor)).map(|edge| i128::from(value(edge))).sum()
    };
    let most = |criterion: &Criterion| -> Option<i128> {
        Some(match criterion {
            Criterion::Communication => of_edges(&|edge| edge.rate) * i128::from(dearest),
            Criterion::Annoyance => of_edges(&|edge| edge.annoyance),
            Criterion::Interference => of_edges(&|edge| edge.interference),
            Criterion::Migration => movable.iter().map(|&actor| i128::from(snapshot.move_cost(actor))).sum(),
            Criterion::Policy => wishes(snapshot).map(|(_, _, weight)| i128::from(weight)).sum(),
            _ => return None,
        })
    };
    let mut weights = BTreeMap::new();
    let mut weight: i128 = 1;
    for level in snapshot.objectives().levels().iter().rev() {
        if *level == [Criterion::Overload] {
            continue;
        }
        let sum: i128 = level.iter().map(most).sum::<Option<i128>>()?;
        for criterion in level {
            weights.insert(*criterion, i64::try_from(weight).ok()?);
        }
        weight = weight.checked_mul(sum + 1)?;
    }
    (weight <= i128::from(LARGEST)).then_some(Weights(weights))
}

/// Preferences: the actor, the unit, and what it costs to be elsewhere.
fn wishes(snapshot: &Snapshot) -> impl Iterator<Item = (usize, usize, i64)> {
    snapshot.file().constraints.iter().filter_map(|constraint| {
        let Constraint::Prefer { actor, unit, weight } = constraint else { return None };
        Some((snapshot.actor(actor)?, snapshot.unit(unit)?, i64::try_from(*weight).ok()?))
    })
}

fn alone(snapshot: &Snapshot, movable: &[usize], targets: &[usize], weights: &Weights) -> Alone {
    let mut wished: BTreeMap<usize, Vec<(usize, i64)>> = BTreeMap::new();
    for (actor, unit, weight) in wishes(snapshot) {
        wished.entry(actor).or_default().push((unit, weight));
    }
    let cost = |actor: usize, unit: usize| {
        let mut cost = 0;
        for edge in snapshot.edges(actor).iter().filter(|edge| snapshot.is_fixed(edge.peer.at())) {
            let home = snapshot.current(edge.peer.at()).expect("a fixed actor has a place");
            cost += if home == unit {
                edge.interference * weights.of(Criterion::Interference)
            } else {
                edge.rate * snapshot.exchange_cost(unit, home) * weights.of(Criterion::Communication)
                    + edge.annoyance * weights.of(Criterion::Annoyance)
            };
        }
        if snapshot.current(actor).is_some_and(|home| home != unit) {
            cost += snapshot.move_cost(actor) * weights.of(Criterion::Migration);
        }
        let missed = wished.get(&actor).into_iter().flatten().filter(|(wish, _)| *wish != unit);
        cost + missed.map(|(_, weight)| weight).sum::<i64>() * weights.of(Criterion::Policy)
    };
    let costs =
        movable.iter().map(|&actor| targets.iter().map(|&unit| cost(actor, unit)).collect()).collect();
    let held = Held::new(snapshot);
    let may = movable.iter().map(|&actor| {
        let candidates = snapshot.candidates(actor);
        targets
            .iter()
            .map(|&unit| candidates.binary_search(&unit).is_ok() && held.allows(snapshot, actor, unit))
            .collect()
    });
    Alone { costs, may: may.collect() }
}

/// Relations as lists of positions: whether apart, the scope, the actors.
fn relations(snapshot: &Snapshot) -> Vec<(bool, Scope, Vec<usize>)> {
    let constraints = snapshot.file().constraints.iter().filter_map(|constraint| match constraint {
        Constraint::Apart { on, actors, .. } => Some((true, *on, actors)),
        Constraint::Together { on, actors, .. } => Some((false, *on, actors)),
        _ => None,
    });
    let known = constraints.map(|(apart, on, actors)| {
        let mut actors: Vec<usize> = actors.iter().filter_map(|actor| snapshot.actor(actor)).collect();
        actors.sort_unstable();
        actors.dedup();
        (apart, on, actors)
    });
    known.collect()
}

/// What relations with fixed actors say.
struct Held(Vec<(bool, Scope, Vec<usize>)>);

impl Held {
    fn new(snapshot: &Snapshot) -> Self {
        Self(relations(snapshot))
    }

    fn allows(&self, snapshot: &Snapshot, actor: usize, unit: usize) -> bool {
        self.0.iter().filter(|(_, _, actors)| actors.binary_search(&actor).is_ok()).all(
            |(apart, on, actors)| {
                let homes = actors.iter().filter(|&&other| snapshot.is_fixed(other));
                let mut homes = homes.filter_map(|&other| snapshot.current(other));
                homes.all(|home| (snapshot.place(*on, home) == snapshot.place(*on, unit)) != *apart)
            },
        )
    }
}

/// Relations among items.
struct Relations {
    /// By pair of actors, ascending: whether apart, and the scope.
    of: BTreeMap<[usize; 2], Vec<(bool, Scope)>>,
    /// The scopes that matter.
    scopes: Vec<Scope>,
}

impl Relations {
    fn new(snapshot: &Snapshot, movable: &[usize]) -> Self {
        let mut of: BTreeMap<[usize; 2], Vec<(bool, Scope)>> = BTreeMap::new();
        let mut scopes = Vec::new();
        for (apart, on, actors) in relations(snapshot) {
            let actors: Vec<usize> =
                actors.into_iter().filter(|actor| movable.binary_search(actor).is_ok()).collect();
            for (position, &a) in actors.iter().enumerate() {
                for &b in &actors[position + 1..] {
                    of.entry([a, b]).or_default().push((apart, on));
                    if !scopes.contains(&on) {
                        scopes.push(on);
                    }
                }
            }
        }
        Self { of, scopes }
    }

    fn bar(&self, snapshot: &Snapshot, pair: [usize; 2], classes: &[Class]) -> Option<Bar> {
        let relations = self.of.get(&pair)?;
        let may = |u: usize, v: usize| {
            let holds = |(apart, on): &(bool, Scope)| {
                (u == v || snapshot.place(*on, u) == snapshot.place(*on, v)) != *apart
            };
            relations.iter().all(holds)
        };
        let apart = classes.iter().map(|a| {
            let beside = |b: &Class| {
                let other = if a.units[0] == b.units[0] { b.units.get(1) } else { b.units.first() };
                other.is_some_and(|&other| may(a.units[0], other))
            };
            bits(classes.iter().map(beside))
        });
        Some(Bar {
            apart: apart.collect(),
            together: bits(classes.iter().map(|class| may(class.units[0], class.units[0]))),
        })
    }
}

fn bits(which: impl Iterator<Item = bool>) -> u64 {
    which.enumerate().fold(0, |bits, (position, is)| bits | u64::from(is) << position)
}

/// The positions of the bits of a word, ascending.
pub(crate) fn ones(word: u64) -> impl Iterator<Item = usize> {
    std::iter::successors((word != 0).then_some(word), |word| {
        Some(word & (word - 1)).filter(|word| *word != 0)
    })
    .map(|word| word.trailing_zeros() as usize)
}
