//! Levels by name for programs, the most important first.

use serde::{Serialize, Serializer};

/// Names and values as an object whose fields keep their order.
#[derive(Debug)]
pub struct InOrder(pub Vec<(String, i64)>);

impl Serialize for InOrder {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}
