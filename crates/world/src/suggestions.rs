//! Suggestions for an unknown name.

use std::cmp::Reverse;

/// Maximum number of suggestions.
const MAX_NAMES: usize = 8;

/// Existing names, those with the longest common prefix first: `app-1, app-10 and 990 more`.
///
/// Only the part after the last `/` is compared.
pub fn suggestions<T: AsRef<str>>(names: &[T], wanted: &str) -> String {
    let last = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
    let wanted = last(wanted);
    let alike =
        |name: &str| last(name).chars().zip(wanted.chars()).take_while(|(its, other)| its == other).count();
    let mut names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    names.sort_unstable_by_key(|name| (Reverse(alike(name)), *name));
    let shown = names.iter().take(MAX_NAMES).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MAX_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_prefixes_come_first_and_the_list_is_bounded() {
        for (names, wanted, expected) in [
            ("", "shop/web", ""),
            ("shop/web", "default/wen", "shop/web"),
            ("a/cart b/web a/wax", "a/web", "b/web, a/wax, a/cart"),
            (
                "n-1 n-2 n-3 n-4 n-5 n-6 n-7 n-8 n-9 m-1",
                "m-2",
                "m-1, n-1, n-2, n-3, n-4, n-5, n-6, n-7 and 2 more",
            ),
        ] {
            let names: Vec<&str> = names.split_whitespace().collect();
            assert_eq!(suggestions(&names, wanted), expected, "{wanted}");
        }
    }
}
