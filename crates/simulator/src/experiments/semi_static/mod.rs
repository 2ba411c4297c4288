//! The semi-static paper's experiments: mapping tables against ECT, the online genetic algorithm, and the ideal.
//!
//! Regions are built when a profile first enters them: a region built alone equals the table's, and profiles visit
//! few of the 256.

mod example;
mod larger;
mod scenario;

use super::setting::Experiment;

/// Tables 3, 4 and 5.
pub const EXAMPLE: Experiment = Experiment::new(
    "semi-static-example",
    "semi-static, Tables 3 to 5: the graph of ten nodes",
    example::example,
)
.without_seeds();
/// Section 5.4.
pub const SAMPLING: Experiment = Experiment::new(
    "semi-static-sampling",
    "semi-static, 5.4: four ways to choose a region's mapping",
    larger::sampling,
);
/// Figures 7, 8 and 9.
pub const GRAPHS: Experiment = Experiment::new(
    "semi-static-graphs",
    "semi-static, Figures 7 to 9: shapes and sizes of graphs",
    larger::graphs,
);
/// Table 6.
pub const COST: Experiment =
    Experiment::new("semi-static-cost", "semi-static, Table 6: what reconfigurations cost", larger::cost);
/// Figure 10.
pub const SINGLE: Experiment =
    Experiment::new("semi-static-single", "semi-static, Figure 10: the best single mapping", larger::single);
/// Section 5.8.
pub const TIME: Experiment =
    Experiment::new("semi-static-time", "semi-static, 5.8: how long mapping takes", example::time)
        .without_seeds();
