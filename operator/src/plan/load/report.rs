//! What measured load would change, as it is reported.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use control::{GateRule, GateVerdict, Moment};
use counters::{MIN_SCRAPES, Windows};
use crds::{ActorApplicationStatus, CounterCoverage, MoveOutcome, labels};
use world::ApplicationKey;

use crate::commit::elective::percent;
use crate::status::report::{Finding, listed};

/// Windows without settled data after which counters count as unavailable.
pub const STALE_WINDOWS: usize = 4;
/// A number is reported once it was the same in this many windows.
const HELD_WINDOWS: u32 = 4;
/// A message about a search is kept for so long, unless the reason changes: it has numbers, which differ in each search.
const MESSAGE_INTERVAL: Duration = Duration::from_mins(10);
/// Most moves in a message.
const LISTED_MOVES: usize = 8;

/// A move that would pay.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProposedMove {
    pub actor: String,
    pub from: String,
    pub to: String,
    /// What the plan loses without it, in percent of the scale of the level.
    pub gain_percent: i64,
}

/// What the last plan for measured load says.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum LoadVerdict {
    /// There is none yet.
    #[default]
    None,
    /// Another placement is not noticeably better; actors of these groups move only when they must.
    NoGain { stays_put: BTreeSet<String> },
    /// Moves that the gate does not let pass.
    Stays(GateVerdict),
    /// Moves that would pay.
    WouldMove { rule: GateRule, gain_percent: i64, moves: Vec<ProposedMove> },
    /// Moves that were decided.
    Decided { gain_percent: i64, moves: usize },
    /// No moves are decided now.
    Deferred(DeferralReason),
}

/// What keeps moves for load from being decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeferralReason {
    /// Earlier moves are in progress.
    Moving,
    /// Earlier moves are not judged yet.
    Judging,
    /// Earlier moves did not pay.
    Waiting,
}

impl LoadVerdict {
    /// Whether no known moves gain as much as required.
    fn has_no_gain(&self) -> bool {
        matches!(self, Self::NoGain { .. } | Self::Stays(GateVerdict::Small { .. }))
    }

    fn is_judged_to_stay(&self) -> bool {
        self.has_no_gain() || matches!(self, Self::Stays(GateVerdict::Uncertain { .. }))
    }

    /// The verdict once its moves were decided.
    #[must_use]
    pub fn decided(self) -> Self {
        match self {
            Self::WouldMove { gain_percent, moves, .. } => Self::Decided { gain_percent, moves: moves.len() },
            other => other,
        }
    }
}

/// What is reported of an application's measured load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadReport {
    pub coverage: Debounced<CounterCoverage>,
    /// Whether no window of the newest few has settled data. That took as many windows, so it is shown at once.
    pub unavailable: Debounced<bool>,
    /// Whether a pod was scraped too rarely in a window.
    pub too_short: Debounced<bool>,
    pub verdict: LoadVerdict,
    /// Since when it is shown.
    verdict_since: Moment,
    /// Digest of the places that it was made for.
    verdict_places: u64,
    /// The condition `WouldMove` of an earlier leader, and for how many windows it is shown if there is no verdict.
    earlier: Option<(Finding, u32)>,
    /// The outcome of the last moves.
    pub outcome: Option<MoveOutcome>,
}

/// The first value, which changes only after it differed in several windows in a row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Debounced<T> {
    shown: Option<T>,
    next: Option<(T, u32)>,
}

impl<T: Copy + Default + PartialEq> Debounced<T> {
    /// The value as it is reported.
    pub fn get(&self) -> T {
        self.shown.unwrap_or_default()
    }

    /// Shows a value at once.
    pub fn show(&mut self, value: T) {
        (self.shown, self.next) = (Some(value), None);
    }

    /// Observes the value in a window.
    pub fn observe(&mut self, value: T) {
        let count = match self.next {
            _ if self.shown.is_none_or(|shown| shown == value) => {
                self.show(value);
                return;
            }
            Some((next, count)) if next == value => count + 1,
            _ => 1,
        };
        if count < HELD_WINDOWS {
            self.next = Some((value, count));
        } else {
            self.show(value);
        }
    }
}

impl LoadReport {
    /// What the status of an application shows of an earlier leader's report; `None` if counters were not read.
    fn of_status(status: &ActorApplicationStatus) -> Option<Self> {
        let of = |type_: &str| status.conditions.iter().find(|condition| condition.type_ == type_);
        let holds = |type_: &str| of(type_).is_some_and(|condition| condition.status == "True");
        let mut report = Self::default();
        report.coverage.show(status.counters?);
        report.unavailable.show(holds("CountersUnavailable"));
        report.too_short.show(holds("WindowTooShort"));
        report.earlier = of("WouldMove").and_then(|condition| {
            let reason = REASONS.into_iter().find(|reason| *reason == condition.reason)?;
            let message = condition.message.clone();
            Some((Finding { type_: "WouldMove", holds: holds("WouldMove"), reason, message }, HELD_WINDOWS))
        });
        Some(report)
    }

    /// Observes the windows of an application after each of them. Without counters, no moves are known to pay.
    pub fn observe(&mut self, coverage: CounterCoverage, windows: &Windows) {
        self.coverage.observe(coverage);
        self.earlier =
            self.earlier.take().filter(|(_, left)| *left > 1).map(|(shown, left)| (shown, left - 1));
        // Without actors there is nothing to be measured.
        if coverage.wanted > 0 && windows.is_stale(STALE_WINDOWS) {
            self.unavailable.show(true);
            self.forget_would_move();
        } else {
            self.unavailable.observe(false);
        }
        let scrapes = windows.summaries().first().and_then(|newest| newest.min_scrapes);
        self.too_short.observe(scrapes.is_some_and(|scrapes| scrapes < MIN_SCRAPES));
    }

    /// Forgets a verdict that no longer holds: that moves are in progress or wait, that others would be made from places that the
    /// application has left, or to a unit that is not offered any more.
    pub fn forget_outdated(
        &mut self,
        deferred: Option<DeferralReason>,
        places: u64,
        is_offered: impl Fn(&str) -> bool,
    ) {
        match &self.verdict {
            LoadVerdict::Decided { .. } if deferred == Some(DeferralReason::Moving) => {}
            LoadVerdict::Decided { .. } | LoadVerdict::Deferred(_) => {
                self.verdict = deferred.map_or(LoadVerdict::None, LoadVerdict::Deferred);
            }
            LoadVerdict::WouldMove { moves, .. }
                if places != self.verdict_places || !moves.iter().all(|it| is_offered(&it.to)) =>
            {
                self.verdict = LoadVerdict::None;
            }
            _ => {}
        }
    }

    /// Forgets that moves would pay: nothing shows it any more.
    pub fn forget_would_move(&mut self) {
        if matches!(self.verdict, LoadVerdict::WouldMove { .. }) {
            self.verdict = LoadVerdict::None;
        }
        self.earlier = self.earlier.take().filter(|(earlier, _)| !earlier.holds);
    }

    /// Sets the verdict on moves from places with this digest.
    ///
    /// What would move keeps its numbers as long as the moves are the same. Under noise searches alternate between no gain, a small gain
    /// and an uncertain one: the first two stay as they are shown, and the third is shown, or no longer, after ten minutes.
    pub fn set_verdict(&mut self, (verdict, places): (LoadVerdict, u64), now: Moment) {
        let is_recent = now < self.verdict_since + MESSAGE_INTERVAL;
        let is_kept = match (&self.verdict, &verdict) {
            (LoadVerdict::WouldMove { moves: before, .. }, LoadVerdict::WouldMove { moves: now, .. }) => {
                let places = |moves: &[ProposedMove]| -> Vec<(String, String)> {
                    moves.iter().map(|it| (it.actor.clone(), it.to.clone())).collect()
                };
                is_recent || places(before) == places(now)
            }
            (LoadVerdict::NoGain { stays_put: before }, LoadVerdict::NoGain { stays_put: now }) => {
                before == now
            }
            (before, now) if before.has_no_gain() && now.has_no_gain() => true,
            (before, now) => is_recent && before.is_judged_to_stay() && now.is_judged_to_stay(),
        };
        if !is_kept {
            (self.verdict, self.verdict_since, self.verdict_places) = (verdict, now, places);
            self.earlier = None;
        }
    }

    /// The conditions of the application.
    pub fn findings(&self) -> Vec<Finding> {
        let earlier = self.earlier.as_ref().filter(|_| self.verdict == LoadVerdict::None);
        let mut findings =
            vec![earlier.map_or_else(|| would_move(&self.verdict), |(shown, _)| shown.clone())];
        if self.unavailable.get() {
            let message = "none of the newest 4 windows is settled and has all counters: nothing moves for load, and plans use the last \
                           measured numbers, or those of the manifest if there are none; check that the pods are scraped, and that they stay ready"
                .to_owned();
            findings.push(Finding {
                type_: "CountersUnavailable",
                holds: true,
                reason: "NoSettledWindow",
                message,
            });
        }
        if self.too_short.get() {
            let message = "a pod is scraped fewer than 4 times in a window of the policy; scrape actors more often, or choose a longer \
                           window"
                .to_owned();
            findings.push(Finding { type_: "WindowTooShort", holds: true, reason: "FewScrapes", message });
        }
        findings
    }
}

/// The reasons of the condition `WouldMove`.
const REASONS: [&str; 8] =
    ["Measuring", "NoGain", "Moving", "Judging", "Waiting", "SmallGain", "UncertainGain", "DryRun"];

/// The condition of a verdict.
fn would_move(verdict: &LoadVerdict) -> Finding {
    let (holds, reason, message) = match verdict {
        LoadVerdict::None => (
            false,
            "Measuring",
            "the current placement has not been evaluated on measured load yet".to_owned(),
        ),
        LoadVerdict::NoGain { stays_put } => (false, "NoGain", no_gain(stays_put)),
        LoadVerdict::Decided { gain_percent, moves } => {
            let (count, are) =
                if *moves == 1 { ("1 move".to_owned(), "is") } else { (format!("{moves} moves"), "are") };
            let message = format!(
                "{count} with an expected gain of {gain_percent} % {are} in progress; see status.moves of the Placement"
            );
            (false, "Moving", message)
        }
        LoadVerdict::Deferred(DeferralReason::Moving) => {
            (false, "Moving", "further moves wait until those in progress are finished".to_owned())
        }
        LoadVerdict::Deferred(DeferralReason::Judging) => (
            false,
            "Judging",
            "the gain of the last moves is measured over the next settled windows".to_owned(),
        ),
        LoadVerdict::Deferred(DeferralReason::Waiting) => {
            let message = "the last moves did not pay, so further ones wait; see kubectl cairn history";
            (false, "Waiting", message.to_owned())
        }
        LoadVerdict::Stays(GateVerdict::FewWindows { needed, .. }) => {
            (false, "Measuring", format!("waiting for {needed} settled windows"))
        }
        LoadVerdict::Stays(GateVerdict::Small { least, .. }) => (
            false,
            "SmallGain",
            format!("the best known moves gain less than the required {} %", percent(*least)),
        ),
        LoadVerdict::Stays(GateVerdict::Uncertain { gain } | GateVerdict::Pays { gain, .. }) => (
            false,
            "UncertainGain",
            format!("expected gain {} %, but it varies too much between windows", percent(*gain)),
        ),
        LoadVerdict::WouldMove { rule, gain_percent, moves } => {
            let listed = moves
                .iter()
                .take(LISTED_MOVES)
                .map(|it| format!("{} from {} to {} ({} %)", it.actor, it.from, it.to, it.gain_percent));
            let more = match moves.len().saturating_sub(LISTED_MOVES) {
                0 => String::new(),
                more => format!(", and {more} more"),
            };
            let why = match rule {
                GateRule::Change => "since the load changed",
                GateRule::Steady => "in all measured windows",
            };
            let list = listed.collect::<Vec<_>>().join(", ");
            let message =
                format!("would move {list}{more}: gains {gain_percent} % {why}; DryRun moves nothing");
            (true, "DryRun", message)
        }
    };
    Finding { type_: "WouldMove", holds, reason, message }
}

fn no_gain(stays_put: &BTreeSet<String>) -> String {
    let message = "no moves with the required gain were found".to_owned();
    if stays_put.is_empty() {
        return message;
    }
    let groups = listed(stays_put.iter().cloned(), ", ", stays_put.len());
    format!(
        "{message}; actors of {groups} are excluded from elective moves (pinned, {}, or node-bound volumes or claims without {})",
        labels::DO_NOT_MOVE,
        labels::MAY_MOVE
    )
}

/// The reports of all applications whose load is measured.
#[derive(Debug, Default)]
pub struct LoadReports(Mutex<BTreeMap<ApplicationKey, LoadReport>>);

impl LoadReports {
    fn all(&self) -> MutexGuard<'_, BTreeMap<ApplicationKey, LoadReport>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The report of an application; `None` if its load is not measured, or the mode is `Off`.
    pub fn get(&self, key: &ApplicationKey) -> Option<LoadReport> {
        self.all().get(key).cloned()
    }

    /// Whether the last plan of an application has moves that would pay.
    pub fn would_move(&self, key: &ApplicationKey) -> bool {
        self.all().get(key).is_some_and(|report| matches!(report.verdict, LoadVerdict::WouldMove { .. }))
    }

    /// Restores the report of an earlier leader from a status, unless there is one.
    pub fn restore(&self, key: &ApplicationKey, status: &ActorApplicationStatus) {
        let mut all = self.all();
        if !all.contains_key(key)
            && let Some(report) = LoadReport::of_status(status)
        {
            all.insert(key.clone(), report);
        }
    }

    /// Changes a report; returns whether what is shown changed.
    pub fn change(&self, key: &ApplicationKey, change: impl FnOnce(&mut LoadReport)) -> bool {
        let mut all = self.all();
        let is_new = !all.contains_key(key);
        let report = all.entry(key.clone()).or_default();
        let shown = |report: &LoadReport| (report.coverage.get(), report.findings(), report.outcome.clone());
        let before = shown(report);
        change(report);
        is_new || before != shown(report)
    }

    /// Removes a report; returns whether there was one.
    pub fn remove(&self, key: &ApplicationKey) -> bool {
        self.all().remove(key).is_some()
    }
}

#[cfg(test)]
mod tests;
