//! Instances × strategies × budgets × seeds: run, record, compare.

mod bounds;
mod cells;
mod commit;
mod comparisons;
mod instance;
mod measure;
mod memory;
mod plot;
mod record;
mod summary;
mod table;

pub use bounds::Bounds;
pub use commit::{CommitError, commit};
pub use instance::{BestKnown, Instance, InstanceError};
pub use measure::{Run, apart, measure};
pub use memory::children;
pub use plot::{cost_over_time, gap_by_size};
pub use record::Record;
pub use summary::{Cell, Summary, ratio};
pub use table::markdown;
