//! Deployment: matches named runners with requirements to Instances, and creates the missing ones.

use std::collections::BTreeMap;

use crate::{
    hicr::Topology,
    model::{InstanceId, InstanceManager, Refused},
};

/// A program that runs on an Instance of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Runner {
    /// The name.
    pub name: String,
    /// The devices that its Instance needs.
    pub needs: Topology,
}

/// The result of a deployment.
#[derive(Debug, PartialEq, Eq)]
pub struct Deployed {
    /// The Instance of each placed runner.
    pub placed: BTreeMap<String, InstanceId>,
    /// The placed runners whose Instance was created.
    pub created: Vec<InstanceId>,
    /// The unplaced runners, with the reason.
    pub refused: BTreeMap<String, Refused>,
}

/// Assigns one Instance to each runner: as many as possible from `candidates`, and new ones for the rest.
pub fn deploy(instances: &dyn InstanceManager, candidates: &[InstanceId], runners: &[Runner]) -> Deployed {
    let have: Vec<_> = instances.instances().into_iter().filter(|it| candidates.contains(&it.id())).collect();
    let fits: Vec<Vec<usize>> = runners
        .iter()
        .map(|runner| {
            (0..have.len()).filter(|&index| have[index].topology().satisfies(&runner.needs)).collect()
        })
        .collect();
    let matched = matching(&fits, have.len());
    let mut deployed = Deployed { placed: BTreeMap::new(), created: Vec::new(), refused: BTreeMap::new() };
    let mut missing = Vec::new();
    for (runner, index) in runners.iter().zip(&matched) {
        match index {
            Some(index) => drop(deployed.placed.insert(runner.name.clone(), have[*index].id())),
            None => missing.push(runner),
        }
    }
    // Largest requirements first: smaller runners fit into what remains.
    missing.sort_by_key(|runner| std::cmp::Reverse(size(&runner.needs)));
    for runner in missing {
        let template = instances.create_template(&runner.needs, serde_json::Value::Null);
        match instances.create_instances(1, &template).pop() {
            Some(Ok(instance)) => {
                deployed.placed.insert(runner.name.clone(), instance.id());
                deployed.created.push(instance.id());
            }
            Some(Err(refused)) => drop(deployed.refused.insert(runner.name.clone(), refused)),
            None => {}
        }
    }
    deployed
}

fn size(topology: &Topology) -> (u64, u64) {
    let units = topology.devices.iter().flat_map(|device| &device.compute_resources).map(|it| it.count).sum();
    let bytes = topology.devices.iter().flat_map(|device| &device.memory_spaces).map(|it| it.size).sum();
    (units, bytes)
}

/// A maximum bipartite matching by augmenting paths; each left element is matched to a right one that `fits`.
fn matching(fits: &[Vec<usize>], right: usize) -> Vec<Option<usize>> {
    fn place(left: usize, fits: &[Vec<usize>], owner: &mut [Option<usize>], seen: &mut [bool]) -> bool {
        for &index in &fits[left] {
            if !std::mem::replace(&mut seen[index], true)
                && owner[index].is_none_or(|other| place(other, fits, owner, seen))
            {
                owner[index] = Some(left);
                return true;
            }
        }
        false
    }
    let mut owner = vec![None; right];
    for left in 0..fits.len() {
        place(left, fits, &mut owner, &mut vec![false; right]);
    }
    (0..fits.len()).map(|left| owner.iter().position(|other| *other == Some(left))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_matching_succeeds_where_the_first_fit_fails() {
        assert_eq!(matching(&[vec![0, 1], vec![0]], 2), [Some(1), Some(0)]);
    }

    /// The size of a maximum matching, by exhaustive search.
    fn best(fits: &[Vec<usize>], used: u32) -> usize {
        let Some((first, rest)) = fits.split_first() else { return 0 };
        let with =
            first.iter().filter(|&&at| used & (1 << at) == 0).map(|at| 1 + best(rest, used | (1 << at)));
        with.chain([best(rest, used)]).max().unwrap()
    }

    proptest! {
        /// The matching is valid and, compared with exhaustive search, maximum.
        #[test]
        fn a_matching_is_valid_and_maximum(fits in prop::collection::vec(prop::collection::btree_set(0_usize..4, 0..4), 0..5)) {
            let fits: Vec<Vec<usize>> = fits.into_iter().map(|set| set.into_iter().collect()).collect();
            let matched = matching(&fits, 4);
            let mut taken: Vec<_> = matched.iter().flatten().collect();
            let count = taken.len();
            taken.sort_unstable();
            taken.dedup();
            prop_assert_eq!(taken.len(), count);
            prop_assert!(matched.iter().zip(&fits).all(|(one, fits)| one.is_none_or(|one| fits.contains(&one))));
            prop_assert_eq!(count, best(&fits, 0));
        }
    }
}
