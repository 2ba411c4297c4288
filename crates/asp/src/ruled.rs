//! A policy's ground rules as a program, in atoms that no built-in rule uses.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use placement::ix::{ActorIx, IxVec, UnitIx};
use placement::{Assignment, GroundRule, Rules, Snapshot};

const WRITES: &str = "a string takes any text";

/// The rules over `run_on`, the atoms that must not hold, and the costs at the level of `policy`.
///
/// For a finished placement, rules that need an actor on a unit other than its own are left out, which is nearly all of them:
/// a rule is grounded for every candidate of an actor.
pub(crate) fn text(
    snapshot: &Snapshot,
    rules: &Rules,
    placed: Option<&Assignment>,
    actors: &IxVec<ActorIx, String>,
    units: &IxVec<UnitIx, String>,
) -> String {
    let mut text = String::new();
    let mut inputs: BTreeMap<u32, String> = BTreeMap::new();
    let mut absent: BTreeSet<i32> = BTreeSet::new();
    for (actor, symbol) in actors.enumerate() {
        let home = snapshot.problem().fixed_at(actor);
        for &(unit, atom) in rules.inputs(actor) {
            if home == Some(unit) {
                // A fixed actor.
                writeln!(text, "ruled({atom}).").expect(WRITES);
            } else if home.is_some() {
                // The rules may stem from a snapshot in which the actor had other candidates.
                absent.extend(i32::try_from(atom));
            } else {
                inputs.insert(atom, format!("run_on({},{})", symbol, units[unit]));
                if placed.is_some_and(|placed| placed[actor] != Some(unit)) {
                    absent.extend(i32::try_from(atom));
                }
            }
        }
    }
    let atom = |atom: u32| inputs.get(&atom).cloned().unwrap_or_else(|| format!("ruled({atom})"));
    let literal = |literal: i32| {
        let not = if literal < 0 { "not " } else { "" };
        format!("{not}{}", atom(literal.unsigned_abs()))
    };
    if placed.is_some() {
        spread(&mut absent, rules);
    }
    let is_absent = |atom: u32| i32::try_from(atom).is_ok_and(|atom| absent.contains(&atom));
    for rule in rules.ground().iter().filter(|rule| may_hold(rule, &absent)) {
        let (lower, total) = (i128::from(rule.lower), rule.most());
        let body = if lower >= total {
            rule.body.iter().map(|(part, _)| literal(*part)).collect::<Vec<_>>().join(", ")
        } else {
            let parts = rule.body.iter().enumerate().filter(|(_, (part, _))| !absent.contains(part));
            let parts =
                parts.map(|(position, (part, weight))| format!("{weight},{position}:{}", literal(*part)));
            format!("#sum {{ {} }} >= {}", parts.collect::<Vec<_>>().join("; "), rule.lower)
        };
        let neck = if body.is_empty() { "" } else { " :- " };
        writeln!(text, "ruled({}){neck}{body}.", rule.head).expect(WRITES);
    }
    for demand in rules.cases().iter().filter(|demand| !is_absent(demand.atom)) {
        writeln!(text, ":- {}.", atom(demand.atom)).expect(WRITES);
    }
    let excuses = rules.excuses().iter().enumerate();
    for (number, excuse) in excuses.filter(|(_, excuse)| !is_absent(excuse.atom)) {
        writeln!(text, "excused({number}) :- {}.", atom(excuse.atom)).expect(WRITES);
    }
    let penalties = rules.penalties().iter().enumerate();
    for (position, (costs, weight)) in
        penalties.filter(|(_, (costs, weight))| *weight > 0 && !is_absent(*costs))
    {
        let costs = atom(*costs);
        writeln!(text, "#minimize {{ {weight}@P,policy,ruled,{position} : {costs}, level(policy,P) }}.")
            .expect(WRITES);
    }
    text
}

/// Whether a rule's body can reach its bound without these atoms.
fn may_hold(rule: &GroundRule, absent: &BTreeSet<i32>) -> bool {
    let missing = rule.body.iter().filter(|(part, _)| absent.contains(part));
    rule.most() - missing.map(|(_, weight)| i128::from(*weight)).sum::<i128>() >= i128::from(rule.lower)
}

/// Atoms that no remaining rule derives are false, too.
fn spread(absent: &mut BTreeSet<i32>, rules: &Rules) {
    loop {
        let (mut given, mut lost) = (BTreeSet::new(), BTreeSet::new());
        for rule in rules.ground() {
            let Ok(head) = i32::try_from(rule.head) else { continue };
            if may_hold(rule, absent) {
                given.insert(head);
            } else {
                lost.insert(head);
            }
        }
        let before = absent.len();
        absent.extend(lost.difference(&given));
        if absent.len() == before {
            return;
        }
    }
}
