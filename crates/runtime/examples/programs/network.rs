//! The network of the inference test (hicr.txt 5.2), for digits of 8 × 8 points:
//! 64 → 128 → (64 → 32 ‖ 32, added) → 10, with `ReLU` between; 23,114 weights.

use std::sync::Arc;

use runtime::{ComputeManager, Error, ExecutionState, ExecutionUnit, hicr::ComputeResource};

/// The layers: number of inputs and outputs.
pub const LAYERS: [(usize, usize); 5] = [(64, 128), (128, 64), (64, 32), (128, 32), (32, 10)];
/// Number of weights, including biases.
pub const WEIGHTS: usize = 23_114;
/// Points of an image.
pub const POINTS: usize = 64;

/// The weights of each layer: for each output its bias, then one per input.
#[derive(Clone)]
pub struct Network(pub Vec<Vec<f32>>);

impl Network {
    /// Reads all weights in sequence, 32-bit little-endian.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (all, rest) = bytes.as_chunks::<4>();
        if all.len() != WEIGHTS || !rest.is_empty() {
            return None;
        }
        let mut all = all.iter().map(|bytes| f32::from_le_bytes(*bytes));
        Some(Self(LAYERS.iter().map(|(from, to)| all.by_ref().take((from + 1) * to).collect()).collect()))
    }

    /// Plain code without the runtime: the ten scores of each image.
    pub fn plain(&self, images: &[f32]) -> Vec<f32> {
        let hidden = self.layer(0, images);
        let long = self.layer(2, &self.layer(1, &hidden));
        let short = self.layer(3, &hidden);
        self.layer(4, &added(&long, &short))
    }

    /// One layer for a batch. Constant sizes let the compiler specialize `dense` for each.
    fn layer(&self, layer: usize, inputs: &[f32]) -> Vec<f32> {
        let weights = &self.0[layer];
        match layer {
            0 => dense(weights, inputs, LAYERS[0], true),
            1 => dense(weights, inputs, LAYERS[1], true),
            2 => dense(weights, inputs, LAYERS[2], false),
            3 => dense(weights, inputs, LAYERS[3], false),
            _ => dense(weights, inputs, LAYERS[4], false),
        }
    }
}

/// A dense layer for a batch of inputs.
#[inline(never)]
pub fn dense(weights: &[f32], inputs: &[f32], (from, to): (usize, usize), relu: bool) -> Vec<f32> {
    let mut outputs = Vec::with_capacity(inputs.len() / from * to);
    for input in inputs.chunks_exact(from) {
        for row in weights.chunks_exact(from + 1) {
            // Eight parallel sums, which the compiler vectorizes.
            let mut sums = [0.0_f32; 8];
            for (weights, inputs) in row[1..].chunks_exact(8).zip(input.chunks_exact(8)) {
                for lane in 0..8 {
                    sums[lane] += weights[lane] * inputs[lane];
                }
            }
            let sum = row[0] + sums.iter().sum::<f32>();
            outputs.push(if relu { sum.max(0.0) } else { sum });
        }
    }
    outputs
}

/// The sum of the two branches, with `ReLU`.
pub fn added(one: &[f32], other: &[f32]) -> Vec<f32> {
    one.iter().zip(other).map(|(one, other)| (one + other).max(0.0)).collect()
}

/// The digit with the highest score, for each image.
pub fn digits(scores: &[f32]) -> Vec<u8> {
    let best = |scores: &[f32]| {
        (0..10_u8).max_by(|a, b| scores[usize::from(*a)].total_cmp(&scores[usize::from(*b)]))
    };
    scores.chunks_exact(10).filter_map(best).collect()
}

/// Images and their digits, from lines of 64 points `0` to `g` and the digit.
pub fn images(text: &str) -> (Vec<f32>, Vec<u8>) {
    let mut points = Vec::new();
    let mut digits = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let bytes = line.as_bytes();
        points.extend(bytes[..POINTS].iter().map(|point| {
            let value = if point.is_ascii_digit() { point - b'0' } else { point - b'a' + 10 };
            f32::from(value) / 16.0
        }));
        digits.push(bytes[POINTS + 1] - b'0');
    }
    (points, digits)
}

/// Which of `count` images are held out from training: one in five, drawn by a seed.
pub fn held_out(count: usize) -> Vec<bool> {
    // A linear congruential generator, so that the split does not depend on a library.
    let mut state = 20_260_101_u64;
    let mut order: Vec<usize> = (0..count).collect();
    for left in (1..count).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(left, usize::try_from((state >> 33) % (left as u64 + 1)).unwrap_or(0));
    }
    let mut out = vec![false; count];
    order[..count / 5].iter().for_each(|index| out[*index] = true);
    out
}

/// The argument of a layer's execution: the layer, its inputs (shared by both branches), and the output of the other branch
/// if there is one.
type Layer = (Arc<Network>, usize, Arc<Vec<f32>>, Vec<f32>);

/// Inference through the compute manager alone: each layer is an execution state. With two units, the two branches
/// run concurrently; a single unit runs all batches itself.
pub fn infer(
    compute: &Arc<dyn ComputeManager>,
    resources: &[ComputeResource],
    network: &Network,
    images: &Arc<[f32]>,
    batch: usize,
) -> Result<Vec<f32>, Error> {
    let network = Arc::new(network.clone());
    let unit = ExecutionUnit::uninterrupted(|(network, layer, inputs, other): Layer| {
        if other.is_empty() {
            network.layer(layer, &inputs)
        } else {
            network.layer(layer, &added(&inputs, &other))
        }
    })
    .named("dense");
    let mut units = Vec::new();
    for resource in resources {
        let processing = compute.create_processing_unit(resource)?;
        compute.initialize(&processing)?;
        units.push(processing);
    }
    let start = |unit_number: usize, layer: usize, inputs: Arc<Vec<f32>>, other: Vec<f32>| {
        let processing = &units[unit_number % units.len()];
        let argument = Box::new((Arc::clone(&network), layer, inputs, other));
        let state = compute.create_execution_state(&unit, argument)?;
        // A unit is Ready a moment after its state has finished.
        loop {
            match compute.start(processing, &state) {
                Err(Error::State { .. }) => std::thread::yield_now(),
                started => return started.map(|()| state),
            }
        }
    };
    let end = |state: ExecutionState| {
        compute.wait(&state).done()?;
        state.take::<Vec<f32>>().map(Arc::new)
    };
    if let [processing] = &units[..] {
        let all = ExecutionUnit::function(|_, batches: Batches| batches.infer());
        let batches =
            Batches { compute: Arc::clone(compute), unit, network, images: Arc::clone(images), batch };
        let state = compute.create_execution_state(&all, Box::new(batches))?;
        compute.start(processing, &state)?;
        compute.wait(&state).done()?;
        return state.take::<Result<Vec<f32>, Error>>()?;
    }
    let mut scores = Vec::new();
    for images in images.chunks(batch * POINTS) {
        let hidden = end(start(0, 0, images.to_vec().into(), Vec::new())?)?;
        let short = start(1, 3, Arc::clone(&hidden), Vec::new())?;
        let long = end(start(0, 1, hidden, Vec::new())?)?;
        let long = end(start(0, 2, long, Vec::new())?)?;
        scores.extend_from_slice(&end(start(0, 4, long, end(short)?.to_vec())?)?);
    }
    Ok(scores)
}

/// The argument of a single unit.
struct Batches {
    compute: Arc<dyn ComputeManager>,
    unit: ExecutionUnit,
    network: Arc<Network>,
    images: Arc<[f32]>,
    batch: usize,
}

impl Batches {
    /// Runs each layer of each batch on the current thread, as a worker runs its tasks, without waiting.
    fn infer(self) -> Result<Vec<f32>, Error> {
        let run = |layer: usize, inputs: &Arc<Vec<f32>>, other: Vec<f32>| {
            let argument = Box::new((Arc::clone(&self.network), layer, Arc::clone(inputs), other));
            let state = self.compute.create_execution_state(&self.unit, argument)?;
            self.compute.run(&state)?;
            state.take::<Vec<f32>>()
        };
        let mut scores = Vec::new();
        for images in self.images.chunks(self.batch * POINTS) {
            let hidden = run(0, &images.to_vec().into(), Vec::new())?.into();
            let long = run(1, &hidden, Vec::new())?.into();
            let long = run(2, &long, Vec::new())?.into();
            scores.extend(run(4, &long, run(3, &hidden, Vec::new())?)?);
        }
        Ok(scores)
    }
}
