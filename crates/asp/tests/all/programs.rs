//! Random policies over random small snapshots: the ground rules, and clingo on the original text, agree for every assignment on
//! violations, costs and the optimum; and for current placements with grandfathered violations.

mod text;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use asp::{Aim, ClingoJudge, JobEnd, Limits, Outcome, Session, Task, vector};
use clingo::{Part, ShowType, SolveMode};
use placement::file::{Constraint, Places};
use placement::ix::{ActorIx, UnitIx};
use placement::{Assignment, Derived, Judge as _, Rule, Rules, Snapshot};
use policy::Policy;
use text::Text;

const CHILD: &str = env!("CARGO_BIN_EXE_asp-child");

/// The number of programs that `cargo test` tries; `CAIRN_PROGRAMS` sets another number, as in `make bench`.
const PROGRAMS: u64 = 100;

/// Every assignment that is feasible without the policy, and what its conclusions forbid.
const FEASIBLE: &str = "
1 { run_on(A,U) : runs(A,U); nowhere(A) } 1 :- movable(A).
:- forbid(A,U), movable(A), run_on(A,U).
:- pin(A,U), movable(A), run_on(A,V), U != V.
:- apart(A,B,L), open(A,B), run_on(A,U), run_on(B,V), place(L,U,P), place(L,V,P).
:- together(A,B,L), open(A,B), run_on(A,U), run_on(B,V), place(L,U,P), place(L,V,Q), P != Q.
open(A,B) :- movable(A), any(B). open(A,B) :- movable(B), any(A).
:- run_on(A,U), movable(A), takes(A,U,N), N > 0, has(U,P),
   #sum { Q,uses,X : run_on(X,U), takes(X,U,Q); V,kept,V : reserve(U,\"memory\",V) } > P.
:- run_on(A,U), movable(A), slots(U,S), #count { X : run_on(X,U) } > S.
:- run_on(A,U), movable(A), needs(A,U,N), N > 0, place(node,U,M), cores(M,P),
   #sum { Q,X : run_on(X,V), place(node,V,M), needs(X,V,Q) } > P.
";

/// The current placement instead, feasible or not.
const NOW: &str = "
run_on(A,U) :- movable(A), runs_now(A,U).
nowhere(A) :- movable(A), not runs_now(A,_).
";

/// The reported atoms of an assignment.
const MEANING: &str = "
unplaced(A) :- nowhere(A).
:~ prefer(A,U,W), cu(U), run_on(A,V), U != V. [W,prefer,A,U]
#defined forbid/2. #defined pin/2. #defined apart/3. #defined together/3. #defined reserve/3. #defined prefer/3.
#defined slots/2. #defined cores/2. #defined needs/3. #defined runs_now/2.
#show run_on/2. #show violated/1.
";

/// By assignment: violated lines of the policy, and the sum of its penalties.
type Meaning = BTreeMap<Vec<Option<usize>>, (BTreeSet<usize>, i64)>;

/// The assignment with fixed actors alone.
fn alone(snapshot: &Snapshot) -> Assignment {
    let stays = |actor| snapshot.current(actor).filter(|_| snapshot.is_fixed(actor));
    ActorIx::first(snapshot.actors()).map(stays).collect()
}

/// A snapshot in the predicates of [`FEASIBLE`] and [`NOW`], after the facts of the policy language.
fn facts(snapshot: &Snapshot, policy: &Policy) -> (String, Vec<String>, Vec<String>) {
    let question = policy.question(&alone(snapshot)).unwrap();
    let mut facts = String::new();
    for line in question.facts.lines().filter(|line| !line.starts_with("place(")) {
        writeln!(facts, "{}", line.strip_prefix("p_").unwrap_or(line)).unwrap();
    }
    let file = snapshot.file();
    for (unit, given) in question.units.iter().zip(&file.units) {
        let memory = given.provides.get("memory").copied().unwrap_or(0);
        let node = format!("{:?}", given.node);
        let zone = given.zone.as_ref().map_or(unit.clone(), |zone| format!("{zone:?}"));
        let domain = given.numa.as_ref().map_or(unit.clone(), |domain| format!("({node},{domain:?})"));
        writeln!(
            facts,
            "cu({unit}). has({unit},{memory}). place(unit,{unit},{unit}). place(node,{unit},{node})."
        )
        .unwrap();
        writeln!(facts, "place(zone,{unit},{zone}). place(numa,{unit},{domain}).").unwrap();
        if let Some(slots) = given.slots {
            writeln!(facts, "slots({unit},{slots}).").unwrap();
        }
    }
    for node in &file.nodes {
        writeln!(facts, "cores({:?},{}).", node.id, node.provides.get("cores").copied().unwrap_or(0))
            .unwrap();
    }
    let refuses = |constraint: &Constraint, actor: &String, unit: &String| match constraint {
        Constraint::Never { actors, places: Places::Units(units), .. } => {
            actors.contains(actor) && units.contains(unit)
        }
        other => panic!("{other:?} has no words here"),
    };
    for (actor, given) in question.actors.iter().zip(&file.actors) {
        writeln!(facts, "any({actor}).").unwrap();
        if let Some(unit) = snapshot.actor(&given.id).and_then(|actor| snapshot.current(actor)) {
            writeln!(facts, "runs_now({actor},{}).", question.units[unit.at()]).unwrap();
        }
        for (unit, there) in question.units.iter().zip(&file.units) {
            if let Some(way) = given.runs_on.get(&there.kind) {
                let of = |resources: &BTreeMap<String, u64>, name| resources.get(name).copied().unwrap_or(0);
                let (memory, cores) = (of(&way.requires, "memory"), of(&way.node_requires, "cores"));
                writeln!(facts, "takes({actor},{unit},{memory}). needs({actor},{unit},{cores}).").unwrap();
                if !file.constraints.iter().any(|constraint| refuses(constraint, &given.id, &there.id)) {
                    writeln!(facts, "runs({actor},{unit}).").unwrap();
                }
            }
        }
    }
    (facts, question.actors, question.units)
}

/// The original program, which in addition reports its violated constraints.
fn telling(program: &str) -> String {
    let line = |(number, line): (usize, &str)| match line.strip_prefix(":- ") {
        Some(body) => format!("violated({}) :- {body}\n", number + 1),
        None => format!("{line}\n"),
    };
    program.lines().enumerate().map(line).collect()
}

/// The original program in clingo, over the assignments of `chosen`.
fn by_clingo(snapshot: &Snapshot, policy: &Policy, program: &str, chosen: &str) -> Meaning {
    let (facts, actors, units) = facts(snapshot, policy);
    let mut control =
        clingo::control(["--warn=none", "--opt-mode=enum,1000000", "0"].map(str::to_owned).to_vec()).unwrap();
    for part in [&telling(program), chosen, MEANING, &facts] {
        control.add("base", &[], part).unwrap();
    }
    control.ground(&[Part::new("base", Vec::new()).unwrap()]).unwrap();
    let mut search = control.solve(SolveMode::YIELD, &[]).unwrap();
    let mut found = Meaning::new();
    loop {
        search.resume().unwrap();
        let Some(model) = search.model().unwrap() else { break };
        let (mut places, mut broken) = (vec![None; snapshot.actors()], BTreeSet::new());
        for atom in model.symbols(ShowType::SHOWN).unwrap() {
            let terms: Vec<String> = atom.arguments().unwrap().iter().map(ToString::to_string).collect();
            match terms.as_slice() {
                [line] => _ = broken.insert(line.parse().unwrap()),
                [actor, unit] => {
                    let at = |list: &[String], term: &String| list.iter().position(|known| known == term);
                    places[at(&actors, actor).unwrap()] = at(&units, unit);
                }
                _ => unreachable!("{atom} is not shown"),
            }
        }
        found.insert(places, (broken, model.cost().unwrap().iter().sum()));
    }
    search.close().unwrap();
    found
}

/// The ground rules on one assignment, without grandfathering.
fn meaning_of_rules(world: &Snapshot, rules: &Rules, assignment: &Assignment) -> Meaning {
    let places = assignment.iter().map(|place| place.map(UnitIx::at)).collect();
    let broken = rules.violations(assignment).iter().map(|says| line(says)).collect();
    Meaning::from([(places, (broken, world.penalty(assignment)))])
}

/// The same for every assignment that the checker accepts.
fn by_rules(world: &Snapshot, rules: &Rules) -> Meaning {
    let mut assignment = alone(world);
    let movable: Vec<ActorIx> =
        ActorIx::first(world.actors()).filter(|actor| !world.is_fixed(*actor)).collect();
    let (choices, mut found) = (world.units() + 1, Meaning::new());
    for number in 0..choices.pow(u32::try_from(movable.len()).unwrap()) {
        let mut digits = number;
        for &actor in &movable {
            assignment[actor] = (digits % choices).checked_sub(1).map(UnitIx::new);
            digits /= choices;
        }
        let violations = world.violations(&assignment);
        if violations.iter().all(|violation| violation.rule == Rule::Policy) {
            if excusable(world).is_empty() {
                let says: Vec<String> = violations.into_iter().map(|violation| violation.says).collect();
                assert_eq!(says, rules.violations(&assignment), "{assignment:?} in {world:?}");
            }
            found.extend(meaning_of_rules(world, rules, &assignment));
        }
    }
    found
}

/// Cases that the current placement violates.
fn excusable(world: &Snapshot) -> &[String] {
    world.rules().map(Rules::excusable).unwrap_or_default()
}

/// The line of `policy random line 7: A = …`.
pub fn line(says: &str) -> usize {
    let rest = says.strip_prefix("policy random line ").unwrap_or_else(|| panic!("{says}"));
    rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

/// Units by position as an assignment.
pub fn assigned(places: &[Option<usize>]) -> Assignment {
    places.iter().map(|unit| unit.map(UnitIx::new)).collect()
}

/// The proven optimum of the shipped programs and the ground rules in clingo.
pub fn by_session(world: &Snapshot, start: &Assignment) -> Vec<i64> {
    let mut session = Session::new(CHILD.as_ref(), Limits::default(), 1);
    let task = Task { conflicts: u64::from(u32::MAX), aim: Aim::Proof, models: u64::MAX, no_worse: false };
    let mut best = None;
    let ended = session.ask(world, start, &task, &|| false, |_, vector| best = Some(vector)).unwrap();
    assert_eq!(ended, JobEnd::Finished(Outcome::Proven));
    best.unwrap()
}

/// Violated and not grandfathered cases of one assignment, each with its actors and units, according to clingo and to the rules,
/// which may report one twice: an actor joined, and the violation grew.
pub fn cases_are_the_same(judge: &ClingoJudge, world: &Snapshot, assignment: &Assignment, whose: &str) {
    let mut ours: Vec<String> =
        world.violations(assignment).into_iter().map(|violation| violation.says).collect();
    let mut clingos = judge.judge(world, assignment).unwrap_or_else(|e| panic!("{whose}: {e}")).violations;
    ours.sort();
    clingos.sort();
    ours.dedup();
    assert_eq!(ours, clingos, "{whose}");
}

#[test]
fn random_policies_mean_the_same_to_the_planner_and_to_clingo() {
    let programs: u64 = std::env::var("CAIRN_PROGRAMS").map_or(PROGRAMS, |number| number.parse().unwrap());
    let judge = ClingoJudge::with_executable(CHILD, Limits::default(), 2_000);
    let (mut used, mut compared, mut feasible) = (BTreeMap::<String, u64>::new(), 0, 0);
    let (mut assignments, mut breaking, mut excused) = (0, 0, 0);
    for seed in 0.. {
        if compared == programs {
            break;
        }
        assert!(seed < 2 * programs, "{compared} of {seed}");
        let mut text = Text::random(seed);
        let program = text.lines.join("\n");
        let (snapshot, like) = world::world(&mut text.rng, &program);
        let whose = format!("seed {seed}:\n{program}\n{}", snapshot.write());
        let policy = match Policy::of(&snapshot) {
            Ok(policy) => policy.unwrap(),
            Err(refused) => panic!("{refused} in {whose}"),
        };
        let derived = judge.derive(&snapshot).unwrap_or_else(|e| panic!("{e} in {whose}"));
        let limits = Derived { rules: None, ..derived.clone() };
        if snapshot.with_derived(limits).unwrap().rules().is_some() {
            // Limits that the current placement violates are not part of the text's meaning.
            continue;
        }
        let rules = derived.rules.clone().unwrap();
        let world = snapshot.with_derived(derived).unwrap();
        let clingo = by_clingo(&snapshot, &policy, &program, FEASIBLE);
        assert_eq!(by_rules(&world, &rules), clingo, "{whose}");
        let now = by_clingo(&snapshot, &policy, &program, NOW);
        assert_eq!(meaning_of_rules(&world, &rules, &world.incumbent()), now, "what runs in {whose}");
        compared += 1;
        excused += u64::from(!excusable(&world).is_empty());
        for production in text.used.into_iter().map(str::to_owned).chain(like) {
            *used.entry(production).or_default() += 1;
        }
        assignments += clingo.len();
        let broken: Vec<_> = clingo.iter().filter(|(_, (lines, _))| !lines.is_empty()).collect();
        breaking += broken.len();
        if let Some((places, _)) = text.rng.choice(&broken) {
            cases_are_the_same(&judge, &world, &assigned(places), &whose);
        }
        let obeying = clingo.keys().filter(|places| world.violations(&assigned(places)).is_empty());
        let vectors = obeying.map(|places| (vector(&world, &assigned(places)), places));
        let Some((best, places)) = vectors.min() else { continue };
        assert_eq!(by_session(&world, &assigned(places)), best, "{whose}");
        feasible += u64::from(best[0] == 0);
    }
    let table: Vec<String> =
        used.iter().map(|(production, count)| format!("| {production} | {count} |")).collect();
    println!(
        "| feature of {programs} programs, {feasible} feasible for all actors, {excused} violated by running actors; {assignments} \
         assignments, {breaking} with violations | programs |\n|---|---|\n{}",
        table.join("\n")
    );
    assert!(feasible * 10 >= programs * 3, "{feasible} of {programs}");
    assert!(excused * 50 >= programs, "{excused} of {programs}");
    let least = if programs < 1000 { 1 } else { programs / 50 };
    assert!(used.len() >= 90 && used.values().all(|count| *count >= least), "{used:?}");
}
