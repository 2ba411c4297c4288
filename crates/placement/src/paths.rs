//! Paths of messages, in a graph without cycles, in an order in which senders come first.

use std::collections::BTreeMap;

use crate::file::SnapshotFile;

/// Who sends to whom, without regard to how much.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paths {
    /// Every actor after all that send to it.
    order: Vec<usize>,
    /// By actor: whom it sends to, ascending.
    next: Vec<Vec<usize>>,
}

impl Paths {
    /// The graph of a file's messages; those to oneself, and those that are never sent, are left out.
    ///
    /// # Errors
    /// The actors of a cycle, in the order of its messages.
    pub fn of(file: &SnapshotFile) -> Result<Self, Vec<usize>> {
        let position: BTreeMap<&str, usize> =
            file.actors.iter().enumerate().map(|(position, actor)| (actor.id.as_str(), position)).collect();
        let mut next = vec![Vec::new(); file.actors.len()];
        for message in file.messages.iter().filter(|message| message.count > 0 && message.from != message.to)
        {
            next[position[message.from.as_str()]].push(position[message.to.as_str()]);
        }
        let mut waiting_for = vec![0usize; next.len()];
        for targets in &mut next {
            targets.sort_unstable();
            targets.dedup();
            for &to in targets.iter() {
                waiting_for[to] += 1;
            }
        }
        let mut order: Vec<usize> = (0..next.len()).filter(|&actor| waiting_for[actor] == 0).collect();
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
    pub fn longest(&self, price: impl Fn(usize, usize) -> Option<i64>) -> i64 {
        let mut until = vec![0i64; self.next.len()];
        let mut longest = 0;
        for &from in &self.order {
            for &to in &self.next[from] {
                if let Some(price) = price(from, to) {
                    let path = until[from].saturating_add(price);
                    until[to] = until[to].max(path);
                    longest = longest.max(path);
                }
            }
        }
        longest
    }

    /// Whom an actor sends to, ascending.
    pub fn next(&self, actor: usize) -> &[usize] {
        self.next.get(actor).map_or(&[], Vec::as_slice)
    }
}

/// One cycle among the actors that still wait for a sender: each has a sender that waits as well.
fn cycle(next: &[Vec<usize>], waiting_for: &[usize]) -> Vec<usize> {
    let mut sender = vec![None; next.len()];
    for (from, targets) in next.iter().enumerate().filter(|(from, _)| waiting_for[*from] > 0) {
        for &to in targets {
            sender[to] = sender[to].or(Some(from));
        }
    }
    let mut walked: Vec<usize> = waiting_for.iter().position(|waits| *waits > 0).into_iter().collect();
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
