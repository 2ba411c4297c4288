//! Threads that chains are sent to.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::Scope;

use crate::anneal::annealing_chain::AnnealingChain;

/// Batches below which starting a thread takes longer than running them, in a sparse snapshot.
pub(crate) const WORTH_A_THREAD: u64 = 10;

/// A chain and the batches that it is to run.
type Job<'t> = (AnnealingChain<'t>, u64);

/// A thread that runs chains whenever it is sent some, and sends them back.
pub(crate) struct Worker<'t> {
    jobs: Sender<Vec<Job<'t>>>,
    done: Receiver<Vec<Job<'t>>>,
}

impl<'t> Worker<'t> {
    /// The thread ends when the worker is dropped.
    pub fn new<'scope>(scope: &'scope Scope<'scope, '_>) -> Self
    where
        't: 'scope,
    {
        let (jobs, sent) = mpsc::channel::<Vec<Job>>();
        let (finished, done) = mpsc::channel();
        scope.spawn(move || {
            for mut jobs in sent {
                run_jobs(&mut jobs);
                if finished.send(jobs).is_err() {
                    break;
                }
            }
        });
        Self { jobs, done }
    }
}

/// Runs every chain for its batches, here and on the workers.
pub(crate) fn run_all<'t>(chains: &mut Vec<AnnealingChain<'t>>, batches: &[u64], workers: &[Worker<'t>]) {
    const PANICKED: &str = "a worker ends early only if its chain panicked";
    let batch_time = chains.first().map_or(1, |chain| chain.annealer.solution.model.relative_batch_time());
    let is_worth_it = batches.iter().sum::<u64>() * batch_time >= 2 * WORTH_A_THREAD;
    let workers = if is_worth_it { workers } else { &[] };
    let count = chains.len();
    let mut dealt: Vec<Vec<Job>> = (0..=workers.len()).map(|_| Vec::new()).collect();
    for (position, job) in chains.drain(..).zip(batches.iter().copied()).enumerate() {
        dealt[position % (workers.len() + 1)].push(job);
    }
    for (worker, jobs) in workers.iter().zip(dealt.drain(1..)) {
        worker.jobs.send(jobs).expect(PANICKED);
    }
    run_jobs(&mut dealt[0]);
    dealt.extend(workers.iter().map(|worker| worker.done.recv().expect(PANICKED)));
    let groups = dealt.len();
    let mut done: Vec<_> = dealt.into_iter().map(Vec::into_iter).collect();
    chains.extend((0..count).filter_map(|position| Some(done[position % groups].next()?.0)));
}

fn run_jobs(jobs: &mut [Job]) {
    for (chain, batches) in jobs {
        chain.run_batches(*batches);
    }
}
