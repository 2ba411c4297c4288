//! Building tables, and looking vectors up in them.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cost::{PARAMETERS, ParallelModel, Vector};
use crate::offline::{Plan, Settings, evolve, makespan};
use crate::{Budget, Graph, MapError, Mapping, Platform, Range};

/// Upper limit on regions.
pub const MOST_REGIONS: usize = 65_536;
/// Ratio of the mean to the makespan of a vector's own mapping above which the vector votes to divide the region.
const TOO_FAR: f64 = 1.1;

/// Parameters of building a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Build {
    /// Vectors sampled per region.
    pub samples: usize,
    /// Seed of the vectors and of the genetic algorithm.
    pub seed: u64,
    /// How often a region may be halved in every parameter if its mapping suits most of its vectors badly.
    pub divisions: usize,
    /// Settings for mapping a vector.
    pub genetic: Settings,
}

impl Default for Build {
    /// The paper's values: ten vectors, no subdivision.
    fn default() -> Self {
        Self { samples: 10, seed: 0, divisions: 0, genetic: Settings::default() }
    }
}

/// A region of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    /// Its mapping, by position in [`Table::plans`], or in the second part of the result of [`build_region`].
    pub plan: usize,
    /// The mean makespan of that mapping over the region's vectors.
    pub mean: f64,
    /// If divided, its 16 halves in every parameter; α varies slowest, μ fastest.
    pub parts: Vec<Region>,
}

/// A table of mappings.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The ranges of the parameters, in the order of [`PARAMETERS`].
    pub ranges: [Range; 4],
    /// Vectors sampled per region.
    pub samples: usize,
    /// The seed.
    pub seed: u64,
    /// Names of the graph's tasks, in order.
    pub tasks: Vec<String>,
    /// Distinct mappings, in the order of the first region that uses them.
    pub mappings: Vec<Mapping>,
    /// All regions; α varies slowest, μ fastest.
    pub regions: Vec<Region>,
}

/// The entry of a table for a vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry<'a> {
    /// The region's interval of each parameter; in a divided region followed by the half of each parameter, and so on.
    pub path: Vec<[usize; 4]>,
    /// The mapping, by position in [`Table::mappings`].
    pub number: usize,
    /// The mapping.
    pub mapping: &'a Mapping,
    /// Its mean makespan over the region's vectors.
    pub mean: f64,
}

impl Table {
    /// The entry for a vector; values outside the ranges are clamped.
    pub fn lookup(&self, vector: &Vector) -> Entry<'_> {
        let mut index = index_of(&self.ranges, vector);
        let mut bounds = region_of(&self.ranges, index);
        let mut region = &self.regions[flat(&self.ranges, index)];
        let mut path = vec![index];
        while !region.parts.is_empty() {
            let halves = bounds.map(|(min, max)| Range { min, max, intervals: 2 });
            index = index_of(&halves, vector);
            bounds = region_of(&halves, index);
            region = &region.parts[flat(&halves, index)];
            path.push(index);
        }
        Entry { path, number: region.plan, mapping: &self.mappings[region.plan], mean: region.mean }
    }
}

/// The region of a vector: the interval of each parameter.
pub fn index_of(ranges: &[Range; 4], vector: &Vector) -> [usize; 4] {
    let values = vector.values();
    std::array::from_fn(|at| interval(&ranges[at], values[at]))
}

/// The interval of a value in a range.
fn interval(range: &Range, value: f64) -> usize {
    #[expect(clippy::cast_precision_loss, reason = "intervals are few")]
    let position = (value - range.min) / (range.max - range.min) * range.intervals as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, and is clamped")]
    let whole = position.floor().max(0.0) as usize;
    whole.min(range.intervals - 1)
}

/// Bounds of a region, by parameter.
pub fn region_of(ranges: &[Range; 4], index: [usize; 4]) -> [(f64, f64); 4] {
    std::array::from_fn(|at| {
        let Range { min, max, intervals } = ranges[at];
        #[expect(clippy::cast_precision_loss, reason = "intervals are few")]
        let bound = |number: usize| min + (max - min) * (number as f64 / intervals as f64);
        (bound(index[at]), bound(index[at] + 1))
    })
}

fn flat(ranges: &[Range; 4], index: [usize; 4]) -> usize {
    ranges.iter().zip(index).fold(0, |sum, (range, index)| sum * range.intervals + index)
}

fn unflat(ranges: &[Range; 4], mut number: usize) -> [usize; 4] {
    let mut index = [0; 4];
    for at in (0..4).rev() {
        index[at] = number % ranges[at].intervals;
        number /= ranges[at].intervals;
    }
    index
}

/// The ranges of a graph's parameters, in the order of [`PARAMETERS`].
pub fn ranges(graph: &Graph) -> Result<[Range; 4], MapError> {
    let mut all = [Range { min: 0.0, max: 1.0, intervals: 1 }; 4];
    for (range, name) in all.iter_mut().zip(PARAMETERS) {
        *range = *graph.parameters().get(name).ok_or_else(|| {
            MapError::Other(format!(
                "parameters.{name}: absent from the graph, and a table needs the range of every parameter; add \
                 {name}: {{min, max, intervals}}"
            ))
        })?;
    }
    if all.iter().map(|range| range.intervals).product::<usize>() > MOST_REGIONS {
        return Err(MapError::Other(format!(
            "parameters: more than {MOST_REGIONS} regions; write fewer intervals"
        )));
    }
    if let Some(at) = all.iter().position(|range| range.min < 0.0) {
        return Err(MapError::Other(format!(
            "parameters.{}: min is below 0, where times would be negative; write min from 0 up",
            PARAMETERS[at]
        )));
    }
    Ok(all)
}

/// Builds a table on this many threads; the result does not depend on the number.
///
/// `done` receives the number of finished regions.
pub fn build(
    graph: &Graph,
    platform: &Platform,
    build: &Build,
    threads: usize,
    done: &(dyn Fn(usize) + Sync),
) -> Result<Table, MapError> {
    let ranges = ranges(graph)?;
    let count: usize = ranges.iter().map(|range| range.intervals).product();
    let (next, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        let mut mine = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return mine;
            }
            mine.push((number, build_region(graph, platform, build, unflat(&ranges, number))));
            done(finished.fetch_add(1, Ordering::Relaxed) + 1);
        }
    };
    let mut regions: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.clamp(1, count)).map(|_| scope.spawn(work)).collect();
        let finished = workers.into_iter();
        finished.flat_map(|worker| worker.join().expect("a worker does not panic")).collect()
    });
    regions.sort_by_key(|(number, _)| *number);

    let mut table = Table {
        ranges,
        samples: build.samples,
        seed: build.seed,
        tasks: graph.tasks().iter().map(|task| task.id.clone()).collect(),
        mappings: Vec::new(),
        regions: Vec::with_capacity(count),
    };
    for (_, region) in regions {
        let (mut region, mappings) = region?;
        adopt(&mut region, &mappings, &mut table.mappings);
        table.regions.push(region);
    }
    Ok(table)
}

/// Renumbers a region's mappings to those of a table.
fn adopt(region: &mut Region, from: &[Mapping], into: &mut Vec<Mapping>) {
    let mapping = &from[region.plan];
    region.plan = into.iter().position(|known| known == mapping).unwrap_or_else(|| {
        into.push(mapping.clone());
        into.len() - 1
    });
    for part in &mut region.parts {
        adopt(part, from, into);
    }
}

/// Builds a single region; returns it with its mappings.
pub fn build_region(
    graph: &Graph,
    platform: &Platform,
    build: &Build,
    index: [usize; 4],
) -> Result<(Region, Vec<Mapping>), MapError> {
    let ranges = ranges(graph)?;
    if let Some(at) = (0..4).find(|&at| index[at] >= ranges[at].intervals) {
        return Err(MapError::Other(format!(
            "region: {} has no interval {}; name one of 0 to {}",
            PARAMETERS[at],
            index[at],
            ranges[at].intervals - 1
        )));
    }
    let mut mappings = Vec::new();
    let seed = mix(build.seed, flat(&ranges, index));
    let region =
        divide(graph, platform, build, region_of(&ranges, index), seed, build.divisions, &mut mappings)?;
    Ok((region, mappings))
}

/// Builds a region, and divides it if its mapping suits most of its vectors badly.
fn divide(
    graph: &Graph,
    platform: &Platform,
    build: &Build,
    bounds: [(f64, f64); 4],
    seed: u64,
    divisions: usize,
    mappings: &mut Vec<Mapping>,
) -> Result<Region, MapError> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let samples = build.samples.max(1);
    let vectors: Vec<Vector> =
        (0..samples).map(|_| Vector::new(bounds.map(|(from, to)| from + (to - from) * rng.f64()))).collect();
    let models = vectors.iter().map(|vector| ParallelModel::new("table", graph, platform, vector));
    let models: Vec<ParallelModel> = models.collect::<Result<_, _>>()?;
    let plans: Vec<Plan> = models
        .iter()
        .map(|model| evolve(model, &build.genetic, &[], &Budget::effort(None, rng.u64(..))).plan)
        .collect();
    #[expect(clippy::cast_precision_loss, reason = "samples are few")]
    let mean = |plan: &Plan| models.iter().map(|model| makespan(model, plan)).sum::<f64>() / samples as f64;
    let means: Vec<f64> = plans.iter().map(mean).collect();
    let best = (0..samples).reduce(|best, at| if means[at] < means[best] { at } else { best });
    let best = best.expect("there is at least one vector");
    let mapping = plans[best].mapping(&models[best]);
    mappings.push(mapping);
    let mut region = Region { plan: mappings.len() - 1, mean: means[best], parts: Vec::new() };

    let far = (0..samples).filter(|&at| means[best] > TOO_FAR * makespan(&models[at], &plans[at])).count();
    if divisions > 0 && 2 * far > samples {
        let halves = bounds.map(|(min, max)| Range { min, max, intervals: 2 });
        for number in 0..16 {
            let bounds = region_of(&halves, unflat(&halves, number));
            let seed = mix(seed, number);
            region.parts.push(divide(graph, platform, build, bounds, seed, divisions - 1, mappings)?);
        }
    }
    Ok(region)
}

/// Derives a seed from several numbers: the finalizer of `SplitMix64`.
fn mix(seed: u64, number: usize) -> u64 {
    let mut mixed = seed.wrapping_add((number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
