//! `history`: the decisions that moved the actors of an application, and their outcomes.

use crds::{ActorApplication, MoveDecision, MoveOutcome, labels};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde::Serialize;
use world::ApplicationKey;

use crate::args::{HistoryArgs, Output};
use crate::error::CliError;
use crate::style::{Style, Tone};
use crate::table::Table;
use crate::{Outcome, cluster, plan, print};

/// The hint when a request is forbidden.
const HINT: &str = "; you need read access to ActorApplications and ControllerRevisions in the namespace";

/// A decision with its outcome.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    revision: i64,
    #[serde(flatten)]
    decision: MoveDecision,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<MoveOutcome>,
}

/// Runs the command.
pub fn run(args: &HistoryArgs) -> Result<Outcome, CliError> {
    let key = cluster::application_key(&args.name, args.namespace.as_deref(), Some(&args.cluster))?;
    let entries = cluster::block_on(&args.cluster, async {
        let client = cluster::client(&args.cluster).await?;
        let applications: Api<ActorApplication> = Api::namespaced(client.clone(), &key.namespace);
        let found = applications.get_opt(&key.name).await;
        let found = found.map_err(|source| cluster::list_error::<ActorApplication>(source, HINT))?;
        let application =
            found.ok_or_else(|| CliError::Usage(format!("application {key} does not exist")))?;
        let selector = format!("{}={},{}={}", labels::APPLICATION, key.name, labels::HISTORY, labels::MOVES);
        let revisions: Api<ControllerRevision> = Api::namespaced(client, &key.namespace);
        let found = revisions.list(&ListParams::default().labels(&selector)).await;
        let found = found.map_err(|source| cluster::list_error::<ControllerRevision>(source, HINT))?;
        let is_own = |it: &ControllerRevision| {
            it.owner_references().iter().any(|owner| Some(&owner.uid) == application.metadata.uid.as_ref())
        };
        Ok(entries(found.items.into_iter().filter(is_own)))
    })?;
    let text = match args.output {
        Output::Table => table(&key, &entries, Style::of_stdout()),
        Output::Yaml => plan::yaml(&entries),
        Output::Json => plan::json(&entries),
    };
    print(&text)?;
    Ok(Outcome::Ok)
}

/// Decisions in the order in which they were made. Revisions with other data are left out.
fn entries(revisions: impl Iterator<Item = ControllerRevision>) -> Vec<Entry> {
    let entry = |revision: ControllerRevision| {
        let outcome = revision.annotations().get(labels::OUTCOME);
        let outcome = outcome.and_then(|text| serde_json::from_str(text).ok());
        let decision = serde_json::from_value(revision.data?.0).ok()?;
        Some(Entry { revision: revision.revision, decision, outcome })
    };
    let mut entries: Vec<Entry> = revisions.filter_map(entry).collect();
    // A write that failed is repeated later, so numbers may be in another order.
    entries.sort_by_cached_key(|entry| (entry.decision.decided_at.clone(), entry.revision));
    entries
}

fn table(key: &ApplicationKey, entries: &[Entry], style: Style) -> String {
    if entries.is_empty() {
        return format!("no actor of {key} was moved\n");
    }
    let mut table = Table::new(&[
        "",
        "WHEN",
        "WHY",
        "ACTOR",
        "FROM",
        "TO",
        "EXPECTED",
        "REALISED",
        "MESSAGES/S",
        "OUTCOME",
        "REASON",
    ]);
    for Entry { revision, decision, outcome } in entries {
        let gain = decision.gain.as_ref();
        let percent = |number: Option<i64>| number.map_or_else(String::new, |number| format!("{number} %"));
        let (verdict, tone) = match outcome {
            Some(outcome) => (outcome.verdict.to_string(), tone(outcome)),
            None if gain.is_some() => ("not judged yet".to_owned(), Tone::Faint),
            None => (String::new(), Tone::Plain),
        };
        let before = gain.and_then(|gain| gain.messages_per_second);
        let after = outcome.as_ref().and_then(|outcome| outcome.messages_per_second);
        let messages = match (before, after) {
            (Some(before), Some(after)) => format!("{before} → {after}"),
            (Some(before), None) => before.to_string(),
            _ => String::new(),
        };
        let realised = outcome.as_ref().and_then(|outcome| outcome.realised_percent);
        let head = [
            revision.to_string(),
            second(decision.decided_at.0),
            gain.map_or_else(|| "necessary".to_owned(), |gain| gain.why.clone()),
        ];
        let tail = [percent(gain.map(|gain| gain.expected_percent)), percent(realised), messages, verdict];
        for (position, it) in decision.moves.iter().enumerate() {
            let is_first = position == 0;
            let cell = |text: &String| (if is_first { text.clone() } else { String::new() }, Tone::Plain);
            let from = it.from.clone().unwrap_or_default();
            let moved = [it.actor.clone(), from, it.to.clone()].map(|text| (text, Tone::Plain));
            let tail = tail.iter().map(cell).enumerate();
            let tail = tail.map(|(at, (text, plain))| (text, if at == 3 { tone } else { plain }));
            let reason = (it.reason.clone(), Tone::Faint);
            table.row(head.iter().map(cell).chain(moved).chain(tail).chain([reason]));
        }
        if decision.more_moves > 0 {
            let more = format!("and {} more", decision.more_moves);
            let cells = (0..11).map(|at| if at == 3 { more.clone() } else { String::new() });
            table.row(cells.map(|text| (text, Tone::Faint)));
        }
    }
    table.render(style)
}

fn tone(outcome: &MoveOutcome) -> Tone {
    match outcome.verdict {
        crds::OutcomeVerdict::Paid => Tone::Good,
        crds::OutcomeVerdict::Loss => Tone::Bad,
        crds::OutcomeVerdict::Less | crds::OutcomeVerdict::Withdrawn => Tone::Change,
        crds::OutcomeVerdict::Superseded => Tone::Faint,
    }
}

/// A time to the second.
pub fn second(time: Timestamp) -> String {
    time.round(jiff::Unit::Second).unwrap_or(time).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn decisions_are_listed_with_what_came_of_them() {
        let moved = |actor: &str, gain: Option<i64>| {
            json!({"actor": actor, "from": "a/cpus-0", "to": "b/cpus-0", "gainPercent": gain,
            "reason": if gain.is_some() { "staying would raise communication by 42" } else { "node a is lost" }})
        };
        let revision = |number: i64, data: serde_json::Value, outcome: Option<serde_json::Value>| {
            let annotations = outcome.map(|outcome| json!({labels::OUTCOME: outcome.to_string()}));
            serde_json::from_value(json!({"revision": number, "data": data,
                "metadata": {"name": format!("app-plan-{number}"), "annotations": annotations}}))
            .unwrap()
        };
        let at = "2026-01-02T03:04:05.000000Z";
        let gain = json!({"expectedPercent": 31, "why": "change", "decidedAt": at, "messagesPerSecond": 900});
        let decision =
            json!({"decidedAt": at, "gain": gain, "moves": [moved("w-0", Some(20)), moved("w-1", Some(11))]});
        let outcome = json!({"decidedAt": at, "verdict": "paid", "judgedAt": at, "realisedPercent": 28,
            "messagesPerSecond": 1200});
        let necessary = json!({"decidedAt": at, "moves": [moved("w-2", None)], "moreMoves": 3});
        let revisions = [
            revision(2, decision, Some(outcome)),
            revision(1, necessary, None),
            revision(3, json!({}), None),
        ];
        let key = ApplicationKey { namespace: "ns".to_owned(), name: "app".to_owned() };
        let found = entries(revisions.into_iter());
        insta::assert_snapshot!(table(&key, &found, Style::of(false)), @r"
           WHEN                  WHY        ACTOR       FROM      TO        EXPECTED  REALISED  MESSAGES/S  OUTCOME  REASON
        1  2026-01-02T03:04:05Z  necessary  w-2         a/cpus-0  b/cpus-0                                           node a is lost
                                            and 3 more
        2  2026-01-02T03:04:05Z  change     w-0         a/cpus-0  b/cpus-0  31 %      28 %      900 → 1200  paid     staying would raise communication by 42
                                            w-1         a/cpus-0  b/cpus-0                                           staying would raise communication by 42
        ");
        assert_eq!(table(&key, &[], Style::of(false)), "no actor of ns/app was moved\n");
    }
}
