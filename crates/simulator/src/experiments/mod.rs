//! The papers' experiments by name: each writes its tables and figures into one folder.
//!
//! A new experiment is one module and one line in [`ALL`].

mod annealing;
mod apo;
mod cedr;
mod chart;
mod claims;
pub mod contest;
mod load;
mod semi_static;
mod setting;
mod statistics;

pub use setting::{Experiment, Failure, Setting};

/// Every experiment, in listing order.
pub const ALL: &[Experiment] = &[
    Experiment::new("table-1", "APO: non-connected, ring and chain after one decision", apo::table_1),
    Experiment::new("figure-4", "APO, Figure 4: surveillance example", apo::figure_4),
    Experiment::new("surveillance", "APO: surveillance workload of the authors' files", apo::surveillance),
    Experiment::new("figure-5", "APO, Figure 5: 64 actors, stochastic hotspot", apo::figure_5),
    Experiment::new(
        "hotspot",
        "APO: the 64 actors of Figure 5 over several traces, moves free and charged",
        apo::hotspot_seeds,
    ),
    Experiment::new(
        "moving-hotspot",
        "APO extension: moving hotspot, moves free and charged",
        apo::moving_hotspot,
    ),
    Experiment::new(
        "gated-hotspot",
        "APO extension: moving hotspot under the operator's gate, moves charged",
        apo::gated_hotspot,
    ),
    Experiment::new("energy", "APO extension: energy under a power cap", apo::energy),
    Experiment::new(
        "partial-kinds",
        "APO extension: actors restricted to some device kinds",
        apo::partial_kinds,
    ),
    Experiment::new("gamma", "APO, section III-C: weights of the annoyance criterion", apo::gamma),
    Experiment::new("cedr-sweep", "CEDR, Figures 3, 4, 6: sweep of 3,480 runs", cedr::sweep).without_seeds(),
    Experiment::new("cedr-slices", "CEDR, Figures 5, 7, 10: injection rates on the full pool", cedr::slices)
        .without_seeds(),
    Experiment::new("cedr-utilisation", "CEDR, Figure 8: utilisation of the full pool", cedr::utilisation)
        .without_seeds(),
    Experiment::new("cedr-gantt", "CEDR, Figures 9, 15: Gantt charts", cedr::charts).without_seeds(),
    Experiment::new("cedr-cache", "CEDR, Figure 11: schedule caching", cedr::cache).without_seeds(),
    Experiment::new("cedr-queues", "CEDR, Figure 13: work queues", cedr::queues).without_seeds(),
    Experiment::new("cedr-streaming", "CEDR, Table 6: streaming", cedr::streaming).without_seeds(),
    Experiment::new("cedr-gpu", "CEDR, Figure 16: platform with a GPU", cedr::gpu).without_seeds(),
    annealing::TABLES,
    semi_static::EXAMPLE,
    semi_static::SAMPLING,
    semi_static::GRAPHS,
    semi_static::COST,
    semi_static::SINGLE,
    semi_static::TIME,
    load::NOISE,
    load::CHANGE,
];

/// The experiment with this name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    ALL.iter().find(|experiment| experiment.name == name)
}
