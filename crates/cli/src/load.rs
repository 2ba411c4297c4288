//! `plan --windows`: repeats the operator's last search for measured load.

use std::path::Path;

use placement::{Plan, Snapshot};
use serde::{Deserialize, Serialize};
use world::{LoadOutcome, LoadRecord, LoadRule};

use crate::error::CliError;
use crate::read;

/// The response of the operator's /debug/load, as far as it is read.
#[derive(Deserialize)]
struct LoadExport {
    search: Option<LoadRecord>,
}

/// What the gate says of a repeated plan.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadReport {
    rule: LoadRule,
    outcome: LoadOutcome,
    /// Whether it is the operator's.
    repeats: bool,
}

/// The last search in the response of /debug/load.
pub fn read(file: &Path) -> Result<LoadRecord, CliError> {
    let text = read::text(file)?;
    let invalid = |problem: String| CliError::Usage(format!("{}: {problem}", read::name(file)));
    let export: LoadExport = serde_json::from_str(&text).map_err(|e| {
        invalid(format!("{e}; write the response of the operator's /debug/load/NAMESPACE/NAME to a file"))
    })?;
    export.search.ok_or_else(|| {
        invalid("the operator has not searched for moves for measured load yet; export it after the condition WouldMove \
                 has another reason than Measuring"
            .to_owned())
    })
}

/// A remark if the snapshot is not the one that the operator searched.
pub fn snapshot_note(record: &LoadRecord, base: &Snapshot) -> Option<String> {
    (!record.facts.is_of(base)).then(|| {
        "the snapshot is not the one of the operator's search, so plan and verdict may differ; export \
         /debug/snapshot/NAMESPACE/NAME/manifest and /debug/load/NAMESPACE/NAME at the same time"
            .to_owned()
    })
}

impl LoadReport {
    /// Judges a plan for the facts of a search.
    pub fn new(
        record: &LoadRecord,
        base: &Snapshot,
        planned: &Snapshot,
        plan: &Plan,
    ) -> Result<Self, placement::SnapshotError> {
        let derived = plan.world(planned);
        let judgement = record.facts.judge(base, &derived, &plan.assignment)?;
        let outcome = LoadOutcome::of(&derived, &judgement, &record.facts.terms.clone().into());
        Ok(Self { rule: record.facts.rule, repeats: outcome == record.outcome, outcome })
    }

    /// The verdict in a sentence.
    pub fn note(&self) -> String {
        let rule = match self.rule {
            LoadRule::Change => "the newest windows",
            LoadRule::Steady => "all windows",
        };
        let percent =
            |part: Option<f64>| part.map_or_else(|| "?".to_owned(), |part| format!("{:.0}", part * 100.0));
        let LoadOutcome { verdict, gain, required, moves } = &self.outcome;
        let listed = moves.iter().map(|it| format!("{} from {} to {}", it.actor, it.from, it.to));
        let listed = listed.collect::<Vec<_>>().join(", ");
        let verdict = match verdict.as_str() {
            "pays" => "these moves pay",
            "small" => "the gain is too small",
            "uncertain" => "the gain varies too much between windows",
            "fewWindows" => "there are too few windows",
            _ => "no better placement found",
        };
        let gains = if moves.is_empty() {
            String::new()
        } else {
            format!(": {listed}; gain {} %, required {} %", percent(*gain), percent(*required))
        };
        let repeated =
            if self.repeats { "same verdict as the operator" } else { "differs from the operator's verdict" };
        format!("measured load, by {rule}: {verdict}{gains} ({repeated})")
    }
}
