//! Simulations without rollback: a task waits until all messages it depends on have arrived.
//!
//! With conservative synchronization an actor learns about its channels only from messages. After each execution it sends
//! a null message on every channel that got no task: no message before my next timestamp plus the channel's lookahead,
//! the smallest time difference of any task on it (Chandy and Misra, 1979). A task message carries the same promise. With
//! fork/join an actor knows which messages it waits for, and null messages are not needed. In both, every message costs
//! its sender time as in the optimistic simulation, null messages included.

use std::sync::Arc;

use super::channels::{Channels, number, number as index, units_by_rank};
use super::counters::PeriodCounters;
use super::event::{Event, EventKind, EventQueue};
use super::windows::{SimulationError, Windowed};
use crate::platform::Platform;
use crate::trace::Trace;

/// Extra delay of messages to an actor that has migrated, in milliseconds.
const FORWARDING: f64 = 0.1;

#[derive(Clone, Debug)]
struct Actor {
    /// Rows executed.
    taken: usize,
    /// Its unit.
    unit: usize,
    /// By expected message: whether it has arrived.
    arrived: Vec<bool>,
    /// The first message that has not arrived.
    missing: usize,
    /// Migrating to another unit.
    moving: bool,
}

#[derive(Clone, Debug, Default)]
struct Unit {
    actors: Vec<u32>,
    /// Start of the current idle period; `None` while busy.
    idle: Option<f64>,
    flagged: bool,
}

/// Content of a message in flight.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    /// Index among the receiver's expected messages; `None` for a null message.
    place: Option<u32>,
    /// Promise: no later message on this channel has an earlier timestamp.
    promise: f64,
}

/// A simulation in which tasks wait for their inputs.
#[derive(Clone, Debug)]
pub struct Blocking<'a> {
    platform: &'a Platform,
    trace: &'a Trace,
    channels: Arc<Channels>,
    /// Whether null messages are sent.
    conservative: bool,
    actors: Vec<Actor>,
    /// By actor: logical time of its next row.
    next: Vec<f64>,
    /// By receiver: its senders, and the promised lower bound on their next messages.
    clocks: Vec<Vec<(u32, f64)>>,
    units: Vec<Unit>,
    by_rank: Vec<usize>,
    events: EventQueue,
    /// Message contents by number; freed numbers are reused.
    in_flight: Vec<InFlight>,
    free: Vec<u32>,
    /// Events other than window ends.
    pending: usize,
    wanted: Vec<usize>,
    now: f64,
    ended: bool,
    counted: PeriodCounters,
}

impl<'a> Blocking<'a> {
    /// Every actor on its initial unit, at time 0.
    pub fn new(platform: &'a Platform, trace: &'a Trace, start: &[usize], conservative: bool) -> Self {
        let channels = Channels::of(trace);
        let next: Vec<f64> = (0..start.len()).map(|actor| trace.of(actor)[0].at).collect();
        let mut clocks: Vec<Vec<(u32, f64)>> = vec![Vec::new(); start.len()];
        for (sender, outbound) in channels.outbound.iter().enumerate() {
            for &(to, lookahead) in outbound {
                clocks[to as usize].push((number(sender), next[sender] + lookahead));
            }
        }
        let actors = start.iter().enumerate().map(|(actor, &unit)| Actor {
            taken: 0,
            unit,
            arrived: vec![false; channels.inbound[actor].len()],
            missing: 0,
            moving: false,
        });
        let mut simulation = Self {
            platform,
            trace,
            conservative,
            actors: actors.collect(),
            next,
            clocks,
            units: (0..platform.units()).map(|_| Unit { idle: Some(0.0), ..Unit::default() }).collect(),
            by_rank: units_by_rank(platform),
            events: EventQueue::default(),
            in_flight: Vec::new(),
            free: Vec::new(),
            pending: 0,
            wanted: start.to_vec(),
            now: 0.0,
            ended: false,
            counted: PeriodCounters::new(start.len(), platform.units()),
            channels: Arc::new(channels),
        };
        for (actor, &unit) in start.iter().enumerate() {
            simulation.units[unit].actors.push(number(actor));
        }
        for unit in 0..platform.units() {
            simulation.put(Event::at(0.0, platform.rank[unit], EventKind::Begin));
        }
        simulation.events.push(Event::at(platform.window, 0, EventKind::Window));
        simulation
    }

    fn put(&mut self, event: Event) {
        self.pending += 1;
        self.events.push(event);
    }

    /// Whether all inputs of the actor's next task have arrived.
    fn may_run(&self, actor: usize) -> bool {
        let at = self.next[actor];
        let inbound = &self.channels.inbound[actor];
        let all_here = inbound.get(self.actors[actor].missing).is_none_or(|missing| missing.time > at);
        all_here && (!self.conservative || self.clocks[actor].iter().all(|(_, clock)| *clock >= at))
    }

    /// The runnable actor of the unit with the smallest next timestamp; the first on a tie.
    fn choose(&self, unit: usize) -> Option<usize> {
        let actors = self.units[unit].actors.iter().map(|actor| *actor as usize);
        let able = actors.filter(|actor| self.may_run(*actor));
        able.min_by(|a, b| self.next[*a].total_cmp(&self.next[*b]).then(a.cmp(b)))
    }

    /// Dispatches an idle unit; `cause` is the message that arrived, by receiver and sender.
    fn begin(&mut self, unit: usize, now: f64, cause: Option<(usize, usize)>) {
        let Some(since) = self.units[unit].idle else { return };
        let Some(actor) = self.choose(unit) else { return };
        if let Some((receiver, sender)) = cause {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive and short")]
            let microseconds = ((now - since) * 1000.0).round() as u32;
            self.counted.waited.add(receiver, sender, microseconds);
        }
        self.units[unit].idle = None;
        self.execute(unit, actor, now);
    }

    fn execute(&mut self, unit: usize, actor: usize, now: f64) {
        let rows = self.trace.of(actor);
        let at = self.next[actor];
        let mut time = now + self.platform.task[unit];
        let first = self.actors[actor].taken;
        let last = first + rows[first..].iter().take_while(|row| row.at <= at).count();
        self.actors[actor].taken = last;
        self.counted.executed[actor] += (last - first) as u64;
        self.counted.executed_on[unit] += (last - first) as u64;
        self.counted.committed += (last - first) as u64;
        self.counted.committed_by[actor] += (last - first) as u64;
        if last == rows.len() {
            self.ended = true;
            return;
        }
        self.counted.progress[actor] += rows[last].at - self.next[actor];
        self.next[actor] = rows[last].at;
        let mut informed: Vec<u32> = Vec::new();
        for (row, sent) in rows.iter().enumerate().take(last).skip(first) {
            let goal = self.actors[sent.to as usize].unit;
            time += self.platform.latency[unit][goal];
            self.counted.send(self.platform.distance[unit][goal]);
            if sent.to as usize == actor {
                self.counted.messages.add(actor, actor, 1);
                continue;
            }
            informed.push(sent.to);
            let place = self.channels.place[actor][row];
            self.post(actor, sent.to, Some(place), time);
        }
        if self.conservative {
            for number in 0..self.channels.outbound[actor].len() {
                let (to, _) = self.channels.outbound[actor][number];
                if !informed.contains(&to) {
                    time += self.platform.latency[unit][self.actors[to as usize].unit];
                    self.counted.null_messages += 1;
                    self.post(actor, to, None, time);
                }
            }
        }
        self.counted.busy[unit] += time - now;
        self.put(Event::at(time, self.platform.rank[unit], EventKind::End));
    }

    /// Sends a message that arrives at `time`, with the sender's promise.
    fn post(&mut self, from: usize, to: u32, place: Option<u32>, time: f64) {
        let outbound = &self.channels.outbound[from];
        let channel = outbound.binary_search_by_key(&to, |(receiver, _)| *receiver);
        let lookahead = channel.map_or(0.0, |channel| outbound[channel].1);
        let parcel = InFlight { place, promise: self.next[from] + lookahead };
        let number = if let Some(free) = self.free.pop() {
            self.in_flight[free as usize] = parcel;
            free
        } else {
            self.in_flight.push(parcel);
            number(self.in_flight.len() - 1)
        };
        let rank = self.platform.rank[self.actors[to as usize].unit];
        // The message number stands in for the logical time as the last tie-break.
        self.put(Event::receive(time, rank, f64::from(number), to, index(from)));
    }

    fn receive(&mut self, event: Event) {
        let (actor, sender) = (event.actor as usize, event.sender as usize);
        let unit = self.actors[actor].unit;
        let rank = self.platform.rank[unit];
        if rank != event.place() {
            let later = event.time() + FORWARDING;
            self.put(Event::receive(later, rank, event.logical(), event.actor, event.sender));
            return;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it was made from a u32")]
        let number = event.logical() as u32;
        let parcel = self.in_flight[number as usize];
        self.free.push(number);
        let clocks = &mut self.clocks[actor];
        if let Ok(channel) = clocks.binary_search_by_key(&event.sender, |(from, _)| *from) {
            clocks[channel].1 = clocks[channel].1.max(parcel.promise);
        }
        if let Some(place) = parcel.place {
            self.counted.messages.add(actor, sender, 1);
            let state = &mut self.actors[actor];
            state.arrived[place as usize] = true;
            while state.arrived.get(state.missing) == Some(&true) {
                state.missing += 1;
            }
        } else {
            self.counted.nulls.add(actor, sender, 1);
        }
        if !self.actors[actor].moving {
            self.begin(unit, event.time(), Some((actor, sender)));
        }
    }

    fn end(&mut self, unit: usize, now: f64) {
        self.units[unit].idle = Some(now);
        if self.units[unit].flagged {
            self.leave(unit, now);
        }
        self.begin(unit, now, None);
    }

    /// Starts the migration of every actor on an idle unit whose assigned unit has changed.
    fn leave(&mut self, unit: usize, now: f64) {
        self.units[unit].flagged = false;
        let (stay, leave): (Vec<u32>, Vec<u32>) =
            self.units[unit].actors.iter().partition(|actor| self.wanted[**actor as usize] == unit);
        self.units[unit].actors = stay;
        for actor in leave {
            self.actors[actor as usize].moving = true;
            let goal = self.platform.rank[self.wanted[actor as usize]];
            self.put(Event::bind(now + self.platform.migration, goal, actor));
        }
    }

    fn bind(&mut self, event: Event) {
        let unit = self.by_rank[event.place() as usize];
        let state = &mut self.actors[event.actor as usize];
        (state.unit, state.moving) = (unit, false);
        self.counted.moves += 1;
        self.units[unit].actors.push(event.actor);
        if self.wanted[event.actor as usize] != unit {
            self.units[unit].flagged = true;
            if self.units[unit].idle.is_some() {
                self.leave(unit, event.time());
            }
        }
        self.begin(unit, event.time(), None);
    }

    fn reassign_now(&mut self, now: f64) {
        for unit in 0..self.units.len() {
            self.units[unit].flagged = true;
            if self.units[unit].idle.is_some() {
                self.leave(unit, now);
                self.begin(unit, now, None);
            }
        }
    }

    fn stuck(&self) -> SimulationError {
        let first = (0..self.actors.len()).min_by(|a, b| self.next[*a].total_cmp(&self.next[*b]));
        let problem = first.map_or_else(String::new, |actor| {
            let missing = self.channels.inbound[actor].get(self.actors[actor].missing);
            let from = missing.map_or_else(String::new, |missing| format!(" from actor {}", missing.sender));
            format!("actor {actor} waits at logical time {} for a message{from}", self.next[actor])
        });
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, for display")]
        let milliseconds = self.now as u64;
        SimulationError::Stuck { milliseconds, problem }
    }
}

impl Windowed for Blocking<'_> {
    fn window(&mut self) -> Result<Option<&PeriodCounters>, SimulationError> {
        self.counted.clear();
        while let Some(event) = self.events.pop() {
            self.now = event.time();
            if event.what() == EventKind::Window {
                if self.pending == 0 {
                    return Err(self.stuck());
                }
                self.events.push(Event::at(self.now + self.platform.window, 0, EventKind::Window));
                self.counted.milliseconds = self.platform.window;
                return Ok(Some(&self.counted));
            }
            self.pending -= 1;
            match event.what() {
                EventKind::Window => {}
                EventKind::Reassign => self.reassign_now(self.now),
                EventKind::Bind => self.bind(event),
                EventKind::Receive => self.receive(event),
                EventKind::End => self.end(self.by_rank[event.place() as usize], self.now),
                EventKind::Begin => self.begin(self.by_rank[event.place() as usize], self.now, None),
            }
            if self.ended {
                break;
            }
        }
        Ok(None)
    }

    fn reassign(&mut self, wanted: &[usize], delay: f64) {
        self.wanted.copy_from_slice(wanted);
        self.put(Event::at(self.now + delay, 0, EventKind::Reassign));
    }
}
