//! Longest paths of messages in an acyclic graph, in topological order.

use std::collections::BTreeMap;

use crate::file::format::SnapshotFile;
use crate::ix::{ActorIx, IxVec};
use crate::problem::channels::{self, Pairs};

/// The message graph, without weights.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paths {
    /// A topological order of the actors.
    order: Vec<ActorIx>,
    /// By actor: its receivers, ascending.
    next: IxVec<ActorIx, Vec<ActorIx>>,
    /// By actor: its senders.
    before: IxVec<ActorIx, Vec<ActorIx>>,
    /// By actor: its position in the order.
    position: IxVec<ActorIx, usize>,
}

/// The state of an actor while prices change, by its position in the order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PathState {
    /// Its longest path is unchanged.
    Unchanged,
    /// Its longest path may have changed.
    MayChange,
    /// The prices of its messages may have changed.
    PricesChanged,
}

impl Paths {
    /// The graph of a file's messages, with these pairs of its group channels. Self-messages, messages with a count of 0, and cycles
    /// among fixed actors are left out.
    ///
    /// # Errors
    /// The actors of any other cycle, in the order of its messages.
    pub fn of(file: &SnapshotFile, pairs: Pairs) -> Result<Self, Vec<ActorIx>> {
        let ids = file.actors.iter().map(|actor| actor.id.as_str());
        let position: BTreeMap<&str, ActorIx> = ids.zip(ActorIx::first(file.actors.len())).collect();
        let mut next: IxVec<ActorIx, Vec<ActorIx>> = IxVec::of(Vec::new(), file.actors.len());
        for message in file.messages.iter().filter(|message| message.count > 0 && message.from != message.to)
        {
            next[position[message.from.as_str()]].push(position[message.to.as_str()]);
        }
        channels::for_each_pair(file, pairs, |from, to, channel| {
            if channel.count > 0 {
                next[from].push(to);
            }
        });
        for targets in &mut next {
            targets.sort_unstable();
            targets.dedup();
        }
        leave_out_cycles_of_fixed(file, &mut next);
        let mut waiting_for: IxVec<ActorIx, usize> = IxVec::of(0, next.len());
        for targets in &next {
            for &to in targets {
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
        if order.len() < next.len() {
            return Err(cycle(&next, &waiting_for));
        }
        let mut position = IxVec::of(0, next.len());
        for (at, &from) in order.iter().enumerate() {
            position[from] = at;
        }
        let before = reversed(&next, order.iter().copied());
        Ok(Self { order, next, before, position })
    }

    /// The longest path, given the price of each message; `None` as price ignores a message.
    pub fn longest(&self, price: impl Fn(ActorIx, ActorIx) -> Option<i64>) -> i64 {
        let mut longest = 0;
        self.walk(price, |_, _, path| longest = longest.max(path));
        longest
    }

    /// By actor, the length of its longest path; and the steps of the longest path of all, the last first.
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

    /// Updates the longest paths after the prices of messages from and to `changed` actors have changed; visits only affected
    /// actors.
    pub fn follow(
        &self,
        until: &mut IxVec<ActorIx, i64>,
        changed: &[ActorIx],
        was: impl Fn(ActorIx, ActorIx) -> Option<i64>,
        is: impl Fn(ActorIx, ActorIx) -> Option<i64>,
    ) {
        let mut known = vec![PathState::Unchanged; self.order.len()];
        for &actor in changed {
            known[self.position[actor]] = PathState::PricesChanged;
        }
        let first = changed.iter().map(|&actor| self.position[actor]).min().unwrap_or(self.order.len());
        let path = |until: i64, price: Option<i64>| price.map_or(0, |price| until.saturating_add(price));
        for at in first..self.order.len() {
            if known[at] == PathState::Unchanged {
                continue;
            }
            let here = self.order[at];
            let paths = self.before[here].iter().map(|&from| path(until[from], is(from, here)));
            let (cost, cost_before) = (paths.max().unwrap_or(0), until[here]);
            if cost == cost_before && known[at] == PathState::MayChange {
                continue;
            }
            until[here] = cost;
            for &to in &self.next[here] {
                let (before, after) = (path(cost_before, was(here, to)), path(cost, is(here, to)));
                // It was the longest path, or is.
                let counts = after > until[to] || (before == until[to] && after < before);
                let known = &mut known[self.position[to]];
                if counts && *known == PathState::Unchanged {
                    *known = PathState::MayChange;
                }
            }
        }
    }

    /// The longest path to each actor; `found` is called for each new maximum.
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

    /// The receivers of an actor, ascending.
    pub fn next(&self, actor: ActorIx) -> &[ActorIx] {
        self.next.get(actor).map_or(&[], Vec::as_slice)
    }
}

/// Removes cycles among fixed actors: they belong to other applications, and no plan could break them. Messages among fixed actors
/// on a path between two own actors count.
fn leave_out_cycles_of_fixed(file: &SnapshotFile, next: &mut IxVec<ActorIx, Vec<ActorIx>>) {
    let is_fixed = |actor: ActorIx| file.actors[actor.at()].fixed;
    let among_fixed = |(from, targets): (ActorIx, &Vec<ActorIx>)| -> Vec<ActorIx> {
        targets.iter().copied().filter(|to| is_fixed(from) && is_fixed(*to)).collect()
    };
    let among: IxVec<ActorIx, Vec<ActorIx>> = next.enumerate().map(among_fixed).collect();
    if among.iter().all(Vec::is_empty) {
        return;
    }
    let cycle_of = cycles(&among);
    for from in among.positions().filter(|from| is_fixed(*from)) {
        next[from].retain(|to| !is_fixed(*to) || cycle_of[from] != cycle_of[*to]);
    }
}

/// By actor, the representative of its strongly connected component.
///
/// Kosaraju's algorithm: the actor finished last reaches its component along the messages, and is reached against them.
fn cycles(next: &IxVec<ActorIx, Vec<ActorIx>>) -> IxVec<ActorIx, Option<ActorIx>> {
    let mut left: Vec<ActorIx> = Vec::with_capacity(next.len());
    let mut is_met: IxVec<ActorIx, bool> = IxVec::of(false, next.len());
    for start in next.positions() {
        if std::mem::replace(&mut is_met[start], true) {
            continue;
        }
        let mut walked = vec![(start, 0_usize)];
        while let Some((actor, at)) = walked.last_mut() {
            let Some(&to) = next[*actor].get(*at) else {
                left.push(*actor);
                walked.pop();
                continue;
            };
            *at += 1;
            if !std::mem::replace(&mut is_met[to], true) {
                walked.push((to, 0));
            }
        }
    }
    let before = reversed(next, next.positions());
    let mut cycle_of: IxVec<ActorIx, Option<ActorIx>> = IxVec::of(None, next.len());
    for &last in left.iter().rev() {
        let mut reached = vec![last];
        while let Some(actor) = reached.pop() {
            if cycle_of[actor].is_none() {
                cycle_of[actor] = Some(last);
                reached.extend(before[actor].iter().filter(|from| cycle_of[**from].is_none()));
            }
        }
    }
    cycle_of
}

/// By actor, its senders in the given order.
fn reversed(
    next: &IxVec<ActorIx, Vec<ActorIx>>,
    senders: impl Iterator<Item = ActorIx>,
) -> IxVec<ActorIx, Vec<ActorIx>> {
    let mut before: IxVec<ActorIx, Vec<ActorIx>> = IxVec::of(Vec::new(), next.len());
    for from in senders {
        for &to in &next[from] {
            before[to].push(from);
        }
    }
    before
}

/// A cycle among the actors that still wait for a sender: each has a sender that waits as well.
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Random graphs with some fixed actors: exactly the messages of cycles among fixed actors are removed.
    #[test]
    fn what_fixed_actors_send_round_is_left_out() {
        let mut left_out = 0;
        for seed in 0..300 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let count = rng.usize(2..9);
            let fixed: Vec<bool> = (0..count).map(|_| rng.u8(..4) > 0).collect();
            let mut sends = vec![vec![false; count]; count];
            for _ in 0..rng.usize(..4 * count) {
                let (one, other) = (rng.usize(..count), rng.usize(..count));
                // A movable actor is on no cycle.
                let is_sent = one < other || (one != other && fixed[one] && fixed[other]);
                sends[one][other] |= is_sent;
            }
            let pairs = || (0..count).flat_map(move |from| (0..count).map(move |to| (from, to)));
            let mut comes: Vec<Vec<bool>> = sends.clone();
            for (from, to) in pairs() {
                comes[from][to] &= fixed[from] && fixed[to];
            }
            for by in 0..count {
                for (from, to) in pairs() {
                    comes[from][to] |= comes[from][by] && comes[by][to];
                }
            }
            let actors: Vec<_> = (0..count)
                .map(|at| json!({"id": at.to_string(), "runsOn": {"cpu": 1}, "fixed": fixed[at]}))
                .collect();
            let messages: Vec<_> = pairs()
                .filter(|(from, to)| sends[*from][*to])
                .map(|(from, to)| json!({"from": from.to_string(), "to": to.to_string(), "count": 1}))
                .collect();
            let file = json!({"version": 1, "units": [], "actors": actors, "messages": messages});
            // A cycle through a movable actor is refused.
            let Ok(paths) = Paths::of(&serde_json::from_value(file).unwrap(), Pairs::All) else { continue };
            for (from, to) in pairs() {
                let is_round = comes[from][to] && comes[to][from] && fixed[from] && fixed[to];
                left_out += usize::from(sends[from][to] && is_round);
                let is_sent = paths.next(ActorIx::new(from)).contains(&ActorIx::new(to));
                assert_eq!(is_sent, sends[from][to] && !is_round, "seed {seed}: {from} to {to}");
            }
        }
        assert!(left_out > 50, "{left_out}");
    }

    /// Random graphs whose prices change around a few actors at a time: updates equal recomputation.
    #[test]
    fn what_changes_reach_is_all_that_is_looked_at_anew() {
        for seed in 0..200 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let count = rng.usize(1..12);
            let actors = (0..count).map(|index| json!({"id": index.to_string(), "runsOn": {"cpu": 1}}));
            let messages = (0..rng.usize(..30)).map(|_| {
                let (one, other) = (rng.usize(..count), rng.usize(..count));
                json!({"from": one.min(other).to_string(), "to": one.max(other).to_string(), "count": 1})
            });
            let (actors, messages): (Vec<_>, Vec<_>) = (actors.collect(), messages.collect());
            let file = json!({"version": 1, "units": [], "actors": actors, "messages": messages});
            let paths = Paths::of(&serde_json::from_value(file).unwrap(), Pairs::All).unwrap();
            // An unplaced actor sends and receives nothing.
            let price = |places: &[Option<i64>], from: ActorIx, to: ActorIx| {
                Some((places[from.at()]? - places[to.at()]?).abs())
            };
            let mut then = vec![None; count];
            let mut until = IxVec::of(0, count);
            for _ in 0..20 {
                let mut now = then.clone();
                let changed: Vec<ActorIx> =
                    (0..rng.usize(1..4)).map(|_| ActorIx::new(rng.usize(..count))).collect();
                for actor in &changed {
                    now[actor.at()] = Some(rng.i64(..9)).filter(|place| *place > 0);
                }
                let was = |from, to| price(&then, from, to);
                let is = |from, to| price(&now, from, to);
                let mut after = until.clone();
                paths.follow(&mut after, &changed, was, is);
                assert_eq!(after.raw(), paths.longest_to_each(is).0.raw(), "seed {seed}");
                if rng.bool() {
                    (then, until) = (now, after);
                }
            }
        }
    }
}
