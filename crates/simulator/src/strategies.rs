//! Registry of the strategies that a simulation can use, by name.

use placement::Strategy;
use portfolio::{Limits, Purpose};

use crate::planner::{GatePlanner, Planner, SnapshotModel, StrategyPlanner};

/// The strategy name that never moves an actor.
pub const NONE: &str = "none";

/// A strategy and how its answers are applied.
struct Entry {
    strategy: Box<dyn Strategy>,
    /// Whether answers are applied unchanged: baselines bypass `plan()`, which keeps the running assignment if an answer
    /// is worse.
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

/// All strategies, in listing order.
pub fn strategies() -> Vec<Box<dyn Strategy>> {
    entries().into_iter().map(|entry| entry.strategy).collect()
}

/// A planner that decides like the operator for measured load, with the named strategy.
///
/// # Errors
/// An unknown name.
pub fn gate_planner(
    name: &str,
    facts: SnapshotModel,
    effort: Option<u64>,
    seed: u64,
) -> Result<GatePlanner, String> {
    let entry = entries().into_iter().find(|entry| entry.strategy.name() == name);
    let entry = entry.ok_or_else(|| format!("unknown strategy {name}"))?;
    Ok(GatePlanner::new(entry.strategy, facts, effort, seed))
}

/// A planner with the named strategy; an inner `None` never moves an actor. Plans of Cairn's own strategies must gain
/// `least_gain`, if given ([`StrategyPlanner::behind`]).
///
/// # Errors
/// An unknown name; the error lists the valid ones.
pub fn planner(
    name: &str,
    facts: SnapshotModel,
    effort: Option<u64>,
    seed: u64,
    least_gain: Option<f64>,
) -> Result<Option<Box<dyn Planner>>, String> {
    if name == NONE {
        return Ok(None);
    }
    let Some(entry) = entries().into_iter().find(|entry| entry.strategy.name() == name) else {
        let names: Vec<&str> = entries().iter().map(|entry| entry.strategy.name()).collect();
        return Err(format!("unknown strategy {name}; use one of {NONE}, {}", names.join(", ")));
    };
    let planner = StrategyPlanner::new(entry.strategy, facts, effort, seed).behind(least_gain);
    Ok(Some(Box::new(if entry.as_it_is { planner.as_it_is() } else { planner })))
}
