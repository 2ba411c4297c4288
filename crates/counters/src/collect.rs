//! Joins samples to running actors, and checks them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::roster::{PodEntry, Roster, RosterApplication};
use crate::rounding::round;
use crate::sample::{OTHER, Sample, SampleRefusal};
use crate::series::CounterSeries;
use crate::window::{ActorIncreases, CollectedWindow};

/// Pairs of one pod that are kept: those with the most messages.
pub const MAX_PAIRS_OF_POD: usize = 8192;

/// Collects the samples of one window.
#[derive(Debug)]
pub struct Collector {
    roster: Arc<Roster>,
    collected: Collected,
    /// Pods with more pairs than are kept.
    full: BTreeSet<PodKey>,
}

/// The windows of all applications, in the order of the roster, and how many samples were refused.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Collected {
    /// By position in the roster.
    pub windows: Vec<CollectedWindow>,
    /// Refused samples by reason.
    pub refused: BTreeMap<SampleRefusal, u64>,
}

/// What a label `peer` names.
enum Peer {
    Actor(usize),
    /// Pairs that are not listed.
    Other,
    /// Another application, or an actor that does not run: no edge.
    Elsewhere,
}

impl Collector {
    /// A collector for these running actors.
    pub fn new(roster: Arc<Roster>) -> Self {
        let window = |application: &RosterApplication| CollectedWindow {
            actors: application.actors.clone(),
            increases: vec![ActorIncreases::default(); application.actors.len()],
            ..CollectedWindow::default()
        };
        let windows = roster.applications.iter().map(window).collect();
        let collected = Collected { windows, refused: BTreeMap::new() };
        Self { roster, collected, full: BTreeSet::new() }
    }

    /// Adds the samples of a series; [`CounterSeries::Messages`] must be the first series.
    pub fn add<'s>(&mut self, series: CounterSeries, samples: impl IntoIterator<Item = Sample<'s>>) {
        let mut of_pods: BTreeMap<PodKey, Vec<PairSample>> = BTreeMap::new();
        for sample in samples {
            if let Err(refusal) = self.add_one(series, &sample, &mut of_pods) {
                self.refuse(refusal, 1);
                let pod = self.roster.pod(sample.namespace, sample.pod);
                if let Some(pod) = pod.filter(|_| refusal == SampleRefusal::Value) {
                    self.collected.windows[pod.application].has_bad_value = true;
                }
            }
        }
        for (pod, samples) in of_pods {
            self.add_pairs(series, pod, samples);
        }
    }

    /// The windows and the refusals.
    pub fn finish(self) -> Collected {
        self.collected
    }

    fn refuse(&mut self, refusal: SampleRefusal, count: u64) {
        *self.collected.refused.entry(refusal).or_default() += count;
    }

    fn add_one(
        &mut self,
        series: CounterSeries,
        sample: &Sample,
        of_pods: &mut BTreeMap<PodKey, Vec<PairSample>>,
    ) -> Result<(), SampleRefusal> {
        let roster = self.roster.clone();
        let Some(pod) = roster.pod(sample.namespace, sample.pod) else {
            // Every pod of the cluster has CPU seconds.
            return if series == CounterSeries::Cpu { Ok(()) } else { Err(SampleRefusal::UnknownPod) };
        };
        if series.metric().is_none() {
            self.add_of_pod(series, pod, sample.checked()?);
            return Ok(());
        }
        let at = roster.actor(pod.application, sample.actor).filter(|at| pod.actors.contains(at));
        let at = at.ok_or(SampleRefusal::Actor)?;
        let value = sample.checked()?;
        if series.is_of_pairs() {
            let peer = self.peer(pod, sample.peer)?;
            let key = (pod.application, pod.actors[0]);
            of_pods.entry(key).or_default().push(PairSample { actor: at, peer, value });
            return Ok(());
        }
        let increases = &mut self.collected.windows[pod.application].increases[at];
        increases.has_reported = true;
        let field = match series {
            CounterSeries::Processed => &mut increases.processed,
            CounterSeries::Busy => &mut increases.busy_seconds,
            CounterSeries::Mailbox => &mut increases.mailbox_growth,
            CounterSeries::Undone => &mut increases.undone,
            _ => &mut increases.progress,
        };
        *field = Some(value);
        Ok(())
    }

    /// A series of whole pods.
    fn add_of_pod(&mut self, series: CounterSeries, pod: &PodEntry, value: f64) {
        let window = &mut self.collected.windows[pod.application];
        if series == CounterSeries::Scrapes {
            let scrapes = round(value);
            // A pod without a successful scrape reports nothing, which the coverage of its group shows.
            if scrapes > 0 {
                window.min_scrapes = Some(window.min_scrapes.map_or(scrapes, |least| least.min(scrapes)));
            }
        } else if let [only] = pod.actors[..] {
            window.increases[only].cpu_seconds = Some(value);
        }
    }

    fn peer(&self, pod: &PodEntry, text: &str) -> Result<Peer, SampleRefusal> {
        if text == OTHER {
            return Ok(Peer::Other);
        }
        let own = &self.roster.applications[pod.application];
        let mut parts = text.split('/');
        let (namespace, application, actor) = (parts.next(), parts.next(), parts.next());
        let (Some(namespace), Some(application), Some(actor), None) =
            (namespace, application, actor, parts.next())
        else {
            return Err(SampleRefusal::Peer);
        };
        if namespace != own.namespace || application.is_empty() || actor.is_empty() {
            return Err(SampleRefusal::Peer);
        }
        let found = (application == own.name).then(|| self.roster.actor(pod.application, actor)).flatten();
        Ok(found.map_or(Peer::Elsewhere, Peer::Actor))
    }

    /// Adds the pairs of a pod: the heaviest, and the rest to `_other`.
    fn add_pairs(&mut self, series: CounterSeries, pod: PodKey, mut samples: Vec<PairSample>) {
        let window = &mut self.collected.windows[pod.0];
        let of_messages = series == CounterSeries::Messages;
        window.has_pairs |= !samples.is_empty();
        if of_messages && samples.len() > MAX_PAIRS_OF_POD {
            // Stable: equal values stay in the order of the answer.
            samples.sort_by(|a, b| b.value.total_cmp(&a.value));
        }
        let (mut listed, mut refused) = (0, 0);
        for sample in samples {
            let increases = &mut window.increases[sample.actor];
            increases.has_reported = true;
            increases.has_annoyance |= !matches!(series, CounterSeries::Messages | CounterSeries::Bytes);
            let key = match sample.peer {
                Peer::Actor(peer) => Some((sample.actor, peer)),
                Peer::Elsewhere => None,
                Peer::Other => {
                    *increases.other.of(series) += sample.value;
                    continue;
                }
            };
            listed += 1;
            let is_cut = if of_messages {
                listed > MAX_PAIRS_OF_POD
            } else {
                self.full.contains(&pod) && key.is_none_or(|key| !window.pairs.contains_key(&key))
            };
            refused += u64::from(is_cut);
            match key {
                Some((actor, peer)) if actor == peer => {}
                Some(_) if is_cut => *increases.other.of(series) += sample.value,
                Some(key) => *window.pairs.entry(key).or_default().of(series) += sample.value,
                None => {}
            }
        }
        if refused > 0 {
            self.full.insert(pod);
            self.refuse(SampleRefusal::Pairs, refused);
        }
    }
}

/// Position of the application, and of the pod's first actor.
type PodKey = (usize, usize);

/// A checked sample of a pair.
struct PairSample {
    actor: usize,
    peer: Peer,
    value: f64,
}
