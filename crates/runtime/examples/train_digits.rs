//! Trains the network of the inference test from a seed, and writes its weights: `train_digits OUTPUT`.
//!
//! Stochastic gradient descent with momentum on the cross entropy, images in batches of 16.

#![allow(clippy::cast_precision_loss, reason = "counts of images are small")]

#[path = "programs/network.rs"]
#[allow(dead_code, reason = "the other half is for inference")]
mod network;

use network::{LAYERS, Network, POINTS, added, dense, digits, held_out, images};

const EPOCHS: usize = 60;
const BATCH: usize = 16;
const MOMENTUM: f32 = 0.9;

fn main() -> std::io::Result<()> {
    let (points, labels) = images(include_str!("data/digits.txt"));
    let out = held_out(labels.len());
    let (train, test): (Vec<usize>, Vec<usize>) = (0..labels.len()).partition(|index| !out[*index]);
    let mut rng = fastrand::Rng::with_seed(1);
    // He's initialisation: uniform with variance 2 / inputs.
    let mut network = Network(
        LAYERS
            .map(|(from, to)| {
                let bound = (6.0 / from as f32).sqrt();
                (0..(from + 1) * to)
                    .map(|at| if at % (from + 1) == 0 { 0.0 } else { (rng.f32() * 2.0 - 1.0) * bound })
                    .collect()
            })
            .to_vec(),
    );
    let mut speed: Vec<Vec<f32>> = network.0.iter().map(|layer| vec![0.0; layer.len()]).collect();
    let mut order = train;
    for epoch in 0..EPOCHS {
        rng.shuffle(&mut order);
        let rate = 0.05 * (1.0 - epoch as f32 / EPOCHS as f32);
        for batch in order.chunks(BATCH) {
            let mut gradient: Vec<Vec<f32>> = network.0.iter().map(|layer| vec![0.0; layer.len()]).collect();
            for &index in batch {
                backward(
                    &network,
                    &points[index * POINTS..][..POINTS],
                    usize::from(labels[index]),
                    &mut gradient,
                );
            }
            for ((layer, speed), gradient) in network.0.iter_mut().zip(&mut speed).zip(&gradient) {
                for ((weight, speed), gradient) in layer.iter_mut().zip(speed).zip(gradient) {
                    *speed = MOMENTUM * *speed - rate * gradient / batch.len() as f32;
                    *weight += *speed;
                }
            }
        }
    }
    let right = test
        .iter()
        .filter(|&&index| digits(&network.plain(&points[index * POINTS..][..POINTS])) == [labels[index]]);
    println!("{} of {} held-out images are read right", right.count(), test.len());
    let path = std::env::args().nth(1).expect("name the file to write");
    std::fs::write(
        path,
        network.0.iter().flatten().flat_map(|weight| weight.to_le_bytes()).collect::<Vec<_>>(),
    )
}

/// Adds the gradient of one image's cross entropy.
fn backward(network: &Network, image: &[f32], label: usize, gradient: &mut [Vec<f32>]) {
    let [first, one, two, short, last] = [0, 1, 2, 3, 4].map(|layer| &network.0[layer]);
    let hidden = dense(first, image, LAYERS[0], true);
    let middle = dense(one, &hidden, LAYERS[1], true);
    let long = dense(two, &middle, LAYERS[2], false);
    let direct = dense(short, &hidden, LAYERS[3], false);
    let sum = added(&long, &direct);
    let scores = dense(last, &sum, LAYERS[4], false);
    let top = scores.iter().copied().fold(f32::MIN, f32::max);
    let powers: Vec<f32> = scores.iter().map(|score| (score - top).exp()).collect();
    let total: f32 = powers.iter().sum();
    let mut error: Vec<f32> = powers.iter().map(|power| power / total).collect();
    error[label] -= 1.0;
    let back = layer(last, &sum, &error, LAYERS[4], &mut gradient[4]);
    let joined = rectified(back, &sum);
    let from_long = layer(two, &middle, &joined, LAYERS[2], &mut gradient[2]);
    let from_long = layer(one, &hidden, &rectified(from_long, &middle), LAYERS[1], &mut gradient[1]);
    let from_short = layer(short, &hidden, &joined, LAYERS[3], &mut gradient[3]);
    let both = from_long.iter().zip(&from_short).map(|(one, other)| one + other).collect();
    layer(first, image, &rectified(both, &hidden), LAYERS[0], &mut gradient[0]);
}

/// The error before a `ReLU`, given that after it.
fn rectified(mut error: Vec<f32>, output: &[f32]) -> Vec<f32> {
    error.iter_mut().zip(output).filter(|(_, output)| **output <= 0.0).for_each(|(error, _)| *error = 0.0);
    error
}

/// Adds a layer's gradient, and returns the error of its inputs.
fn layer(
    weights: &[f32],
    input: &[f32],
    error: &[f32],
    (from, _): (usize, usize),
    gradient: &mut [f32],
) -> Vec<f32> {
    let mut back = vec![0.0; from];
    let rows = weights.chunks_exact(from + 1).zip(gradient.chunks_exact_mut(from + 1));
    for ((row, gradient), error) in rows.zip(error) {
        gradient[0] += error;
        for at in 0..from {
            gradient[at + 1] += error * input[at];
            back[at] += error * row[at + 1];
        }
    }
    back
}
