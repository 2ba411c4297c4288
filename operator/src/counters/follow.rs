//! Follows each window length in use: observes actors twice in a window, and ticks once.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use counters::{LoadScale, MAX_WINDOWS, Roster, SampleRefusal};
use crds::ActorApplication;
use futures::channel::mpsc::UnboundedSender;
use jiff::Timestamp;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};
use world::{ApplicationKey, Exact, Policy};

use super::client::PrometheusClient;
use super::load_metrics::LoadMetrics;
use super::store::{LoadStore, NewWindow};
use super::tick::{TickResult, WindowQuery, tick};
use crate::plan::policies::store::Policies;
use crate::watch::caches::Caches;

/// How often new window lengths are looked for.
const DISCOVERY: Duration = Duration::from_secs(5);

/// Reads the counters of all applications.
pub struct Reader {
    /// The client of Prometheus.
    pub client: PrometheusClient,
    /// Selects the scrapes of actors.
    pub selector: String,
    /// Objects.
    pub caches: Arc<Caches>,
    /// Policies.
    pub policies: Arc<Policies>,
    /// The policy of applications that name none.
    pub default_policy: String,
    /// Where windows are kept.
    pub store: Arc<LoadStore>,
    /// Metrics.
    pub metrics: LoadMetrics,
    /// Gets each application after each of its windows, and when it is deleted.
    pub ticked: UnboundedSender<ApplicationKey>,
}

/// An application that is measured.
struct Followed {
    key: ApplicationKey,
    application: Arc<ActorApplication>,
    scale: LoadScale,
}

/// Progress of one window length.
struct WindowProgress {
    milliseconds: u64,
    /// When a window was last answered.
    answered: Instant,
    /// Evaluation time of the last window, in seconds of Prometheus' clock.
    newest: Option<f64>,
    /// How far Prometheus' clock was ahead of this machine's then, in seconds, at most.
    ahead: f64,
    /// Windows without an answer since.
    missed: usize,
    /// Evaluation time of the first answer, and the next earlier window to ask for.
    earlier: Option<(f64, usize)>,
}

/// The kind of a window that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadWindow {
    /// The next window.
    Next,
    /// No window that was not read before.
    Missing,
    /// The first window of Prometheus' present clock: no kept window can be compared with it.
    First,
}

impl WindowProgress {
    fn new(milliseconds: u64) -> Self {
        Self { milliseconds, answered: Instant::now(), newest: None, ahead: 0.0, missed: 0, earlier: None }
    }

    /// Advances past an answer that was evaluated at this second of Prometheus' clock, or after none.
    ///
    /// A cache in front of Prometheus may repeat an answer, and its clock may be set back: a window that overlaps the last one
    /// by more than half says nothing new. After as many misses as windows are kept, it is the first one.
    fn advance(&mut self, evaluated_at: Option<f64>) -> ReadWindow {
        #[expect(clippy::cast_precision_loss, reason = "a window is at most a day")]
        let half = self.milliseconds as f64 / 2000.0;
        let read = match (evaluated_at, self.newest) {
            (Some(at), Some(newest)) if at < newest + half => {
                if self.missed < MAX_WINDOWS {
                    ReadWindow::Missing
                } else {
                    ReadWindow::First
                }
            }
            (Some(_), _) => ReadWindow::Next,
            (None, _) => ReadWindow::Missing,
        };
        if read == ReadWindow::Missing {
            self.missed += 1;
            return read;
        }
        if read == ReadWindow::First {
            self.earlier = None;
        }
        (self.answered, self.newest, self.missed) = (Instant::now(), evaluated_at, 0);
        self.earlier = self.earlier.or(evaluated_at.map(|at| (at, 1)));
        read
    }
}

/// Reads counters until the process ends.
pub async fn run(reader: Arc<Reader>) {
    let mut tasks: BTreeMap<u64, JoinHandle<()>> = BTreeMap::new();
    let mut discovery = interval(DISCOVERY);
    loop {
        discovery.tick().await;
        tasks.retain(|_, task| !task.is_finished());
        let there = reader.followed();
        for deleted in reader.store.retain(|key| reader.caches.application(key).is_some()) {
            // It has no windows any more, so its load, costs and verdict are forgotten.
            let _ = reader.ticked.unbounded_send(deleted);
        }
        for followed in there {
            let milliseconds = followed.milliseconds();
            tasks.entry(milliseconds).or_insert_with(|| tokio::spawn(follow(reader.clone(), milliseconds)));
        }
    }
}

/// Follows one window length until no policy in use has it.
async fn follow(reader: Arc<Reader>, milliseconds: u64) {
    let half = Duration::from_millis(milliseconds) / 2;
    let mut steps = interval(half);
    steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut progress = WindowProgress::new(milliseconds);
    let window = format!("{}s", Duration::from_millis(milliseconds).as_secs_f64());
    let age = reader.metrics.age_seconds.with_label_values(&[&window]);
    for at in 0_u64.. {
        let begin = steps.tick().await;
        let followed = reader.followed();
        if !followed.iter().any(|followed| followed.milliseconds() == milliseconds) {
            break;
        }
        let followed: Arc<[Followed]> = followed.into();
        reader.observe(&followed, milliseconds).await;
        if at.is_multiple_of(2) {
            reader.read(&followed, &mut progress).await;
        }
        while begin.elapsed() < half && reader.read_earlier(&followed, &mut progress).await {}
        age.set(progress.answered.elapsed().as_secs_f64());
    }
    let _ = reader.metrics.age_seconds.remove_label_values(&[&window]);
}

impl Followed {
    fn milliseconds(&self) -> u64 {
        counters::round_up(self.scale.window_seconds * 1000.0).max(2)
    }
}

impl Reader {
    /// All applications under a valid policy.
    fn followed(&self) -> Vec<Followed> {
        let of = |application: Arc<ActorApplication>| {
            let key = ApplicationKey::of(&application);
            let policy = application.spec.policy.as_deref().unwrap_or(&self.default_policy);
            let (policy, _) = self.policies.in_force(policy, &key.namespace).ok()?;
            Some(Followed { key, application, scale: scale(&policy) })
        };
        self.caches.applications.state().into_iter().filter_map(of).collect()
    }

    async fn observe(self: &Arc<Self>, followed: &Arc<[Followed]>, milliseconds: u64) {
        let (reader, followed) = (self.clone(), followed.clone());
        let observe = move || {
            each_with_window(&followed, milliseconds, |_, one| {
                let members = world::members(&reader.caches.index(), &one.application);
                let uid = one.application.metadata.uid.as_deref().unwrap_or_default();
                reader.store.observe(&one.key, uid, &one.scale, members);
            });
        };
        // Fails only when the operator stops.
        let _ = tokio::task::spawn_blocking(observe).await;
    }

    /// Reads the window that ends now.
    async fn read(self: &Arc<Self>, followed: &Arc<[Followed]>, progress: &mut WindowProgress) {
        // Before the query: the answer may take long, and a change must not seem older than it is.
        let asked_at = Timestamp::now().as_duration().as_secs_f64();
        let answered = self.query(followed, progress.milliseconds, 0, None).await;
        let is_answered = answered.is_some();
        let evaluated = answered.and_then(|answer| Some((answer.evaluated_at?, answer)));
        let last = progress.newest;
        let read = progress.advance(evaluated.as_ref().map(|(at, _)| *at));
        let of_length = || followed.iter().filter(|it| it.milliseconds() == progress.milliseconds);
        if read == ReadWindow::First {
            of_length().for_each(|one| self.store.forget_windows(&one.key));
        }
        match evaluated {
            Some((ended_at, answer)) if read != ReadWindow::Missing => {
                progress.ahead = ended_at - asked_at;
                self.add(followed, progress, answer, (ended_at, false)).await;
            }
            repeated => {
                if is_answered {
                    // Errors were counted by the query.
                    self.refuse(SampleRefusal::Unanswered, 1);
                }
                if let Some((evaluated_at, _)) = repeated {
                    let message =
                        "Prometheus answered for a window that was read before; it counts as missing";
                    tracing::warn!(evaluated_at, last_evaluated_at = last, "{message}");
                }
                of_length().for_each(|one| self.store.add_missing(&one.key));
            }
        }
        for one in followed.iter().filter(|it| it.milliseconds() == progress.milliseconds) {
            // Without a receiver the process ends.
            let _ = self.ticked.unbounded_send(one.key.clone());
        }
    }

    /// Reads an earlier window, the newest first; false if there is none left, or Prometheus does not answer.
    async fn read_earlier(
        self: &Arc<Self>,
        followed: &Arc<[Followed]>,
        progress: &mut WindowProgress,
    ) -> bool {
        let Some((time, position)) = progress.earlier.filter(|(_, position)| *position < MAX_WINDOWS) else {
            return false;
        };
        progress.earlier = Some((time, position + 1));
        let offset = progress.milliseconds * position as u64;
        let Some(answer) = self.query(followed, progress.milliseconds, offset, Some(time)).await else {
            return false;
        };
        #[expect(clippy::cast_precision_loss, reason = "at most 16 windows of a day")]
        let ended_at = time - offset as f64 / 1000.0;
        self.add(followed, progress, answer, (ended_at, true)).await;
        true
    }

    /// The samples of a window.
    async fn query(
        self: &Arc<Self>,
        followed: &Arc<[Followed]>,
        milliseconds: u64,
        offset_milliseconds: u64,
        time: Option<f64>,
    ) -> Option<TickResult> {
        let _timer = self.metrics.tick_seconds.start_timer();
        let (reader, all) = (self.clone(), followed.clone());
        // All applications: the samples of those with another window are no strangers.
        let roster = move || {
            let index = reader.caches.index();
            Roster::new(all.iter().map(|one| world::running_actors(&index, &one.application)).collect())
        };
        let roster = Arc::new(tokio::task::spawn_blocking(roster).await.ok()?);
        let query = WindowQuery { selector: self.selector.clone(), milliseconds, offset_milliseconds, time };
        match tick(&self.client, &query, roster).await {
            Ok(answer) => Some(answer),
            Err(error) => {
                if let Some(refusal) = error.refusal() {
                    self.refuse(refusal, 1);
                }
                tracing::warn!(error = chain(&error), "no counters for a window");
                None
            }
        }
    }

    fn refuse(&self, refusal: SampleRefusal, count: u64) {
        self.metrics.refused.with_label_values(&[<&str>::from(refusal)]).inc_by(count);
    }

    /// Adds the windows of all applications with this length; `is_earlier` if they ended before the last observation.
    async fn add(
        self: &Arc<Self>,
        followed: &Arc<[Followed]>,
        progress: &WindowProgress,
        answer: TickResult,
        (ended_at, is_earlier): (f64, bool),
    ) {
        // Pods that ended since are no strangers.
        for (refusal, count) in answer.collected.refused.iter().filter(|_| !is_earlier) {
            self.refuse(*refusal, *count);
        }
        let (reader, followed) = (self.clone(), followed.clone());
        let (milliseconds, ahead) = (progress.milliseconds, progress.ahead);
        let add = move || {
            each_with_window(&followed, milliseconds, |at, one| {
                let Some(collected) = answer.collected.windows.get(at) else { return };
                let last_change = world::last_change(&reader.caches.index(), &one.application);
                let last_change = last_change.map(|time| time.as_duration().as_secs_f64());
                let window = NewWindow { ended_at, collected, last_change, ahead, is_earlier };
                reader.store.add(&one.key, &window);
            });
        };
        let _ = tokio::task::spawn_blocking(add).await;
    }
}

/// Does some work for each application with windows of this length, by its position. One that panics loses its own window only.
fn each_with_window(followed: &[Followed], milliseconds: u64, work: impl Fn(usize, &Followed)) {
    for (at, one) in followed.iter().enumerate().filter(|(_, one)| one.milliseconds() == milliseconds) {
        // The panic itself is logged by the process.
        if catch_unwind(AssertUnwindSafe(|| work(at, one))).is_err() {
            tracing::error!(application = %one.key, "reading counters panicked; the window of the application is lost");
        }
    }
}

/// The scale of a policy.
fn scale(policy: &Policy) -> LoadScale {
    LoadScale {
        window_seconds: float(policy.window) / 1e6,
        message_quantum: float(policy.message_quantum),
        annoyance: policy.annoyance.clone(),
    }
}

fn float(exact: Exact) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "measured numbers have 24 bits")]
    let float = *exact.numer() as f64 / *exact.denom() as f64;
    float
}

/// An error and its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text = format!("{text}: {source}");
        cause = source.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_that_panics_keeps_no_window_from_the_others() {
        let followed = |name: &str| Followed {
            key: ApplicationKey { namespace: "n".to_owned(), name: name.to_owned() },
            application: Arc::new(ActorApplication::new(name, crds::ActorApplicationSpec::default())),
            scale: scale(&Policy::builtin("p")),
        };
        let all = ["a", "b", "c"].map(followed);
        let seen = std::sync::Mutex::new(Vec::new());
        each_with_window(&all, 30_000, |at, one| {
            assert_ne!(at, 1, "its data panics");
            seen.lock().unwrap().push(one.key.name.clone());
        });
        assert_eq!(*seen.lock().unwrap(), ["a", "c"]);
        each_with_window(&all, 10_000, |_, one| panic!("{} has another window", one.key));
    }

    /// Answers evaluated at these seconds, for windows of ten seconds; `None` is no answer.
    #[test]
    fn a_window_is_counted_once_and_a_clock_that_was_set_back_begins_anew() {
        use ReadWindow::{First, Missing, Next};
        let mut progress = WindowProgress::new(10_000);
        let mut advance = |times: &[Option<f64>]| -> Vec<ReadWindow> {
            times.iter().map(|time| progress.advance(*time)).collect()
        };
        assert_eq!(advance(&[Some(1000.0), Some(1010.0), Some(1019.0)]), [Next; 3]);
        assert_eq!(
            advance(&[Some(1019.0), Some(1023.9), None, Some(1024.1)]),
            [Missing, Missing, Missing, Next]
        );
        // Ten minutes back.
        assert_eq!(advance(&[Some(424.0); MAX_WINDOWS]), [Missing; MAX_WINDOWS]);
        assert_eq!(advance(&[Some(600.0), Some(610.0), Some(610.0)]), [First, Next, Missing]);
        assert_eq!(
            progress.earlier,
            Some((600.0, 1)),
            "windows before the clock was set back are not asked for"
        );
    }
}
