//! From samples to numbers, with values computed by hand.

#![expect(clippy::unwrap_used, clippy::cast_precision_loss, reason = "tests with small numbers")]

mod bad_facts;
mod change;
mod large;
mod missing_reports;
mod numbers;
mod properties;
mod queries;

use std::collections::BTreeMap;
use std::sync::Arc;

use counters::{
    AnnoyanceScale, Collected, Collector, CounterSeries, GroupProfile, KindProfile, LoadScale, Roster,
    RosterApplication, RunningActor, Sample, Windows,
};

/// A sample: series, pod, peer and value; the actor is that of the pod.
pub type Line<'a> = (CounterSeries, &'a str, &'a str, f64);

/// A scale of windows of 10 s and messages of 1,000 bytes.
pub fn scale() -> LoadScale {
    LoadScale { window_seconds: 10.0, message_quantum: 1000.0, annoyance: AnnoyanceScale::default() }
}

/// Running actors of the application `shop/web`: each on a CPU of speed 1, in a pod `web-<actor>`.
pub fn roster(actors: &[&str]) -> Arc<Roster> {
    Arc::new(Roster::new(vec![application(actors)]))
}

/// The application `shop/web` of [`roster`].
pub fn application(actors: &[&str]) -> RosterApplication {
    let actors = actors.iter().map(|name| running(name, "cpu", 1.0)).collect();
    RosterApplication { namespace: "shop".to_owned(), name: "web".to_owned(), actors }
}

/// An actor whose group is its name up to the first `-`; 1 ms per message in the manifest.
pub fn running(name: &str, kind: &str, speed: f64) -> RunningActor {
    RunningActor {
        name: name.to_owned(),
        group: group(name).to_owned(),
        pod: format!("web-{name}"),
        kind: kind.to_owned(),
        speed,
        service_microseconds: 1000.0,
    }
}

fn group(actor: &str) -> &str {
    actor.split_once('-').unwrap().0
}

/// Collects samples; peers are short names of actors of the application, or as written if they contain `/` or `_`.
pub fn collect(roster: &Arc<Roster>, lines: &[Line]) -> Collected {
    let mut collector = Collector::new(roster.clone());
    let peers: Vec<String> = lines.iter().map(|(_, _, peer, _)| full(peer)).collect();
    for series in counters::ALL_SERIES {
        let of_series = lines.iter().zip(&peers).filter(|((of, ..), _)| *of == series);
        let samples =
            of_series.map(|((_, actor, _, value), peer)| (format!("web-{actor}"), *actor, peer, *value));
        let samples: Vec<_> = samples.collect();
        collector.add(
            series,
            samples.iter().map(|(pod, actor, peer, value)| Sample {
                namespace: "shop",
                pod,
                actor,
                peer,
                value: *value,
            }),
        );
    }
    collector.finish()
}

fn full(peer: &str) -> String {
    if peer.is_empty() || peer.contains(['/', '_']) { peer.to_owned() } else { format!("shop/web/{peer}") }
}

/// Settled windows of these samples, the oldest first.
pub fn windows(roster: &Arc<Roster>, of: &[Vec<Line>]) -> Windows {
    let mut windows = Windows::new(scale());
    for (at, lines) in of.iter().enumerate() {
        let collected = collect(roster, lines);
        windows.add(10.0 * f64::from(u32::try_from(at).unwrap()), &collected.windows[0], true);
    }
    windows
}

/// Profiles of groups with these actors, each with channels to these groups; 2 ms of work per window, 1 ms per message.
pub fn profiles(groups: &[(&str, usize, &[&str])]) -> BTreeMap<String, GroupProfile> {
    let of_group = |(name, actors, receivers): &(&str, usize, &[&str])| {
        let kind =
            KindProfile { work_microseconds: 2000.0, service_microseconds: 1000.0, ..KindProfile::default() };
        let profile = GroupProfile {
            actors: (0..*actors).map(|at| format!("{name}-{at}")).collect(),
            receivers: receivers.iter().map(|name| (*name).to_owned()).collect(),
            kinds: BTreeMap::from([("cpu".to_owned(), kind)]),
        };
        ((*name).to_owned(), profile)
    };
    groups.iter().map(of_group).collect()
}
