//! `bottleneck`: the fullest unit.

use super::{Amounts, Class, Figure, FileSums, Measure, Placed, Step};
use crate::Snapshot;
use crate::counts::Counts;
use crate::file::SnapshotFile;

/// Largest load of a unit in thousandths of its capacity, rounded up.
pub(super) struct Bottleneck;

impl Measure for Bottleneck {
    fn class(&self) -> Class {
        Class::Whole
    }

    fn value(&self, placed: &Placed) -> i64 {
        let full = placed.load.enumerate().map(|(unit, load)| placed.snapshot.fullness(unit.at(), *load));
        full.max().unwrap_or(0)
    }

    fn most(&self, amounts: &Amounts) -> i128 {
        let snapshot = amounts.snapshot;
        let full = (0..snapshot.units()).map(|unit| i128::from(snapshot.fullness(unit, amounts.work)));
        full.max().unwrap_or(0)
    }

    fn largest(&self, file: &SnapshotFile, sums: &FileSums) -> Option<(&'static str, &'static str, u128)> {
        let smallest = file.units.iter().map(|unit| unit.capacity).min().unwrap_or(1);
        Some(("units", "bottleneck", (sums.work * 1000).div_ceil(u128::from(smallest))))
    }

    fn figure(&self, snapshot: &Snapshot) -> Option<Box<dyn Figure>> {
        Some(Box::new(Fullness(Counts::of(snapshot.units()))))
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/bottleneck.lp")
    }
}

/// How many units have each load in thousandths of capacity.
#[derive(Clone)]
struct Fullness(Counts);

impl Figure for Fullness {
    fn count(&mut self, snapshot: &Snapshot, step: &Step) {
        let of = |load| snapshot.fullness(step.unit.at(), load);
        self.0.change(of(step.load.0), of(step.load.1));
    }

    fn value(&self, _: &Snapshot) -> i64 {
        self.0.most()
    }

    fn with(&self, snapshot: &Snapshot, step: &Step) -> i64 {
        let of = |load| snapshot.fullness(step.unit.at(), load);
        self.0.extremes_with(of(step.load.0), of(step.load.1)).1
    }

    fn boxed(&self) -> Box<dyn Figure> {
        Box::new(self.clone())
    }
}
