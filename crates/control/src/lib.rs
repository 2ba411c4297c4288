//! The decisions around a plan: pure, without Kubernetes, a clock or a client.
//!
//! One application at a time. The caller says what is [`Wanted`], what was decided ([`Decision`]), what is there
//! ([`Seen`]), what was considered before ([`Considered`]) and what time it is; this crate answers whether a plan is
//! [`due`] and why, whether one gains enough ([`go_or_stay`]) and [`still_stands`] in the newest world, where somebody who was asked for gets a place at once ([`place_one`]), which decided places are [`infeasible`] now, the
//! next [`Step`] of every actor and what it waits for ([`steps()`]), which refusals count ([`Refusals`]), who is
//! silent ([`Heartbeats`]), and when to look again ([`look_again`]).
//!
//! `world` makes the nouns from Kubernetes objects, the operator turns steps into objects and words, and the simulator
//! calls the same functions.

mod actions;
mod backoff;
mod commit;
mod gain;
mod model;
mod trigger;

pub use actions::blocked_on::BlockedOn;
pub use actions::heal::{finish_in_flight, is_fully_applied, repair_only};
pub use actions::stuck::stuck_moves;
pub use actions::{Action, Actions, StopMode, next_actions};
pub use backoff::refusals::{RefusalTracker, RefusedPod};
pub use backoff::{Backoffs, MAX_BACKOFF};
pub use commit::keep_running::KeepRunning;
pub use commit::place_one::{only_requests_changed, place_one};
pub use commit::repair::repair_plan;
pub use commit::start::{all_or_nothing, has_started, hold_start};
pub use commit::{Verdict, infeasible, revalidate_plan};
pub use gain::{Gain, gain, require_gain};
pub use model::{
    Backoff, Decision, DesiredActor, DesiredState, FreeCapacity, FreeUnit, Instance, Moment, NameConflict,
    NodeOutage, ObjectId, ObservedState, Pod, PodPhase, Refusal, RefusalKey, RefusalScope, ResourceAmounts,
};
pub use trigger::heartbeats::Heartbeats;
pub use trigger::{
    BACKGROUND_INTERVAL, Openings, PlanInputs, PlanReason, Pressure, RESYNC_PERIOD, ResumeSearch,
    background_slots, is_burst_over, loads, openings, plan_reason, pressure, requeue_after,
};
