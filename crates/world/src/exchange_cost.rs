//! The exchange costs of a policy.

use std::collections::BTreeMap;

use placement::file::ExchangeCost;
use serde::Deserialize;

use crate::link_costs::{LinkCosts, default_costs};

/// The highest cost of a message, so that billions of messages add up.
const MAX_COST: u64 = 1_000_000;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct ExchangeParameters {
    kinds: Option<BTreeMap<String, BTreeMap<String, u64>>>,
    other_kind: Option<u64>,
    other_numa: Option<u64>,
    other_node: Option<u64>,
    other_zone: Option<u64>,
    links: Option<LinkCosts>,
}

impl ExchangeParameters {
    /// The costs, and those of links. Defaults are Table II of the APO paper.
    pub fn resolve(self) -> (ExchangeCost, LinkCosts) {
        let table_two = || {
            let row = |costs: &[(&str, u64)]| {
                costs.iter().map(|(kind, cost)| ((*kind).to_owned(), *cost)).collect()
            };
            [
                ("cpu".to_owned(), row(&[("cpu", 1), ("gpu", 5), ("fpga", 10)])),
                ("gpu".to_owned(), row(&[("gpu", 1), ("fpga", 20)])),
                ("fpga".to_owned(), row(&[("fpga", 1)])),
            ]
            .into()
        };
        let costs = ExchangeCost {
            kinds: self.kinds.unwrap_or_else(table_two),
            other_kind: Some(self.other_kind.unwrap_or(20)),
            other_numa: self.other_numa.unwrap_or(0),
            other_node: self.other_node.unwrap_or(30),
            other_zone: self.other_zone.unwrap_or(30),
            pairs: Vec::new(),
        };
        (costs, self.links.unwrap_or_else(default_costs))
    }
}

/// Refuses costs with which no snapshot could add up its messages.
pub(crate) fn check(costs: &ExchangeCost) -> Result<(), String> {
    let ExchangeCost { kinds, other_kind, other_numa, other_node, other_zone, pairs } = costs;
    let of_kinds = kinds.values().flat_map(BTreeMap::values).chain(other_kind);
    let others = [other_numa, other_node, other_zone].into_iter().chain(pairs.iter().map(|pair| &pair.cost));
    match of_kinds.chain(others).find(|cost| **cost > MAX_COST) {
        Some(cost) => Err(format!("{cost}; must be at most {MAX_COST}")),
        None => Ok(()),
    }
}
