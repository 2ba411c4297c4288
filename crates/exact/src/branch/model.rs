//! The branch-and-bound model: items, classes of units, and one number to minimise.

use std::collections::{BTreeMap, BTreeSet};

use placement::constraints::violation_trackers;
use placement::criteria::{CriterionClass, PairSums};
use placement::file::Scope;
use placement::ix::{ActorIx, RelationIx, UnitIx};
use placement::room::Rooms;
use placement::{Assignment, Criterion, Edge, Problem, Snapshot};

use crate::branch::unit_classes::{Class, ClassRooms, MAX_CLASSES, NodePool, classes};
use crate::branch::value::Value;

/// The most units that are partitioned into classes.
const MAX_UNITS: usize = 512;

/// A movable actor.
pub(crate) struct Item<N> {
    /// The actor.
    pub actor: ActorIx,
    /// The classes that it can be in, as bits.
    pub domain: u64,
    /// By class: its cost regardless of other items.
    pub costs: Vec<N>,
    /// By class and dimension: what it needs there.
    pub needs: Vec<Vec<i64>>,
    /// The other item, and the position of the tie.
    pub ties: Vec<(usize, usize)>,
}

/// A tie of two items: its costs, and where they must not both be.
pub(crate) struct Tie<N> {
    pub items: [usize; 2],
    /// Times the exchange cost of their units.
    rate: N,
    /// On different units.
    apart: N,
    /// On one unit.
    together: N,
    /// What relations allow, where there are any.
    allowed: Option<Allowed>,
}

/// Where two items may both be.
struct Allowed {
    /// By class of one: the classes in which the other may be on another unit.
    apart: Vec<u64>,
    /// The classes in which they may share a unit.
    together: u64,
}

/// A snapshot that branch and bound supports, before the type of numbers is chosen.
pub(crate) struct SupportedSnapshot<'a> {
    snapshot: &'a Snapshot,
    places: ClassRooms,
    weights: Weights,
    /// Whether no unit may exceed its capacity.
    limits_load: bool,
}

/// The branch-and-bound model.
pub(crate) struct Model<N> {
    pub items: Vec<Item<N>>,
    pub ties: Vec<Tie<N>>,
    pub classes: Vec<Class>,
    pub pools: Vec<NodePool>,
    /// By two classes: the exchange cost between a unit of each; within one class, between two of its units.
    exchange: Vec<Vec<N>>,
    /// The cost of the start; `None` where it leaves actors out or overloads units, so that every solution is better.
    pub start: Option<N>,
}

/// The weights of the levels in the one number.
struct Weights {
    /// By criterion.
    of: BTreeMap<Criterion, i128>,
    /// Of messages times exchange costs, of drags apart, and of drags together.
    pairs: [i128; 3],
    /// The most that all levels add up to.
    most: i128,
}

/// The cost of an actor on a unit by itself: ties to fixed actors, and preferences.
struct UnaryCosts<'a, N> {
    problem: &'a Problem,
    pairs: [N; 3],
    /// By actor: preferred units, and what it costs elsewhere.
    preferred_units: BTreeMap<ActorIx, Vec<(UnitIx, N)>>,
}

impl<'a> SupportedSnapshot<'a> {
    /// `None` where criteria, rules or sizes are not supported.
    pub fn new(snapshot: &'a Snapshot) -> Option<Self> {
        let problem = snapshot.problem();
        let has_rules = snapshot.rules().is_some_and(|rules| !rules.ground().is_empty());
        if problem.channels.are_whole()
            || problem.movable.len() > MAX_CLASSES
            || has_rules
            || !violation_trackers(snapshot).is_empty()
        {
            return None;
        }
        let candidates = problem.movable.iter().flat_map(|&actor| problem.candidates(actor));
        let targets: BTreeSet<UnitIx> = candidates.copied().collect();
        if targets.len() > MAX_UNITS {
            return None;
        }
        let rooms = Rooms::new(problem);
        let limits_load = load_limit(snapshot, &rooms)?;
        let weights = Weights::new(snapshot, &targets)?;
        let places = classes(snapshot, &rooms, &targets, limits_load)?;
        Some(Self { snapshot, places, weights, limits_load })
    }

    /// Whether numbers of this type hold the sum of all levels.
    pub fn fits<N: Value>(&self) -> bool {
        self.weights.most <= N::LARGEST.wide()
    }
}

impl<N: Value> Model<N> {
    /// `None` where a number does not fit the type after all.
    pub fn new(world: SupportedSnapshot, start: &Assignment) -> Option<Self> {
        let SupportedSnapshot { snapshot, places, weights, limits_load } = world;
        let problem = snapshot.problem();
        let unary = UnaryCosts::new(snapshot, &weights)?;
        let exchange = places.classes.iter().map(|a| {
            let cost_outside_partitions = |b: &Class| {
                let cost = match a.units.get(1) {
                    Some(&second) if a.first() == b.first() => problem.exchange_cost(a.first(), second),
                    _ => problem.exchange_cost(a.first(), b.first()),
                };
                to_number::<N>(cost)
            };
            places.classes.iter().map(cost_outside_partitions).collect()
        });
        let mut model = Self {
            items: Vec::new(),
            ties: Vec::new(),
            exchange: exchange.collect(),
            classes: places.classes,
            pools: places.pools,
            start: None,
        };
        for (&actor, needs) in problem.movable.iter().zip(places.needs) {
            let may = |class: &Class| is_allowed(problem, actor, class.first());
            model.items.push(Item {
                actor,
                domain: bits(model.classes.iter().map(may)),
                costs: model.classes.iter().map(|class| unary.cost(actor, class.first())).collect(),
                needs,
                ties: Vec::new(),
            });
        }
        model.add_ties(problem, unary.pairs, &Relations::new(problem));
        let is_whole = start.iter().all(Option::is_some)
            && (!limits_load || snapshot.cost(start).vector(snapshot)[FIRST_LEVEL] == 0);
        model.start = is_whole.then(|| model.value(problem, start));
        Some(model)
    }

    fn add_ties(&mut self, problem: &Problem, [exchanged, apart, together]: [N; 3], relations: &Relations) {
        for (a, &actor) in problem.movable.iter().enumerate() {
            for (b, &peer) in problem.movable.iter().enumerate().skip(a + 1) {
                let edge = problem.edge(actor, peer);
                let tie = Tie {
                    items: [a, b],
                    rate: to_number::<N>(edge.rate) * exchanged,
                    apart: to_number::<N>(edge.annoyance) * apart,
                    together: to_number::<N>(edge.interference) * together,
                    allowed: relations.allowed(problem, [actor, peer], &self.classes),
                };
                let costs = [tie.rate, tie.apart, tie.together].iter().any(|cost| *cost > N::default());
                if costs || tie.allowed.is_some() {
                    self.items[a].ties.push((b, self.ties.len()));
                    self.items[b].ties.push((a, self.ties.len()));
                    self.ties.push(tie);
                }
            }
        }
    }

    /// The cost of a tie between units of class `g` and class `h`.
    pub fn apart(&self, tie: &Tie<N>, g: usize, h: usize) -> N {
        if tie.allowed.as_ref().is_some_and(|allowed| allowed.apart[g] >> h & 1 == 0)
            || (g == h && self.is_single(g))
        {
            return N::FORBIDDEN;
        }
        tie.rate * self.exchange[g][h] + tie.apart
    }

    /// The cost of a tie within one unit of a class.
    #[expect(clippy::unused_self, reason = "the counterpart of `apart`")]
    pub fn together(&self, tie: &Tie<N>, g: usize) -> N {
        let is_forbidden = tie.allowed.as_ref().is_some_and(|allowed| allowed.together >> g & 1 == 0);
        if is_forbidden { N::FORBIDDEN } else { tie.together }
    }

    /// Whether the cost of a tie means that it is not allowed.
    pub fn is_forbidden(cost: N) -> bool {
        cost >= N::FORBIDDEN
    }

    /// How much a tie matters to an item of a class.
    pub fn exposure(&self, tie: &Tie<N>, class: usize) -> N {
        tie.rate.saturating_mul(self.exchange[class][class].max(N::from(1))).saturating_add(tie.apart)
    }

    /// All costs that do not depend on how classes are partitioned; `classes` are those of the items.
    pub fn cost_outside_partitions(&self, classes: &[usize]) -> N {
        let unary = self.items.iter().zip(classes).map(|(item, &class)| item.costs[class]);
        let tied = self.ties.iter().map(|tie| {
            let [a, b] = tie.items.map(|item| classes[item]);
            match a == b {
                false => self.apart(tie, a, b),
                true if self.is_single(a) => self.together(tie, a),
                true => N::default(),
            }
        });
        unary.chain(tied).sum()
    }

    /// Whether a class is one unit.
    pub fn is_single(&self, class: usize) -> bool {
        self.classes[class].units.len() == 1
    }

    /// The one number of an assignment.
    fn value(&self, problem: &Problem, assignment: &Assignment) -> N {
        let unit = |item: usize| assignment[self.items[item].actor].expect("all actors are placed");
        let class = |item: usize| {
            let of = |class: &Class| class.units.contains(&unit(item));
            self.classes.iter().position(of).expect("a feasible place is a candidate")
        };
        let unary = (0..self.items.len()).map(|item| self.items[item].costs[class(item)]);
        let tied = self.ties.iter().map(|tie| {
            let [a, b] = tie.items.map(unit);
            if a == b { tie.together } else { tie.rate * to_number(problem.exchange_cost(a, b)) + tie.apart }
        });
        unary.chain(tied).sum()
    }
}

/// The position of the first level in a cost vector, after the number of unplaced actors.
const FIRST_LEVEL: usize = 1;

/// Whether load is limited by capacity; `None` where overload is not merely a limit.
///
/// The first level may be overload alone. Where it is 0, no unit exceeds its capacity, or all do equally, which takes
/// more work than there is room.
fn load_limit(snapshot: &Snapshot, rooms: &Rooms) -> Option<bool> {
    let levels = snapshot.objectives().levels();
    let is_limit = |criterion: &Criterion| criterion.measure().is_limit_of_load();
    if !levels.iter().flatten().any(is_limit) {
        return Some(false);
    }
    if !is_load_limit(&levels[0]) || rooms.work.iter().any(|room| room.left < 0) {
        return None;
    }
    let problem = snapshot.problem();
    let most =
        |&actor: &ActorIx| problem.candidates(actor).iter().map(|&unit| problem.work(actor, unit)).max();
    let work: i128 = problem.movable.iter().filter_map(most).map(i128::from).sum();
    let room: i128 = rooms.work.iter().map(|room| i128::from(room.left)).sum();
    let units = i128::try_from(snapshot.units()).ok()?;
    (work < room + units).then_some(true)
}

fn is_load_limit(level: &[Criterion]) -> bool {
    matches!(level, [criterion] if criterion.measure().is_limit_of_load())
}

impl Weights {
    /// Weights that order the one number as the levels are ordered; `None` where a criterion is no sum over actors or
    /// pairs, or the number exceeds 128 bits.
    fn new(snapshot: &Snapshot, targets: &BTreeSet<UnitIx>) -> Option<Self> {
        let problem = snapshot.problem();
        // Fixed peers may be on units that are no targets.
        let all = || problem.capacity.positions();
        let costs = targets.iter().flat_map(|&a| all().map(move |b| problem.exchange_cost(a, b)));
        let message = costs.max().unwrap_or(0);
        let most = |criterion: &Criterion| -> Option<i128> {
            let measure = criterion.measure();
            match measure.class() {
                CriterionClass::Pairs => {
                    let edges = problem.movable.iter().flat_map(|actor| {
                        let once = |edge: &&Edge| edge.peer > *actor || problem.fixed[edge.peer];
                        problem.edges[*actor].iter().filter(once)
                    });
                    let sums = edges.map(|edge| PairSums {
                        exchanged: edge.rate.saturating_mul(message),
                        apart: edge.annoyance,
                        together: edge.interference,
                    });
                    Some(sums.map(|sums| i128::from(measure.of_pairs(&sums))).sum())
                }
                CriterionClass::Actors => {
                    let homes = measure.preferred_units(snapshot).into_iter();
                    let prices = homes.filter(|home| !problem.fixed[home.actor]).map(|home| home.price);
                    Some(prices.map(i128::from).sum())
                }
                CriterionClass::Places | CriterionClass::NonAdditive => None,
            }
        };
        let mut of = BTreeMap::new();
        let mut weight: i128 = 1;
        for level in snapshot.objectives().levels().iter().rev().filter(|level| !is_load_limit(level)) {
            let sum: i128 = level.iter().map(most).sum::<Option<i128>>()?;
            of.extend(level.iter().map(|criterion| (*criterion, weight)));
            weight = weight.checked_mul(sum + 1)?;
        }
        let weight_of = |one: PairSums| -> i128 {
            of.iter().map(|(criterion, weight)| weight * i128::from(criterion.measure().of_pairs(&one))).sum()
        };
        // Where messages cost nothing their number does not matter.
        let exchanged = i64::from(message > 0);
        let pairs = [
            PairSums { exchanged, ..PairSums::default() },
            PairSums { apart: 1, ..PairSums::default() },
            PairSums { together: 1, ..PairSums::default() },
        ];
        Some(Self { pairs: pairs.map(weight_of), of, most: weight })
    }
}

impl<'a, N: Value> UnaryCosts<'a, N> {
    /// `None` where a weight does not fit the type.
    fn new(snapshot: &'a Snapshot, weights: &Weights) -> Option<Self> {
        let mut preferred_units: BTreeMap<ActorIx, Vec<(UnitIx, N)>> = BTreeMap::new();
        for (criterion, weight) in &weights.of {
            for home in criterion.measure().preferred_units(snapshot) {
                let price = N::of(weight.checked_mul(i128::from(home.price))?)?;
                preferred_units.entry(home.actor).or_default().push((home.unit, price));
            }
        }
        let [exchanged, apart, together] = weights.pairs.map(N::of);
        Some(Self { problem: snapshot.problem(), pairs: [exchanged?, apart?, together?], preferred_units })
    }

    fn cost(&self, actor: ActorIx, unit: UnitIx) -> N {
        let problem = self.problem;
        let [exchanged, apart, together] = self.pairs;
        let fixed = problem.edges[actor].iter().filter_map(|edge| Some((edge, problem.fixed_at(edge.peer)?)));
        let tied = fixed.map(|(edge, home)| {
            if home == unit {
                return to_number::<N>(edge.interference) * together;
            }
            to_number::<N>(edge.rate) * to_number(problem.exchange_cost(unit, home)) * exchanged
                + to_number::<N>(edge.annoyance) * apart
        });
        let missed = self.preferred_units.get(&actor).into_iter().flatten().filter(|(home, _)| *home != unit);
        tied.chain(missed.map(|(_, price)| *price)).sum()
    }
}

/// A number of the snapshot.
#[inline]
fn to_number<N: Value>(of: i64) -> N {
    N::of(i128::from(of)).expect("both widths hold 64 bits")
}

/// Whether relations to fixed actors allow the actor on the unit.
fn is_allowed(problem: &Problem, actor: ActorIx, unit: UnitIx) -> bool {
    let holds = |relation: &RelationIx| {
        let relation = &problem.relations[*relation];
        let mut homes = relation.actors.iter().filter_map(|&other| problem.fixed_at(other));
        let place = |unit: UnitIx| problem.place(relation.scope, unit);
        homes.all(|home| (place(home) == place(unit)) != relation.apart)
    };
    problem.candidates(actor).binary_search(&unit).is_ok() && problem.relations_of[actor].iter().all(holds)
}

/// Relations among items, by pair of actors, ascending: whether apart, and the scope.
struct Relations(BTreeMap<[ActorIx; 2], Vec<(bool, Scope)>>);

impl Relations {
    fn new(problem: &Problem) -> Self {
        let mut of: BTreeMap<[ActorIx; 2], Vec<(bool, Scope)>> = BTreeMap::new();
        for relation in &problem.relations {
            let actors = relation.actors.iter().copied().filter(|actor| !problem.fixed[*actor]);
            let actors: Vec<ActorIx> = actors.collect();
            for (position, &a) in actors.iter().enumerate() {
                for &b in &actors[position + 1..] {
                    of.entry([a, b]).or_default().push((relation.apart, relation.scope));
                }
            }
        }
        Self(of)
    }

    fn allowed(&self, problem: &Problem, pair: [ActorIx; 2], classes: &[Class]) -> Option<Allowed> {
        let relations = self.0.get(&pair)?;
        let may = |u: UnitIx, v: UnitIx| {
            let holds =
                |(apart, on): &(bool, Scope)| (problem.place(*on, u) == problem.place(*on, v)) != *apart;
            relations.iter().all(holds)
        };
        let apart = classes.iter().map(|a| {
            let beside = |b: &Class| {
                let other = if a.first() == b.first() { b.units.get(1) } else { b.units.first() };
                other.is_some_and(|&other| may(a.first(), other))
            };
            bits(classes.iter().map(beside))
        });
        Some(Allowed {
            apart: apart.collect(),
            together: bits(classes.iter().map(|class| may(class.first(), class.first()))),
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
