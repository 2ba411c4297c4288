//! Libraries on the traits alone, the same for every back-end (hicr.txt 4.3).

pub mod channel;
pub mod data_object;
pub mod deployment;
pub mod rpc;
pub mod tasking;
