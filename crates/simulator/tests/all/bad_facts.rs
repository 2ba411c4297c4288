//! Measured load with bad facts: nothing would move, and the reason is counted.

use counters::CounterSeries::{Busy, Messages};
use counters::SampleRefusal::{Actor, Pairs, Peer, UnknownPod, Value};
use counters::{CounterSeries, Sample, SampleRefusal};
use fastrand::Rng;
use placement::ix::UnitIx;
use simulator::load::{
    ACTORS, DecisionRule, LoadPlanning, LoadWorld, MeasuredApplication, Noise, NoiseProcess, planned,
};

/// Windows with bad facts.
const WINDOWS: usize = 20;
/// Good windows before.
const BEFORE: usize = 16;

/// An application that is placed optimally, with its good windows.
struct Sound {
    world: LoadWorld,
    current: Vec<Option<usize>>,
    noise: Noise,
    application: MeasuredApplication,
}

impl Sound {
    fn new(seed: u64) -> Self {
        let world = LoadWorld::random(&mut Rng::with_seed(seed), 0.6, Some(3));
        let best = planned(&world.mean_snapshot(&[None; ACTORS]).unwrap()).unwrap();
        let current = best.iter().map(|unit| unit.map(UnitIx::at)).collect();
        let mut noise = Noise::new(NoiseProcess::Independent, seed);
        let mut application = MeasuredApplication::new();
        for _ in 0..BEFORE {
            application.add(&noise.window(&world.traffic));
        }
        Self { world, current, noise, application }
    }

    /// Whether the operator would move something by its gate in every window.
    fn would_move(&self) -> bool {
        let mut planning = LoadPlanning::new(DecisionRule::EveryWindow);
        planning.decide(&self.world, &self.application, &self.current, BEFORE).unwrap().is_some()
    }
}

type Corrupt = fn(CounterSeries, &mut Vec<Sample<'_>>);

/// Gives all samples of the pod `pod-0` a value.
fn with_value(samples: &mut [Sample], value: f64) {
    for sample in samples.iter_mut().filter(|sample| sample.pod == "pod-0") {
        sample.value = value;
    }
}

/// Adds messages of the pod `pod-0`, more than any others.
fn heavy(series: CounterSeries, samples: &mut Vec<Sample<'_>>, change: fn(&mut Sample)) {
    if series == Messages {
        let mut sample =
            Sample { namespace: "sim", pod: "pod-0", actor: "a-0", peer: "sim/load/a-1", value: 1e9 };
        change(&mut sample);
        samples.push(sample);
    }
}

#[test]
fn nothing_would_move_for_bad_facts_and_the_reason_is_counted() {
    let faults: [(&str, SampleRefusal, Corrupt); 10] = [
        ("NaN", Value, |_, samples| with_value(samples, f64::NAN)),
        ("+Inf", Value, |series, samples| {
            if series == Messages {
                with_value(samples, f64::INFINITY);
            }
        }),
        ("a falling counter", Value, |series, samples| {
            if series == Messages {
                with_value(samples, -1.0);
            }
        }),
        ("1e300", Value, |series, samples| {
            if series == Busy {
                with_value(samples, 1e300);
            }
        }),
        ("an actor of another pod", Actor, |series, samples| {
            heavy(series, samples, |sample| sample.actor = "a-2");
        }),
        ("a peer of another namespace", Peer, |series, samples| {
            heavy(series, samples, |sample| sample.peer = "other/load/a-1");
        }),
        ("a forged namespace", UnknownPod, |series, samples| {
            heavy(series, samples, |sample| sample.namespace = "other");
        }),
        ("a forged pod", UnknownPod, |series, samples| {
            heavy(series, samples, |sample| sample.pod = "pod-9");
        }),
        ("many foreign series", UnknownPod, |series, samples| {
            if series == Messages {
                let foreign = Sample { namespace: "x", pod: "y", actor: "a-0", peer: "x/y/z", value: 1e9 };
                samples.extend(vec![foreign; 50_000]);
            }
        }),
        ("9,000 pairs of one pod", Pairs, |series, samples| {
            if series == Messages {
                let elsewhere = Sample {
                    namespace: "sim",
                    pod: "pod-0",
                    actor: "a-0",
                    peer: "sim/load/gone",
                    value: 1.0,
                };
                samples.extend(vec![elsewhere; 9000]);
            }
        }),
    ];
    for seed in 1..=3 {
        for (fault, reason, corrupt) in faults {
            let mut sound = Sound::new(seed);
            assert!(!sound.would_move());
            for window in 0..WINDOWS {
                let traffic = sound.noise.window(&sound.world.traffic);
                let refused = sound.application.add_corrupted(&traffic, corrupt);
                let reasons: Vec<SampleRefusal> = refused.into_keys().collect();
                assert_eq!(reasons, [reason], "{fault}");
                assert!(!sound.would_move(), "{fault}, window {window}, seed {seed}");
            }
            // Refused values leave no window, the rest changes nothing.
            let usable = sound.application.windows.usable_windows();
            assert_eq!(usable, if reason == Value { 0 } else { BEFORE }, "{fault}");
        }
    }
}

#[test]
fn nothing_would_move_while_prometheus_does_not_answer() {
    // Cut, refused and late answers, and errors of the server, are windows without data.
    let mut sound = Sound::new(1);
    for _ in 0..WINDOWS {
        sound.application.windows.add_missing();
        assert!(!sound.would_move());
    }
    assert!(sound.application.windows.is_stale(4));
    assert_eq!(sound.application.windows.usable_windows(), 0);
}
