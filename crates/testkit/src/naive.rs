//! Naive implementations of the definitions, keyed by names of the file, as a reference for the indexed ones.

use std::collections::BTreeMap;

use placement::file::{
    Actor, CapScope, Constraint, Domain, Join, Message, Places, Scope, SharedLink, SnapshotFile, Unit,
};

use crate::limits::{self, ExceededLimits};

/// The units of placed actors, by name.
pub type Placed<'a> = BTreeMap<&'a str, &'a Unit>;

/// Overload, communication, annoyance, interference, migration, unplaced, missed preferences; then bottleneck,
/// consolidate, energy, spread, latency, licence, busiest, congestion, even if the objectives do not name them. Cyclic
/// messages do not count for latency.
pub fn cost(file: &SnapshotFile, at: &Placed) -> [i128; 15] {
    let apart = |a: &str, b: &str| Some((at.get(a)?, at.get(b)?)).filter(|(u, v)| u.id != v.id);
    let shared = |a: &str, b: &str| a != b && at.get(a).zip(at.get(b)).is_some_and(|(u, v)| u.id == v.id);
    let communication = file.messages.iter().filter_map(|message| {
        let (u, v) = apart(&message.from, &message.to)?;
        Some(i128::from(message.count) * exchange(file, u, v))
    });
    let annoyance = file.annoyance.iter().filter(|pair| apart(&pair.a, &pair.b).is_some());
    let interference = file.interference.iter().filter(|pair| shared(&pair.a, &pair.b));
    let moved = |actor: &&Actor| {
        actor
            .current
            .as_ref()
            .is_some_and(|home| at.get(actor.id.as_str()).is_none_or(|unit| unit.id != *home))
    };
    let missed = file.constraints.iter().map(|constraint| match constraint {
        Constraint::Prefer { actor, unit, weight } => {
            i128::from(at.get(actor.as_str()).is_some_and(|there| there.id != *unit)) * i128::from(*weight)
        }
        _ => 0,
    });
    [
        overload(file, at),
        communication.sum(),
        annoyance.map(|pair| i128::from(pair.drag)).sum(),
        interference.map(|pair| i128::from(pair.drag)).sum(),
        file.actors.iter().filter(moved).map(|actor| i128::from(actor.move_cost)).sum(),
        i128::try_from(file.actors.len() - at.len()).unwrap(),
        missed.sum(),
        file.units
            .iter()
            .map(|unit| divide_up(load(file, at, unit) * 1000, unit.capacity))
            .max()
            .unwrap_or(0),
        i128::try_from(file.units.iter().filter(|unit| hosts(at, unit)).count()).unwrap(),
        file.units.iter().map(|unit| watts(file, at, unit)).sum(),
        spread(file, at),
        costliest_path(file, at),
        licences(file, at),
        file.units
            .iter()
            .map(|unit| divide_up((load(file, at, unit) + sent(file, at, unit)) * 1000, unit.capacity))
            .max()
            .unwrap_or(0),
        file.shared_links.iter().map(|link| above(file, at, link, false) + above(file, at, link, true)).sum(),
    ]
}

/// The messages above the capacity of a shared link in one direction.
fn above(file: &SnapshotFile, at: &Placed, link: &SharedLink, towards: bool) -> i128 {
    let crosses = |message: &&Message| {
        let ends = at.get(message.from.as_str()).zip(at.get(message.to.as_str()));
        ends.is_some_and(|(from, to)| {
            let (unit, other) = if towards { (to, from) } else { (from, to) };
            let is_pair = |a: &String, b: &String| *a == unit.id && *b == other.id;
            link.units.contains(&unit.id)
                && !link.units.contains(&other.id)
                && link.to.as_ref().is_none_or(|to| to.contains(&other.id))
                && !link.direct.iter().any(|(a, b)| is_pair(a, b) || is_pair(b, a))
        })
    };
    let sent = file.messages.iter().filter(crosses).map(|message| i128::from(message.count));
    (sent.sum::<i128>() - i128::from(link.capacity)).max(0)
}

fn divide_up(value: i128, by: u64) -> i128 {
    let by = i128::from(by);
    value / by + i128::from(value % by > 0)
}

fn hosts(at: &Placed, unit: &Unit) -> bool {
    at.values().any(|there| there.id == unit.id)
}

fn load(file: &SnapshotFile, at: &Placed, unit: &Unit) -> i128 {
    let here = file.actors.iter().filter(|actor| at.get(actor.id.as_str()).is_some_and(|u| u.id == unit.id));
    here.filter_map(|actor| Some(i128::from(actor.runs_on.get(&unit.kind)?.work))).sum()
}

/// The cost of messages from actors of a unit to other units.
fn sent(file: &SnapshotFile, at: &Placed, unit: &Unit) -> i128 {
    let paid = file.messages.iter().filter_map(|message| {
        let (u, v) = (at.get(message.from.as_str())?, at.get(message.to.as_str())?);
        (u.id == unit.id && v.id != unit.id).then(|| i128::from(message.count) * exchange(file, u, v))
    });
    paid.sum()
}

fn watts(file: &SnapshotFile, at: &Placed, unit: &Unit) -> i128 {
    let idle = if hosts(at, unit) { unit.idle_watts.unwrap_or(0) } else { 0 };
    i128::from(idle)
        + divide_up(load(file, at, unit) * i128::from(unit.power_watts.unwrap_or(0)), unit.capacity)
}

fn licences(file: &SnapshotFile, at: &Placed) -> i128 {
    let paid = file.nodes.iter().filter(|node| at.values().any(|unit| unit.node == node.id));
    paid.map(|node| i128::from(node.licence_cost.unwrap_or(0))).sum()
}

/// Groups with equal names in two applications are different groups.
fn spread(file: &SnapshotFile, at: &Placed) -> i128 {
    let mut groups: BTreeMap<(&str, &str), BTreeMap<String, i128>> = BTreeMap::new();
    for actor in &file.actors {
        let (Some(group), Some(there)) = (&actor.group, at.get(actor.id.as_str())) else { continue };
        let application = actor.id.rsplit_once('/').map_or("", |(application, _)| application);
        let zone = there.zone.as_ref().map_or(format!("unit {}", there.id), |zone| format!("zone {zone}"));
        *groups.entry((application, group)).or_default().entry(zone).or_default() += 1;
    }
    groups.values().map(|zones| zones.values().max().unwrap()).sum()
}

/// The cost of the most expensive path, by dynamic programming over the number of messages, at most the number of
/// actors.
fn costliest_path(file: &SnapshotFile, at: &Placed) -> i128 {
    let mut beyond: BTreeMap<&str, i128> = BTreeMap::new();
    let counts = |message: &&Message| message.count > 0 && !goes_round(file, message);
    let messages: Vec<&Message> = file.messages.iter().filter(counts).collect();
    for _ in &file.actors {
        let mut longer = beyond.clone();
        for message in &messages {
            let (from, to) = (message.from.as_str(), message.to.as_str());
            let Some((u, v)) = at.get(from).zip(at.get(to)).filter(|_| from != to) else { continue };
            let step = if u.id == v.id { 0 } else { exchange(file, u, v) };
            let path = step + beyond.get(to).unwrap_or(&0);
            let known = longer.entry(from).or_default();
            *known = path.max(*known);
        }
        beyond = longer;
    }
    beyond.into_values().max().unwrap_or(0)
}

/// Whether a message is part of a cycle of fixed actors only.
pub(crate) fn goes_round(file: &SnapshotFile, message: &Message) -> bool {
    let fixed = |id: &String| file.actors.iter().any(|actor| actor.id == *id && actor.fixed);
    if !fixed(&message.from) || !fixed(&message.to) {
        return false;
    }
    let mut reached = vec![&message.to];
    let mut looked_at = 0;
    while let Some(from) = reached.get(looked_at).copied() {
        looked_at += 1;
        for next in file.messages.iter().filter(|next| next.count > 0 && next.from == *from) {
            if fixed(&next.to) && !reached.contains(&&next.to) {
                reached.push(&next.to);
            }
        }
    }
    reached.contains(&&message.from)
}

fn overload(file: &SnapshotFile, at: &Placed) -> i128 {
    let over = |unit: &Unit| (load(file, at, unit) - i128::from(unit.capacity)).max(0);
    let overloads: Vec<i128> = file.units.iter().map(over).collect();
    overloads.iter().max().unwrap_or(&0) - overloads.iter().min().unwrap_or(&0)
}

fn exchange(file: &SnapshotFile, u: &Unit, v: &Unit) -> i128 {
    let cost = &file.exchange_cost;
    let pair = cost.pairs.iter().find(|p| (p.a == u.id && p.b == v.id) || (p.a == v.id && p.b == u.id));
    if let Some(pair) = pair {
        return pair.cost.into();
    }
    let listed = |a: &str, b: &str| cost.kinds.get(a).and_then(|row| row.get(b));
    let other = || if u.kind == v.kind { 1 } else { cost.other_kind.unwrap() };
    let by_kind = listed(&u.kind, &v.kind).or(listed(&v.kind, &u.kind)).copied();
    let mut sum = i128::from(by_kind.unwrap_or_else(other));
    if u.node == v.node {
        sum += if same(Scope::Numa, u, v) { 0 } else { i128::from(cost.other_numa) };
    } else {
        sum += i128::from(cost.other_node);
        sum += if same(Scope::Zone, u, v) { 0 } else { i128::from(cost.other_zone) };
    }
    sum
}

fn same(scope: Scope, u: &Unit, v: &Unit) -> bool {
    u.id == v.id
        || match scope {
            Scope::Unit => false,
            Scope::Numa => u.node == v.node && u.numa.is_some() && u.numa == v.numa,
            Scope::Node => u.node == v.node,
            Scope::Zone => u.zone.is_some() && u.zone == v.zone,
        }
}

/// Whether an assignment has no violations.
pub fn feasible(file: &SnapshotFile, at: &Placed) -> bool {
    feasible_beside(file, ExceededLimits::now(file).as_ref(), at)
}

/// The same, given the amounts by which the current placement exceeds limits.
pub fn feasible_beside(file: &SnapshotFile, passed: Option<&ExceededLimits>, at: &Placed) -> bool {
    let fixed = |id: &str| file.actors.iter().any(|actor| actor.id == id && actor.fixed);
    let actors_fine = file.actors.iter().all(|actor| {
        let there = at.get(actor.id.as_str());
        if actor.fixed {
            return there.map(|unit| &unit.id) == actor.current.as_ref();
        }
        there.is_none_or(|unit| actor.runs_on.contains_key(&unit.kind))
    });
    let on = |unit: &Unit| -> Vec<&Actor> {
        file.actors
            .iter()
            .filter(|a| at.get(a.id.as_str()).is_some_and(|there| there.id == unit.id))
            .collect()
    };
    if let Some(passed) = passed {
        let of_single = |given: &&Constraint| {
            matches!(given, Constraint::Pin { .. } | Constraint::Only { .. } | Constraint::Never { .. })
        };
        let unit = |actor: &Actor| {
            let there = at.get(actor.id.as_str())?;
            file.units.iter().position(|unit| unit.id == there.id)
        };
        let places = file.actors.iter().map(unit).collect();
        return actors_fine
            && file.constraints.iter().filter(of_single).all(|c| obeyed(file, at, c, &fixed))
            && limits::excused(file, passed, &places).is_some();
    }
    let slots_fine = file.units.iter().all(|unit| {
        let here = on(unit);
        unit.slots.is_none_or(|slots| here.len() as u64 <= slots) || here.iter().all(|actor| actor.fixed)
    });
    actors_fine
        && slots_fine
        && resources_fine(file, at)
        && file.constraints.iter().all(|c| obeyed(file, at, c, &fixed))
}

/// The demand of `resource`, and whether a movable actor requires it.
fn wanted<'a>(needs: impl Iterator<Item = (&'a Actor, u64)>) -> (i128, bool) {
    needs
        .filter(|(_, need)| *need > 0)
        .fold((0, false), |(sum, any), (actor, need)| (sum + i128::from(need), any || !actor.fixed))
}

fn resources_fine(file: &SnapshotFile, at: &Placed) -> bool {
    let of = |map: &BTreeMap<String, u64>, resource: &str| map.get(resource).copied().unwrap_or(0);
    let placed = || file.actors.iter().filter_map(|actor| Some((actor, *at.get(actor.id.as_str())?)));
    let of_unit = |unit: &Unit, name: &str| {
        let needs = placed().filter(|(_, there)| there.id == unit.id).filter_map(|(actor, _)| {
            Some((actor, of(&actor.requires, name) + of(&actor.runs_on.get(&unit.kind)?.requires, name)))
        });
        let reserved: i128 = file.constraints.iter().fold(0, |sum, constraint| match constraint {
            Constraint::Reserve { unit: of, resource, quantity } if *of == unit.id && resource == name => {
                sum + i128::from(*quantity)
            }
            _ => sum,
        });
        let (sum, any) = wanted(needs);
        !any || sum <= (i128::from(of(&unit.provides, name)) - reserved).max(0)
    };
    let of_node = |id: &str, name: &str| {
        let needs = placed().filter(|(_, there)| there.node == id).filter_map(|(actor, there)| {
            Some((actor, of(&actor.runs_on.get(&there.kind)?.node_requires, name)))
        });
        let given = file.nodes.iter().find(|given| given.id == id);
        let (sum, any) = wanted(needs);
        !any || sum <= given.map_or(0, |given| i128::from(of(&given.provides, name)))
    };
    limits::names(file)
        .iter()
        .all(|name| file.units.iter().all(|unit| of_unit(unit, name) && of_node(&unit.node, name)))
}

fn obeyed(file: &SnapshotFile, at: &Placed, constraint: &Constraint, fixed: &dyn Fn(&str) -> bool) -> bool {
    let inside = |places: &Places, unit: &Unit| match places {
        Places::Units(units) => units.contains(&unit.id),
        Places::Nodes(nodes) => nodes.contains(&unit.node),
        Places::Zones(zones) => unit.zone.as_ref().is_some_and(|zone| zones.contains(zone)),
    };
    let free = |actor: &String| if fixed(actor) { None } else { at.get(actor.as_str()) };
    let home = |id: &String| file.actors.iter().find(|actor| actor.id == *id).and_then(Actor::running);
    match constraint {
        Constraint::Apart { on, actors, .. } | Constraint::Together { on, actors, .. } => {
            let apart = matches!(constraint, Constraint::Apart { .. });
            actors.iter().all(|a| {
                actors.iter().filter(|b| *b != a && !(fixed(a) && fixed(b))).all(|b| {
                    at.get(a.as_str()).zip(at.get(b.as_str())).is_none_or(|(u, v)| same(*on, u, v) != apart)
                })
            })
        }
        Constraint::Pin { actor, unit, .. } => free(actor).is_none_or(|there| there.id == *unit),
        Constraint::Only { actors, places, .. } => {
            actors.iter().all(|actor| free(actor).is_none_or(|there| inside(places, there)))
        }
        Constraint::Never { actors, places, except_current, .. } => actors.iter().all(|actor| {
            free(actor).is_none_or(|there| {
                !inside(places, there) || (*except_current && home(actor) == Some(there.id.as_str()))
            })
        }),
        Constraint::PowerCap { on, max, .. } => file.units.iter().all(|one| {
            let of_place = |unit: &&Unit| match on {
                CapScope::Node => unit.node == one.node,
                CapScope::Zone => same(Scope::Zone, unit, one),
                CapScope::All => true,
            };
            let drawn =
                |at: &Placed| file.units.iter().filter(of_place).map(|unit| watts(file, at, unit)).sum();
            let alone: Placed =
                at.iter().filter(|(actor, _)| fixed(actor)).map(|(actor, unit)| (*actor, *unit)).collect();
            let (all, theirs): (i128, i128) = (drawn(at), drawn(&alone));
            all <= i128::from(*max) || all == theirs
        }),
        Constraint::Quota { actors, pool, pools, numa, units, resource, max, .. } => {
            let used = |who: &dyn Fn(&String) -> bool| -> u128 {
                let named = file.actors.iter().filter(|actor| actors.contains(&actor.id) && who(&actor.id));
                let of = |actor: &Actor| {
                    let unit = at.get(actor.id.as_str())?;
                    let way = actor.runs_on.get(&unit.kind)?;
                    let required = |resource: &String| {
                        let all = [&actor.requires, &way.requires, &way.node_requires];
                        all.iter().map(|of| u128::from(of.get(resource).copied().unwrap_or(0))).sum()
                    };
                    let in_pool = |pool: &String| unit.pool.as_ref() == Some(pool);
                    let counts = pool.as_ref().is_none_or(in_pool)
                        && pools.as_ref().is_none_or(|pools| pools.iter().any(in_pool))
                        && numa.as_ref().is_none_or(|numa| unit.numa.as_ref() == Some(numa));
                    let weight =
                        units.as_ref().map_or(1, |of| u128::from(of.get(&unit.id).copied().unwrap_or(0)));
                    counts.then(|| weight * resource.as_ref().map_or(1, required))
                };
                named.filter_map(of).sum()
            };
            let all = used(&|_| true);
            all <= u128::from(*max) || all == used(&|actor| fixed(actor))
        }
        Constraint::Peers { actors, peers, domains, actor_kinds, peer_kinds, max, skew, join, .. } => {
            // Only the actors whose unit is of one of their kinds take part.
            let there = |ids: &[String], kinds: Option<&BTreeMap<String, Vec<String>>>| -> Vec<String> {
                let is_on = |id: &&String| {
                    let kinds = kinds.and_then(|kinds| kinds.get(*id));
                    at.get(id.as_str()).is_some_and(|unit| kinds.is_none_or(|of| of.contains(&unit.kind)))
                };
                ids.iter().filter(is_on).cloned().collect()
            };
            let (actors, peers) = (&there(actors, actor_kinds.as_ref()), &there(peers, peer_kinds.as_ref()));
            let arrives = |id: &String| free(id).is_some_and(|there| home(id) != Some(there.id.as_str()));
            let is_in = |id: &String, domain: &Domain| {
                at.get(id.as_str()).is_some_and(|unit| domain.nodes.contains(&unit.node))
            };
            let count = |domain: &Domain, counts: &dyn Fn(&String) -> bool| {
                let counted = file.actors.iter().map(|actor| &actor.id).filter(|id| peers.contains(*id));
                domain.others + counted.filter(|id| counts(id) && is_in(id, domain)).count() as u64
            };
            let seeds = |domain: &Domain| count(domain, &|id| !(actors.contains(id) && arrives(id)));
            let comes =
                |domain: &Domain, ids: &[String]| ids.iter().any(|id| is_in(id, domain) && arrives(id));
            let fewest = domains.iter().map(|domain| count(domain, &|_| true)).min().unwrap_or(0);
            let no_seed = domains.iter().all(|domain| seeds(domain) == 0);
            let reached = domains.iter().filter(|domain| comes(domain, actors)).count();
            domains.iter().all(|domain| {
                let active = comes(domain, actors) || comes(domain, peers);
                actors.iter().filter(|id| is_in(id, domain)).all(|id| {
                    max.is_none_or(|max| !active || count(domain, &|other| other != id) <= max)
                        && skew.is_none_or(|skew| !arrives(id) || count(domain, &|_| true) <= fewest + skew)
                        && join.is_none_or(|join| {
                            let shares_one = join == Join::First && no_seed && reached <= 1;
                            !arrives(id) || seeds(domain) > 0 || shares_one
                        })
                })
            })
        }
        Constraint::Avoid { .. } | Constraint::Prefer { .. } | Constraint::Reserve { .. } => true,
    }
}
