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

/// Where actors go, and what takes its place where a finished placement is judged.
const CHOOSE: &str = include_str!("../../../policies/choose.lp");
const PLACED: &str = include_str!("../../../policies/judge.lp");

/// Channels between whole groups, which only who judges is told of.
const CROWDS: &str = include_str!("../../../policies/crowds.lp");

/// Every rule over the facts of a finished placement, but those that searches go by.
pub(crate) fn judge(facts: &str) -> Vec<&str> {
    let mut program = program(WORKLOAD, facts);
    program.retain(|rules| !SEARCH.contains(rules));
    for rules in program.iter_mut().filter(|rules| **rules == CHOOSE) {
        *rules = PLACED;
    }
    program.push(CROWDS);
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
