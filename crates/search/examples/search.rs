//! Runs `local` on snapshot files and prints the vectors found: `search BUDGET SEEDS FILE…`, where the budget is seconds,
//! as in `5s`, or batches.

use std::time::{Duration, Instant};

use placement::{Budget, Snapshot, Strategy};
use search::Local;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let budget = args.next().unwrap_or_default();
    let seconds: Option<f64> = budget.strip_suffix('s').map(str::parse).transpose()?;
    let effort: Option<u64> = if seconds.is_some() { None } else { Some(budget.parse()?) };
    let seeds: u64 = args.next().unwrap_or_default().parse()?;
    for file in args {
        let snapshot = Snapshot::read(&std::fs::read_to_string(&file)?)?;
        let mut vectors = Vec::new();
        for seed in 1..=seeds {
            let begin = Instant::now();
            let wall = seconds.map(Duration::from_secs_f64);
            let left = wall.map(|wall| move || wall.saturating_sub(begin.elapsed()));
            let stop = || left.as_ref().is_some_and(|left| left().is_zero());
            let left = left.as_ref().map(|left| left as &(dyn Fn() -> Duration + Sync));
            let answer = Local.solve(&snapshot, &Budget { effort, seed, stop: &stop, left })?;
            let vector = snapshot.cost(&answer.assignment).vector(&snapshot);
            println!("{file} seed {seed}: {vector:?} effort {} in {:.2?}", answer.effort, begin.elapsed());
            vectors.push(vector);
        }
        vectors.sort_unstable();
        println!("{file} median {:?}", vectors.get(vectors.len() / 2));
    }
    Ok(())
}
