//! The strategies that can decide in a simulated world, by name; the only place that knows where they come from.

use placement::Strategy;
use portfolio::{Limits, Purpose};

use crate::planner::{Facts, Placing, Planner};

/// The name that stands for never moving anything.
pub const NONE: &str = "none";

/// A strategy, and how its answers are taken.
struct Entry {
    strategy: Box<dyn Strategy>,
    /// Whether they are carried out as they are: baselines get no help from `plan()`, which keeps what runs where an
    /// answer is worse.
    as_it_is: bool,
}

fn entries() -> Vec<Entry> {
    use baselines::strategies::{Annealing, Metis, MetisApolike};
    let baselines: [Box<dyn Strategy>; 7] = [
        Box::new(Metis),
        Box::new(MetisApolike::Fair),
        Box::new(MetisApolike::Published),
        Box::new(MetisApolike::Capacities),
        Box::new(MetisApolike::Homogeneous),
        Box::new(Annealing::NEXT_STATE),
        Box::new(Annealing::STANDARD),
    ];
    let ours = portfolio::strategies(Purpose::Offline).map(|entry| {
        let as_it_is = ["round-robin", "random"].contains(&entry.name());
        Entry { strategy: entry.make(Limits::default()), as_it_is }
    });
    ours.chain(baselines.map(|strategy| Entry { strategy, as_it_is: true })).collect()
}

/// All strategies, in the order in which they are listed to people.
pub fn strategies() -> Vec<Box<dyn Strategy>> {
    entries().into_iter().map(|entry| entry.strategy).collect()
}

/// A planner that uses the strategy of this name; an inner `None` never moves anything. Plans of ours have to gain
/// `least_gain`, where it is given ([`Placing::behind`]).
///
/// # Errors
/// When there is no such strategy; names those that there are.
pub fn planner(
    name: &str,
    facts: Facts,
    effort: Option<u64>,
    seed: u64,
    least_gain: Option<f64>,
) -> Result<Option<Box<dyn Planner>>, String> {
    if name == NONE {
        return Ok(None);
    }
    let Some(entry) = entries().into_iter().find(|entry| entry.strategy.name() == name) else {
        let names: Vec<&str> = entries().iter().map(|entry| entry.strategy.name()).collect();
        return Err(format!("there is no strategy {name}; there are {NONE}, {}", names.join(", ")));
    };
    let planner = Placing::new(entry.strategy, facts, effort, seed).behind(least_gain);
    Ok(Some(Box::new(if entry.as_it_is { planner.as_it_is() } else { planner })))
}
