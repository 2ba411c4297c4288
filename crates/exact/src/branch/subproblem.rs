//! A lower bound of a subproblem, and the classes that it rules out.

use crate::branch::model::{Model, ones};
use crate::branch::value::Value;

/// A node of the search tree: the classes left to each item, and the least cost of each.
#[derive(Clone)]
pub(crate) struct Subproblem<N> {
    /// By item: the classes that are left, as bits; never 0.
    pub domains: Vec<u64>,
    /// By item and class: twice the least cost that the item adds there. Valid for classes that are left.
    pub least: Vec<Vec<N>>,
    /// Steps of work done.
    pub work: u64,
}

/// What an item would save if a peer shared its unit, and what the peer needs of the unit.
struct Saving<'a, N> {
    value: N,
    needs: &'a [i64],
}

impl<N: Value> Subproblem<N> {
    /// The root: nothing is decided.
    pub fn root(model: &Model<N>) -> Self {
        Self {
            domains: model.items.iter().map(|item| item.domain).collect(),
            least: vec![vec![N::default(); model.classes.len()]; model.items.len()],
            work: 0,
        }
    }

    /// The class of an item, if it is decided.
    pub fn decided(&self, item: usize) -> Option<usize> {
        let domain = self.domains[item];
        domain.is_power_of_two().then(|| domain.trailing_zeros() as usize)
    }

    /// Rules out classes that cannot cost less than `best`; false if nothing is left.
    pub fn tighten(&mut self, model: &Model<N>, best: N) -> bool {
        let most = N::from(2) * (best - N::from(1));
        if self.domains.contains(&0) {
            return false;
        }
        loop {
            if !self.rule_out_without_room(model) {
                return false;
            }
            let total = self.price(model);
            let Some(crowding) = self.crowding_cost(model) else { return false };
            if total + crowding > most {
                return false;
            }
            if !self.rule_out_expensive(most - total) {
                return true;
            }
        }
    }

    /// Rules out classes without room for an item; false if an item has none left.
    fn rule_out_without_room(&mut self, model: &Model<N>) -> bool {
        loop {
            let before = self.domains.clone();
            for (class, of) in model.classes.iter().enumerate() {
                let units = i64::try_from(of.units.len()).unwrap_or(i64::MAX);
                for (dimension, &room) in of.room.iter().enumerate() {
                    let need = |item: usize, at: usize| {
                        if at == class { model.items[item].needs[class][dimension] } else { 0 }
                    };
                    if !self.rule_out_overfull(need, room.saturating_mul(units), room) {
                        return false;
                    }
                }
            }
            for pool in &model.pools {
                if !self.rule_out_overfull(|item, at| pool.needs[item][at], pool.room, pool.room) {
                    return false;
                }
            }
            if self.domains == before {
                return true;
            }
        }
    }

    /// Rules out classes whose `need` exceeds the room of one place, or what the least needs of the others leave of all.
    fn rule_out_overfull(&mut self, need: impl Fn(usize, usize) -> i64, room: i64, of_one: i64) -> bool {
        let least = |item: usize| ones(self.domains[item]).map(|class| need(item, class)).min().unwrap_or(0);
        let least: Vec<i64> = (0..self.domains.len()).map(least).collect();
        let left = room - least.iter().copied().fold(0i64, i64::saturating_add);
        if left < 0 {
            return false;
        }
        for (item, domain) in self.domains.iter_mut().enumerate() {
            let limits_load = |class: &usize| {
                let need = need(item, *class);
                need > of_one || need - least[item] > left
            };
            let full = ones(*domain).filter(limits_load).fold(0, |bits, class| bits | 1 << class);
            *domain &= !full;
        }
        self.domains.iter().all(|domain| *domain != 0)
    }

    /// Computes `least`; returns twice the sum over all items.
    fn price(&mut self, model: &Model<N>) -> N {
        let room = self.room_beside_decided(model);
        let mut total = N::default();
        for item in 0..model.items.len() {
            let mut least = N::MAX;
            for class in ones(self.domains[item]) {
                let value = self.price_of(model, item, class, &room[class]);
                self.least[item][class] = value;
                least = least.min(value);
                self.work += model.items[item].ties.len() as u64 + 1;
            }
            total += least;
        }
        total
    }

    /// By class and dimension: the room of a unit beside items that are certainly there.
    fn room_beside_decided(&self, model: &Model<N>) -> Vec<Vec<i64>> {
        let mut rooms: Vec<Vec<i64>> = model.classes.iter().map(|class| class.room.clone()).collect();
        for item in 0..model.items.len() {
            if let Some(class) = self.decided(item).filter(|&class| model.is_single(class)) {
                for (room, need) in rooms[class].iter_mut().zip(&model.items[item].needs[class]) {
                    *room -= need;
                }
            }
        }
        rooms
    }

    /// Twice the least cost that an item adds in a class.
    ///
    /// A tie of two decided items counts once, a tie to a decided item counts at the open end, and a tie of two open
    /// items counts half at each end.
    fn price_of(&self, model: &Model<N>, item: usize, class: usize, room: &[i64]) -> N {
        let of = &model.items[item];
        let mut value = N::from(2) * of.costs[class];
        let is_decided = self.decided(item).is_some();
        let mut savings = Vec::new();
        for &(peer, tie) in &of.ties {
            let tie = &model.ties[tie];
            let there = self.decided(peer);
            let (weight, there) = match (is_decided, there) {
                (true, None) => continue,
                (true, Some(there)) if there != class || model.is_single(class) => {
                    if peer < item {
                        continue;
                    }
                    (2, 1 << there)
                }
                (false, None) | (true, Some(_)) => (1, self.domains[peer]),
                (false, Some(there)) => (2, 1 << there),
            };
            let apart = ones(there).map(|other| model.apart(tie, class, other)).min().unwrap_or(N::FORBIDDEN);
            let weight = N::from(weight);
            if there >> class & 1 == 0 {
                value += weight * apart;
                continue;
            }
            let together = model.together(tie, class);
            if there == 1 << class && model.is_single(class) {
                value += weight * together;
                continue;
            }
            value += weight * apart;
            if together < apart {
                savings.push(Saving {
                    value: weight * (apart - together),
                    needs: &model.items[peer].needs[class],
                });
            }
        }
        if savings.is_empty() {
            return value;
        }
        let rooms: Vec<i64> = room.iter().zip(&of.needs[class]).map(|(room, need)| room - need).collect();
        value - max_saving(&mut savings, &rooms)
    }

    /// Twice the least cost of moving items out of their cheapest classes where these are too small. `None` where that is
    /// impossible.
    fn crowding_cost(&self, model: &Model<N>) -> Option<N> {
        let mut sum = N::default();
        let cheapest: Vec<(usize, N)> = (0..model.items.len())
            .map(|item| {
                let classes = ones(self.domains[item]).map(|class| (class, self.least[item][class]));
                classes.min_by_key(|(_, least)| *least).expect("domains are never empty")
            })
            .collect();
        for (class, of) in model.classes.iter().enumerate() {
            let here: Vec<usize> = (0..model.items.len()).filter(|&item| cheapest[item].0 == class).collect();
            let units = i64::try_from(of.units.len()).unwrap_or(i64::MAX);
            let mut worst = N::default();
            for (dimension, room) in of.room.iter().enumerate() {
                let need = |item: usize| model.items[item].needs[class][dimension];
                let mut over = here.iter().map(|&item| need(item)).fold(0i64, i64::saturating_add)
                    - room.saturating_mul(units);
                if over <= 0 {
                    continue;
                }
                let mut ways: Vec<(N, i64)> = here
                    .iter()
                    .filter_map(|&item| {
                        let others = ones(self.domains[item] & !(1 << class));
                        let next = others.map(|other| self.least[item][other]).min()?;
                        Some((next - cheapest[item].1, need(item))).filter(|(_, need)| *need > 0)
                    })
                    .collect();
                ways.sort_unstable_by(|(a, p), (b, q)| N::compare_products(*a, *q, *b, *p));
                let mut price = N::default();
                for (regret, need) in ways {
                    let part = over.min(need);
                    price += regret.share(part, need);
                    over -= part;
                    if over == 0 {
                        break;
                    }
                }
                if over > 0 {
                    return None;
                }
                worst = worst.max(price);
            }
            sum += worst;
        }
        Some(sum)
    }

    /// Rules out classes that cost more than `slack` above the least; true if there were any.
    fn rule_out_expensive(&mut self, slack: N) -> bool {
        let mut any = false;
        for (domain, least) in self.domains.iter_mut().zip(&self.least) {
            let cheapest = ones(*domain).map(|class| least[class]).min().expect("domains are never empty");
            let expensive = ones(*domain).filter(|&class| least[class] - cheapest > slack);
            let expensive = expensive.fold(0, |bits, class| bits | 1 << class);
            any |= expensive != 0;
            *domain &= !expensive;
        }
        any
    }
}

/// The most that can be saved by peers that fit: the fractional knapsack of each dimension, rounded up.
fn max_saving<N: Value>(savings: &mut [Saving<N>], rooms: &[i64]) -> N {
    let mut most: N = savings.iter().map(|one| one.value).sum();
    for (dimension, &room) in rooms.iter().enumerate() {
        let need = |one: &Saving<N>| one.needs[dimension];
        if savings.iter().map(need).fold(0i64, i64::saturating_add) <= room {
            continue;
        }
        savings.sort_unstable_by(|a, b| N::compare_products(b.value, need(a), a.value, need(b)));
        let (mut left, mut sum) = (room, N::default());
        for one in savings.iter() {
            if need(one) <= left {
                left -= need(one);
                sum += one.value;
            } else if left > 0 && need(one) <= room {
                sum += one.value.share(left, need(one)) + N::from(1);
                break;
            } else if need(one) <= room {
                break;
            }
        }
        most = most.min(sum);
    }
    most
}
