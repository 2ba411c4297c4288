//! The management thread and its workers.

use std::collections::VecDeque;

use taskgraph::online::{Cache, Dispatch, Pool, Ready, Round, Scheduler};
use taskgraph::{FileError, Streaming};

use super::applications::{Application, Applications};
use super::arrivals::Arrival;
use super::draws::jitter;
use super::measures::{Measures, Record};

/// Options of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RuntimeSetting {
    /// Whether scheduling decisions are cached.
    pub cache: bool,
    /// Whether processing elements have queues.
    pub queueing: bool,
    /// Jitter: actual times vary uniformly by this percentage in both directions.
    pub jitter_percent: f64,
    /// Seed of every random draw.
    pub seed: u64,
}

impl Default for RuntimeSetting {
    fn default() -> Self {
        Self { cache: false, queueing: true, jitter_percent: 0.0, seed: 1 }
    }
}

/// Runs `arrivals`, sorted by time, under `scheduler`; every dispatched task is passed to `log`.
///
/// # Errors
/// A workload that may exceed 36 years of simulated time.
pub fn run(
    applications: &Applications,
    arrivals: &[Arrival],
    scheduler: &mut dyn Scheduler,
    setting: &RuntimeSetting,
    log: &mut dyn FnMut(Record),
) -> Result<Measures, FileError> {
    applications.check(arrivals)?;
    let mut runtime = Runtime::new(applications, arrivals, setting);
    runtime.manage(scheduler, log);
    Ok(runtime.measures())
}

/// A dispatched task whose completion has not been collected.
struct Running {
    end: u64,
    instance: usize,
    task: usize,
}

/// An active instance.
struct Instance {
    application: usize,
    /// By task: without streaming the number of unfinished predecessors, with streaming the number of finished frames.
    counts: Vec<u32>,
    /// Streaming only: tasks that are ready or running.
    busy: Vec<bool>,
    /// Streaming only: whether a task finished since the last scan.
    changed: bool,
    left: u64,
    ready: Vec<u64>,
    first_start: u64,
    last_end: u64,
}

struct Runtime<'a> {
    applications: &'a Applications,
    arrivals: &'a [Arrival],
    setting: &'a RuntimeSetting,
    now: u64,
    arrived: usize,
    instances: Vec<Instance>,
    /// Unfinished streaming instances, in order.
    streams: Vec<usize>,
    queue: Vec<Ready>,
    pool: Pool,
    running: Vec<VecDeque<Running>>,
    /// By worker: time at which it is free.
    free: Vec<u64>,
    last_end: Vec<Option<u64>>,
    busy: Vec<u64>,
    sums: Measures,
}

impl<'a> Runtime<'a> {
    fn new(applications: &'a Applications, arrivals: &'a [Arrival], setting: &'a RuntimeSetting) -> Self {
        let pes = applications.names.len();
        Self {
            applications,
            arrivals,
            setting,
            now: 0,
            arrived: 0,
            instances: Vec::with_capacity(arrivals.len()),
            streams: Vec::new(),
            queue: Vec::new(),
            pool: Pool { available: vec![0; pes], open: vec![true; pes], queueing: setting.queueing },
            running: (0..pes).map(|_| VecDeque::new()).collect(),
            free: vec![0; pes],
            last_end: vec![None; pes],
            busy: vec![0; pes],
            sums: Measures::default(),
        }
    }

    fn manage(&mut self, scheduler: &mut dyn Scheduler, log: &mut dyn FnMut(Record)) {
        let mut cache = self.setting.cache.then(Cache::default);
        loop {
            self.collect();
            self.admit();
            self.scan();
            if self.queue.is_empty() || !self.pool.open.contains(&true) {
                match self.next_event() {
                    Some(event) => self.now = event,
                    None => return,
                }
                continue;
            }
            let (classes, costs) = (&self.applications.classes, self.applications.costs);
            let mut round = Round::new(self.now, classes, costs, &mut self.pool, &mut self.queue);
            round.run(scheduler, cache.as_mut());
            let (end, looks, handed) = (round.now, round.evaluations, round.dispatched);
            self.sums.overhead_ns += end - self.now;
            self.sums.rounds += 1;
            self.sums.looks += looks;
            self.now = end;
            if handed.is_empty() {
                // A processing element that rejected a task is busy, so a completion event is pending.
                self.now = end.max(self.next_event().unwrap_or(end));
            }
            for one in &handed {
                log(self.serve(one));
            }
        }
    }

    /// Collects completions up to now, by processing element.
    fn collect(&mut self) {
        for pe in 0..self.running.len() {
            while self.running[pe].front().is_some_and(|front| front.end <= self.now) {
                let Running { instance, task, .. } = self.running[pe].pop_front().expect("there is a front");
                self.end(instance, task);
            }
            self.pool.open[pe] = self.setting.queueing || self.running[pe].is_empty();
        }
    }

    fn end(&mut self, number: usize, task: usize) {
        let instance = &mut self.instances[number];
        let application = &self.applications.all[instance.application];
        instance.left -= 1;
        if application.streaming != Streaming::None {
            instance.counts[task] += 1;
            instance.busy[task] = false;
            instance.changed = true;
            return;
        }
        for next in &application.successors[task] {
            let waits = &mut instance.counts[*next as usize];
            *waits -= 1;
            if *waits == 0 {
                ready(application, instance, number, *next as usize, self.now, &mut self.queue);
            }
        }
        if instance.left == 0 {
            (instance.counts, instance.ready) = (Vec::new(), Vec::new());
        }
    }

    /// Processes arrivals up to now: entry tasks join the ready queue in task order.
    fn admit(&mut self) {
        while let Some(arrival) = self.arrivals.get(self.arrived).filter(|arrival| arrival.at <= self.now) {
            let number = self.instances.len();
            let application = &self.applications.all[arrival.application];
            let (count, streaming) = (application.tasks.len(), application.streaming != Streaming::None);
            let waits = |of: &Vec<u32>| u32::try_from(of.len()).expect("fewer than 20,000");
            let mut instance = Instance {
                application: arrival.application,
                counts: if streaming {
                    vec![0; count]
                } else {
                    application.predecessors.iter().map(waits).collect()
                },
                busy: vec![false; if streaming { count } else { 0 }],
                changed: true,
                left: count as u64 * u64::from(application.frames),
                ready: vec![0; count],
                first_start: u64::MAX,
                last_end: 0,
            };
            if streaming {
                self.streams.push(number);
            } else {
                for head in &application.heads {
                    ready(application, &mut instance, number, *head as usize, self.now, &mut self.queue);
                }
            }
            self.instances.push(instance);
            self.arrived += 1;
        }
    }

    /// Adds tasks of streaming instances that became ready, by instance, then by task.
    fn scan(&mut self) {
        for number in &self.streams {
            let instance = &mut self.instances[*number];
            if !std::mem::take(&mut instance.changed) {
                continue;
            }
            let application = &self.applications.all[instance.application];
            // Only sequential entry tasks depend on the whole frame.
            let slowest = instance.counts.iter().copied().min().unwrap_or(0);
            for task in 0..instance.counts.len() {
                let own = instance.counts[task];
                if instance.busy[task] || own >= application.frames {
                    continue;
                }
                let predecessors =
                    || application.predecessors[task].iter().map(|p| instance.counts[*p as usize]);
                let successors = || application.successors[task].iter().map(|s| instance.counts[*s as usize]);
                let may = match application.streaming {
                    Streaming::None => false,
                    Streaming::Double => {
                        predecessors().all(|it| it != own) && successors().all(|it| it + 1 >= own)
                    }
                    Streaming::Single => {
                        predecessors().all(|it| it == own + 1) && successors().all(|it| it == own)
                    }
                    Streaming::Sequential => {
                        let head = application.predecessors[task].is_empty();
                        predecessors().all(|it| it == own + 1) && (!head || slowest >= own)
                    }
                };
                if may {
                    instance.busy[task] = true;
                    ready(application, instance, *number, task, self.now, &mut self.queue);
                }
            }
        }
        let instances = &self.instances;
        self.streams.retain(|number| instances[*number].left > 0);
    }

    /// Time of the next completion or arrival.
    fn next_event(&self) -> Option<u64> {
        let ends = self.running.iter().filter_map(|queue| queue.front().map(|front| front.end));
        ends.chain(self.arrivals.get(self.arrived).map(|arrival| arrival.at)).min()
    }

    /// Dispatches a task to a worker. It starts when the dispatch is complete and the worker, and for an accelerator its
    /// host core, have finished their earlier tasks.
    fn serve(&mut self, one: &Dispatch) -> Record {
        let Dispatch { task: Ready { token, .. }, pe, at } = *one;
        let (number, task) = split(token);
        let instance = &mut self.instances[number];
        let application = &self.applications.all[instance.application];
        let frame = if application.streaming == Streaming::None { 0 } else { instance.counts[task] };
        let mut from = at.max(self.free[pe]);
        let host = self.applications.hosts[pe];
        if let Some(core) = host {
            from = from.max(self.free[core]);
        }
        let start = from + self.applications.costs.dispatch;
        let draw = [self.setting.seed, 2, number as u64, u64::from(frame), task as u64];
        let actual = application.actual[task * self.free.len() + pe];
        let end = start + jitter(actual, self.setting.jitter_percent, &draw);
        if let Some(core) = host {
            self.free[core] = start;
        }
        self.free[pe] = end;
        self.sums.tasks += 1;
        self.sums.dispatch_ns += self.last_end[pe].map_or(0, |before| start - before);
        self.last_end[pe] = Some(end);
        self.busy[pe] += end - start;
        instance.first_start = instance.first_start.min(start);
        instance.last_end = instance.last_end.max(end);
        self.running[pe].push_back(Running { end, instance: number, task });
        let ready = instance.ready[task];
        Record { instance: number, application: instance.application, frame, task, pe, ready, start, end }
    }

    fn measures(mut self) -> Measures {
        let started = self.instances.iter().map(|one| one.first_start).min().unwrap_or(0);
        let ended = self.instances.iter().map(|one| one.last_end).max().unwrap_or(0);
        self.sums.applications = self.instances.len() as u64;
        self.sums.execution_ns = self.instances.iter().map(|one| one.last_end - one.first_start).sum();
        self.sums.cumulative_ns = self.busy.iter().sum();
        self.sums.end_to_end_ns = ended - started;
        self.sums.busy_ns = self.applications.names.iter().cloned().zip(self.busy).collect();
        self.sums
    }
}

/// Appends a task to the ready queue.
fn ready(
    application: &Application,
    instance: &mut Instance,
    number: usize,
    task: usize,
    now: u64,
    queue: &mut Vec<Ready>,
) {
    instance.ready[task] = now;
    let token = ((number as u64) << 32) | task as u64;
    queue.push(Ready { token, class: application.class[task], origin: application.origin[task] });
}

fn split(token: u64) -> (usize, usize) {
    let number = |half: u64| usize::try_from(half).expect("half of 64 bits");
    (number(token >> 32), number(token & u64::from(u32::MAX)))
}
