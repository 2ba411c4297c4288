//! Counters of a window: what an operator would observe.

use crate::platform::{DISTANCES, Distance};

/// Counters by ordered pair of actors: the delayed one and the cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairCounters {
    actors: usize,
    counts: Vec<u32>,
}

impl PairCounters {
    /// All counters at zero.
    pub fn new(actors: usize) -> Self {
        Self { actors, counts: vec![0; actors * actors] }
    }

    /// Adds `amount`.
    #[inline]
    pub fn add(&mut self, at: usize, from: usize, amount: u32) {
        let count = &mut self.counts[at * self.actors + from];
        *count = count.saturating_add(amount);
    }

    /// The count of a pair.
    pub fn get(&self, at: usize, from: usize) -> u32 {
        self.counts[at * self.actors + from]
    }

    /// Adds all counts of `other`.
    pub fn absorb(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
    }

    fn clear(&mut self) {
        self.counts.fill(0);
    }
}

/// Counters of a period: one window, or all windows since the last plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PeriodCounters {
    /// Length of the period in milliseconds.
    pub milliseconds: f64,
    /// Tasks committed.
    pub committed: u64,
    /// By actor: tasks committed.
    pub committed_by: Vec<u64>,
    /// By actor: tasks executed, including those rolled back later.
    pub executed: Vec<u64>,
    /// By actor: tasks rolled back.
    pub undone: Vec<u64>,
    /// By actor: progress of its logical time; negative after a rollback below the start of the period.
    pub progress: Vec<f64>,
    /// By unit: tasks executed.
    pub executed_on: Vec<u64>,
    /// By unit: busy milliseconds.
    pub busy: Vec<f64>,
    /// Tasks rolled back.
    pub rolled_back: u64,
    /// Committed tasks rolled back nevertheless: a message in flight was earlier than global virtual time.
    pub undone_committed: u64,
    /// By [`Distance`]: tasks sent.
    pub sent: [u64; DISTANCES],
    /// Anti-messages.
    pub anti_messages: u64,
    /// Null messages.
    pub null_messages: u64,
    /// Actors that migrated.
    pub moves: u64,
    /// By receiver and sender: messages that arrived.
    pub messages: PairCounters,
    /// By receiver and sender: stragglers (ρ of the APO paper, section III-C).
    pub late: PairCounters,
    /// By receiver and sender: null messages (η).
    pub nulls: PairCounters,
    /// By waiting actor and awaited actor: microseconds of idle units (ι).
    pub waited: PairCounters,
}

impl PeriodCounters {
    /// All counters at zero.
    pub fn new(actors: usize, units: usize) -> Self {
        Self {
            milliseconds: 0.0,
            committed: 0,
            committed_by: vec![0; actors],
            executed: vec![0; actors],
            undone: vec![0; actors],
            progress: vec![0.0; actors],
            executed_on: vec![0; units],
            busy: vec![0.0; units],
            rolled_back: 0,
            undone_committed: 0,
            sent: [0; DISTANCES],
            anti_messages: 0,
            null_messages: 0,
            moves: 0,
            messages: PairCounters::new(actors),
            late: PairCounters::new(actors),
            nulls: PairCounters::new(actors),
            waited: PairCounters::new(actors),
        }
    }

    /// Adds all counts of `other`.
    pub fn absorb(&mut self, other: &Self) {
        self.milliseconds += other.milliseconds;
        for (sum, more) in [
            (&mut self.committed, other.committed),
            (&mut self.rolled_back, other.rolled_back),
            (&mut self.undone_committed, other.undone_committed),
            (&mut self.anti_messages, other.anti_messages),
            (&mut self.null_messages, other.null_messages),
            (&mut self.moves, other.moves),
        ] {
            *sum += more;
        }
        for (sums, more) in [
            (&mut self.committed_by[..], &other.committed_by[..]),
            (&mut self.executed[..], &other.executed[..]),
            (&mut self.undone[..], &other.undone[..]),
            (&mut self.executed_on[..], &other.executed_on[..]),
            (&mut self.sent[..], &other.sent[..]),
        ] {
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
        for (sums, more) in [(&mut self.busy, &other.busy), (&mut self.progress, &other.progress)] {
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
        self.messages.absorb(&other.messages);
        self.late.absorb(&other.late);
        self.nulls.absorb(&other.nulls);
        self.waited.absorb(&other.waited);
    }

    /// Resets all counters.
    pub fn clear(&mut self) {
        let zero = |counts: &mut Vec<u64>| counts.fill(0);
        zero(&mut self.committed_by);
        zero(&mut self.executed);
        zero(&mut self.undone);
        self.progress.fill(0.0);
        zero(&mut self.executed_on);
        self.busy.fill(0.0);
        self.sent = [0; DISTANCES];
        self.milliseconds = 0.0;
        for count in [
            &mut self.committed,
            &mut self.rolled_back,
            &mut self.undone_committed,
            &mut self.anti_messages,
            &mut self.null_messages,
            &mut self.moves,
        ] {
            *count = 0;
        }
        for pairs in [&mut self.messages, &mut self.late, &mut self.nulls, &mut self.waited] {
            pairs.clear();
        }
    }

    /// Counts a task sent over this distance.
    #[inline]
    pub(super) fn send(&mut self, distance: Distance) {
        self.sent[distance as usize] += 1;
    }

    /// Committed tasks per millisecond.
    pub fn throughput(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
        let committed = self.committed as f64;
        committed / self.milliseconds
    }
}
