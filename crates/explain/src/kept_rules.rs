//! The policy's rules over placements, restricted to those that a question keeps.

use std::collections::{BTreeMap, BTreeSet};

use placement::ix::{ActorIx, IxVec, UnitIx};
use placement::{Assignment, RuleEvaluator, Rules, Snapshot, State};

/// How a placement affects the rules, beyond atoms that it alone decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Effect {
    /// The weight of a body changes.
    Body(u32),
    /// An atom holds, which other placements may also derive.
    Atom(u32),
    /// A case is violated by this placement alone.
    Case(usize),
}

/// Effects in order, each with its weight.
pub(crate) type Effects = Vec<(Effect, i64)>;

/// The rules of a question's snapshot, and the effects of the placements of its actors.
pub(crate) struct Policy<'a> {
    pub rules: &'a Rules,
    /// The question's actors by their positions in the rules.
    actors: IxVec<ActorIx, ActorIx>,
    /// By the question's actor: units, ascending, with the effects of a placement there.
    effects: IxVec<ActorIx, Vec<(UnitIx, Effects)>>,
    /// By case: whether a violation is permanent once it occurs.
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

    /// The effects of an actor's placements, by unit.
    pub fn effects(&self, actor: ActorIx) -> &[(UnitIx, Effects)] {
        &self.effects[actor]
    }
}

/// By atom: the actor whose placement alone decides it.
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
    // By head: the actor whose atoms derive it so far, and by how many bodies.
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

/// The head of a body that is equivalent to its only atom.
fn passed_on(rules: &Rules, body: u32, weight: i64) -> Option<u32> {
    let rule = &rules.ground()[body as usize];
    (rule.body.len() == 1 && rule.lower > 0 && weight >= rule.lower).then_some(rule.head)
}

/// The effects of the placement that an atom stands for.
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
pub(crate) struct KeptRules<'a> {
    policy: Option<&'a Policy<'a>>,
    /// Cases that are dropped.
    dropped: BTreeSet<usize>,
    /// By atom: whether a kept case depends on it.
    matters: Vec<bool>,
}

impl<'a> KeptRules<'a> {
    /// All rules except some cases, by position.
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

    /// The effects of a placement on the kept rules.
    pub fn effects(&self, actor: ActorIx, unit: UnitIx) -> Effects {
        let Some(policy) = self.policy else { return Vec::new() };
        let of_actor = policy.effects(actor);
        let Ok(at) = of_actor.binary_search_by_key(&unit, |(unit, _)| *unit) else { return Vec::new() };
        of_actor[at].1.iter().copied().filter(|(effect, _)| self.matters(policy.rules, *effect)).collect()
    }

    /// By actor: a class number; actors of one class have the same effects on the kept rules everywhere.
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

    /// By actor: a component number; kept rules connect the actors of one component. `None` if no kept rule depends on the actor.
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

    /// Bodies that violate a kept case, each with the case.
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

    /// The policy, if any rule is kept.
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

/// A partial assignment with its state and the kept rules.
pub(crate) struct PartialAssignment<'a> {
    pub state: State<'a>,
    /// The question's actors in the rules' positions; the rules whose violations are permanent; all other rules.
    rulings: Option<(&'a IxVec<ActorIx, ActorIx>, RuleEvaluator<'a>, RuleEvaluator<'a>)>,
}

impl<'a> PartialAssignment<'a> {
    /// Fixed actors on their units, all others unplaced.
    pub fn new(world: &'a Snapshot, kept: &KeptRules<'a>) -> Self {
        let rulings = kept.policy.map(|policy| {
            let of = |grows: bool| {
                let others = (0..policy.grows.len()).filter(|demand| policy.grows[*demand] != grows);
                RuleEvaluator::without(policy.rules, others.chain(kept.dropped.iter().copied()).collect())
            };
            (&policy.actors, of(true), of(false))
        });
        let mut partial = Self { state: State::new(world), rulings };
        for actor in ActorIx::first(world.actors()).filter(|actor| world.is_fixed(*actor)) {
            if let Some(home) = world.current(actor) {
                partial.take_in(actor, home);
            }
        }
        partial
    }

    /// A whole assignment.
    pub fn of(world: &'a Snapshot, kept: &KeptRules<'a>, assignment: &Assignment) -> Self {
        let mut partial = Self::new(world, kept);
        for (actor, place) in assignment.enumerate().filter(|(actor, _)| !world.is_fixed(*actor)) {
            if let Some(unit) = *place {
                partial.put(actor, unit);
            }
        }
        partial
    }

    /// Adds a placement to the rules alone.
    pub fn take_in(&mut self, actor: ActorIx, unit: UnitIx) {
        if let Some((actors, growing, rest)) = &mut self.rulings {
            growing.put(actors[actor], unit);
            rest.put(actors[actor], unit);
        }
    }

    /// Places an unplaced actor.
    pub fn put(&mut self, actor: ActorIx, unit: UnitIx) {
        self.state.put(actor, unit);
        self.take_in(actor, unit);
    }

    /// Removes an actor from its unit.
    pub fn take(&mut self, actor: ActorIx) {
        if let Some(unit) = self.state.take(actor)
            && let Some((actors, growing, rest)) = &mut self.rulings
        {
            growing.take(actors[actor], unit);
            rest.take(actors[actor], unit);
        }
    }

    /// Whether the unplaced actor may be put on the unit as a step towards a larger assignment.
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

    /// Whether no kept rule is violated.
    pub fn obeys(&self) -> bool {
        self.rulings.as_ref().is_none_or(|(_, growing, rest)| growing.degree() == 0 && rest.degree() == 0)
    }

    /// Whether the unplaced actor can have the unit in a final assignment.
    pub fn can_host(&mut self, actor: ActorIx, unit: UnitIx) -> bool {
        if !self.admits(actor, unit) {
            return false;
        }
        self.put(actor, unit);
        let obeys = self.obeys();
        self.take(actor);
        obeys
    }
}
