//! What can go wrong in one reconcile: a variant per step, the cause in `source`.

use std::time::Duration;

use placement::PlanError;
use world::WorldError;

/// The condition of an application that is more than is planned at once.
pub const TOO_LARGE: &str = "TooLarge";

/// Why a reconcile did not come to its end.
#[derive(Debug, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
pub enum Error {
    /// This operator does not lead any more.
    #[error("the lease is lost; nothing is written")]
    NotLeading,
    /// The policy is missing or was never sound.
    #[error("{0}")]
    Policy(String),
    /// The application cannot be planned as it is written.
    #[error(transparent)]
    World(#[from] WorldError),
    /// There is no feasible plan.
    #[error("no plan")]
    Plan(#[from] PlanError),
    /// Two that must agree on a plan do not.
    #[error("{0}")]
    Mismatch(String),
    /// An object that is not ours has a name that we need.
    #[error("{0}; remove or rename it")]
    NameTaken(String),
    /// Admission says no to the decision.
    #[error("{0}")]
    Refused(String),
    /// Others changed the world faster than a plan could be committed.
    #[error("the world changed while the plan was made; it is made again")]
    Overtaken,
    /// The API server did not say what was asked.
    #[error("cannot read {what}")]
    Observe {
        /// What was asked for.
        what: &'static str,
        /// What it said.
        #[source]
        source: kube::Error,
    },
    /// The API server did not take what was written.
    #[error("cannot write {what}")]
    Apply {
        /// Kind and name.
        what: String,
        /// What it said.
        #[source]
        source: kube::Error,
    },
    /// The search broke down.
    #[error("the search broke down: {0}")]
    Search(String),
}

impl Error {
    /// `NotLeading`, `Policy`, …: bounded, so safe as a metric label and an event reason.
    pub fn reason(&self) -> &'static str {
        self.into()
    }

    /// The reason of the condition `Accepted`: what people can look up.
    pub fn condition_reason(&self) -> &'static str {
        if matches!(self, Self::World(WorldError::TooLarge(_))) { TOO_LARGE } else { self.reason() }
    }

    /// Whether it lies in what is planned, so that people are told and it is tried again when something has changed or much later.
    pub fn is_reported(&self) -> bool {
        matches!(
            self,
            Self::World(_)
                | Self::Policy(_)
                | Self::Plan(_)
                | Self::Search(_)
                | Self::NameTaken(_)
                | Self::Refused(_)
                | Self::Mismatch(_)
        )
    }

    /// Whether admission says no, which may change at any time: who raises a quota tells nobody.
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Refused(_))
    }

    /// The message with its causes, for people.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(source) = cause {
            text = format!("{text}: {source}");
            cause = source.source();
        }
        text
    }

    /// After how long to try again, the first time.
    pub fn initial_backoff(&self) -> Duration {
        match self {
            Self::Overtaken => Duration::from_millis(50),
            _ => Duration::from_secs(2),
        }
    }

    /// After how long to try again at the latest, where it fails again and again.
    pub fn max_backoff(&self) -> Duration {
        match self {
            Self::NotLeading | Self::Overtaken => Duration::from_secs(2),
            Self::Refused(_) => Duration::from_mins(1),
            _ => Duration::from_secs(30),
        }
    }
}

/// What failed of one reconcile and keeps nothing else of it from being done: it is told when all else was.
#[derive(Debug, Default)]
pub struct Failures(Option<Error>);

impl Failures {
    /// What was done, or nothing where that failed, which is kept.
    ///
    /// # Errors
    /// When the lease is lost: nothing more may be done then.
    pub fn keep<T>(&mut self, done: Result<T, Error>) -> Result<Option<T>, Error> {
        match done {
            Ok(done) => Ok(Some(done)),
            Err(Error::NotLeading) => Err(Error::NotLeading),
            Err(failure) => {
                if self.0.is_none() {
                    self.0 = Some(failure);
                } else {
                    // The first one is told in the end.
                    tracing::warn!(error = failure.chain(), "this failed as well");
                }
                Ok(None)
            }
        }
    }

    /// What was done, or the first failure that was kept.
    ///
    /// # Errors
    /// When something failed.
    pub fn or<T>(self, done: T) -> Result<T, Error> {
        match self.0 {
            Some(failure) => Err(failure),
            None => Ok(done),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_is_told_in_the_end_and_a_lost_lease_at_once() {
        let search = |why: &str| Error::Search(why.to_owned());
        let mut failures = Failures::default();
        assert!(matches!(failures.keep(Ok(1)), Ok(Some(1))));
        assert!(matches!(failures.keep::<()>(Err(search("first"))), Ok(None)));
        assert!(matches!(failures.keep(Ok(2)), Ok(Some(2))), "the rest is done all the same");
        assert!(matches!(failures.keep::<()>(Err(Error::Overtaken)), Ok(None)));
        assert!(matches!(failures.keep::<()>(Err(Error::NotLeading)), Err(Error::NotLeading)));
        assert!(matches!(failures.or(()), Err(Error::Search(why)) if why == "first"));
        assert!(matches!(Failures::default().or(3), Ok(3)));
    }
}
