//! F(n) by tasks: `fibonacci [coroutines|futures|threads|tokio|rayon|all] [N] [WORKERS] [TRACE]`.
//!
//! Prints the best of ten runs for each. With TRACE, ten recorded runs alternate with ten others, and the last
//! trace is written to that file.

#[path = "programs/fibonacci.rs"]
mod fibonacci;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use runtime::{
    ComputeManager, Error, TopologyManager,
    backends::{Coroutines, Futures, Threads, host::HostTopology},
    frontends::tasking::Tasking,
    hicr::ComputeResource,
};

fn tasking(kind: &str, resources: &[ComputeResource]) -> Result<Tasking, Error> {
    let tasks: Arc<dyn ComputeManager> = match kind {
        "threads" => Arc::new(Threads::new()),
        "futures" => Arc::new(Futures::new()),
        _ => Arc::new(Coroutines::new()),
    };
    Tasking::new(Arc::new(Threads::new()), tasks, resources)
}

fn run(kind: &str, tasking: &Tasking, n: u64) -> Result<(u64, u64), Error> {
    if kind == "futures" { fibonacci::by_futures(tasking, n) } else { fibonacci::by_functions(tasking, n) }
}

fn by_rayon(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (one, two) = rayon::join(|| by_rayon(n - 1), || by_rayon(n - 2));
    one + two
}

fn by_tokio(n: u64) -> std::pin::Pin<Box<dyn Future<Output = u64> + Send>> {
    Box::pin(async move {
        if n < 2 {
            return n;
        }
        let (one, two) = (tokio::spawn(by_tokio(n - 1)), tokio::spawn(by_tokio(n - 2)));
        one.await.unwrap_or(0) + two.await.unwrap_or(0)
    })
}

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let kind = arguments.next().unwrap_or_else(|| "coroutines".into());
    let n = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(24);
    let topology = HostTopology::new()?.query()?;
    let there: Vec<_> = topology.devices.iter().flat_map(|device| device.compute_resources.clone()).collect();
    let workers = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(there.len());
    let mut resources: Vec<ComputeResource> = there.iter().cycle().take(workers).cloned().collect();
    if workers > there.len() {
        // More workers than processors share them, unpinned.
        for resource in &mut resources {
            resource.more.remove("Logical Processor Id");
        }
    }
    let best =
        |mut once: Box<dyn FnMut() -> Result<(u64, u64), Error>>| -> Result<(Duration, (u64, u64)), Error> {
            let mut least = (Duration::MAX, (0, 0));
            for _ in 0..10 {
                let begin = Instant::now();
                let result = once()?;
                least = least.min((begin.elapsed(), result));
            }
            Ok(least)
        };
    let all = ["coroutines", "futures", "threads", "tokio", "rayon"];
    let kinds = if kind == "all" { all.to_vec() } else { vec![&*kind] };
    for kind in kinds {
        let kind = kind.to_owned();
        let name = kind.clone();
        let (time, (value, tasks)) = match &*name {
            "rayon" => {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).build();
                let pool = pool.map_err(|error| Error::system("start rayon", error))?;
                best(Box::new(move || Ok((pool.install(|| by_rayon(n)), 0))))?
            }
            "tokio" => {
                let pool = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).build();
                let pool = pool.map_err(|error| Error::system("start tokio", error))?;
                best(Box::new(move || {
                    Ok((pool.block_on(async { tokio::spawn(by_tokio(n)).await.unwrap_or(0) }), 0))
                }))?
            }
            _ => {
                let resources = resources.clone();
                best(Box::new(move || run(&kind, &tasking(&kind, &resources)?, n)))?
            }
        };
        println!(
            "{name:10} {workers} workers  F({n}) = {value} in {tasks} tasks  {:8.1} ms",
            time.as_secs_f64() * 1e3
        );
    }
    if let Some(path) = arguments.next() {
        let mut least = [Duration::MAX; 2];
        let mut json = String::new();
        for round in 0..20 {
            let mut tasking = tasking("coroutines", &resources)?;
            if round % 2 == 1 {
                tasking.record()?;
            }
            let begin = Instant::now();
            run("coroutines", &tasking, n)?;
            least[round % 2] = least[round % 2].min(begin.elapsed());
            json = tasking.trace().map(runtime::frontends::tasking::Trace::to_json).unwrap_or_default();
        }
        let [without, with] = least.map(|least| least.as_secs_f64() * 1e3);
        println!(
            "coroutines without a trace {without:.1} ms, with one {with:.1} ms, {:.3} of it",
            with / without
        );
        std::fs::write(path, json).map_err(|error| Error::system("write the trace", error))?;
    }
    Ok(())
}
