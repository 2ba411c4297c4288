//! `consolidate`: units in use.

use super::{Amounts, Class, Figure, Measure, OverUnits, Placed};
use crate::Snapshot;

/// Units that host anything.
pub(super) struct Consolidate;

impl Measure for Consolidate {
    fn class(&self) -> Class {
        Class::Places
    }

    fn value(&self, placed: &Placed) -> i64 {
        placed.in_use.iter().map(|in_use| i64::from(*in_use)).sum()
    }

    fn most(&self, amounts: &Amounts) -> i128 {
        amounts.snapshot.units() as i128
    }

    fn figure(&self, _: &Snapshot) -> Option<Box<dyn Figure>> {
        Some(Box::new(OverUnits { cost: |_, _, _, hosted| i64::from(hosted > 0), sum: 0 }))
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/consolidate.lp")
    }
}
