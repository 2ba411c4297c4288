//! The product as its users meet it: installed from the chart, on simulated nodes, seen through the API.
//!
//! A few control planes with the product [`installation`] on each; whoever holds a [`env`](stage::TestEnv) has one of them alone, and
//! finds it empty. Each file is about one thing that users rely on.

#![expect(clippy::unwrap_used, reason = "tests")]

mod agent_restarts;
mod api_server;
mod api_server_outage;
mod capacity;
mod churn;
mod cli;
mod disruption_budgets;
mod env;
mod failing_pods;
mod failover;
mod faults;
mod foreign_objects;
mod idle;
mod installation;
mod leader_election;
mod lifecycle;
mod mismatch;
mod node_loss;
mod operator_crash;
mod paused;
mod peers;
mod permissions;
mod policies;
mod priorities;
mod recovery;
mod rollouts;
mod runtime_requests;
mod slow_api_server;
mod tenants;
mod unresponsive;
mod upgrade;
