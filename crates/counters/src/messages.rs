//! Messages and annoyance of pairs; small pairs become messages of groups.

use std::collections::{BTreeMap, BTreeSet};

use crate::numbers::{GroupMasks, GroupProfile, MeasuredNumbers, sum};
use crate::rounding::{round, round_up};
use crate::windows::{Column, PairKey, Windows};

/// A pair below one in so many of the application's messages is spread over the receivers of its group.
const PAIRS_OF_APPLICATION: usize = 1000;
/// The same for each of its actors, so that a large application keeps who sends to whom.
const PAIRS_OF_ACTOR: usize = 20;

/// The groups of all actors, and in which windows each actor reported.
struct Senders<'a> {
    /// By actor: its group, and the columns in which it reported while the group was measured.
    actors: BTreeMap<&'a str, Sender<'a>>,
    profiles: &'a BTreeMap<String, GroupProfile>,
}

#[derive(Clone, Copy)]
struct Sender<'a> {
    group: &'a str,
    messages: u16,
    annoyance: u16,
}

/// Messages that are not listed by pair.
#[derive(Default)]
struct Spread<'a> {
    messages: f64,
    /// The groups of the receivers that are known.
    receivers: BTreeSet<&'a str>,
}

/// Adds messages and annoyance to the numbers.
pub(crate) fn add_pairs(
    windows: &Windows,
    profiles: &BTreeMap<String, GroupProfile>,
    masks: &BTreeMap<&str, GroupMasks>,
    measured: &mut MeasuredNumbers,
) {
    let senders = Senders::new(windows, profiles, masks);
    let mut pairs = senders.means(windows);
    let mut spreads = senders.unlisted(windows);
    let total = pairs.values().sum::<f64>() + spreads.values().map(|spread| spread.messages).sum::<f64>();
    let least = total / count(PAIRS_OF_APPLICATION.max(PAIRS_OF_ACTOR * senders.actors.len()));
    senders.add_missing_senders(least, &mut pairs, &mut spreads);
    for ((actor, peer), messages) in pairs {
        if messages >= least {
            measured.pairs.insert((actor.to_owned(), peer.to_owned()), round_up(messages));
        } else {
            let spread = spreads.entry(senders.actors[actor].group).or_default();
            spread.messages += messages;
            spread.receivers.insert(senders.actors[peer].group);
        }
    }
    for (group, spread) in spreads {
        senders.add_spread(group, &spread, measured);
    }
    for ((actor, peer), column) in &windows.annoyance {
        let (Some(sender), true) = (senders.actors.get(&**actor), senders.actors.contains_key(&**peer))
        else {
            continue;
        };
        let annoyance = round(mean(column, sender.annoyance));
        if annoyance > 0 {
            measured.annoyance.insert((actor.to_string(), peer.to_string()), annoyance);
        }
    }
}

/// Mean of the columns in a mask; 0 if it is empty.
fn mean(column: &[f32], mask: u16) -> f64 {
    sum(column, mask) / f64::from(mask.count_ones().max(1))
}

fn count(number: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "actors are few")]
    let number = number as f64;
    number
}

impl<'a> Senders<'a> {
    fn new(
        windows: &Windows,
        profiles: &'a BTreeMap<String, GroupProfile>,
        masks: &BTreeMap<&str, GroupMasks>,
    ) -> Self {
        let of_group = |(group, profile): (&'a String, &'a GroupProfile)| {
            let masks = masks[group.as_str()];
            profile.actors.iter().map(move |actor| {
                let reported = windows.actors.get(actor.as_str()).map_or(0, |columns| columns.reported);
                let (messages, annoyance) = (reported & masks.messages, reported & masks.annoyance);
                (actor.as_str(), Sender { group, messages, annoyance })
            })
        };
        let actors = profiles.iter().flat_map(of_group).collect();
        Self { actors, profiles }
    }

    /// Mean messages of pairs whose sender is measured.
    fn means(&self, windows: &Windows) -> BTreeMap<(&'a str, &'a str), f64> {
        let of_pair = |((actor, peer), column): (&PairKey, &Column)| {
            let (actor, sender) = self.key(actor)?;
            let (peer, _) = self.key(peer)?;
            let mean = mean(column, sender.messages);
            (mean > 0.0).then_some(((actor, peer), mean))
        };
        windows.messages.iter().filter_map(of_pair).collect()
    }

    fn key(&self, actor: &str) -> Option<(&'a str, Sender<'a>)> {
        self.actors.get_key_value(actor).map(|(name, sender)| (*name, *sender))
    }

    /// Messages that actors report without a pair.
    fn unlisted(&self, windows: &Windows) -> BTreeMap<&'a str, Spread<'a>> {
        let mut spreads: BTreeMap<&str, Spread> = BTreeMap::new();
        for (name, sender) in self.actors.iter().filter(|(_, sender)| sender.messages != 0) {
            let other =
                windows.actors.get(*name).map_or(0.0, |columns| mean(&columns.other, sender.messages));
            if other > 0.0 {
                spreads.entry(sender.group).or_default().messages += other;
            }
        }
        spreads
    }

    /// Gives actors without a report in a measured group the group's mean, spread evenly over each receiving group.
    fn add_missing_senders(
        &self,
        least: f64,
        pairs: &mut BTreeMap<(&'a str, &'a str), f64>,
        spreads: &mut BTreeMap<&'a str, Spread<'a>>,
    ) {
        let mut of_groups: BTreeMap<&str, BTreeMap<&'a str, f64>> = BTreeMap::new();
        for ((actor, peer), messages) in pairs.iter() {
            let to = of_groups.entry(self.actors[actor].group).or_default();
            *to.entry(self.actors[peer].group).or_default() += messages;
        }
        for (group, profile) in self.profiles {
            let of = |is_missing: bool| {
                let names = profile.actors.iter().map(String::as_str);
                names.filter(move |name| (self.actors[name].messages == 0) == is_missing)
            };
            let (reporting, missing) = (of(false).count(), of(true).count());
            if reporting == 0 || missing == 0 {
                continue;
            }
            if let Some(spread) = spreads.get_mut(group.as_str()) {
                spread.messages *= 1.0 + count(missing) / count(reporting);
            }
            for (to, messages) in of_groups.get(group.as_str()).into_iter().flatten() {
                let peers = self.receivers_of_one(group, to);
                let each = messages / count(reporting) / count(peers.max(1));
                if peers == 0 || each < least {
                    let spread = spreads.entry(group).or_default();
                    spread.messages += messages / count(reporting) * count(missing);
                    spread.receivers.insert(to);
                    continue;
                }
                for actor in of(true) {
                    let peers = self.profiles[*to].actors.iter().filter(|peer| *peer != actor);
                    pairs.extend(peers.map(|peer| ((actor, peer.as_str()), each)));
                }
            }
        }
    }

    /// Actors of a group that one sender can send to.
    fn receivers_of_one(&self, from: &str, to: &str) -> usize {
        let of_group = self.profiles.get(to).map_or(0, |profile| profile.actors.len());
        of_group.saturating_sub(usize::from(from == to))
    }

    /// Spreads messages evenly over the receivers of a group's channels; without channels, over the groups that it sent to.
    fn add_spread(&self, group: &str, spread: &Spread, measured: &mut MeasuredNumbers) {
        let profile = &self.profiles[group];
        let channels: BTreeSet<&str> = profile.receivers.iter().map(String::as_str).collect();
        let receivers = if channels.is_empty() { &spread.receivers } else { &channels };
        let of_one: usize = receivers.iter().map(|to| self.receivers_of_one(group, to)).sum();
        let pairs = of_one * profile.actors.len();
        if pairs == 0 || spread.messages <= 0.0 {
            return;
        }
        let each = round_up(spread.messages / count(pairs));
        for to in receivers.iter().filter(|to| self.receivers_of_one(group, to) > 0) {
            measured.group_messages.insert((group.to_owned(), (*to).to_owned()), each);
        }
    }
}
