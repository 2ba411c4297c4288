//! A trap: an actor that becomes three times slower at its new place. The outcome is a loss, and few moves follow.

use std::time::Duration;

use control::{
    CHANGE_WINDOWS, JUDGED_WINDOWS, RealisedGain, RealisedMoves, gains_by_level, has_grown, is_slower,
    mean_gain, wait_after_failures,
};
use counters::WindowChoice;
use fastrand::Rng;
use placement::Assignment;
use placement::ix::UnitIx;
use simulator::load::{
    ACTORS, DecisionRule, LoadPlanning, LoadWorld, MeasuredApplication, Noise, NoiseProcess, TERMS,
    WINDOW_SECONDS, WindowTraffic, planned,
};

/// Windows in three hours.
const WINDOWS: usize = 360;
/// Windows before the actor is hot.
const BEFORE: usize = 20;
/// The slowdown of a moved actor.
const SLOWER: f64 = 3.0;

/// A decision that is not judged yet.
struct Moved {
    /// The first settled window after it, counted from the first window.
    settled_from: usize,
    stays: Assignment,
    goes: Assignment,
    expected: f64,
    /// Messages in a second before.
    messages: f64,
    /// By mover: its service time before.
    services: Vec<(usize, f64)>,
}

fn places(assignment: &Assignment) -> Vec<Option<usize>> {
    assignment.iter().map(|unit| unit.map(UnitIx::at)).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "small numbers")]
fn percent(gain: f64) -> i64 {
    (gain * 100.0).round() as i64
}

fn seconds(windows: usize) -> Duration {
    Duration::from_secs_f64(u32::try_from(windows).map_or(f64::MAX, f64::from) * WINDOW_SECONDS)
}

/// One application with a hot pair on two units, whose actors are slower on any unit but their first.
struct Trap {
    world: LoadWorld,
    first: Vec<Option<usize>>,
    current: Vec<Option<usize>>,
    application: MeasuredApplication,
    planning: LoadPlanning,
    moves: usize,
    outcomes: Vec<RealisedGain>,
    moved: Option<Moved>,
    failures: usize,
    waits_until: Duration,
}

impl Trap {
    /// The traffic of a window: a moved actor works three times as long and exchanges a third of the messages.
    fn traffic(&self, mean: &WindowTraffic) -> WindowTraffic {
        let mut traffic = mean.clone();
        for actor in (0..ACTORS).filter(|actor| self.current[*actor] != self.first[*actor]) {
            traffic.work[actor] *= SLOWER;
            for peer in 0..ACTORS {
                traffic.messages[actor][peer] /= SLOWER;
                traffic.messages[peer][actor] /= SLOWER;
            }
        }
        traffic
    }

    /// Messages between the actors in a second; the simulated counter of processed messages is constant.
    fn messages(&self, choice: WindowChoice) -> f64 {
        self.application.windows.load(choice).total_messages() / WINDOW_SECONDS
    }

    fn service(&self, actor: usize, choice: WindowChoice) -> f64 {
        let name = simulator::load::name(actor);
        self.application.windows.service_microseconds(&name, choice).unwrap()
    }

    fn decide(&mut self, window: usize) {
        let found = self.planning.decide(&self.world, &self.application, &self.current, window).unwrap();
        let Some((decision, expected)) = found.filter(|_| seconds(window) >= self.waits_until) else {
            return;
        };
        let (stays, goes) = (places(&decision.stays), places(&decision.goes));
        let movers: Vec<usize> = (0..ACTORS).filter(|actor| stays[*actor] != goes[*actor]).collect();
        self.moves += movers.len();
        self.moved = Some(Moved {
            settled_from: window + 2,
            expected,
            messages: self.messages(WindowChoice::Newest(CHANGE_WINDOWS)),
            services: movers
                .into_iter()
                .map(|mover| (mover, self.service(mover, WindowChoice::All)))
                .collect(),
            stays: decision.stays.clone(),
            goes: decision.goes.clone(),
        });
        self.current = goes;
        self.application.windows.keep_newest(0);
    }

    fn judge(&mut self, window: usize) {
        let Some(moved) = self.moved.take_if(|it| window + 1 >= it.settled_from + JUDGED_WINDOWS) else {
            return;
        };
        let windows = 0..JUDGED_WINDOWS;
        let gains: Vec<Vec<f64>> = windows
            .clone()
            .map(|at| {
                let of = WindowChoice::One(at);
                let snapshot = self.application.snapshot(&self.world, of, &self.current).unwrap();
                gains_by_level(&snapshot, (&moved.stays, &moved.goes))
            })
            .collect();
        let newest = WindowChoice::Newest(JUDGED_WINDOWS);
        let has_grown = has_grown(Some(moved.messages), self.messages(newest), TERMS.least);
        let result = RealisedMoves {
            expected_percent: percent(moved.expected),
            realised_percent: percent(mean_gain(&gains, TERMS.least, has_grown)),
            messages_before: Some(moved.messages),
            messages_after: self.messages(newest),
            has_slower_mover: moved
                .services
                .iter()
                .any(|(mover, before)| is_slower(*before, self.service(*mover, newest))),
        };
        let gain = result.gain(TERMS.least);
        self.failures = if gain == RealisedGain::Paid { 0 } else { self.failures + 1 };
        self.waits_until =
            seconds(window) + wait_after_failures(self.failures, Duration::from_secs_f64(WINDOW_SECONDS));
        self.outcomes.push(gain);
    }
}

/// Three hours; the number of moves, and the outcomes of decisions. `None` if the best placement has all actors on one unit.
fn three_hours(seed: u64) -> Option<(usize, Vec<RealisedGain>)> {
    let mut rng = Rng::with_seed(seed);
    let mut world = LoadWorld::random(&mut rng, 0.3, Some(3));
    let best = planned(&world.mean_snapshot(&[None; ACTORS]).unwrap()).unwrap();
    let current = places(&best);
    let hot = rng.usize(..ACTORS);
    let peer = (0..ACTORS).find(|actor| current[*actor] != current[hot])?;
    let mut noise = Noise::new(NoiseProcess::Independent, seed);
    let cold = world.traffic.clone();
    let total: f64 = cold.pairs().map(|(_, _, messages)| messages).sum();
    world.heat(hot, peer, total);
    let mut trap = Trap {
        world,
        first: current.clone(),
        current,
        application: MeasuredApplication::new(),
        planning: LoadPlanning::new(DecisionRule::Gate),
        moves: 0,
        outcomes: Vec::new(),
        moved: None,
        failures: 0,
        waits_until: Duration::ZERO,
    };
    for window in 0..WINDOWS {
        let mean = if window < BEFORE { cold.clone() } else { trap.traffic(&trap.world.traffic) };
        let traffic = noise.window(&mean);
        if trap.moved.as_ref().is_some_and(|moved| window < moved.settled_from) {
            continue; // not settled
        }
        trap.application.add(&traffic);
        trap.judge(window);
        if trap.moved.is_none() {
            trap.decide(window);
        }
    }
    Some((trap.moves, trap.outcomes))
}

#[test]
fn a_trap_is_a_loss_and_few_moves_follow() {
    let mut followed = 0;
    for seed in 1..=20 {
        let Some((moves, outcomes)) = three_hours(seed) else { continue };
        assert!(moves <= 4, "seed {seed}: {moves} moves, {outcomes:?}");
        if let Some(first) = outcomes.first() {
            assert_eq!(*first, RealisedGain::Loss, "seed {seed}: {outcomes:?}");
            followed += 1;
        }
    }
    assert!(followed >= 10, "only {followed} applications moved");
}
