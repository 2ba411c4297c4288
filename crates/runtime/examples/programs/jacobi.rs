//! Coarse-grained tasks (hicr.txt 5.4): a heat equation by Jacobi's method on a cube, cut into slabs, a worker each.
//!
//! Each worker has its slab in slots of its own, computes, and puts the planes at its ends into its neighbours' halos,
//! which are global slots: whether the neighbour is in this Instance or another one makes no difference.
//!
//! A grid that no cache holds is read once for two steps: the second follows the first a few planes behind, while those
//! are still in the cache (Wellein et al., "Efficient temporal blocking for stencil computations by multicore-aware
//! wavefront parallelization", COMPSAC 2009). What it needs of the neighbours' first step comes after that.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use runtime::{
    CommunicationManager, ComputeManager, Error, ExecutionUnit, GlobalSlot, InstanceId, Key, LocalSlot,
    Memcpy, MemoryManager, Tag,
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
    /// in the same order, so that every split gives the same bits.
    #[allow(clippy::cast_precision_loss, reason = "it is 7 or 13")]
    pub fn step(&self, old: &[f64], new: &mut [f64], first: usize, last: usize) {
        let (edge, plane, reach) = (self.edge, self.plane(), self.reach);
        let scale = 1.0 / self.points() as f64;
        for x in first..last {
            for y in reach..edge - reach {
                let row = x * plane + y * edge;
                let target = &mut new[row + reach..row + edge - reach];
                let at = |offset: usize| &old[offset..offset + target.len()];
                if reach == 1 {
                    let (middle, low, high) = (at(row + 1), at(row), at(row + 2));
                    let (up, down) = (at(row + 1 - edge), at(row + 1 + edge));
                    let (before, after) = (at(row + 1 - plane), at(row + 1 + plane));
                    for (z, target) in target.iter_mut().enumerate() {
                        *target =
                            (middle[z] + low[z] + high[z] + up[z] + down[z] + before[z] + after[z]) * scale;
                    }
                } else {
                    let middle = at(row + 2);
                    let rows = [
                        [at(row + 1), at(row + 3)],
                        [at(row + 2 - edge), at(row + 2 + edge)],
                        [at(row + 2 - plane), at(row + 2 + plane)],
                    ];
                    let far = [
                        [at(row), at(row + 4)],
                        [at(row + 2 - 2 * edge), at(row + 2 + 2 * edge)],
                        [at(row + 2 - 2 * plane), at(row + 2 + 2 * plane)],
                    ];
                    for (z, target) in target.iter_mut().enumerate() {
                        let mut sum = middle[z];
                        for axis in 0..3 {
                            sum += rows[axis][0][z] + rows[axis][1][z] + far[axis][0][z] + far[axis][1][z];
                        }
                        *target = sum * scale;
                    }
                }
            }
        }
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

impl Worker {
    fn run(mut self) -> Result<Vec<f64>, Error> {
        let Problem { reach, iterations, .. } = self.problem;
        let (first, last) = (reach, reach + self.planes);
        let mut step = 0;
        while step < iterations {
            let (problem, [old, new]) = (self.problem, self.grids(step)?);
            if step + 1 == iterations || last - first < 2 * reach {
                problem.step(old, new, first, last);
                self.exchange(step)?;
                step += 1;
                continue;
            }
            problem.two_steps(old, new, first, last);
            self.exchange(step)?;
            let [old, new] = self.grids(step + 1)?;
            problem.step(old, new, first, first + reach);
            problem.step(old, new, last - reach, last);
            self.exchange(step + 1)?;
            step += 2;
        }
        let plane = self.problem.plane();
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

/// Solves the problem on `group`, sorted, with a worker for each of `resources` on every Instance; collective.
///
/// Returns the planes that this Instance's workers computed, in order, and how many seconds all steps took, without what
/// was before and after them.
pub fn solve(
    managers: &Managers,
    problem: Problem,
    group: &[InstanceId],
    resources: &[ComputeResource],
    tag: u64,
) -> Result<(Vec<f64>, f64), Error> {
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
    let unit = ExecutionUnit::function(|_, worker: Worker| worker.run());
    let mut running = Vec::new();
    for (index, resource) in resources.iter().enumerate() {
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
        let argument = Worker {
            problem,
            planes: last - first,
            slabs: [slab()?, slab()?],
            halos: mine.collect(),
            neighbours: [worker.checked_sub(1).and_then(|below| pair(below, 1)), pair(worker + 1, 0)],
            communication: Arc::clone(&managers.communication),
        };
        let processing = managers.compute.create_processing_unit(resource)?;
        managers.compute.initialize(&processing)?;
        let state = managers.compute.create_execution_state(&unit, Box::new(argument))?;
        running.push((processing, state));
    }
    // All slabs are there before anybody computes; each fence of a slot is one worker's.
    managers.communication.exchange(group, Tag(tag + 1), &[])?.done()?;
    let begin = Instant::now();
    for (processing, state) in &running {
        managers.compute.start(processing, state)?;
    }
    for (_, state) in &running {
        managers.compute.wait(state).done()?;
    }
    managers.communication.exchange(group, Tag(tag + 1), &[])?.done()?;
    let seconds = begin.elapsed().as_secs_f64();
    let mut planes = Vec::new();
    for (_, state) in &running {
        planes.extend(state.take::<Result<Vec<f64>, Error>>()??);
    }
    Ok((planes, seconds))
}
