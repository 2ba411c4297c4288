//! Trace generators: equal parameters and seed produce equal rows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::rows::Row;

/// The kind of trace to generate.
///
/// In the first three, every actor runs a task at every whole time from 1 and sends the next one to itself. Whenever
/// the time is a multiple of the period, it also sends one to its right neighbour, a tenth later (scenarios A and B of
/// the APO paper, section IV-A, and the authors' chain).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// No messages between actors: scenario A.
    NonConnected {
        /// Number of actors.
        actors: u32,
        /// End of the trace in logical time, exclusive.
        end: u32,
    },
    /// Messages to the right neighbour, period 10: scenario B.
    Ring {
        /// Number of actors.
        actors: u32,
        /// End of the trace in logical time, exclusive.
        end: u32,
    },
    /// Messages to the right neighbour, period 2.
    Chain {
        /// Number of actors.
        actors: u32,
        /// End of the trace in logical time, exclusive.
        end: u32,
    },
    /// Messages to a random other actor with a given probability.
    Phold(Phold),
    /// The motivating example of the APO paper.
    Surveillance(Surveillance),
    /// Alternating uniform and hot phases.
    Hotspot(Hotspot),
}

/// A parameter out of range.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("{field} is {value}; {wanted}")]
pub struct KindError {
    field: &'static str,
    value: String,
    wanted: &'static str,
}

/// Every actor runs a task at every whole time and sends the next one to itself; with a probability it also sends one to
/// a uniformly random other actor, a tenth later.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phold {
    /// Number of actors.
    pub actors: u32,
    /// End of the trace in logical time, exclusive.
    pub end: u32,
    /// Probability of a message at each time.
    pub probability: f64,
    /// Seed of the receivers.
    pub seed: u64,
}

/// The motivating example (APO paper, section II-C): two actors crop, five classify, one localizes.
///
/// At each whole time each cropper cuts five tiles; each tile is a task of a classifier, whose answer is a task of the
/// localizer. In uniform phases every classifier gets one tile from each cropper. In hot phases four of five tiles go to
/// the phase's hot classifier and the fifth to a random one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Surveillance {
    /// Number of frames.
    pub end: u32,
    /// Length of a phase in frames; uniform and hot phases alternate.
    pub phase: u32,
    /// Seed of the receivers of single tiles.
    pub seed: u64,
}

/// PHOLD: each task sends one to a random actor, to any actor in balanced phases and only to hot ones in imbalanced
/// phases (APO paper, section IV-C).
///
/// As in the authors' files, every actor has its own tasks throughout, at exponentially distributed intervals, and sends
/// to others a thousandth later; times have four decimals. If `relayed`, a task exists only where one was sent, an
/// exponentially distributed time of mean 1 later, so that cold actors are idle in imbalanced phases. Every actor then
/// runs one last task at the end, so that a cold one does not end the run early.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hotspot {
    /// Number of actors.
    pub actors: u32,
    /// End of the trace in logical time.
    pub end: f64,
    /// Length of a balanced phase; the trace starts with one.
    pub balanced: f64,
    /// Length of an imbalanced phase.
    pub imbalanced: f64,
    /// Fraction of hot actors, above 0 and at most 1.
    pub hot: f64,
    /// Tasks per actor and unit of logical time.
    pub rate: f64,
    /// Whether each imbalanced phase draws its own hot actors; otherwise they stay the same.
    pub moving: bool,
    /// Whether work moves with the messages.
    pub relayed: bool,
    /// Seed of receivers and times.
    pub seed: u64,
}

impl Kind {
    /// The rows, times ascending.
    ///
    /// # Errors
    /// There is no actor, or a parameter is out of range.
    pub fn rows(self) -> Result<Box<dyn Iterator<Item = Row>>, KindError> {
        self.check()?;
        Ok(match self {
            Self::NonConnected { actors, end } => Box::new(periodic(actors, end, None)),
            Self::Ring { actors, end } => Box::new(periodic(actors, end, Some(10))),
            Self::Chain { actors, end } => Box::new(periodic(actors, end, Some(2))),
            Self::Phold(phold) => Box::new(phold.rows()),
            Self::Surveillance(surveillance) => Box::new(surveillance.rows()),
            Self::Hotspot(hotspot) if hotspot.relayed => Box::new(hotspot.relayed()),
            Self::Hotspot(hotspot) => Box::new(hotspot.rows()),
        })
    }

    fn check(self) -> Result<(), KindError> {
        let wrong =
            |field, value: &dyn ToString, wanted| Err(KindError { field, value: value.to_string(), wanted });
        let (actors, end) = match self {
            Self::NonConnected { actors, end }
            | Self::Ring { actors, end }
            | Self::Chain { actors, end }
            | Self::Phold(Phold { actors, end, .. }) => (actors, f64::from(end)),
            Self::Surveillance(Surveillance { end, .. }) => (8, f64::from(end)),
            Self::Hotspot(Hotspot { actors, end, .. }) => (actors, end),
        };
        if actors == 0 || actors > 1_000_000 {
            return wrong("actors", &actors, "give a number from 1 to 1000000");
        }
        if !end.is_finite() || end < 2.0 {
            return wrong("end", &end, "give a time of at least 2");
        }
        match self {
            Self::Phold(Phold { probability, .. }) if !(0.0..=1.0).contains(&probability) => {
                wrong("probability", &probability, "give a number from 0 to 1")
            }
            Self::Phold(Phold { actors: 1, .. }) => wrong("actors", &1, "a random other actor needs two"),
            Self::Surveillance(Surveillance { phase: 0, .. }) => wrong("phase", &0, "give at least 1"),
            Self::Hotspot(of) => {
                for (field, value) in
                    [("balanced", of.balanced), ("imbalanced", of.imbalanced), ("rate", of.rate)]
                {
                    if !(value.is_finite() && value > 0.0) {
                        return wrong(field, &value, "give a number above 0");
                    }
                }
                if !(of.hot > 0.0 && of.hot <= 1.0) {
                    return wrong("hot", &of.hot, "give a part above 0 and at most 1");
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

fn periodic(actors: u32, end: u32, period: Option<u32>) -> impl Iterator<Item = Row> {
    let rows_of = move |time: u32, actor: u32| {
        let at = f64::from(time);
        let next = Row { at, from: actor, time: f64::from(time + 1), to: actor };
        let neighbour = Row { at, from: actor, time: at + 0.1, to: (actor + 1) % actors };
        let sends = period.is_some_and(|period| time.is_multiple_of(period));
        std::iter::once(next).chain(sends.then_some(neighbour))
    };
    (1..end).flat_map(move |time| (0..actors).flat_map(move |actor| rows_of(time, actor)))
}

impl Phold {
    fn rows(self) -> impl Iterator<Item = Row> {
        let mut random = fastrand::Rng::with_seed(self.seed);
        let each = (1..self.end).flat_map(move |time| (0..self.actors).map(move |actor| (time, actor)));
        each.flat_map(move |(time, actor)| {
            let at = f64::from(time);
            let other = (random.f64() < self.probability).then(|| {
                let to = random.u32(0..self.actors - 1);
                Row { at, from: actor, time: at + 0.1, to: to + u32::from(to >= actor) }
            });
            std::iter::once(Row { at, from: actor, time: f64::from(time + 1), to: actor }).chain(other)
        })
    }
}

const CROPPERS: u32 = 2;
const CLASSIFIERS: u32 = 5;
const LOCALIZER: u32 = CROPPERS + CLASSIFIERS;

impl Surveillance {
    fn rows(self) -> impl Iterator<Item = Row> {
        let mut random = fastrand::Rng::with_seed(self.seed);
        let last = f64::from(self.end);
        let frames = (1..self.end).flat_map(move |frame| self.frame(frame, &mut random));
        frames.chain((0..=LOCALIZER).map(move |actor| Row {
            at: last,
            from: actor,
            time: last + 1.0,
            to: actor,
        }))
    }

    fn frame(&self, frame: u32, random: &mut fastrand::Rng) -> Vec<Row> {
        let phase = frame / self.phase;
        let hot = (phase % 2 == 1).then_some(phase / 2 % CLASSIFIERS);
        let mut rows = Vec::new();
        for tile in 0..CROPPERS * CLASSIFIERS {
            let (cropper, of_cropper) = (tile % CROPPERS, tile / CROPPERS);
            let goal = match hot {
                None => of_cropper,
                Some(hot) if of_cropper > 0 => hot,
                Some(_) => random.u32(0..CLASSIFIERS),
            };
            let cut = f64::from(frame) + f64::from(tile) / 40.0;
            let (classified, localized) = (cut + 0.25, cut + 0.5);
            let goal = CROPPERS + goal;
            rows.push(Row { at: cut, from: cropper, time: classified, to: goal });
            rows.push(Row { at: classified, from: goal, time: localized, to: LOCALIZER });
            rows.push(Row { at: localized, from: LOCALIZER, time: localized + 0.25, to: LOCALIZER });
        }
        rows.sort_by(|a, b| a.at.total_cmp(&b.at).then(a.from.cmp(&b.from)));
        rows
    }
}

impl Hotspot {
    fn rows(self) -> impl Iterator<Item = Row> {
        let mut random = fastrand::Rng::with_seed(self.seed);
        let mut next: BinaryHeap<Reverse<(Time, u32)>> = BinaryHeap::new();
        for actor in 0..self.actors {
            next.push(Reverse((Time(exponential(&mut random) / self.rate), actor)));
        }
        std::iter::from_fn(move || {
            let Reverse((Time(at), from)) = next.pop()?;
            if at > self.end {
                return None;
            }
            next.push(Reverse((Time(at + exponential(&mut random) / self.rate), from)));
            let (first, count) = self.receivers(at);
            // An actor never sends to itself if there is another receiver.
            let number = (from + self.actors - first) % self.actors;
            let to = if number < count && count > 1 {
                let other = random.u32(0..count - 1);
                other + u32::from(other >= number)
            } else {
                random.u32(0..count)
            };
            let to = (first + to) % self.actors;
            Some(Row { at: decimals(at), from, time: decimals(at + 0.001), to })
        })
    }

    fn relayed(self) -> impl Iterator<Item = Row> {
        let mut random = fastrand::Rng::with_seed(self.seed);
        let mut pending = BinaryHeap::new();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "rounded, positive, small"
        )]
        let tasks = (f64::from(self.actors) * self.rate).round().max(1.0) as u64;
        for number in 0..tasks {
            let actor = u32::try_from(number % u64::from(self.actors)).expect("less than the actors");
            pending.push(Reverse((Time(exponential(&mut random)), number, actor)));
        }
        let end = self.end;
        let last =
            (0..self.actors).map(move |actor| Row { at: end, from: actor, time: end + 1.0, to: actor });
        std::iter::from_fn(move || {
            let Reverse((Time(at), number, from)) = pending.pop()?;
            if at >= end {
                return None;
            }
            let time = at + exponential(&mut random);
            let to = self.destination(at, &mut random);
            pending.push(Reverse((Time(time), number, to)));
            Some(Row { at, from, time, to })
        })
        .chain(last)
    }

    /// The possible receivers at this time: the first one and their number, consecutive.
    fn receivers(&self, at: f64) -> (u32, u32) {
        let cycle = self.balanced + self.imbalanced;
        if at % cycle < self.balanced {
            return (0, self.actors);
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a fraction of the actors"
        )]
        let hot = ((f64::from(self.actors) * self.hot) as u32).max(1);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the number of a phase")]
        let phase = (at / cycle) as u64;
        let first = if self.moving { phase * u64::from(hot) % u64::from(self.actors) } else { 0 };
        (u32::try_from(first).expect("less than the actors"), hot)
    }

    fn destination(&self, at: f64, random: &mut fastrand::Rng) -> u32 {
        let (first, count) = self.receivers(at);
        (first + random.u32(0..count)) % self.actors
    }
}

/// Rounds to four decimals, as in the authors' files.
fn decimals(time: f64) -> f64 {
    (time * 10_000.0).round() / 10_000.0
}

/// An exponential time between tasks, mean 1.
fn exponential(random: &mut fastrand::Rng) -> f64 {
    -libm::log(1.0 - random.f64())
}

/// A finite time with a total order.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Time(f64);

impl Eq for Time {}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Time {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::{Row, Trace};
    use super::{Hotspot, Kind, Phold, Surveillance};

    fn small() -> [Kind; 7] {
        [
            Kind::NonConnected { actors: 3, end: 30 },
            Kind::Ring { actors: 3, end: 30 },
            Kind::Chain { actors: 3, end: 30 },
            Kind::Phold(Phold { actors: 3, end: 30, probability: 0.3, seed: 1 }),
            Kind::Surveillance(Surveillance { end: 60, phase: 10, seed: 1 }),
            Kind::Hotspot(Hotspot {
                actors: 20,
                end: 40.0,
                balanced: 10.0,
                imbalanced: 10.0,
                hot: 0.1,
                rate: 4.0,
                moving: false,
                relayed: false,
                seed: 1,
            }),
            Kind::Hotspot(Hotspot {
                actors: 20,
                end: 40.0,
                balanced: 10.0,
                imbalanced: 10.0,
                hot: 0.1,
                rate: 4.0,
                moving: false,
                relayed: true,
                seed: 1,
            }),
        ]
    }

    #[test]
    fn every_kind_generates_a_valid_trace_deterministically() {
        for kind in small() {
            let rows: Vec<Row> = kind.rows().unwrap().collect();
            assert_eq!(kind.rows().unwrap().collect::<Vec<_>>(), rows);
            Trace::collect(rows).unwrap();
        }
    }

    #[test]
    fn ring_actors_send_right_at_every_tenth_time() {
        let rows: Vec<Row> = Kind::Ring { actors: 8, end: 11 }.rows().unwrap().collect();
        assert_eq!(rows.len(), 10 * 8 + 8);
        assert_eq!(rows[0], Row { at: 1.0, from: 0, time: 2.0, to: 0 });
        assert_eq!(rows[rows.len() - 1], Row { at: 10.0, from: 7, time: 10.1, to: 0 });
    }

    #[test]
    fn only_hot_actors_receive_messages_in_imbalanced_phases() {
        let [.., own, relayed] = small();
        for kind in [own, relayed] {
            let rows = kind.rows().unwrap().filter(|row| row.at < 40.0);
            let (hot, balanced): (Vec<Row>, Vec<Row>) = rows.partition(|row| row.at % 20.0 >= 10.0);
            assert!(hot.iter().all(|row| row.to < 2));
            assert!(balanced.iter().any(|row| row.to >= 2));
            // The two differ in whether cold actors have work in the last part of a hot phase.
            let cold = hot.iter().filter(|row| row.at % 20.0 > 18.0 && row.from >= 2).count();
            assert_eq!(cold > 50, kind == own, "{cold}");
        }
    }

    #[test]
    fn parameters_out_of_range_are_rejected() {
        let cases = [
            (Kind::Ring { actors: 0, end: 5 }, "actors is 0; give a number from 1 to 1000000"),
            (Kind::Ring { actors: 2, end: 1 }, "end is 1; give a time of at least 2"),
            (
                Kind::Phold(Phold { actors: 2, end: 5, probability: 1.5, seed: 0 }),
                "probability is 1.5; give a number from 0 to 1",
            ),
        ];
        for (kind, expected) in cases {
            assert_eq!(kind.rows().err().unwrap().to_string(), expected);
        }
    }
}
