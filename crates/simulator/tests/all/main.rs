//! Whole worlds, in one program: what is linked is linked once.

mod authors;
mod laws;
mod planning;
