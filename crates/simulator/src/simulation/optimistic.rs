//! Optimistic simulation (Time Warp) of the APO paper's meta-simulator: tasks run ahead, stragglers cause rollbacks.
//!
//! The rules are those of the authors' program, including tie-breaks and summation order, so that it reproduces the
//! published numbers digit for digit.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::channels::{number, units_by_rank};
use super::counters::PeriodCounters;
use super::event::{Event, EventKind, EventQueue};
use super::queue::{heapify, push};
use super::windows::{SimulationError, Windowed};
use crate::config::Gvt;
use crate::platform::Platform;
use crate::trace::Trace;

/// Extra delay of messages to an actor that has migrated, in milliseconds.
const FORWARDING: f64 = 0.1;

/// An actor's history and pending tasks.
#[derive(Clone, Debug, Default)]
struct Actor {
    /// Rows consumed.
    taken: usize,
    /// Logical times of stragglers to be executed, as ordered bits.
    stragglers: BinaryHeap<Reverse<u64>>,
    /// Logical times of executed tasks, ascending, without those committed long ago.
    executed: Vec<f64>,
    /// Number of committed tasks among them.
    committed: usize,
    /// Its logical time.
    logical: f64,
    /// Its logical time at the end of the previous window.
    before: f64,
    /// Its unit.
    unit: usize,
}

#[derive(Clone, Debug, Default)]
struct Unit {
    queue: Vec<u32>,
    /// Whether migrations start when the current execution ends.
    flagged: bool,
}

/// An optimistic simulation of a trace on a platform.
#[derive(Clone, Debug)]
pub struct Optimistic<'a> {
    platform: &'a Platform,
    trace: &'a Trace,
    actors: Vec<Actor>,
    /// By actor: its next timestamp, the smaller of next row and first straggler; infinite without either.
    next: Vec<f64>,
    units: Vec<Unit>,
    /// By label rank: the unit.
    by_rank: Vec<usize>,
    events: EventQueue,
    wanted: Vec<usize>,
    gvt: f64,
    now: f64,
    ended: bool,
    counted: PeriodCounters,
}

impl<'a> Optimistic<'a> {
    /// Every actor on its initial unit, at time 0.
    pub fn new(platform: &'a Platform, trace: &'a Trace, start: &[usize]) -> Self {
        let mut simulation = Self {
            platform,
            trace,
            actors: start.iter().map(|&unit| Actor { unit, ..Actor::default() }).collect(),
            next: (0..start.len()).map(|actor| trace.of(actor)[0].at).collect(),
            units: (0..platform.units()).map(|_| Unit::default()).collect(),
            by_rank: units_by_rank(platform),
            events: EventQueue::default(),
            wanted: start.to_vec(),
            gvt: 0.0,
            now: 0.0,
            ended: false,
            counted: PeriodCounters::new(start.len(), platform.units()),
        };
        for (actor, &unit) in start.iter().enumerate() {
            push(&mut simulation.units[unit].queue, &simulation.next, number(actor));
        }
        for unit in 0..platform.units() {
            if !simulation.units[unit].queue.is_empty() {
                simulation.events.push(Event::at(0.0, platform.rank[unit], EventKind::Begin));
            }
        }
        simulation.events.push(Event::at(platform.window, 0, EventKind::Window));
        simulation
    }

    /// Global virtual time as of the last window.
    pub fn gvt(&self) -> f64 {
        self.gvt
    }

    /// The time of the last event, in milliseconds.
    pub fn now(&self) -> f64 {
        self.now
    }

    #[inline]
    fn place(&self, unit: usize) -> u32 {
        self.platform.rank[unit]
    }

    #[inline]
    fn refresh(&mut self, actor: usize) {
        let row = self.trace.of(actor).get(self.actors[actor].taken).map_or(f64::INFINITY, |row| row.at);
        let straggler =
            self.actors[actor].stragglers.peek().map_or(f64::INFINITY, |first| f64::from_bits(first.0));
        self.next[actor] = row.min(straggler);
    }

    /// The first actor of the ready queue executes all its tasks of its next timestamp.
    fn begin(&mut self, unit: usize, now: f64) {
        let Some(&first) = self.units[unit].queue.first() else { return };
        let actor = first as usize;
        let rows = self.trace.of(actor);
        let at = self.next[actor];
        let mut time = now + self.platform.task[unit];
        loop {
            let state = &mut self.actors[actor];
            let outdated = state.executed.last().is_some_and(|last| at < *last);
            let straggler = state.stragglers.peek().is_some_and(|first| f64::from_bits(first.0) <= at);
            let sent = if straggler {
                state.stragglers.pop();
                None
            } else {
                state.taken += 1;
                Some(rows[state.taken - 1])
            };
            if !outdated {
                state.executed.push(at);
                state.logical = at;
                self.counted.executed[actor] += 1;
                self.counted.executed_on[unit] += 1;
                if let Some(sent) = sent {
                    time = self.send(actor, unit, sent.to, sent.time, time);
                }
            }
            if self.actors[actor].taken == rows.len() {
                self.ended = true;
                return;
            }
            self.refresh(actor);
            if self.next[actor] > at {
                break;
            }
        }
        heapify(&mut self.units[unit].queue, &self.next);
        self.counted.busy[unit] += time - now;
        self.events.push(Event::at(time, self.place(unit), EventKind::End));
    }

    /// Sends a task to another actor; returns its arrival time, until which the unit is busy sending.
    #[inline]
    fn send(&mut self, from: usize, unit: usize, to: u32, logical: f64, time: f64) -> f64 {
        let goal = self.actors[to as usize].unit;
        let time = time + self.platform.latency[unit][goal];
        self.counted.send(self.platform.distance[unit][goal]);
        // A message to the actor itself is processed before its unit does anything else. As long as its timestamp is
        // later than the current one, it changes only the counter.
        if to as usize == from && logical > self.actors[from].logical {
            self.counted.messages.add(from, from, 1);
        } else {
            self.events.push(Event::receive(time, self.place(goal), logical, to, number(from)));
        }
        time
    }

    fn receive(&mut self, event: Event) {
        let actor = event.actor as usize;
        let unit = self.actors[actor].unit;
        if self.place(unit) != event.place() {
            let later = event.time() + FORWARDING;
            self.events.push(Event::receive(
                later,
                self.place(unit),
                event.logical(),
                event.actor,
                event.sender,
            ));
            return;
        }
        self.counted.messages.add(actor, event.sender as usize, 1);
        if self.actors[actor].logical >= event.logical() {
            self.counted.late.add(actor, event.sender as usize, 1);
            self.actors[actor].stragglers.push(Reverse(event.logical().to_bits()));
            self.refresh(actor);
        }
    }

    fn end(&mut self, unit: usize, now: f64) {
        heapify(&mut self.units[unit].queue, &self.next);
        let Some(&first) = self.units[unit].queue.first() else { return };
        if self.next[first as usize] < self.actors[first as usize].logical {
            self.roll_back(first as usize, unit, now);
        } else if self.units[unit].flagged {
            self.leave(unit, now);
            if !self.units[unit].queue.is_empty() {
                self.events.push(Event::at(now, self.place(unit), EventKind::Begin));
            }
        } else {
            // No event can fall in between: events at this time and place precede the end of the execution.
            self.begin(unit, now);
        }
    }

    fn roll_back(&mut self, actor: usize, unit: usize, now: f64) {
        let to = self.next[actor];
        let rows = self.trace.of(actor);
        let mut time = now + self.platform.undo;
        let state = &mut self.actors[actor];
        let kept = state.executed.partition_point(|done| *done < to);
        let undone = (state.executed.len() - kept) as u64;
        self.counted.rolled_back += undone;
        self.counted.undone[actor] += undone;
        state.executed.truncate(kept);
        self.counted.undone_committed += state.committed.saturating_sub(kept) as u64;
        state.committed = state.committed.min(kept);
        // The receivers of anti-messages in first-seen order, each with its earliest time.
        let mut taken_back: Vec<(u32, f64)> = Vec::new();
        while state.taken > 0 && rows[state.taken - 1].at >= to {
            state.taken -= 1;
            let row = rows[state.taken];
            if row.to as usize != actor {
                match taken_back.iter_mut().find(|(receiver, _)| *receiver == row.to) {
                    Some((_, earliest)) => *earliest = earliest.min(row.time),
                    None => taken_back.push((row.to, row.time)),
                }
            }
        }
        let row = state.taken.checked_sub(1).map_or(0.0, |last| rows[last].at);
        state.logical = state.executed.last().map_or(row, |last| last.max(row));
        for (receiver, logical) in taken_back {
            let goal = self.actors[receiver as usize].unit;
            time += self.platform.latency[unit][goal];
            self.counted.anti_messages += 1;
            self.events.push(Event::receive(time, self.place(goal), logical, receiver, number(actor)));
        }
        self.refresh(actor);
        heapify(&mut self.units[unit].queue, &self.next);
        self.counted.busy[unit] += time - now;
        self.events.push(Event::at(time, self.place(unit), EventKind::End));
    }

    /// Starts the migration of every actor in the ready queue whose assigned unit has changed.
    fn leave(&mut self, unit: usize, now: f64) {
        self.units[unit].flagged = false;
        let (stay, leave): (Vec<u32>, Vec<u32>) =
            self.units[unit].queue.iter().partition(|actor| self.wanted[**actor as usize] == unit);
        self.units[unit].queue = stay;
        heapify(&mut self.units[unit].queue, &self.next);
        for actor in leave {
            let goal = self.place(self.wanted[actor as usize]);
            self.events.push(Event::bind(now + self.platform.migration, goal, actor));
        }
    }

    fn bind(&mut self, event: Event) {
        let unit = self.by_rank[event.place() as usize];
        self.actors[event.actor as usize].unit = unit;
        self.counted.moves += 1;
        if self.units[unit].queue.is_empty() {
            self.events.push(Event::at(event.time(), event.place(), EventKind::Begin));
        }
        push(&mut self.units[unit].queue, &self.next, event.actor);
        // The assignment may have changed during the migration.
        self.units[unit].flagged |= self.wanted[event.actor as usize] != unit;
    }

    fn close_window(&mut self) {
        let mut gvt = f64::INFINITY;
        for (state, next) in self.actors.iter().zip(&self.next) {
            gvt = gvt.min(state.logical).min(*next);
        }
        if self.platform.gvt == Gvt::InFlight {
            gvt = self.events.messages().map(Event::logical).fold(gvt, f64::min);
        }
        self.gvt = self.gvt.max(gvt);
        for (actor, state) in self.actors.iter_mut().enumerate() {
            let committed = state.executed.partition_point(|done| *done < self.gvt);
            let more = committed.saturating_sub(state.committed) as u64;
            self.counted.committed += more;
            self.counted.committed_by[actor] += more;
            // Only the last pending assignment counts.
            let forgotten = committed.saturating_sub(1);
            state.executed.drain(..forgotten);
            state.committed = committed - forgotten;
            self.counted.progress[actor] = state.logical - state.before;
            state.before = state.logical;
        }
        self.counted.milliseconds = self.platform.window;
    }
}

impl Windowed for Optimistic<'_> {
    fn window(&mut self) -> Result<Option<&PeriodCounters>, SimulationError> {
        self.counted.clear();
        while let Some(event) = self.events.pop() {
            self.now = event.time();
            match event.what() {
                EventKind::Window => {
                    self.close_window();
                    self.events.push(Event::at(self.now + self.platform.window, 0, EventKind::Window));
                    return Ok(Some(&self.counted));
                }
                EventKind::Reassign => self.units.iter_mut().for_each(|unit| unit.flagged = true),
                EventKind::Bind => self.bind(event),
                EventKind::Receive => self.receive(event),
                EventKind::End => self.end(self.by_rank[event.place() as usize], self.now),
                EventKind::Begin => self.begin(self.by_rank[event.place() as usize], self.now),
            }
            if self.ended {
                break;
            }
        }
        Ok(None)
    }

    fn reassign(&mut self, wanted: &[usize], delay: f64) {
        self.wanted.copy_from_slice(wanted);
        self.events.push(Event::at(self.now + delay, 0, EventKind::Reassign));
    }
}
