//! The strategy [`Asp`], which has every way to search work together, and the [registry](strategies) of all strategies.
//!
//! Small worlds are proven as a whole, by branch and bound or by clingo; large ones are improved by the native search, and a
//! bound is worked out beside it. What is reported of an answer (which
//! stage found it, whether it is proven, which bound is known) is said here and nowhere else.
//!
//! Who uses this crate needs no other way to clingo: the judge and the solver process are handed on. An executable calls
//! [`run_child_if_asked`] first in `main`.

mod clingo;
mod part;
mod registry;
mod rounds;
mod run;
mod strategy;
mod whole;

pub use asp::{ClingoJudge, Limits, run_child_if_asked};
pub use clingo::Clingo;
pub use part::Part;
pub use registry::{Entry, UnknownStrategy, Use, strategies, strategy};
pub use strategy::Asp;
