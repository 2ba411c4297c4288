//! The papers' experiments by name: each writes its tables and figures into one folder.
//!
//! A new experiment is one module and one line in [`ALL`].

mod annealing;
mod cedr;
mod chart;
mod semi_static;
mod setting;
mod statistics;

pub use setting::{Experiment, Failure, Setting};

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
    annealing::TABLES,
    semi_static::EXAMPLE,
    semi_static::SAMPLING,
    semi_static::GRAPHS,
    semi_static::COST,
    semi_static::SINGLE,
    semi_static::TIME,
];

/// The experiment of this name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    ALL.iter().find(|experiment| experiment.name == name)
}
