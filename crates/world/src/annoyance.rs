//! Parameters of a policy about annoyance (APO paper, section III-C).

use counters::{AnnoyanceScale, Gamma};
use serde::Deserialize;

use crate::numbers::{Exact, duration, floor};

/// The largest duration: a minute.
const LONGEST: i128 = 60_000_000;

/// How counters of lost time become annoyance.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct AnnoyanceParameters {
    /// λ: the duration of a useful task.
    baseline: Option<String>,
    time_lost: TimeLost,
    weights: AnnoyanceWeights,
}

/// What one event loses.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct TimeLost {
    rollbacks: Option<String>,
    null_messages: Option<String>,
}

/// The weights γ.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct AnnoyanceWeights {
    rollbacks: Option<String>,
    null_messages: Option<String>,
    idle: Option<String>,
}

impl AnnoyanceParameters {
    /// The scale; absent parameters have the paper's values.
    ///
    /// # Errors
    /// The field, and its problem.
    pub(crate) fn resolve(&self) -> Result<AnnoyanceScale, (&'static str, String)> {
        let nanoseconds = |field, text: &Option<String>, default: u64| {
            let Some(text) = text else { return Ok(default) };
            let exact = duration(text).map_err(|e| (field, e.to_string()))?;
            if exact > Exact::from(LONGEST) {
                return Err((field, format!("`{text}` is longer than a minute; choose a shorter one")));
            }
            match floor(exact * Exact::from(1000)) {
                0 => Err((field, format!("`{text}` is below a nanosecond; choose a longer one"))),
                nanoseconds => Ok(nanoseconds),
            }
        };
        let given = AnnoyanceScale::default();
        let weight = |text: &Option<String>| text.clone().unwrap_or_else(|| "1".to_owned());
        let weights = &self.weights;
        let gamma =
            Gamma::new(&weight(&weights.rollbacks), &weight(&weights.null_messages), &weight(&weights.idle));
        Ok(AnnoyanceScale {
            gamma: gamma.map_err(|e| ("annoyance.weights", e.to_string()))?,
            baseline_nanoseconds: nanoseconds(
                "annoyance.baseline",
                &self.baseline,
                given.baseline_nanoseconds,
            )?,
            rollback_nanoseconds: nanoseconds(
                "annoyance.timeLost.rollbacks",
                &self.time_lost.rollbacks,
                given.rollback_nanoseconds,
            )?,
            null_message_nanoseconds: nanoseconds(
                "annoyance.timeLost.nullMessages",
                &self.time_lost.null_messages,
                given.null_message_nanoseconds,
            )?,
        })
    }
}
