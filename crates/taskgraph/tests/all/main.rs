//! Integration tests of file formats, validation and the schedule checker.

mod cedr;
mod checker;
mod corpus;
mod files;
mod rounds;
