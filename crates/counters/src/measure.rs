//! Numbers of a snapshot from windows.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::messages;
use crate::numbers::{GroupMasks, GroupProfile, MeasuredGroup, MeasuredNumbers};
use crate::rounding::round_up;
use crate::windows::{ActorColumns, WindowChoice, WindowSlot, Windows, bit};

impl Windows {
    /// The numbers of the chosen windows: their mean, rounded once.
    ///
    /// Each group is measured as a whole or not at all; an actor without a report in a measured group has the group's mean.
    pub fn measure(
        &self,
        profiles: &BTreeMap<String, GroupProfile>,
        choice: WindowChoice,
    ) -> MeasuredNumbers {
        let slots = self.chosen(choice);
        let usable: Vec<&WindowSlot> = self.usable().collect();
        let mut measured = MeasuredNumbers::default();
        let mut masks = BTreeMap::new();
        for (name, profile) in profiles {
            let mut of_group = GroupMasks::of(name, &slots);
            if of_group.work == 0 {
                // Work that the chosen windows lack is that of the others.
                of_group.work = GroupMasks::of(name, &usable).work;
            }
            measured.groups.insert(name.clone(), group_of(profile, of_group));
            masks.insert(name.as_str(), of_group);
            self.add_work(name, profile, of_group.work, &mut measured);
        }
        messages::add_pairs(self, profiles, &masks, &mut measured);
        measured
    }

    /// Work of the actors of a group in these columns.
    fn add_work(&self, name: &str, profile: &GroupProfile, mask: u16, measured: &mut MeasuredNumbers) {
        if mask == 0 {
            return;
        }
        let services = self.services(profile, mask);
        let ratio = |from: &str, to: &str| ratio(profile, &services, from, to);
        let on_kinds = |actor: &ActorColumns| mean_work(profile, actor, mask & actor.worked, &ratio);
        let columns = |actor: &String| self.actors.get(actor.as_str());
        let known: Vec<Option<BTreeMap<String, f64>>> =
            profile.actors.iter().map(|actor| columns(actor).and_then(on_kinds)).collect();
        let mean = mean_of(profile, &known);
        for (actor, work) in profile.actors.iter().zip(known) {
            let work = work.unwrap_or_else(|| mean.clone());
            let rounded = work.into_iter().map(|(kind, work)| (kind, round_up(work))).collect();
            measured.work.insert(actor.clone(), rounded);
        }
        measured
            .services
            .extend(services.into_iter().map(|(kind, service)| ((name.to_owned(), kind), service)));
    }

    /// Microseconds per message of a group by kind, weighted by messages.
    fn services(&self, profile: &GroupProfile, mask: u16) -> BTreeMap<String, f64> {
        let mut sums: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        for actor in profile.actors.iter().filter_map(|actor| self.actors.get(actor.as_str())) {
            for (at, kind) in actor.kinds.iter().enumerate() {
                let (work, service) = (f64::from(actor.work[at]), f64::from(actor.service[at]));
                let Some(kind) = kind.as_deref().filter(|_| mask & bit(at) != 0 && service > 0.0) else {
                    continue;
                };
                let sum = sums.entry(kind).or_default();
                *sum = (sum.0 + work, sum.1 + work / service);
            }
        }
        let measured = sums.into_iter().filter(|(_, (_, messages))| *messages > 0.0);
        measured.map(|(kind, (work, messages))| (kind.to_owned(), work / messages)).collect()
    }
}

fn group_of(profile: &GroupProfile, masks: GroupMasks) -> MeasuredGroup {
    MeasuredGroup {
        wanted: profile.actors.len(),
        windows: (masks.messages | masks.work).count_ones() as usize,
        messages: masks.messages != 0,
        work: masks.work != 0,
        annoyance: masks.annoyance != 0,
    }
}

/// How much more work one kind needs than another: by measured service times if both are known, else by the manifest's.
fn ratio(profile: &GroupProfile, services: &BTreeMap<String, f64>, from: &str, to: &str) -> Option<f64> {
    if from == to {
        return Some(1.0);
    }
    let (of_from, of_to) = (profile.kinds.get(from)?, profile.kinds.get(to)?);
    let measured = |kind: &str| services.get(kind).copied();
    let measured_to = measured(to).or(of_to.measured_service_microseconds);
    let ratio = match (measured(from), measured_to) {
        (Some(from), Some(to)) => to / from,
        _ => of_to.service_microseconds / of_from.service_microseconds,
    };
    Some(ratio).filter(|ratio| ratio.is_finite())
}

/// Mean work of an actor by kind; `None` without a window.
fn mean_work(
    profile: &GroupProfile,
    actor: &ActorColumns,
    mask: u16,
    ratio: &impl Fn(&str, &str) -> Option<f64>,
) -> Option<BTreeMap<String, f64>> {
    if mask == 0 {
        return None;
    }
    let in_mask = |(at, kind): (usize, &'_ Option<Arc<str>>)| {
        (mask & bit(at) != 0).then(|| Some((at, kind.clone()?))).flatten()
    };
    let windows: Vec<(usize, Arc<str>)> = actor.kinds.iter().enumerate().filter_map(in_mask).collect();
    let on_kind = |kind: &String| {
        let of_window = |(at, on): &(usize, Arc<str>)| {
            let measured = f64::from(actor.work[*at]);
            let least = profile.kinds.get(&**on).map_or(0.0, |it| it.work_microseconds);
            let is_saturated = actor.saturated & bit(*at) != 0;
            Some(if is_saturated { measured.max(least) } else { measured } * ratio(on, kind)?)
        };
        let works: Vec<f64> = windows.iter().filter_map(of_window).collect();
        #[expect(clippy::cast_precision_loss, reason = "at most 16 windows")]
        let mean = works.iter().sum::<f64>() / works.len() as f64;
        (!works.is_empty()).then(|| (kind.clone(), mean))
    };
    Some(profile.kinds.keys().filter_map(on_kind).collect())
}

/// Mean of the actors with a report, by kind.
fn mean_of(profile: &GroupProfile, known: &[Option<BTreeMap<String, f64>>]) -> BTreeMap<String, f64> {
    let on_kind = |kind: &String| {
        let works: Vec<f64> = known.iter().flatten().filter_map(|work| work.get(kind).copied()).collect();
        #[expect(clippy::cast_precision_loss, reason = "actors are few")]
        let mean = works.iter().sum::<f64>() / works.len() as f64;
        (!works.is_empty()).then(|| (kind.clone(), mean))
    };
    profile.kinds.keys().filter_map(on_kind).collect()
}
