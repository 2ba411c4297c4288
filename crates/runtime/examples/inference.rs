//! Classifies all digits on every back-end that runs functions, and by plain code: accuracy on held-out images, the score
//! of the first, and images per second in batches of 128 on one unit. `inference [ROUNDS]`

#![allow(clippy::cast_precision_loss, reason = "counts of images are small")]

#[path = "programs/network.rs"]
mod network;

use std::{sync::Arc, time::Instant};

use network::{Network, POINTS, digits, held_out, images, infer};
use runtime::{
    ComputeManager, Error, TopologyManager,
    backends::{Coroutines, Threads, host::HostTopology},
};

fn main() -> Result<(), Error> {
    let rounds = std::env::args().nth(1).and_then(|rounds| rounds.parse().ok()).unwrap_or(20);
    let (points, labels) = images(include_str!("data/digits.txt"));
    let weights = include_bytes!("data/digits.weights");
    let network =
        Network::read(weights).ok_or_else(|| Error::misuse("read the weights", "they are not 23,114"))?;
    let out = held_out(labels.len());
    let topology = HostTopology::new()?.query()?;
    let points: Arc<[f32]> = points.into();
    let unit = &topology.devices[0].compute_resources[..1];
    let report = |name: &str, scores: &[f32], rate: f64| {
        let read = digits(scores);
        let right = (0..labels.len()).filter(|&index| out[index] && read[index] == labels[index]).count();
        let all = out.iter().filter(|out| **out).count();
        println!(
            "{name:12} {:.2} % of {all} held-out images, first image {:.9}, {rate:.0} images a second",
            100.0 * right as f64 / all as f64,
            scores[..10].iter().copied().fold(f32::MIN, f32::max)
        );
    };
    let managers: [Arc<dyn ComputeManager>; 2] = [Arc::new(Threads::new()), Arc::new(Coroutines::new())];
    // Alternating runs; medians of the rates, and of the ratios of adjacent runs.
    let mut spent = [const { Vec::new() }; 3];
    let mut scores = [const { Vec::new() }; 3];
    for _ in 0..rounds {
        for (at, (spent, scores)) in spent.iter_mut().zip(&mut scores).enumerate() {
            let begin = Instant::now();
            for _ in 0..TURN {
                *scores = match at.checked_sub(1) {
                    None => points.chunks(128 * POINTS).flat_map(|batch| network.plain(batch)).collect(),
                    Some(at) => infer(&managers[at], unit, &network, &points, 128)?,
                };
            }
            spent.push(begin.elapsed().as_secs_f64());
        }
    }
    let inferred = (labels.len() * TURN) as f64;
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    for (at, name) in ["plain code", managers[0].name(), managers[1].name()].into_iter().enumerate() {
        report(name, &scores[at], inferred / median(spent[at].clone()));
        let ratios = spent[0].iter().zip(&spent[at]).map(|(plain, ours)| plain / ours).collect();
        println!("{:12} {:.3} of the plain code's", "", median(ratios));
    }
    Ok(())
}

/// Passes over all images before the next back-end's turn.
const TURN: usize = 5;
