//! The product as its users meet it: installed from the chart, on simulated nodes, seen through the API.
//!
//! A few control planes with the product [`installed`] on each; whoever holds a [`stage`](stage::Stage) has one of them alone, and
//! finds it empty. Each file is about one thing that users rely on.

#![expect(clippy::unwrap_used, reason = "tests")]

mod again;
mod agents;
mod api_server;
mod away;
mod budgets;
mod churn;
mod crash;
mod decisions;
mod election;
mod failing;
mod installed;
mod lifecycle;
mod loss;
mod mismatch;
mod order;
mod paused;
mod peers;
mod policies;
mod recovery;
mod requests;
mod rest;
mod rights;
mod room;
mod silent;
mod slow;
mod stage;
mod strangers;
mod teams;
mod trouble;
mod updates;
mod upgrade;
