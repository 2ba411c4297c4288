//! Threads that chains are sent to.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::Scope;

use crate::anneal::annealing_chain::AnnealingChain;

/// Pieces below which starting a thread takes longer than they do, where steps take no longer than on a sparse world.
pub(crate) const WORTH_A_THREAD: u64 = 10;

/// A replica and the pieces that it is to run.
type Share<'t> = (AnnealingChain<'t>, u64);

/// A thread that runs chains whenever it is sent some, and sends them back.
pub(crate) struct Worker<'t> {
    there: Sender<Vec<Share<'t>>>,
    back: Receiver<Vec<Share<'t>>>,
}

impl<'t> Worker<'t> {
    /// It ends when it is dropped.
    pub fn new<'scope>(scope: &'scope Scope<'scope, '_>) -> Self
    where
        't: 'scope,
    {
        let (there, sent) = mpsc::channel::<Vec<Share>>();
        let (finished, back) = mpsc::channel();
        scope.spawn(move || {
            for mut shares in sent {
                run(&mut shares);
                if finished.send(shares).is_err() {
                    break;
                }
            }
        });
        Self { there, back }
    }
}

/// Has every replica run its pieces, in turn here and on the workers where there are any.
pub(crate) fn run_all<'t>(chains: &mut Vec<AnnealingChain<'t>>, pieces: &[u64], workers: &[Worker<'t>]) {
    const PANICKED: &str = "a worker ends early only if its chain panicked";
    let each = chains.first().map_or(1, |replica| replica.chain.solution.model.length_of_piece());
    let is_worth_it = pieces.iter().sum::<u64>() * each >= 2 * WORTH_A_THREAD;
    let workers = if is_worth_it { workers } else { &[] };
    let count = chains.len();
    let mut dealt: Vec<Vec<Share>> = (0..=workers.len()).map(|_| Vec::new()).collect();
    for (position, share) in chains.drain(..).zip(pieces.iter().copied()).enumerate() {
        dealt[position % (workers.len() + 1)].push(share);
    }
    for (worker, shares) in workers.iter().zip(dealt.drain(1..)) {
        worker.there.send(shares).expect(PANICKED);
    }
    run(&mut dealt[0]);
    dealt.extend(workers.iter().map(|worker| worker.back.recv().expect(PANICKED)));
    let groups = dealt.len();
    let mut back: Vec<_> = dealt.into_iter().map(Vec::into_iter).collect();
    chains.extend((0..count).filter_map(|position| Some(back[position % groups].next()?.0)));
}

fn run(shares: &mut [Share]) {
    for (replica, pieces) in shares {
        replica.run(*pieces);
    }
}
