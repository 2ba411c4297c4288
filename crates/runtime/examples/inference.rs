//! Reads all digits on every back-end that runs functions, and by plain code: accuracy of the held-out images, the score
//! of the first, and images a second by batches of 128 on one unit.

#![allow(clippy::cast_precision_loss, reason = "counts of images are small")]

#[path = "programs/network.rs"]
mod network;

use std::time::Instant;

use network::{Network, POINTS, digits, held_out, images, infer};
use runtime::{
    ComputeManager, Error, TopologyManager,
    backends::{Coroutines, Threads, host::HostTopology},
};

fn main() -> Result<(), Error> {
    let (points, labels) = images(include_str!("data/digits.txt"));
    let weights = include_bytes!("data/digits.weights");
    let network =
        Network::read(weights).ok_or_else(|| Error::misuse("read the weights", "they are not 23,114"))?;
    let out = held_out(labels.len());
    let topology = HostTopology::new()?.query()?;
    let unit = &topology.devices[0].compute_resources[..1];
    let report = |name: &str, scores: &[f32], rate: f64| {
        let read = digits(scores);
        let right = (0..labels.len()).filter(|&index| out[index] && read[index] == labels[index]).count();
        let all = out.iter().filter(|out| **out).count();
        println!(
            "{name:12} {:.2} % of {all} held-out images, first image {:.9}, {rate:.0} images/s",
            100.0 * right as f64 / all as f64,
            scores[..10].iter().copied().fold(f32::MIN, f32::max)
        );
    };
    let rounds = 20;
    let rate =
        |mut once: Box<dyn FnMut() -> Result<Vec<f32>, Error> + '_>| -> Result<(Vec<f32>, f64), Error> {
            let mut scores = once()?;
            let mut best = f64::MAX;
            for _ in 0..rounds {
                let begin = Instant::now();
                scores = once()?;
                best = best.min(begin.elapsed().as_secs_f64());
            }
            Ok((scores, labels.len() as f64 / best))
        };
    let managers: [Box<dyn ComputeManager>; 2] = [Box::new(Threads::new()), Box::new(Coroutines::new())];
    let plain = || Ok(points.chunks(128 * POINTS).flat_map(|batch| network.plain(batch)).collect());
    let (scores, by_hand) = rate(Box::new(plain))?;
    report("plain code", &scores, by_hand);
    for manager in &managers {
        let (scores, images) = rate(Box::new(|| infer(&**manager, unit, &network, &points, 128)))?;
        report(manager.name(), &scores, images);
        println!("{:12} {:.3} of the plain code's", "", images / by_hand);
    }
    Ok(())
}
