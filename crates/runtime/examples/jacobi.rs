//! Jacobi's method: `jacobi [EDGE [ITERATIONS [REACH]]] [--split PXxPYxPZ] [--best RUNS] [--trace FILE]` within
//! a process, `cairn-run -n N [--tcp] jacobi …` between several.
//!
//! One worker per processing unit of the Instance, each with a slab unless `--split` is given. As baselines within a
//! process, the same threads copy a grid as often, and a sequential program runs without the runtime. `--best` reports
//! the best of RUNS. With `--trace`, ten recorded runs alternate with ten others, and the last trace is written
//! to FILE.

#![allow(clippy::cast_precision_loss, reason = "points and seconds are small")]

#[path = "programs/jacobi/mod.rs"]
mod jacobi;

use std::{sync::Arc, time::Instant};

use jacobi::{Managers, Problem, Split, solve};
use runtime::{
    Error, InstanceManager, MemoryManager, SeveralMemories, TopologyManager,
    backends::{Threads, host, processes, tcp},
    hicr::Topology,
};

/// The command-line arguments.
#[derive(Clone)]
struct Asked {
    problem: Problem,
    split: Option<Split>,
    runs: u64,
    trace: Option<String>,
}

impl Asked {
    fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, Error> {
        let mut problem = Problem { edge: 128, iterations: 20, reach: 1 };
        let (mut split, mut runs, mut trace) = (None, 1, None);
        let Problem { edge, iterations, reach } = &mut problem;
        let mut numbers = vec![reach, iterations, edge];
        while let Some(argument) = arguments.next() {
            let refuse = |why: &str| Error::misuse("read the arguments", format!("{argument:?} {why}"));
            let mut value = || arguments.next().ok_or_else(|| refuse("wants a value after it"));
            match argument.as_str() {
                "--split" => split = Some(value()?.parse()?),
                "--best" => runs = value()?.parse().map_err(|_| refuse("wants a number after it"))?,
                "--trace" => trace = Some(value()?),
                number => {
                    let place = numbers.pop().ok_or_else(|| refuse("is one too many"))?;
                    *place = number.parse().map_err(|_| refuse("is not a number"))?;
                }
            }
        }
        Ok(Self { problem, split, runs, trace })
    }
}

fn main() -> Result<(), Error> {
    let asked = Asked::read(std::env::args().skip(1))?;
    if tcp::launched() {
        let it = tcp::join()?;
        let topology = it.topology.query()?;
        run(&it.instances, Arc::new(it.memory), Arc::new(it.communication), &topology, asked)
    } else if processes::launched() {
        let it = processes::join()?;
        let topology = it.topology.query()?;
        run(&it.instances, Arc::new(it.memory), Arc::new(it.communication), &topology, asked)
    } else {
        let it = host::alone()?;
        let topology = it.topology.query()?;
        let (problem, workers) = (asked.problem, units(&topology).len());
        asked.split.unwrap_or(Split::slabs(workers)).check(problem, workers)?;
        // Fewer iterations on large grids, to limit the baseline's time.
        let some =
            Problem { iterations: problem.iterations.min(SOME / problem.edge.pow(3)).max(5), ..problem };
        copies(some, workers);
        let begin = Instant::now();
        std::hint::black_box(some.sequential());
        report("sequential, without the runtime", some, begin.elapsed().as_secs_f64());
        run(&it.instances, Arc::new(it.memory), Arc::new(it.communication), &topology, asked)
    }
}

/// Number of points that the baselines compute or copy.
const SOME: usize = 1 << 31;

fn units(topology: &Topology) -> Vec<runtime::hicr::ComputeResource> {
    topology.devices.iter().flat_map(|device| device.compute_resources.clone()).collect()
}

fn run(
    instances: &dyn InstanceManager,
    memory: Arc<dyn MemoryManager>,
    communication: Arc<dyn runtime::CommunicationManager>,
    topology: &Topology,
    Asked { problem, split, runs, trace }: Asked,
) -> Result<(), Error> {
    let spaces = topology.devices.iter().flat_map(|device| &device.memory_spaces);
    let space = spaces.clone().find(|space| SeveralMemories(vec![&*memory]).claims(space));
    let space = space.ok_or_else(|| Error::misuse("solve", "there is no memory space"))?.clone();
    let me = instances.current().id();
    let mut group: Vec<_> = instances.instances().iter().map(runtime::Instance::id).collect();
    group.sort_unstable();
    let resources = units(topology);
    let managers = Managers { memory, communication, compute: Arc::new(Threads::new()), space, me };
    let split = split.unwrap_or(Split::slabs(group.len() * resources.len()));
    let mut solved = solve(&managers, problem, split, &group, &resources, 1, false)?;
    for run in 1..runs {
        let again = solve(&managers, problem, split, &group, &resources, 1000 + 2 * run, false)?;
        solved.seconds = solved.seconds.min(again.seconds);
    }
    if me == group[0] {
        let sum: f64 = solved.blocks.iter().flatten().sum();
        let what = format!(
            "{} Instances of {} workers, split {split} (sum here {sum:e})",
            group.len(),
            resources.len()
        );
        report(&what, problem, solved.seconds);
    }
    let Some(path) = trace else { return Ok(()) };
    let mut times = [Vec::new(), Vec::new()];
    let mut json = String::new();
    for round in 0..20 {
        let with = round % 2;
        let solved = solve(&managers, problem, split, &group, &resources, 10 * round + 11, with == 1)?;
        times[with as usize].push(solved.seconds);
        json = solved.trace.unwrap_or_default();
    }
    if me == group[0] {
        let [without, with] = times.map(|mut times| {
            times.sort_by(f64::total_cmp);
            (times[0], times[times.len() / 2])
        });
        println!(
            "with a trace {:.4} of the time without in the best of ten, {:.4} in the median ({:.3} and {:.3} s)",
            with.0 / without.0,
            with.1 / without.1,
            with.0,
            without.0
        );
        std::fs::write(path, json).map_err(|error| Error::system("write the trace", error))?;
    }
    Ok(())
}

fn report(what: &str, problem: Problem, seconds: f64) {
    let inner = problem.edge - 2 * problem.reach;
    let updates = (inner.pow(3) * problem.iterations) as f64;
    let operations = problem.stencil().points() as f64;
    println!(
        "{what}: {seconds:.3} s, {:.3} G points/s, {:.2} GFlop/s ({operations} a point)",
        updates / seconds / 1e9,
        updates * operations / seconds / 1e9
    );
}

/// The same threads copy their parts of a grid as often.
fn copies(problem: Problem, workers: usize) {
    let points = problem.edge.pow(3) / workers;
    let mut grids: Vec<_> = (0..workers).map(|_| [vec![1.0_f64; points], vec![2.0_f64; points]]).collect();
    let begin = Instant::now();
    std::thread::scope(|threads| {
        for grids in &mut grids {
            threads.spawn(|| {
                for _ in 0..problem.iterations {
                    let [one, two] = grids;
                    std::hint::black_box(&mut *two).copy_from_slice(one);
                    grids.swap(0, 1);
                }
            });
        }
    });
    let seconds = begin.elapsed().as_secs_f64();
    let updates = (points * workers * problem.iterations) as f64;
    println!("{workers} threads copying the grid: {seconds:.3} s, {:.3} G points/s", updates / seconds / 1e9);
}
