//! How many devices that share counters can be allocated together, whichever of them kube-scheduler chooses.

use std::collections::{BTreeMap, BTreeSet};

use crate::numbers::Exact;
use crate::units::dra::slices::{CounterKey, SliceDevice};

/// Positions of devices that share counters with each other, directly or by way of others.
pub(crate) fn sharing_groups(devices: &[&SliceDevice]) -> Vec<Vec<usize>> {
    let mut groups: Vec<(BTreeSet<CounterKey>, Vec<usize>)> = Vec::new();
    for (position, device) in devices.iter().enumerate() {
        let mut counters: BTreeSet<CounterKey> = device.counters().map(|(counter, _)| counter).collect();
        let mut members = vec![position];
        let (linked, mut apart): (Vec<_>, Vec<_>) =
            groups.into_iter().partition(|(known, _)| !known.is_disjoint(&counters));
        for (more, others) in linked {
            counters.extend(more);
            members.extend(others);
        }
        apart.push((counters, members));
        groups = apart;
    }
    groups.into_iter().map(|(_, members)| members).collect()
}

/// Whether a device alone fits into what is left of the counters.
pub(crate) fn fits(device: &SliceDevice, left: &BTreeMap<CounterKey, Exact>) -> bool {
    device.counters().all(|(counter, amount)| amount <= left.get(&counter).copied().unwrap_or_default())
}

/// The largest number of devices of which any choice fits into what is left of the counters.
///
/// It is exact for partitions of one size. Of several sizes the scheduler may choose the largest.
pub(crate) fn any_choice_of(devices: &[&SliceDevice], left: &BTreeMap<CounterKey, Exact>) -> usize {
    let left_of = |counter: &CounterKey| left.get(counter).copied().unwrap_or_default();
    let mut count = 0;
    let mut amounts = BTreeMap::<CounterKey, Vec<Exact>>::new();
    for device in devices {
        if fits(device, left) {
            count += 1;
            for (counter, amount) in device.counters() {
                amounts.entry(counter).or_default().push(amount);
            }
        }
    }
    for (counter, mut amounts) in amounts {
        amounts.sort_by(|a, b| b.cmp(a));
        let left = left_of(&counter);
        let mut sum = Exact::default();
        let fits = |amount: &&Exact| {
            sum += **amount;
            sum <= left
        };
        let fitting = amounts.iter().take_while(fits).count();
        if fitting < amounts.len() {
            count = count.min(fitting);
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::dra::published::published_pool;

    /// Devices by what they take, such as `a:2,b:1`; `-` takes nothing.
    fn devices(takes: &str) -> Vec<SliceDevice> {
        let device = |(nth, text): (usize, &str)| {
            let amounts = text.split(',').filter_map(|part| part.split_once(':'));
            let amounts: Vec<_> =
                amounts.map(|(name, amount)| format!("{name}: {{value: '{amount}'}}")).collect();
            format!(
                "{{name: d{nth}, consumesCounters: [{{counterSet: s, counters: {{{}}}}}]}}",
                amounts.join(", ")
            )
        };
        let devices: Vec<_> = takes.split_whitespace().enumerate().map(device).collect();
        let text = format!(
            "{{metadata: {{name: s}}, spec: {{driver: d, nodeName: n, pool: {{name: p, generation: 1, resourceSliceCount: 1}}, \
             devices: [{}]}}}}",
            devices.join(", ")
        );
        published_pool(&[serde_yaml::from_str(&text).unwrap()]).devices
    }

    fn left(text: &str) -> BTreeMap<CounterKey, Exact> {
        let amounts = text.split(',').filter_map(|part| part.split_once(':'));
        let key = |name: &str| ("d".to_owned(), "p".to_owned(), "s".to_owned(), name.to_owned());
        amounts.map(|(name, amount)| (key(name), Exact::from(amount.parse::<i128>().unwrap()))).collect()
    }

    #[test]
    fn the_count_fits_for_every_choice_of_devices() {
        for (takes, counters, expected) in [
            ("", "", 0),
            ("- -", "", 2),
            ("a:3 a:3 a:3", "a:7", 2),
            // the scheduler may choose the whole GPU first
            ("a:7 a:3 a:3 a:1", "a:7", 1),
            // what does not fit alone is not chosen
            ("a:7 a:3 a:3 a:1", "a:6", 2),
            ("a:7 a:7", "a:6", 0),
            ("b:1", "a:1", 0),
            // profiles at places of their own, which share processors
            ("m0:1,c:2 m1:1,c:2 m2:1,c:2", "m0:1,m1:1,m2:1,c:6", 3),
            ("m0:1,c:2 m1:1,c:2 m2:1,c:2", "m0:0,m1:1,m2:1,c:4", 2),
            ("m0:1 m0:1,m1:1 m1:1", "m0:1,m1:1", 1),
        ] {
            let found = devices(takes);
            let found: Vec<&SliceDevice> = found.iter().collect();
            assert_eq!(any_choice_of(&found, &left(counters)), expected, "{takes} of {counters}");
        }
    }

    #[test]
    fn devices_with_common_counters_are_a_group() {
        for (takes, expected) in [
            ("", "[]"),
            ("- -", "[[0], [1]]"),
            ("a:1 b:1 a:1", "[[1], [2, 0]]"),
            ("a:1 b:1 a:1,b:1 c:1", "[[2, 0, 1], [3]]"),
        ] {
            let found = devices(takes);
            let found: Vec<&SliceDevice> = found.iter().collect();
            assert_eq!(format!("{:?}", sharing_groups(&found)), expected, "{takes}");
        }
    }
}
