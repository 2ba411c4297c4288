//! Snapshots for tests and benches: from a [`line`] of text, random ones by [seed](world), and [published] ones. Naive
//! implementations of the definitions, [by name](naive) and [by position](oracle), serve as references for the model.
#![expect(clippy::unwrap_used, reason = "a test that cannot build its own world should fail at once")]

mod grouped;
mod limits;
pub mod line;
pub mod naive;
pub mod oracle;
mod positions;
mod published;
mod random;
mod shapes;

pub use grouped::{grouped, stages, written_out};
pub use limits::ExceededLimits;
pub use published::{published, several};
pub use random::{over_full, world};
pub use shapes::{
    all_to_all, clusters, famine, grid, heavy_tails, kind_cycles, neighbours, shapes, stencil, tight_memory,
    tree,
};
