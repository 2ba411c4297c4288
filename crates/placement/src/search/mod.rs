//! `local`: a search that starts from a placement and looks for better ones nearby, and ever farther.

mod anneal;
mod balance;
mod construct;
mod exchange;
mod figures;
mod items;
mod layout;
mod local;
mod model;
mod schedule;
mod session;
mod weights;

pub use local::{Local, improve};
pub use session::{Search, Terrain};
