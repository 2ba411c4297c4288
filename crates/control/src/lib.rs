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

pub use back_off::{BackOffs, LONGEST_WAIT};
pub use commit::{Verdict, infeasible, still_stands};
pub use due::{
    BACKGROUND, Considered, Due, LOOK_AGAIN, Openings, SecondLook, Strain, due, is_whole, loads, look_again,
    openings, strain, turns,
};
pub use gain::{Gain, gain, go_or_stay};
pub use heal::{is_carried_out, only_finish, only_heal};
pub use heartbeats::Heartbeats;
pub use mend::mend;
pub use nouns::{
    About, Actor, Amounts, Decision, HeldBack, Id, Instance, Left, Loss, Moment, Pod, Refusal, Scope, Seen,
    State, Taken, Unit, Wanted,
};
pub use observed::Observed;
pub use place_one::{only_asked, place_one};
pub use refusals::{Refusals, Refused};
pub use start::{all_or_nothing, has_started, hold_start};
pub use steps::{End, Step, Todo, steps};
pub use stuck::stuck;
pub use wait::Wait;
