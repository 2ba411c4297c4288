//! Pure decisions around a plan, without Kubernetes, a clock or a client.
//!
//! Every function handles one application. The caller passes the [`DesiredState`], the [`Decision`], the
//! [`ObservedState`], the [`PlanInputs`] of the last plan and the time.
//!
//! - [`plan_reason`]: whether a plan is needed and why; [`requeue_after`]: when to check again.
//!
//! - [`require_gain`], [`revalidate_plan`], [`repair_plan`], [`place_one`]: from a plan to a decision.
//!
//! - [`infeasible`]: which decided placements are no longer feasible.
//!
//! - [`next_actions`]: the next [`Action`] of every actor and what it is [blocked on](BlockedOn).
//!
//! - [`RefusalTracker`], [`Backoffs`], [`Heartbeats`]: state with an expiry.
//!
//! `world` builds the inputs from Kubernetes objects; the operator executes the actions; the simulator calls the same
//! functions.

mod actions;
mod backoff;
mod commit;
mod gain;
mod model;
mod trigger;

pub use actions::blocked_on::{BlockedOn, TurnLimit};
pub use actions::heal::{finish_in_flight, is_fully_applied, repair_only};
pub use actions::moves::{MoveState, stopped_for_gain};
pub use actions::stuck::stuck_moves;
pub use actions::{Action, Actions, StopMode, next_actions};
pub use backoff::refusals::{MAX_REASON_CHARS, RefusalTracker, RefusedPod};
pub use backoff::{Backoffs, INITIAL_BACKOFF, MAX_BACKOFF};
pub use commit::keep_running::KeepRunning;
pub use commit::place_one::{only_requests_changed, place_one};
pub use commit::repair::repair_plan;
pub use commit::start::{all_or_nothing, has_started, hold_start};
pub use commit::{Verdict, infeasible, revalidate_plan};
pub use gain::gate::{CHANGE_WINDOWS, GateRule, GateVerdict, least_with_pauses};
pub use gain::load::{LastLoadSearch, LoadJudgement, LoadSignal, LoadTerms, due_load_rule, judge_moves};
pub use gain::necessary::necessary_part;
pub use gain::outcome::{
    JUDGED_WINDOWS, RealisedGain, RealisedMoves, has_grown, is_slower, wait_after_failures,
};
pub use gain::price::{gains_by_level, mean_gain};
pub use gain::prune::{ElectiveMoves, WindowPrice, hold_actors};
pub use gain::{Gain, gain, require_gain};
pub use model::{
    Backoff, Decision, DesiredActor, DesiredState, ElectiveMove, FreeCapacity, FreeUnit, Instance, Moment,
    MoveLimits, NameConflict, NodeOutage, ObjectId, ObservedState, Pod, PodPhase, Refusal, RefusalKey,
    RefusalScope, ResourceAmounts,
};
pub use trigger::heartbeats::Heartbeats;
pub use trigger::{
    BACKGROUND_INTERVAL, Opening, Openings, PlanInputs, PlanReason, Pressure, RESYNC_PERIOD, ResumeSearch,
    background_slots, is_burst_over, is_record_outdated, loads, openings, plan_reason, pressure,
    requeue_after,
};
