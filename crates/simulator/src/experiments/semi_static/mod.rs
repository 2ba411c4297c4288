//! The semi-static paper's experiments: tables of mappings against ECT, the genetic algorithm on-line, and the ideal.
//!
//! Regions are made when a profile first comes into them: a region built alone equals the table's, and profiles visit
//! few of the 256.

mod example;
mod larger;
mod world;

use super::setting::Experiment;

/// Tables 3, 4 and 5.
pub const EXAMPLE: Experiment = Experiment {
    name: "semi-static-example",
    summary: "semi-static, Tables 3 to 5: the graph of ten nodes",
    run: example::example,
};
/// Section 5.4.
pub const SAMPLING: Experiment = Experiment {
    name: "semi-static-sampling",
    summary: "semi-static, 5.4: four ways to choose a region's mapping",
    run: larger::sampling,
};
/// Figures 7, 8 and 9.
pub const GRAPHS: Experiment = Experiment {
    name: "semi-static-graphs",
    summary: "semi-static, Figures 7 to 9: shapes and sizes of graphs",
    run: larger::graphs,
};
/// Table 6.
pub const COST: Experiment = Experiment {
    name: "semi-static-cost",
    summary: "semi-static, Table 6: what reconfigurations cost",
    run: larger::cost,
};
/// Figure 10.
pub const SINGLE: Experiment = Experiment {
    name: "semi-static-single",
    summary: "semi-static, Figure 10: the best single mapping",
    run: larger::single,
};
/// Section 5.8.
pub const TIME: Experiment = Experiment {
    name: "semi-static-time",
    summary: "semi-static, 5.8: how long mapping takes",
    run: example::time,
};
