//! How long things take by the clock of a budget: what cannot be cut short is begun in time, and a search that no clock ends is not
//! changed by it.

use std::time::Duration;

use placement::Budget;

/// Rounds of late that are remembered: their median says how long a piece takes, whatever else the machine did in one of them.
const ROUNDS: usize = 9;

/// Rounds before which that says little.
const FEWEST: usize = 3;

/// How long parts of a search took, where its budget has a clock.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// A piece of effort, in each of the last rounds.
    pieces: Vec<Duration>,
    /// How many rounds there were.
    rounds: usize,
    /// A placement offered to the best.
    offer: Duration,
    /// A look at the best, the last one.
    look: Option<Duration>,
}

impl Pace {
    /// Does what may take long, and says how long it took.
    pub fn timed<T>(budget: &Budget, act: impl FnOnce() -> T) -> (T, Option<Duration>) {
        let before = budget.left.map(|left| left());
        let done = act();
        let took = before.zip(budget.left).map(|(before, left)| before.saturating_sub(left()));
        (done, took)
    }

    /// A round of so many pieces took so long.
    pub fn note_round(&mut self, pieces: u64, took: Option<Duration>) {
        let Some(took) = took else { return };
        if self.pieces.len() < ROUNDS {
            self.pieces.push(Duration::ZERO);
        }
        self.pieces[self.rounds % ROUNDS] = took / count(pieces).max(1);
        self.rounds += 1;
    }

    /// So many offers took so long.
    pub fn note_offers(&mut self, offers: u64, took: Option<Duration>) {
        self.offer = took.map_or(self.offer, |took| took / count(offers).max(1));
    }

    /// A look at the best took so long.
    pub fn note_look(&mut self, took: Option<Duration>) {
        self.look = took.or(self.look);
    }

    /// Whether it is known how long a piece takes.
    pub fn is_known(&self) -> bool {
        self.pieces.len() >= FEWEST
    }

    /// What so many pieces take, and a look at the best after them that follows chains for `followed` pieces and offers what it
    /// finds.
    pub fn of_look(&self, pieces: u64, followed: u64, offers: u64) -> Duration {
        let mut rounds = self.pieces.clone();
        rounds.sort_unstable();
        let piece = rounds.get(rounds.len() / 2).copied().unwrap_or_default();
        let guess = piece * count(followed) + self.offer * count(offers);
        // The last look may have had nothing to follow, or a processor that was busy with something else.
        let look = self.look.map_or(guess, |look| look.clamp(guess, guess * 2));
        look + piece * count(pieces)
    }
}

fn count(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_round_in_which_the_machine_did_something_else_says_little() {
        let milliseconds = |number| Some(Duration::from_millis(number));
        let mut pace = Pace::default();
        pace.note_offers(2, milliseconds(4));
        for took in [500, 20, 20] {
            assert!(!pace.is_known());
            pace.note_round(10, milliseconds(took));
        }
        assert_eq!(Some(pace.of_look(5, 100, 4)), milliseconds(10 + 200 + 8));
        for (look, counts) in [(100, 208), (300, 300), (900, 416)] {
            pace.note_look(milliseconds(look));
            assert_eq!(Some(pace.of_look(0, 100, 4)), milliseconds(counts));
        }
        for _ in 0..9 {
            pace.note_round(10, milliseconds(40));
        }
        assert_eq!(Some(pace.of_look(5, 0, 0)), milliseconds(20));
        pace.note_round(10, None);
        assert_eq!(Some(pace.of_look(5, 0, 0)), milliseconds(20));
    }
}
