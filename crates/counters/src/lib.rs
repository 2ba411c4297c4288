//! Measured load of applications: from the counters of their actors to the numbers of a snapshot.
//!
//! [`VectorAnswer`] is the answer of Prometheus to a query. [`Collector`] joins the samples of one window to the running
//! actors of a [`Roster`] and checks them; [`Windows`] keeps the last 16 windows of an application; [`Windows::measure`]
//! computes [`MeasuredNumbers`], and [`Windows::has_changed`] whether the load changed since the last search. [`Gamma`] and
//! [`demand`] are the APO paper's definitions, which the simulator uses too.
//!
//! Pure: no clock, no client, no Kubernetes. Times are seconds of Prometheus' clock, and come with the samples.

mod answer;
mod collect;
mod demand;
mod difference;
mod export;
mod gamma;
mod measure;
mod measured_before;
mod membership;
mod messages;
mod missing_reports;
mod numbers;
mod roster;
mod rounding;
mod sample;
mod series;
mod window;
mod windows;
mod work;

pub use answer::{AnswerError, MAX_SAMPLES, VectorAnswer};
pub use collect::{Collected, Collector, MAX_PAIRS_OF_POD};
pub use demand::demand;
pub use difference::{LoadDifference, MeasuredLoad};
pub use export::{ActorEntry, PairEntry, WindowEntry, WindowsFile};
pub use gamma::{AnnoyanceScale, Gamma, GammaError};
pub use membership::MembershipTracker;
pub use numbers::{GroupProfile, KindProfile, MeasuredGroup, MeasuredNumbers};
pub use roster::{Roster, RosterApplication, RunningActor};
pub use rounding::round_up;
pub use sample::{Sample, SampleRefusal};
pub use series::{ALL_SERIES, CounterSeries};
pub use window::{CollectedWindow, PairCounts};
pub use windows::{LoadScale, MAX_WINDOWS, MIN_SCRAPES, WindowChoice, WindowSummary, Windows};
