//! The policies, as they are compiled in: one family of rules per file.

/// Every rule; a family without facts grounds to nothing.
pub(crate) const RULES: &[&str] = &[
    include_str!("../../../policies/workload.lp"),
    include_str!("../../../policies/choose.lp"),
    include_str!("../../../policies/places.lp"),
    include_str!("../../../policies/overload.lp"),
    include_str!("../../../policies/bottleneck.lp"),
    include_str!("../../../policies/use.lp"),
    include_str!("../../../policies/consolidate.lp"),
    include_str!("../../../policies/power.lp"),
    include_str!("../../../policies/energy.lp"),
    include_str!("../../../policies/licence.lp"),
    include_str!("../../../policies/power-cap.lp"),
    include_str!("../../../policies/spread.lp"),
    include_str!("../../../policies/latency.lp"),
    include_str!("../../../policies/communication.lp"),
    include_str!("../../../policies/annoyance.lp"),
    include_str!("../../../policies/interference.lp"),
    include_str!("../../../policies/migration.lp"),
    include_str!("../../../policies/prefer.lp"),
    include_str!("../../../policies/limits.lp"),
    include_str!("../../../policies/relations.lp"),
    include_str!("../../../policies/symmetry.lp"),
    include_str!("../../../policies/incumbent.lp"),
];

/// The approximated workload of the APO paper's authors, which takes the place of the first of [`RULES`].
pub(crate) const APPROXIMATED: &str = include_str!("../../../policies/workload-approximated.lp");
