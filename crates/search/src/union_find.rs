//! Union-find, by parent pointers.

use std::ops::IndexMut;

/// The root of a set.
pub(crate) fn find_root<K: Copy + PartialEq>(
    parents: &mut (impl IndexMut<K, Output = K> + ?Sized),
    mut one: K,
) -> K {
    while parents[one] != one {
        // Path halving.
        let next = parents[parents[one]];
        parents[one] = next;
        one = next;
    }
    one
}
