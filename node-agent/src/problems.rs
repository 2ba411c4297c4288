//! Problems of a source. Each is logged and counted when it appears, and logged when it is resolved.

use std::collections::BTreeMap;

use tracing::{error, info};

use crate::{
    metrics::{CollectorState, Metrics},
    source::{Problem, Reading, SourceError},
};

/// The current problems of a source.
#[derive(Debug, Default)]
pub struct Problems {
    of_source: Option<String>,
    of_places: BTreeMap<String, Problem>,
}

impl Problems {
    /// Logs and counts new problems, logs resolved ones, and sets the state of each collector.
    pub fn note(&mut self, collector: &str, reading: &Result<Reading, SourceError>, metrics: &Metrics) {
        let count = |reason: &str| metrics.count_collect_error(collector, reason);
        let reading = match reading {
            Ok(reading) => reading,
            Err(error) => {
                let (state, reason) = if error.is_denied() {
                    (CollectorState::Denied, "denied")
                } else {
                    (CollectorState::Error, "unreadable")
                };
                metrics.set_collector(collector, state);
                let message = error.to_string();
                if self.of_source.as_ref() != Some(&message) {
                    error!("{message}; keeping the topologies that were read last");
                    count(reason);
                }
                self.of_source = Some(message);
                return;
            }
        };
        if self.of_source.take().is_some() {
            info!("the descriptions are readable again");
        }
        for (place, problem) in &reading.problems {
            if self.of_places.get(place) != Some(problem) {
                error!(file = place, "{problem}; keeping its last valid content");
                count(problem.reason.into());
            }
        }
        for place in self.of_places.keys().filter(|place| !reading.problems.contains_key(*place)) {
            info!(file = place, "the problem is resolved");
        }
        self.of_places.clone_from(&reading.problems);
        if reading.collectors.is_empty() {
            let state = if reading.problems.is_empty() { CollectorState::Ok } else { CollectorState::Error };
            metrics.set_collector(collector, state);
        }
        for collector in &reading.collectors {
            metrics.note_collector(collector.name, collector.state, &collector.message);
            if let Some(took) = collector.took {
                metrics.set_collect_duration(collector.name, took);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{metrics::Series, source::ProblemReason};

    #[test]
    fn a_problem_is_counted_once_until_it_is_resolved() {
        let metrics = Metrics::new().unwrap();
        let mut problems = Problems::default();
        let problem = Problem { reason: ProblemReason::Malformed, message: "no".into() };
        let bad = Reading { problems: BTreeMap::from([("a.yaml".into(), problem)]), ..Reading::default() };
        let mut counted = |reading| {
            problems.note("described", &reading, &metrics);
            let text = metrics.render(&BTreeMap::new(), Series::default()).unwrap();
            let of = |name: &str| {
                text.lines().find_map(|line| line.strip_prefix(name)).map(|n| n.trim().to_owned())
            };
            (
                of(r#"cairn_agent_collector_state{collector="described",state="ok"}"#).unwrap(),
                of(r#"cairn_agent_collect_errors_total{collector="described",reason="malformed"}"#)
                    .unwrap_or_default(),
                of(r#"cairn_agent_collect_errors_total{collector="described",reason="denied"}"#)
                    .unwrap_or_default(),
            )
        };
        let counts = |ok: &str, malformed: &str, denied: &str| (ok.into(), malformed.into(), denied.into());
        assert_eq!(counted(Ok(Reading::default())), counts("1", "0", "0"));
        assert_eq!(counted(Ok(bad.clone())), counts("0", "1", "0"));
        assert_eq!(counted(Ok(bad.clone())), counts("0", "1", "0"));
        assert_eq!(counted(Ok(Reading::default())), counts("1", "1", "0"));
        assert_eq!(counted(Ok(bad)), counts("0", "2", "0"));
        let denied = || SourceError::Unreadable {
            path: "folder".into(),
            source: std::io::ErrorKind::PermissionDenied.into(),
        };
        assert_eq!(counted(Err(denied())), counts("0", "2", "1"));
        assert_eq!(counted(Err(denied())), counts("0", "2", "1"));
    }
}
