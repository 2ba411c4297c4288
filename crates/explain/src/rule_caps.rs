//! Relaxations from a policy's cardinality rules: the number of actors that a rule admits in each domain.

use std::collections::{BTreeMap, BTreeSet};

use crate::kept_rules::Effect;
use crate::relaxation::{Relaxation, UNLIMITED};
use crate::relaxations::Relaxations;
use placement::ix::{ActorIx, IxVec, UnitIx};

/// The number of certain actors that one case of a rule admits on certain units.
struct Cap {
    units: BTreeSet<UnitIx>,
    most: i64,
}

/// Whether a rule that limits how many actors of a set may be in each domain (such as three of a group per zone) leaves no place
/// for an actor in question.
pub(crate) fn refute(relaxations: &Relaxations) -> bool {
    families(relaxations)
        .into_iter()
        .any(|((_, members), caps)| relaxations.refutes(&relaxation(relaxations, &members, &caps)))
}

/// Cases by rule and actors.
fn families<'a>(relaxations: &Relaxations<'a>) -> BTreeMap<(&'a str, Vec<ActorIx>), Vec<Cap>> {
    let mut families: BTreeMap<(&str, Vec<ActorIx>), Vec<Cap>> = BTreeMap::new();
    let Some(policy) = relaxations.kept.policy() else { return families };
    let breaking: BTreeMap<u32, usize> = relaxations.kept.breaking().into_iter().collect();
    // By body: actor, unit, and how far that placement brings the rule towards a violation.
    let mut parts: BTreeMap<u32, Vec<(ActorIx, UnitIx, i64)>> = BTreeMap::new();
    for actor in ActorIx::first(relaxations.world.actors()) {
        for (unit, effects) in policy.effects(actor) {
            for &(effect, gain) in effects {
                if let Effect::Body(body) = effect
                    && gain > 0
                    && breaking.contains_key(&body)
                {
                    parts.entry(body).or_default().push((actor, *unit, gain));
                }
            }
        }
    }
    for (body, parts) in parts {
        let least = parts.iter().map(|(_, _, gain)| *gain).min().unwrap_or(1);
        let most = (policy.rules.ground()[body as usize].lower - 1).max(0) / least;
        let units: BTreeSet<UnitIx> = parts.iter().map(|(_, unit, _)| *unit).collect();
        let there: BTreeSet<(ActorIx, UnitIx)> =
            parts.iter().map(|(actor, unit, _)| (*actor, *unit)).collect();
        let (mut members, mut settled) = (BTreeSet::new(), 0);
        for actor in parts.iter().map(|(actor, _, _)| *actor) {
            if !relaxations.world.is_fixed(actor) {
                members.insert(actor);
            }
        }
        for &(actor, unit) in &there {
            settled += i64::from(
                relaxations.world.is_fixed(actor) && relaxations.world.current(actor) == Some(unit),
            );
        }
        let counts = |&actor: &ActorIx| {
            let domain = relaxations.domain_of(actor).iter().filter(|unit| units.contains(unit));
            domain.into_iter().all(|unit| there.contains(&(actor, *unit)))
        };
        if relaxations.unplaced.iter().any(|actor| members.contains(actor)) && members.iter().all(counts) {
            let rule = policy.rules.cases()[breaking[&body]].rule.as_str();
            let cap = Cap { units, most: (most - settled).max(0) };
            families.entry((rule, members.into_iter().collect())).or_default().push(cap);
        }
    }
    families
}

fn relaxation(relaxations: &Relaxations, members: &[ActorIx], caps: &[Cap]) -> Relaxation {
    let mut relaxation = relaxations.counting(&|actor| members.binary_search(&actor).is_ok());
    relaxation.group_of = IxVec::of(0, relaxation.unit_room.len());
    relaxation.group_room = vec![UNLIMITED];
    for cap in caps {
        // A unit belongs to one group: of overlapping cases the first counts.
        if cap.units.iter().all(|&unit| relaxation.group_of[unit] == 0) {
            cap.units.iter().for_each(|&unit| relaxation.group_of[unit] = relaxation.group_room.len());
            relaxation.group_room.push(cap.most);
        }
    }
    relaxation
}
