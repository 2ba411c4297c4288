//! The annealing paper's experiments: Table II, Figures 1 and 2.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use baselines::strategies::KWay;
use taskgraph::generate::annealing::{Family, STRIPS, graph, platform};
use taskgraph::offline::{AnnealingImproved, AnnealingStandard, BinPacking, PIECE};
use taskgraph::{Budget, Graph, Mapped, Mapper, Platform};

use super::chart::{Labels, Panel, Series, lines};
use super::setting::{Experiment, Failure, Setting};
use super::statistics::{mean, real};
use crate::best_static::in_parallel;

/// Table II, Figures 1 and 2.
pub const TABLES: Experiment = Experiment::new(
    "annealing-tables",
    "annealing, Table II, Figures 1, 2: both annealers, K-way and bin packing",
    tables,
);

/// Effort limits for an improved annealing that has not converged: one before it converges on most graphs of Table I, and
/// one after it has on nearly all of up to 200 tasks.
const LIMITS: [u64; 2] = [30, 600];
/// Minimum and maximum number of trials per instance.
const TRIALS: (usize, usize) = (3, 6);
/// Trials stop once the 95 % interval is narrower than this fraction of the mean.
const NARROW: f64 = 0.1;

/// Percentage of instances in which the paper's annealer beats K-way, A-BFD and standard annealing.
const PAPER: [(Family, f64, Option<f64>, f64); 5] = [
    (Family::Binomial, 94.0, None, 95.0),
    (Family::Convolution, 12.0, Some(92.0), 76.0),
    (Family::GramSchmidt, 64.0, Some(92.0), 92.0),
    (Family::GaussSeidel, 68.0, None, 72.0),
    (Family::Jacobi, 32.0, Some(92.0), 88.0),
];

/// Interpretations of "equal time".
#[derive(Clone, Copy)]
enum Equal {
    /// Equal numbers of evaluated mappings: time of a program that computes Eq. 3 anew for each, as in Algorithm 1.
    Evaluations,
    /// Equal numbers of evaluated single-task moves: time of this program, which evaluates moves incrementally.
    Moves,
}

/// A graph on a platform.
struct Scenario {
    graph: Graph,
    platform: Platform,
}

impl Scenario {
    fn map(&self, mapper: &dyn Mapper, budget: &Budget) -> Result<Mapped, Failure> {
        Ok(mapper.map(&self.graph, &self.platform, budget)?)
    }

    /// One run of the improved annealer, to convergence or to a limit.
    fn improved(&self, seed: u64, limit: u64, literal: bool) -> Result<Mapped, Failure> {
        let pieces = AtomicU64::new(0);
        let stop = || pieces.fetch_add(1, Ordering::Relaxed) + 1 >= limit;
        let mapper = AnnealingImproved { literal, ..AnnealingImproved::default() };
        self.map(&mapper, &Budget { effort: None, seed, stop: &stop })
    }

    /// The standard annealer for the same time, with restarts.
    fn standard(&self, seed: u64, literal: bool, improved: &Mapped, equal: Equal) -> Result<f64, Failure> {
        let effort = match equal {
            Equal::Evaluations => improved.evaluations.div_ceil(PIECE),
            Equal::Moves => improved.effort.max(1),
        };
        let mapper = AnnealingStandard { literal, ..AnnealingStandard::default() };
        Ok(self.map(&mapper, &Budget::effort(Some(effort), seed))?.objective)
    }
}

/// A family's graph on a platform: means over trials that differ only in the mappers' seeds.
struct Instance {
    family: Family,
    strip: usize,
    platform: u64,
    trials: usize,
    /// Whether all intervals are narrow enough.
    narrow: bool,
    /// At the short and at the long limit.
    improved: [f64; 2],
    standard: [f64; 2],
    kway: f64,
    /// Absent if a vector does not fit any processing element.
    packed: Option<f64>,
    /// Alternative readings, first trial at the long limit: equal moves for both annealers, and both annealers as
    /// printed.
    otherwise: [(f64, f64); 2],
}

fn instance(family: Family, strip: usize, number: u64) -> Result<Instance, Failure> {
    let scenario = Scenario { graph: graph(family, strip, number)?, platform: platform(number) };
    let mut values: [Vec<f64>; 5] = Default::default();
    let narrow = |values: &[f64]| {
        let (mean, half) = mean(values);
        2.0 * half < NARROW * mean
    };
    let mut otherwise = None;
    for seed in 1.. {
        for (at, limit) in LIMITS.into_iter().enumerate() {
            let improved = scenario.improved(seed, limit, false)?;
            values[at].push(improved.objective);
            values[2 + at].push(scenario.standard(seed, false, &improved, Equal::Evaluations)?);
            if seed == 1 && at == 1 {
                let printed = scenario.improved(seed, limit, true)?;
                otherwise = Some([
                    (improved.objective, scenario.standard(seed, false, &improved, Equal::Moves)?),
                    (printed.objective, scenario.standard(seed, true, &printed, Equal::Evaluations)?),
                ]);
            }
        }
        values[4].push(scenario.map(&KWay::default(), &Budget::effort(None, seed))?.objective);
        let trials = values[0].len();
        if trials == TRIALS.1 || (trials >= TRIALS.0 && values.iter().all(|values| narrow(values))) {
            break;
        }
    }
    let packed = scenario.map(&BinPacking::default(), &Budget::effort(None, 1)).ok();
    let [short, long, hasty, patient, kway] = values.each_ref().map(|values| mean(values).0);
    Ok(Instance {
        family,
        strip,
        platform: number,
        trials: values[0].len(),
        narrow: values.iter().all(|values| narrow(values)),
        improved: [short, long],
        standard: [hasty, patient],
        kway,
        packed: packed.map(|packed| packed.objective),
        otherwise: otherwise.expect("there is a first trial"),
    })
}

fn tables(setting: &Setting) -> Result<(), Failure> {
    let mut all = Vec::new();
    for strip in STRIPS {
        for (family, ..) in PAPER {
            all.extend((1..=setting.seeds).map(|platform| (family, strip, platform)));
        }
    }
    let mut all = in_parallel(all.len(), &|done, all| setting.report(done, all), &|number| {
        let (family, strip, platform) = all[number];
        instance(family, strip, platform)
    })?;
    let place = |family: Family| PAPER.iter().position(|(of, ..)| *of == family);
    all.sort_by_key(|instance| (place(instance.family), instance.strip, instance.platform));
    let mut csv = String::from(
        "family,strip,platform,trials,narrow,improved_short,standard_short,improved,standard,kway,bin_packing,\
         moves_improved,moves_standard,literal_improved,literal_standard\n",
    );
    for instance in &all {
        let Instance { family, strip, platform, trials, narrow, kway, .. } = instance;
        let ([short, improved], [hasty, standard]) = (instance.improved, instance.standard);
        let packed = instance.packed.map_or_else(String::new, |packed| packed.to_string());
        let [(a, b), (c, d)] = instance.otherwise;
        writeln!(
            csv,
            "{family},{strip},{platform},{trials},{narrow},{short},{hasty},{improved},{standard},{kway},{packed},{a},{b},{c},{d}"
        )?;
    }
    setting.write("annealing-tables.csv", &csv)?;
    setting.write("annealing-tables.md", &markdown(&all)?)?;
    setting.write("figure-1.svg", &figure("standard annealing", &all, |instance| instance.standard[1]))?;
    setting.write("figure-2.svg", &figure("K-way partitioning", &all, |instance| instance.kway))
}

/// How often ours is below, equal to and above the other, in %; `-` without a pair.
fn shares(pairs: impl Iterator<Item = (f64, f64)>) -> String {
    let (mut below, mut equal, mut all) = (0.0, 0.0, 0.0);
    for (ours, other) in pairs {
        let same = (ours - other).abs() <= 1e-9 * other.abs();
        all += 1.0;
        equal += f64::from(u8::from(same));
        below += f64::from(u8::from(!same && ours < other));
    }
    if all == 0.0 {
        return "-".to_owned();
    }
    let percent = |part: f64| 100.0 * part / all;
    format!("{:.0} / {:.0} / {:.0}", percent(below), percent(equal), percent(all - below - equal))
}

/// The instances of a family.
fn of(all: &[Instance], family: Family) -> Vec<&Instance> {
    all.iter().filter(|instance| instance.family == family).collect()
}

fn markdown(all: &[Instance]) -> Result<String, Failure> {
    let mut text = format!(
        "# Improved annealer against baselines (Table II, Figures 1, 2)\n\n\
         | instances in which the improved annealer is better / equal / worse, % | standard, {} pieces | standard, {} \
         pieces | paper | K-way | paper | A-BFD, where feasible | feasible, % | paper |\n\
         |---|---|---|---|---|---|---|---|---|\n",
        LIMITS[0], LIMITS[1]
    );
    let row = |name: &str, of: &[&Instance], paper: [String; 3]| {
        let against = |other: fn(&Instance) -> Option<f64>| {
            shares(of.iter().filter_map(|instance| Some((instance.improved[1], other(instance)?))))
        };
        let short = shares(of.iter().map(|instance| (instance.improved[0], instance.standard[0])));
        let (long, kway) = (against(|i| Some(i.standard[1])), against(|i| Some(i.kway)));
        let packed = against(|i| i.packed);
        let there = of.iter().filter(|instance| instance.packed.is_some()).count() * 100 / of.len().max(1);
        let [a, b, c] = paper;
        format!("| {name} | {short} | {long} | {a} | {kway} | {b} | {packed} | {there} | {c} |\n")
    };
    let every: Vec<&Instance> = all.iter().collect();
    for (family, kway, packed, standard) in PAPER {
        let packed = packed.map_or_else(|| "none".to_owned(), |packed| packed.to_string());
        text += &row(&family.to_string(), &of(all, family), [standard.to_string(), kway.to_string(), packed]);
    }
    text += &row("all", &every, ["84".to_owned(), "54".to_owned(), "92".to_owned()]);
    let trials: usize = all.iter().map(|instance| instance.trials).sum();
    let narrow = all.iter().filter(|instance| instance.narrow).count();
    writeln!(
        text,
        "\n{} instances, {trials} trials; in {narrow} of them the 95 % intervals of all five means are narrower than \
         {} % of the mean after at most {} trials.",
        all.len(),
        100.0 * NARROW,
        TRIALS.1
    )?;
    text += "\n| min / max objective, long limit | improved | standard | K-way | A-BFD |\n|---|---|---|---|---|\n";
    #[expect(clippy::disallowed_methods, reason = "a table, not replayed")]
    let ratios = |of: &[&Instance], ratio: fn(&Instance) -> Option<f64>| {
        let ratios: Vec<f64> = of.iter().filter_map(|instance| Some(ratio(instance)?.ln())).collect();
        if ratios.is_empty() { "-".to_owned() } else { format!("{:.3}", mean(&ratios).0.exp()) }
    };
    let mut relative = String::from(
        "\n| objective ÷ improved annealer's, geometric mean | standard, short limit | standard | K-way | A-BFD |\n\
         |---|---|---|---|---|\n",
    );
    for (family, ..) in PAPER {
        let of = of(all, family);
        let spread = |objective: fn(&Instance) -> Option<f64>| {
            spread(of.iter().filter_map(|instance| objective(instance)))
        };
        let improved = spread(|instance| Some(instance.improved[1]));
        let (standard, kway) =
            (spread(|instance| Some(instance.standard[1])), spread(|instance| Some(instance.kway)));
        writeln!(text, "| {family} | {improved} | {standard} | {kway} | {} |", spread(|i| i.packed))?;
        let short = ratios(&of, |i| Some(i.standard[0] / i.improved[0]));
        let long = ratios(&of, |i| Some(i.standard[1] / i.improved[1]));
        let kway = ratios(&of, |i| Some(i.kway / i.improved[1]));
        let packed = ratios(&of, |i| Some(i.packed? / i.improved[1]));
        writeln!(relative, "| {family} | {short} | {long} | {kway} | {packed} |")?;
    }
    text += &relative;
    let most = all.iter().map(|instance| instance.standard[0] / instance.improved[0]).fold(0.0, f64::max);
    writeln!(
        text,
        "\nOver all instances, standard ÷ improved objective at the short limit is {} (geometric mean), at most {most:.1}.",
        ratios(&every, |i| Some(i.standard[0] / i.improved[0]))
    )?;
    text += "\n| improved better / equal / worse than standard, first trial, % | equal moves | both as printed |\n|---|---|---|\n";
    let mut otherwise = |name: &str, of: &[&Instance]| {
        let [moves, printed] = [0, 1].map(|at| shares(of.iter().map(|instance| instance.otherwise[at])));
        writeln!(text, "| {name} | {moves} | {printed} |")
    };
    for (family, ..) in PAPER {
        otherwise(&family.to_string(), &of(all, family))?;
    }
    otherwise("all", &every)?;
    Ok(text)
}

/// Minimum and maximum.
fn spread(values: impl Iterator<Item = f64>) -> String {
    let (least, most) = values.fold((f64::INFINITY, 0.0_f64), |(a, b), value| (a.min(value), b.max(value)));
    if least.is_finite() { format!("{least:.3e} / {most:.3e}") } else { "-".to_owned() }
}

/// Mean objectives over strips, one panel per family.
fn figure(other: &str, all: &[Instance], objective: fn(&Instance) -> f64) -> String {
    let line = |name: &str, instances: &[&Instance], value: fn(&Instance) -> f64| Series {
        name: name.to_owned(),
        points: STRIPS
            .iter()
            .map(|strip| {
                let at = instances.iter().filter(|instance| instance.strip == *strip);
                (real(*strip), mean(&at.map(|instance| value(instance)).collect::<Vec<f64>>()).0)
            })
            .collect(),
    };
    let panel = |(family, ..): &(Family, f64, Option<f64>, f64)| Panel {
        title: family.to_string(),
        series: vec![
            line("improved", &of(all, *family), |instance| instance.improved[1]),
            line(other, &of(all, *family), objective),
        ],
    };
    let panels: Vec<Panel> = PAPER.iter().map(panel).collect();
    let title = format!("The improved annealer and {other}: mean objective");
    lines(&Labels { title: &title, x: "vector strip", y: "objective", log: true }, &panels)
}
