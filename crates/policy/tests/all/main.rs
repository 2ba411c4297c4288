//! Tests of policies: budgets of grounding, pairs, and rejected programs.

mod budget;
mod pairs;
mod refused;
