//! The last windows of an application.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::gamma::AnnoyanceScale;
use crate::measured_before::MeasuredBefore;
use crate::rounding::round_up;
use crate::window::{CollectedWindow, PairCounts};
use crate::work::work;

/// Windows that are kept of an application.
pub const MAX_WINDOWS: usize = 16;

/// One number per kept window.
pub(crate) type Column = [f32; MAX_WINDOWS];

/// An ordered pair of actors: who reports, and its peer.
pub(crate) type PairKey = (Arc<str>, Arc<str>);

/// What turns counters into a snapshot's numbers; windows under another scale are not comparable.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadScale {
    /// Length of a window in seconds.
    pub window_seconds: f64,
    /// Bytes that one message of a snapshot carries.
    pub message_quantum: f64,
    /// The scale of annoyance.
    pub annoyance: AnnoyanceScale,
}

/// Which of the settled windows with data are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowChoice {
    /// The newest ones.
    Newest(usize),
    /// All of them.
    All,
    /// A single one, counted from the newest.
    One(usize),
}

/// The last windows of an application, in at most 64 bytes for each pair beside its names.
#[derive(Clone, Debug)]
pub struct Windows {
    pub(crate) scale: LoadScale,
    names: BTreeSet<Arc<str>>,
    /// The newest first.
    pub(crate) slots: Vec<WindowSlot>,
    /// Messages times the factor of their size, by reporting actor and peer.
    pub(crate) messages: BTreeMap<PairKey, Column>,
    /// Annoyance, where it is above 0.
    pub(crate) annoyance: BTreeMap<PairKey, Column>,
    pub(crate) actors: BTreeMap<Arc<str>, ActorColumns>,
    pub(crate) measured_before: MeasuredBefore,
}

/// A kept window.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "independent properties of a window")]
pub(crate) struct WindowSlot {
    /// Its index in every [`Column`].
    pub column: usize,
    /// When it ended, in seconds of Prometheus' clock.
    pub ended_at: f64,
    pub is_settled: bool,
    pub has_data: bool,
    pub min_scrapes: Option<u64>,
    /// Whether a value was refused: without it, its pair would seem to exchange nothing.
    pub has_bad_value: bool,
    /// Whether counters of a measured group are missing, so that the window is not used.
    pub is_incomplete: bool,
    pub groups: BTreeMap<Arc<str>, GroupReports>,
}

/// Fewest scrapes of each pod in a window: `increase()` extrapolates from fewer to much.
pub const MIN_SCRAPES: u64 = 4;

impl WindowSlot {
    /// Whether its numbers may be used.
    pub fn is_usable(&self) -> bool {
        self.is_sound() && !self.is_incomplete
    }

    /// Whether its numbers may be used if all groups report.
    pub fn is_sound(&self) -> bool {
        self.is_settled && self.has_data && !self.has_bad_value && self.has_scrapes()
    }

    /// Whether each pod that was scraped at all was scraped often enough.
    pub fn has_scrapes(&self) -> bool {
        self.min_scrapes.is_none_or(|scrapes| scrapes >= MIN_SCRAPES)
    }
}

/// How many actors of a group ran in a window, and how many reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupReports {
    pub running: usize,
    /// Any counter of theirs; 0 as long as no actor of the application exposes counters by peer.
    pub reported: usize,
    /// Their work.
    pub worked: usize,
    /// A counter of annoyance.
    pub annoyed: usize,
}

/// What is kept of an actor; bit masks have a bit for each column.
#[derive(Clone, Debug, Default)]
pub(crate) struct ActorColumns {
    pub group: Option<Arc<str>>,
    /// Its kind in each window.
    pub kinds: [Option<Arc<str>>; MAX_WINDOWS],
    /// Microseconds at speed 1.
    pub work: Column,
    /// Microseconds at speed 1 of a message; 0 if not measured.
    pub service: Column,
    /// Messages to actors that are not listed.
    pub other: Column,
    /// Messages that it processed.
    pub processed: Column,
    pub reported: u16,
    pub worked: u16,
    pub has_processed: u16,
    pub saturated: u16,
}

/// A kept window in a few numbers, for people.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowSummary {
    /// When it ended, in seconds of Prometheus' clock.
    pub ended_at: f64,
    /// Whether nothing started, stopped or moved in it, nor in the half window before.
    pub is_settled: bool,
    /// Whether anything was reported.
    pub has_data: bool,
    /// Fewest scrapes of a pod.
    pub min_scrapes: Option<u64>,
    /// Actors that ran and actors that reported.
    pub running: usize,
    /// Actors of which a counter was reported.
    pub reported: usize,
}

/// The part of a mask that belongs to a column.
pub(crate) fn bit(column: usize) -> u16 {
    1 << column
}

impl Windows {
    /// No windows yet.
    pub fn new(scale: LoadScale) -> Self {
        Self {
            scale,
            names: BTreeSet::new(),
            slots: Vec::new(),
            messages: BTreeMap::new(),
            annoyance: BTreeMap::new(),
            actors: BTreeMap::new(),
            measured_before: MeasuredBefore::default(),
        }
    }

    /// The scale of all kept windows.
    pub fn scale(&self) -> &LoadScale {
        &self.scale
    }

    /// Adds a window that ended at this second of Prometheus' clock, and drops the oldest if there are too many.
    ///
    /// A window older than all kept ones is dropped if there is no room; one that ended at the same time is replaced.
    pub fn add(&mut self, ended_at: f64, window: &CollectedWindow, is_settled: bool) {
        self.slots.retain(|slot| slot.ended_at.total_cmp(&ended_at).is_ne());
        if self.slots.len() == MAX_WINDOWS {
            if self.slots.last().is_some_and(|oldest| oldest.ended_at > ended_at) {
                return;
            }
            self.remember(self.slots.len() - 1);
            self.slots.pop();
        }
        let is_free = |column: &usize| self.slots.iter().all(|slot| slot.column != *column);
        let column = (0..MAX_WINDOWS).find(is_free).expect("fewer windows than columns");
        self.clear(column);
        let slot = WindowSlot {
            column,
            ended_at,
            is_settled,
            has_data: window.has_data(),
            min_scrapes: window.min_scrapes,
            has_bad_value: window.has_bad_value,
            is_incomplete: false,
            groups: self.add_actors(column, window),
        };
        self.add_pairs(column, window);
        let at = self.slots.partition_point(|slot| slot.ended_at > ended_at);
        self.slots.insert(at, slot);
        if !is_settled && !window.actors.is_empty() {
            self.measured_before = MeasuredBefore::default();
        }
        self.mark_incomplete();
        self.forget_unused();
    }

    /// Adds a window without data after the newest one, because Prometheus did not answer.
    pub fn add_missing(&mut self) {
        let ended_at = self.slots.first().map_or(0.0, |newest| newest.ended_at + self.scale.window_seconds);
        self.add(ended_at, &CollectedWindow::default(), false);
    }

    /// Whether none of the newest windows is settled and has data.
    pub fn is_stale(&self, windows: usize) -> bool {
        self.slots.len() >= windows && !self.slots.iter().take(windows).any(WindowSlot::is_usable)
    }

    /// The kept windows, the newest first.
    pub fn summaries(&self) -> Vec<WindowSummary> {
        let sum = |slot: &WindowSlot, of: fn(&GroupReports) -> usize| slot.groups.values().map(of).sum();
        let summary = |slot: &WindowSlot| WindowSummary {
            ended_at: slot.ended_at,
            is_settled: slot.is_settled,
            has_data: slot.has_data,
            min_scrapes: slot.min_scrapes,
            running: sum(slot, |reports| reports.running),
            reported: sum(slot, |reports| reports.reported),
        };
        self.slots.iter().map(summary).collect()
    }

    /// How many windows are settled, have the data of all groups, no refused value and enough scrapes; those that a
    /// [`WindowChoice`] chooses from.
    pub fn usable_windows(&self) -> usize {
        self.usable().count()
    }

    /// How many of these began at this second of Prometheus' clock or later.
    pub fn usable_since(&self, seconds: f64) -> usize {
        self.usable().filter(|slot| slot.ended_at - self.scale.window_seconds >= seconds).count()
    }

    /// Forgets all windows before the newest usable ones, of which `kept` are kept.
    pub fn keep_newest(&mut self, kept: usize) {
        let oldest = self.usable().take(kept).last().map(|slot| slot.ended_at);
        let oldest = oldest.unwrap_or(f64::INFINITY);
        let first = self.slots.partition_point(|slot| slot.ended_at >= oldest);
        self.remember(first);
        let gone: Vec<usize> = self.slots.drain(first..).map(|slot| slot.column).collect();
        for column in gone {
            self.clear(column);
        }
        self.forget_unused();
    }

    /// Mean microseconds per message of an actor at speed 1; `None` if not measured.
    pub fn service_microseconds(&self, actor: &str, choice: WindowChoice) -> Option<f64> {
        let columns = self.actors.get(actor)?;
        let slots = self.chosen(choice);
        let measured: Vec<f64> = slots.iter().map(|slot| f64::from(columns.service[slot.column])).collect();
        let measured: Vec<f64> = measured.into_iter().filter(|service| *service > 0.0).collect();
        mean(&measured)
    }

    /// Messages of the application per second: those that its actors processed or, if no actor reports them, sent each other.
    ///
    /// An actor counts with the mean of the windows in which it reports.
    pub fn messages_per_second(&self, choice: WindowChoice) -> f64 {
        let slots = self.chosen(choice);
        let mean = |actor: &ActorColumns| {
            let reported = slots.iter().filter(|slot| actor.has_processed & bit(slot.column) != 0);
            let processed: Vec<f64> = reported.map(|slot| f64::from(actor.processed[slot.column])).collect();
            mean(&processed)
        };
        let processed: Vec<f64> = self.actors.values().filter_map(mean).collect();
        let messages =
            if processed.is_empty() { self.load(choice).total_messages() } else { processed.iter().sum() };
        messages / self.scale.window_seconds
    }

    pub(crate) fn usable(&self) -> impl Iterator<Item = &WindowSlot> {
        self.slots.iter().filter(|slot| slot.is_usable())
    }

    pub(crate) fn chosen(&self, choice: WindowChoice) -> Vec<&WindowSlot> {
        let (from, most) = match choice {
            WindowChoice::Newest(most) => (0, most),
            WindowChoice::All => (0, MAX_WINDOWS),
            WindowChoice::One(at) => (at, 1),
        };
        self.usable().skip(from).take(most).collect()
    }

    /// The shared copy of a name.
    pub(crate) fn name(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.names.get(name) {
            return known.clone();
        }
        let name: Arc<str> = name.into();
        self.names.insert(name.clone());
        name
    }

    fn clear(&mut self, column: usize) {
        for counts in self.messages.values_mut().chain(self.annoyance.values_mut()) {
            counts[column] = 0.0;
        }
        for actor in self.actors.values_mut() {
            (actor.work[column], actor.service[column], actor.other[column]) = (0.0, 0.0, 0.0);
            (actor.kinds[column], actor.processed[column]) = (None, 0.0);
            let masks =
                [&mut actor.reported, &mut actor.worked, &mut actor.has_processed, &mut actor.saturated];
            for mask in masks {
                *mask &= !bit(column);
            }
        }
    }

    /// Whether pairs are measured: an actor of the application exposes counters by peer in this window, or did in an earlier one.
    ///
    /// Runtimes that expose work alone keep the manifest's messages. Actors that never send expose none, and send none.
    fn has_pairs(&self, window: &CollectedWindow) -> bool {
        let had = |slot: &WindowSlot| slot.groups.values().any(|reports| reports.reported > 0);
        window.has_pairs || !self.measured_before.messages.is_empty() || self.slots.iter().any(had)
    }

    fn add_actors(&mut self, column: usize, window: &CollectedWindow) -> BTreeMap<Arc<str>, GroupReports> {
        let mut groups: BTreeMap<Arc<str>, GroupReports> = BTreeMap::new();
        let has_pairs = self.has_pairs(window);
        let works = work(window, self.scale.window_seconds);
        for ((actor, increases), work) in window.actors.iter().zip(&window.increases).zip(works) {
            let (group, kind) = (self.name(&actor.group), self.name(&actor.kind));
            let reports = groups.entry(group.clone()).or_default();
            reports.running += 1;
            let has_reported = increases.has_reported && has_pairs;
            reports.reported += usize::from(has_reported);
            reports.worked += usize::from(work.is_some());
            reports.annoyed += usize::from(increases.has_annoyance);
            let other = self.weighted_messages(&increases.other);
            let name = self.name(&actor.name);
            let columns = self.actors.entry(name).or_default();
            columns.group = Some(group);
            columns.kinds[column] = Some(kind);
            if has_reported {
                columns.reported |= bit(column);
                columns.other[column] = other;
            }
            if let Some(processed) = increases.processed {
                columns.has_processed |= bit(column);
                columns.processed[column] = single(processed);
            }
            if let Some(work) = work {
                columns.worked |= bit(column);
                columns.work[column] = single(work.microseconds);
                columns.service[column] = single(work.service.unwrap_or_default());
                columns.saturated |= if work.is_saturated { bit(column) } else { 0 };
            }
        }
        groups
    }

    fn add_pairs(&mut self, column: usize, window: &CollectedWindow) {
        for ((actor, peer), counts) in &window.pairs {
            let messages = self.weighted_messages(counts);
            let annoyance = self.scale.annoyance.annoyance(counts);
            #[expect(clippy::cast_precision_loss, reason = "kept with 24 bits")]
            let annoyance = *annoyance.numer() as f64 / *annoyance.denom() as f64;
            let key = (self.name(&window.actors[*actor].name), self.name(&window.actors[*peer].name));
            if messages > 0.0 {
                self.messages.entry(key.clone()).or_default()[column] = messages;
            }
            if annoyance > 0.0 {
                self.annoyance.entry(key).or_default()[column] = single(annoyance);
            }
        }
    }

    /// Messages × max(1, ⌈mean bytes / message quantum⌉).
    fn weighted_messages(&self, counts: &PairCounts) -> f32 {
        if counts.messages <= 0.0 {
            return 0.0;
        }
        let quanta = round_up(counts.bytes / counts.messages / self.scale.message_quantum).max(1);
        #[expect(clippy::cast_precision_loss, reason = "kept with 24 bits")]
        let weighted = counts.messages * quanta as f64;
        single(weighted)
    }

    /// Drops pairs and actors without a number in any window, and names that nothing uses.
    fn forget_unused(&mut self) {
        let has_any = |_: &PairKey, column: &mut Column| column.iter().any(|count| *count > 0.0);
        self.messages.retain(has_any);
        self.annoyance.retain(has_any);
        self.actors.retain(|_, actor| actor.kinds.iter().any(Option::is_some));
        self.names.retain(|name| Arc::strong_count(name) > 1);
    }
}

/// Mean of numbers of at most 16 windows; `None` without any.
fn mean(numbers: &[f64]) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "at most 16 windows")]
    let count = numbers.len() as f64;
    (!numbers.is_empty()).then(|| numbers.iter().sum::<f64>() / count)
}

/// The number with 24 bits.
fn single(number: f64) -> f32 {
    #[expect(clippy::cast_possible_truncation, reason = "windows are kept in single precision")]
    let single = number as f32;
    single
}
