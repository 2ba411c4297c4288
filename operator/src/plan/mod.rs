//! Plan: decides when an application needs a new plan, takes a snapshot, searches off the executor and has clingo judge the result.
//!
//! [`planning`] drains the planning queue and calls [`decide`]. Runtime requests are placed without a search by
//! [`runtime_requests`].

pub mod decide;
pub mod judged;
pub mod kept_policies;
pub mod load;
pub mod load_commit;
pub mod load_failures;
pub mod load_report;
pub mod load_search;
pub mod load_surroundings;
pub mod observe;
pub mod outcome;
pub mod planner;
pub mod planning;
pub mod policies;
pub mod policy_rollback;
pub mod policy_versions;
pub mod runtime_requests;
pub mod searches;
pub mod share;
