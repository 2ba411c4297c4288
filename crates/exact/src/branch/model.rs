//! A snapshot as the search sees it: items, classes of units, and one number to be made small.

use std::collections::{BTreeMap, BTreeSet};

use placement::constraints::excesses;
use placement::criteria::{Class as Adds, PairSums};
use placement::file::Scope;
use placement::ix::{ActorIx, RelationIx, UnitIx};
use placement::room::Rooms;
use placement::{Assignment, Criterion, Edge, Problem, Snapshot};

use crate::branch::unit_classes::{Class, MOST, Places, Pool, classes};
use crate::branch::value::Value;

/// Units that are compared with each other.
const MOST_UNITS: usize = 512;

/// An actor that can move.
pub(crate) struct Item<N> {
    /// Who it is.
    pub actor: ActorIx,
    /// The classes that it can be in, as bits.
    pub domain: u64,
    /// By class: what it costs there whatever the other items do.
    pub costs: Vec<N>,
    /// By class and dimension: what it needs there.
    pub needs: Vec<Vec<i64>>,
    /// The other item, and the position of what ties them.
    pub ties: Vec<(usize, usize)>,
}

/// What ties two items: what it costs where they are, and where they must not be both.
pub(crate) struct Tie<N> {
    pub items: [usize; 2],
    /// Times the exchange cost of their units.
    rate: N,
    /// On different units.
    apart: N,
    /// On one unit.
    together: N,
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

/// A world that is for this search, before its levels are one number.
pub(crate) struct SupportedSnapshot<'a> {
    snapshot: &'a Snapshot,
    places: Places,
    weights: Weights,
    /// Whether no unit may have more work than its capacity.
    is_full: bool,
}

/// The world of the search.
pub(crate) struct Model<N> {
    pub items: Vec<Item<N>>,
    pub ties: Vec<Tie<N>>,
    pub classes: Vec<Class>,
    pub pools: Vec<Pool>,
    /// By two classes: of a message between a unit of each; of one class, between two of its units.
    exchange: Vec<Vec<N>>,
    /// What the start costs; `None` where it leaves actors out or overloads units, so that all that is found is better.
    pub start: Option<N>,
}

/// What the levels count in the one number.
struct Weights {
    /// By criterion.
    of: BTreeMap<Criterion, i128>,
    /// Of messages times exchange costs, of drags apart, and of drags together.
    pairs: [i128; 3],
    /// What the levels together add up to at most.
    most: i128,
}

/// What a unit costs an actor by itself: its ties to what is fixed, and not being at home.
struct Alone<'a, N> {
    problem: &'a Problem,
    pairs: [N; 3],
    /// By actor: where it would cost nothing, and what it costs elsewhere.
    homes: BTreeMap<ActorIx, Vec<(UnitIx, N)>>,
}

impl<'a> SupportedSnapshot<'a> {
    /// Takes a snapshot apart; `None` where it has criteria, rules or sizes that are not for this search.
    pub fn new(snapshot: &'a Snapshot) -> Option<Self> {
        let problem = snapshot.problem();
        let has_rules = snapshot.rules().is_some_and(|rules| !rules.ground().is_empty());
        if problem.channels.are_whole()
            || problem.movable.len() > MOST
            || has_rules
            || !excesses(snapshot).is_empty()
        {
            return None;
        }
        let candidates = problem.movable.iter().flat_map(|&actor| problem.candidates(actor));
        let targets: BTreeSet<UnitIx> = candidates.copied().collect();
        if targets.len() > MOST_UNITS {
            return None;
        }
        let rooms = Rooms::new(problem);
        let is_full = is_overload_full(snapshot, &rooms)?;
        let weights = Weights::new(snapshot, &targets)?;
        let places = classes(snapshot, &rooms, &targets, is_full)?;
        Some(Self { snapshot, places, weights, is_full })
    }

    /// Whether sums of these numbers hold all that its levels can add up to.
    pub fn fits<N: Value>(&self) -> bool {
        self.weights.most <= N::LARGEST.wide()
    }
}

impl<N: Value> Model<N> {
    /// For a world that fits such numbers; `None` where one of them does not after all.
    pub fn new(world: SupportedSnapshot, start: &Assignment) -> Option<Self> {
        let SupportedSnapshot { snapshot, places, weights, is_full } = world;
        let problem = snapshot.problem();
        let alone = Alone::new(snapshot, &weights)?;
        let exchange = places.classes.iter().map(|a| {
            let between = |b: &Class| {
                let cost = match a.units.get(1) {
                    Some(&second) if a.first() == b.first() => problem.exchange_cost(a.first(), second),
                    _ => problem.exchange_cost(a.first(), b.first()),
                };
                number::<N>(cost)
            };
            places.classes.iter().map(between).collect()
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
                costs: model.classes.iter().map(|class| alone.cost(actor, class.first())).collect(),
                needs,
                ties: Vec::new(),
            });
        }
        model.tie_up(problem, alone.pairs, &Relations::new(problem));
        let is_whole = start.iter().all(Option::is_some)
            && (!is_full || snapshot.cost(start).vector(snapshot)[FIRST_LEVEL] == 0);
        model.start = is_whole.then(|| model.value(problem, start));
        Some(model)
    }

    fn tie_up(&mut self, problem: &Problem, [exchanged, apart, together]: [N; 3], relations: &Relations) {
        for (a, &actor) in problem.movable.iter().enumerate() {
            for (b, &peer) in problem.movable.iter().enumerate().skip(a + 1) {
                let edge = problem.edge(actor, peer);
                let tie = Tie {
                    items: [a, b],
                    rate: number::<N>(edge.rate) * exchanged,
                    apart: number::<N>(edge.annoyance) * apart,
                    together: number::<N>(edge.interference) * together,
                    bar: relations.bar(problem, [actor, peer], &self.classes),
                };
                let costs = [tie.rate, tie.apart, tie.together].iter().any(|cost| *cost > N::default());
                if costs || tie.bar.is_some() {
                    self.items[a].ties.push((b, self.ties.len()));
                    self.items[b].ties.push((a, self.ties.len()));
                    self.ties.push(tie);
                }
            }
        }
    }

    /// What a tie costs with one item on a unit of class `g` and the other on another unit, of class `h`.
    pub fn apart(&self, tie: &Tie<N>, g: usize, h: usize) -> N {
        if tie.bar.as_ref().is_some_and(|bar| bar.apart[g] >> h & 1 == 0) || (g == h && self.is_single(g)) {
            return N::FORBIDDEN;
        }
        tie.rate * self.exchange[g][h] + tie.apart
    }

    /// What it costs with both on one unit of a class.
    #[expect(clippy::unused_self, reason = "the counterpart of `apart`")]
    pub fn together(&self, tie: &Tie<N>, g: usize) -> N {
        let barred = tie.bar.as_ref().is_some_and(|bar| bar.together >> g & 1 == 0);
        if barred { N::FORBIDDEN } else { tie.together }
    }

    /// Whether what a tie costs means that it is not allowed.
    pub fn is_forbidden(cost: N) -> bool {
        cost >= N::FORBIDDEN
    }

    /// A measure of how much a tie matters to an item of a class.
    pub fn exposure(&self, tie: &Tie<N>, class: usize) -> N {
        tie.rate.saturating_mul(self.exchange[class][class].max(N::from(1))).saturating_add(tie.apart)
    }

    /// What everything costs that does not depend on how classes are partitioned; `classes` are those of the items.
    pub fn between(&self, classes: &[usize]) -> N {
        let alone = self.items.iter().zip(classes).map(|(item, &class)| item.costs[class]);
        let tied = self.ties.iter().map(|tie| {
            let [a, b] = tie.items.map(|item| classes[item]);
            match a == b {
                false => self.apart(tie, a, b),
                true if self.is_single(a) => self.together(tie, a),
                true => N::default(),
            }
        });
        alone.chain(tied).sum()
    }

    /// Whether a class is one unit.
    pub fn is_single(&self, class: usize) -> bool {
        self.classes[class].units.len() == 1
    }

    /// The one number of an assignment of the whole world.
    fn value(&self, problem: &Problem, assignment: &Assignment) -> N {
        let unit = |item: usize| assignment[self.items[item].actor].expect("all actors are placed");
        let class = |item: usize| {
            let of = |class: &Class| class.units.contains(&unit(item));
            self.classes.iter().position(of).expect("a feasible place is a candidate")
        };
        let alone = (0..self.items.len()).map(|item| self.items[item].costs[class(item)]);
        let tied = self.ties.iter().map(|tie| {
            let [a, b] = tie.items.map(unit);
            if a == b { tie.together } else { tie.rate * number(problem.exchange_cost(a, b)) + tie.apart }
        });
        alone.chain(tied).sum()
    }
}

/// Where the first level is in a cost's vector, behind the number of unplaced actors.
const FIRST_LEVEL: usize = 1;

/// Whether load is limited by capacity; `None` where overload is more than a limit.
///
/// The first level may be overload alone. Where it is 0, no unit is above its capacity, or all are equally far above:
/// the latter takes more work than there is room.
fn is_overload_full(snapshot: &Snapshot, rooms: &Rooms) -> Option<bool> {
    let levels = snapshot.objectives().levels();
    let is_limit = |criterion: &Criterion| criterion.measure().is_limit_of_load();
    if !levels.iter().flatten().any(is_limit) {
        return Some(false);
    }
    if !is_limit_alone(&levels[0]) || rooms.work.iter().any(|room| room.left < 0) {
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

fn is_limit_alone(level: &[Criterion]) -> bool {
    matches!(level, [criterion] if criterion.measure().is_limit_of_load())
}

impl Weights {
    /// Weights that make one number of the levels, such that the least of it is the least of them in their order; `None`
    /// where a criterion is no sum over actors or pairs, or the number passes 128 bits.
    fn new(snapshot: &Snapshot, targets: &BTreeSet<UnitIx>) -> Option<Self> {
        let problem = snapshot.problem();
        // Also to units of fixed peers, which need not be targets.
        let all = || problem.capacity.positions();
        let costs = targets.iter().flat_map(|&a| all().map(move |b| problem.exchange_cost(a, b)));
        let message = costs.max().unwrap_or(0);
        let most = |criterion: &Criterion| -> Option<i128> {
            let measure = criterion.measure();
            match measure.class() {
                Adds::Pairs => {
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
                Adds::Actors => {
                    let homes = measure.homes(snapshot).into_iter();
                    let prices = homes.filter(|home| !problem.fixed[home.actor]).map(|home| home.price);
                    Some(prices.map(i128::from).sum())
                }
                Adds::Places | Adds::Whole => None,
            }
        };
        let mut of = BTreeMap::new();
        let mut weight: i128 = 1;
        for level in snapshot.objectives().levels().iter().rev().filter(|level| !is_limit_alone(level)) {
            let sum: i128 = level.iter().map(most).sum::<Option<i128>>()?;
            of.extend(level.iter().map(|criterion| (*criterion, weight)));
            weight = weight.checked_mul(sum + 1)?;
        }
        let worth = |one: PairSums| -> i128 {
            of.iter().map(|(criterion, weight)| weight * i128::from(criterion.measure().of_pairs(&one))).sum()
        };
        // Where messages cost nothing they count for nothing, however many there are.
        let exchanged = i64::from(message > 0);
        let pairs = [
            PairSums { exchanged, ..PairSums::default() },
            PairSums { apart: 1, ..PairSums::default() },
            PairSums { together: 1, ..PairSums::default() },
        ];
        Some(Self { pairs: pairs.map(worth), of, most: weight })
    }
}

impl<'a, N: Value> Alone<'a, N> {
    /// `None` where a weight does not fit such numbers.
    fn new(snapshot: &'a Snapshot, weights: &Weights) -> Option<Self> {
        let mut homes: BTreeMap<ActorIx, Vec<(UnitIx, N)>> = BTreeMap::new();
        for (criterion, weight) in &weights.of {
            for home in criterion.measure().homes(snapshot) {
                let price = N::of(weight.checked_mul(i128::from(home.price))?)?;
                homes.entry(home.actor).or_default().push((home.unit, price));
            }
        }
        let [exchanged, apart, together] = weights.pairs.map(N::of);
        Some(Self { problem: snapshot.problem(), pairs: [exchanged?, apart?, together?], homes })
    }

    fn cost(&self, actor: ActorIx, unit: UnitIx) -> N {
        let problem = self.problem;
        let [exchanged, apart, together] = self.pairs;
        let fixed = problem.edges[actor].iter().filter_map(|edge| Some((edge, problem.fixed_at(edge.peer)?)));
        let tied = fixed.map(|(edge, home)| {
            if home == unit {
                return number::<N>(edge.interference) * together;
            }
            number::<N>(edge.rate) * number(problem.exchange_cost(unit, home)) * exchanged
                + number::<N>(edge.annoyance) * apart
        });
        let missed = self.homes.get(&actor).into_iter().flatten().filter(|(home, _)| *home != unit);
        tied.chain(missed.map(|(_, price)| *price)).sum()
    }
}

/// A number of a snapshot.
#[inline]
fn number<N: Value>(of: i64) -> N {
    N::of(i128::from(of)).expect("both widths hold 64 bits")
}

/// Whether the actor may be on the unit beside the fixed actors, as far as relations to them say.
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

    fn bar(&self, problem: &Problem, pair: [ActorIx; 2], classes: &[Class]) -> Option<Bar> {
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
        Some(Bar {
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
