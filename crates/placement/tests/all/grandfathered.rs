//! Grandfathered violations, compared with their definition case by case.

use std::collections::BTreeSet;

use fastrand::Rng;
use placement::ix::{ActorIx, UnitIx};
use placement::{Assignment, Criterion, GroundConstraint, GroundRule, Rules, Snapshot};
use testkit::line::{self, RULED_ACTORS, RULED_UNITS, at_most_two, inputs, on, world};

type Place = (usize, usize);

/// A constraint in the form of its definition.
#[derive(Clone, Debug)]
enum Case {
    /// The weights of these placements must stay below this sum.
    Sum(Vec<(Place, i64)>, i64),
    /// If the first placement holds, the weights of the others must reach this sum.
    Few(Place, Vec<(Place, i64)>, i64),
    /// The first placements must not all hold unless one of the second does.
    All(Vec<Place>, Vec<Place>),
}

impl Case {
    /// The amount of the violation: the excess over the bound of a `Sum`, 1 for the others, 0 if satisfied.
    fn excess(&self, places: &Assignment) -> i64 {
        let is_there = |(actor, unit): Place| places[ActorIx::new(actor)] == Some(UnitIx::new(unit));
        let sum = |parts: &[(Place, i64)]| {
            parts.iter().map(|(p, w)| if is_there(*p) { *w } else { 0 }).sum::<i64>()
        };
        match self {
            Self::Sum(parts, reached) => (sum(parts) - reached + 1).max(0),
            Self::Few(once, parts, reached) => i64::from(is_there(*once) && sum(parts) < *reached),
            Self::All(these, without) => {
                i64::from(these.iter().all(|p| is_there(*p)) && !without.iter().any(|p| is_there(*p)))
            }
        }
    }

    /// The placements that the constraint mentions.
    fn members(&self) -> Vec<Place> {
        match self {
            Self::Sum(parts, _) => parts.iter().map(|(place, _)| *place).collect(),
            Self::Few(once, parts, _) => parts.iter().map(|(place, _)| *place).chain([*once]).collect(),
            Self::All(these, without) => these.iter().chain(without).copied().collect(),
        }
    }

    fn random(rng: &mut Rng) -> Self {
        let unit = rng.usize(..RULED_UNITS);
        let place = |rng: &mut Rng| (rng.usize(..RULED_ACTORS), rng.usize(..RULED_UNITS));
        let many = |rng: &mut Rng| {
            let parts = (0..RULED_ACTORS).filter(|_| rng.u8(..4) > 0).map(|actor| (actor, unit));
            parts.collect::<Vec<_>>().into_iter().map(|place| (place, rng.i64(1..3))).collect::<Vec<_>>()
        };
        match rng.u8(..4) {
            0 | 1 => {
                let parts = many(rng);
                let most: i64 = parts.iter().map(|(_, weight)| weight).sum();
                Self::Sum(parts, rng.i64(1..=most.max(1)))
            }
            2 => {
                let parts = many(rng);
                let most: i64 = parts.iter().map(|(_, weight)| weight).sum();
                Self::Few(place(rng), parts, rng.i64(1..=most.max(1)))
            }
            _ => {
                let without = if rng.bool() { vec![place(rng)] } else { Vec::new() };
                Self::All(vec![place(rng), place(rng)], without)
            }
        }
    }

    /// The constraint as ground rules, and the atom that is true if it is violated.
    fn ground(&self, next: &mut u32) -> (Vec<GroundRule>, u32) {
        let atom = |(actor, unit): Place| i32::try_from(on(actor, unit)).unwrap();
        let mut rules = Vec::new();
        let mut head = |lower: i64, body: Vec<(i32, i64)>| {
            *next += 1;
            rules.push(GroundRule { head: *next, lower, body, any: false });
            i32::try_from(*next).unwrap()
        };
        let parts = |parts: &[(Place, i64)]| parts.iter().map(|(p, w)| (atom(*p), *w)).collect::<Vec<_>>();
        match self {
            Self::Sum(of, reached) => {
                let sum = head(*reached, parts(of));
                head(1, vec![(sum, 1)]);
            }
            Self::Few(once, of, reached) => {
                let sum = head(*reached, parts(of));
                head(2, vec![(atom(*once), 1), (-sum, 1)]);
            }
            Self::All(these, without) => {
                let these = these.iter().map(|place| (atom(*place), 1));
                let body: Vec<_> = these.chain(without.iter().map(|place| (-atom(*place), 1))).collect();
                head(i64::try_from(body.len()).unwrap(), body);
            }
        }
        (rules, *next)
    }
}

/// Violated cases, and actors with grandfathered violations.
fn judged(cases: &[Case], snapshot: &Snapshot, places: &Assignment) -> (BTreeSet<String>, BTreeSet<usize>) {
    let (now, unplaced) = (snapshot.incumbent(), Assignment::of(None, RULED_ACTORS));
    let (mut held, mut excused) = (BTreeSet::new(), BTreeSet::new());
    for (number, case) in cases.iter().enumerate() {
        let members = case.members();
        let is_in = |actor: usize, places: &Assignment| {
            places[ActorIx::new(actor)].is_some_and(|unit| members.contains(&(actor, unit.at())))
        };
        let is_ours = |actor: &usize| !snapshot.is_fixed(ActorIx::new(*actor));
        let ours: Vec<usize> =
            (0..RULED_ACTORS).filter(is_ours).filter(|actor| is_in(*actor, places)).collect();
        let excess = case.excess(places);
        if case.excess(&unplaced) > 0 {
            if excess > 0 {
                held.insert(number.to_string());
            }
        } else if excess > 0 && !ours.is_empty() {
            if case.excess(&now) >= excess && ours.iter().all(|actor| is_in(*actor, &now)) {
                excused.extend(ours);
            } else {
                held.insert(number.to_string());
            }
        }
    }
    (held, excused)
}

#[test]
fn grandfathered_violations_match_their_definition() {
    let (mut seen_excused, mut seen_held, mut seen_mended) = (0, 0, 0);
    for seed in 0..600 {
        let rng = &mut Rng::with_seed(seed);
        let cases: Vec<Case> = (0..4).map(|_| Case::random(rng)).collect();
        let mut next = on(RULED_ACTORS - 1, RULED_UNITS - 1);
        let (mut ground, mut demands) = (Vec::new(), Vec::new());
        for (number, case) in cases.iter().enumerate() {
            let (rules, atom) = case.ground(&mut next);
            ground.extend(rules);
            demands.push(GroundConstraint {
                atom,
                rule: "policy p".into(),
                says: number.to_string(),
                limit: None,
            });
        }
        let rules = Rules::new(RULED_ACTORS, ground, &inputs(), demands, vec![]).unwrap();
        let mut file = world("u:cpu:9 v:cpu:9 w:cpu:9", "a:cpu=1 b:cpu=1 c:cpu=1 d:cpu=1", "").file().clone();
        for actor in &mut file.actors {
            actor.current = [Some("u"), Some("v"), None][rng.usize(..3)].map(str::to_owned);
            actor.fixed = actor.current.is_some() && rng.bool();
        }
        let snapshot = Snapshot::new(file).unwrap().with_rules(Some(rules));
        // Rules are attached unchanged to a rebuilt snapshot, as for a subproblem.
        let again = Snapshot::new(snapshot.file().clone()).unwrap().with_rules(snapshot.rules().cloned());
        assert_eq!((again.rules(), again.objectives()), (snapshot.rules(), snapshot.objectives()));
        for _ in 0..40 {
            let places: Assignment = ActorIx::first(RULED_ACTORS)
                .map(|actor| {
                    let any = rng.usize(..=RULED_UNITS).checked_sub(1).map(UnitIx::new);
                    let stays = snapshot.is_fixed(actor) || rng.bool();
                    if stays { snapshot.current(actor) } else { any }
                })
                .collect();
            let (held, excused) = judged(&cases, &snapshot, &places);
            let known = snapshot.rules().unwrap();
            let violations: BTreeSet<String> = known.violations(&places).into_iter().collect();
            assert_eq!(violations, held, "seed {seed}: {cases:?} at {places:?} in {snapshot:?}");
            if held.is_empty() {
                let who: BTreeSet<usize> =
                    known.excused(&places).iter().map(|(actor, _)| actor.at()).collect();
                assert_eq!(who, excused, "seed {seed}: {cases:?} at {places:?} in {snapshot:?}");
                let count = i64::try_from(excused.len()).unwrap();
                assert_eq!(snapshot.cost(&places).of(Criterion::Excused), count);
                seen_mended += usize::from(excused.is_empty() && !known.excuses().is_empty());
            }
            seen_excused += usize::from(held.is_empty() && !excused.is_empty());
            seen_held += usize::from(!held.is_empty());
        }
    }
    assert!(
        seen_excused > 1000 && seen_held > 1000 && seen_mended > 1000,
        "{seen_excused} {seen_held} {seen_mended}"
    );
}

#[test]
fn duplicate_actors_of_a_quota_count_once() {
    for (rule, breaks) in [("quota a,a 1", false), ("quota a,a,b 1", true), ("quota a,a,b 2", false)] {
        let snapshot = world("u:cpu:9", "a:cpu=1:at=u b:cpu=1:at=u", rule);
        assert_eq!(snapshot.rules().is_some(), breaks, "{rule}");
    }
}

#[test]
fn violations_of_others_grandfather_no_new_actor() {
    let mut file = world("u:cpu:9 v:cpu:9", "a:cpu=1 b:cpu=1 c:cpu=1 d:cpu=1", "").file().clone();
    for actor in &mut file.actors[..3] {
        (actor.fixed, actor.current) = (true, Some("u".into()));
    }
    let comes = Snapshot::new(file.clone()).unwrap().with_rules(Some(at_most_two()));
    let [there, elsewhere] = [Some(0), Some(1)].map(|last| line::places([Some(0), Some(0), Some(0), last]));
    assert!(comes.violations(&elsewhere).is_empty());
    assert_eq!(comes.violations(&there)[0].says, "more than two on u");
    file.actors[3].current = Some("u".into());
    let stays = Snapshot::new(file).unwrap().with_rules(Some(at_most_two()));
    assert!(stays.violations(&there).is_empty());
    assert_eq!(
        [&there, &elsewhere].map(|places| stays.cost(places).vector(&stays)[..2].to_vec()),
        [vec![0, 1], vec![0, 0]]
    );
    let expected = vec![(ActorIx::new(3), vec!["more than two on u".to_owned()])];
    assert_eq!(stays.rules().unwrap().excused(&there), expected);
    let free = world("u:cpu:9 v:cpu:9", "a:cpu=1 b:cpu=1 c:cpu=1 d:cpu=1", "");
    assert_eq!(free.with_rules(Some(at_most_two())).violations(&there)[0].says, "more than two on u");
}

/// Additional actors only increase the usage of a limit, even if its encoding contains negated bits.
#[test]
fn violated_limits_stay_violated_as_actors_are_added() {
    let actors = "a:cpu=3:at=u,mem=2 b:cpu=4:at=u,mem=2 c:cpu=2:mem=1";
    for (rules, has_bits) in [
        ("powerCap node 40", true),
        ("powerCap all 69", true),
        ("reserve u mem 6", false),
        ("quota a,b,c 1", false),
        ("apart node a b c", false),
        ("powerCap node 40; apart unit a b c; quota a,b,c 1", true),
    ] {
        let units = "u:cpu:9:power=90,mem=9 v:cpu:9:node=m,power=90,mem=9";
        let snapshot = world(units, actors, rules);
        let known = snapshot.rules().unwrap();
        let denies = |rule: &GroundRule| rule.body.iter().any(|(literal, _)| *literal < 0);
        assert_eq!(known.ground().iter().any(denies), has_bits, "{rules}");
        assert!(!known.cases().is_empty(), "{rules}");
        assert_eq!(known.grow(), vec![true; known.cases().len()], "{rules}");
    }
}

/// Power is encoded in bits, or watt by watt if bits would need too large numbers.
#[test]
fn encoded_power_equals_drawn_power() {
    for (capacity, work, in_bits) in [(1_003, 101, true), (1_000_003, 100_001, false)] {
        let units = format!("u:cpu:{capacity}:power=301 v:cpu:{capacity}:power=301,idle=7");
        let running = |i: usize| format!("a{i}:cpu={}:at=u", work * (i + 2));
        let actors = format!("{} new:cpu={work}", each(4, running));
        let snapshot = world(&units, &actors, "powerCap all 250");
        let rules = snapshot.rules().unwrap();
        let denies = |rule: &GroundRule| rule.body.iter().any(|(literal, _)| *literal < 0);
        assert_eq!(rules.ground().iter().any(denies), in_bits, "{capacity}");
        let mut allowed = 0;
        for number in 0..3_usize.pow(5) {
            let of = |actor| (number / 3_usize.pow(actor) % 3).checked_sub(1);
            let places = line::places((0..5).map(of));
            let found = snapshot.violations(&places);
            assert_eq!(rules.violations(&places).is_empty(), found.is_empty(), "{found:?} at {places:?}");
            allowed += usize::from(found.is_empty());
        }
        assert!((50..200).contains(&allowed), "{allowed}");
    }
}

/// The first `count` items, separated by spaces.
fn each(count: usize, one: impl Fn(usize) -> String) -> String {
    (0..count).map(one).collect::<Vec<_>>().join(" ")
}

/// A grounded limit only contains possible placements: units of other kinds, and actors fixed elsewhere, add nothing.
#[test]
fn grounded_limits_contain_only_possible_placements() {
    let nodes = |count: usize| each(count, |i| format!("u{i}:cpu:2000:node=n{i},power=300"));
    let others = |count: usize| each(count, |i| format!("g{i}:gpu:9:node=m{i}"));
    let group = |first: usize| {
        each(60, |i| format!("a{i}:cpu=1:at=u{}", if i < first { 0 } else { 1 + (i - first) % 35 }))
    };
    let names = each(60, |i| format!("a{i}"));
    let cases = [
        // 48 actors share a node.
        (nodes(36), others(2_800), group(48), format!("apart node {names}")),
        // One actor is on another node.
        (nodes(36), others(2_800), group(59), format!("together node {names}")),
        // Own actors draw 300 W; fixed actors run on a unit without power.
        (
            nodes(200),
            others(1),
            format!(
                "{} {}",
                each(20, |i| format!("a{i}:cpu=100:at=u0")),
                each(500, |i| format!("f{i}:gpu=1:at=g0,fixed"))
            ),
            "powerCap all 200".to_owned(),
        ),
    ];
    for (units, others, actors, rules) in cases {
        let snapshot = world(&format!("{units} {others}"), &actors, &rules);
        assert!(!snapshot.problem().suspended_limits.is_empty(), "{rules}");
        assert_eq!(snapshot.violations(&snapshot.incumbent()), [], "{rules}");
    }
}
