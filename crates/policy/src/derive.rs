//! What a grounded policy adds to a snapshot: constraints derived from facts, and rules over placements.

use std::collections::{BTreeMap, BTreeSet};

use placement::file::{Constraint, Places, Scope};
use placement::ix::{ActorIx, UnitIx};
use placement::{Derived, GroundConstraint, GroundRule, Rules, Snapshot};

use crate::output::{Grounding, Rule};
use crate::program::Program;
use crate::syntax::Statement;
use crate::term::{Shape, Terms, Value};
use crate::verdict::{Argument, Instance};

/// Constraints and rules of the policy, or why it is invalid for this snapshot.
pub(crate) fn derived(
    program: &Program,
    name: &str,
    snapshot: &Snapshot,
    grounding: Grounding,
) -> Result<Derived, String> {
    let place = |statement: usize| format!("policy {name} line {}", program.line(statement));
    let names = Names::new(snapshot, &grounding.terms);
    let mut constraints = Constraints::new(snapshot);
    for (statement, word, terms) in &grounding.said {
        let terms: Vec<Argument> = terms.iter().map(|term| names.argument(*term)).collect();
        constraints
            .take(*statement, word, &terms)
            .map_err(|problem| format!("{}: {problem}", place(*statement)))?;
    }
    let constraints = constraints.finish(&place);
    if !program.depends_on_placement() {
        return Ok(Derived { constraints, rules: None });
    }
    let mut demands = Vec::with_capacity(grounding.violated.len());
    for (statement, values, atom) in &grounding.violated {
        let said = (*statement, values.iter().map(|value| names.argument(*value)).collect());
        let says = format!("policy {name} {}", says(program, snapshot, &said));
        demands.push(GroundConstraint { atom: *atom, rule: place(*statement), says, limit: None });
    }
    let mut penalties = Vec::with_capacity(grounding.penalties.len());
    for (statement, weight, atom) in &grounding.penalties {
        match weight {
            Value::Number(weight) if *weight >= 0 => penalties.push((*atom, i64::from(*weight))),
            other => {
                let problem = format!(
                    "the weight is {} here; a penalty is a number from 0 up",
                    grounding.terms.show(*other)
                );
                return Err(format!("{}: {problem}", place(*statement)));
            }
        }
    }
    let alternatives = &grounding.alternatives;
    let rule =
        |(head, lower, body): Rule| GroundRule { head, lower, body, any: alternatives.contains(&head) };
    let ground = grounding.rules.into_iter().map(rule).collect();
    let rules = Rules::new(snapshot.actors(), ground, &grounding.inputs, demands, penalties)
        .map_err(|problem| format!("policy {name}: {problem}"))?;
    Ok(Derived { constraints, rules: Some(rules) })
}

/// The first difference between the preferences and reservations that clingo concludes and those that were derived.
pub(crate) fn not_derived(
    snapshot: &Snapshot,
    concluded: &[(usize, String, Vec<Argument>)],
) -> Option<String> {
    let mut of_clingo = Constraints::new(snapshot);
    for (statement, word, terms) in concluded {
        if let Err(problem) = of_clingo.take(*statement, word, terms) {
            return Some(problem);
        }
    }
    let of_clingo = of_clingo.finish(&|_| String::new());
    let given = &snapshot.file().constraints;
    let derived = &given[given.len().saturating_sub(snapshot.derived_constraints())..];
    let is_one = |constraint: &&Constraint| {
        matches!(constraint, Constraint::Prefer { .. } | Constraint::Reserve { .. })
    };
    // There may be one for each actor and unit, so they are compared as sorted lists.
    let sorted = |constraints: &[Constraint]| {
        let mut words: Vec<String> = constraints.iter().filter(is_one).map(|it| format!("{it:?}")).collect();
        words.sort_unstable();
        words
    };
    let (ours, theirs) = (sorted(derived), sorted(&of_clingo));
    let same = ours.iter().zip(&theirs).take_while(|(one, other)| one == other).count();
    match (ours.get(same), theirs.get(same)) {
        (None, None) => None,
        (Some(one), other) if other.is_none_or(|other| one < other) => {
            Some(format!("clingo does not conclude {one}"))
        }
        (_, other) => other.map(|other| format!("clingo concludes {other}, which was not derived")),
    }
}

/// Maps terms back to actors and units.
struct Names<'a> {
    terms: &'a Terms,
    actors: BTreeMap<Value, ActorIx>,
    units: BTreeMap<Value, UnitIx>,
}

impl<'a> Names<'a> {
    fn new(snapshot: &Snapshot, terms: &'a Terms) -> Self {
        let problem = snapshot.problem();
        let actors =
            problem.actor_by_id.iter().filter_map(|(id, actor)| Some((terms.find_actor(id)?, *actor)));
        let units = problem.unit_by_id.iter().filter_map(|(id, unit)| Some((terms.find_text(id)?, *unit)));
        Self { terms, actors: actors.collect(), units: units.collect() }
    }

    fn argument(&self, value: Value) -> Argument {
        if let Some(actor) = self.actors.get(&value) {
            return Argument::Actor(*actor);
        }
        if let Some(unit) = self.units.get(&value) {
            return Argument::Unit(*unit);
        }
        match (value, self.terms.shape(value)) {
            (Value::Number(number), _) => Argument::Number(number),
            (_, Some(Shape::Text(text))) => Argument::Text(text.clone()),
            _ => Argument::Other(self.terms.show(value)),
        }
    }
}

/// Describes a violated constraint: its line and the values of its variables.
pub(crate) fn says(program: &Program, snapshot: &Snapshot, (statement, values): &Instance) -> String {
    let globals = program.statements.get(*statement).map(Statement::globals).unwrap_or_default();
    let bindings: Vec<String> = globals
        .iter()
        .zip(values)
        .map(|(name, value)| format!("{name} = {}", shown(snapshot, value)))
        .collect();
    let separator = if bindings.is_empty() { "" } else { ": " };
    format!("line {}{separator}{}", program.line(*statement), bindings.join(", "))
}

fn shown(snapshot: &Snapshot, value: &Argument) -> String {
    match value {
        Argument::Actor(actor) => snapshot.actor_id(*actor).to_owned(),
        Argument::Unit(unit) => snapshot.unit_id(*unit).to_owned(),
        Argument::Text(text) | Argument::Other(text) => text.clone(),
        Argument::Number(number) => number.to_string(),
    }
}

/// Collects single conclusions into constraints: one constraint for all actors and units of the same rule.
struct Constraints<'a> {
    snapshot: &'a Snapshot,
    /// By statement and actor: units.
    forbidden: BTreeMap<(usize, ActorIx), BTreeSet<UnitIx>>,
    /// By statement and name of the unit: actors.
    pinned: BTreeMap<(usize, String), BTreeSet<ActorIx>>,
    /// By actor and unit: distinct weights of all statements.
    preferred: BTreeMap<(ActorIx, UnitIx), BTreeSet<u64>>,
    /// By statement, whether it is `apart`, and level: pairs, the smaller index first.
    related: BTreeMap<(usize, bool, Scope), BTreeSet<(ActorIx, ActorIx)>>,
    /// Unit, resource and quantity; duplicates of other statements count once.
    reserved: BTreeSet<(UnitIx, String, u64)>,
}

impl<'a> Constraints<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        Self {
            snapshot,
            forbidden: BTreeMap::new(),
            pinned: BTreeMap::new(),
            preferred: BTreeMap::new(),
            related: BTreeMap::new(),
            reserved: BTreeSet::new(),
        }
    }

    /// Adds one conclusion. Actors and units outside of this snapshot are ignored.
    fn take(&mut self, statement: usize, word: &str, terms: &[Argument]) -> Result<(), String> {
        match (word, terms) {
            ("forbid", [actor, unit]) => {
                if let (Some(actor), Some(unit)) = (self.actor(word, actor)?, self.unit(word, unit)?) {
                    self.forbidden.entry((statement, actor)).or_default().insert(unit);
                }
            }
            ("pin", [actor, unit]) => {
                let name = match self.unit(word, unit)? {
                    Some(unit) => self.snapshot.unit_id(unit).to_owned(),
                    None => shown(self.snapshot, unit),
                };
                if let Some(actor) = self.actor(word, actor)? {
                    self.pinned.entry((statement, name)).or_default().insert(actor);
                }
            }
            ("prefer", [actor, unit, weight]) => {
                let weight = self.quantity(word, "weight", weight)?;
                if let (Some(actor), Some(unit)) = (self.actor(word, actor)?, self.unit(word, unit)?) {
                    self.preferred.entry((actor, unit)).or_default().insert(weight);
                }
            }
            ("apart" | "together", [a, b, level]) => {
                let scope = self.scope(word, level)?;
                if let (Some(a), Some(b)) = (self.actor(word, a)?, self.actor(word, b)?)
                    && a != b
                {
                    let pairs = self.related.entry((statement, word == "apart", scope)).or_default();
                    pairs.insert((a.min(b), a.max(b)));
                }
            }
            ("reserve", [unit, Argument::Text(resource), quantity]) => {
                let quantity = self.quantity(word, "quantity", quantity)?;
                if let Some(unit) = self.unit(word, unit)? {
                    self.reserved.insert((unit, resource.clone(), quantity));
                }
            }
            _ => {
                let terms: Vec<String> = terms.iter().map(|term| shown(self.snapshot, term)).collect();
                return Err(format!(
                    "`{word}({})` means nothing; docs/reference/policy-language.md has its form",
                    terms.join(",")
                ));
            }
        }
        Ok(())
    }

    fn actor(&self, word: &str, value: &Argument) -> Result<Option<ActorIx>, String> {
        match value {
            Argument::Actor(actor) => Ok(Some(*actor)),
            Argument::Other(text) if text.starts_with("a(") => Ok(None),
            // Snapshots that were not made from a cluster may name actors differently.
            Argument::Text(text) if text.split('/').count() != 3 => Ok(None),
            other => {
                let other = shown(self.snapshot, other);
                Err(format!(
                    "{other} in `{word}` is not an actor; write a(\"namespace\",\"application\",\"actor\")"
                ))
            }
        }
    }

    fn unit(&self, word: &str, value: &Argument) -> Result<Option<UnitIx>, String> {
        match value {
            Argument::Unit(unit) => Ok(Some(*unit)),
            Argument::Text(_) => Ok(None),
            other => {
                let other = shown(self.snapshot, other);
                Err(format!("{other} in `{word}` is not a unit; names are strings, \"node-0/cpu-0\""))
            }
        }
    }

    fn quantity(&self, word: &str, what: &str, value: &Argument) -> Result<u64, String> {
        match value {
            Argument::Number(number) if *number >= 0 => Ok(number.unsigned_abs().into()),
            other => Err(format!(
                "the {what} of `{word}` is {}; it is a number from 0 up",
                shown(self.snapshot, other)
            )),
        }
    }

    fn scope(&self, word: &str, value: &Argument) -> Result<Scope, String> {
        match value {
            Argument::Other(text) if text == "unit" => Ok(Scope::Unit),
            Argument::Other(text) if text == "numa" => Ok(Scope::Numa),
            Argument::Other(text) if text == "node" => Ok(Scope::Node),
            Argument::Other(text) if text == "zone" => Ok(Scope::Zone),
            other => {
                let other = shown(self.snapshot, other);
                Err(format!(
                    "`{word}` on {other}, which is no level; it is unit, numa, node or zone, without quotes"
                ))
            }
        }
    }

    fn finish(self, place: &dyn Fn(usize) -> String) -> Vec<Constraint> {
        let snapshot = self.snapshot;
        let actor = |actor: ActorIx| snapshot.actor_id(actor).to_owned();
        let unit = |unit: UnitIx| snapshot.unit_id(unit).to_owned();
        let mut constraints = Vec::new();
        let mut alike: BTreeMap<(usize, BTreeSet<UnitIx>), Vec<String>> = BTreeMap::new();
        for ((statement, of), units) in self.forbidden {
            alike.entry((statement, units)).or_default().push(actor(of));
        }
        for ((statement, units), actors) in alike {
            let places = Places::Units(units.into_iter().map(unit).collect());
            let reason = Some(place(statement));
            constraints.push(Constraint::Never { actors, places, except_current: false, reason });
        }
        for ((statement, unit), actors) in self.pinned {
            // A unit outside of the snapshot leaves the actor no candidate.
            let units = if snapshot.unit(&unit).is_some() { vec![unit.clone()] } else { Vec::new() };
            constraints.push(Constraint::Only {
                actors: actors.into_iter().map(actor).collect(),
                places: Places::Units(units),
                reason: Some(format!("{}, pinned to {unit}", place(statement))),
            });
        }
        for ((of, to), weights) in self.preferred {
            let weight = weights.into_iter().sum();
            constraints.push(Constraint::Prefer { actor: actor(of), unit: unit(to), weight });
        }
        for ((statement, apart, on), pairs) in self.related {
            for group in groups(&pairs) {
                let (actors, reason) = (group.into_iter().map(actor).collect(), Some(place(statement)));
                constraints.push(if apart {
                    Constraint::Apart { on, actors, reason }
                } else {
                    Constraint::Together { on, actors, reason }
                });
            }
        }
        for (of, resource, quantity) in self.reserved {
            constraints.push(Constraint::Reserve { unit: unit(of), resource, quantity });
        }
        constraints
    }
}

/// Groups pairs into cliques: a connected component whose pairs are all present becomes one group, other pairs stay pairs.
fn groups(pairs: &BTreeSet<(ActorIx, ActorIx)>) -> Vec<Vec<ActorIx>> {
    let mut leader: BTreeMap<ActorIx, ActorIx> = BTreeMap::new();
    for &(a, b) in pairs {
        let (a, b) = (find(&mut leader, a), find(&mut leader, b));
        leader.insert(a.max(b), a.min(b));
    }
    let all: Vec<ActorIx> = leader.keys().copied().collect();
    let mut members: BTreeMap<ActorIx, Vec<ActorIx>> = BTreeMap::new();
    for member in all {
        members.entry(find(&mut leader, member)).or_default().push(member);
    }
    let mut tied: BTreeMap<ActorIx, Vec<(ActorIx, ActorIx)>> = BTreeMap::new();
    for &pair in pairs {
        tied.entry(find(&mut leader, pair.0)).or_default().push(pair);
    }
    let of_set = |(members, pairs): (Vec<ActorIx>, Vec<(ActorIx, ActorIx)>)| {
        if pairs.len() == members.len() * (members.len() - 1) / 2 {
            vec![members]
        } else {
            pairs.into_iter().map(|(a, b)| vec![a, b]).collect()
        }
    };
    members.into_values().zip(tied.into_values()).flat_map(of_set).collect()
}

/// The representative of a member's component (union-find with path compression).
fn find(leader: &mut BTreeMap<ActorIx, ActorIx>, of: ActorIx) -> ActorIx {
    let above = *leader.entry(of).or_insert(of);
    if above == of {
        return of;
    }
    let top = find(leader, above);
    leader.insert(of, top);
    top
}
