//! A small application with random traffic, and noise around it.

use fastrand::Rng;
use placement::file::{Actor, ExchangeCost, Message, Node, RunsOn, SnapshotFile, Unit, VERSION};
use placement::{Snapshot, SnapshotError};

/// Actors of a world.
pub const ACTORS: usize = 8;
/// Units of a world, each on a node of its own.
const UNITS: usize = 3;
/// Peers that an actor sends to.
const PEERS: usize = 3;
/// Messages of a pair in a window: the least, and the factor up to the most.
const MESSAGES: (f64, f64) = (100.0, 30.0);
/// Seconds of a window: the default of policies.
pub const WINDOW_SECONDS: f64 = 30.0;
/// The kind of all units.
pub const KIND: &str = "cpu";
/// Microseconds of a second.
const MICROSECONDS: f64 = 1e6;

/// Messages and work of one window.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowTraffic {
    /// Messages by sender and receiver.
    pub messages: Vec<Vec<f64>>,
    /// Seconds of work by actor.
    pub work: Vec<f64>,
}

/// An application of eight actors on three units.
#[derive(Clone, Debug)]
pub struct LoadWorld {
    /// Mean messages and work.
    pub traffic: WindowTraffic,
    /// Work that a unit can do in a window, in microseconds.
    pub capacity: u64,
    /// Actors that fit on a unit; without it, communication fills units to their capacity.
    pub slots: Option<u64>,
}

/// The name of an actor.
pub fn name(actor: usize) -> String {
    format!("a-{actor}")
}

/// Namespace and name of the application.
pub const APPLICATION: (&str, &str) = ("sim", "load");

fn id(actor: usize) -> String {
    format!("{}/{}/{}", APPLICATION.0, APPLICATION.1, name(actor))
}

impl LoadWorld {
    /// A world whose units are busy to this part if the work is spread evenly.
    pub fn random(rng: &mut Rng, fullness: f64, slots: Option<u64>) -> Self {
        let mut messages = vec![vec![0.0; ACTORS]; ACTORS];
        for (actor, to) in messages.iter_mut().enumerate() {
            for _ in 0..PEERS {
                let peer = (actor + 1 + rng.usize(..ACTORS - 1)) % ACTORS;
                to[peer] = MESSAGES.0 * libm::pow(MESSAGES.1, rng.f64());
            }
        }
        let parts: Vec<f64> = (0..ACTORS).map(|_| 0.5 + rng.f64()).collect();
        let sum: f64 = parts.iter().sum();
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let all = UNITS as f64 * WINDOW_SECONDS * fullness;
        let work = parts.into_iter().map(|part| part / sum * all).collect();
        Self {
            traffic: WindowTraffic { messages, work },
            capacity: whole(WINDOW_SECONDS * MICROSECONDS),
            slots,
        }
    }

    /// The snapshot with these messages and this work in microseconds, by names of actors.
    ///
    /// # Errors
    /// The numbers exceed the range of a snapshot.
    pub fn snapshot<'n>(
        &self,
        messages: impl IntoIterator<Item = (&'n str, &'n str, u64)>,
        work: impl Fn(&str) -> u64,
        current: &[Option<usize>],
    ) -> Result<Snapshot, SnapshotError> {
        let prefix = format!("{}/{}/", APPLICATION.0, APPLICATION.1);
        let unit = |at: usize| Unit {
            id: format!("u-{at}"),
            kind: KIND.to_owned(),
            node: format!("n-{at}"),
            zone: None,
            numa: None,
            pool: None,
            capacity: self.capacity,
            slots: self.slots,
            provides: [].into(),
            others: None,
            power_watts: None,
            idle_watts: None,
        };
        let actor = |at: usize| Actor {
            id: id(at),
            group: Some("a".to_owned()),
            runs_on: [(KIND.to_owned(), RunsOn { work: work(&name(at)), ..RunsOn::default() })].into(),
            requires: [].into(),
            labels: [].into(),
            move_cost: 0,
            fixed: false,
            current: current[at].map(|unit| format!("u-{unit}")),
            arriving: false,
        };
        let message = |(from, to, count): (&str, &str, u64)| Message {
            from: format!("{prefix}{from}"),
            to: format!("{prefix}{to}"),
            count,
        };
        Snapshot::new(SnapshotFile {
            version: VERSION,
            application: Some(prefix.trim_end_matches('/').to_owned()),
            window_microseconds: Some(whole(WINDOW_SECONDS * MICROSECONDS)),
            nodes: (0..UNITS).map(|at| Node { id: format!("n-{at}"), ..Node::default() }).collect(),
            units: (0..UNITS).map(unit).collect(),
            actors: (0..ACTORS).map(actor).collect(),
            messages: messages.into_iter().map(message).collect(),
            exchange_cost: ExchangeCost { other_kind: Some(1), ..ExchangeCost::default() },
            ..SnapshotFile::default()
        })
    }

    /// The snapshot with the means.
    ///
    /// # Errors
    /// The numbers exceed the range of a snapshot.
    pub fn mean_snapshot(&self, current: &[Option<usize>]) -> Result<Snapshot, SnapshotError> {
        let names: Vec<String> = (0..ACTORS).map(name).collect();
        let pairs = self.traffic.pairs().map(|(from, to, count)| (&*names[from], &*names[to], whole(count)));
        let work = |name: &str| {
            let actor = names.iter().position(|it| it == name).unwrap_or_default();
            whole(self.traffic.work[actor] * MICROSECONDS)
        };
        self.snapshot(pairs, work, current)
    }

    /// Adds messages from an actor to another.
    pub fn heat(&mut self, from: usize, to: usize, messages: f64) {
        self.traffic.messages[from][to] += messages;
    }
}

impl WindowTraffic {
    /// Sender, receiver and messages of all pairs with messages.
    pub fn pairs(&self) -> impl Iterator<Item = (usize, usize, f64)> {
        let of = |(from, to): (usize, &'_ Vec<f64>)| {
            let counts: Vec<(usize, usize, f64)> =
                to.iter().enumerate().map(|(to, count)| (from, to, *count)).collect();
            counts
        };
        self.messages.iter().enumerate().flat_map(of).filter(|(.., count)| *count > 0.0)
    }

    /// A mixture: this part of another traffic, and the rest of this one.
    #[must_use]
    pub fn mixed(&self, other: &Self, part: f64) -> Self {
        let mix = |(a, b): (&f64, &f64)| a * (1.0 - part) + b * part;
        let rows = self.messages.iter().zip(&other.messages);
        Self {
            messages: rows.map(|(a, b)| a.iter().zip(b).map(mix).collect()).collect(),
            work: self.work.iter().zip(&other.work).map(mix).collect(),
        }
    }
}

/// How noise of one window depends on that of the window before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NoiseProcess {
    /// Not at all.
    Independent,
    /// By a first-order autoregression with this coefficient, and the same variance.
    Autocorrelated(f64),
}

/// Noise of ± 20 % of each pair and each actor.
#[derive(Clone, Debug)]
pub struct Noise {
    process: NoiseProcess,
    rng: Rng,
    /// By actor: that of its messages by receiver, then that of its work.
    state: Vec<Vec<f64>>,
}

/// Largest relative deviation of a single draw.
const AMPLITUDE: f64 = 0.2;

impl Noise {
    /// Noise of this kind.
    pub fn new(process: NoiseProcess, seed: u64) -> Self {
        let mut noise =
            Self { process, rng: Rng::with_seed(seed), state: vec![vec![0.0; ACTORS + 1]; ACTORS] };
        let begin = NoiseProcess::Independent;
        let process = std::mem::replace(&mut noise.process, begin);
        noise.draw();
        noise.process = process;
        noise
    }

    fn draw(&mut self) {
        let (keep, fresh) = match self.process {
            NoiseProcess::Independent => (0.0, 1.0),
            NoiseProcess::Autocorrelated(keep) => (keep, (1.0 - keep * keep).sqrt()),
        };
        for value in self.state.iter_mut().flatten() {
            *value = keep * *value + fresh * AMPLITUDE * (2.0 * self.rng.f64() - 1.0);
        }
    }

    /// The traffic of the next window.
    pub fn window(&mut self, mean: &WindowTraffic) -> WindowTraffic {
        self.draw();
        let noisy = |(value, noise): (&f64, &f64)| value * (1.0 + noise).max(0.0);
        let rows = mean.messages.iter().zip(&self.state);
        WindowTraffic {
            messages: rows.map(|(row, noise)| row.iter().zip(noise).map(noisy).collect()).collect(),
            work: mean
                .work
                .iter()
                .zip(&self.state)
                .map(|(work, noise)| noisy((work, &noise[ACTORS])))
                .collect(),
        }
    }
}

fn whole(number: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small positive numbers")]
    let whole = number.round() as u64;
    whole
}
