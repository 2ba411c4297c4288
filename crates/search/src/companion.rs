//! Threads that walkers are sent to.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::Scope;

use crate::walker::Walker;

/// Pieces below which starting a thread takes longer than they do.
pub(crate) const WORTH_A_THREAD: u64 = 10;

/// A walker and the pieces that it is to run.
type Share<'t> = (Walker<'t>, u64);

/// A thread that runs walkers whenever it is sent some, and sends them back.
pub(crate) struct Companion<'t> {
    there: Sender<Vec<Share<'t>>>,
    back: Receiver<Vec<Share<'t>>>,
}

impl<'t> Companion<'t> {
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

/// Has every walker run its pieces, in turn here and on the companions where there are any.
pub(crate) fn run_all<'t>(walkers: &mut Vec<Walker<'t>>, pieces: &[u64], companions: &[Companion<'t>]) {
    const PANICKED: &str = "a companion ends early only if its walk panicked";
    let is_worth_it = pieces.iter().sum::<u64>() >= 2 * WORTH_A_THREAD;
    let companions = if is_worth_it { companions } else { &[] };
    let count = walkers.len();
    let mut dealt: Vec<Vec<Share>> = (0..=companions.len()).map(|_| Vec::new()).collect();
    for (position, share) in walkers.drain(..).zip(pieces.iter().copied()).enumerate() {
        dealt[position % (companions.len() + 1)].push(share);
    }
    for (companion, shares) in companions.iter().zip(dealt.drain(1..)) {
        companion.there.send(shares).expect(PANICKED);
    }
    run(&mut dealt[0]);
    dealt.extend(companions.iter().map(|companion| companion.back.recv().expect(PANICKED)));
    let groups = dealt.len();
    let mut back: Vec<_> = dealt.into_iter().map(Vec::into_iter).collect();
    walkers.extend((0..count).filter_map(|position| Some(back[position % groups].next()?.0)));
}

fn run(shares: &mut [Share]) {
    for (walker, pieces) in shares {
        walker.run(*pieces);
    }
}
