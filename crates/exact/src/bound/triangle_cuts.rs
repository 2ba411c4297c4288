//! Triangle cuts: sharing a place is transitive.

use placement::ix::{ActorIx, KindIx};

use crate::bound::linear_program::Variable;
use crate::bound::relaxation::{Pair, Relaxation};

/// A kind of place: it selects the variable that a pair shares it, and the one that an actor is there at all.
#[derive(Clone, Copy)]
enum Scope {
    Unit(KindIx),
    Node,
    Zone,
}

/// A violated inequality: the violation in millionths, its terms, and the right-hand side of ≤.
type Cut = (u64, Vec<(Variable, i64)>, i64);

/// The least violation that is worth a row.
const MIN_VIOLATION: f64 = 0.02;

/// Adds the most violated triangle inequalities, at most `room` of those found before `stop`; returns how many.
///
/// together(a,b) + together(b,c) − together(a,c) ≤ present(b) (Grötschel and Wakabayashi, 1990, with b's presence on the
/// right-hand side). Where a and c cannot be together, their term is 0.
pub fn add_cuts(relaxation: &mut Relaxation, values: &[f64], room: usize, stop: &dyn Fn() -> bool) -> usize {
    let kinds = relaxation.view.problem.kinds.positions();
    // A node with units in several zones makes sharing a zone intransitive.
    let zones = relaxation.nodes_within_zones.then_some(Scope::Zone);
    let scopes = kinds.map(Scope::Unit).chain([Scope::Node]).chain(zones);
    let mut cuts: Vec<Cut> = Vec::new();
    for scope in scopes {
        for middle in relaxation.on_kind.positions().take_while(|_| !stop()) {
            separate_around(relaxation, values, scope, middle, &mut cuts);
        }
    }
    cuts.sort_unstable_by(|a, b| (b.0, &a.1).cmp(&(a.0, &b.1)));
    cuts.truncate(room);
    let found = cuts.len();
    for (_, terms, right) in cuts {
        relaxation.program.at_most(terms, right);
    }
    relaxation.program.shrink_to_fit();
    found
}

fn variable(pair: &Pair, scope: Scope) -> Option<Variable> {
    match scope {
        Scope::Unit(kind) => pair.units[kind],
        Scope::Node => pair.node,
        Scope::Zone => pair.zone,
    }
}

fn separate_around(
    relaxation: &Relaxation,
    values: &[f64],
    scope: Scope,
    middle: ActorIx,
    cuts: &mut Vec<Cut>,
) {
    let presence_variable = match scope {
        Scope::Unit(kind) => match relaxation.on_kind[middle].get(&kind) {
            Some(variable) => Some(*variable),
            None => return,
        },
        Scope::Node | Scope::Zone => None,
    };
    let presence = presence_variable.map_or(1.0, |variable| values[variable.at()]);
    let neighbours: Vec<(ActorIx, Variable)> = relaxation.pairs_of[middle]
        .iter()
        .filter_map(|&(other, pair)| Some((other, variable(&relaxation.pairs[pair as usize], scope)?)))
        .filter(|(_, variable)| values[variable.at()] > MIN_VIOLATION)
        .collect();
    for (position, &(a, with_a)) in neighbours.iter().enumerate() {
        for &(c, with_c) in &neighbours[position + 1..] {
            let excess = values[with_a.at()] + values[with_c.at()] - presence;
            if excess <= MIN_VIOLATION {
                continue;
            }
            let of_a = &relaxation.pairs_of[a];
            // Pairs without variables may be together or not.
            let Ok(at) = of_a.binary_search_by_key(&c, |(other, _)| *other) else { continue };
            let across = variable(&relaxation.pairs[of_a[at].1 as usize], scope);
            let excess = excess - across.map_or(0.0, |variable| values[variable.at()]);
            if excess > MIN_VIOLATION {
                let mut terms = vec![(with_a, 1), (with_c, 1)];
                terms.extend(across.map(|variable| (variable, -1)));
                terms.extend(presence_variable.map(|variable| (variable, -1)));
                cuts.push((millionths(excess), terms, i64::from(presence_variable.is_none())));
            }
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 2")]
fn millionths(excess: f64) -> u64 {
    (excess * 1e6) as u64
}
