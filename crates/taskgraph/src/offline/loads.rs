//! Loads of a mapping, updated incrementally without drift.
//!
//! Times are integer multiples of a quantum, 2⁻¹⁰⁰ of more than the sum of all tasks and edges. Integer sums are
//! independent of their order, so that an undone move restores the exact state and equal loads compare equal;
//! in floating point, a load that falls from 10⁹ to 1 would keep an error of 10⁻⁷.

use crate::cost::{WorkEdge, WorkModel};

/// Bits of the total sum, with headroom for larger sums below 127 bits.
const BITS: i32 = 100;

/// A [`WorkModel`] in quanta.
#[derive(Clone, Debug)]
pub(super) struct Quanta<'a> {
    pub model: &'a WorkModel,
    pes: usize,
    own: Vec<i128>,
    /// Quanta per byte, by pair of processing elements.
    per_byte: Vec<f64>,
    /// By task: (receiver, bytes) and (sender, bytes), without empty edges.
    outgoing: Vec<Vec<(usize, f64)>>,
    incoming: Vec<Vec<(usize, f64)>>,
}

impl<'a> Quanta<'a> {
    pub fn new(model: &'a WorkModel) -> Self {
        let pes = model.pes();
        let slowest = |task: usize| (0..pes).map(|pe| model.own(task, pe)).fold(0.0, f64::max);
        let computing: f64 = (0..model.tasks()).map(slowest).sum();
        let pairs = || (0..pes).flat_map(|a| (0..pes).map(move |b| (a, b)));
        let worst = pairs().map(|(a, b)| model.per_byte(a, b)).fold(0.0, f64::max);
        let bytes: f64 = model.edges().iter().map(|edge| edge.bytes).sum();
        let most = computing + worst * bytes;
        // A power of two, so that scaling is exact; the total stays below 2^BITS.
        let factor = 2.0_f64.powi(if most > 0.0 { BITS - exponent_of(most) } else { 0 });
        let tied = |edges: &[usize], other: fn(&WorkEdge) -> usize| {
            let edges = edges.iter().map(|&edge| &model.edges()[edge]);
            edges.map(|edge| (other(edge), edge.bytes)).filter(|(_, bytes)| *bytes > 0.0).collect()
        };
        Self {
            model,
            pes,
            own: (0..model.tasks())
                .flat_map(|task| (0..pes).map(move |pe| whole(factor * model.own(task, pe))))
                .collect(),
            per_byte: pairs().map(|(a, b)| factor * model.per_byte(a, b)).collect(),
            outgoing: (0..model.tasks()).map(|task| tied(model.outgoing(task), |edge| edge.to)).collect(),
            incoming: (0..model.tasks()).map(|task| tied(model.incoming(task), |edge| edge.from)).collect(),
        }
    }

    fn own(&self, task: usize, pe: usize) -> i128 {
        self.own[task * self.pes + pe]
    }

    /// Time to send this many bytes; deterministic, so that it can be subtracted again.
    fn sending(&self, bytes: f64, from: usize, to: usize) -> i128 {
        whole(bytes * self.per_byte[from * self.pes + to])
    }
}

/// Exponent of the smallest power of two above a positive number.
fn exponent_of(value: f64) -> i32 {
    libm::ilogb(value) + 1
}

/// Rounds to whole quanta.
#[expect(clippy::cast_possible_truncation, reason = "quanta are chosen so that everything stays below 2^100")]
fn whole(quanta: f64) -> i128 {
    quanta as i128
}

/// A mapping and the load of every processing element.
#[derive(Clone, Debug)]
pub(super) struct Loads<'a> {
    quanta: &'a Quanta<'a>,
    at: Vec<usize>,
    load: Vec<i128>,
}

impl<'a> Loads<'a> {
    pub fn new(quanta: &'a Quanta<'a>, at: Vec<usize>) -> Self {
        let mut loads = Self { quanta, load: vec![0; quanta.pes], at };
        loads.recompute();
        loads
    }

    /// Processing element of each task.
    pub fn mapping(&self) -> &[usize] {
        &self.at
    }

    /// The largest load, in quanta.
    pub fn objective(&self) -> i128 {
        self.load.iter().copied().max().unwrap_or(0)
    }

    /// Moves a task together with its messages.
    pub fn shift(&mut self, task: usize, to: usize) {
        let from = self.at[task];
        if from == to {
            return;
        }
        let quanta = self.quanta;
        let (mut here, mut there) = (-quanta.own(task, from), quanta.own(task, to));
        for &(peer, bytes) in &quanta.outgoing[task] {
            let peer = self.at[peer];
            here -= quanta.sending(bytes, from, peer);
            there += quanta.sending(bytes, to, peer);
        }
        for &(peer, bytes) in &quanta.incoming[task] {
            let peer = self.at[peer];
            self.load[peer] += quanta.sending(bytes, peer, to) - quanta.sending(bytes, peer, from);
        }
        self.load[from] += here;
        self.load[to] += there;
        self.at[task] = to;
    }

    /// Moves several tasks at once, each to its own destination; `undo` records the previous state.
    pub fn shift_all(&mut self, moves: &[(usize, usize)], undo: &mut Undo) {
        undo.load.clone_from(&self.load);
        undo.at.clear();
        undo.at.extend(moves.iter().map(|&(task, _)| (task, self.at[task])));
        if 4 * moves.len() < self.at.len() {
            for &(task, to) in moves {
                self.shift(task, to);
            }
        } else {
            for &(task, to) in moves {
                self.at[task] = to;
            }
            self.recompute();
        }
    }

    /// Restores the state recorded in `undo`.
    pub fn undo(&mut self, undo: &Undo) {
        self.load.clone_from(&undo.load);
        for &(task, pe) in &undo.at {
            self.at[task] = pe;
        }
    }

    fn recompute(&mut self) {
        self.load.fill(0);
        for (task, &pe) in self.at.iter().enumerate() {
            let sent = self.quanta.outgoing[task].iter();
            let sent: i128 = sent.map(|&(peer, bytes)| self.quanta.sending(bytes, pe, self.at[peer])).sum();
            self.load[pe] += self.quanta.own(task, pe) + sent;
        }
    }
}

/// State before some tasks were moved.
#[derive(Clone, Debug, Default)]
pub(super) struct Undo {
    at: Vec<(usize, usize)>,
    load: Vec<i128>,
}
