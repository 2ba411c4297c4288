//! Rounded message counts between actors and between groups.

use std::collections::BTreeMap;

use crate::numbers::{Exact, ceil, sum};

/// Messages between two actors, or between each pair of two groups; the pair is in ascending order.
#[derive(Default)]
pub(crate) struct Flow {
    /// From the smaller to the larger position; within a group, in each direction.
    pub up: Exact,
    /// From the larger to the smaller.
    pub down: Exact,
    /// Penalty for separating the pair.
    pub drag: u64,
}

/// Messages of each actor of a group to each actor of another, or to all others of its own.
pub(crate) struct GroupFlow {
    /// Position of the sending group.
    pub from: usize,
    /// Position of the receiving group.
    pub to: usize,
    /// Messages per pair and window.
    pub count: u64,
    /// Penalty for separating a pair.
    pub drag: u64,
}

/// Both directions between two groups as integers. Their sum is rounded up once; within a group each direction is.
fn rounded((a, b): (usize, usize), flow: &Flow) -> Option<(u64, u64)> {
    let up = ceil(flow.up);
    Some((up, if a == b { up } else { ceil(sum([flow.up, flow.down])?).saturating_sub(up) }))
}

/// Channels between two groups; `None` if a sum does not fit 128 bits.
pub(crate) fn group_flows((a, b): (usize, usize), flow: &Flow) -> Option<Vec<GroupFlow>> {
    let (up, down) = rounded((a, b), flow)?;
    // Within a group a pair has both directions.
    let drag = if a == b { flow.drag.saturating_mul(2) } else { flow.drag };
    let mut channels = vec![GroupFlow { from: a, to: b, count: up, drag }];
    if a != b {
        channels.push(GroupFlow { from: b, to: a, count: down, drag: 0 });
    }
    // The penalty goes with an existing direction.
    if up == 0 && down > 0 {
        channels.remove(0);
        channels[0].drag = drag;
    }
    channels.retain(|channel| channel.count > 0 || channel.drag > 0);
    Some(channels)
}

/// Messages of two actors in both directions, beyond those of their groups; the total is rounded up once. `None` if a sum does not
/// fit 128 bits.
pub(crate) fn pair_messages(
    of_groups: &BTreeMap<(usize, usize), Flow>,
    [first, second]: [usize; 2],
    flow: &Flow,
) -> Option<(u64, u64)> {
    let pair = (first.min(second), first.max(second));
    let Some(groups) = of_groups.get(&pair) else {
        let up = ceil(flow.up);
        return Some((up, ceil(sum([flow.up, flow.down])?).saturating_sub(up)));
    };
    let (said_up, said_down) = rounded(pair, groups)?;
    let (more_up, more_down) = match first.cmp(&second) {
        std::cmp::Ordering::Less => (groups.up, groups.down),
        std::cmp::Ordering::Equal => (groups.up, groups.up),
        std::cmp::Ordering::Greater => (groups.down, groups.up),
    };
    let all = ceil(sum([flow.up, more_up, flow.down, more_down])?).saturating_sub(said_up + said_down);
    let said_up = if first <= second { said_up } else { said_down };
    let up = ceil(sum([flow.up, more_up])?).saturating_sub(said_up).min(all);
    Some((up, all - up))
}

/// Position of an actor's group.
pub(crate) fn group_of(members: &[Vec<usize>], actor: usize) -> usize {
    let has = |of: &Vec<usize>| of.binary_search(&actor).is_ok();
    members.iter().position(has).expect("the sender belongs to a group of the channel")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_of_group_and_pair_messages_are_rounded_once() {
        let part = |numerator: i128| Exact::new(numerator, 7);
        let mut checked = 0;
        for (up, down, more_up, more_down) in
            (0..9).flat_map(|a| (0..9).flat_map(move |b| (0..9).map(move |c| (a, b, c, (a + 2 * c) % 5))))
        {
            for [first, second] in [[0, 1], [1, 0], [1, 1]] {
                let pair = (first.min(second), first.max(second));
                let is_own = first == second;
                let groups = Flow { up: part(up), down: part(if is_own { 0 } else { down }), drag: 3 };
                let channels = group_flows(pair, &groups).unwrap();
                let sent: u64 =
                    channels.iter().map(|channel| channel.count * if is_own { 2 } else { 1 }).sum();
                assert_eq!(
                    channels.iter().map(|channel| channel.drag).sum::<u64>(),
                    if is_own { 6 } else { 3 }
                );
                let flow = Flow { up: part(more_up), down: part(more_down), drag: 0 };
                let of_groups = BTreeMap::from([(pair, groups)]);
                let (there, back) = pair_messages(&of_groups, [first, second], &flow).unwrap();
                let all = part(more_up + more_down + up + if is_own { up } else { down });
                // Within a group both directions are equal, so an odd sum becomes even.
                let expected = if is_own { ceil(all).max(sent) } else { ceil(all) };
                assert_eq!(
                    sent + there + back,
                    expected,
                    "{up} {down} {more_up} {more_down} {first} {second}"
                );
                checked += 1;
            }
        }
        assert_eq!(checked, 3 * 9 * 9 * 9);
        let alone = Flow { up: part(3), down: part(3), drag: 0 };
        assert_eq!(pair_messages(&BTreeMap::new(), [0, 1], &alone), Some((1, 0)));
    }
}
