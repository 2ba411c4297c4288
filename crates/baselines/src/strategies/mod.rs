//! Strategies from the literature and other tools.

mod annealing;
mod external;
mod kway;
mod matching;
mod metis;
mod metis_apolike;
mod partition;
mod repair;
mod tabu;

pub use annealing::Annealing;
pub use external::External;
pub use kway::KWay;
pub use metis::Metis;
pub use metis_apolike::MetisApolike;
pub use tabu::Tabu;
