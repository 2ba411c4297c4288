//! Measured numbers in a snapshot, instead of those of the manifest.

use std::collections::BTreeMap;

use counters::{MeasuredGroup, MeasuredNumbers};
use placement::file::{Actor, Drag, GroupMessage, Message, SnapshotFile};

use crate::ApplicationKey;
use crate::demand::MAX_PER_ACTOR;
use crate::numbers::Exact;

/// The measured numbers of an application.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredDemand {
    /// Window of the policy that they were measured for, in microseconds.
    pub window: Exact,
    /// The numbers per window.
    pub numbers: MeasuredNumbers,
}

impl MeasuredDemand {
    /// The numbers, if they are those of a policy with this window.
    pub(crate) fn of_window(&self, window: Exact) -> Option<&MeasuredNumbers> {
        (self.window == window).then_some(&self.numbers)
    }
}

/// Work of an actor on a kind; `None` if its group is not measured.
pub(crate) fn measured_work(measured: Option<&MeasuredNumbers>, actor: &str, kind: &str) -> Option<u64> {
    measured?.work.get(actor)?.get(kind).map(|work| (*work).min(MAX_PER_ACTOR))
}

/// The numbers of the manifest that measured ones replaced.
#[derive(Clone, Debug, Default)]
pub(crate) struct ManifestNumbers {
    actors: Vec<Actor>,
    messages: Vec<Message>,
    group_messages: Vec<GroupMessage>,
    annoyance: Vec<Drag>,
}

impl ManifestNumbers {
    /// The file with the numbers of the manifest.
    pub fn restore(&self, file: &mut SnapshotFile) {
        file.actors.clone_from(&self.actors);
        file.messages.clone_from(&self.messages);
        file.group_messages.clone_from(&self.group_messages);
        file.annoyance.clone_from(&self.annoyance);
    }
}

/// Replaces the numbers of an application's measured groups; returns what was there before.
///
/// A group is measured as a whole: its work, the messages that it sends, and the annoyance that it reports, each on its own.
pub(crate) fn replace_measured(
    file: &mut SnapshotFile,
    key: &ApplicationKey,
    measured: &MeasuredNumbers,
) -> ManifestNumbers {
    let before = ManifestNumbers {
        actors: file.actors.clone(),
        messages: file.messages.clone(),
        group_messages: file.group_messages.clone(),
        annoyance: file.annoyance.clone(),
    };
    let prefix = format!("{key}/");
    let mut groups: BTreeMap<String, String> = BTreeMap::new();
    for actor in file.actors.iter_mut().filter(|actor| actor.id.starts_with(&prefix)) {
        let short = &actor.id[prefix.len()..];
        for (kind, way) in &mut actor.runs_on {
            way.work = measured_work(Some(measured), short, kind).unwrap_or(way.work);
        }
        groups.insert(actor.id.clone(), actor.group.clone().unwrap_or_default());
    }
    let of = |group: Option<&str>, part: fn(&MeasuredGroup) -> bool| {
        group.and_then(|group| measured.groups.get(group)).is_some_and(part)
    };
    let of_actor = |id: &str, part| of(groups.get(id).map(String::as_str), part);
    let of_group = |id: &str, part| of(id.strip_prefix(&prefix), part);
    let (messages, annoyance) = (|it: &MeasuredGroup| it.messages, |it: &MeasuredGroup| it.annoyance);
    file.messages.retain(|message| !of_actor(&message.from, messages));
    file.annoyance.retain(|pair| !of_actor(&pair.a, annoyance));
    for flow in &mut file.group_messages {
        flow.count = if of_group(&flow.from, messages) { 0 } else { flow.count };
        flow.drag = if of_group(&flow.from, annoyance) { 0 } else { flow.drag };
    }
    let ids = |(a, b): &(String, String)| {
        let (a, b) = (format!("{prefix}{a}"), format!("{prefix}{b}"));
        (groups.contains_key(&a) && groups.contains_key(&b)).then_some((a, b))
    };
    let bounded = |count: u64| count.min(MAX_PER_ACTOR);
    let pairs = measured.pairs.iter().filter(|(_, count)| **count > 0);
    file.messages.extend(pairs.filter_map(|(pair, count)| {
        let (from, to) = ids(pair)?;
        Some(Message { from, to, count: bounded(*count) })
    }));
    for ((from, to), count) in &measured.group_messages {
        let (from, to) = (format!("{prefix}{from}"), format!("{prefix}{to}"));
        match file.group_messages.iter_mut().find(|flow| (&flow.from, &flow.to) == (&from, &to)) {
            Some(flow) => flow.count = bounded(*count),
            None => file.group_messages.push(GroupMessage { from, to, count: bounded(*count), drag: 0 }),
        }
    }
    file.group_messages.retain(|flow| flow.count > 0 || flow.drag > 0);
    let mut lost: BTreeMap<(String, String), u64> = BTreeMap::new();
    for (pair, amount) in &measured.annoyance {
        if let Some((a, b)) = ids(pair) {
            let sum = lost.entry((a.clone().min(b.clone()), a.max(b))).or_default();
            *sum = bounded(sum.saturating_add(*amount));
        }
    }
    for pair in &mut file.annoyance {
        let key = (pair.a.clone().min(pair.b.clone()), pair.a.clone().max(pair.b.clone()));
        pair.drag = bounded(pair.drag.saturating_add(lost.remove(&key).unwrap_or(0)));
    }
    file.annoyance.extend(lost.into_iter().filter(|(_, drag)| *drag > 0).map(|((a, b), drag)| Drag {
        a,
        b,
        drag,
    }));
    before
}
