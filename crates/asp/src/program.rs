//! The policies, as they are compiled in: one family of rules per file.

/// Every rule; a family without facts grounds to nothing.
pub(crate) const RULES: &[&str] = &[
    include_str!("../../../policies/choose.lp"),
    include_str!("../../../policies/places.lp"),
    include_str!("../../../policies/overload.lp"),
    include_str!("../../../policies/communication.lp"),
    include_str!("../../../policies/annoyance.lp"),
    include_str!("../../../policies/interference.lp"),
    include_str!("../../../policies/migration.lp"),
    include_str!("../../../policies/prefer.lp"),
    include_str!("../../../policies/limits.lp"),
    include_str!("../../../policies/relations.lp"),
    include_str!("../../../policies/twins.lp"),
    include_str!("../../../policies/incumbent.lp"),
];
