//! The strategy [`Asp`], which combines all search methods, and the [registry](strategies) of strategies.
//!
//! Small snapshots are solved to proven optimality by branch and bound or by clingo; large ones are improved by the
//! native search while a lower bound is computed. Only this crate reports which stage found an answer, whether it is
//! proven, and its bounds.
//!
//! The judge and the solver process are re-exported, so that users need no other way to clingo. An executable calls
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
