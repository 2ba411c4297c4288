//! Errors of a reconcile: one variant per step, with the cause in `source`.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use placement::{JudgeError, PlanError};
use world::AssembleError;

/// The condition of an application that exceeds the planning limits.
pub const TOO_LARGE: &str = "TooLarge";

/// Why a reconcile failed.
#[derive(Debug, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
pub enum Error {
    /// This replica is not the leader any more.
    #[error("the lease is lost; nothing is written")]
    NotLeading,
    /// The policy is missing, or was never valid.
    #[error("{0}")]
    Policy(String),
    /// The application's manifest cannot be planned.
    #[error(transparent)]
    World(#[from] AssembleError),
    /// There is no feasible plan.
    #[error("no plan")]
    Plan(#[source] PlanError),
    /// No placement obeys the policy.
    #[error("no plan")]
    Disobeyed(#[source] PlanError),
    /// The planner and clingo disagree on a plan.
    #[error("{0}")]
    Mismatch(String),
    /// A foreign object has a name that this application needs.
    #[error("{0}; remove or rename it")]
    NameTaken(String),
    /// Admission refuses the Placement.
    #[error("{0}")]
    Refused(String),
    /// The cluster changed faster than a plan could be committed.
    #[error("the cluster changed while the plan was made; planning again")]
    Overtaken,
    /// A read from the API server failed.
    #[error("failed to read {what}")]
    Observe {
        /// What was read.
        what: &'static str,
        /// The cause.
        #[source]
        source: kube::Error,
    },
    /// A write to the API server failed.
    #[error("failed to write {what}")]
    Apply {
        /// Kind and name.
        what: String,
        /// The cause.
        #[source]
        source: kube::Error,
    },
    /// The search failed.
    #[error("the search failed: {0}")]
    Search(String),
    /// Other work on an application panicked.
    #[error("{0} panicked, which is a defect; see the operator's log")]
    Panicked(&'static str),
}

impl From<PlanError> for Error {
    fn from(error: PlanError) -> Self {
        if matches!(error, PlanError::Disobeyed { .. }) { Self::Disobeyed(error) } else { Self::Plan(error) }
    }
}

/// The result of `work`; a panic is the error `panicked`, so that it fails for one application only.
pub async fn catch_panic<T>(
    work: impl Future<Output = Result<T, Error>>,
    panicked: Error,
) -> Result<T, Error> {
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or(Err(panicked))
}

impl Error {
    /// `NotLeading`, `Policy`, …: bounded, so safe as a metric label and an event reason.
    pub fn reason(&self) -> &'static str {
        self.into()
    }

    /// The reason of the condition `Accepted`.
    pub fn condition_reason(&self) -> &'static str {
        if matches!(self, Self::World(AssembleError::TooLarge(_))) { TOO_LARGE } else { self.reason() }
    }

    /// Whether the cause lies in what is planned. It is then reported, and retried on a change or after a long delay.
    pub fn is_reported(&self) -> bool {
        matches!(
            self,
            Self::World(_)
                | Self::Policy(_)
                | Self::Plan(_)
                | Self::Disobeyed(_)
                | Self::Search(_)
                | Self::Panicked(_)
                | Self::NameTaken(_)
                | Self::Refused(_)
                | Self::Mismatch(_)
        )
    }

    /// Whether it may pass without an event, so that it is retried with backoff: admission refuses it, and a quota may be
    /// raised; or the search or other work panicked, or the search or clingo ran out of memory or time.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Search(_) | Self::Panicked(_)) || self.has_no_verdict()
    }

    /// Whether clingo gave no verdict on a plan although the policy requires one.
    fn has_no_verdict(&self) -> bool {
        matches!(self, Self::Plan(PlanError::Judge(JudgeError::Evaluation(_) | JudgeError::Unjudged)))
    }

    /// What to tell users if a request to the API server failed, or work panicked.
    fn failed_work(&self) -> Option<String> {
        match self {
            // The chain would repeat the answer as a data structure.
            Self::Observe { source: kube::Error::Api(answer), .. }
            | Self::Apply { source: kube::Error::Api(answer), .. } => {
                Some(format!("{self}: {}", answer.message))
            }
            Self::Observe { .. } | Self::Apply { .. } => Some(self.chain()),
            Self::Panicked(_) => Some(self.to_string()),
            _ => None,
        }
    }

    /// The message with its chain of causes.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(source) = cause {
            text = format!("{text}: {source}");
            cause = source.source();
        }
        text
    }

    /// The first retry delay.
    pub fn initial_backoff(&self) -> Duration {
        match self {
            Self::Overtaken => Duration::from_millis(50),
            _ => Duration::from_secs(2),
        }
    }

    /// The longest retry delay.
    pub fn max_backoff(&self) -> Duration {
        match self {
            Self::NotLeading | Self::Overtaken => Duration::from_secs(2),
            Self::Refused(_) => Duration::from_mins(1),
            Self::Search(_) | Self::Panicked(_) => Duration::from_mins(5),
            _ if self.has_no_verdict() => Duration::from_mins(5),
            _ => Duration::from_secs(30),
        }
    }
}

/// How many failures an event names.
const MOST_NAMED: usize = 3;

/// Reason and note of the event about requests that failed, or about a panic; nothing if these errors are of another kind.
pub fn failed_work(errors: &[Error]) -> Option<(&'static str, String)> {
    let mut notes: Vec<String> = errors.iter().filter_map(Error::failed_work).collect();
    let first = errors.iter().find(|error| error.failed_work().is_some())?;
    let reason = if matches!(first, Error::Panicked(_)) { first.reason() } else { "RequestFailed" };
    let more = notes.len().saturating_sub(MOST_NAMED);
    notes.truncate(MOST_NAMED);
    notes.extend((more > 0).then(|| format!("{more} more requests failed")));
    Some((reason, format!("{}; retrying", notes.join("; "))))
}

/// The errors of a reconcile whose remaining steps still run; returned at the end.
#[derive(Debug, Default)]
pub struct Failures(Vec<Error>);

impl Failures {
    /// Whether no step failed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value, or nothing if the step failed; the error is kept.
    ///
    /// # Errors
    /// When the lease is lost: nothing more may be written.
    pub fn keep<T>(&mut self, done: Result<T, Error>) -> Result<Option<T>, Error> {
        match done {
            Ok(done) => Ok(Some(done)),
            Err(Error::NotLeading) => Err(Error::NotLeading),
            Err(failure) => {
                self.0.push(failure);
                Ok(None)
            }
        }
    }

    /// The value, or what ended the reconcile and all errors that were kept.
    ///
    /// # Errors
    /// When a step failed.
    pub fn or<T>(mut self, done: Result<T, Error>) -> Result<T, Vec<Error>> {
        match done {
            Ok(done) if self.0.is_empty() => Ok(done),
            Ok(_) => Err(self.0),
            Err(failure) => {
                self.0.insert(0, failure);
                Err(self.0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_request_is_described_by_the_answer() {
        let answer =
            serde_json::from_value(serde_json::json!({"message": "failed calling webhook", "code": 500}));
        let source = kube::Error::Api(Box::new(answer.unwrap()));
        let failed = Error::Apply { what: "Placement app".to_owned(), source };
        let failed = [Error::Overtaken, failed, Error::Panicked("the reconcile")];
        let named = |errors: &[Error]| failed_work(errors);
        let one = "failed to write Placement app: failed calling webhook";
        assert_eq!(named(&failed[..1]), None);
        assert_eq!(named(&failed[..2]), Some(("RequestFailed", format!("{one}; retrying"))));
        let panicked = "the reconcile panicked, which is a defect; see the operator's log; retrying";
        assert_eq!(named(&failed[2..]), Some(("Panicked", panicked.to_owned())));
        assert_eq!(named(&failed), Some(("RequestFailed", format!("{one}; {panicked}"))));
        let many: Vec<Error> = (0..5).map(|_| Error::Panicked("the reconcile")).collect();
        let (_, note) = named(&many).unwrap();
        assert!(note.ends_with("see the operator's log; 2 more requests failed; retrying"), "{note}");
    }

    #[tokio::test]
    async fn a_panic_is_an_error_of_its_application() {
        let panics = futures::future::lazy(|_| -> Result<(), Error> { panic!("a bug") });
        let failed = catch_panic(panics, Error::Panicked("the reconcile")).await.unwrap_err();
        assert_eq!((failed.reason(), failed.is_reported(), failed.may_pass()), ("Panicked", true, true));
        assert!(matches!(catch_panic(async { Ok(1) }, Error::Overtaken).await, Ok(1)));
    }

    #[test]
    fn missing_verdicts_are_retried_and_wrong_plans_are_not() {
        let judge = |error| Error::Plan(PlanError::Judge(error));
        let disobeyed = PlanError::Disobeyed { strategy: "asp", violations: Vec::new() };
        for (error, expected) in [
            (judge(JudgeError::Evaluation("killed".to_owned())), true),
            (judge(JudgeError::Unjudged), true),
            (judge(JudgeError::Policy("no such predicate".to_owned())), false),
            (Error::from(disobeyed), false),
            (Error::Search("it panicked".to_owned()), true),
            (Error::Panicked("planning"), true),
            (Error::Mismatch("1 is not 2".to_owned()), false),
        ] {
            assert!(error.is_reported());
            assert_eq!(error.may_pass(), expected, "{error}");
            let longest = Duration::from_secs(if expected { 300 } else { 30 });
            assert_eq!(error.max_backoff(), longest, "{error}");
        }
    }

    #[test]
    fn errors_are_returned_at_the_end_and_a_lost_lease_at_once() {
        let search = |why: &str| Error::Search(why.to_owned());
        let mut failures = Failures::default();
        assert!(matches!(failures.keep(Ok(1)), Ok(Some(1))));
        assert!(matches!(failures.keep::<()>(Err(search("first"))), Ok(None)));
        assert!(matches!(failures.keep(Ok(2)), Ok(Some(2))), "the rest is done all the same");
        assert!(matches!(failures.keep::<()>(Err(Error::Overtaken)), Ok(None)));
        assert!(matches!(failures.keep::<()>(Err(Error::NotLeading)), Err(Error::NotLeading)));
        let reasons = |errors: Vec<Error>| errors.iter().map(Error::reason).collect::<Vec<_>>();
        let all = failures.or::<()>(Err(Error::NotLeading)).unwrap_err();
        assert_eq!(reasons(all), ["NotLeading", "Search", "Overtaken"]);
        let kept = Failures(vec![search("first"), Error::Overtaken]).or(Ok(())).unwrap_err();
        assert_eq!(reasons(kept), ["Search", "Overtaken"]);
        assert!(matches!(Failures::default().or(Ok(3)), Ok(3)));
    }

    #[test]
    fn a_policy_that_cannot_be_obeyed_has_a_reason_of_its_own() {
        let reason = |error: PlanError| Error::from(error).reason();
        let violations = Vec::new;
        assert_eq!(reason(PlanError::Disobeyed { strategy: "asp", violations: violations() }), "Disobeyed");
        assert_eq!(reason(PlanError::Infeasible { strategy: "asp", violations: violations() }), "Plan");
    }
}
