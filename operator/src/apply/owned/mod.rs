//! Objects that an application owns besides its actors, such as template revisions, and the owner references of all objects.

pub mod ownership;
mod resources;
pub mod revisions;
