//! Why things are where they are, and why something has no place. Pure.
//!
//! [`tell`] fills in the reasons of a plan, [`explain()`] says what it would cost to be elsewhere and what binds,
//! [`why_not`] finds an irreducible set of limits that leaves an actor no place, and [`remedies`] the smallest changes that would
//! make room for it, or for several at once.

mod caps;
mod change;
mod core;
mod explain;
mod limit;
mod moves;
mod obstacles;
mod oracle;
mod origin;
mod relax;
mod remedy;
mod ruled;
mod search;
mod stay;
mod told;
mod verdict;
mod view;
mod views;
mod words;

pub use self::change::Change;
pub use self::core::{Core, WhyNot, why_not};
pub use self::explain::{Alternative, Binding, Explanation, Outcome, Relief, Whereabouts, explain};
pub use self::limit::{Element, Limit};
pub use self::obstacles::{moves, obstacles};
pub use self::origin::Origin;
pub use self::remedy::{Remedy, remedies};
pub use self::told::{REASONS_EFFORT, open_to_questions, reasons, tell};
