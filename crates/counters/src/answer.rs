//! The answer of Prometheus to an instant query.

use std::borrow::Cow;

use serde::Deserialize;

use crate::sample::Sample;

/// Accepted samples of one answer.
pub const MAX_SAMPLES: usize = 200_000;

/// Prefix of warnings about the data of single series, which leave the answer complete.
const ABOUT_DATA: &str = "PromQL ";

/// Why an answer is not used.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// It is no answer to an instant query.
    #[error("Prometheus answers something else than an instant vector")]
    Format(#[source] serde_json::Error),
    /// Prometheus refuses the query.
    #[error("Prometheus refuses the query: {0}")]
    Refused(String),
    /// It has too many samples or bytes, or a warning says that it is incomplete.
    #[error("the answer is incomplete: {0}")]
    Incomplete(String),
}

/// A parsed answer.
#[derive(Debug, PartialEq)]
pub struct VectorAnswer<'a> {
    series: Vec<VectorElement<'a>>,
}

#[derive(Deserialize)]
struct Body<'a> {
    status: Cow<'a, str>,
    #[serde(borrow, default)]
    data: Option<Data<'a>>,
    #[serde(default)]
    error: String,
    #[serde(default)]
    warnings: Vec<String>,
}

#[derive(Deserialize)]
struct Data<'a> {
    #[serde(borrow)]
    result: Vec<VectorElement<'a>>,
}

/// A series of an instant vector.
#[derive(Debug, PartialEq, Deserialize)]
struct VectorElement<'a> {
    #[serde(borrow)]
    metric: SampleLabels<'a>,
    #[serde(borrow)]
    value: (f64, Cow<'a, str>),
}

/// The labels that queries group by.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct SampleLabels<'a> {
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    #[serde(borrow)]
    pod: Cow<'a, str>,
    #[serde(borrow)]
    actor: Cow<'a, str>,
    #[serde(borrow)]
    peer: Cow<'a, str>,
}

impl<'a> VectorAnswer<'a> {
    /// Parses an answer.
    ///
    /// # Errors
    /// It is an error, malformed, or incomplete.
    pub fn parse(body: &'a [u8]) -> Result<Self, AnswerError> {
        let body: Body = serde_json::from_slice(body).map_err(AnswerError::Format)?;
        if body.status != "success" {
            return Err(AnswerError::Refused(body.error));
        }
        if let Some(warning) = body.warnings.into_iter().find(|warning| !warning.starts_with(ABOUT_DATA)) {
            return Err(AnswerError::Incomplete(warning));
        }
        let series = body.data.map(|data| data.result).unwrap_or_default();
        if series.len() > MAX_SAMPLES {
            return Err(AnswerError::Incomplete(format!("more than {MAX_SAMPLES} series")));
        }
        Ok(Self { series })
    }

    /// When Prometheus evaluated the query, in seconds of its clock; `None` if the answer is empty.
    pub fn evaluated_at(&self) -> Option<f64> {
        self.series.first().map(|element| element.value.0)
    }

    /// The samples; a value that is not a number is NaN.
    pub fn samples(&self) -> impl Iterator<Item = Sample<'_>> {
        self.series.iter().map(|element| Sample {
            namespace: &element.metric.namespace,
            pod: &element.metric.pod,
            actor: &element.metric.actor,
            peer: &element.metric.peer,
            // Rust parses `NaN`, `+Inf` and `-Inf` as Prometheus writes them.
            value: element.value.1.parse().unwrap_or(f64::NAN),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(body: &str) -> String {
        match VectorAnswer::parse(body.as_bytes()) {
            Ok(answer) => {
                let samples = answer.samples().map(|sample| {
                    let Sample { namespace, pod, actor, peer, value } = sample;
                    format!("{namespace} {pod} {actor} {peer} {value}")
                });
                let samples: Vec<String> = samples.collect();
                format!("{:?}: {}", answer.evaluated_at(), samples.join("; "))
            }
            Err(e) => e.to_string(),
        }
    }

    #[test]
    fn answers_are_samples_or_errors() {
        let vector = |result: &str, rest: &str| {
            format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{result}]}}{rest}}}"#)
        };
        let one = r#"{"metric":{"namespace":"n","pod":"p","actor":"a","peer":"n/b/c"},"value":[5.25,"7.5"]}"#;
        let odd = r#"{"metric":{"pod":"\u0070"},"value":[5.25,"NaN"]},{"metric":{},"value":[5.25,"+Inf"]},{"metric":{"x":"y"},"value":[5.25,"x"]}"#;
        for (body, expected) in [
            (vector("", ""), "None: "),
            (vector(one, ""), "Some(5.25): n p a n/b/c 7.5"),
            (vector(odd, ""), "Some(5.25):  p   NaN;     inf;     NaN"),
            (vector(one, r#","infos":["PromQL info: x"]"#), "Some(5.25): n p a n/b/c 7.5"),
            (
                vector(one, r#","warnings":["PromQL warning: encountered a mix of histograms and floats"]"#),
                "Some(5.25): n p a n/b/c 7.5",
            ),
            (
                vector(one, r#","warnings":["results truncated due to limit"]"#),
                "the answer is incomplete: results truncated due to limit",
            ),
            (
                r#"{"status":"error","errorType":"timeout","error":"query timed out"}"#.to_owned(),
                "Prometheus refuses the query: query timed out",
            ),
            ("<html>".to_owned(), "Prometheus answers something else than an instant vector"),
            (vector(one, "")[..80].to_owned(), "Prometheus answers something else than an instant vector"),
        ] {
            assert_eq!(shown(&body), expected, "{body}");
        }
        let many = vec![one; MAX_SAMPLES + 1].join(",");
        assert_eq!(shown(&vector(&many, "")), "the answer is incomplete: more than 200000 series");
    }
}
