//! Reads all digits on every back-end that runs functions, and by plain code: accuracy of the held-out images, the score
//! of the first, and images a second of processor time by batches of 128 on one unit. `inference [ROUNDS]`

#![allow(clippy::cast_precision_loss, reason = "counts of images are small")]

#[path = "programs/network.rs"]
mod network;

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
    let unit = &topology.devices[0].compute_resources[..1];
    let report = |name: &str, scores: &[f32], rate: f64| {
        let read = digits(scores);
        let right = (0..labels.len()).filter(|&index| out[index] && read[index] == labels[index]).count();
        let all = out.iter().filter(|out| **out).count();
        println!(
            "{name:12} {:.2} % of {all} held-out images, first image {:.9}, {rate:.0} images a second of processor time",
            100.0 * right as f64 / all as f64,
            scores[..10].iter().copied().fold(f32::MIN, f32::max)
        );
    };
    let managers: [Box<dyn ComputeManager>; 2] = [Box::new(Threads::new()), Box::new(Coroutines::new())];
    // In turns, and by processor time: whoever else is on the machine slows down all alike, and counts for nobody.
    let mut spent = [0.0; 3];
    let mut scores = [const { Vec::new() }; 3];
    for _ in 0..rounds {
        for (at, (spent, scores)) in spent.iter_mut().zip(&mut scores).enumerate() {
            let begin = processor_time()?;
            for _ in 0..TURN {
                *scores = match at.checked_sub(1) {
                    None => points.chunks(128 * POINTS).flat_map(|batch| network.plain(batch)).collect(),
                    Some(at) => infer(&*managers[at], unit, &network, &points, 128)?,
                };
            }
            *spent += processor_time()? - begin;
        }
    }
    let inferred = (labels.len() * rounds * TURN) as f64;
    for (at, name) in ["plain code", managers[0].name(), managers[1].name()].into_iter().enumerate() {
        report(name, &scores[at], inferred / spent[at]);
        println!("{:12} {:.3} of the plain code's", "", spent[0] / spent[at]);
    }
    Ok(())
}

/// How often each reads all images before it is the next one's turn.
const TURN: usize = 5;

/// Seconds that this process has had of processors, its threads that have ended among them; by hundredths.
fn processor_time() -> Result<f64, Error> {
    let wrong = |why: &str| Error::system("read /proc/self/stat", why);
    let text = std::fs::read_to_string("/proc/self/stat").map_err(|error| wrong(&error.to_string()))?;
    // After the name, which may have anything in it: user and system time are the 12th and 13th.
    let (_, fields) = text.rsplit_once(')').ok_or_else(|| wrong("it has no name"))?;
    let ticks = fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<u32>().unwrap_or(0));
    Ok(f64::from(ticks.sum::<u32>()) / 100.0)
}
