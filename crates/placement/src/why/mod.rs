//! Why things are where they are, and why something has no place.

mod caps;
mod core;
mod explain;
mod limit;
mod moves;
mod oracle;
mod relax;
mod ruled;
mod search;
mod stay;
mod told;
mod view;
mod views;
mod words;

pub use self::core::{Core, Holds, WhyNot};
pub use self::explain::{Alternative, Binding, Explanation, Outcome, Relief, Whereabouts};
pub use self::limit::{Element, Limit};
pub use self::told::REASONS_EFFORT;
