//! The node agent as people run it: described machines, drivers that are not well, descriptions that are not right.

mod descriptors;
mod drivers;
mod garbage;
mod machines;
mod tool;
