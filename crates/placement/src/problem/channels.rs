//! Channels between whole groups: each member of one sends to each member of the other.
//!
//! They are kept in this form. Code that needs pairs of actors gets expanded pairs if there are few enough
//! ([`MOST_PAIRS`]); costs and the search work with the number of group members on each unit.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{SnapshotError, fits, number};
use crate::file::format::{Actor, GroupMessage, SnapshotFile};
use crate::ix::{ActorIx, EndIx, IxVec};

/// The maximum number of pairs to which group channels are expanded.
pub const MOST_PAIRS: usize = 200_000;

/// The edge of each member of a group to each member of another one, both directions summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Channel {
    /// The other group; if it is the same, all other members.
    pub peer: EndIx,
    /// Per unit of exchange cost: messages per window, or their weight.
    pub rate: i64,
    /// If separated: the drag, or its weight.
    pub apart: i64,
}

/// Pairs of actors that group channels connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pairs {
    /// All of them.
    All,
    /// Those with at least one movable actor.
    Open,
}

/// The group channels of a snapshot.
#[derive(Clone, Debug, Default)]
pub struct Channels {
    /// By actor: its group, if it has channels, otherwise [`EndIx::NONE`].
    pub end_of: IxVec<ActorIx, EndIx>,
    /// By group: its channels, peers ascending.
    pub of: IxVec<EndIx, Vec<Channel>>,
    /// By group: its actors, ascending.
    pub members: IxVec<EndIx, Vec<ActorIx>>,
    /// The number of connected pairs of actors.
    pub pairs: usize,
    /// The number of them with at least one movable actor.
    pub open_pairs: usize,
    /// Whether the problem's edges include these pairs.
    pub is_written_out: bool,
}

impl Channels {
    /// The channels of a checked file, expanded up to a number of pairs.
    pub(crate) fn new(file: &SnapshotFile, most_pairs: usize) -> Self {
        let mut channels = Self { is_written_out: true, ..Self::default() };
        if file.group_messages.is_empty() {
            return channels;
        }
        let members = members(file);
        let mut ends: BTreeMap<&str, EndIx> = BTreeMap::new();
        let mut sums: BTreeMap<(EndIx, EndIx), (i64, i64)> = BTreeMap::new();
        channels.end_of = IxVec::of(EndIx::NONE, file.actors.len());
        for channel in &file.group_messages {
            let [from, to] = [&channel.from, &channel.to].map(|name| {
                *ends.entry(name).or_insert_with(|| {
                    let own = members[name].clone();
                    let end = channels.members.push(own.clone());
                    for actor in own {
                        channels.end_of[actor] = end;
                    }
                    end
                })
            });
            let sum = sums.entry((from.min(to), from.max(to))).or_default();
            // Within a group each sends to the other, and both are one pair.
            let count = number(channel.count) * if from == to { 2 } else { 1 };
            // Values above 2^53 are refused, before or after this.
            *sum = (sum.0.saturating_add(count), sum.1.saturating_add(number(channel.drag)));
        }
        channels.of = IxVec::of(Vec::new(), channels.members.len());
        let is_fixed = |actor: &&ActorIx| file.actors[actor.at()].fixed;
        let fixed: IxVec<EndIx, usize> =
            channels.members.iter().map(|of| of.iter().filter(is_fixed).count()).collect();
        for ((a, b), (rate, apart)) in sums {
            let pairs = channels.pairs_between(a, b);
            if pairs == 0 {
                // A group with one member sends nothing within itself.
                continue;
            }
            channels.pairs = channels.pairs.saturating_add(pairs);
            let open = pairs - pairs_of(fixed[a], fixed[b], a == b);
            channels.open_pairs = channels.open_pairs.saturating_add(open);
            channels.of[a].push(Channel { peer: b, rate, apart });
            if a != b {
                channels.of[b].push(Channel { peer: a, rate, apart });
            }
        }
        channels.of.iter_mut().for_each(|of| of.sort_unstable_by_key(|channel| channel.peer));
        channels.is_written_out = channels.pairs <= most_pairs;
        channels
    }

    /// Whether there are channels that no edge represents.
    pub fn are_whole(&self) -> bool {
        !self.is_written_out
    }

    /// Why pairs of actors are unavailable; `None` if edges represent all pairs.
    pub fn refusal(&self, who: &str) -> Option<String> {
        self.are_whole().then(|| too_many(who, self.pairs))
    }

    /// Why pairs with a movable actor are unavailable; `None` if they are few enough.
    pub fn open_refusal(&self, who: &str) -> Option<String> {
        (self.are_whole() && self.open_pairs > MOST_PAIRS).then(|| too_many(who, self.open_pairs))
    }

    /// The available pairs: all if edges represent them, otherwise those with a movable actor.
    pub(crate) fn enough_pairs(&self) -> Pairs {
        if self.is_written_out { Pairs::All } else { Pairs::Open }
    }

    /// Visits the pairs with a movable actor, the smaller position first; the caller has checked that they are
    /// few enough.
    pub fn for_each_open_pair(
        &self,
        fixed: &IxVec<ActorIx, bool>,
        mut each: impl FnMut(ActorIx, ActorIx, &Channel),
    ) {
        for (end, of) in self.of.enumerate() {
            for channel in of.iter().filter(|channel| channel.peer >= end) {
                let peers = &self.members[channel.peer];
                let open: Vec<ActorIx> = peers.iter().copied().filter(|actor| !fixed[*actor]).collect();
                for &a in &self.members[end] {
                    let peers = if fixed[a] { &open } else { peers };
                    // Within a group each pair occurs in both orders.
                    for &b in peers.iter().filter(|b| channel.peer != end || a < **b) {
                        each(a.min(b), a.max(b), channel);
                    }
                }
            }
        }
    }

    fn pairs_between(&self, a: EndIx, b: EndIx) -> usize {
        pairs_of(self.members[a].len(), self.members[b].len(), a == b)
    }

    /// The edge of two actors due to group channels.
    pub fn between(&self, a: ActorIx, b: ActorIx) -> Channel {
        let (Some(&end), Some(&peer)) = (self.end_of.get(a), self.end_of.get(b)) else {
            return Channel::default();
        };
        let of = self.of.get(end).map_or(&[][..], Vec::as_slice);
        let found = of.binary_search_by_key(&peer, |channel| channel.peer);
        found.map_or_else(|_| Channel::default(), |at| of[at])
    }

    /// The channels of an actor's group.
    pub fn of_actor(&self, actor: ActorIx) -> &[Channel] {
        let end = self.end_of.get(actor).copied().unwrap_or(EndIx::NONE);
        self.of.get(end).map_or(&[][..], Vec::as_slice)
    }

    /// Every channel once, with its number of pairs.
    pub fn once(&self) -> impl Iterator<Item = (&Channel, usize)> {
        let ends = self.of.enumerate();
        let once = ends.flat_map(|(end, of)| {
            of.iter().filter(move |channel| channel.peer >= end).map(move |channel| (end, channel))
        });
        once.map(|(end, channel)| (channel, self.pairs_between(end, channel.peer)))
    }
}

/// The number of pairs of two groups of these sizes, or of one group with itself.
fn pairs_of(one: usize, other: usize, is_own: bool) -> usize {
    if is_own { one * one.saturating_sub(1) / 2 } else { one * other }
}

fn too_many(who: &str, pairs: usize) -> String {
    format!(
        "{who} reads pairs of actors, and the channels between groups make {pairs}; at most {MOST_PAIRS} are written out"
    )
}

/// The members of each group that channels can name.
fn members(file: &SnapshotFile) -> BTreeMap<String, Vec<ActorIx>> {
    let mut members: BTreeMap<String, Vec<ActorIx>> = BTreeMap::new();
    for (position, actor) in ActorIx::first(file.actors.len()).zip(&file.actors) {
        if let Some(group) = group_of(actor) {
            members.entry(group).or_default().push(position);
        }
    }
    members
}

/// The name of an actor's group in channels.
fn group_of(actor: &Actor) -> Option<String> {
    let (application, _) = actor.id.rsplit_once('/')?;
    Some(format!("{application}/{}", actor.group.as_deref()?))
}

/// Whether each of these actors sends to the next one, cyclically, by group channels alone.
pub(crate) fn make_cycle(file: &SnapshotFile, cycle: &[ActorIx]) -> bool {
    let channels = file.group_messages.iter().filter(|channel| channel.count > 0);
    let sent: BTreeSet<(&str, &str)> =
        channels.map(|channel| (channel.from.as_str(), channel.to.as_str())).collect();
    let groups: Vec<Option<String>> = cycle.iter().map(|actor| group_of(&file.actors[actor.at()])).collect();
    groups
        .iter()
        .zip(groups.iter().cycle().skip(1))
        .all(|(from, to)| from.as_deref().zip(to.as_deref()).is_some_and(|channel| sent.contains(&channel)))
}

/// Refuses unknown groups, and numbers out of range.
pub(crate) fn check(file: &SnapshotFile) -> Result<(), SnapshotError> {
    if file.group_messages.is_empty() {
        return Ok(());
    }
    let members = members(file);
    for (position, channel) in file.group_messages.iter().enumerate() {
        fits(&|| format!("groupMessages[{position}].count"), channel.count)?;
        fits(&|| format!("groupMessages[{position}].drag"), channel.drag)?;
        for (field, group) in [("from", &channel.from), ("to", &channel.to)] {
            if !members.contains_key(group) {
                let problem = format!("no actor is of `{group}`; it is written namespace/application/group");
                return Err(SnapshotError::new(format!("groupMessages[{position}].{field}"), problem));
            }
        }
    }
    Ok(())
}

/// The total messages and drag over all pairs of all channels; `counts` gives the number of ordered pairs of two
/// groups.
fn sum(file: &SnapshotFile, counts: impl Fn(&[ActorIx], &[ActorIx], bool) -> u128) -> (u128, u128) {
    if file.group_messages.is_empty() {
        return (0, 0);
    }
    let members = members(file);
    let none = Vec::new();
    let (mut messages, mut drags) = (0u128, 0u128);
    for channel in &file.group_messages {
        let [from, to] = [&channel.from, &channel.to].map(|name| members.get(name).unwrap_or(&none));
        let is_own = channel.from == channel.to;
        let pairs = counts(from, to, is_own);
        messages = messages.saturating_add(u128::from(channel.count) * pairs);
        drags = drags.saturating_add(u128::from(channel.drag) * pairs / if is_own { 2 } else { 1 });
    }
    (messages, drags)
}

/// The number of ordered pairs of two groups of these sizes.
fn ordered(from: usize, to: usize, is_own: bool) -> u128 {
    from as u128 * if is_own { to.saturating_sub(1) } else { to } as u128
}

/// Messages and drags of all pairs of all channels.
pub(crate) fn sums(file: &SnapshotFile) -> (u128, u128) {
    sum(file, |from, to, is_own| ordered(from.len(), to.len(), is_own))
}

/// The same over pairs with at least one movable actor.
pub(crate) fn open_sums(file: &SnapshotFile) -> (u128, u128) {
    let fixed = |of: &[ActorIx]| of.iter().filter(|actor| file.actors[actor.at()].fixed).count();
    sum(file, |from, to, is_own| {
        ordered(from.len(), to.len(), is_own) - ordered(fixed(from), fixed(to), is_own)
    })
}

/// Visits every ordered pair of every channel, or those with a movable actor: sender, and receiver.
pub(crate) fn for_each_pair(
    file: &SnapshotFile,
    pairs: Pairs,
    mut each: impl FnMut(ActorIx, ActorIx, &GroupMessage),
) {
    if file.group_messages.is_empty() {
        return;
    }
    let members = members(file);
    for channel in &file.group_messages {
        let (Some(from), Some(to)) = (members.get(&channel.from), members.get(&channel.to)) else { continue };
        let is_closed = |actor: ActorIx| pairs == Pairs::Open && file.actors[actor.at()].fixed;
        let open: Vec<ActorIx> = to.iter().copied().filter(|actor| !is_closed(*actor)).collect();
        for &a in from {
            let to = if is_closed(a) { &open } else { to };
            to.iter().filter(|b| **b != a).for_each(|b| each(a, *b, channel));
        }
    }
}
