//! The policies, as they are compiled in: one family of rules per file.

use placement::{constraints, criteria};

/// The workload of units, which comes first.
pub(crate) const WORKLOAD: &str = include_str!("../../../policies/workload.lp");

/// The approximated workload of the APO paper's authors, which takes the place of [`WORKLOAD`].
pub(crate) const APPROXIMATED: &str = include_str!("../../../policies/workload-approximated.lp");

/// What several criteria and constraints count.
const SHARED: &[&str] = &[
    include_str!("../../../policies/places.lp"),
    include_str!("../../../policies/use.lp"),
    include_str!("../../../policies/power.lp"),
];

/// What searches go by.
const SEARCH: &[&str] =
    &[include_str!("../../../policies/symmetry.lp"), include_str!("../../../policies/incumbent.lp")];

/// Every rule over facts: each constraint's and each criterion's, once; a family without facts grounds to nothing.
pub(crate) fn program<'a>(workload: &'static str, facts: &'a str) -> Vec<&'a str> {
    let mut program: Vec<&str> = vec![workload];
    program.extend(SHARED.iter().copied());
    for rules in constraints::programs().into_iter().chain(criteria::programs()).chain(SEARCH.iter().copied())
    {
        if !program.contains(&rules) {
            program.push(rules);
        }
    }
    program.push(facts);
    program
}
