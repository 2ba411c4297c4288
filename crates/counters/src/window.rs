//! The checked counts of one application in one window.

use std::collections::{BTreeMap, BTreeSet};

use crate::roster::RunningActor;
use crate::series::CounterSeries;

/// Increases of a pair's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PairCounts {
    /// Messages sent by the actor to the peer.
    pub messages: f64,
    /// Their bytes.
    pub bytes: f64,
    /// Rollbacks of the actor because of the peer.
    pub rollbacks: f64,
    /// Null messages sent by the actor to the peer.
    pub null_messages: f64,
    /// Seconds for which the actor waited for the peer.
    pub idle_seconds: f64,
}

impl PairCounts {
    /// The count of a series of pairs.
    pub(crate) fn of(&mut self, series: CounterSeries) -> &mut f64 {
        match series {
            CounterSeries::Bytes => &mut self.bytes,
            CounterSeries::Rollbacks => &mut self.rollbacks,
            CounterSeries::NullMessages => &mut self.null_messages,
            CounterSeries::Idle => &mut self.idle_seconds,
            _ => &mut self.messages,
        }
    }
}

/// Increases of an actor's counters; absent ones were not reported.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ActorIncreases {
    /// Whether any counter of the actor was reported.
    pub has_reported: bool,
    /// Whether a counter of annoyance was reported.
    pub has_annoyance: bool,
    pub processed: Option<f64>,
    pub busy_seconds: Option<f64>,
    pub mailbox_growth: Option<f64>,
    pub undone: Option<f64>,
    pub progress: Option<f64>,
    /// CPU seconds of its pod, if the pod has no other actor.
    pub cpu_seconds: Option<f64>,
    /// Sum of the pairs that are not listed.
    pub other: PairCounts,
}

/// The checked counts of one application in one window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CollectedWindow {
    /// The actors that ran.
    pub(crate) actors: Vec<RunningActor>,
    /// Their counts.
    pub(crate) increases: Vec<ActorIncreases>,
    /// Counts by positions of the reporting actor and its peer.
    pub(crate) pairs: BTreeMap<(usize, usize), PairCounts>,
    /// Fewest successful scrapes of a pod that was scraped in the window; absent if none was.
    pub(crate) min_scrapes: Option<u64>,
    /// Whether a value of one of its pods was refused.
    pub(crate) has_bad_value: bool,
    /// Whether any of its actors exposes counters by peer, be they 0 in the window.
    pub(crate) has_pairs: bool,
}

impl CollectedWindow {
    /// Whether anything was reported.
    pub fn has_data(&self) -> bool {
        self.increases.iter().any(|it| it.has_reported || it.cpu_seconds.is_some())
    }

    /// Short names of the running actors without any report.
    pub fn without_reports(&self) -> BTreeSet<&str> {
        let all = self.actors.iter().zip(&self.increases);
        all.filter(|(_, increases)| !increases.has_reported).map(|(actor, _)| actor.name.as_str()).collect()
    }

    /// Counts of an ordered pair, by short names.
    pub fn pair(&self, actor: &str, peer: &str) -> Option<PairCounts> {
        let position = |name: &str| self.actors.iter().position(|actor| actor.name == name);
        self.pairs.get(&(position(actor)?, position(peer)?)).copied()
    }

    /// Fewest successful scrapes of a pod that was scraped; absent if none was.
    pub fn min_scrapes(&self) -> Option<u64> {
        self.min_scrapes
    }
}
