//! Strategies from elsewhere.

mod external;

pub use external::External;
