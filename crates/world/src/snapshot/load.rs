//! A search for measured load as a file, so that it can be repeated without a cluster.

use std::collections::{BTreeMap, BTreeSet};

use control::{CHANGE_WINDOWS, ElectiveMoves, GateRule, GateVerdict, LoadJudgement, LoadTerms, judge_moves};
use counters::{GroupProfile, WindowChoice, Windows, WindowsFile};
use placement::file::{Constraint, Places};
use placement::ix::UnitIx;
use placement::{Assignment, Plan, Snapshot, SnapshotError};
use serde::{Deserialize, Serialize};

use crate::digest::digest;
use crate::index::objects::ApplicationKey;
use crate::snapshot::measured::replace_measured;

/// What a search for measured load is made from, beside the snapshot with the manifest's numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoadFacts {
    /// Why the search was due.
    pub rule: LoadRule,
    /// Digest of the snapshot with the manifest's numbers.
    pub snapshot: String,
    /// What the manifest states of each group.
    pub groups: BTreeMap<String, GroupProfile>,
    /// Groups that never move for a gain.
    pub stays_put: BTreeSet<String>,
    /// The policy's terms.
    pub terms: LoadTermsFile,
    /// The windows.
    pub windows: WindowsFile,
}

/// The rule of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LoadRule {
    /// The load changed.
    Change,
    /// There was time for a steady gain to show.
    Steady,
}

/// The policy's terms for moves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoadTermsFile {
    /// Least gain, as a fraction.
    pub least_gain: f64,
    /// Most moves of one decision.
    pub max_moves: usize,
    /// Pause of an actor that moves, if its group is not in `pauses`.
    pub pause_seconds: f64,
    /// By group: the median pause of its last moves, in seconds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pauses: BTreeMap<String, f64>,
    /// Time in which the pauses must pay.
    pub horizon_seconds: f64,
}

/// A search for measured load, and its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoadRecord {
    /// Its facts.
    pub facts: LoadFacts,
    /// The strategy.
    pub strategy: String,
    /// The seed.
    pub seed: u64,
    /// The effort after which it ended.
    pub effort: u64,
    /// What became of the plan.
    pub outcome: LoadOutcome,
}

/// What becomes of a plan for measured load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoadOutcome {
    /// `pays`, `small`, `uncertain`, `fewWindows`, or `noGain` if no other placement is noticeably better.
    pub verdict: String,
    /// Mean gain in the windows of the rule, as a fraction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain: Option<f64>,
    /// The gain that the moves must reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required: Option<f64>,
    /// The judged moves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<LoadMove>,
}

/// A judged move.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoadMove {
    /// Short name of the actor.
    pub actor: String,
    /// Its unit.
    pub from: String,
    /// The unit that it would move to.
    pub to: String,
    /// What the plan loses without it, as a fraction.
    pub gain: f64,
}

impl From<GateRule> for LoadRule {
    fn from(rule: GateRule) -> Self {
        match rule {
            GateRule::Change => Self::Change,
            GateRule::Steady => Self::Steady,
        }
    }
}

impl From<LoadRule> for GateRule {
    fn from(rule: LoadRule) -> Self {
        match rule {
            LoadRule::Change => Self::Change,
            LoadRule::Steady => Self::Steady,
        }
    }
}

impl From<LoadTerms> for LoadTermsFile {
    fn from(terms: LoadTerms) -> Self {
        let LoadTerms { least, max_moves, pause_seconds, pauses, horizon_seconds } = terms;
        Self { least_gain: least, max_moves, pause_seconds, pauses, horizon_seconds }
    }
}

impl From<LoadTermsFile> for LoadTerms {
    fn from(terms: LoadTermsFile) -> Self {
        let LoadTermsFile { least_gain, max_moves, pause_seconds, pauses, horizon_seconds } = terms;
        Self { least: least_gain, max_moves, pause_seconds, pauses, horizon_seconds }
    }
}

impl LoadRule {
    /// The windows whose mean are the facts of the plan.
    pub fn windows(self) -> WindowChoice {
        match self {
            Self::Change => WindowChoice::Newest(CHANGE_WINDOWS),
            Self::Steady => WindowChoice::All,
        }
    }
}

impl LoadFacts {
    /// Facts of a search by this rule; `base` is the snapshot with the manifest's numbers.
    pub fn new(
        rule: GateRule,
        base: &Snapshot,
        windows: &Windows,
        groups: BTreeMap<String, GroupProfile>,
        stays_put: BTreeSet<String>,
        terms: LoadTerms,
    ) -> Self {
        Self {
            rule: rule.into(),
            snapshot: digest(&base.write()),
            groups,
            stays_put,
            terms: terms.into(),
            windows: windows.file(),
        }
    }

    /// Whether this is the snapshot with the manifest's numbers that they belong to.
    pub fn is_of(&self, base: &Snapshot) -> bool {
        self.snapshot == digest(&base.write())
    }

    /// The snapshot that the plan is made from.
    ///
    /// # Errors
    /// The numbers exceed the range of a snapshot.
    pub fn planned(&self, base: &Snapshot) -> Result<Snapshot, SnapshotError> {
        self.measured(base, &Windows::of_file(&self.windows), self.rule.windows())
    }

    /// The snapshot with the numbers of these windows, in which actors that never move for a gain are fixed.
    fn measured(
        &self,
        base: &Snapshot,
        windows: &Windows,
        choice: WindowChoice,
    ) -> Result<Snapshot, SnapshotError> {
        let mut file = base.file().clone();
        let key = file.application.as_deref().and_then(|name| name.parse::<ApplicationKey>().ok());
        if let Some(key) = key {
            replace_measured(&mut file, &key, &windows.measure(&self.groups, choice));
        }
        for actor in file.actors.iter().filter(|actor| !actor.fixed) {
            let is_put = actor.group.as_ref().is_some_and(|group| self.stays_put.contains(group));
            if let Some(unit) = actor.current.clone().filter(|_| is_put) {
                file.constraints.push(Constraint::Only {
                    actors: vec![actor.id.clone()],
                    places: Places::Units(vec![unit]),
                    reason: Some("never moves for a gain".to_owned()),
                });
            }
        }
        Snapshot::new(file)
    }

    /// Judges a plan for the facts: by one snapshot for each window, one after the other.
    ///
    /// `planned` is the snapshot of the plan with the constraints that the policy derives.
    ///
    /// # Errors
    /// The numbers exceed the range of a snapshot.
    pub fn judge(
        &self,
        base: &Snapshot,
        planned: &Snapshot,
        goes: &Assignment,
    ) -> Result<LoadJudgement, SnapshotError> {
        let (windows, terms) = (Windows::of_file(&self.windows), self.terms.clone().into());
        let of_window = |at| self.measured(base, &windows, WindowChoice::One(at));
        judge_moves(self.rule.into(), (planned, goes), &terms, windows.usable_windows(), of_window)
    }

    /// The record of a search with this plan.
    pub fn record(self, planned: &Snapshot, plan: &Plan, judgement: &LoadJudgement) -> LoadRecord {
        LoadRecord {
            outcome: LoadOutcome::of(planned, judgement, &self.terms.clone().into()),
            facts: self,
            strategy: plan.strategy.to_owned(),
            seed: plan.seed,
            effort: plan.effort,
        }
    }
}

impl LoadOutcome {
    /// The outcome with the names of a snapshot.
    pub fn of(snapshot: &Snapshot, judgement: &LoadJudgement, terms: &LoadTerms) -> Self {
        let LoadJudgement::Judged { moves, verdict } = judgement else {
            return Self { verdict: "noGain".to_owned(), gain: None, required: None, moves: Vec::new() };
        };
        let (name, gain) = match *verdict {
            GateVerdict::Pays { gain, .. } => ("pays", Some(gain)),
            GateVerdict::Small { gain, .. } => ("small", Some(gain)),
            GateVerdict::Uncertain { gain } => ("uncertain", Some(gain)),
            GateVerdict::FewWindows { .. } => ("fewWindows", None),
        };
        Self {
            verdict: name.to_owned(),
            gain,
            required: Some(moves.required_gain(snapshot, terms)),
            moves: load_moves(snapshot, moves),
        }
    }
}

/// Elective moves with the names of a snapshot.
fn load_moves(snapshot: &Snapshot, moves: &ElectiveMoves) -> Vec<LoadMove> {
    let unit = |unit: Option<UnitIx>| unit.map_or_else(String::new, |it| snapshot.unit_id(it).to_owned());
    let listed = moves.gains.iter().map(|(actor, gain)| LoadMove {
        actor: snapshot.short_name(*actor).to_owned(),
        from: unit(moves.stays[*actor]),
        to: unit(moves.goes[*actor]),
        gain: *gain,
    });
    listed.collect()
}
