//! The papers' experiments by name: each writes its tables and figures into one folder.
//!
//! A new experiment is one module and one line in [`ALL`].

mod annealing;
mod cedr;
mod chart;
mod semi_static;
mod setting;
mod statistics;

pub use setting::{Failure, Setting};

/// One experiment.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// The name on the command line and the stem of the files that it writes.
    pub name: &'static str,
    /// One line for people who choose.
    pub summary: &'static str,
    /// Runs it.
    pub run: fn(&Setting) -> Result<(), Failure>,
}

/// Every experiment, in the order in which they are listed to people.
pub const ALL: &[Experiment] = &[
    Experiment { name: "cedr-sweep", summary: "CEDR, Figures 3, 4, 6: 3,480 runs", run: cedr::sweep },
    Experiment {
        name: "cedr-slices",
        summary: "CEDR, Figures 5, 7, 10: over rates, on the full pool",
        run: cedr::slices,
    },
    Experiment {
        name: "cedr-utilisation",
        summary: "CEDR, Figure 8: how busy the full pool is",
        run: cedr::utilisation,
    },
    Experiment {
        name: "cedr-gantt",
        summary: "CEDR, Figures 9, 15: who ran when and where",
        run: cedr::charts,
    },
    Experiment { name: "cedr-cache", summary: "CEDR, Figure 11: schedule caching", run: cedr::cache },
    Experiment { name: "cedr-queues", summary: "CEDR, Figure 13: work queues", run: cedr::queues },
    Experiment { name: "cedr-streaming", summary: "CEDR, Table 6: streaming", run: cedr::streaming },
    Experiment { name: "cedr-gpu", summary: "CEDR, Figure 16: a board with a GPU", run: cedr::gpu },
    Experiment {
        name: "annealing-tables",
        summary: "annealing, Table II, Figures 1, 2: both annealers, K-way and bin packing",
        run: annealing::tables,
    },
    Experiment {
        name: "semi-static-example",
        summary: "semi-static, Tables 3 to 5: the graph of ten nodes",
        run: semi_static::example,
    },
    Experiment {
        name: "semi-static-sampling",
        summary: "semi-static, 5.4: four ways to choose a region's mapping",
        run: semi_static::sampling,
    },
    Experiment {
        name: "semi-static-graphs",
        summary: "semi-static, Figures 7 to 9: shapes and sizes of graphs",
        run: semi_static::graphs,
    },
    Experiment {
        name: "semi-static-cost",
        summary: "semi-static, Table 6: what reconfigurations cost",
        run: semi_static::cost,
    },
    Experiment {
        name: "semi-static-single",
        summary: "semi-static, Figure 10: the best single mapping",
        run: semi_static::single,
    },
    Experiment {
        name: "semi-static-time",
        summary: "semi-static, 5.8: how long mapping takes",
        run: semi_static::time,
    },
];

/// The experiment of this name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    ALL.iter().find(|experiment| experiment.name == name)
}
