//! The papers' experiments by name: each writes its tables and figures into one folder.
//!
//! A new experiment is one module and one line in [`ALL`].

mod annealing;
mod apo;
mod cedr;
mod chart;
mod claims;
pub mod contest;
mod semi_static;
mod setting;
mod statistics;

pub use setting::{Experiment, Failure, Setting};

/// Every experiment, in the order in which they are listed to people.
pub const ALL: &[Experiment] = &[
    Experiment::new("table-1", "APO: non-connected, ring and chain after one decision", apo::table_1),
    Experiment::new("figure-4", "APO: the surveillance example as the paper tells it", apo::figure_4),
    Experiment::new("surveillance", "APO: surveillance as in the authors' files", apo::surveillance),
    Experiment::new("figure-5", "APO: 64 actors, a hotspot that comes and goes", apo::figure_5),
    Experiment::new(
        "hotspot",
        "APO: the 64 actors of Figure 5 over several traces; moves free and charged",
        apo::hotspot_seeds,
    ),
    Experiment::new(
        "moving-hotspot",
        "APO, beyond it: a hotspot that is elsewhere each time; moves free and charged",
        apo::moving_hotspot,
    ),
    Experiment::new("energy", "APO, beyond it: tasks and watts without and with a cap on power", apo::energy),
    Experiment::new(
        "partial-kinds",
        "APO, beyond it: actors that run on some kinds only",
        apo::partial_kinds,
    ),
    Experiment::new(
        "gamma",
        "APO, section III-C: the weights of the annoyance in the three worlds",
        apo::gamma,
    ),
    Experiment::new("cedr-sweep", "CEDR, Figures 3, 4, 6: 3,480 runs", cedr::sweep).without_seeds(),
    Experiment::new("cedr-slices", "CEDR, Figures 5, 7, 10: over rates, on the full pool", cedr::slices)
        .without_seeds(),
    Experiment::new("cedr-utilisation", "CEDR, Figure 8: how busy the full pool is", cedr::utilisation)
        .without_seeds(),
    Experiment::new("cedr-gantt", "CEDR, Figures 9, 15: who ran when and where", cedr::charts)
        .without_seeds(),
    Experiment::new("cedr-cache", "CEDR, Figure 11: schedule caching", cedr::cache).without_seeds(),
    Experiment::new("cedr-queues", "CEDR, Figure 13: work queues", cedr::queues).without_seeds(),
    Experiment::new("cedr-streaming", "CEDR, Table 6: streaming", cedr::streaming).without_seeds(),
    Experiment::new("cedr-gpu", "CEDR, Figure 16: a board with a GPU", cedr::gpu).without_seeds(),
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
