//! Online schedulers: rounds over a queue of ready tasks.
//!
//! The rules are those of CEDR (Mack et al., ACM TECS 2022, section 2.5, and its published code). A [`Round`] holds
//! the scheduler's view and counts its work: simulated runtimes charge for it, real ones measure it.

mod cache;
mod classes;
mod eft;
mod etf;
mod etf_indexed;
mod heft_rt;
mod met;
mod round;
mod simple;

pub use cache::Cache;
pub use classes::{Class, Classes, NEVER};
pub use eft::Eft;
pub use etf::Etf;
pub use etf_indexed::EtfIndexed;
pub use heft_rt::HeftRt;
pub use met::Met;
pub use round::{Dispatch, Pool, Ready, Round, Scheduler};
pub use simple::Simple;

/// Names of all schedulers, in listing order.
pub const SCHEDULERS: [&str; 6] = ["SIMPLE", "MET", "EFT", "ETF", "ETF_INDEXED", "HEFT_RT"];

/// A new scheduler by name.
pub fn scheduler(name: &str) -> Option<Box<dyn Scheduler>> {
    Some(match name {
        "SIMPLE" => Box::new(Simple::default()),
        "MET" => Box::new(Met::default()),
        "EFT" => Box::new(Eft),
        "ETF" => Box::new(Etf),
        "ETF_INDEXED" => Box::new(EtfIndexed),
        "HEFT_RT" => Box::new(HeftRt),
        _ => return None,
    })
}
