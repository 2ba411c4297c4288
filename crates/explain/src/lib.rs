//! Explains placements: why actors are where they are, and why some are unplaced. Pure.
//!
//! [`explain_plan`] fills in the reasons of a plan, [`explain()`] prices alternatives and reports binding limits,
//! [`explain_unplaced`] finds an irreducible set of limits that leaves an actor no place, and [`remedies`] the smallest
//! changes that would make room for it, or for several at once.

mod change;
mod core;
mod explain;
mod feasibility;
mod kept_rules;
mod limit;
mod moves;
mod obstacles;
mod obstacles_in_place;
mod oracle;
mod plan_reasons;
mod question;
mod rebuild;
mod relaxation;
mod relaxations;
mod remedy;
mod rule_caps;
mod search;
mod wording;

pub use self::change::Change;
pub use self::core::{Core, UnplacedCause, explain_unplaced};
pub use self::explain::{Alternative, Binding, Explanation, LimitCost, Outcome, PlacedActor, explain};
pub use self::limit::{Limit, LimitGroup};
pub use self::obstacles::{moves, obstacles};
pub use self::plan_reasons::{REASONS_EFFORT, explain_plan, reasons, with_open_rules};
pub use self::rebuild::Rebuild;
pub use self::remedy::{Remedy, remedies};
