//! The shipped logic programs, compiled in: one family of rules per file.

use placement::{constraints, criteria};

/// The workload of units.
pub(crate) const WORKLOAD: &str = include_str!("../../../policies/workload.lp");

/// The approximated workload of the APO paper's authors, which replaces [`WORKLOAD`].
pub(crate) const APPROXIMATED: &str = include_str!("../../../policies/workload-approximated.lp");

/// Quantities that several criteria and constraints use.
const SHARED: &[&str] = &[
    include_str!("../../../policies/places.lp"),
    include_str!("../../../policies/use.lp"),
    include_str!("../../../policies/power.lp"),
];

/// Rules that guide the search.
const SEARCH: &[&str] =
    &[include_str!("../../../policies/symmetry.lp"), include_str!("../../../policies/incumbent.lp")];

/// The choice of units, and its replacement when a finished placement is verified.
const CHOOSE: &str = include_str!("../../../policies/choose.lp");
const PLACED: &str = include_str!("../../../policies/judge.lp");

/// Channels between whole groups; only used to verify.
const GROUP_COUNTS: &str = include_str!("../../../policies/group-counts.lp");

/// Every rule over the facts of a finished placement, except those that guide the search.
pub(crate) fn judge(facts: &str) -> Vec<&str> {
    let mut program = program(WORKLOAD, facts);
    program.retain(|rules| !SEARCH.contains(rules));
    for rules in program.iter_mut().filter(|rules| **rules == CHOOSE) {
        *rules = PLACED;
    }
    program.push(GROUP_COUNTS);
    program
}

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
