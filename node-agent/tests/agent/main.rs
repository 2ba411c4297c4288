//! End-to-end tests of the node agent's program: described machines, failing drivers, malformed descriptions.

mod descriptors;
mod drivers;
mod garbage;
mod links;
mod machines;
mod tool;
