//! A policy's rules about where actors are, as far as a question keeps them.

use std::collections::{BTreeMap, BTreeSet};

use placement::ix::{ActorIx, IxVec, UnitIx};
use placement::{Assignment, Rules, Ruling, Snapshot, State};

/// What somebody's place changes in the rules, beyond what is said of it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Effect {
    /// A body comes nearer to what it needs, or further from it.
    Body(u32),
    /// An atom holds, which may also hold for another reason.
    Atom(u32),
    /// A demand is broken by this place alone.
    Case(usize),
}

/// Effects in order, each with how much it adds.
pub(crate) type Effects = Vec<(Effect, i64)>;

/// The rules of one question's world, and what the place of each of its actors changes in them.
pub(crate) struct Policy<'a> {
    pub rules: &'a Rules,
    /// The question's actors by their positions in the rules.
    actors: IxVec<ActorIx, ActorIx>,
    /// By the question's actor: units, ascending, with what being there changes.
    effects: IxVec<ActorIx, Vec<(UnitIx, Effects)>>,
    /// By demand: whether one that is broken stays so.
    grows: Vec<bool>,
}

impl<'a> Policy<'a> {
    pub fn new(rules: &'a Rules, actors: &[ActorIx]) -> Self {
        let owner = owners(rules);
        let of_actor = |&actor: &ActorIx| {
            let inputs = rules.inputs(actor).iter();
            inputs.map(|&(unit, atom)| (unit, effects(rules, &owner, atom))).collect()
        };
        Self {
            rules,
            actors: actors.iter().copied().collect(),
            effects: actors.iter().map(of_actor).collect(),
            grows: rules.grow(),
        }
    }

    /// What an actor of the question changes in the rules, unit by unit.
    pub fn effects(&self, actor: ActorIx) -> &[(UnitIx, Effects)] {
        &self.effects[actor]
    }
}

/// By atom: the actor whose place alone decides it.
fn owners(rules: &Rules) -> Vec<Option<ActorIx>> {
    let ground = rules.ground();
    let atoms = ground.iter().map(|rule| rule.head).chain(rules.cases().iter().map(|case| case.atom));
    let inputs =
        (0..).map(ActorIx::new).map_while(|actor| rules.inputs_of(actor).map(|inputs| (actor, inputs)));
    let inputs: Vec<(ActorIx, u32)> =
        inputs.flat_map(|(actor, inputs)| inputs.iter().map(move |(_, atom)| (actor, *atom))).collect();
    let most = atoms.chain(inputs.iter().map(|(_, atom)| *atom)).max().unwrap_or(0) as usize;
    let mut bodies = vec![0usize; most + 1];
    for rule in ground {
        bodies[rule.head as usize] += 1;
    }
    let mut owner = vec![None; most + 1];
    // By head: whose atoms conclude it so far, and by how many bodies.
    let mut support: BTreeMap<u32, (ActorIx, usize)> = BTreeMap::new();
    let mut open = Vec::new();
    for (actor, atom) in inputs.into_iter().filter(|(_, atom)| bodies[*atom as usize] == 0) {
        owner[atom as usize] = Some(actor);
        open.push((actor, atom));
    }
    while let Some((actor, atom)) = open.pop() {
        for &(body, weight) in rules.uses_of(atom) {
            let Some(head) = passed_on(rules, body, weight) else { continue };
            let (whose, count) = support.entry(head).or_insert((actor, 0));
            *count += usize::from(*whose == actor);
            if *count == bodies[head as usize] {
                owner[head as usize] = Some(actor);
                open.push((actor, head));
            }
        }
    }
    owner
}

/// The head of a body that holds whenever its only atom does.
fn passed_on(rules: &Rules, body: u32, weight: i64) -> Option<u32> {
    let rule = &rules.ground()[body as usize];
    (rule.body.len() == 1 && rule.lower > 0 && weight >= rule.lower).then_some(rule.head)
}

/// What changes when an actor is where the atom says.
fn effects(rules: &Rules, owner: &[Option<ActorIx>], input: u32) -> Effects {
    let mut found: BTreeMap<Effect, i64> = BTreeMap::new();
    let mut own = BTreeSet::from([input]);
    let mut open = vec![input];
    while let Some(atom) = open.pop() {
        if let Some(demand) = rules.demand_at(atom) {
            found.insert(Effect::Case(demand), 1);
        }
        for &(body, weight) in rules.uses_of(atom) {
            match passed_on(rules, body, weight) {
                Some(head) if owner[head as usize].is_some() => {
                    if own.insert(head) {
                        open.push(head);
                    }
                }
                Some(head) => _ = found.insert(Effect::Atom(head), 1),
                None => *found.entry(Effect::Body(body)).or_default() += weight,
            }
        }
    }
    found.into_iter().collect()
}

/// The rules that a question keeps.
pub(crate) struct Kept<'a> {
    policy: Option<&'a Policy<'a>>,
    /// Demands that are not asked about.
    dropped: BTreeSet<usize>,
    /// By atom: whether a demand that is kept depends on it.
    matters: Vec<bool>,
}

impl<'a> Kept<'a> {
    /// All but some demands, by position.
    pub fn new(policy: Option<&'a Policy<'a>>, dropped: BTreeSet<usize>) -> Self {
        let Some(policy) = policy else { return Self { policy, dropped, matters: Vec::new() } };
        let rules = policy.rules;
        let is_kept = |demand: &usize| !dropped.contains(demand);
        let kept: Vec<usize> = (0..rules.cases().len()).filter(is_kept).collect();
        let matters = rules.matter_to(kept.iter().copied());
        Self { policy: (!kept.is_empty()).then_some(policy), dropped, matters }
    }

    fn matters(&self, rules: &Rules, effect: Effect) -> bool {
        match effect {
            Effect::Body(body) => self.matters[rules.ground()[body as usize].head as usize],
            Effect::Atom(atom) => self.matters[atom as usize],
            Effect::Case(demand) => !self.dropped.contains(&demand),
        }
    }

    /// What an actor's place on a unit changes in what is kept.
    pub fn effects(&self, actor: ActorIx, unit: UnitIx) -> Effects {
        let Some(policy) = self.policy else { return Vec::new() };
        let of_actor = policy.effects(actor);
        let Ok(at) = of_actor.binary_search_by_key(&unit, |(unit, _)| *unit) else { return Vec::new() };
        of_actor[at].1.iter().copied().filter(|(effect, _)| self.matters(policy.rules, *effect)).collect()
    }

    /// By actor: equal numbers mean the same to what is kept, wherever they are.
    pub fn classes(&self, actors: usize) -> IxVec<ActorIx, usize> {
        let Some(policy) = self.policy else { return IxVec::of(0, actors) };
        let mut known: BTreeMap<Vec<(UnitIx, Effects)>, usize> = BTreeMap::new();
        let of_actor = |actor: ActorIx| {
            let everywhere =
                policy.effects(actor).iter().map(|(unit, _)| (*unit, self.effects(actor, *unit)));
            let everywhere = everywhere.filter(|(_, effects)| !effects.is_empty()).collect();
            let next = known.len();
            *known.entry(everywhere).or_insert(next)
        };
        ActorIx::first(actors).map(of_actor).collect()
    }

    /// By actor: equal numbers where what is kept ties them to each other; none where it is not about the actor.
    pub fn ties(&self, actors: usize) -> IxVec<ActorIx, Option<usize>> {
        let Some(policy) = self.policy else { return IxVec::of(None, actors) };
        let mut leader: Vec<usize> = (0..self.matters.len()).collect();
        for rule in policy.rules.ground().iter().filter(|rule| self.matters[rule.head as usize]) {
            let head = find(&mut leader, rule.head as usize);
            for (literal, _) in &rule.body {
                let other = find(&mut leader, literal.unsigned_abs() as usize);
                leader[other] = head;
            }
        }
        let inputs = |actor: ActorIx| {
            let all = policy.rules.inputs(policy.actors[actor]).iter().map(|(_, atom)| *atom as usize);
            all.filter(|atom| self.matters[*atom]).collect::<Vec<_>>()
        };
        for actor in ActorIx::first(actors) {
            if let [first, others @ ..] = inputs(actor).as_slice() {
                for other in others {
                    let (one, two) = (find(&mut leader, *first), find(&mut leader, *other));
                    leader[two] = one;
                }
            }
        }
        ActorIx::first(actors)
            .map(|actor| inputs(actor).first().map(|atom| find(&mut leader, *atom)))
            .collect()
    }

    /// Bodies that break a demand that is kept, each with its demand.
    pub fn breaking(&self) -> Vec<(u32, usize)> {
        let Some(policy) = self.policy else { return Vec::new() };
        let rules = policy.rules;
        let mut concluding: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (body, rule) in (0..).zip(rules.ground()).filter(|(_, rule)| self.matters[rule.head as usize]) {
            concluding.entry(rule.head).or_default().push(body);
        }
        let mut found = Vec::new();
        for demand in (0..rules.cases().len()).filter(|d| self.matters(rules, Effect::Case(*d))) {
            let mut open = vec![rules.cases()[demand].atom];
            while let Some(atom) = open.pop() {
                for &body in concluding.get(&atom).into_iter().flatten() {
                    match rules.ground()[body as usize].body[..] {
                        [(literal, weight)] if literal > 0 && passed_on(rules, body, weight).is_some() => {
                            open.push(literal.unsigned_abs());
                        }
                        _ => found.push((body, demand)),
                    }
                }
            }
        }
        found
    }

    /// The rules, where any are kept.
    pub fn policy(&self) -> Option<&'a Policy<'a>> {
        self.policy
    }
}

fn find(leader: &mut [usize], of: usize) -> usize {
    let mut top = of;
    while leader[top] != top {
        leader[top] = leader[leader[top]];
        top = leader[top];
    }
    top
}

/// Who is where, with what the world and the rules that are kept say of it.
pub(crate) struct Seats<'a> {
    pub state: State<'a>,
    /// The question's actors in the rules' positions, what stays broken once it is, and all the rest.
    rulings: Option<(&'a IxVec<ActorIx, ActorIx>, Ruling<'a>, Ruling<'a>)>,
}

impl<'a> Seats<'a> {
    /// Fixed actors at their places, nobody else anywhere.
    pub fn new(world: &'a Snapshot, kept: &Kept<'a>) -> Self {
        let rulings = kept.policy.map(|policy| {
            let of = |grows: bool| {
                let others = (0..policy.grows.len()).filter(|demand| policy.grows[*demand] != grows);
                Ruling::without(policy.rules, others.chain(kept.dropped.iter().copied()).collect())
            };
            (&policy.actors, of(true), of(false))
        });
        let mut seats = Self { state: State::new(world), rulings };
        for actor in ActorIx::first(world.actors()).filter(|actor| world.is_fixed(*actor)) {
            if let Some(home) = world.current(actor) {
                seats.take_in(actor, home);
            }
        }
        seats
    }

    /// A whole assignment.
    pub fn of(world: &'a Snapshot, kept: &Kept<'a>, assignment: &Assignment) -> Self {
        let mut seats = Self::new(world, kept);
        for (actor, place) in assignment.enumerate().filter(|(actor, _)| !world.is_fixed(*actor)) {
            if let Some(unit) = *place {
                seats.put(actor, unit);
            }
        }
        seats
    }

    /// An actor comes to a unit, as far as the rules go.
    pub fn take_in(&mut self, actor: ActorIx, unit: UnitIx) {
        if let Some((actors, growing, rest)) = &mut self.rulings {
            growing.put(actors[actor], unit);
            rest.put(actors[actor], unit);
        }
    }

    /// An actor that had no place comes to a unit.
    pub fn put(&mut self, actor: ActorIx, unit: UnitIx) {
        self.state.put(actor, unit);
        self.take_in(actor, unit);
    }

    /// An actor leaves its unit.
    pub fn take(&mut self, actor: ActorIx) {
        if let Some(unit) = self.state.take(actor)
            && let Some((actors, growing, rest)) = &mut self.rulings
        {
            growing.take(actors[actor], unit);
            rest.take(actors[actor], unit);
        }
    }

    /// Whether the actor, which has no place now, may be put on the unit, whoever comes after it.
    pub fn admits(&mut self, actor: ActorIx, unit: UnitIx) -> bool {
        if !self.state.admits(actor, unit) {
            return false;
        }
        let Some((actors, growing, _)) = &mut self.rulings else { return true };
        growing.put(actors[actor], unit);
        let admits = growing.degree() == 0;
        growing.take(actors[actor], unit);
        admits
    }

    /// Whether no rule that is kept is broken as things are.
    pub fn obeys(&self) -> bool {
        self.rulings.as_ref().is_none_or(|(_, growing, rest)| growing.degree() == 0 && rest.degree() == 0)
    }

    /// Whether the actor, which has no place now, has one on the unit, nobody else coming after it.
    pub fn seats(&mut self, actor: ActorIx, unit: UnitIx) -> bool {
        if !self.admits(actor, unit) {
            return false;
        }
        self.put(actor, unit);
        let obeys = self.obeys();
        self.take(actor);
        obeys
    }
}
