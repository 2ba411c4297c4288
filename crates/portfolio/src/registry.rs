//! Every strategy there is, by name: the one list that the operator, the command line and the benches read.

use asp::Limits;
use exact::Exhaustive;
use placement::Strategy;
use search::{Greedy, Local, Random, RoundRobin};

use crate::asp_strategy::Asp;
use crate::clingo::Clingo;

/// What a strategy is chosen for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A policy's default for applications that run.
    Production,
    /// Anything else: a look at a file, a comparison.
    Offline,
}

/// One strategy of the registry.
#[derive(Clone, Copy)]
pub struct RegisteredStrategy {
    is_for_production: bool,
    make: fn(Limits) -> Box<dyn Strategy>,
}

/// What is listed first is the default. Those that are not for production place at random or without regard to cost, or
/// end with an error where a world is large: they are there to compare and to check others by.
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
    /// Short and stable: what policies and arguments name.
    pub fn name(&self) -> &'static str {
        self.make(Limits::default()).name()
    }

    /// One line for people who choose.
    pub fn summary(&self) -> &'static str {
        self.make(Limits::default()).summary()
    }

    /// Whether a policy may name it.
    pub fn is_for_production(&self) -> bool {
        self.is_for_production
    }

    /// The strategy; `limits` are those of the solver process, if it starts one.
    pub fn make(&self, limits: Limits) -> Box<dyn Strategy> {
        (self.make)(limits)
    }

    fn is_for(&self, used: Purpose) -> bool {
        used == Purpose::Offline || self.is_for_production
    }
}

/// Why a name stands for no strategy that may be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownStrategy {
    /// No strategy has the name.
    #[error("there is no strategy `{name}`; use one of {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// Names that may be used.
        known: String,
    },
    /// There is one, and it is not for applications that run.
    #[error(
        "strategy `{name}` is there to compare and to check others by, not for production; use one of {known}"
    )]
    NotForProduction {
        /// What was asked for.
        name: String,
        /// Names that may be used.
        known: String,
    },
}

/// Every strategy that may be used so, in the order in which they are listed to people.
pub fn strategies(used: Purpose) -> impl Iterator<Item = RegisteredStrategy> {
    REGISTRY.into_iter().filter(move |entry| entry.is_for(used))
}

/// A strategy by its name.
///
/// # Errors
/// When there is none of that name, or it may not be used so; says which may.
pub fn strategy(name: &str, used: Purpose) -> Result<RegisteredStrategy, UnknownStrategy> {
    let known = || strategies(used).map(|entry| entry.name()).collect::<Vec<_>>().join(", ");
    match REGISTRY.into_iter().find(|entry| entry.name() == name) {
        Some(entry) if entry.is_for(used) => Ok(entry),
        Some(_) => Err(UnknownStrategy::NotForProduction { name: name.to_owned(), known: known() }),
        None => Err(UnknownStrategy::Unknown { name: name.to_owned(), known: known() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart_and_each_has_one_line() {
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
    fn what_compares_is_not_for_production() {
        let answer =
            |name, used| strategy(name, used).map_or_else(|e| e.to_string(), |entry| entry.name().to_owned());
        assert_eq!(answer("local", Purpose::Production), "local");
        assert_eq!(answer("random", Purpose::Offline), "random");
        for name in ["random", "round-robin", "exhaustive"] {
            assert_eq!(
                answer(name, Purpose::Production),
                format!(
                    "strategy `{name}` is there to compare and to check others by, not for production; use one of asp, \
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
