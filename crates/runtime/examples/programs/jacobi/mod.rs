//! Coarse-grained tasks (hicr.txt 5.4): the heat equation by Jacobi's method on a cube, divided into a box per worker.
//!
//! Each worker keeps its box in its own slots, computes, and puts the points at its faces into its neighbours' halos,
//! which are global slots; neighbours in the same and in other Instances are treated alike. Stencils extend
//! along the axes only, so edges and corners of a halo are never needed.
//!
//! A grid larger than the caches is read once per two steps: the second follows the first a few planes behind, while those
//! are still in the cache (Wellein et al., "Efficient temporal blocking for stencil computations by multicore-aware
//! wavefront parallelization", COMPSAC 2009). Points that depend on the neighbours' first step are computed afterwards.

mod split;
mod stencil;
mod worker;

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use runtime::{
    CommunicationManager, ComputeManager, Error, InstanceId, Key, LocalSlot, MemoryManager, Tag,
    backends::Coroutines,
    frontends::tasking::{Tasking, Trace},
    hicr::{ComputeResource, MemorySpace},
};
pub use split::Split;
pub use stencil::{Region, Stencil};
use worker::{Face, Worker};

/// The problem.
#[derive(Clone, Copy, Debug)]
pub struct Problem {
    /// Points on each edge of the cube, including its fixed boundary.
    pub edge: usize,
    /// The stencil's reach along each axis: 1 makes 7 points, 2 makes 13.
    pub reach: usize,
    /// Number of iterations.
    pub iterations: usize,
}

impl Problem {
    /// The initial value of a point: hot in one corner, and different everywhere.
    #[allow(clippy::cast_precision_loss, reason = "it is below 101")]
    pub fn begin(&self, x: usize, y: usize, z: usize) -> f64 {
        let hot = if x < self.edge / 4 && y < self.edge / 4 && z < self.edge / 4 { 100.0 } else { 0.0 };
        hot + ((x * 31 + y * 17 + z * 7) % 101) as f64 / 101.0
    }

    /// The stencil on the whole cube.
    pub fn stencil(&self) -> Stencil {
        Stencil { reach: self.reach, rows: self.edge, row: self.edge }
    }

    /// The sequential reference without the runtime: the whole cube after all steps.
    pub fn sequential(&self) -> Vec<f64> {
        let mut old = self.values(&[0..self.edge, 0..self.edge, 0..self.edge]);
        let mut new = old.clone();
        let inner = self.reach..self.edge - self.reach;
        for _ in 0..self.iterations {
            self.stencil().step(&old, &mut new, &[inner.clone(), inner.clone(), inner.clone()]);
            std::mem::swap(&mut old, &mut new);
        }
        old
    }

    /// The points of a box before the first step.
    pub fn values(&self, region: &Region) -> Vec<f64> {
        let [x, y, z] = region;
        let points = x.clone().flat_map(|x| y.clone().flat_map(move |y| z.clone().map(move |z| (x, y, z))));
        points.map(|(x, y, z)| self.begin(x, y, z)).collect()
    }
}

/// The managers of a computing Instance.
#[derive(Clone)]
pub struct Managers {
    pub memory: Arc<dyn MemoryManager>,
    pub communication: Arc<dyn CommunicationManager>,
    pub compute: Arc<dyn ComputeManager>,
    pub space: MemorySpace,
    pub me: InstanceId,
}

/// The result of [`solve`].
pub struct Solved {
    /// The values computed by each of this Instance's workers, in order, row by row.
    pub blocks: Vec<Vec<f64>>,
    /// Duration of all steps, without set-up and teardown.
    pub seconds: f64,
    /// Trace events of the workers, if recorded.
    pub trace: Option<String>,
}

/// A side of a part of the cube: the part, the axis, and below (0) or above (1).
type Side = (usize, usize, usize);

/// The key of a side's halo for steps of a parity.
fn key((part, axis, side): Side, parity: usize) -> Key {
    Key((part * 12 + axis * 4 + side * 2 + parity) as u64)
}

/// Collective: solves the problem on a sorted group, with one worker per resource on every Instance.
///
/// With `record`, a trace is recorded. Fails if the cube cannot be split this way or among this number of workers.
pub fn solve(
    managers: &Managers,
    problem: Problem,
    split: Split,
    group: &[InstanceId],
    resources: &[ComputeResource],
    tag: u64,
    record: bool,
) -> Result<Solved, Error> {
    let own = group.iter().position(|id| *id == managers.me);
    let own = own.ok_or_else(|| Error::misuse("solve", "this Instance is not in the group"))?;
    let each = resources.len();
    split.check(problem, each * group.len())?;
    let parts = own * each..(own + 1) * each;
    let halos = halos(managers, problem, split, parts.clone())?;
    let bring: Vec<_> = halos
        .iter()
        .flat_map(|(side, slots)| [(key(*side, 0), &slots[0]), (key(*side, 1), &slots[1])])
        .collect();
    let mut global = managers.communication.exchange(group, Tag(tag), &bring)?.done()?;
    let mut tasking = Tasking::new(Arc::clone(&managers.compute), Arc::new(Coroutines::new()), resources)?;
    if record {
        tasking.record()?;
    }
    let mut faces: BTreeMap<usize, Vec<Face>> = BTreeMap::new();
    for ((part, axis, side), halos) in halos {
        let beside = split.neighbour(part, axis, side).expect("there is a halo at a neighbour's side alone");
        let mut theirs = |parity: usize| {
            let slot = global.remove(&key((beside, axis, 1 - side), parity));
            slot.ok_or_else(|| Error::misuse("solve", "the Instances do not split the cube alike"))
        };
        let theirs = [theirs(0)?, theirs(1)?];
        let gathered =
            (axis > 0).then(|| managers.memory.allocate(&managers.space, halos[0].size())).transpose()?;
        faces.entry(part).or_default().push(Face { axis, side, halos, theirs, gathered });
    }
    let mut done = Vec::new();
    for (index, part) in parts.enumerate() {
        let region = split.region(problem, part);
        let outer = region.clone().map(|range| range.start - problem.reach..range.end + problem.reach);
        let begin = problem.values(&outer);
        let grid = || -> Result<LocalSlot, Error> {
            let mut slot = managers.memory.allocate(&managers.space, size_of_val(begin.as_slice()))?;
            slot.values_mut::<f64>()?.copy_from_slice(&begin);
            Ok(slot)
        };
        let worker = Worker {
            stencil: Stencil { reach: problem.reach, rows: outer[1].len(), row: outer[2].len() },
            size: region.map(|range| range.len()),
            iterations: problem.iterations,
            grids: [grid()?, grid()?],
            faces: faces.remove(&part).unwrap_or_default(),
            communication: Arc::clone(&managers.communication),
        };
        done.push(worker::spawn(&tasking, index, worker)?);
    }
    // All boxes exist before any worker computes; each slot is fenced by one worker.
    managers.communication.exchange(group, Tag(tag + 1), &[])?.done()?;
    let begin = Instant::now();
    tasking.run()?.map_err(|blocked| Error::misuse("solve", blocked))?;
    managers.communication.exchange(group, Tag(tag + 1), &[])?.done()?;
    let seconds = begin.elapsed().as_secs_f64();
    let blocks = done.into_iter().map(worker::Done::result).collect::<Result<_, _>>()?;
    Ok(Solved { blocks, seconds, trace: tasking.trace().map(Trace::to_json) })
}

/// Halo buffers for the neighbours of `parts`, by side and step parity. Planes of x are contiguous and transferred with
/// their rims; the other sides transfer only the points.
fn halos(
    managers: &Managers,
    problem: Problem,
    split: Split,
    parts: std::ops::Range<usize>,
) -> Result<BTreeMap<Side, [LocalSlot; 2]>, Error> {
    let reach = problem.reach;
    let mut halos = BTreeMap::new();
    for part in parts {
        let [x, y, z] = split.region(problem, part).map(|range| range.len());
        let points = [(y + 2 * reach) * (z + 2 * reach), x * z, x * y].map(|points| points * reach);
        for (axis, side) in (0..3).flat_map(|axis| [(axis, 0), (axis, 1)]) {
            if split.neighbour(part, axis, side).is_some() {
                let halo = || managers.memory.allocate(&managers.space, points[axis] * size_of::<f64>());
                halos.insert((part, axis, side), [halo()?, halo()?]);
            }
        }
    }
    Ok(halos)
}
