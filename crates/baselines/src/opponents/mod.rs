//! Strategies from elsewhere.

mod external;
mod kway;
mod matching;
mod metis;
mod partition;
mod repair;

pub use external::External;
pub use kway::KWay;
pub use metis::Metis;
