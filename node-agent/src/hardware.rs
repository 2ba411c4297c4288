//! The hardware of the node that the agent runs on: who is asked, how, and what becomes of the answers.

pub mod reading;
