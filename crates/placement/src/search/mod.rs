//! `local`: a search that starts from a placement and looks for better ones nearby, and ever farther.

mod anneal;
mod balance;
mod companion;
mod construct;
mod exchange;
mod figures;
mod items;
mod ladder;
mod layout;
mod leap;
mod local;
mod model;
mod rearrange;
mod regions;
mod schedule;
mod session;
mod walker;
mod weights;

pub use local::{Local, improve};
pub use session::{Search, Terrain};
