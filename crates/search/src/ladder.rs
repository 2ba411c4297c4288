//! Replica exchange (Swendsen and Wang 1986; Geyer 1991): walks at temperatures that stay, of which neighbours change
//! places as often as chance alone would have brought each to where the other is.

#![expect(clippy::cast_precision_loss, reason = "temperatures and parts of a run need no more than 52 bits")]

use crate::anneal::Walk;
use crate::companion::{Companion, run_all};
use crate::schedule::{ROUND, STEPS};
use crate::walker::{Course, Walker};

/// Items up to which a ladder is climbed fast enough: with more, a few long coolings find more in the same time.
const MOST_ITEMS: usize = 300;

/// How many rungs there are, for the square root of the items and each factor e of temperature; the fewest, and the most.
const DENSITY: f64 = 0.5;
const RUNGS: (u32, u32) = (4, 48);

/// The coldest rung and the hottest, in mean losses.
const COLD: f64 = 0.05;
const HOT: f64 = 0.3;

/// What a mean work of excess costs at first, in mean losses. Dearer excess is a higher wall between good placements,
/// cheaper excess leaves none that is lawful.
const PRICE: f64 = 5.0;

/// How often walks may be within limits, at least and at most, over all rungs: else the price is changed, by a factor,
/// after a window of so many rounds. The coldest rungs alone say little, as they seldom change.
const LAWFUL: (f64, f64) = (0.003, 0.15);
const CHANGE: f64 = 1.1;
const WINDOW: u64 = 64;

/// Steps per item between two exchanges, at least.
const SWEEPS: u64 = 60;

/// What the rungs have in common. The rungs are walkers, the coldest first.
pub(crate) struct Ladder {
    temperatures: Vec<f64>,
    /// What a mean work of excess costs, in mean losses.
    price: f64,
    /// Pieces that each rung runs between two exchanges.
    turn: u64,
    /// Pieces that are run at the same time: together they are one of effort.
    threads: u64,
    /// Pieces of all rungs together that are done since the last.
    done: u64,
    /// Exchanges.
    rounds: u64,
    /// Of the walks looked at in this window, how many there were, and how many were within limits.
    seen: (u64, u64),
    dice: fastrand::Rng,
}

impl Ladder {
    /// Whether a world is for a ladder: small, with a few losses far above the others. Where most losses are as large as
    /// the mean, parts hang together from afar, and coolings from hot bring order into that sooner.
    pub fn suits(walk: &Walk) -> bool {
        let (mean, median) = walk.scales();
        walk.layout.model.free <= MOST_ITEMS && median * 2.0 < mean
    }

    /// Sets a ladder up on which all begin where the walk has its best, to be run on so many threads.
    pub fn new<'t>(walk: &mut Walk<'t>, threads: u64) -> (Self, Vec<Walker<'t>>) {
        let (mean, _) = walk.scales();
        let items = walk.layout.model.free;
        let (least, most) = RUNGS;
        let wanted = (items as f64).sqrt() * (HOT / COLD).ln() * DENSITY;
        let rungs = wanted.clamp(f64::from(least), f64::from(most)).floor();
        let part = |rung: f64| rung / (rungs - 1.0);
        let temperatures: Vec<f64> = (0..most)
            .map(f64::from)
            .take_while(|rung| *rung < rungs)
            .map(|rung| mean * COLD * (HOT / COLD).powf(part(rung)))
            .collect();
        let best = walk.best_places();
        let rung = |temperature: &f64| {
            let mut walk = walk.fork();
            walk.go_to(&best);
            walk.set_prices(PRICE, PRICE);
            Walker { walk, course: Course::Steady(*temperature) }
        };
        let rungs: Vec<Walker> = temperatures.iter().map(rung).collect();
        let sweeps = (SWEEPS * items as u64).div_ceil(STEPS);
        let ladder = Self {
            price: PRICE,
            turn: sweeps.max((ROUND * threads).div_ceil(rungs.len() as u64)),
            threads,
            done: 0,
            rounds: 0,
            seen: (0, 0),
            dice: walk.fork_dice(),
            temperatures,
        };
        (ladder, rungs)
    }

    /// Runs so many pieces of effort, at most up to the next exchange; says how many.
    pub fn run<'t>(&mut self, rungs: &mut Vec<Walker<'t>>, pieces: u64, companions: &[Companion<'t>]) -> u64 {
        let count = rungs.len() as u64;
        let all = count * self.turn;
        let effort = (all - self.done).div_ceil(self.threads).min(pieces);
        let end = (self.done + effort * self.threads).min(all);
        // One piece after the other goes to one rung after the other.
        let before = |piece: u64, rung: u64| (piece + count - 1 - rung) / count;
        let shares: Vec<u64> = (0..count).map(|rung| before(end, rung) - before(self.done, rung)).collect();
        run_all(rungs, &shares, companions);
        self.done = end;
        if self.done == all {
            self.done = 0;
            self.exchange(rungs);
        }
        effort
    }

    fn exchange(&mut self, rungs: &mut [Walker]) {
        self.rounds += 1;
        self.follow_limits(rungs);
        let mut rung = (self.rounds % 2) as usize;
        while rung + 1 < rungs.len() {
            let (cold, hot) = (&rungs[rung].walk, &rungs[rung + 1].walk);
            let colder = 1.0 / self.temperatures[rung] - 1.0 / self.temperatures[rung + 1];
            let chance = (cold.weight() - hot.weight()) * colder;
            if chance >= 0.0 || self.dice.f64() < chance.exp() {
                rungs.swap(rung, rung + 1);
                for rung in [rung, rung + 1] {
                    rungs[rung].course = Course::Steady(self.temperatures[rung]);
                }
            }
            rung += 2;
        }
    }

    fn follow_limits(&mut self, rungs: &mut [Walker]) {
        self.seen.0 += rungs.len() as u64;
        self.seen.1 += rungs.iter().filter(|rung| rung.walk.is_within_limits()).count() as u64;
        if !self.rounds.is_multiple_of(WINDOW) {
            return;
        }
        let lawful = self.seen.1 as f64 / self.seen.0 as f64;
        self.seen = (0, 0);
        let (least, most) = LAWFUL;
        if lawful < least {
            self.price *= CHANGE;
        } else if lawful > most {
            self.price /= CHANGE;
        }
        for rung in rungs {
            rung.walk.set_prices(self.price, self.price);
        }
    }
}
