//! What measured load would change, as it is reported.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use control::{GateRule, GateVerdict, Moment};
use counters::{MIN_SCRAPES, Windows};
use crds::{CounterCoverage, MoveOutcome, labels};
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
    HeldUp(HeldUp),
}

/// What keeps moves for load from being decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldUp {
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
    pub coverage: Held<CounterCoverage>,
    /// Whether no window of the newest few has settled data. That took as many windows, so it is shown at once.
    pub unavailable: Held<bool>,
    /// Whether a pod was scraped too rarely in a window.
    pub too_short: Held<bool>,
    pub verdict: LoadVerdict,
    /// Since when it is shown.
    verdict_since: Moment,
    /// Digest of the places that it was made for.
    verdict_places: u64,
    /// The outcome of the last moves.
    pub outcome: Option<MoveOutcome>,
}

/// The first value, which changes only after it differed in several windows in a row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Held<T> {
    shown: Option<T>,
    next: Option<(T, u32)>,
}

impl<T: Copy + Default + PartialEq> Held<T> {
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
    /// Observes the windows of an application after each of them.
    pub fn observe(&mut self, coverage: CounterCoverage, windows: &Windows) {
        self.coverage.observe(coverage);
        // Without actors there is nothing to be measured.
        if coverage.wanted > 0 && windows.is_stale(STALE_WINDOWS) {
            self.unavailable.show(true);
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
        held_up: Option<HeldUp>,
        places: u64,
        is_offered: impl Fn(&str) -> bool,
    ) {
        match &self.verdict {
            LoadVerdict::Decided { .. } if held_up == Some(HeldUp::Moving) => {}
            LoadVerdict::Decided { .. } | LoadVerdict::HeldUp(_) => {
                self.verdict = held_up.map_or(LoadVerdict::None, LoadVerdict::HeldUp);
            }
            LoadVerdict::WouldMove { moves, .. }
                if places != self.verdict_places || !moves.iter().all(|it| is_offered(&it.to)) =>
            {
                self.verdict = LoadVerdict::None;
            }
            _ => {}
        }
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
        }
    }

    /// The conditions of the application.
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = vec![would_move(&self.verdict)];
        if self.unavailable.get() {
            let message = "none of the newest 4 windows is settled and has all counters: nothing moves for load, and plans use the last \
                           measured numbers, or those of the manifest if there are none; check that the pods are scraped"
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

/// The condition of a verdict.
fn would_move(verdict: &LoadVerdict) -> Finding {
    let (holds, reason, message) = match verdict {
        LoadVerdict::None => {
            (false, "Measuring", "no plan for measured load was made yet for the present places".to_owned())
        }
        LoadVerdict::NoGain { stays_put } => (false, "NoGain", no_gain(stays_put)),
        LoadVerdict::Decided { gain_percent, moves } => {
            let (count, are) =
                if *moves == 1 { ("1 move".to_owned(), "is") } else { (format!("{moves} moves"), "are") };
            let message = format!(
                "{count} with an expected gain of {gain_percent} % {are} in progress; see status.moves of the Placement"
            );
            (false, "Moving", message)
        }
        LoadVerdict::HeldUp(HeldUp::Moving) => {
            (false, "Moving", "further moves wait until those in progress are finished".to_owned())
        }
        LoadVerdict::HeldUp(HeldUp::Judging) => {
            (false, "Judging", "the last moves are judged by the next settled windows".to_owned())
        }
        LoadVerdict::HeldUp(HeldUp::Waiting) => {
            let message = "the last moves did not pay, so further ones wait; see kubectl cairn history";
            (false, "Waiting", message.to_owned())
        }
        LoadVerdict::Stays(GateVerdict::FewWindows { needed, .. }) => {
            (false, "Measuring", format!("a plan is judged by {needed} settled windows"))
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
mod tests {
    use counters::{WindowEntry, WindowsFile};

    use super::*;

    #[test]
    fn values_are_shown_after_four_equal_windows() {
        let mut held = Held::default();
        let mut shown = |values: &[u32]| {
            for value in values {
                held.observe(*value);
            }
            held.get()
        };
        assert_eq!(shown(&[]), 0);
        assert_eq!(shown(&[0, 7, 7, 7]), 0);
        assert_eq!(shown(&[8, 7, 7, 7]), 0);
        assert_eq!(shown(&[7]), 7);
        assert_eq!(shown(&[0, 0, 0, 7, 0, 0, 0]), 7, "not in a row");
    }

    #[test]
    fn the_condition_names_the_moves_or_the_reason_for_none() {
        let proposed = |gain_percent, node| {
            let proposed = ProposedMove {
                actor: "crop-0".into(),
                from: "n1/cpus-0".into(),
                to: format!("{node}/cpus-0"),
                gain_percent,
            };
            LoadVerdict::WouldMove { rule: GateRule::Change, gain_percent, moves: vec![proposed] }
        };
        let mut report = LoadReport::default();
        let reported = |report: &LoadReport| {
            let Finding { holds, reason, message, .. } = report.findings().remove(0);
            format!("{holds} {reason}: {message}")
        };
        assert_eq!(
            reported(&report),
            "false Measuring: no plan for measured load was made yet for the present places"
        );
        let mut shown = |minute, verdict| {
            report.set_verdict((verdict, 1), Duration::from_mins(minute));
            reported(&report)
        };
        let moves = "true DryRun: would move crop-0 from n1/cpus-0 to n2/cpus-0 (31 %): gains 31 % since the load changed; DryRun \
                     moves nothing";
        assert_eq!(shown(60, proposed(31, "n2")), moves);
        assert_eq!(shown(65, proposed(29, "n3")), moves, "other moves within ten minutes");
        assert_eq!(shown(80, proposed(29, "n2")), moves, "the same moves are not written again");
        assert_eq!(shown(81, proposed(31, "n3")), moves.replace("n2", "n3"));
        let small = |gain| LoadVerdict::Stays(GateVerdict::Small { gain, least: 0.1 });
        let little = "false SmallGain: the best known moves gain less than the required 10 %";
        let no_gain = |stays_put| LoadVerdict::NoGain { stays_put };
        let uncertain = |gain| LoadVerdict::Stays(GateVerdict::Uncertain { gain });
        let varies = |gain| {
            format!("false UncertainGain: expected gain {gain} %, but it varies too much between windows")
        };
        assert_eq!(shown(82, small(0.051)), little);
        assert_eq!(shown(93, small(0.07)), little);
        assert_eq!(shown(94, no_gain(BTreeSet::new())), little, "not enough either");
        assert_eq!(shown(95, uncertain(0.12)), varies(12));
        assert_eq!(shown(96, no_gain(BTreeSet::new())), varies(12), "within ten minutes");
        assert_eq!(shown(104, uncertain(0.14)), varies(12), "within ten minutes");
        assert_eq!(shown(105, uncertain(0.14)), varies(14));
        let none = "false NoGain: no moves with the required gain were found";
        assert_eq!(shown(115, no_gain(BTreeSet::new())), none);
        assert_eq!(shown(116, small(0.07)), none);
        assert_eq!(
            shown(116, no_gain(["db".to_owned()].into())),
            "false NoGain: no moves with the required gain were found; actors of db are excluded from elective moves (pinned, \
             cairn.dev/do-not-move, or node-bound volumes or claims without cairn.dev/may-move)"
        );
    }

    #[test]
    fn a_verdict_is_forgotten_when_it_no_longer_holds() {
        let moved = ProposedMove {
            actor: "crop-0".into(),
            from: "n1/cpus-0".into(),
            to: "n2/cpus-0".into(),
            gain_percent: 31,
        };
        let proposed =
            LoadVerdict::WouldMove { rule: GateRule::Steady, gain_percent: 31, moves: vec![moved] };
        let decided = proposed.clone().decided();
        let held_up = LoadVerdict::HeldUp;
        let no_gain = LoadVerdict::NoGain { stays_put: BTreeSet::new() };
        let (moving, judging, waiting) = (Some(HeldUp::Moving), Some(HeldUp::Judging), Some(HeldUp::Waiting));
        // What holds moves up now, whether the places are those of the verdict, and the units that are offered.
        for (verdict, now, expected) in [
            (&decided, (moving, true, "n2/cpus-0"), decided.clone()),
            (&decided, (judging, true, "n2/cpus-0"), held_up(HeldUp::Judging)),
            (&decided, (waiting, true, "n2/cpus-0"), held_up(HeldUp::Waiting)),
            (&decided, (None, false, "n2/cpus-0"), LoadVerdict::None),
            (&held_up(HeldUp::Judging), (waiting, true, "n2/cpus-0"), held_up(HeldUp::Waiting)),
            (&held_up(HeldUp::Waiting), (None, true, "n2/cpus-0"), LoadVerdict::None),
            (&proposed, (None, true, "n2/cpus-0"), proposed.clone()),
            // In DryRun moves of other plans hold nothing up.
            (&proposed, (moving, true, "n2/cpus-0"), proposed.clone()),
            (&proposed, (None, false, "n2/cpus-0"), LoadVerdict::None),
            (&proposed, (None, true, "n1/cpus-0"), LoadVerdict::None),
            (&no_gain, (None, false, "n2/cpus-0"), no_gain.clone()),
        ] {
            let mut report = LoadReport::default();
            report.set_verdict((verdict.clone(), 7), Duration::from_mins(1));
            let (held_up, is_same, offered) = now;
            report.forget_outdated(held_up, if is_same { 7 } else { 8 }, |unit| unit == offered);
            assert_eq!(report.verdict, expected, "{verdict:?} {now:?}");
        }
    }

    /// Conditions after windows, the oldest first: whether each is usable, and the fewest scrapes of a pod in it.
    fn conditions_after(wanted: i32, observed: &[(bool, u64)]) -> Vec<&'static str> {
        let mut report = LoadReport::default();
        let mut file = WindowsFile {
            window_seconds: 10.0,
            message_quantum: 1.0,
            windows: Vec::new(),
            messages: Vec::new(),
            annoyance: Vec::new(),
            actors: BTreeMap::new(),
        };
        let mut ended_at = 1000.0;
        for (is_usable, scrapes) in observed {
            let window = WindowEntry {
                ended_at,
                settled: *is_usable,
                has_data: true,
                min_scrapes: Some(*scrapes),
                bad_value: false,
                incomplete: false,
                groups: [("g".to_owned(), [1, 1, 1, 0])].into(),
            };
            file.windows.insert(0, window);
            ended_at += 10.0;
            report.observe(CounterCoverage { covered: 0, wanted }, &Windows::of_file(&file));
        }
        report.findings().into_iter().skip(1).map(|finding| finding.type_).collect()
    }

    #[test]
    fn missing_counters_are_reported_after_four_windows() {
        let (unusable, usable, short) = ((false, 5), (true, 5), (true, 3));
        let unavailable = vec!["CountersUnavailable"];
        for (wanted, windows, expected) in [
            (2, vec![usable; 8], vec![]),
            (2, vec![unusable; 3], vec![]),
            (2, vec![unusable; 4], unavailable.clone()),
            (2, [vec![usable; 2], vec![unusable; 3]].concat(), vec![]),
            (2, [vec![usable; 2], vec![unusable; 4]].concat(), unavailable.clone()),
            // It ends after four windows that each have a usable one among the newest four.
            (2, [vec![unusable; 4], vec![usable; 3]].concat(), unavailable.clone()),
            (2, [vec![unusable; 4], vec![usable; 4]].concat(), vec![]),
            (0, vec![unusable; 8], vec![]),
            // A window with few scrapes is not usable either.
            (2, [vec![usable; 2], vec![short; 3]].concat(), vec![]),
            (2, [vec![usable; 2], vec![short; 4]].concat(), vec!["CountersUnavailable", "WindowTooShort"]),
        ] {
            assert_eq!(conditions_after(wanted, &windows), expected, "{wanted} {windows:?}");
        }
    }
}
