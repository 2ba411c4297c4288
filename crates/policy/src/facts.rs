//! The facts of a snapshot that a policy reads: only those, sorted, with every number in clingo's 32 bits.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Write as _};

use placement::channels::Channel;
use placement::ix::{ActorIx, IxVec, KindIx, UnitIx};
use placement::{Assignment, Implementation, Problem, Snapshot};

use crate::program::Program;
use crate::symbols::{actor, string};
use crate::term::{Terms, Value};
use crate::text::PREFIX;

/// A term of a fact.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fact {
    Actor(ActorIx),
    Unit(UnitIx),
    Text(String),
    Number(i32),
}

impl Fact {
    /// The interned term.
    pub fn value(
        &self,
        actors: &IxVec<ActorIx, Value>,
        units: &IxVec<UnitIx, Value>,
        terms: &mut Terms,
    ) -> Value {
        match self {
            Self::Actor(actor) => actors[*actor],
            Self::Unit(unit) => units[*unit],
            Self::Text(text) => terms.text(text),
            Self::Number(number) => Value::Number(*number),
        }
    }
}

/// A fact in clingo's syntax.
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

/// Work and capacities are divided until their largest sum is below this, so that a policy can compute with percentages:
/// a hundred times this value still fits 32 bits.
const LARGEST_WORK: i64 = 1 << 24;

/// The facts of a snapshot for one policy.
pub(crate) struct Facts<'a> {
    snapshot: &'a Snapshot,
    problem: &'a Problem,
    /// The snapshot without the constraints that this policy derived earlier, if there are any.
    before: Option<Snapshot>,
    program: &'a Program,
    /// Predicate and terms.
    pub all: BTreeSet<(&'static str, Vec<Fact>)>,
    /// By predicate: the sum of its last terms.
    totals: BTreeMap<&'static str, i64>,
    /// The maximum number of facts.
    most: u64,
    fault: Option<String>,
}

impl<'a> Facts<'a> {
    /// Collects the published facts that the policy reads.
    ///
    /// # Errors
    /// There are more than `most` facts; or a number, or a sum that the policy could compute, exceeds 32 bits.
    pub fn new(snapshot: &'a Snapshot, program: &'a Program, most: u64) -> Result<Self, String> {
        let (all, totals) = (BTreeSet::new(), BTreeMap::new());
        let reads_candidates = ["runnable_on", "workload"].iter().any(|name| program.reads.contains(*name));
        let is_derived = snapshot.derived_constraints() > 0;
        let before = (is_derived && reads_candidates).then(|| without_derived(snapshot)).transpose()?;
        let problem = snapshot.problem();
        let mut facts = Self { snapshot, problem, before, program, all, totals, most, fault: None };
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
            if *total > largest && self.program.summed.contains(*name) && self.fault.is_none() {
                self.fault = Some(format!(
                    "`{name}` adds up to {total} here, and clingo sums to {largest} only; do not sum it, or plan with a \
                     shorter window"
                ));
            }
        }
        self.fault.take().map_or(Ok(()), Err)
    }

    /// The facts in clingo's syntax, with the placement of each actor and its domain.
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
        for (actor, place) in self.problem.current.positions().zip(assignment) {
            if let Some(unit) = *place {
                line("p_run_on", &[Fact::Actor(actor), Fact::Unit(unit)]);
            }
            if !self.problem.fixed[actor] {
                line("movable", &[Fact::Actor(actor)]);
            }
        }
        text
    }

    fn reads(&self, name: &str) -> bool {
        self.program.reads.contains(name)
    }

    fn fact(&mut self, name: &'static str, terms: &[Fact]) {
        if self.reads(name) && self.has_room(name) {
            self.all.insert((name, terms.to_vec()));
        }
    }

    /// Whether one more fact may be stored; all further ones are dropped with a fault.
    fn has_room(&mut self, name: &str) -> bool {
        let has_room = (self.all.len() as u64) < self.most;
        if !has_room && self.fault.is_none() {
            self.fault = Some(format!(
                "the facts that it reads of {} actors and {} units, such as `{name}`, take too much memory; read fewer \
                 predicates, or give the policy a larger budget",
                self.snapshot.actors(),
                self.snapshot.units()
            ));
        }
        has_room
    }

    /// A fact that ends in a number.
    fn number(&mut self, name: &'static str, terms: &[Fact], number: i64) {
        self.numbers(name, terms, &[number]);
    }

    /// A fact that ends in numbers.
    fn numbers(&mut self, name: &'static str, terms: &[Fact], numbers: &[i64]) {
        if !self.reads(name) || !self.has_room(name) {
            return;
        }
        let total = self.totals.entry(name).or_default();
        *total = numbers.iter().fold(*total, |total, number| total.saturating_add(number.abs()));
        let mut all = terms.to_vec();
        let fit: Result<Vec<Fact>, _> =
            numbers.iter().map(|number| i32::try_from(*number).map(Fact::Number)).collect();
        if let Ok(numbers) = fit {
            all.extend(numbers);
        } else {
            let mut says: Vec<String> =
                terms.iter().map(|term| Written(self.snapshot, term).to_string()).collect();
            says.extend(numbers.iter().map(i64::to_string));
            self.fault.get_or_insert(format!(
                    "`{name}({})` does not fit the 32 bits that clingo computes with; do not read it, or plan with a \
                     shorter window",
                    says.join(",")
                ));
        }
        self.all.insert((name, all));
    }

    fn of_units(&mut self) {
        let (snapshot, problem) = (self.snapshot, self.problem);
        let divisor = work_divisor(problem);
        for (position, unit) in problem.capacity.positions().zip(&snapshot.file().units) {
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
            if unit.power_watts.is_some() || unit.idle_watts.is_some() {
                let (idle, full) = problem.watts[position];
                self.numbers("cu_power", std::slice::from_ref(&of), &[idle, full]);
            }
            self.number("cu_capacity", std::slice::from_ref(&of), problem.capacity[position] / divisor);
            if let Some(slots) = unit.slots {
                self.number("cu_slots", std::slice::from_ref(&of), as_number(slots));
            }
            // As given: reserved quantities are still included.
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
        let (snapshot, problem) = (self.snapshot, self.problem);
        let divisor = work_divisor(problem);
        for (position, given) in problem.current.positions().zip(&snapshot.file().actors) {
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
            if let Some(unit) = problem.current[position] {
                self.fact("current", &[of.clone(), Fact::Unit(unit)]);
                self.number("move_cost", std::slice::from_ref(&of), problem.move_cost[position]);
            }
            for (kind, needs) in problem.implementations[position].enumerate() {
                if let Some(needs) = needs {
                    self.of_kind(&of, &text(&problem.kinds[kind]), needs, divisor);
                }
            }
            self.of_candidates(position, divisor);
        }
    }

    /// The requirements of an actor on a kind.
    fn of_kind(&mut self, of: &Fact, kind: &Fact, needs: &Implementation, divisor: i64) {
        let problem = self.problem;
        self.fact("runs_on_kind", &[of.clone(), kind.clone()]);
        self.number("work", &[of.clone(), kind.clone()], shares(needs.work, divisor));
        for (name, list) in [("requires", &needs.requires), ("node_requires", &needs.node_requires)] {
            for &(resource, quantity) in list {
                let resource = text(&problem.resources[resource]);
                self.number(name, &[of.clone(), kind.clone(), resource], quantity);
            }
        }
    }

    fn of_candidates(&mut self, actor: ActorIx, divisor: i64) {
        if !self.reads("runnable_on") && !self.reads("workload") {
            return;
        }
        let (problem, of) = (self.problem, Fact::Actor(actor));
        let open = self.before.as_ref().map_or(problem, Snapshot::problem);
        let mut places = if problem.fixed[actor] { Vec::new() } else { open.candidates(actor).to_vec() };
        places.extend(problem.fixed_at(actor));
        for unit in &places {
            self.fact("runnable_on", &[of.clone(), Fact::Unit(*unit)]);
        }
        // The current unit counts even if the actor may no longer be placed there.
        places.extend(problem.current[actor]);
        for unit in places {
            if let Some(needs) = problem.implementation(actor, unit) {
                self.number("workload", &[of.clone(), Fact::Unit(unit)], shares(needs.work, divisor));
            }
        }
        // Of several candidates the largest value counts.
        if let Some(total) = self.totals.get_mut("workload") {
            *total = 0;
        }
    }

    fn of_pairs(&mut self) {
        let problem = self.problem;
        let channels = &problem.channels;
        let read = ["msg_exch_rate", "mutual_annoyance"].into_iter().find(|name| self.reads(name));
        if let Some(refusal) = read.and_then(|name| channels.open_refusal(&format!("`{name}`"))) {
            self.fault = Some(refusal);
            return;
        }
        for (actor, edges) in problem.edges.enumerate() {
            for edge in edges.iter().filter(|edge| edge.peer > actor) {
                let channel = self.not_in_edges(actor, edge.peer);
                let (rate, apart) = (edge.rate + channel.rate, edge.annoyance + channel.apart);
                self.tied(actor, edge.peer, [rate, apart, edge.interference]);
            }
        }
        if read.is_some() && channels.are_whole() {
            // Channels between foreign actors can expand to any number of pairs and do not affect this decision.
            channels.for_each_open_pair(&problem.fixed, |a, b, channel| {
                if problem.edges[a].binary_search_by_key(&b, |edge| edge.peer).is_err() {
                    self.tied(a, b, [channel.rate, channel.apart, 0]);
                }
            });
        }
    }

    /// The traffic of two actors that follows from channels between their groups and from no explicit edge.
    fn not_in_edges(&self, a: ActorIx, b: ActorIx) -> Channel {
        let channels = &self.problem.channels;
        if channels.are_whole() { channels.between(a, b) } else { Channel::default() }
    }

    /// How two actors interact: messages, drag when apart, drag when together.
    fn tied(&mut self, a: ActorIx, b: ActorIx, values: [i64; 3]) {
        let names = ["msg_exch_rate", "mutual_annoyance", "interferes"];
        for (name, value) in names.into_iter().zip(values).filter(|(_, value)| *value > 0) {
            self.number(name, &[Fact::Actor(a), Fact::Actor(b)], value);
        }
    }

    fn prices(&mut self) {
        let (problem, cost) = (self.problem, &self.snapshot.file().exchange_cost);
        let kinds: BTreeSet<KindIx> = problem.unit_kind.iter().copied().collect();
        for &a in &kinds {
            for &b in &kinds {
                let names = [text(&problem.kinds[a]), text(&problem.kinds[b])];
                self.number("kind_cost", &names, problem.kind_cost(a, b));
            }
        }
        let added = problem.added_costs();
        let others = [("other_numa", added.numa), ("other_node", added.node), ("other_zone", added.zone)];
        for (name, value) in others {
            self.number(name, &[], value);
        }
        // As given: the direction of the pair is the file's.
        for pair in &cost.pairs {
            self.number("msg_exch_cost", &[text(&pair.a), text(&pair.b)], as_number(pair.cost));
        }
    }
}

/// The same snapshot without the constraints that a policy derived.
fn without_derived(snapshot: &Snapshot) -> Result<Snapshot, String> {
    let mut file = snapshot.file().clone();
    file.constraints.truncate(file.constraints.len() - snapshot.derived_constraints());
    Snapshot::new(file).map_err(|problem| problem.to_string())
}

/// The divisor of work and capacities for a policy: 1 while they are small.
fn work_divisor(problem: &Problem) -> i64 {
    let most = |ways: &IxVec<KindIx, Option<Implementation>>| {
        ways.iter().flatten().map(|needs| needs.work).max().unwrap_or(0)
    };
    let work = problem.implementations.iter().map(most).fold(0i64, i64::saturating_add);
    let capacity = problem.capacity.iter().copied().max().unwrap_or(0);
    (work.max(capacity) - 1).max(0) / LARGEST_WORK + 1
}

/// Work, divided and rounded up.
fn shares(work: i64, divisor: i64) -> i64 {
    work.saturating_add(divisor - 1) / divisor
}

fn as_number(quantity: u64) -> i64 {
    i64::try_from(quantity).unwrap_or(i64::MAX)
}

fn text(text: &str) -> Fact {
    Fact::Text(text.to_owned())
}
