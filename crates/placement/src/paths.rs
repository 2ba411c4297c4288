//! Paths of messages, in a graph without cycles, in an order in which senders come first.

use std::collections::BTreeMap;

use crate::channels;
use crate::file::SnapshotFile;
use crate::ix::{ActorIx, IxVec};

/// Who sends to whom, without regard to how much.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paths {
    /// Every actor after all that send to it.
    order: Vec<ActorIx>,
    /// By actor: whom it sends to, ascending.
    next: IxVec<ActorIx, Vec<ActorIx>>,
}

impl Paths {
    /// The graph of a file's messages; those to oneself, and those that are never sent, are left out.
    ///
    /// # Errors
    /// The actors of a cycle, in the order of its messages.
    pub fn of(file: &SnapshotFile) -> Result<Self, Vec<ActorIx>> {
        let ids = file.actors.iter().map(|actor| actor.id.as_str());
        let position: BTreeMap<&str, ActorIx> = ids.zip(ActorIx::first(file.actors.len())).collect();
        let mut next: IxVec<ActorIx, Vec<ActorIx>> = IxVec::of(Vec::new(), file.actors.len());
        for message in file.messages.iter().filter(|message| message.count > 0 && message.from != message.to)
        {
            next[position[message.from.as_str()]].push(position[message.to.as_str()]);
        }
        channels::for_each_pair(file, |from, to, channel| {
            if channel.count > 0 {
                next[from].push(to);
            }
        });
        let mut waiting_for: IxVec<ActorIx, usize> = IxVec::of(0, next.len());
        for targets in &mut next {
            targets.sort_unstable();
            targets.dedup();
            for &to in targets.iter() {
                waiting_for[to] += 1;
            }
        }
        let mut order: Vec<ActorIx> = next.positions().filter(|&actor| waiting_for[actor] == 0).collect();
        let mut done = 0;
        while let Some(&actor) = order.get(done) {
            done += 1;
            for &to in &next[actor] {
                waiting_for[to] -= 1;
                if waiting_for[to] == 0 {
                    order.push(to);
                }
            }
        }
        if order.len() == next.len() { Ok(Self { order, next }) } else { Err(cycle(&next, &waiting_for)) }
    }

    /// The most expensive path, where a message from one actor to another costs what `price` says, nothing if it says so.
    pub fn longest(&self, price: impl Fn(ActorIx, ActorIx) -> Option<i64>) -> i64 {
        let mut longest = 0;
        self.walk(price, |_, _, path| longest = longest.max(path));
        longest
    }

    /// By actor, what the most expensive path to it costs; and the steps of one that is the most expensive of all, the last first.
    pub fn longest_to_each(
        &self,
        price: impl Fn(ActorIx, ActorIx) -> Option<i64>,
    ) -> (IxVec<ActorIx, i64>, Vec<(ActorIx, ActorIx)>) {
        let mut before: IxVec<ActorIx, Option<ActorIx>> = IxVec::of(None, self.next.len());
        let until = self.walk(price, |from, to, _| before[to] = Some(from));
        let mut at = until.positions().max_by_key(|actor| until[*actor]);
        let mut steps = Vec::new();
        while let Some((from, to)) = at.and_then(|to| Some((before[to]?, to))) {
            steps.push((from, to));
            at = Some(from);
        }
        (until, steps)
    }

    /// What the most expensive path to each actor costs; `found` hears of each path that is more expensive than those before.
    fn walk(
        &self,
        price: impl Fn(ActorIx, ActorIx) -> Option<i64>,
        mut found: impl FnMut(ActorIx, ActorIx, i64),
    ) -> IxVec<ActorIx, i64> {
        let mut until: IxVec<ActorIx, i64> = IxVec::of(0, self.next.len());
        for &from in &self.order {
            for &to in &self.next[from] {
                let Some(price) = price(from, to) else { continue };
                let path = until[from].saturating_add(price);
                if path > until[to] {
                    until[to] = path;
                    found(from, to, path);
                }
            }
        }
        until
    }

    /// Whom an actor sends to, ascending.
    pub fn next(&self, actor: ActorIx) -> &[ActorIx] {
        self.next.get(actor).map_or(&[], Vec::as_slice)
    }
}

/// One cycle among the actors that still wait for a sender: each has a sender that waits as well.
fn cycle(next: &IxVec<ActorIx, Vec<ActorIx>>, waiting_for: &IxVec<ActorIx, usize>) -> Vec<ActorIx> {
    let mut sender: IxVec<ActorIx, Option<ActorIx>> = IxVec::of(None, next.len());
    for (from, targets) in next.enumerate().filter(|(from, _)| waiting_for[*from] > 0) {
        for &to in targets {
            sender[to] = sender[to].or(Some(from));
        }
    }
    let mut walked: Vec<ActorIx> =
        next.positions().find(|&actor| waiting_for[actor] > 0).into_iter().collect();
    while let Some(before) = walked.last().and_then(|&last| sender[last]) {
        if let Some(met) = walked.iter().position(|&actor| actor == before) {
            walked.drain(..met);
            break;
        }
        walked.push(before);
    }
    walked.reverse();
    walked
}
