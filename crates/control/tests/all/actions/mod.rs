//! The actions towards a decision: one line describes a cluster, one line its actions.

mod elective;
mod failures;
mod moves;
mod properties;
mod restricted;
mod rollout;
mod scenario;
