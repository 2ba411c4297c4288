//! Strategies from elsewhere.

mod external;
mod matching;
mod metis;
mod partition;
mod repair;

pub use external::External;
pub use metis::Metis;
