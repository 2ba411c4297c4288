//! Who shares a place with b, and who else does, share it with one another.

use placement::ix::{ActorIx, KindIx};

use crate::bound::linear_program::Variable;
use crate::bound::relaxation::{Pair, Relaxation};

/// One place to look: which variable of a pair says that the two share it, and which that an actor is there at all.
#[derive(Clone, Copy)]
enum Share {
    Unit(KindIx),
    Node,
    Zone,
}

/// A violated inequality: by how much, in millionths, and its terms as at most `right`.
type Cut = (u64, Vec<(Variable, i64)>, i64);

/// Less than this is not worth a row.
const LEAST: f64 = 0.02;

/// Adds the triangle inequalities that `values` break most, at most `room`, of those found before `stop`; returns how many.
///
/// together(a,b) + together(b,c) − together(a,c) ≤ is there(b) (Grötschel and Wakabayashi, 1990, with b's presence for
/// the right-hand side). Where a and c cannot be together, their term is 0.
pub fn add_cuts(relaxation: &mut Relaxation, values: &[f64], room: usize, stop: &dyn Fn() -> bool) -> usize {
    let kinds = relaxation.world.problem.kinds.positions();
    // A node with units of several zones joins them: who shares a place with each of two need not share one with both.
    let zones = relaxation.nodes_within_zones.then_some(Share::Zone);
    let shares = kinds.map(Share::Unit).chain([Share::Node]).chain(zones);
    let mut cuts: Vec<Cut> = Vec::new();
    for share in shares {
        for middle in relaxation.on_kind.positions().take_while(|_| !stop()) {
            around(relaxation, values, share, middle, &mut cuts);
        }
    }
    cuts.sort_unstable_by(|a, b| (b.0, &a.1).cmp(&(a.0, &b.1)));
    cuts.truncate(room);
    let found = cuts.len();
    for (_, terms, right) in cuts {
        relaxation.program.at_most(terms, right);
    }
    relaxation.program.fit();
    found
}

fn variable(pair: &Pair, share: Share) -> Option<Variable> {
    match share {
        Share::Unit(kind) => pair.units[kind],
        Share::Node => pair.node,
        Share::Zone => pair.zone,
    }
}

fn around(relaxation: &Relaxation, values: &[f64], share: Share, middle: ActorIx, cuts: &mut Vec<Cut>) {
    let there = match share {
        Share::Unit(kind) => match relaxation.on_kind[middle].get(&kind) {
            Some(variable) => Some(*variable),
            None => return,
        },
        Share::Node | Share::Zone => None,
    };
    let presence = there.map_or(1.0, |variable| values[variable.at()]);
    let beside: Vec<(ActorIx, Variable)> = relaxation.pairs_of[middle]
        .iter()
        .filter_map(|&(other, pair)| Some((other, variable(&relaxation.pairs[pair as usize], share)?)))
        .filter(|(_, variable)| values[variable.at()] > LEAST)
        .collect();
    for (position, &(a, with_a)) in beside.iter().enumerate() {
        for &(c, with_c) in &beside[position + 1..] {
            let excess = values[with_a.at()] + values[with_c.at()] - presence;
            if excess <= LEAST {
                continue;
            }
            let of_a = &relaxation.pairs_of[a];
            // A pair that was not looked at may be together or not: nothing is known.
            let Ok(at) = of_a.binary_search_by_key(&c, |(other, _)| *other) else { continue };
            let across = variable(&relaxation.pairs[of_a[at].1 as usize], share);
            let excess = excess - across.map_or(0.0, |variable| values[variable.at()]);
            if excess > LEAST {
                let mut terms = vec![(with_a, 1), (with_c, 1)];
                terms.extend(across.map(|variable| (variable, -1)));
                terms.extend(there.map(|variable| (variable, -1)));
                cuts.push((millionths(excess), terms, i64::from(there.is_none())));
            }
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 2")]
fn millionths(excess: f64) -> u64 {
    (excess * 1e6) as u64
}
