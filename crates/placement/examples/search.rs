//! Runs `local` on snapshot files and prints the vectors that it found: `search SECONDS SEEDS FILE…`.

use std::time::{Duration, Instant};

use placement::{Budget, Local, Snapshot, Strategy};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let mut number = || args.next().unwrap_or_default().parse::<u32>();
    let (seconds, seeds) = (number()?, number()?);
    for file in args {
        let snapshot = Snapshot::read(&std::fs::read_to_string(&file)?)?;
        for seed in 1..=u64::from(seeds) {
            let begin = Instant::now();
            let stop = || begin.elapsed() > Duration::from_secs(seconds.into());
            let answer = Local.solve(&snapshot, &Budget { effort: None, seed, stop: &stop })?;
            let vector = snapshot.cost(&answer.assignment).vector(&snapshot);
            println!("{file} seed {seed}: {vector:?} effort {} in {:.2?}", answer.effort, begin.elapsed());
        }
    }
    Ok(())
}
