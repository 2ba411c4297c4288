//! Stability under noise, and following of changes, of the operator's planning for measured load.

use std::fmt::Write as _;

use control::{ElectiveMoves, JUDGED_WINDOWS};
use counters::WindowChoice;
use fastrand::Rng;

use super::setting::{Experiment, Failure, Setting};
use super::statistics::real;
use crate::best_static::in_parallel;
use crate::load::{
    ACTORS, DecisionRule, LoadError, LoadPlanning, LoadWorld, MeasuredApplication, Noise, NoiseProcess,
    RULES, TERMS, WindowTraffic, planned,
};

/// Would-moves while nothing but noise changes.
pub const NOISE: Experiment =
    Experiment::new("loop-noise", "Loop: stability of planning for measured load under noise", noise);
/// Windows until a change is followed.
pub const CHANGE: Experiment =
    Experiment::new("loop-change", "Loop: windows until planning for measured load follows a change", change);

/// The first seed of reported worlds; constants were chosen on worlds with smaller seeds.
const FIRST_SEED: u64 = 1_000_000;
/// Windows of a day.
const DAY: usize = 2880;
/// Applications and windows with which other rules than the operator's are tried: for an hour.
const COMPARED: u64 = 10;
const HOUR: usize = 120;
/// Windows before a change, and after it.
const BEFORE: usize = 80;
const AFTER: usize = 16;
/// Windows between two changes.
const RECENT: usize = 12;
/// How full units are if the work is spread evenly, and how many actors fit on each.
const FULLNESS: f64 = 0.6;
const SLOTS: u64 = 3;
/// How far the load of the fullest unit is from its capacity at most.
const NEAR: f64 = 0.05;

/// A world and where its actors run.
struct Placed {
    world: LoadWorld,
    current: Vec<Option<usize>>,
}

impl Placed {
    /// A random world, placed optimally for its means.
    fn random(rng: &mut Rng, slots: Option<u64>) -> Result<Self, LoadError> {
        let world = LoadWorld::random(rng, FULLNESS, slots);
        let current = best(&world)?;
        Ok(Self { world, current })
    }

    /// The same, with the load of the fullest unit within 5 % of its capacity.
    fn near_capacity(rng: &mut Rng) -> Result<Self, LoadError> {
        let Self { mut world, current } = Self::random(rng, Some(SLOTS))?;
        let load = |unit: usize| -> f64 {
            let on_unit = current.iter().zip(&world.traffic.work).filter(|(on, _)| **on == Some(unit));
            on_unit.map(|(_, work)| work).sum()
        };
        let fullest = current.iter().flatten().map(|unit| load(*unit)).fold(0.0, f64::max);
        let capacity = fullest * 1e6 / (1.0 + NEAR * (2.0 * rng.f64() - 1.0));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a small positive number"
        )]
        let capacity = capacity as u64;
        world.capacity = capacity;
        let current = best(&world)?;
        Ok(Self { world, current })
    }
}

fn best(world: &LoadWorld) -> Result<Vec<Option<usize>>, LoadError> {
    let assignment = planned(&world.mean_snapshot(&[None; ACTORS])?)?;
    Ok(assignment.iter().map(|unit| unit.map(placement::ix::UnitIx::at)).collect())
}

/// A scenario of noise: its name, process, and whether units are near their capacity.
const SCENARIOS: [(&str, NoiseProcess, bool); 3] = [
    ("independent", NoiseProcess::Independent, false),
    ("autocorrelated 0.5", NoiseProcess::Autocorrelated(0.5), false),
    ("load within ±5 % of capacity", NoiseProcess::Independent, true),
];

/// Would-moves of each rule while nothing but noise changes, of one application.
fn would_moves(
    number: u64,
    (process, near): (NoiseProcess, bool),
    windows: usize,
) -> Result<[u64; RULES.len()], LoadError> {
    let seed = FIRST_SEED + number;
    let mut rng = Rng::with_seed(seed);
    let placed = if near { Placed::near_capacity(&mut rng) } else { Placed::random(&mut rng, Some(SLOTS)) }?;
    let mut noise = Noise::new(process, seed ^ 0x5eed);
    let mut application = MeasuredApplication::new();
    let mut plannings = RULES.map(|(rule, _)| LoadPlanning::new(rule));
    let mut counts = [0; RULES.len()];
    for window in 0..windows {
        application.add(&noise.window(&placed.world.traffic));
        for ((planning, count), (rule, _)) in plannings.iter_mut().zip(&mut counts).zip(RULES) {
            if rule == DecisionRule::Gate || (window < HOUR && number < COMPARED) {
                let decided = planning.decide(&placed.world, &application, &placed.current, window)?;
                *count += u64::from(decided.is_some());
            }
        }
    }
    Ok(counts)
}

/// Would-moves of each rule in each scenario, over all applications.
fn stillness(
    applications: u64,
    windows: usize,
    done: &(dyn Fn(usize, usize) + Sync),
) -> Result<Vec<[u64; RULES.len()]>, LoadError> {
    let each = usize::try_from(applications).unwrap_or(usize::MAX);
    let counts = in_parallel(each * SCENARIOS.len(), done, &|number| {
        let (_, process, near) = SCENARIOS[number / each];
        would_moves((number % each) as u64, (process, near), windows)
    })?;
    let sum =
        |of: &[[u64; RULES.len()]]| std::array::from_fn(|rule| of.iter().map(|counts| counts[rule]).sum());
    Ok(counts.chunks(each).map(sum).collect())
}

fn noise(setting: &Setting) -> Result<(), Failure> {
    let counts = stillness(setting.seeds, DAY, &|done, all| setting.report(done, all))?;
    let mut text = format!(
        "# Stability of planning for measured load under noise\n\n\
         Plans that would move an actor while nothing but noise of ± 20 % of each pair and each actor changes: {} applications of \
         eight actors on three units for 24 hours in windows of 30 s, placed optimally for the mean. Windows and gate are the \
         operator's (`counters`, `control::judge_moves`); the other rules were tried with {} of the applications for the first \
         hour. Required of the operator's rule: 0, at most 20, and 0.\n\n| rule |",
        setting.seeds,
        setting.seeds.min(COMPARED)
    );
    for (name, ..) in SCENARIOS {
        write!(text, " {name} |")?;
    }
    text.push_str("\n|---|---:|---:|---:|\n");
    for (at, (rule, name)) in RULES.into_iter().enumerate() {
        let how_long = if rule == DecisionRule::Gate { "" } else { ", one hour" };
        write!(text, "| {name}{how_long} |")?;
        for of_scenario in &counts {
            write!(text, " {} |", of_scenario[at])?;
        }
        text.push('\n');
    }
    setting.write("loop-noise.md", &text)
}

/// A world, and the traffic after a change.
struct Changing {
    placed: Placed,
    /// The traffic until [`RECENT`] windows before the change, if there was another change.
    earlier: Option<WindowTraffic>,
    after: WindowTraffic,
    /// What the best placement gains after the change.
    worth: f64,
    seed: u64,
}

/// Worths of changes that are reported together: from and to.
const WORTHS: [(f64, f64); 3] = [(0.5, 1.0), (0.3, 0.5), (0.15, 0.3)];

impl Changing {
    /// A world in which one actor suddenly sends much to an actor on another unit; `None` if all are on one unit. If it `is_second`,
    /// another pair did so until twelve windows before, and was on one unit.
    fn random(seed: u64, shape: Shape) -> Result<Option<Self>, LoadError> {
        let mut rng = Rng::with_seed(seed);
        let placed = Placed::random(&mut rng, shape.slots)?;
        let earlier = shape.is_second.then(|| heated(&mut rng, &placed, true)).flatten();
        let Some(changed) = heated(&mut rng, &placed, false) else { return Ok(None) };
        if shape.is_second && earlier.is_none() {
            return Ok(None);
        }
        let snapshot = changed.mean_snapshot(&placed.current)?;
        let moves = ElectiveMoves::of_plan(&snapshot, &planned(&snapshot)?, &TERMS);
        let worth = moves.map_or(0.0, |moves| moves.gain(&snapshot));
        let earlier = earlier.map(|world| world.traffic);
        Ok(Some(Self { placed, earlier, after: changed.traffic, worth, seed }))
    }

    /// When a rule would move, and what that gains; `None` if not within [`AFTER`].
    fn followed(&self, rule: DecisionRule) -> Result<Option<Followed>, LoadError> {
        let Placed { world, current } = &self.placed;
        let mut rng = Rng::with_seed(self.seed ^ 0xfee1);
        let mut noise = Noise::new(NoiseProcess::Independent, rng.u64(..));
        let mut application = MeasuredApplication::new();
        let mut planning = LoadPlanning::new(rule);
        let mixed = world.traffic.mixed(&self.after, rng.f64());
        for window in 0..=BEFORE + AFTER {
            let traffic = match window.cmp(&BEFORE) {
                std::cmp::Ordering::Less if window < BEFORE - RECENT => {
                    self.earlier.as_ref().unwrap_or(&world.traffic)
                }
                std::cmp::Ordering::Less => &world.traffic,
                // The change is not at the end of a window.
                std::cmp::Ordering::Equal => &mixed,
                std::cmp::Ordering::Greater => &self.after,
            };
            application.add(&noise.window(traffic));
            // Rules that search in every window remember nothing.
            if window < BEFORE && matches!(rule, DecisionRule::EveryWindow | DecisionRule::Paper) {
                continue;
            }
            let decided = planning.decide(world, &application, current, window)?;
            let Some((moves, expected)) = decided.filter(|_| window > BEFORE) else { continue };
            let mut realised = 0.0;
            for _ in 0..JUDGED_WINDOWS {
                application.add(&noise.window(&self.after));
                let newest = application.snapshot(world, WindowChoice::Newest(1), current)?;
                realised += moves.gain(&newest) / real(JUDGED_WINDOWS);
            }
            return Ok(Some(Followed { windows: window - BEFORE, expected, realised }));
        }
        Ok(None)
    }
}

/// Moves after a change.
#[derive(Clone, Copy, Debug)]
struct Followed {
    /// The whole windows until they were decided.
    windows: usize,
    /// The gain that they were decided for.
    expected: f64,
    /// The mean gain in the windows that the operator judges moves by.
    realised: f64,
}

impl Followed {
    /// Whether the realised gain is within a third of the expected one.
    fn is_as_expected(&self) -> bool {
        (self.realised - self.expected).abs() <= self.expected / 3.0
    }
}

/// The world after an actor began to send much to an actor on the same or another unit; `None` without such a pair.
fn heated(rng: &mut Rng, placed: &Placed, is_local: bool) -> Option<LoadWorld> {
    let hot = rng.usize(..ACTORS);
    let is_peer =
        |actor: &usize| *actor != hot && (placed.current[*actor] == placed.current[hot]) == is_local;
    let peers: Vec<usize> = (0..ACTORS).filter(is_peer).collect();
    if peers.is_empty() {
        return None;
    }
    let peer = peers[rng.usize(..peers.len())];
    let messages = 200.0 * libm::pow(100.0, rng.f64());
    let mut world = placed.world.clone();
    world.heat(hot, peer, messages);
    Some(world)
}

/// For each range of worths, so many worlds.
fn changing_worlds(each: usize, shape: Shape) -> Result<Vec<Changing>, LoadError> {
    let mut found: Vec<Vec<Changing>> = WORTHS.iter().map(|_| Vec::new()).collect();
    let mut seed = FIRST_SEED;
    while found.iter().any(|worlds| worlds.len() < each) {
        if let Some(world) = Changing::random(seed, shape)? {
            let range = WORTHS.iter().position(|(from, to)| (*from..*to).contains(&world.worth));
            if let Some(worlds) = range.map(|range| &mut found[range]).filter(|worlds| worlds.len() < each) {
                worlds.push(world);
            }
        }
        seed += 1;
    }
    Ok(found.into_iter().flatten().collect())
}

/// Rules that are compared in changes.
const FOLLOWING: [DecisionRule; 6] = [
    DecisionRule::Gate,
    DecisionRule::ChangeAlone,
    DecisionRule::SteadyAlone,
    DecisionRule::MeanGain,
    DecisionRule::EveryWindow,
    DecisionRule::Paper,
];

/// By rule and range: when each world's change was followed.
type Delays = Vec<Vec<Vec<Option<Followed>>>>;

fn delays(each: usize, shape: Shape, done: &(dyn Fn(usize, usize) + Sync)) -> Result<Delays, LoadError> {
    let worlds = changing_worlds(each, shape)?;
    let all = in_parallel(FOLLOWING.len() * worlds.len(), done, &|number| {
        worlds[number % worlds.len()].followed(FOLLOWING[number / worlds.len()])
    })?;
    let by_range = |of_rule: &[Option<Followed>]| of_rule.chunks(each).map(<[_]>::to_vec).collect();
    Ok(all.chunks(worlds.len()).map(by_range).collect())
}

/// Share of changes that were followed within so many whole windows, in percent.
fn share(delays: &[Option<Followed>], within: usize) -> f64 {
    let followed = delays.iter().flatten().filter(|moves| moves.windows <= within).count();
    100.0 * real(followed) / real(delays.len())
}

/// A line for each range: decisions of the operator's rule, and how their realised gains compare with the expected ones.
fn accounts(name: &str, delays: &Delays) -> Result<String, Failure> {
    let mut text = String::new();
    for ((from, to), of_range) in WORTHS.into_iter().zip(&delays[0]) {
        let moves: Vec<&Followed> = of_range.iter().flatten().collect();
        let as_expected = moves.iter().filter(|moves| moves.is_as_expected()).count();
        let mut ratios: Vec<f64> = moves.iter().map(|moves| moves.realised / moves.expected).collect();
        ratios.sort_by(f64::total_cmp);
        let quantile = |part: usize| ratios.get(ratios.len() * part / 10).copied().unwrap_or(f64::NAN);
        writeln!(
            text,
            "| {name} | {:.0} to {:.0} % | {} | {:.1} % | {:.2} | {:.2} to {:.2} |",
            100.0 * from,
            100.0 * to,
            moves.len(),
            100.0 * real(as_expected) / real(moves.len().max(1)),
            quantile(5),
            quantile(1),
            quantile(9),
        )?;
    }
    Ok(text)
}

/// Whether units have room to spare, or are filled by the actors that talk to each other; and whether the change is the second.
#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    short: &'static str,
    slots: Option<u64>,
    is_second: bool,
}

const SHAPES: [Shape; 3] = [
    Shape {
        name: "Units with room to spare: at most three actors each",
        short: "with room",
        slots: Some(SLOTS),
        is_second: false,
    },
    Shape {
        name: "The same, twelve windows after another pair stopped sending much",
        short: "with room, second change",
        slots: Some(SLOTS),
        is_second: true,
    },
    Shape {
        name: "Units that communication fills to their capacity",
        short: "full",
        slots: None,
        is_second: false,
    },
];

fn change(setting: &Setting) -> Result<(), Failure> {
    let each = usize::try_from(setting.seeds)?;
    let mut text = format!(
        "# How fast planning for measured load follows a change\n\n\
         One actor suddenly sends much to an actor on another unit, within a window, after 80 windows of noise of ± 20 %: {each} \
         applications of eight actors on three units for each range of what the best placement then gains. The tables have the \
         share of changes after which moves were decided within two and within sixteen whole windows. Required of the operator's \
         rule where there is room: 95 % of changes worth at least 50 % and 80 % of those worth at least 30 % after two windows, and \
         90 % of those worth at least 15 % within sixteen.\n"
    );
    let mut of_accounts = String::new();
    for shape in SHAPES {
        let delays = delays(each, shape, &|done, all| setting.report(done, all))?;
        write!(text, "\n## {}\n\n{}", shape.name, table(&delays)?)?;
        of_accounts += &accounts(shape.short, &delays)?;
    }
    text.push_str(
        "\nWhere units are full by the mean, noise overloads them in single windows: moves that communication asks for are then left \
         out, because a gain does not count if a more important level loses 1 % on average.\n",
    );
    write!(
        text,
        "\n## Expected and realised gains of the operator's rule\n\nRealised is the mean gain over the places before, in the \
         {JUDGED_WINDOWS} windows by which the operator judges moves. Required are 80 % within a third of the expected gain.\n\n\
         | units | change | decisions | within a third | realised ÷ expected: median | 10th to 90th percentile |\n\
         |---|---|---:|---:|---:|---:|\n{of_accounts}",
    )?;
    setting.write("loop-change.md", &text)
}

/// The table of delays.
fn table(delays: &Delays) -> Result<String, Failure> {
    let mut text = String::from("| rule |");
    for (from, to) in WORTHS {
        let (from, to) = (100.0 * from, 100.0 * to);
        write!(text, " {from:.0} to {to:.0} %: 2 windows | 16 windows |")?;
    }
    text.push_str("\n|---|---:|---:|---:|---:|---:|---:|\n");
    for (rule, of_rule) in FOLLOWING.into_iter().zip(delays) {
        let name = RULES.iter().find(|(it, _)| *it == rule).map_or("", |(_, name)| *name);
        write!(text, "| {name} |")?;
        for of_range in of_rule {
            write!(text, " {:.1} % | {:.1} % |", share(of_range, 2), share(of_range, AFTER))?;
        }
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_would_move_in_noise() {
        let counts = stillness(3, HOUR, &|_, _| ()).expect("valid worlds");
        for of_scenario in &counts {
            assert_eq!(of_scenario[0], 0, "{counts:?}");
        }
        assert!(counts.iter().all(|of_scenario| of_scenario[6] > 0), "the paper's way moves: {counts:?}");
    }

    #[test]
    fn large_changes_are_followed_after_two_windows() {
        let delays = delays(8, SHAPES[0], &|_, _| ()).expect("valid worlds");
        let gate = &delays[0];
        assert!(share(&gate[0], 2) >= 75.0, "{gate:?}");
        assert!(share(&gate[0], AFTER) >= 87.5, "{gate:?}");
        assert!(share(&delays[2][0], 2) < 50.0, "the steady rule alone is slow");
        let moves: Vec<&Followed> = gate.iter().flatten().flatten().collect();
        let as_expected = moves.iter().filter(|moves| moves.is_as_expected()).count();
        assert!(as_expected * 4 >= moves.len() * 3, "{gate:?}");
    }
}
