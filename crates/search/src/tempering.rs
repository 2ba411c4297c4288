//! Replica exchange (Swendsen and Wang 1986; Geyer 1991): chains at temperatures that stay, of which neighbours change
//! places as often as chance alone would have brought each to where the other is.

#![expect(clippy::cast_precision_loss, reason = "temperatures and parts of a run need no more than 52 bits")]

use crate::anneal::Chain;
use crate::replica::{Course, Replica};
use crate::schedule::{LONGEST, ROUND};
use crate::worker::{Worker, run_all};

/// How many replicas there are, for the square root of the items and each factor e of temperature; the fewest, and the most.
const DENSITY: f64 = 0.5;
const REPLICAS: (u32, u32) = (4, 48);

/// The coldest replica and the hottest, in mean losses.
const COLD: f64 = 0.05;
const HOT: f64 = 0.3;

/// What a mean work of excess costs at first, in mean losses. Dearer excess is a higher wall between good placements,
/// cheaper excess leaves none that is feasible.
const PRICE: f64 = 5.0;

/// How often chains may be within limits, at least and at most, over all replicas: else the price is changed, by a factor,
/// after a window of so many rounds. The coldest replicas alone say little, as they seldom change.
const FEASIBLE: (f64, f64) = (0.003, 0.15);
const CHANGE: f64 = 1.1;
const WINDOW: u64 = 64;

/// Steps per item between two exchanges, at least.
const SWEEPS: u64 = 60;

/// How many replicas a world of so many items has.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is between the fewest and the most"
)]
fn replicas(items: usize) -> u32 {
    let (least, most) = REPLICAS;
    let wanted = (items as f64).sqrt() * (HOT / COLD).ln() * DENSITY;
    wanted.clamp(f64::from(least), f64::from(most)) as u32
}

/// Whether replicas go from hot to cold in no more steps than the longest runs of as many chains take: among neighbours that change
/// places at random that takes as many exchanges as there are replicas, squared. With more, a few long runs find more in the same
/// time.
fn changes_places_soon(items: usize, chains: u64) -> bool {
    u64::from(replicas(items)).pow(3) * SWEEPS <= chains * LONGEST
}

/// What the replicas have in common; the coldest comes first.
pub(crate) struct Tempering {
    temperatures: Vec<f64>,
    /// What a mean work of excess costs, in mean losses.
    price: f64,
    /// Pieces that each replica runs between two exchanges.
    turn: u64,
    /// Pieces that are run at the same time: together they are one of effort.
    threads: u64,
    /// Pieces of all replicas together that are done since the last.
    done: u64,
    /// Exchanges.
    rounds: u64,
    /// Of the chains looked at in this window, how many there were, and how many were within limits.
    seen: (u64, u64),
    rng: fastrand::Rng,
}

impl Tempering {
    /// Whether a world is for replica exchange by so many threads: small, with a few losses far above the others. Where most losses
    /// are as large as the mean, parts hang together from afar, and runs from hot bring order into that sooner.
    pub fn suits(chain: &Chain, threads: u64) -> bool {
        let (mean, median) = chain.scales();
        changes_places_soon(chain.solution.model.free, threads) && median * 2.0 < mean
    }

    /// Sets replicas up that all begin where the chain has its best, or where it stands if it met nothing within the limits, to be
    /// run on so many threads.
    pub fn new<'t>(chain: &mut Chain<'t>, threads: u64) -> (Self, Vec<Replica<'t>>) {
        let (mean, _) = chain.scales();
        let (items, steps) = (chain.solution.model.free, chain.solution.model.steps());
        let replicas = replicas(items);
        let part = |replica: u32| f64::from(replica) / f64::from(replicas - 1);
        let temperatures: Vec<f64> =
            (0..replicas).map(|replica| mean * COLD * (HOT / COLD).powf(part(replica))).collect();
        let begin = if chain.has_best() { chain.best_places() } else { chain.solution.place.clone() };
        let replica = |temperature: &f64| {
            let mut chain = chain.fork();
            chain.go_to(&begin);
            chain.set_prices(PRICE, PRICE);
            Replica { chain, course: Course::Steady(*temperature) }
        };
        let replicas: Vec<Replica> = temperatures.iter().map(replica).collect();
        let sweeps = (SWEEPS * items as u64).div_ceil(steps);
        let tempering = Self {
            price: PRICE,
            turn: sweeps.max((ROUND * threads).div_ceil(replicas.len() as u64)),
            threads,
            done: 0,
            rounds: 0,
            seen: (0, 0),
            rng: chain.fork_rng(),
            temperatures,
        };
        (tempering, replicas)
    }

    /// Pieces of effort up to the next exchange of so many replicas.
    pub fn next_turn(&self, replicas: usize) -> u64 {
        (replicas as u64 * self.turn - self.done).div_ceil(self.threads)
    }

    /// Runs so many pieces of effort, at most up to the next exchange; says how many.
    pub fn run<'t>(&mut self, replicas: &mut Vec<Replica<'t>>, pieces: u64, workers: &[Worker<'t>]) -> u64 {
        let count = replicas.len() as u64;
        let all = count * self.turn;
        let effort = self.next_turn(replicas.len()).min(pieces);
        let end = (self.done + effort * self.threads).min(all);
        // One piece after the other goes to one replica after the other.
        let before = |piece: u64, replica: u64| (piece + count - 1 - replica) / count;
        let shares: Vec<u64> =
            (0..count).map(|replica| before(end, replica) - before(self.done, replica)).collect();
        run_all(replicas, &shares, workers);
        self.done = end;
        if self.done == all {
            self.done = 0;
            self.swap_replicas(replicas);
        }
        effort
    }

    fn swap_replicas(&mut self, replicas: &mut [Replica]) {
        self.rounds += 1;
        self.follow_limits(replicas);
        let mut replica = (self.rounds % 2) as usize;
        while replica + 1 < replicas.len() {
            let (cold, hot) = (&replicas[replica].chain, &replicas[replica + 1].chain);
            let colder = 1.0 / self.temperatures[replica] - 1.0 / self.temperatures[replica + 1];
            let chance = (cold.weight() - hot.weight()) * colder;
            if chance >= 0.0 || self.rng.f64() < chance.exp() {
                replicas.swap(replica, replica + 1);
                for replica in [replica, replica + 1] {
                    replicas[replica].course = Course::Steady(self.temperatures[replica]);
                }
            }
            replica += 2;
        }
    }

    fn follow_limits(&mut self, replicas: &mut [Replica]) {
        self.seen.0 += replicas.len() as u64;
        self.seen.1 += replicas.iter().filter(|replica| replica.chain.is_within_limits()).count() as u64;
        if !self.rounds.is_multiple_of(WINDOW) {
            return;
        }
        let feasible = self.seen.1 as f64 / self.seen.0 as f64;
        self.seen = (0, 0);
        let (least, most) = FEASIBLE;
        if feasible < least {
            self.price *= CHANGE;
        } else if feasible > most {
            self.price /= CHANGE;
        }
        for replica in replicas {
            replica.chain.set_prices(self.price, self.price);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_change_places_in_small_worlds_alone() {
        assert_eq!([1, 30, 64, 256, 10_000].map(replicas), [4, 4, 7, 14, 48]);
        assert!((1..=280).all(|items| changes_places_soon(items, 2)));
        assert!((281..2_000).all(|items| !changes_places_soon(items, 2)));
        assert!(changes_places_soon(320, 3), "on more threads more of it is done in the same time");
    }
}
