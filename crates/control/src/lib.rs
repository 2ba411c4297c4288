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

mod back_off;
mod commit;
mod due;
mod gain;
mod heal;
mod heartbeats;
mod mend;
mod nouns;
mod observed;
mod place_one;
mod quota;
mod refusals;
mod room;
mod start;
mod steps;
mod stuck;
mod update;
mod wait;

pub use back_off::{Backoffs, MAX_BACKOFF};
pub use commit::{Verdict, infeasible, revalidate_plan};
pub use due::{
    BACKGROUND_INTERVAL, Openings, PlanInputs, PlanReason, Pressure, RESYNC_PERIOD, ResumeSearch,
    background_slots, is_burst_over, loads, openings, plan_reason, pressure, requeue_after,
};
pub use gain::{Gain, gain, require_gain};
pub use heal::{finish_in_flight, is_fully_applied, repair_only};
pub use heartbeats::Heartbeats;
pub use mend::repair_plan;
pub use nouns::{
    Backoff, Decision, DesiredActor, DesiredState, FreeCapacity, FreeUnit, Instance, Moment, NameConflict,
    NodeOutage, ObjectId, ObservedState, Pod, PodPhase, Refusal, RefusalKey, RefusalScope, ResourceAmounts,
};
pub use observed::KeepRunning;
pub use place_one::{only_requests_changed, place_one};
pub use refusals::{RefusalTracker, RefusedPod};
pub use start::{all_or_nothing, has_started, hold_start};
pub use steps::{Action, Actions, StopMode, next_actions};
pub use stuck::stuck_moves;
pub use wait::BlockedOn;
