//! A policy's rules over placements as reasons why actors are unplaced.
//!
//! A rule is `LINE most 1 a,b u,v` (of a and b at most one on u or v), `LINE least 1 a,b u,v`, or `LINE both a,b u v`
//! (refuses one of a and b on u and one on v at the same time). Rules of one line are cases of one rule.

use explain::UnplacedCause;
use placement::file::SnapshotFile;
use placement::ix::{ActorIx, UnitIx};
use placement::{GroundConstraint, GroundRule, Rules, Snapshot};

use crate::why::{EFFORT, check_core, most_placed, tell_under, tight_file};
use testkit::line::world;

/// One case of a rule.
pub struct Case {
    line: String,
    kind: Kind,
    actors: Vec<String>,
    places: Vec<Vec<String>>,
    says: String,
}

enum Kind {
    Most(usize),
    Least(usize),
    Both,
}

impl Case {
    fn new(text: &str) -> Self {
        let words: Vec<&str> = text.split_whitespace().collect();
        let list = |word: &&str| word.split(',').map(str::to_owned).collect::<Vec<_>>();
        let (kind, rest) = match words[1] {
            "both" => (Kind::Both, &words[2..]),
            "most" => (Kind::Most(words[2].parse().unwrap()), &words[3..]),
            _ => (Kind::Least(words[2].parse().unwrap()), &words[3..]),
        };
        Self {
            line: format!("policy p line {}", words[0]),
            kind,
            actors: list(&rest[0]),
            places: rest[1..].iter().map(list).collect(),
            says: format!("policy p line {}: {}", words[0], words[1..].join(" ")),
        }
    }

    /// Evaluated by the definition.
    pub fn is_broken(&self, file: &SnapshotFile, places: &[Option<&str>]) -> bool {
        let on = |units: &[String]| {
            let actors = file.actors.iter().zip(places).filter(|(actor, _)| self.actors.contains(&actor.id));
            actors.filter(|(_, place)| place.is_some_and(|unit| units.iter().any(|u| u == unit))).count()
        };
        match self.kind {
            Kind::Most(most) => on(&self.places[0]) > most,
            Kind::Least(least) => on(&self.places[0]) < least,
            Kind::Both => on(&self.places[0]) > 0 && on(&self.places[1]) > 0,
        }
    }
}

/// The circuit of some cases.
struct Circuit {
    units: usize,
    next: u32,
    ground: Vec<GroundRule>,
}

impl Circuit {
    fn atom(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }

    fn rule(&mut self, head: u32, lower: i64, body: &[i32]) {
        let body = body.iter().map(|literal| (*literal, 1)).collect();
        self.ground.push(GroundRule { head, lower, body, any: false });
    }

    fn on(&self, actor: ActorIx, unit: UnitIx) -> i32 {
        i32::try_from(1 + actor.at() * self.units + unit.at()).unwrap()
    }

    /// An atom that holds if the actor is on one of the units.
    fn among(&mut self, actor: ActorIx, units: &[UnitIx]) -> i32 {
        let head = self.atom();
        for &unit in units {
            self.rule(head, 1, &[self.on(actor, unit)]);
        }
        i32::try_from(head).unwrap()
    }

    fn case(&mut self, case: &Case, snapshot: &Snapshot) -> u32 {
        let actors: Vec<ActorIx> = case.actors.iter().map(|id| snapshot.actor(id).unwrap()).collect();
        let units = |ids: &[String]| ids.iter().map(|id| snapshot.unit(id).unwrap()).collect::<Vec<_>>();
        let (broken, count) = (self.atom(), self.atom());
        let literal = i32::try_from(count).unwrap();
        match case.kind {
            Kind::Most(number) | Kind::Least(number) => {
                let units = units(&case.places[0]);
                let body: Vec<i32> = actors.iter().map(|&actor| self.among(actor, &units)).collect();
                let is_most = matches!(case.kind, Kind::Most(_));
                self.rule(count, i64::try_from(number).unwrap() + i64::from(is_most), &body);
                self.rule(broken, 1, &[if is_most { literal } else { -literal }]);
            }
            Kind::Both => {
                let other = self.atom();
                for (head, places) in [(count, &case.places[0]), (other, &case.places[1])] {
                    for unit in units(places) {
                        for &actor in &actors {
                            self.rule(head, 1, &[self.on(actor, unit)]);
                        }
                    }
                }
                self.rule(broken, 2, &[literal, i32::try_from(other).unwrap()]);
            }
        }
        broken
    }
}

/// A snapshot under rules.
fn ruled(snapshot: Snapshot, text: &str) -> (Snapshot, Vec<Case>) {
    let cases: Vec<Case> = text.split(';').filter(|text| !text.trim().is_empty()).map(Case::new).collect();
    let (actors, units) = (snapshot.actors(), snapshot.units());
    let mut circuit = Circuit { units, next: u32::try_from(actors * units).unwrap() + 1, ground: Vec::new() };
    let demand = |case: &Case| {
        let atom = circuit.case(case, &snapshot);
        GroundConstraint { atom, rule: case.line.clone(), says: case.says.clone(), limit: None }
    };
    let demands = cases.iter().map(demand).collect();
    let everywhere = ActorIx::first(actors).flat_map(|a| UnitIx::first(units).map(move |u| (a, u)));
    let inputs: Vec<(ActorIx, UnitIx, u32)> =
        everywhere.map(|(a, u)| (a, u, circuit.on(a, u).unsigned_abs())).collect();
    let rules = Rules::new(actors, circuit.ground, &inputs, demands, vec![]).unwrap();
    (snapshot.with_rules(Some(rules)), cases)
}

fn describe(units: &str, actors: &str, rules: &str, policy: &str, places: &str) -> String {
    let (snapshot, cases) = ruled(world(units, actors, rules), policy);
    tell_under(&snapshot, &cases, places, "x")
}

#[test]
fn rules_in_the_way_are_named_by_policy_and_line() {
    let three = "u:cpu:9:slots=1 v:cpu:9:slots=1 w:cpu:9:slots=1";
    // A rule alone.
    insta::assert_snapshot!(describe(three, "x:cpu=1", "", "3 most 0 x u,v,w", ""), @"always: policy p line 3: most 0 x u,v,w");
    // A rule and a capacity.
    insta::assert_snapshot!(describe(three, "a:cpu=1 b:cpu=1 x:cpu=1", "", "3 most 0 x w; 3 most 0 a w; 3 most 0 b w", "a=u b=v"), @"always: 3 units of kind cpu: 2 of 3 slots taken; policy p line 3: most 0 x w, and 2 more like it");
    // A rule and actors that must be apart.
    insta::assert_snapshot!(describe("u:cpu:9 v:cpu:9", "a:cpu=1 x:cpu=1", "apart unit a x", "3 most 0 x,a v", "a=u"), @"always: each on a unit of its own (with a); policy p line 3: most 0 x,a v");
    // Two rules.
    insta::assert_snapshot!(describe("u:cpu:9 v:cpu:9", "a:cpu=1 x:cpu=1", "", "3 most 1 a,x u; 7 most 0 x,a v", "a=u"), @"always: policy p line 3: most 1 a,x u; policy p line 7: most 0 x,a v");
    // Cases of one rule, one of which is irrelevant.
    insta::assert_snapshot!(describe("u:cpu:9 v:cpu:9", "a:cpu=1 b:cpu=1 x:cpu=1", "", "2 most 3 a,b u; 3 most 1 a,b,x u; 3 most 1 a,b,x v", "a=u b=v"), @"always: policy p line 3: most 1 a,b,x u, and 1 more like it");
    // A rule, and what pins actors that could make room.
    insta::assert_snapshot!(describe(three, "a:cpu=1 x:cpu=1", "pin a u; only x units u,v", "3 most 1 a,x u,v", "a=u"), @"always: kept to other places by constraints[1]; policy p line 3: most 1 a,x u,v; a: pinned to u");
    // An actor that violates a rule moves.
    insta::assert_snapshot!(describe(three, "a:cpu=1 x:cpu=1", "pin x u", "3 most 1 a,x u,v", "a=v"), @"room: a on w, x on u");
    // A rule that requires an actor on a unit, with and without room.
    insta::assert_snapshot!(describe("u:cpu:9:slots=1 v:cpu:9:slots=1", "a:cpu=1 b:cpu=1 x:cpu=1", "", "3 least 1 a,b u", "a=u"), @"room: x on v");
    insta::assert_snapshot!(describe("u:cpu:9:slots=1 v:cpu:9:slots=1", "a:cpu=1 x:cpu=1", "pin x u", "3 least 1 a u", "a=u"), @"always: pinned to u; u: 1 of 1 slots taken; policy p line 3: least 1 a u");
    // A rule over actors that are together on any unit.
    insta::assert_snapshot!(describe("u:cpu:9 v:cpu:9", "a:cpu=1 x:cpu=1", "pin x v; pin a u", "3 both a,x u v", "a=u"), @"always: pinned to v; policy p line 3: both a,x u v; a: pinned to u");
    // Violations by fixed actors alone do not count.
    insta::assert_snapshot!(describe("u:cpu:9 v:cpu:9", "a:cpu=1:at=u,fixed b:cpu=1:at=u,fixed x:cpu=1", "", "3 most 1 a,b u; 4 most 0 x u,v", ""), @"always: policy p line 4: most 0 x u,v");
}

/// Random rules about the actors and units of a file.
fn some_rules(file: &SnapshotFile, seed: u64) -> String {
    let rng = &mut fastrand::Rng::with_seed(seed ^ 0x5eed);
    let some = |rng: &mut fastrand::Rng, ids: Vec<&str>| {
        let mut picked: Vec<&str> = ids.iter().copied().filter(|_| rng.bool()).collect();
        if picked.is_empty() {
            picked.push(ids[rng.usize(..ids.len())]);
        }
        picked.join(",")
    };
    let case = |rng: &mut fastrand::Rng| {
        let actors = some(rng, file.actors.iter().map(|actor| actor.id.as_str()).collect());
        let units = || file.units.iter().map(|unit| unit.id.as_str()).collect();
        let (here, there, line) = (some(rng, units()), some(rng, units()), rng.u8(1..4));
        match rng.u8(..6) {
            0 => format!("{line} least 1 {actors} {here}"),
            1 => format!("{line} both {actors} {here} {there}"),
            _ => format!("{line} most {} {actors} {here}", rng.u8(..3)),
        }
    };
    let cases: Vec<String> = (0..rng.usize(1..4)).map(|_| case(rng)).collect();
    cases.join(";")
}

#[test]
fn cores_with_rules_are_sufficient_and_irreducible() {
    let (mut instances, mut ruled_out) = (0, 0);
    for seed in 0..4_000 {
        let file = tight_file(seed);
        let policy = some_rules(&file, seed);
        let (snapshot, cases) = ruled(Snapshot::new(file).unwrap(), &policy);
        if !snapshot.rules().unwrap().excusable().is_empty() {
            // Limits that are violated already are not cases of the policy, and are tested separately.
            continue;
        }
        let best = most_placed(&snapshot);
        let unplaced: Vec<ActorIx> = best.positions().filter(|actor| best[*actor].is_none()).collect();
        instances += usize::from(!unplaced.is_empty());
        for actor in unplaced {
            let UnplacedCause::Blocked(core) = explain::explain_unplaced(&snapshot, actor, &best, EFFORT)
            else {
                panic!("{policy}\n{snapshot:?}: one more than the most can be placed");
            };
            assert_eq!(core.holds, placement::ReasonScope::Always, "{policy}\n{snapshot:?}");
            check_core(&snapshot, &cases, &core, &best);
            let texts = core.lines(&snapshot, &best);
            ruled_out += usize::from(texts.iter().any(|line| line.contains("policy p line")));
        }
    }
    assert!(instances >= 1_000, "{instances} leave an actor unplaced");
    assert!(ruled_out >= 500, "{ruled_out} are kept out by a rule too");
}
