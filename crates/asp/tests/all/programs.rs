//! Random policies over small worlds: the rules as they are written out, clingo on the text as somebody wrote it, and every
//! assignment there is say the same of what is broken, what it costs and what is best.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use asp::{Aim, ClingoJudge, Ended, Limits, Outcome, Session, Task, vector};
use clingo::{Part, ShowType, SolveMode};
use fastrand::Rng;
use placement::ix::{ActorIx, UnitIx};
use placement::{Assignment, Judge as _, Snapshot};
use policy::Policy;
use serde_json::{Value, json};

const CHILD: &str = env!("CARGO_BIN_EXE_asp-child");

/// How many programs `cargo test` tries; `CAIRN_PROGRAMS` asks for more, as `make bench` does.
const PROGRAMS: u64 = 100;

/// A program in the making.
struct Text {
    rng: Rng,
    lines: Vec<String>,
    /// The productions that it uses.
    used: BTreeSet<&'static str>,
    /// Predicates over an actor that follow from facts, and that follow from placements.
    of_facts: Vec<String>,
    of_places: Vec<String>,
}

impl Text {
    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.rng.usize(..of.len())].clone()
    }

    fn chance(&mut self, percent: u8) -> bool {
        self.rng.u8(..100) < percent
    }

    /// The words of a production, which is noted.
    fn say(&mut self, production: &'static str, words: impl Into<String>) -> String {
        self.used.insert(production);
        words.into()
    }

    /// Something about an actor that follows from facts.
    fn fact_of(&mut self, actor: &str) -> String {
        let (group, number) = (self.one(&["g0", "g1"]), self.rng.u8(..4));
        match self.rng.u8(..9) {
            0 => self.say("group", format!("group({actor},\"{group}\")")),
            1 => self.say("actor_label", format!("actor_label({actor},\"noise\",\"high\")")),
            2 => self.say("fixed", format!("fixed({actor})")),
            3 => self.say("requires", format!("requires({actor},\"cpu\",\"memory\",_)")),
            4 => self.say("runs_on_kind", format!("runs_on_kind({actor},\"cpu\")")),
            5 => self.say("a function", format!("{actor} = a(\"s\",App,\"a-{number}\")")),
            6 => self.say("app", format!("app({actor},\"s/p\")")),
            7 if !self.of_facts.is_empty() => {
                let name = self.one(&self.of_facts.clone());
                self.say("a predicate of its own", format!("{name}({actor})"))
            }
            _ => self.say("actor", format!("actor({actor})")),
        }
    }

    /// A comparison of numbers of which `number` is one.
    fn comparison(&mut self, number: &str) -> String {
        let operator = self.one(&["=", "!=", "<", "<=", ">", ">="]);
        let bound = self.rng.u8(1..5);
        let not = if self.chance(25) { self.say("not a comparison", "not ") } else { String::new() };
        let (production, term) = match self.rng.u8(..8) {
            0 => ("+", format!("{number}+1")),
            1 => ("-", format!("{number}-1")),
            2 => ("*", format!("{number}*2")),
            3 => ("/", format!("{number}/2")),
            4 => ("\\", format!("{number}\\2")),
            5 => ("absolute", format!("|{number}-3|")),
            6 => ("negative", format!("-{number}+5")),
            _ => ("a comparison", number.to_owned()),
        };
        self.say(production, format!("{not}{term} {operator} {bound}"))
    }

    /// A set of actors on a unit, or anywhere, against a bound.
    fn set(&mut self, unit: &str, over_facts: bool) -> String {
        let unit = if self.chance(30) { "_" } else { unit };
        let place = if over_facts { "actor(X)".to_owned() } else { format!("run_on(X,{unit})") };
        let more = if self.chance(50) { format!(", {}", self.fact_of("X")) } else { String::new() };
        let (function, elements) = match self.rng.u8(..5) {
            0 => ("#sum", format!("W,X : {place}, work(X,\"cpu\",W){more}")),
            1 => ("#sum+", format!("W-3,X : {place}, work(X,\"cpu\",W){more}")),
            2 => ("#min", format!("W : {place}, work(X,\"cpu\",W){more}")),
            3 => ("#max", format!("W : {place}, work(X,\"cpu\",W){more}")),
            _ => ("#count", format!("X : {place}{more}")),
        };
        let elements = if self.chance(15) {
            self.say("several elements", format!("{elements}; 1,s : {place}, group(X,\"g0\")"))
        } else {
            elements
        };
        let not = if self.chance(10) { self.say("not a set", "not ") } else { String::new() };
        let (low, high) = (self.rng.u8(1..3), self.rng.u8(2..6));
        let operator = self.one(&["<", "<=", ">", ">=", "=", "!="]);
        let set = format!("{function} {{ {elements} }}");
        let set = match self.rng.u8(..3) {
            0 => self.say("a left guard", format!("{low} {operator} {set}")),
            1 => self.say("two guards", format!("{low} <= {set} <= {high}")),
            _ => self.say("a right guard", format!("{set} {operator} {low}")),
        };
        self.say(function, format!("{not}{set}"))
    }

    /// A body about where actors are, that binds A and U, and what else is bound.
    fn body(&mut self) -> String {
        let mut parts = vec!["run_on(A,U)".to_owned()];
        for _ in 0..self.rng.u8(..5) {
            let part = match self.rng.u8(..14) {
                0 => {
                    let peer = self.say("two actors", "run_on(B,V), A < B");
                    let near = self.one(&["U = V", "cu_node(U,N), cu_node(V,N)", "U != V"]);
                    format!("{peer}, {near}")
                }
                1 => self.say("cu_node", "cu_node(U,\"n0\")"),
                2 => self.say("cu_zone", "cu_zone(U,\"z0\")"),
                3 => {
                    let compared = self.comparison("W");
                    self.say("work", format!("work(A,\"cpu\",W), {compared}"))
                }
                4 => {
                    let compared = self.comparison("C");
                    self.say("cu_capacity", format!("cu_capacity(U,C), {compared}"))
                }
                5 => self.say("not", "not run_on(a(\"s\",\"p\",\"a-0\"),U)"),
                6 => {
                    let of = self.fact_of("A");
                    if of.contains('=') { of } else { self.say("not not", format!("not not {of}")) }
                }
                7 => {
                    let of = self.fact_of("X");
                    let inner = if of.contains('=') { "group(X,\"g1\")".to_owned() } else { of };
                    let not = if self.chance(50) { "not " } else { "" };
                    self.say("a conditional literal", format!("{not}run_on(X,U) : {inner}"))
                }
                8 => self.say("unplaced", "unplaced(a(\"s\",\"p\",\"a-3\"))"),
                9 if !self.of_places.is_empty() => {
                    let (name, not) = (self.one(&self.of_places.clone()), self.one(&["", "not "]));
                    self.say("a conclusion of places", format!("{not}{name}(A)"))
                }
                10 => self.say("node_label", "cu_node(U,M), node_label(M,\"region\",\"eu\")"),
                11 => self.say("msg_exch_rate", "msg_exch_rate(A,_,R), R > 1"),
                12 => self.say("runnable_on", "runnable_on(A,\"u1\")"),
                _ => self.fact_of("A"),
            };
            parts.push(part);
        }
        if self.chance(40) {
            let set = self.set("U", false);
            parts.push(set);
        }
        parts.dedup();
        parts.join("; ")
    }

    /// Rules that others rest on.
    fn premises(&mut self) {
        if self.chance(40) {
            let of = self.fact_of("A");
            let bound = if of.contains('=') { "actor(A), " } else { "" };
            let line = self.say("a rule", format!("q(A) :- {bound}{of}."));
            self.lines.push(line);
            self.of_facts.push("q".to_owned());
        }
        if self.chance(25) {
            let lines = self.say(
                "recursion",
                "near(A,B) :- msg_exch_rate(A,B,_).\nnear(A,C) :- near(A,B), msg_exch_rate(B,C,_).\n\
                 t(A) :- near(A,_), not near(_,A).",
            );
            self.lines.push(lines);
            self.of_facts.push("t".to_owned());
        }
        if self.chance(25) {
            let line = self.say("an interval", "n(1..3).\nm(A) :- work(A,\"cpu\",W), n(W).");
            self.lines.push(line);
            self.of_facts.push("m".to_owned());
        }
        if self.chance(25) {
            let (name, set) = ("k", self.set("_", true));
            let line = self.say("a set of facts", format!("{name}(A) :- actor(A), {set}."));
            self.lines.push(line);
            self.of_facts.push(name.to_owned());
        }
        if self.chance(25) {
            let line = self.say(
                "a value of a set",
                "c(G,C) :- group(_,G), C = #count { X : group(X,G) }.\nb(A) :- group(A,G), c(G,C), C > 1.",
            );
            self.lines.push(line);
            self.of_facts.push("b".to_owned());
        }
        if self.chance(30) {
            let line =
                self.say("a tuple", "at((A,N)) :- run_on(A,U), cu_node(U,N).\nx(A) :- at((A,\"n0\")).");
            self.lines.push(line);
            self.of_places.push("x".to_owned());
        }
        if self.chance(40) {
            let body = self.body();
            let line = self.say("a rule about places", format!("y(A) :- {body}."));
            self.lines.push(line);
            self.of_places.push("y".to_owned());
        }
    }

    /// What follows from facts and limits places.
    fn derived(&mut self) {
        let of = self.fact_of("A");
        let who = if of.contains('=') { format!("actor(A), {of}") } else { of };
        let unit = self.one(&["u0", "u1", "u2"]);
        let (level, kept) = (self.one(&["unit", "node", "zone"]), self.rng.u8(1..5));
        let pair = "group(A,\"g0\"), group(B,\"g0\"), A < B";
        let line = match self.rng.u8(..6) {
            0 => self.say("forbid", format!("forbid(A,\"{unit}\") :- {who}.")),
            1 => self.say("pin", format!("pin(A,\"{unit}\") :- {who}.")),
            2 => self.say("prefer", format!("prefer(A,\"{unit}\",4) :- {who}.")),
            3 => self.say("apart", format!("apart(A,B,{level}) :- {pair}.")),
            4 => self.say("together", format!("together(A,B,{level}) :- {pair}.")),
            _ => self.say("reserve", format!("reserve(\"{unit}\",\"memory\",{kept}).")),
        };
        self.lines.push(line);
    }

    fn random(seed: u64) -> Self {
        let mut text = Self {
            rng: Rng::with_seed(seed),
            lines: Vec::new(),
            used: BTreeSet::new(),
            of_facts: Vec::new(),
            of_places: Vec::new(),
        };
        text.premises();
        if text.chance(60) {
            text.derived();
        }
        for _ in 0..text.rng.u8(1..3) {
            let body = if text.chance(20) {
                let (set, of) = (text.set("\"u0\"", false), text.say("cu", "cu(U)"));
                format!("{of}, {set}")
            } else {
                text.body()
            };
            let line = text.say("a constraint", format!(":- {body}."));
            text.lines.push(line);
        }
        for number in 0..text.rng.u8(..3) {
            let (body, weight) = (text.body(), text.rng.u8(1..9));
            let line = if text.chance(40) {
                text.say(
                    "a weight that is a variable",
                    format!(":~ {body}; work(A,\"cpu\",P). [P,w{number},A]"),
                )
            } else {
                text.say("a weak constraint", format!(":~ {body}. [{weight},w{number},A]"))
            };
            text.lines.push(line);
        }
        text
    }
}

/// Three units on two nodes, four actors, one of which may stay where it is.
fn world(rng: &mut Rng, program: &str) -> Snapshot {
    let unit = |(i, node): (usize, usize)| {
        json!({"id": format!("u{i}"), "kind": "cpu", "node": format!("n{node}"), "zone": format!("z{node}"),
            "capacity": 3 + i, "provides": {"memory": 6}})
    };
    let stays = rng.u8(..4) == 0;
    let mut actor = |i: usize| {
        let mut actor = json!({"id": format!("s/p/a-{i}"), "group": format!("g{}", rng.u8(..2)),
            "runsOn": {"cpu": {"work": rng.u8(1..5), "requires": {"memory": rng.u8(1..4)}}}});
        if rng.bool() {
            actor["labels"] = json!({"noise": "high"});
        }
        if i == 0 && stays {
            (actor["fixed"], actor["current"]) = (json!(true), json!("u1"));
        }
        actor
    };
    let units: Vec<Value> = [(0, 0), (1, 0), (2, 1)].into_iter().map(unit).collect();
    let actors: Vec<Value> = (0..4).map(&mut actor).collect();
    let message = |from: usize, to: usize, count: u8| json!({"from": format!("s/p/a-{from}"), "to": format!("s/p/a-{to}"), "count": count});
    let file = json!({"version": 1, "units": units, "actors": actors, "exchangeCost": {"otherKind": 1},
        "nodes": [{"id": "n0", "labels": {"region": "eu"}}, {"id": "n1"}], "objectives": ["policy"],
        "messages": [message(0, 1, 1), message(1, 2, 3), message(2, 3, 2)],
        "policy": {"name": "random", "program": program}});
    Snapshot::read(&file.to_string()).unwrap()
}

/// What the words that a policy concludes mean, and every assignment that the world itself lets be.
const MEANING: &str = "
1 { run_on(A,U) : cu(U); nowhere(A) } 1 :- movable(A).
unplaced(A) :- nowhere(A).
:- forbid(A,U), movable(A), run_on(A,U).
:- pin(A,U), movable(A), run_on(A,V), U != V.
:- apart(A,B,L), open(A,B), run_on(A,U), run_on(B,V), place(L,U,P), place(L,V,P).
:- together(A,B,L), open(A,B), run_on(A,U), run_on(B,V), place(L,U,P), place(L,V,Q), P != Q.
open(A,B) :- movable(A), any(B). open(A,B) :- movable(B), any(A).
:- run_on(A,U), movable(A), has(U,P), #sum { Q,uses,X : run_on(X,U), takes(X,Q); V,kept,V : reserve(U,\"memory\",V) } > P.
:~ prefer(A,U,W), run_on(A,V), U != V. [W,prefer,A,U]
#defined forbid/2. #defined pin/2. #defined apart/3. #defined together/3. #defined reserve/3. #defined prefer/3.
#show run_on/2.
";

/// By assignment that clingo takes for feasible: the sum of its penalties.
type Feasible = BTreeMap<Vec<Option<usize>>, i64>;

/// The program as somebody wrote it, in clingo, over every assignment.
fn by_clingo(snapshot: &Snapshot, policy: &Policy, program: &str) -> Feasible {
    let alone: Assignment = ActorIx::first(snapshot.actors())
        .map(|actor| snapshot.current(actor).filter(|_| snapshot.is_fixed(actor)))
        .collect();
    let question = policy.question(&alone).unwrap();
    // Facts as a policy's author knows them.
    let mut facts = String::new();
    for line in question.facts.lines().filter(|line| !line.starts_with("place(")) {
        writeln!(facts, "{}", line.strip_prefix("p_").unwrap_or(line)).unwrap();
    }
    for (actor, given) in question.actors.iter().zip(&snapshot.file().actors) {
        let memory = given.runs_on["cpu"].requires["memory"];
        writeln!(facts, "any({actor}). takes({actor},{memory}).").unwrap();
    }
    for (unit, given) in question.units.iter().zip(&snapshot.file().units) {
        writeln!(
            facts,
            "cu({unit}). has({unit},6). place(unit,{unit},{unit}). place(node,{unit},{:?}).",
            given.node
        )
        .unwrap();
        writeln!(facts, "place(zone,{unit},{:?}).", given.zone.as_ref().unwrap()).unwrap();
    }
    let mut control =
        clingo::control(["--warn=none", "--opt-mode=enum,1000000", "0"].map(str::to_owned).to_vec()).unwrap();
    for part in [program, MEANING, &facts] {
        control.add("base", &[], part).unwrap();
    }
    control.ground(&[Part::new("base", Vec::new()).unwrap()]).unwrap();
    let mut search = control.solve(SolveMode::YIELD, &[]).unwrap();
    let mut found = Feasible::new();
    loop {
        search.resume().unwrap();
        let Some(model) = search.model().unwrap() else { break };
        let mut places = vec![None; snapshot.actors()];
        for atom in model.symbols(ShowType::SHOWN).unwrap() {
            let terms: Vec<String> = atom.arguments().unwrap().iter().map(ToString::to_string).collect();
            let at = |list: &[String], term: &String| list.iter().position(|known| known == term).unwrap();
            places[at(&question.actors, &terms[0])] = Some(at(&question.units, &terms[1]));
        }
        found.insert(places, model.cost().unwrap().iter().sum());
    }
    search.close().unwrap();
    found
}

/// Every assignment that the written-out rules and the checker take for feasible.
fn by_rules(world: &Snapshot) -> Feasible {
    let choices = world.units() + 1;
    let mut found = Feasible::new();
    for number in 0..choices.pow(4) {
        let digit =
            |actor: usize| (number / choices.pow(u32::try_from(actor).unwrap()) % choices).checked_sub(1);
        let places: Vec<Option<usize>> = (0..4).map(digit).collect();
        let assignment: Assignment = places.iter().map(|unit| unit.map(UnitIx::new)).collect();
        if world.violations(&assignment).is_empty() {
            found.insert(places, world.penalty(&assignment));
        }
    }
    found
}

/// The best that clingo finds of the shipped programs and the written-out rules, proven.
fn by_session(world: &Snapshot, start: &Assignment) -> Vec<i64> {
    let mut session = Session::new(CHILD.as_ref(), Limits::default(), 1);
    let task = Task { conflicts: u64::from(u32::MAX), aim: Aim::Proof, models: u64::MAX, no_worse: false };
    let mut best = None;
    let ended = session.ask(world, start, &task, &|| false, |_, vector| best = Some(vector)).unwrap();
    assert_eq!(ended, Ended::Finished(Outcome::Proven));
    best.unwrap()
}

#[test]
fn any_program_means_the_same_to_the_planner_and_to_clingo() {
    let programs: u64 = std::env::var("CAIRN_PROGRAMS").map_or(PROGRAMS, |number| number.parse().unwrap());
    let judge = ClingoJudge::with_executable(CHILD, Limits::default(), 2_000);
    let (mut used, mut feasible) = (BTreeMap::<&str, u64>::new(), 0);
    for seed in 0..programs {
        let mut text = Text::random(seed);
        let program = text.lines.join("\n");
        let snapshot = world(&mut text.rng, &program);
        let policy = match Policy::of(&snapshot) {
            Ok(policy) => policy.unwrap(),
            Err(refused) => panic!("seed {seed}: {refused} in\n{program}"),
        };
        let derived = judge.derive(&snapshot).unwrap_or_else(|e| panic!("seed {seed}: {e} in\n{program}"));
        let world = snapshot.with_derived(derived).unwrap();
        if world.rules().is_some_and(|rules| !rules.excusable().is_empty()) {
            // What the actor that stays breaks by itself is no part of what the text means.
            continue;
        }
        let (clingo, rules) = (by_clingo(&snapshot, &policy, &program), by_rules(&world));
        assert_eq!(rules, clingo, "seed {seed}:\n{program}\n{snapshot:?}");
        for production in text.used {
            *used.entry(production).or_default() += 1;
        }
        let unplaced = |places: &Vec<Option<usize>>| places.iter().filter(|place| place.is_none()).count();
        let Some((best, penalty)) =
            clingo.iter().min_by_key(|(places, penalty)| (unplaced(places), **penalty))
        else {
            continue;
        };
        let best: Assignment = best.iter().map(|unit| unit.map(UnitIx::new)).collect();
        assert_eq!(vector(&world, &best)[1], *penalty, "seed {seed}:\n{program}");
        assert_eq!(by_session(&world, &best), vector(&world, &best), "seed {seed}:\n{program}\n{snapshot:?}");
        feasible += u64::from(vector(&world, &best)[0] == 0);
    }
    let table: Vec<String> =
        used.iter().map(|(production, count)| format!("| {production} | {count} |")).collect();
    println!(
        "| of {programs} programs, {feasible} with a place for everybody | use it |\n|---|---|\n{}",
        table.join("\n")
    );
    assert!(feasible * 10 >= programs * 3, "{feasible} of {programs}");
    let least = if programs < 1000 { 1 } else { programs / 50 };
    assert!(used.len() >= 50 && used.values().all(|count| *count >= least), "{used:?}");
}
