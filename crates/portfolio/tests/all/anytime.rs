//! A longer search extends a shorter one: more effort is never worse.

use placement::{Budget, Cost, Snapshot, Strategy};
use portfolio::Ablation;
use proptest::prelude::*;

use crate::{asp, logged};

/// The improvements of a search with this effort, each with the effort at which it was found, and the last vector.
fn improvements(snapshot: &Snapshot, effort: u64) -> (Vec<(u64, String)>, Vec<i64>) {
    let asp = asp().without(Ablation::Proofs);
    let (answer, log) = logged(|| asp.solve(snapshot, &Budget::effort(Some(effort), 1)).unwrap());
    let better = log.lines().filter_map(|line| {
        let (_, improvement) = line.split_once(" improved ")?;
        let (_, effort) = improvement.rsplit_once("effort=")?;
        Some((effort.trim().parse().unwrap(), improvement.to_owned()))
    });
    let policy = snapshot.penalty(&answer.assignment);
    let cost = Cost { policy, ..snapshot.cost(&answer.assignment) };
    (better.collect(), cost.vector(snapshot))
}

/// Compares searches of increasing effort; returns the number of improvements of the longest.
fn check(snapshot: &Snapshot, efforts: &[u64]) -> usize {
    let all: Vec<_> = efforts.iter().map(|effort| (*effort, improvements(snapshot, *effort))).collect();
    for pair in all.windows(2) {
        let [(effort, (short, _)), (_, (long, best))] = pair else { unreachable!("windows of two") };
        // The last probe happens because the search ends.
        let on_the_way: Vec<_> = short.iter().filter(|(known, _)| known < effort).collect();
        let same: Vec<_> = long.iter().filter(|(known, _)| known < effort).collect();
        assert_eq!(on_the_way, same, "up to {effort} in {}", snapshot.write());
        if let Some((_, improvement)) =
            on_the_way.last().filter(|(_, improvement)| improvement.contains("violation=0"))
        {
            let (_, before) = improvement.split_once("vector=").unwrap();
            let before: Vec<i64> = numbers(before.split_once(']').unwrap().0);
            assert!(*best <= before, "{best:?} after {before:?}");
        }
    }
    all.last().map_or(0, |(_, (better, _))| better.len())
}

fn numbers(list: &str) -> Vec<i64> {
    list.trim_start_matches('[').split(", ").map(|number| number.parse().unwrap()).collect()
}

#[test]
fn a_longer_search_extends_a_shorter_one() {
    let mut better = 0;
    for snapshot in [
        testkit::grid(6, 100, 1),
        testkit::clusters(4, 8, 1),
        testkit::famine(40, 4, 1),
        testkit::tight_memory(40, 5, 1),
        testkit::heavy_tails(50, 10, 1),
        testkit::all_to_all(&[8, 12, 8], 16, 1),
    ] {
        better += check(&snapshot, &[30, 100, 300, 700, 1000]);
    }
    assert!(better > 6, "{better} better answers");
}

proptest! {
    #![proptest_config(crate::seeds(20))]
    #[test]
    fn a_longer_search_of_any_snapshot_extends_a_shorter_one(seed: u64, effort in 1..200u64, more in 1..400u64) {
        let Ok(snapshot) = Snapshot::new(testkit::world(seed)) else { return Ok(()) };
        check(&snapshot, &[effort, effort + more]);
    }
}
