//! Libraries on the traits alone: whatever back-end is there, they are the same (hicr.txt 4.3).

pub mod channel;
pub mod data_object;
pub mod deployment;
pub mod rpc;
pub mod tasking;
