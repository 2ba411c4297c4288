//! A snapshot as the facts that a policy reads: only those, sorted, each number one that clingo can compute with.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Write as _};

use placement::{Assignment, Snapshot};

use crate::program::Program;
use crate::symbols::{actor, string};
use crate::term::{Terms, Value};
use crate::text::PREFIX;

/// A term of a fact.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fact {
    /// By position.
    Actor(usize),
    /// By position.
    Unit(usize),
    Text(String),
    Number(i32),
}

impl Fact {
    /// The term among those that are kept.
    pub fn value(&self, actors: &[Value], units: &[Value], terms: &mut Terms) -> Value {
        match self {
            Self::Actor(actor) => actors[*actor],
            Self::Unit(unit) => units[*unit],
            Self::Text(text) => terms.text(text),
            Self::Number(number) => Value::Number(*number),
        }
    }
}

/// A fact as clingo reads it.
struct Written<'a>(&'a Snapshot, &'a Fact);

impl Display for Written<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Fact::Actor(position) => f.write_str(&actor(self.0.actor_id(*position))),
            Fact::Unit(position) => f.write_str(&string(self.0.unit_id(*position))),
            Fact::Text(text) => f.write_str(&string(text)),
            Fact::Number(number) => write!(f, "{number}"),
        }
    }
}

/// Work and capacities are divided until their largest sum passes this no more, so that shares of it can be computed: a
/// hundred times as much still fits 32 bits.
const LARGEST_WORK: i64 = 1 << 24;

/// The facts of a snapshot for one policy.
pub(crate) struct Facts<'a> {
    snapshot: &'a Snapshot,
    program: &'a Program,
    /// Predicate and terms.
    pub all: BTreeSet<(&'static str, Vec<Fact>)>,
    /// By predicate: the sum of its numbers.
    totals: BTreeMap<&'static str, i64>,
    problem: Option<String>,
}

impl<'a> Facts<'a> {
    /// What is published, as far as the policy reads it.
    ///
    /// # Errors
    /// A number, or a sum that the policy could form, that 32 bits do not hold.
    pub fn new(snapshot: &'a Snapshot, program: &'a Program) -> Result<Self, String> {
        let (all, totals) = (BTreeSet::new(), BTreeMap::new());
        let mut facts = Self { snapshot, program, all, totals, problem: None };
        facts.published()?;
        Ok(facts)
    }

    fn published(&mut self) -> Result<(), String> {
        self.of_units();
        self.of_nodes();
        self.of_actors();
        self.of_pairs();
        self.prices();
        let largest = i64::from(i32::MAX);
        for (name, total) in &self.totals {
            if *total > largest && self.program.summed.contains(*name) && self.problem.is_none() {
                self.problem = Some(format!(
                    "`{name}` adds up to {total} here, and clingo sums to {largest} only; do not sum it, or plan with a \
                     shorter window"
                ));
            }
        }
        self.problem.take().map_or(Ok(()), Err)
    }

    /// As clingo reads them, with where each actor is, and who could be somewhere.
    pub fn text(&self, assignment: &Assignment) -> String {
        let mut text = String::new();
        let mut line = |name: &str, terms: &[Fact]| {
            let terms: Vec<String> =
                terms.iter().map(|term| Written(self.snapshot, term).to_string()).collect();
            writeln!(text, "{name}({}).", terms.join(",")).expect("a string takes any text");
        };
        for (name, terms) in &self.all {
            line(&format!("{PREFIX}{name}"), terms);
        }
        for (actor, place) in assignment.iter().enumerate() {
            if let Some(unit) = *place {
                line("p_run_on", &[Fact::Actor(actor), Fact::Unit(unit)]);
            }
            if !self.snapshot.is_fixed(actor) {
                line("movable", &[Fact::Actor(actor)]);
            }
        }
        text
    }

    fn reads(&self, name: &str) -> bool {
        self.program.reads.contains(name)
    }

    fn fact(&mut self, name: &'static str, terms: &[Fact]) {
        if self.reads(name) {
            self.all.insert((name, terms.to_vec()));
        }
    }

    /// A fact that ends in a number.
    fn number(&mut self, name: &'static str, terms: &[Fact], number: i64) {
        if !self.reads(name) {
            return;
        }
        let total = self.totals.entry(name).or_default();
        *total = total.saturating_add(number.abs());
        let mut all = terms.to_vec();
        if let Ok(number) = i32::try_from(number) {
            all.push(Fact::Number(number));
        } else {
            let mut says: Vec<String> =
                terms.iter().map(|term| Written(self.snapshot, term).to_string()).collect();
            says.push(number.to_string());
            self.problem.get_or_insert(format!(
                    "`{name}({})` does not fit the 32 bits that clingo computes with; do not read it, or plan with a \
                     shorter window",
                    says.join(",")
                ));
        }
        self.all.insert((name, all));
    }

    fn of_units(&mut self) {
        let snapshot = self.snapshot;
        let divisor = work_divisor(snapshot);
        for (position, unit) in snapshot.file().units.iter().enumerate() {
            let of = Fact::Unit(position);
            self.fact("cu", std::slice::from_ref(&of));
            self.fact("cu_kind", &[of.clone(), text(&unit.kind)]);
            self.fact("cu_node", &[of.clone(), text(&unit.node)]);
            let named = [("cu_zone", &unit.zone), ("cu_numa", &unit.numa), ("cu_pool", &unit.pool)];
            for (name, value) in named {
                if let Some(value) = value {
                    self.fact(name, &[of.clone(), text(value)]);
                }
            }
            let watts = |watts: Option<u64>| i64::try_from(watts.unwrap_or(0)).unwrap_or(i64::MAX);
            if unit.power_watts.is_some() || unit.idle_watts.is_some() {
                let idle = i32::try_from(watts(unit.idle_watts)).unwrap_or(i32::MAX);
                self.number("cu_power", &[of.clone(), Fact::Number(idle)], watts(unit.power_watts));
            }
            self.number("cu_capacity", std::slice::from_ref(&of), snapshot.capacity(position) / divisor);
            if let Some(slots) = unit.slots {
                self.number("cu_slots", std::slice::from_ref(&of), i64::try_from(slots).unwrap_or(i64::MAX));
            }
            for (resource, quantity) in &unit.provides {
                self.number("cu_provides", &[of.clone(), text(resource)], as_number(*quantity));
            }
        }
    }

    fn of_nodes(&mut self) {
        for node in &self.snapshot.file().nodes {
            let of = text(&node.id);
            for (key, value) in &node.labels {
                self.fact("node_label", &[of.clone(), text(key), text(value)]);
            }
            for (resource, quantity) in &node.provides {
                self.number("node_provides", &[of.clone(), text(resource)], as_number(*quantity));
            }
        }
    }

    fn of_actors(&mut self) {
        let snapshot = self.snapshot;
        let divisor = work_divisor(snapshot);
        for (position, given) in snapshot.file().actors.iter().enumerate() {
            let of = Fact::Actor(position);
            self.fact("actor", std::slice::from_ref(&of));
            if let Some((application, _)) = given.id.rsplit_once('/') {
                self.fact("app", &[of.clone(), text(application)]);
            }
            if let Some(group) = &given.group {
                self.fact("group", &[of.clone(), text(group)]);
            }
            for (key, value) in &given.labels {
                self.fact("actor_label", &[of.clone(), text(key), text(value)]);
            }
            if given.fixed {
                self.fact("fixed", std::slice::from_ref(&of));
            }
            if let Some(unit) = snapshot.current(position) {
                self.fact("current", &[of.clone(), Fact::Unit(unit)]);
                self.number("move_cost", std::slice::from_ref(&of), snapshot.move_cost(position));
            }
            for (kind, runs_on) in &given.runs_on {
                let kind = text(kind);
                self.fact("runs_on_kind", &[of.clone(), kind.clone()]);
                self.number(
                    "work",
                    &[of.clone(), kind.clone()],
                    as_number(runs_on.work).saturating_add(divisor - 1) / divisor,
                );
                let mut requires = given.requires.clone();
                for (resource, quantity) in &runs_on.requires {
                    *requires.entry(resource.clone()).or_default() += quantity;
                }
                for (resource, quantity) in &requires {
                    self.number(
                        "requires",
                        &[of.clone(), kind.clone(), text(resource)],
                        as_number(*quantity),
                    );
                }
                for (resource, quantity) in &runs_on.node_requires {
                    self.number(
                        "node_requires",
                        &[of.clone(), kind.clone(), text(resource)],
                        as_number(*quantity),
                    );
                }
            }
            self.of_candidates(position, divisor);
        }
    }

    fn of_candidates(&mut self, actor: usize, divisor: i64) {
        if !self.reads("runnable_on") && !self.reads("workload") {
            return;
        }
        let (snapshot, of) = (self.snapshot, Fact::Actor(actor));
        let home = snapshot.current(actor).filter(|_| snapshot.is_fixed(actor));
        let candidates = if snapshot.is_fixed(actor) { &[] } else { snapshot.candidates(actor) };
        for &unit in candidates.iter().chain(&home) {
            let place = Fact::Unit(unit);
            self.fact("runnable_on", &[of.clone(), place.clone()]);
            if let Some(needs) = snapshot.implementation(actor, unit) {
                self.number(
                    "workload",
                    &[of.clone(), place.clone()],
                    needs.work.saturating_add(divisor - 1) / divisor,
                );
            }
        }
        // Of many places one counts.
        if let Some(total) = self.totals.get_mut("workload") {
            *total = 0;
        }
    }

    fn of_pairs(&mut self) {
        let snapshot = self.snapshot;
        for actor in 0..snapshot.actors() {
            for edge in snapshot.edges(actor).iter().filter(|edge| edge.peer.at() > actor) {
                let (a, b) = (Fact::Actor(actor), Fact::Actor(edge.peer.at()));
                let ties = [
                    ("msg_exch_rate", edge.rate),
                    ("mutual_annoyance", edge.annoyance),
                    ("interferes", edge.interference),
                ];
                for (name, value) in ties.into_iter().filter(|(_, value)| *value > 0) {
                    self.number(name, &[a.clone(), b.clone()], value);
                }
            }
        }
    }

    fn prices(&mut self) {
        let snapshot = self.snapshot;
        let cost = &snapshot.file().exchange_cost;
        let kinds: BTreeSet<&str> = snapshot.file().units.iter().map(|unit| unit.kind.as_str()).collect();
        for a in &kinds {
            for b in &kinds {
                self.number("kind_cost", &[text(a), text(b)], snapshot.kind_cost(a, b));
            }
        }
        let others = [
            ("other_numa", cost.other_numa),
            ("other_node", cost.other_node),
            ("other_zone", cost.other_zone),
        ];
        for (name, value) in others {
            self.number(name, &[], as_number(value));
        }
        for pair in &cost.pairs {
            self.number("msg_exch_cost", &[text(&pair.a), text(&pair.b)], as_number(pair.cost));
        }
    }
}

/// By what work and capacities are divided for a policy: 1 while they are small.
fn work_divisor(snapshot: &Snapshot) -> i64 {
    let of_actors = snapshot
        .file()
        .actors
        .iter()
        .map(|actor| as_number(actor.runs_on.values().map(|runs_on| runs_on.work).max().unwrap_or(0)));
    let work = of_actors.fold(0i64, i64::saturating_add);
    let capacity = (0..snapshot.units()).map(|unit| snapshot.capacity(unit)).max().unwrap_or(0);
    (work.max(capacity) - 1).max(0) / LARGEST_WORK + 1
}

fn as_number(quantity: u64) -> i64 {
    i64::try_from(quantity).unwrap_or(i64::MAX)
}

fn text(text: &str) -> Fact {
    Fact::Text(text.to_owned())
}
