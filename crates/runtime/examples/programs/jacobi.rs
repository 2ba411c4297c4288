//! Coarse-grained tasks (hicr.txt 5.4): a heat equation by Jacobi's method on a cube, cut into slabs, a worker each.
//!
//! Each worker has its slab in slots of its own, computes, and puts the planes at its ends into its neighbours' halos,
//! which are global slots: whether the neighbour is in this Instance or another one makes no difference.
//!
//! A grid that no cache holds is read once for two steps: the second follows the first a few planes behind, while those
//! are still in the cache (Wellein et al., "Efficient temporal blocking for stencil computations by multicore-aware
//! wavefront parallelization", COMPSAC 2009). What it needs of the neighbours' first step comes after that.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Instant,
};

use runtime::{
    CommunicationManager, ComputeManager, Error, GlobalSlot, InstanceId, Key, LocalSlot, Memcpy,
    MemoryManager, Tag,
    backends::Coroutines,
    frontends::tasking::{Task, Tasking, Trace},
    hicr::{ComputeResource, MemorySpace},
};

/// What is computed.
#[derive(Clone, Copy, Debug)]
pub struct Problem {
    /// Points on each edge of the cube, its fixed boundary among them.
    pub edge: usize,
    /// How far a point looks along each axis: 1 makes 7 points, 2 makes 13.
    pub reach: usize,
    /// How often.
    pub iterations: usize,
}

impl Problem {
    /// How many points a stencil reads.
    pub fn points(&self) -> usize {
        1 + 6 * self.reach
    }

    fn plane(&self) -> usize {
        self.edge * self.edge
    }

    /// The value with which a point begins: hot in one corner, and different everywhere.
    #[allow(clippy::cast_precision_loss, reason = "it is below 101")]
    pub fn begin(&self, x: usize, y: usize, z: usize) -> f64 {
        let hot = if x < self.edge / 4 && y < self.edge / 4 && z < self.edge / 4 { 100.0 } else { 0.0 };
        hot + ((x * 31 + y * 17 + z * 7) % 101) as f64 / 101.0
    }

    /// One step for the planes `first..last` of `old`, into `new`. Both hold the same planes; the sum is always taken
    /// in the same order, so that every split, and every width of vectors, gives the same bits.
    #[allow(clippy::cast_precision_loss, reason = "it is 7 or 13")]
    pub fn step(&self, old: &[f64], new: &mut [f64], first: usize, last: usize) {
        let plane = if self.reach == 1 { seven } else { thirteen };
        let scale = 1.0 / self.points() as f64;
        (first..last).for_each(|x| plane(self.edge, scale, old, new, x));
    }

    /// One step for the planes `first..last` of `old`, into `new`, and behind it one more, back into `old`, for those
    /// planes that need no others: all but `reach` at both ends.
    pub fn two_steps(&self, old: &mut [f64], new: &mut [f64], first: usize, last: usize) {
        for x in first..last {
            self.step(old, new, x, x + 1);
            // Plane `x - reach` of `old` was read for the last time.
            if x >= first + 2 * self.reach {
                self.step(new, old, x - self.reach, x - self.reach + 1);
            }
        }
    }

    /// Without the runtime: the whole cube after all steps, from `old`.
    pub fn sequential(&self, mut old: Vec<f64>) -> Vec<f64> {
        let mut new = old.clone();
        for _ in 0..self.iterations {
            self.step(&old, &mut new, self.reach, self.edge - self.reach);
            std::mem::swap(&mut old, &mut new);
        }
        old
    }

    /// The planes `first..last` before the first step.
    pub fn slab(&self, first: usize, last: usize) -> Vec<f64> {
        let points = (first..last)
            .flat_map(|x| (0..self.edge).flat_map(move |y| (0..self.edge).map(move |z| (x, y, z))));
        points.map(|(x, y, z)| self.begin(x, y, z)).collect()
    }

    /// The planes that worker `index` of `workers` computes.
    pub fn share(&self, index: usize, workers: usize) -> (usize, usize) {
        let inner = self.edge - 2 * self.reach;
        (self.reach + index * inner / workers, self.reach + (index + 1) * inner / workers)
    }
}

/// One step of plane `x`, of 7 points. With the vectors that the processor has, whatever the program was built for.
#[multiversion::multiversion(targets("x86_64+avx2"))]
fn seven(edge: usize, scale: f64, old: &[f64], new: &mut [f64], x: usize) {
    let plane = edge * edge;
    for y in 1..edge - 1 {
        let middle = x * plane + y * edge + 1;
        let target = &mut new[middle..middle + edge - 2];
        let at = |offset: usize| &old[offset..offset + target.len()];
        let (here, low, high) = (at(middle), at(middle - 1), at(middle + 1));
        let (up, down) = (at(middle - edge), at(middle + edge));
        let (before, after) = (at(middle - plane), at(middle + plane));
        for (z, target) in target.iter_mut().enumerate() {
            *target = (here[z] + low[z] + high[z] + up[z] + down[z] + before[z] + after[z]) * scale;
        }
    }
}

/// As [`seven`], of 13.
#[multiversion::multiversion(targets("x86_64+avx2"))]
fn thirteen(edge: usize, scale: f64, old: &[f64], new: &mut [f64], x: usize) {
    let plane = edge * edge;
    for y in 2..edge - 2 {
        let middle = x * plane + y * edge + 2;
        let target = &mut new[middle..middle + edge - 4];
        let at = |offset: usize| &old[offset..offset + target.len()];
        let both =
            |far: usize| [at(middle - far), at(middle + far), at(middle - 2 * far), at(middle + 2 * far)];
        let (here, [low, high, lowest, highest]) = (at(middle), both(1));
        let ([up, down, top, bottom], [before, after, first, last]) = (both(edge), both(plane));
        for (z, target) in target.iter_mut().enumerate() {
            let along = low[z] + high[z] + lowest[z] + highest[z];
            let sum = here[z] + along + (up[z] + down[z] + top[z] + bottom[z]);
            *target = (sum + (before[z] + after[z] + first[z] + last[z])) * scale;
        }
    }
}

/// The managers of an Instance that computes.
#[derive(Clone)]
pub struct Managers {
    pub memory: Arc<dyn MemoryManager>,
    pub communication: Arc<dyn CommunicationManager>,
    pub compute: Arc<dyn ComputeManager>,
    pub space: MemorySpace,
    pub me: InstanceId,
}

/// A worker: its slab with `reach` planes of its neighbours at both ends, and where those come to.
struct Worker {
    problem: Problem,
    planes: usize,
    slabs: [LocalSlot; 2],
    /// From below and from above, by the step's parity.
    halos: BTreeMap<(usize, usize), LocalSlot>,
    /// Those of the neighbours that this one fills: of the one below, its upper; of the one above, its lower.
    neighbours: [Option<Arc<[GlobalSlot; 2]>>; 2],
    communication: Arc<dyn CommunicationManager>,
}

/// A part of a worker's work, for a step.
#[derive(Clone, Copy)]
enum Part {
    Step(usize),
    /// This step and the next, but for the next one's ends.
    TwoSteps(usize),
    Ends(usize),
    Exchange(usize),
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Step(_) => "step",
            Self::TwoSteps(_) => "two steps",
            Self::Ends(_) => "ends",
            Self::Exchange(_) => "exchange",
        }
    }
}

impl Worker {
    /// All that it does, in order.
    fn parts(&self) -> Vec<Part> {
        let Problem { reach, iterations, .. } = self.problem;
        let mut parts = Vec::new();
        let mut step = 0;
        while step < iterations {
            if step + 1 == iterations || self.planes < 2 * reach {
                parts.extend([Part::Step(step), Part::Exchange(step)]);
                step += 1;
            } else {
                let next = step + 1;
                parts.extend([
                    Part::TwoSteps(step),
                    Part::Exchange(step),
                    Part::Ends(next),
                    Part::Exchange(next),
                ]);
                step += 2;
            }
        }
        parts
    }

    fn run(&mut self, part: Part) -> Result<(), Error> {
        let (problem, reach) = (self.problem, self.problem.reach);
        let (first, last) = (reach, reach + self.planes);
        let (Part::Step(step) | Part::TwoSteps(step) | Part::Ends(step) | Part::Exchange(step)) = part;
        if let Part::Exchange(_) = part {
            return self.exchange(step);
        }
        let [old, new] = self.grids(step)?;
        match part {
            Part::TwoSteps(_) => problem.two_steps(old, new, first, last),
            Part::Ends(_) => {
                problem.step(old, new, first, first + reach);
                problem.step(old, new, last - reach, last);
            }
            _ => problem.step(old, new, first, last),
        }
        Ok(())
    }

    /// The planes that it computed.
    fn result(&mut self) -> Result<Vec<f64>, Error> {
        let Problem { reach, iterations, .. } = self.problem;
        let (first, last, plane) = (reach, reach + self.planes, self.problem.plane());
        let points = self.slabs[iterations % 2].values_mut::<f64>()?;
        Ok(points[first * plane..last * plane].to_vec())
    }

    /// What `step` reads and writes.
    fn grids(&mut self, step: usize) -> Result<[&mut [f64]; 2], Error> {
        let [one, two] = &mut self.slabs;
        let (old, new) = if step.is_multiple_of(2) { (one, two) } else { (two, one) };
        Ok([old.values_mut()?, new.values_mut()?])
    }

    /// The planes at the ends that `step` wrote go to the neighbours, theirs come into this slab.
    fn exchange(&mut self, step: usize) -> Result<(), Error> {
        let (parity, reach, plane) = (step % 2, self.problem.reach, self.problem.plane());
        let bytes = reach * plane * size_of::<f64>();
        let new = &self.slabs[(step + 1) % 2];
        let ends = [reach * plane, self.planes * plane].map(|point| point * size_of::<f64>());
        let outer = [0, (reach + self.planes) * plane].map(|point| point * size_of::<f64>());
        let mut sent = 0;
        for (theirs, end) in self.neighbours.iter().zip(ends) {
            if let Some(theirs) = theirs {
                sent += 1;
                self.communication.memcpy(&theirs[parity], 0, new, end, bytes)?;
            }
        }
        for (side, end) in outer.into_iter().enumerate() {
            if self.neighbours[side].is_some() {
                let halo = &self.halos[&(side, parity)];
                self.communication.fence(halo.into(), 0, 1)?.done()?;
                self.communication.memcpy(new, end, halo, 0, bytes)?;
                self.communication.fence(new.into(), 0, 1)?.done()?;
            }
        }
        // The slab is lent again once its planes have arrived.
        self.communication.fence(new.into(), sent, 0)?.done()
    }
}

/// What [`solve`] made.
pub struct Solved {
    /// The planes that this Instance's workers computed, in order.
    pub planes: Vec<f64>,
    /// How long all steps took, without what was before and after them.
    pub seconds: f64,
    /// What the workers did, as trace events, if it was recorded.
    pub trace: Option<String>,
}

/// Solves the problem on `group`, sorted, with a worker for each of `resources` on every Instance; collective.
///
/// With `record`, what the workers did is recorded.
pub fn solve(
    managers: &Managers,
    problem: Problem,
    group: &[InstanceId],
    resources: &[ComputeResource],
    tag: u64,
    record: bool,
) -> Result<Solved, Error> {
    let own = group.iter().position(|id| *id == managers.me);
    let own = own.ok_or_else(|| Error::misuse("solve", "this Instance is not in the group"))?;
    let each = resources.len();
    let workers = each * group.len();
    let bytes = problem.reach * problem.plane() * size_of::<f64>();
    // Halos: worker, side (0 below, 1 above), parity.
    let key = |worker: usize, side: usize, parity: usize| Key((worker * 4 + side * 2 + parity) as u64);
    let mut halos = BTreeMap::new();
    for worker in own * each..(own + 1) * each {
        for (side, parity) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let slot = managers.memory.allocate(&managers.space, bytes)?;
            halos.insert(key(worker, side, parity), slot);
        }
    }
    let bring: Vec<_> = halos.iter().map(|(key, slot)| (*key, slot)).collect();
    let mut global = managers.communication.exchange(group, Tag(tag), &bring)?.done()?;
    let mut pair = |worker: usize, side: usize| {
        Some(Arc::new([global.remove(&key(worker, side, 0))?, global.remove(&key(worker, side, 1))?]))
    };
    let mut tasking = Tasking::new(Arc::clone(&managers.compute), Arc::new(Coroutines::new()), resources)?;
    if record {
        tasking.record()?;
    }
    let mut done = Vec::new();
    for index in 0..each {
        let worker = own * each + index;
        let (first, last) = problem.share(worker, workers);
        let begin = problem.slab(first - problem.reach, last + problem.reach);
        let slab = || -> Result<LocalSlot, Error> {
            let mut slot = managers.memory.allocate(&managers.space, size_of_val(begin.as_slice()))?;
            slot.values_mut::<f64>()?.copy_from_slice(&begin);
            Ok(slot)
        };
        let mine = [(0, 0), (0, 1), (1, 0), (1, 1)];
        let mine = mine.into_iter().filter_map(|at| Some((at, halos.remove(&key(worker, at.0, at.1))?)));
        let worker = Worker {
            problem,
            planes: last - first,
            slabs: [slab()?, slab()?],
            halos: mine.collect(),
            neighbours: [worker.checked_sub(1).and_then(|below| pair(below, 1)), pair(worker + 1, 0)],
            communication: Arc::clone(&managers.communication),
        };
        done.push(spawn(&tasking, index, worker)?);
    }
    // All slabs are there before anybody computes; each fence of a slot is one worker's.
    managers.communication.exchange(group, Tag(tag + 1), &[])?.done()?;
    let begin = Instant::now();
    tasking.run()?.map_err(|blocked| Error::misuse("solve", blocked))?;
    managers.communication.exchange(group, Tag(tag + 1), &[])?.done()?;
    let seconds = begin.elapsed().as_secs_f64();
    let mut planes = Vec::new();
    for worker in done {
        let mut worker = worker.lock().map_err(|_| Error::misuse("solve", "a worker panicked"))?;
        planes.extend(std::mem::replace(&mut *worker, Err(Error::Gone("the worker".into())))?.result()?);
    }
    Ok(Solved { planes, seconds, trace: tasking.trace().map(Trace::to_json) })
}

/// A worker, or why it stopped.
type Done = Arc<Mutex<Result<Worker, Error>>>;

/// Makes tasks of all that a worker does, each after the one before, on the worker `index` of those that pull tasks.
fn spawn(tasking: &Tasking, index: usize, worker: Worker) -> Result<Done, Error> {
    let parts = worker.parts();
    let done = Arc::new(Mutex::new(Ok(worker)));
    let mut before: Option<Task> = None;
    for part in parts {
        let shared = Arc::clone(&done);
        let task = tasking.task(part.name(), Some(index), None, move |_| {
            let mut worker = shared.lock().expect("nobody else has it, and who panics goes on with nothing");
            let failed = worker.as_mut().ok().and_then(|worker| worker.run(part).err());
            if let Some(error) = failed {
                *worker = Err(error);
            }
        })?;
        if let Some(before) = &before {
            task.depends_on(before)?;
        }
        tasking.spawn(&task)?;
        before = Some(task);
    }
    Ok(done)
}
