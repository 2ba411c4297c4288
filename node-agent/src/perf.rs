//! CPU counters of actors' pods: perf events by cgroup, for at most 64 pods of the node.
//!
//! The agent opens event groups when pods appear, and reads them when it is scraped. The kernel counts between scrapes.

mod cgroup;
mod layer;
pub mod shared;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

pub use layer::{Group, GroupReading, Kernel, Layer, Set};

use metric_names::agent::{PERF_OPEN_FDS, POD_SCALING, SERIES_DROPPED};

use crate::metrics::{CollectorState, Metrics, Series};

/// The `collector` label for software events.
pub const SOFTWARE: &str = "perf_software";
/// The `collector` label for hardware events; separate, as many machines support only software events.
pub const HARDWARE: &str = "perf_hardware";
/// The maximum number of observed pods.
const MAX_PODS: usize = 64;
/// The reason if there is no pod to count for.
const NO_ACTOR_PODS: &str = "this node has no pod of an actor to count";
/// The reason if pods are observed.
const COUNTING: &str = "counts for pods of actors";
/// The number of consecutive probes after which pods without a cgroup are an error: a starting pod has none yet.
const MAX_PROBES_WITHOUT_CGROUP: u32 = 3;

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
    max_descriptors: usize,
    watched: BTreeMap<Pod, Watched>,
    /// The number of pods that are not observed, because of a limit or an error.
    skipped: usize,
    /// The number of consecutive probes in which no pod had a cgroup at the expected path.
    without_cgroup: u32,
    /// The last error when opening the events of a pod.
    open_error: Option<String>,
    /// Sets without free counters between the last two readings of all groups.
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
    last: Option<(Instant, GroupReading)>,
}

/// The counts of a set since the pod is observed, over all CPUs.
#[derive(Clone, Debug, Default, PartialEq)]
struct Totals {
    counts: Vec<f64>,
    /// The minimum share of an interval in which the set was counted.
    scaling: f64,
}

impl fmt::Debug for Perf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Perf").field("pods", &self.watched.keys()).finish_non_exhaustive()
    }
}

impl Perf {
    /// Observes no pod yet. Detects which sets can be counted on this machine.
    ///
    /// `root` is the cgroup v2 hierarchy that contains the kubelet's folder `kubepods`.
    pub fn new(layer: Box<dyn Layer>, root: &Path, max_descriptors: usize, metrics: &Metrics) -> Self {
        let online = cgroup::online();
        let mut sets = Vec::new();
        for (set, collector) in [(Set::Software, SOFTWARE), (Set::Hardware, HARDWARE)] {
            let (state, message) = match probe(layer.as_ref(), root, &online, set) {
                Ok(()) => {
                    sets.push(set);
                    (CollectorState::Ok, NO_ACTOR_PODS.to_owned())
                }
                Err(problem) => problem,
            };
            metrics.note_collector(collector, state, &message);
        }
        Self {
            layer,
            root: root.to_owned(),
            online,
            sets,
            max_descriptors,
            watched: BTreeMap::new(),
            skipped: 0,
            without_cgroup: 0,
            open_error: None,
            starved: BTreeSet::new(),
        }
    }

    /// The state of each collector that can count on this machine, with its reason.
    pub fn states(&self) -> Vec<(&'static str, (CollectorState, String))> {
        let nothing = |why: String| (CollectorState::Error, format!("counts nothing: {why}"));
        let descriptors =
            format!("{} descriptors, half of the hard limit of open files", self.max_descriptors);
        let state = if !self.watched.is_empty() {
            let message = match self.skipped {
                0 => COUNTING.to_owned(),
                _ => format!("counts for as many pods of actors as allowed: {MAX_PODS}, with {descriptors}"),
            };
            (CollectorState::Ok, message)
        } else if let Some(error) = &self.open_error {
            nothing(format!("cannot open the events of a pod: {error}"))
        } else if self.skipped > 0 {
            nothing(format!("one pod needs more than {descriptors}"))
        } else if self.without_cgroup >= MAX_PROBES_WITHOUT_CGROUP {
            nothing(format!(
                "no pod of an actor has a cgroup below {}: set --cgroup-root to the hierarchy with the kubelet's \
                 folder kubepods",
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
                nothing("other processes use all hardware counters".to_owned())
            }
            state => state.clone(),
        };
        self.sets.iter().map(|set| (collector(set), of(set))).collect()
    }

    /// Observes only these pods. Already observed ones take precedence over new ones.
    pub fn watch(&mut self, pods: &BTreeSet<Pod>) {
        // CPUs can be hot-plugged.
        let online = cgroup::online();
        if !online.is_empty() {
            self.online = online;
        }
        self.watched.retain(|pod, watched| pods.contains(pod) && watched.folder.is_dir());
        (self.skipped, self.open_error) = (0, None);
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
                // The CPU set has changed: open new groups, and keep the totals.
                Some(Watched { totals, .. }) => {
                    self.start(&folder, cpus).map(|new| Watched { totals, ..new })
                }
                None => self.start(&folder, cpus),
            };
            match now {
                Some(watched) => drop(self.watched.insert(pod.clone(), watched)),
                None => self.skipped += 1,
            }
        }
        self.without_cgroup = if found { 0 } else { self.without_cgroup.saturating_add(1) };
    }

    /// Opens the groups of a pod; `None` if a limit is exceeded or the groups cannot be opened.
    fn start(&mut self, folder: &Path, cpus: BTreeSet<usize>) -> Option<Watched> {
        let each: usize = self.sets.iter().map(|set| set.len()).sum();
        if self.watched.len() >= MAX_PODS || self.descriptors() + cpus.len() * each > self.max_descriptors {
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
                // A terminated pod is not an error.
                self.open_error = folder.is_dir().then(|| error.to_string());
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
        // By set: whether a group was enabled without counters between two readings, and whether a group had counters.
        let mut counted: BTreeMap<Set, (bool, bool)> = BTreeMap::new();
        for watched in self.watched.values_mut() {
            for counting in &mut watched.groups {
                // The cgroup was removed. The next probe drops its pod.
                let Ok(reading) = counting.group.read() else { continue };
                let now = Instant::now();
                let before = counting.last.replace((now, reading.clone()));
                let Some((at, before)) = before else { continue };
                let (without, with) = counted.entry(counting.set).or_default();
                *without |= reading.enabled > before.enabled && reading.running == before.running;
                *with |= reading.running > before.running;
                let Some(interval) = between(&before, &reading, now - at) else { continue };
                let totals = watched.totals.entry(counting.set);
                totals.or_insert_with(|| Totals::of(counting.set)).add(&interval);
            }
        }
        for (set, (without, with)) in counted {
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
        series.add_count(&SERIES_DROPPED, &["perf_pods"], self.skipped);
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

/// The counts between two readings, scaled to the whole interval; `None` if unknown.
///
/// The first readings of a group may include minutes before it was opened. Such intervals are longer than the wall
/// clock's.
fn between(before: &GroupReading, now: &GroupReading, wall: Duration) -> Option<Totals> {
    let enabled = now.enabled.checked_sub(before.enabled)?;
    let running = now.running.checked_sub(before.running)?;
    // The two clocks are not read at the same time.
    let max = wall + wall / 50 + Duration::from_millis(1);
    if enabled > max || running > enabled {
        return None;
    }
    let counts = now.counts.iter().zip(&before.counts).map(|(now, before)| now.checked_sub(*before));
    let counts: Vec<_> = counts.collect::<Option<_>>()?;
    if running.is_zero() && !enabled.is_zero() {
        // Other processes used the counters for the whole interval.
        return None;
    }
    let scaling = if enabled.is_zero() { 1.0 } else { running.as_secs_f64() / enabled.as_secs_f64() };
    Some(Totals {
        counts: counts.into_iter().map(|count| count_as_value(count) / scaling).collect(),
        scaling,
    })
}

/// Tests whether a set can be counted on this machine.
fn probe(
    layer: &dyn Layer,
    root: &Path,
    online: &BTreeSet<usize>,
    set: Set,
) -> Result<(), (CollectorState, String)> {
    if !cgroup::is_v2(root) {
        let message = format!(
            "{} is not a cgroup v2 hierarchy, which is required to count by pod: boot the node with cgroup v2, or set \
             --cgroup-root",
            root.display()
        );
        return Err((CollectorState::Absent, message));
    }
    let cpu = online.first().copied().unwrap_or_default();
    let opened = cgroup::open(root).and_then(|root| layer.open(&root, cpu, set));
    opened.map(drop).map_err(|error| open_failure(&error))
}

/// The state and the remedy for an error of `perf_event_open`.
fn open_failure(error: &io::Error) -> (CollectorState, String) {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            let message = format!(
                "the kernel denies perf_event_open ({error}): grant the capability PERFMON, and a seccomp profile that \
                 allows perf_event_open (agent.perf.enabled of the chart does both)"
            );
            (CollectorState::Denied, message)
        }
        io::ErrorKind::NotFound | io::ErrorKind::Unsupported => {
            let message = "this machine has no such counters: virtual machines get them only from their host";
            (CollectorState::Absent, message.to_owned())
        }
        _ => (CollectorState::Error, format!("perf_event_open failed: {error}")),
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of one interval, below 2^53")]
fn count_as_value(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests;
