//! The papers' experiments by name: each writes its tables and figures into one folder.
//!
//! A new experiment is one module and one line in [`ALL`].

mod annealing;
mod apo;
mod cedr;
mod chart;
pub mod contest;
mod semi_static;
mod setting;
mod statistics;

pub use setting::{Experiment, Failure, Setting};

/// Every experiment, in the order in which they are listed to people.
pub const ALL: &[Experiment] = &[
    Experiment {
        name: "table-1",
        summary: "APO: non-connected, ring and chain after one decision",
        run: apo::table_1,
    },
    Experiment {
        name: "figure-4",
        summary: "APO: the surveillance example as the paper tells it",
        run: apo::figure_4,
    },
    Experiment {
        name: "surveillance",
        summary: "APO: surveillance as in the authors' files",
        run: apo::surveillance,
    },
    Experiment {
        name: "figure-5",
        summary: "APO: 64 actors, a hotspot that comes and goes",
        run: apo::figure_5,
    },
    Experiment {
        name: "hotspot",
        summary: "APO: the 64 actors of Figure 5 over several traces; moves free and charged",
        run: apo::hotspot_seeds,
    },
    Experiment {
        name: "moving-hotspot",
        summary: "APO, beyond it: a hotspot that is elsewhere each time; moves free and charged",
        run: apo::moving_hotspot,
    },
    Experiment {
        name: "energy",
        summary: "APO, beyond it: tasks and watts without and with a cap on power",
        run: apo::energy,
    },
    Experiment {
        name: "partial-kinds",
        summary: "APO, beyond it: actors that run on some kinds only",
        run: apo::partial_kinds,
    },
    Experiment {
        name: "gamma",
        summary: "APO, section III-C: the weights of the annoyance in the three worlds",
        run: apo::gamma,
    },
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
