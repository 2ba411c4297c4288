//! The installed product as users see it: from the chart, on simulated nodes, through the API.
//!
//! A few control planes with the product [`installation`] on each; a test with a [`TestEnv`](env::TestEnv) uses one exclusively and
//! finds it empty. Each file covers one topic.

#![expect(clippy::unwrap_used, reason = "tests")]

mod agent_restarts;
mod api_server;
mod api_server_outage;
mod bad_counters;
mod capacity;
mod churn;
mod claims;
mod cli;
mod counters;
mod disruption_budgets;
mod elective_moves;
mod env;
mod failing_pods;
mod failing_reads;
mod failing_writes;
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
mod outcomes;
mod paused;
mod peers;
mod permissions;
mod pod_templates;
mod policies;
mod priorities;
mod recovery;
mod rollouts;
mod runtime_requests;
mod slow_api_server;
mod stillness;
mod tenants;
mod unresponsive;
mod upgrade;
mod would_move;
