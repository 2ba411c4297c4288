//! The strategy [`Asp`], which has every way to search work together, and the [registry](strategies) of all strategies.
//!
//! Small worlds are proven as a whole, by branch and bound or by clingo; large ones are improved by the native search, and a
//! bound is worked out beside it. What is reported of an answer (which
//! stage found it, whether it is proven, which bound is known) is said here and nowhere else.
//!
//! Who uses this crate needs no other way to clingo: the judge and the solver process are handed on. An executable calls
//! [`run_child_if_asked`] first in `main`.

mod ablation;
mod anytime_loop;
mod asp_strategy;
mod clingo;
mod registry;
mod search_state;
mod solve_to_optimality;

pub use ablation::Ablation;
pub use asp::{ClingoJudge, Limits, run_child_if_asked};
pub use asp_strategy::Asp;
pub use clingo::Clingo;
pub use registry::{Purpose, RegisteredStrategy, UnknownStrategy, strategies, strategy};
