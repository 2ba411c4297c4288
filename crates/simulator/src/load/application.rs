//! The windows of a simulated application, collected as the operator collects them.

use std::collections::BTreeMap;
use std::sync::Arc;

use counters::{
    AnnoyanceScale, Collector, CounterSeries, GroupProfile, KindProfile, LoadScale, Roster,
    RosterApplication, RunningActor, Sample, SampleRefusal, WindowChoice, Windows,
};
use placement::{Snapshot, SnapshotError};

use super::world::{ACTORS, APPLICATION, KIND, LoadWorld, WINDOW_SECONDS, WindowTraffic, name};

/// Scrapes of a pod in a window: one in five seconds.
const SCRAPES: f64 = 6.0;
/// Microseconds of a message in the manifest.
const SERVICE_MICROSECONDS: f64 = 1000.0;

/// A simulated application and its last windows.
#[derive(Clone, Debug)]
pub struct MeasuredApplication {
    /// The last windows.
    pub windows: Windows,
    roster: Arc<Roster>,
    profiles: BTreeMap<String, GroupProfile>,
    /// Names of pods, and labels `peer`, by actor.
    names: Vec<[String; 3]>,
    ended_at: f64,
}

impl MeasuredApplication {
    /// An application without windows.
    pub fn new() -> Self {
        let actor = |at: usize| RunningActor {
            name: name(at),
            group: "a".to_owned(),
            pod: format!("pod-{at}"),
            kind: KIND.to_owned(),
            speed: 1.0,
            service_microseconds: SERVICE_MICROSECONDS,
        };
        let (namespace, application) = APPLICATION;
        let roster = Roster::new(vec![RosterApplication {
            namespace: namespace.to_owned(),
            name: application.to_owned(),
            actors: (0..ACTORS).map(actor).collect(),
        }]);
        let kind = KindProfile { service_microseconds: SERVICE_MICROSECONDS, ..KindProfile::default() };
        let profile = GroupProfile {
            actors: (0..ACTORS).map(name).collect(),
            receivers: vec!["a".to_owned()],
            kinds: BTreeMap::from([(KIND.to_owned(), kind)]),
        };
        let names =
            |at: usize| [name(at), format!("pod-{at}"), format!("{namespace}/{application}/{}", name(at))];
        let scale = LoadScale {
            window_seconds: WINDOW_SECONDS,
            message_quantum: 1000.0,
            annoyance: AnnoyanceScale::default(),
        };
        Self {
            windows: Windows::new(scale),
            roster: Arc::new(roster),
            profiles: BTreeMap::from([("a".to_owned(), profile)]),
            names: (0..ACTORS).map(names).collect(),
            ended_at: 0.0,
        }
    }

    /// Adds a settled window with this traffic.
    pub fn add(&mut self, traffic: &WindowTraffic) {
        self.add_corrupted(traffic, |_, _| ());
    }

    /// The same after `corrupt` changed the samples of each series; returns how many samples were refused.
    pub fn add_corrupted(
        &mut self,
        traffic: &WindowTraffic,
        corrupt: impl for<'s> Fn(CounterSeries, &mut Vec<Sample<'s>>),
    ) -> BTreeMap<SampleRefusal, u64> {
        let sample = |actor: usize, peer: Option<usize>, value: f64| Sample {
            namespace: APPLICATION.0,
            pod: &self.names[actor][1],
            actor: &self.names[actor][0],
            peer: peer.map_or("", |peer| &self.names[peer][2]),
            value,
        };
        let of_pods = |value: fn(&WindowTraffic, usize) -> f64| {
            (0..ACTORS).map(move |actor| sample(actor, None, value(traffic, actor)))
        };
        let mut collector = Collector::new(self.roster.clone());
        let pairs = traffic.pairs().map(|(from, to, count)| sample(from, Some(to), count));
        for (series, mut samples) in [
            (CounterSeries::Messages, pairs.collect()),
            (CounterSeries::Processed, of_pods(|_, _| 1.0).collect()),
            (CounterSeries::Busy, of_pods(|traffic, actor| traffic.work[actor]).collect::<Vec<Sample>>()),
            (CounterSeries::Scrapes, of_pods(|_, _| SCRAPES).collect()),
        ] {
            corrupt(series, &mut samples);
            collector.add(series, samples);
        }
        let collected = collector.finish();
        self.ended_at += WINDOW_SECONDS;
        self.windows.add(self.ended_at, &collected.windows[0], true);
        collected.refused
    }

    /// The snapshot with the numbers of these windows.
    ///
    /// # Errors
    /// The numbers exceed the range of a snapshot.
    pub fn snapshot(
        &self,
        world: &LoadWorld,
        choice: WindowChoice,
        current: &[Option<usize>],
    ) -> Result<Snapshot, SnapshotError> {
        let measured = self.windows.measure(&self.profiles, choice);
        let pairs = measured.pairs.iter().map(|((from, to), count)| (&**from, &**to, *count));
        let work = |name: &str| measured.work.get(name).and_then(|of| of.get(KIND)).copied().unwrap_or(0);
        world.snapshot(pairs, work, current)
    }
}

impl Default for MeasuredApplication {
    fn default() -> Self {
        Self::new()
    }
}
