//! The tuples of one predicate, indexed by any subset of their terms.

use std::collections::HashMap;

use crate::term::Value;

/// Whether a tuple holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Truth {
    /// In every assignment.
    Certain,
    /// If this atom holds.
    Possible(u32),
}

/// A predicate's tuples in the order of insertion, without duplicates.
#[derive(Default)]
pub(crate) struct Relation {
    tuples: Vec<Box<[Value]>>,
    truths: Vec<Truth>,
    /// A hash map that is never iterated, as are the indexes.
    places: HashMap<Box<[Value]>, u32>,
    /// By the positions of bound terms: tuples with equal terms there.
    indexes: HashMap<u64, HashMap<Box<[Value]>, Vec<u32>>>,
}

impl Relation {
    /// The number of tuples.
    pub fn len(&self) -> usize {
        self.tuples.len()
    }

    pub fn tuple(&self, place: u32) -> &[Value] {
        &self.tuples[place as usize]
    }

    pub fn truth(&self, place: u32) -> Truth {
        self.truths[place as usize]
    }

    /// The position of a tuple, if present.
    pub fn find(&self, tuple: &[Value]) -> Option<u32> {
        self.places.get(tuple).copied()
    }

    /// Adds a tuple that is not present yet.
    pub fn add(&mut self, tuple: &[Value], truth: Truth) -> u32 {
        let place = u32::try_from(self.tuples.len()).expect("the budget ends long before so many tuples");
        let tuple: Box<[Value]> = tuple.into();
        for (mask, index) in &mut self.indexes {
            index.entry(key(*mask, &tuple)).or_default().push(place);
        }
        self.places.insert(tuple.clone(), place);
        self.tuples.push(tuple);
        self.truths.push(truth);
        place
    }

    /// Marks a tuple as holding in every assignment.
    pub fn make_certain(&mut self, place: u32) {
        self.truths[place as usize] = Truth::Certain;
    }

    /// Whether the index over the positions of `mask` exists.
    pub fn has_index(&self, mask: u64) -> bool {
        self.indexes.contains_key(&mask)
    }

    /// Builds the index over the positions of `mask`.
    pub fn index(&mut self, mask: u64) {
        let mut index: HashMap<Box<[Value]>, Vec<u32>> = HashMap::new();
        for (place, tuple) in (0..).zip(&self.tuples) {
            index.entry(key(mask, tuple)).or_default().push(place);
        }
        self.indexes.insert(mask, index);
    }

    /// The average number of tuples with equal terms at the positions of an index.
    pub fn per_key(&self, mask: u64) -> usize {
        let keys = self.indexes.get(&mask).map_or(1, HashMap::len).max(1);
        self.tuples.len().div_ceil(keys)
    }

    /// Tuples with these terms at the positions of an index.
    pub fn with(&self, mask: u64, key: &[Value]) -> &[u32] {
        self.indexes.get(&mask).and_then(|index| index.get(key)).map_or(&[], Vec::as_slice)
    }
}

fn key(mask: u64, tuple: &[Value]) -> Box<[Value]> {
    tuple
        .iter()
        .enumerate()
        .filter(|(position, _)| mask & (1 << position) != 0)
        .map(|(_, value)| *value)
        .collect()
}
