//! Nodes that do not answer: one is lost, many are rather out of reach.

use crate::Index;
use crate::selectors::is_silent;

/// The share of nodes, in percent, above which the way to them is doubted rather than they themselves.
const MOST_SILENT: usize = 30;

impl Index {
    /// Whether so many nodes do not answer that nobody is moved on the strength of what is known.
    pub fn is_silent(&self) -> bool {
        let silent = self.nodes.values().filter(|node| is_silent(node)).count();
        silent * 100 > self.nodes.len() * MOST_SILENT
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::Node;
    use serde_json::json;

    use super::*;

    #[test]
    fn more_than_three_of_ten_are_too_many() {
        for (silent, of, expected) in
            [(0, 0, false), (3, 10, false), (4, 10, true), (1, 2, true), (1, 4, false)]
        {
            let mut index = Index::default();
            for at in 0..of {
                let key = if at < silent { "node.kubernetes.io/unreachable" } else { "cairn.dev/other" };
                let taints = json!([{"key": key, "effect": "NoSchedule"}]);
                let node = json!({"metadata": {"name": format!("node-{at}")}, "spec": {"taints": taints}});
                let node: Node = serde_json::from_value(node).unwrap();
                index.put_node(Arc::new(node));
            }
            assert_eq!(index.is_silent(), expected, "{silent} of {of}");
        }
    }
}
