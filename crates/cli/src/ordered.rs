//! A map that is serialized in insertion order.

use serde::{Serialize, Serializer};

/// Values by name, in the order of the objective's levels.
#[derive(Debug)]
pub struct OrderedMap(pub Vec<(String, i64)>);

impl Serialize for OrderedMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}
