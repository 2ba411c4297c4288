//! CPU counters of actors' pods: perf events by cgroup, for at most 64 pods of the node.
//!
//! At context switches only the kernel's own code runs; the agent opens event groups when pods appear, and reads them when
//! it is scraped.

mod cgroup;
mod layer;
pub mod shared;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

pub use layer::{Group, Kernel, Layer, Reading, Set};

use metric_names::agent::{PERF_OPEN_FDS, POD_SCALING, SERIES_DROPPED};

use crate::metrics::{CollectorState, Metrics, Series};

/// The `collector` labels.
pub const SOFTWARE: &str = "perf_software";
/// Separate, as many machines support only one of them.
pub const HARDWARE: &str = "perf_hardware";
/// The maximum number of observed pods.
const PODS: usize = 64;
/// The reason if nothing is counted because there is no pod.
const NO_ACTOR_PODS: &str = "this node has no pod of an actor to count";
/// The reason if something is counted.
const COUNTS: &str = "counts for pods of actors";
/// The number of consecutive probes in which pods may lack a cgroup: a starting pod has none for a moment.
const PATIENCE: u32 = 3;

/// A pod that may be observed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid, which identifies its cgroup.
    pub uid: String,
}

/// The observed pods, and their counters so far.
pub struct Perf {
    layer: Box<dyn Layer>,
    root: PathBuf,
    online: BTreeSet<usize>,
    sets: Vec<Set>,
    most_descriptors: usize,
    watched: BTreeMap<Pod, Watched>,
    /// The number of pods that are not observed, for lack of capacity.
    left_out: usize,
    /// The number of consecutive probes with pods of which none had a cgroup at the expected path.
    without_cgroup: u32,
    /// Why a pod's events could not be opened at the last attempt.
    refused: Option<String>,
    /// Sets of which no group had hardware counters between the last two readings.
    starved: BTreeSet<Set>,
}

/// One pod.
struct Watched {
    folder: PathBuf,
    cpus: BTreeSet<usize>,
    groups: Vec<Counting>,
    totals: BTreeMap<Set, Totals>,
}

/// An event group, and its last reading.
struct Counting {
    set: Set,
    group: Box<dyn Group>,
    last: Option<(Instant, Reading)>,
}

/// The counts of a set since the pod is observed, over all CPUs.
#[derive(Clone, Debug, Default, PartialEq)]
struct Totals {
    counts: Vec<f64>,
    /// The smallest share of an interval in which it was actually counted.
    scaling: f64,
}

impl fmt::Debug for Perf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Perf").field("pods", &self.watched.keys()).finish_non_exhaustive()
    }
}

impl Perf {
    /// Observes no pod yet; detects what can be counted here, and why the rest cannot.
    ///
    /// `root` is the cgroup v2 hierarchy that contains the kubelet's folder `kubepods`.
    pub fn new(layer: Box<dyn Layer>, root: &Path, most_descriptors: usize, metrics: &Metrics) -> Self {
        let online = cgroup::online();
        let mut sets = Vec::new();
        for (set, collector) in [(Set::Software, SOFTWARE), (Set::Hardware, HARDWARE)] {
            let (state, words) = match probe(layer.as_ref(), root, &online, set) {
                Ok(()) => {
                    sets.push(set);
                    (CollectorState::Ok, NO_ACTOR_PODS.to_owned())
                }
                Err(problem) => problem,
            };
            metrics.note_collector(collector, state, &words);
        }
        Self {
            layer,
            root: root.to_owned(),
            online,
            sets,
            most_descriptors,
            watched: BTreeMap::new(),
            left_out: 0,
            without_cgroup: 0,
            refused: None,
            starved: BTreeSet::new(),
        }
    }

    /// The state of each collector that can count here, with its reason.
    pub fn states(&self) -> Vec<(&'static str, (CollectorState, String))> {
        let nothing = |why: String| (CollectorState::Error, format!("counts nothing: {why}"));
        let descriptors =
            format!("{} descriptors, half of the hard limit of open files", self.most_descriptors);
        let state = if !self.watched.is_empty() {
            let words = match self.left_out {
                0 => COUNTS.to_owned(),
                _ => format!("counts for as many pods of actors as it may: {PODS}, with {descriptors}"),
            };
            (CollectorState::Ok, words)
        } else if let Some(error) = &self.refused {
            nothing(format!("the kernel opens no events for a pod: {error}"))
        } else if self.left_out > 0 {
            nothing(format!("one pod needs more than {descriptors}"))
        } else if self.without_cgroup >= PATIENCE {
            nothing(format!(
                "no pod of an actor has a cgroup below {}: name the hierarchy in which the kubelet's folder kubepods \
                 lies with --cgroup-root",
                self.root.display()
            ))
        } else {
            (CollectorState::Ok, NO_ACTOR_PODS.to_owned())
        };
        let collector = |set: &Set| match set {
            Set::Software => SOFTWARE,
            Set::Hardware => HARDWARE,
        };
        let of = |set: &Set| match &state {
            (CollectorState::Ok, _) if !self.watched.is_empty() && self.starved.contains(set) => {
                nothing("something else holds the processor's counters all the time".to_owned())
            }
            state => state.clone(),
        };
        self.sets.iter().map(|set| (collector(set), of(set))).collect()
    }

    /// Observes these pods and no others; observed ones have precedence over new ones.
    pub fn watch(&mut self, pods: &BTreeSet<Pod>) {
        // CPUs can be hot-plugged.
        let online = cgroup::online();
        if !online.is_empty() {
            self.online = online;
        }
        self.watched.retain(|pod, watched| pods.contains(pod) && watched.folder.is_dir());
        (self.left_out, self.refused) = (0, None);
        if self.sets.is_empty() {
            return;
        }
        let mut found = pods.is_empty();
        for pod in pods {
            let Some(folder) = cgroup::of_pod(&self.root, &pod.uid) else { continue };
            found = true;
            let cpus = cgroup::cpus(&folder).unwrap_or_else(|| self.online.clone());
            let cpus: BTreeSet<_> = cpus.intersection(&self.online).copied().collect();
            let before = self.watched.remove(pod);
            let now = match before {
                Some(before) if before.cpus == cpus => Some(before),
                // Its CPU set changed; its counters continue.
                Some(Watched { totals, .. }) => {
                    self.start(&folder, cpus).map(|new| Watched { totals, ..new })
                }
                None => self.start(&folder, cpus),
            };
            match now {
                Some(watched) => drop(self.watched.insert(pod.clone(), watched)),
                None => self.left_out += 1,
            }
        }
        self.without_cgroup = if found { 0 } else { self.without_cgroup.saturating_add(1) };
    }

    /// Opens the groups of a pod; `None` if there is no capacity, or the pod is gone.
    fn start(&mut self, folder: &Path, cpus: BTreeSet<usize>) -> Option<Watched> {
        let each: usize = self.sets.iter().map(|set| set.len()).sum();
        if self.watched.len() >= PODS || self.descriptors() + cpus.len() * each > self.most_descriptors {
            return None;
        }
        let file = cgroup::open(folder).ok()?;
        let open = |cpu: usize, set: Set| {
            let group = self.layer.open(&file, cpu, set)?;
            Ok::<_, io::Error>(Counting { set, group, last: None })
        };
        let groups = cpus.iter().flat_map(|&cpu| self.sets.iter().map(move |&set| open(cpu, set)));
        let groups = match groups.collect::<io::Result<_>>() {
            Ok(groups) => groups,
            Err(error) => {
                // a pod that is gone is not an error
                self.refused = folder.is_dir().then(|| error.to_string());
                return None;
            }
        };
        Some(Watched { folder: folder.to_owned(), cpus, groups, totals: BTreeMap::new() })
    }

    /// The number of open descriptors.
    fn descriptors(&self) -> usize {
        self.watched.values().flat_map(|watched| &watched.groups).map(|counting| counting.set.len()).sum()
    }

    /// Reads all groups.
    pub fn read(&mut self) {
        // By set: whether some group was scheduled without counters between two readings, and whether some group had them.
        let mut had: BTreeMap<Set, (bool, bool)> = BTreeMap::new();
        for watched in self.watched.values_mut() {
            for counting in &mut watched.groups {
                // The cgroup is gone; its pod is dropped at the next probe.
                let Ok(reading) = counting.group.read() else { continue };
                let now = Instant::now();
                let before = counting.last.replace((now, reading.clone()));
                let Some((at, before)) = before else { continue };
                let (without, with) = had.entry(counting.set).or_default();
                *without |= reading.enabled > before.enabled && reading.running == before.running;
                *with |= reading.running > before.running;
                let Some(interval) = between(&before, &reading, now - at) else { continue };
                let totals = watched.totals.entry(counting.set);
                totals.or_insert_with(|| Totals::of(counting.set)).add(&interval);
            }
        }
        for (set, (without, with)) in had {
            if with {
                self.starved.remove(&set);
            } else if without {
                self.starved.insert(set);
            }
        }
    }

    /// The series of all pods, on `node`.
    pub fn add(&mut self, series: &mut Series, node: &str) {
        for (pod, watched) in &mut self.watched {
            let labels = [node, &pod.namespace, &pod.name];
            for (set, totals) in &mut watched.totals {
                for ((name, scale), count) in set.series().iter().zip(&totals.counts) {
                    series.add(name, &labels, count / scale);
                }
                if *set == Set::Hardware {
                    series.add(&POD_SCALING, &labels, totals.scaling);
                    totals.scaling = 1.0; // of the interval up to the next scrape
                }
            }
        }
        series.add_count(&PERF_OPEN_FDS, &[], self.descriptors());
        series.add_count(&SERIES_DROPPED, &["perf_pods"], self.left_out);
    }
}

impl Totals {
    fn of(set: Set) -> Self {
        Self { counts: vec![0.0; set.len()], scaling: 1.0 }
    }

    fn add(&mut self, interval: &Self) {
        self.scaling = self.scaling.min(interval.scaling);
        for (total, count) in self.counts.iter_mut().zip(&interval.counts) {
            *total += count;
        }
    }
}

/// The count between two readings, scaled to the whole interval; `None` if unknown.
///
/// The first readings of a group may claim to have been enabled for minutes before it was opened. An interval that
/// was longer by the kernel's clock than by ours is such a one.
fn between(before: &Reading, now: &Reading, wall: Duration) -> Option<Totals> {
    let enabled = now.enabled.checked_sub(before.enabled)?;
    let running = now.running.checked_sub(before.running)?;
    // the two clocks are read one after the other
    let longest = wall + wall / 50 + Duration::from_millis(1);
    if enabled > longest || running > enabled {
        return None;
    }
    let counts = now.counts.iter().zip(&before.counts).map(|(now, before)| now.checked_sub(*before));
    let counts: Vec<_> = counts.collect::<Option<_>>()?;
    if running.is_zero() && !enabled.is_zero() {
        // another process had the counters all the time
        return None;
    }
    let scaling = if enabled.is_zero() { 1.0 } else { running.as_secs_f64() / enabled.as_secs_f64() };
    Some(Totals {
        counts: counts.into_iter().map(|count| count_as_value(count) / scaling).collect(),
        scaling,
    })
}

/// Tries whether a set can be counted here at all.
fn probe(
    layer: &dyn Layer,
    root: &Path,
    online: &BTreeSet<usize>,
    set: Set,
) -> Result<(), (CollectorState, String)> {
    if !cgroup::is_v2(root) {
        let words = format!(
            "{} is not a cgroup v2 hierarchy, which is needed to distinguish pods: start the node with \
             cgroup v2, or name the hierarchy with --cgroup-root",
            root.display()
        );
        return Err((CollectorState::Absent, words));
    }
    let cpu = online.first().copied().unwrap_or_default();
    let opened = cgroup::open(root).and_then(|root| layer.open(&root, cpu, set));
    opened.map(drop).map_err(|error| why_not(&error))
}

/// Why the kernel does not count, and what to do.
fn why_not(error: &io::Error) -> (CollectorState, String) {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            let words = format!(
                "the kernel does not let the agent count ({error}): give it the capability PERFMON, and a seccomp \
                 profile that lets perf_event_open through (agent.perf.enabled of the chart does both)"
            );
            (CollectorState::Denied, words)
        }
        io::ErrorKind::NotFound | io::ErrorKind::Unsupported => {
            let words = "this machine has no counters for it: virtual machines get them from their host only";
            (CollectorState::Absent, words.to_owned())
        }
        _ => (CollectorState::Error, format!("perf_event_open failed: {error}")),
    }
}

#[expect(clippy::cast_precision_loss, reason = "of one interval: exact for months")]
fn count_as_value(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests;
