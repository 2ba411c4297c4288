//! The ready queue of a unit: a binary heap of actors by next timestamp, laid out exactly like Python's `heapq`.
//!
//! The layout is the tie-break between equal timestamps, hence part of the simulation's semantics.

/// Arranges `queue` into a heap by `next`, the next timestamp of each actor: `heapq.heapify`.
#[inline]
pub fn heapify(queue: &mut [u32], next: &[f64]) {
    for root in (0..queue.len() / 2).rev() {
        sift(queue, next, root);
    }
}

/// Appends an actor and moves it up: `heapq.heappush`.
pub fn push(queue: &mut Vec<u32>, next: &[f64], actor: u32) {
    queue.push(actor);
    let last = queue.len() - 1;
    move_up(queue, next, 0, last);
}

/// Moves the smaller child up, the right one on a tie, down to a leaf; then sifts the item up while it is strictly
/// smaller than its parent.
#[inline]
fn sift(queue: &mut [u32], next: &[f64], root: usize) {
    let item = queue[root];
    let mut at = root;
    let mut child = 2 * at + 1;
    while child < queue.len() {
        let right = child + 1;
        if right < queue.len() && next[queue[child] as usize] >= next[queue[right] as usize] {
            child = right;
        }
        queue[at] = queue[child];
        at = child;
        child = 2 * at + 1;
    }
    queue[at] = item;
    move_up(queue, next, root, at);
}

#[inline]
fn move_up(queue: &mut [u32], next: &[f64], root: usize, mut at: usize) {
    let item = queue[at];
    while at > root {
        let parent = (at - 1) / 2;
        if next[item as usize] >= next[queue[parent] as usize] {
            break;
        }
        queue[at] = queue[parent];
        at = parent;
    }
    queue[at] = item;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{heapify, push};

    /// The layout that Python produces for these keys, as positions.
    #[test]
    fn ties_are_broken_as_in_cpython() {
        let cases: [(&[f64], &[u32]); 4] = [
            (&[1.0, 1.0], &[1, 0]),
            (&[1.0, 1.0, 1.0], &[2, 1, 0]),
            (&[1.0, 1.0, 1.0, 1.0], &[2, 3, 0, 1]),
            (&[2.0, 1.0, 1.0], &[2, 1, 0]),
        ];
        for (next, expected) in cases {
            let mut queue: Vec<u32> = (0..u32::try_from(next.len()).unwrap()).collect();
            heapify(&mut queue, next);
            assert_eq!(queue, expected, "{next:?}");
        }
    }

    proptest! {
        #[test]
        fn no_parent_is_larger_than_its_children(next in proptest::collection::vec(0u8..6, 1..20)) {
            let next: Vec<f64> = next.into_iter().map(f64::from).collect();
            let mut queue = Vec::new();
            for actor in 0..u32::try_from(next.len()).unwrap() {
                push(&mut queue, &next, actor);
                if actor % 3 == 0 {
                    heapify(&mut queue, &next);
                }
                for at in 1..queue.len() {
                    prop_assert!(next[queue[(at - 1) / 2] as usize] <= next[queue[at] as usize]);
                }
            }
        }
    }
}
