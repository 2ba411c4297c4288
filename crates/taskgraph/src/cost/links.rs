//! Time per byte between processing elements: the direct link, or the cheapest path.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::{Links, MapError, Platform};

/// Time per byte by pair of processing elements, row-major; 0 on the diagonal.
///
/// `needed` tells whether the graph has messages; without messages the platform may omit its links.
pub(super) fn per_byte(platform: &Platform, needed: bool) -> Result<Vec<f64>, MapError> {
    let pes = platform.pes().len();
    match &platform.links {
        _ if pes == 1 => Ok(vec![0.0]),
        Some(Links::Uniform(bandwidth)) => {
            let all = (0..pes * pes).map(|at| if at / pes == at % pes { 0.0 } else { bandwidth.recip() });
            Ok(all.collect())
        }
        Some(Links::Some(links)) => {
            let mut near: Vec<Vec<(usize, f64)>> = vec![Vec::new(); pes];
            for link in links {
                near[link.a].push((link.b, link.bandwidth.recip()));
                near[link.b].push((link.a, link.bandwidth.recip()));
            }
            let mut all = Vec::with_capacity(pes * pes);
            for from in 0..pes {
                let row = cheapest(&near, from);
                let unreached = row.iter().position(|cost| !cost.is_finite());
                if let Some(to) = unreached.filter(|_| needed) {
                    let (a, b) = (&platform.pes()[from].id, &platform.pes()[to].id);
                    return Err(MapError::Platform { what: format!("a path from {a} to {b} (links)") });
                }
                all.extend(row.into_iter().map(|cost| if cost.is_finite() { cost } else { 0.0 }));
            }
            Ok(all)
        }
        None if needed => {
            Err(MapError::Platform { what: "links between its processing elements (links)".to_owned() })
        }
        None => Ok(vec![0.0; pes * pes]),
    }
}

#[derive(PartialEq)]
struct Reached {
    cost: f64,
    at: usize,
}

impl Eq for Reached {}

impl PartialOrd for Reached {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Reached {
    fn cmp(&self, other: &Self) -> Ordering {
        other.cost.total_cmp(&self.cost).then(other.at.cmp(&self.at))
    }
}

/// Single-source shortest paths (Dijkstra).
fn cheapest(near: &[Vec<(usize, f64)>], from: usize) -> Vec<f64> {
    let mut least = vec![f64::INFINITY; near.len()];
    least[from] = 0.0;
    let mut open = BinaryHeap::from([Reached { cost: 0.0, at: from }]);
    while let Some(Reached { cost, at }) = open.pop() {
        if cost > least[at] {
            continue;
        }
        for &(next, more) in &near[at] {
            if cost + more < least[next] {
                least[next] = cost + more;
                open.push(Reached { cost: cost + more, at: next });
            }
        }
    }
    least
}
