//! The policies, as they are compiled in: one family of rules per file.

use placement::criteria::all_measures;

/// The workload of units, which comes first.
pub(crate) const WORKLOAD: &str = include_str!("../../../policies/workload.lp");

/// The approximated workload of the APO paper's authors, which takes the place of [`WORKLOAD`].
pub(crate) const APPROXIMATED: &str = include_str!("../../../policies/workload-approximated.lp");

/// What is chosen, and what several criteria count.
const BASE: &[&str] = &[
    include_str!("../../../policies/choose.lp"),
    include_str!("../../../policies/places.lp"),
    include_str!("../../../policies/use.lp"),
    include_str!("../../../policies/power.lp"),
];

/// What is allowed, and what searches go by.
const LIMITS: &[&str] = &[
    include_str!("../../../policies/power-cap.lp"),
    include_str!("../../../policies/limits.lp"),
    include_str!("../../../policies/relations.lp"),
    include_str!("../../../policies/symmetry.lp"),
    include_str!("../../../policies/incumbent.lp"),
];

/// Every rule over facts, each criterion's among them; a family without facts grounds to nothing.
pub(crate) fn program<'a>(workload: &'static str, facts: &'a str) -> Vec<&'a str> {
    let mut program: Vec<&str> = vec![workload];
    program.extend(BASE.iter().copied());
    for measure in all_measures() {
        program.push(measure.program());
    }
    program.extend(LIMITS.iter().copied());
    program.push(facts);
    program
}
