//! Plan: decides when an application needs a new plan, takes a snapshot, searches off the executor and has clingo judge the result.
//!
//! [`planning`] drains the planning queue and calls [`decide`]. Runtime requests are placed without a search by
//! [`runtime_requests`].

pub mod decide;
pub mod judged;
pub mod load;
pub mod observe;
pub mod planner;
pub mod planning;
pub mod policies;
pub mod runtime_requests;
pub mod searches;
pub mod share;
