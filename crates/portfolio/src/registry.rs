//! The registry of strategies by name, which the operator, the command line and the benchmarks read.

use asp::Limits;
use exact::Exhaustive;
use placement::Strategy;
use search::{Greedy, Local, Random, RoundRobin};

use crate::asp_strategy::Asp;
use crate::clingo::Clingo;

/// What a strategy is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The default of a policy, for running applications.
    Production,
    /// Offline planning and comparisons.
    Offline,
}

/// A strategy of the registry.
#[derive(Clone, Copy)]
pub struct RegisteredStrategy {
    is_for_production: bool,
    make: fn(Limits) -> Box<dyn Strategy>,
}

/// The first one is the default. Strategies that are not for production ignore costs, or fail on large snapshots; they
/// serve as baselines and references.
const REGISTRY: [RegisteredStrategy; 7] = [
    RegisteredStrategy { is_for_production: true, make: |limits| Box::new(Asp::new(limits)) },
    RegisteredStrategy { is_for_production: true, make: |_| Box::new(Greedy) },
    RegisteredStrategy { is_for_production: true, make: |_| Box::new(Local) },
    RegisteredStrategy { is_for_production: true, make: |limits| Box::new(Clingo::new(limits)) },
    RegisteredStrategy { is_for_production: false, make: |_| Box::new(RoundRobin) },
    RegisteredStrategy { is_for_production: false, make: |_| Box::new(Random) },
    RegisteredStrategy { is_for_production: false, make: |_| Box::new(Exhaustive) },
];

impl RegisteredStrategy {
    /// The short, stable name that policies and arguments use.
    pub fn name(&self) -> &'static str {
        self.make(Limits::default()).name()
    }

    /// One line for users who choose a strategy.
    pub fn summary(&self) -> &'static str {
        self.make(Limits::default()).summary()
    }

    /// Whether a policy may name it.
    pub fn is_for_production(&self) -> bool {
        self.is_for_production
    }

    /// Creates the strategy; `limits` apply to its solver process, if it starts one.
    pub fn make(&self, limits: Limits) -> Box<dyn Strategy> {
        (self.make)(limits)
    }

    fn is_for(&self, purpose: Purpose) -> bool {
        purpose == Purpose::Offline || self.is_for_production
    }
}

/// Why a name denotes no usable strategy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownStrategy {
    /// No strategy has the name.
    #[error("there is no strategy `{name}`; use one of {known}")]
    Unknown {
        /// The name.
        name: String,
        /// Names of usable strategies.
        known: String,
    },
    /// The strategy is not for running applications.
    #[error("strategy `{name}` is a baseline for comparison, not for production; use one of {known}")]
    NotForProduction {
        /// The name.
        name: String,
        /// Names of usable strategies.
        known: String,
    },
}

/// Every strategy for a purpose, in the order in which users see them.
pub fn strategies(purpose: Purpose) -> impl Iterator<Item = RegisteredStrategy> {
    REGISTRY.into_iter().filter(move |entry| entry.is_for(purpose))
}

/// A strategy by its name.
///
/// # Errors
/// When there is none of that name, or it is not for this purpose; the error lists usable ones.
pub fn strategy(name: &str, purpose: Purpose) -> Result<RegisteredStrategy, UnknownStrategy> {
    let known = || strategies(purpose).map(|entry| entry.name()).collect::<Vec<_>>().join(", ");
    match REGISTRY.into_iter().find(|entry| entry.name() == name) {
        Some(entry) if entry.is_for(purpose) => Ok(entry),
        Some(_) => Err(UnknownStrategy::NotForProduction { name: name.to_owned(), known: known() }),
        None => Err(UnknownStrategy::Unknown { name: name.to_owned(), known: known() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_summaries_have_one_line() {
        let mut names: Vec<&str> = strategies(Purpose::Offline).map(|entry| entry.name()).collect();
        assert_eq!(names.first(), Some(&"asp"), "the default is listed first");
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), REGISTRY.len());
        for entry in strategies(Purpose::Offline) {
            assert!(!entry.summary().is_empty() && !entry.summary().contains('\n'), "{}", entry.name());
        }
    }

    #[test]
    fn baselines_are_not_for_production() {
        let answer = |name, purpose| {
            strategy(name, purpose).map_or_else(|e| e.to_string(), |entry| entry.name().to_owned())
        };
        assert_eq!(answer("local", Purpose::Production), "local");
        assert_eq!(answer("random", Purpose::Offline), "random");
        for name in ["random", "round-robin", "exhaustive"] {
            assert_eq!(
                answer(name, Purpose::Production),
                format!(
                    "strategy `{name}` is a baseline for comparison, not for production; use one of asp, \
                     greedy, local, clingo"
                )
            );
        }
        assert_eq!(
            answer("best", Purpose::Production),
            "there is no strategy `best`; use one of asp, greedy, local, clingo"
        );
        assert_eq!(
            answer("metis", Purpose::Offline),
            "there is no strategy `metis`; use one of asp, greedy, local, clingo, round-robin, random, exhaustive"
        );
    }
}
