//! The least that a world can cost once some classes of its items are ruled out.

use crate::branch::model::{Model, ones};
use crate::branch::value::Value;

/// What is known of a part of the search: the classes that are left to each item, and what each costs at least.
#[derive(Clone)]
pub(crate) struct Subproblem<N> {
    /// By item: the classes that are left, as bits; never 0.
    pub domains: Vec<u64>,
    /// By item and class: twice the least that the item adds there; of classes that are left only.
    pub least: Vec<Vec<N>>,
    /// Steps of work that this took.
    pub work: u64,
}

/// What an item would spare if it had a peer beside it, and what that takes of the unit.
struct Spared<'a, N> {
    value: N,
    needs: &'a [i64],
}

impl<N: Value> Subproblem<N> {
    /// Nothing is decided.
    pub fn whole(model: &Model<N>) -> Self {
        Self {
            domains: model.items.iter().map(|item| item.domain).collect(),
            least: vec![vec![N::default(); model.classes.len()]; model.items.len()],
            work: 0,
        }
    }

    /// Whether an item's class is decided, and which it is.
    pub fn decided(&self, item: usize) -> Option<usize> {
        let domain = self.domains[item];
        domain.is_power_of_two().then(|| domain.trailing_zeros() as usize)
    }

    /// Rules out what cannot cost less than `best`; false if nothing is left.
    pub fn tighten(&mut self, model: &Model<N>, best: N) -> bool {
        let most = N::from(2) * (best - N::from(1));
        if self.domains.contains(&0) {
            return false;
        }
        loop {
            if !self.fit(model) {
                return false;
            }
            let total = self.price(model);
            let Some(crowded) = self.crowding(model) else { return false };
            if total + crowded > most {
                return false;
            }
            if !self.rule_out(most - total) {
                return true;
            }
        }
    }

    /// Takes away classes in which there is no room left for an item; false if somebody has nowhere to go.
    fn fit(&mut self, model: &Model<N>) -> bool {
        loop {
            let before = self.domains.clone();
            for (class, of) in model.classes.iter().enumerate() {
                let units = i64::try_from(of.units.len()).unwrap_or(i64::MAX);
                for (dimension, &room) in of.room.iter().enumerate() {
                    let need = |item: usize, at: usize| {
                        if at == class { model.items[item].needs[class][dimension] } else { 0 }
                    };
                    if !self.fill(need, room.saturating_mul(units), room) {
                        return false;
                    }
                }
            }
            for pool in &model.pools {
                if !self.fill(|item, at| pool.needs[item][at], pool.room, pool.room) {
                    return false;
                }
            }
            if self.domains == before {
                return true;
            }
        }
    }

    /// Takes away classes whose `need` one place, or all of them, have no room for beside what the others take at least.
    fn fill(&mut self, need: impl Fn(usize, usize) -> i64, room: i64, of_one: i64) -> bool {
        let least = |item: usize| ones(self.domains[item]).map(|class| need(item, class)).min().unwrap_or(0);
        let least: Vec<i64> = (0..self.domains.len()).map(least).collect();
        let left = room - least.iter().copied().fold(0i64, i64::saturating_add);
        if left < 0 {
            return false;
        }
        for (item, domain) in self.domains.iter_mut().enumerate() {
            let is_full = |class: &usize| {
                let need = need(item, *class);
                need > of_one || need - least[item] > left
            };
            let full = ones(*domain).filter(is_full).fold(0, |bits, class| bits | 1 << class);
            *domain &= !full;
        }
        self.domains.iter().all(|domain| *domain != 0)
    }

    /// Works out `least`; returns twice the sum of everybody's least.
    fn price(&mut self, model: &Model<N>) -> N {
        let room = self.room_beside(model);
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

    /// By class and dimension: what a unit has room for beside those who are there for sure.
    fn room_beside(&self, model: &Model<N>) -> Vec<Vec<i64>> {
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

    /// Twice the least that an item adds in a class.
    ///
    /// A tie of two that are decided counts where it is known, one with a decided item at the other end, and of two
    /// that are open half at each end.
    fn price_of(&self, model: &Model<N>, item: usize, class: usize, room: &[i64]) -> N {
        let of = &model.items[item];
        let mut value = N::from(2) * of.costs[class];
        let is_decided = self.decided(item).is_some();
        let mut spared = Vec::new();
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
                spared.push(Spared {
                    value: weight * (apart - together),
                    needs: &model.items[peer].needs[class],
                });
            }
        }
        if spared.is_empty() {
            return value;
        }
        let rooms: Vec<i64> = room.iter().zip(&of.needs[class]).map(|(room, need)| room - need).collect();
        value - most_spared(&mut spared, &rooms)
    }

    /// What it costs at least, twice, that the cheapest classes do not hold all who would rather be there.
    ///
    /// `None` where they cannot be made to.
    fn crowding(&self, model: &Model<N>) -> Option<N> {
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

    /// Takes away what costs more than `slack` above the least; whether anything was.
    fn rule_out(&mut self, slack: N) -> bool {
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

/// The most that can be spared by what fits: the fractional knapsack of each dimension, rounded up.
fn most_spared<N: Value>(spared: &mut [Spared<N>], rooms: &[i64]) -> N {
    let mut most: N = spared.iter().map(|one| one.value).sum();
    for (dimension, &room) in rooms.iter().enumerate() {
        let need = |one: &Spared<N>| one.needs[dimension];
        if spared.iter().map(need).fold(0i64, i64::saturating_add) <= room {
            continue;
        }
        spared.sort_unstable_by(|a, b| N::compare_products(b.value, need(a), a.value, need(b)));
        let (mut left, mut sum) = (room, N::default());
        for one in spared.iter() {
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
