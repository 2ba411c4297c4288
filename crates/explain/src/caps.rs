//! What a policy's rules allow at most, place by place, as views that may refute a world.

use std::collections::{BTreeMap, BTreeSet};

use crate::ruled::Effect;
use crate::view::{UNLIMITED, View};
use crate::views::Views;
use placement::ix::{ActorIx, IxVec, UnitIx};

/// How many of some actors may be on some units, by one case of a rule.
struct Cap {
    units: BTreeSet<UnitIx>,
    most: i64,
}

/// Whether a rule that lets only so many of some actors, one that is asked about among them, be in each of some
/// places (at most three of a group in a zone) leaves it none.
pub(crate) fn refute(views: &Views) -> bool {
    families(views).into_iter().any(|((_, members), caps)| views.refutes(&view(views, &members, &caps)))
}

/// Cases by rule and actors.
fn families<'a>(views: &Views<'a>) -> BTreeMap<(&'a str, Vec<ActorIx>), Vec<Cap>> {
    let mut families: BTreeMap<(&str, Vec<ActorIx>), Vec<Cap>> = BTreeMap::new();
    let Some(policy) = views.kept.policy() else { return families };
    let breaking: BTreeMap<u32, usize> = views.kept.breaking().into_iter().collect();
    // By body: actor, unit, and how much nearer that brings it to what breaks the rule.
    let mut parts: BTreeMap<u32, Vec<(ActorIx, UnitIx, i64)>> = BTreeMap::new();
    for actor in ActorIx::first(views.world.actors()) {
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
            if !views.world.is_fixed(actor) {
                members.insert(actor);
            }
        }
        for &(actor, unit) in &there {
            settled += i64::from(views.world.is_fixed(actor) && views.world.current(actor) == Some(unit));
        }
        let counts = |&actor: &ActorIx| {
            let domain = views.domain_of(actor).iter().filter(|unit| units.contains(unit));
            domain.into_iter().all(|unit| there.contains(&(actor, *unit)))
        };
        if views.whom.iter().any(|actor| members.contains(actor)) && members.iter().all(counts) {
            let rule = policy.rules.cases()[breaking[&body]].rule.as_str();
            let cap = Cap { units, most: (most - settled).max(0) };
            families.entry((rule, members.into_iter().collect())).or_default().push(cap);
        }
    }
    families
}

fn view(views: &Views, members: &[ActorIx], caps: &[Cap]) -> View {
    let mut view = views.counting(&|actor| members.binary_search(&actor).is_ok());
    view.group_of = IxVec::of(0, view.unit_room.len());
    view.group_room = vec![UNLIMITED];
    for cap in caps {
        // One unit cannot be of two groups: of cases that overlap the first is counted.
        if cap.units.iter().all(|&unit| view.group_of[unit] == 0) {
            cap.units.iter().for_each(|&unit| view.group_of[unit] = view.group_room.len());
            view.group_room.push(cap.most);
        }
    }
    view
}
