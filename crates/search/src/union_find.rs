//! Who belongs together, each by another one of its own, in the end by the one that stands for all.

use std::ops::IndexMut;

/// The one that stands for all with whom this one belongs together, as far as is known.
pub(crate) fn find_root<K: Copy + PartialEq>(
    heads: &mut (impl IndexMut<K, Output = K> + ?Sized),
    mut one: K,
) -> K {
    while heads[one] != one {
        // The way is half as long for whoever comes next.
        let next = heads[heads[one]];
        heads[one] = next;
        one = next;
    }
    one
}
