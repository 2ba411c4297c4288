//! Traces: which task schedules which at what logical times; read, written, generated and held in memory.

mod generate;
mod read;
mod rows;
mod write;

pub use generate::{Hotspot, Kind, KindError, Phold, Surveillance};
pub use read::{Reader, TraceError, read_file};
pub use rows::{HEADER, Row, Sent, Trace};
pub use write::{Writer, write_file};
