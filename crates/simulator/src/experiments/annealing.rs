//! The annealing paper's experiments: Table II, Figures 1 and 2.

use std::fmt::Write as _;

use baselines::opponents::KWay;
use taskgraph::generate::annealing::{Family, STRIPS, graph, platform};
use taskgraph::offline::{AnnealingImproved, AnnealingStandard, BinPacking};
use taskgraph::{Budget, Mapper};

use super::chart::{Labels, Panel, Series, lines};
use super::setting::{Experiment, Failure, Setting};
use super::statistics::{mean, real};

/// Table II, Figures 1 and 2.
pub const TABLES: Experiment = Experiment {
    name: "annealing-tables",
    summary: "annealing, Table II, Figures 1, 2: both annealers, K-way and bin packing",
    run: tables,
};

/// Pieces of effort of both annealers, the same for both and for all graphs.
const EFFORT: u64 = 300;

/// The share of instances, in %, in which the paper's annealer is better than K-way, A-BFD and standard annealing.
const PAPER: [(Family, f64, Option<f64>, f64); 5] = [
    (Family::Binomial, 94.0, None, 95.0),
    (Family::Convolution, 12.0, Some(92.0), 76.0),
    (Family::GramSchmidt, 64.0, Some(92.0), 92.0),
    (Family::GaussSeidel, 68.0, None, 72.0),
    (Family::Jacobi, 32.0, Some(92.0), 88.0),
];

/// The objectives of one trial.
struct Trial {
    strip: usize,
    improved: f64,
    standard: f64,
    kway: f64,
    /// Absent where a vector fits nowhere.
    packed: Option<f64>,
}

fn trial(family: Family, strip: usize, seed: u64) -> Result<Trial, Failure> {
    let (graph, platform) = (graph(family, strip, seed)?, platform(seed));
    let objective = |mapper: &dyn Mapper, effort: Option<u64>| {
        mapper.map(&graph, &platform, &Budget::effort(effort, seed)).map(|found| found.objective)
    };
    Ok(Trial {
        strip,
        improved: objective(&AnnealingImproved::default(), Some(EFFORT))?,
        standard: objective(&AnnealingStandard::default(), Some(EFFORT))?,
        kway: objective(&KWay::default(), None)?,
        packed: objective(&BinPacking::default(), None).ok(),
    })
}

fn tables(setting: &Setting) -> Result<(), Failure> {
    let mut csv = String::from("family,strip,seed,improved,standard,kway,bin_packing\n");
    let mut all = Vec::new();
    for (family, ..) in PAPER {
        let mut trials = Vec::new();
        for strip in STRIPS {
            for seed in 1..=setting.seeds {
                let trial = trial(family, strip, seed)?;
                let packed = trial.packed.map_or_else(String::new, |packed| packed.to_string());
                let Trial { improved, standard, kway, .. } = trial;
                writeln!(csv, "{family},{strip},{seed},{improved},{standard},{kway},{packed}")?;
                trials.push(trial);
            }
            if setting.progress {
                eprintln!("{family} {strip}");
            }
        }
        all.push((family, trials));
    }
    setting.write("annealing-tables.csv", &csv)?;
    setting.write("annealing-tables.md", &markdown(&all)?)?;
    setting.write("figure-1.svg", &figure("standard annealing", &all, |trial| trial.standard))?;
    setting.write("figure-2.svg", &figure("K-way partitioning", &all, |trial| trial.kway))
}

/// How often ours is below, equal to and above the other, in %; `None` without a pair.
fn shares(pairs: impl Iterator<Item = (f64, f64)>) -> Option<(f64, f64, f64)> {
    let (mut below, mut equal, mut all) = (0.0, 0.0, 0.0);
    for (ours, other) in pairs {
        let same = (ours - other).abs() <= 1e-9 * other.abs();
        all += 1.0;
        equal += f64::from(u8::from(same));
        below += f64::from(u8::from(!same && ours < other));
    }
    let percent = |part: f64| 100.0 * part / all;
    (all > 0.0).then(|| (percent(below), percent(equal), percent(all - below - equal)))
}

fn markdown(all: &[(Family, Vec<Trial>)]) -> Result<String, Failure> {
    let mut text = String::from(
        "| instances in which the improved annealer is better / equal / worse, % | standard | paper | K-way | paper \
         | A-BFD, where it has an answer | it has one, % | paper |\n|---|---|---|---|---|---|---|---|\n",
    );
    let row = |name: &str, trials: &[&Trial], paper: [String; 3]| -> Result<String, Failure> {
        let shown = |shares: Option<(f64, f64, f64)>| {
            shares.map_or_else(|| "-".to_owned(), |(a, b, c)| format!("{a:.0} / {b:.0} / {c:.0}"))
        };
        let standard = shares(trials.iter().map(|trial| (trial.improved, trial.standard)));
        let kway = shares(trials.iter().map(|trial| (trial.improved, trial.kway)));
        let packed = shares(trials.iter().filter_map(|trial| Some((trial.improved, trial.packed?))));
        let there = trials.iter().filter(|trial| trial.packed.is_some()).count() * 100 / trials.len().max(1);
        let [a, b, c] = paper;
        let (standard, kway, packed) = (shown(standard), shown(kway), shown(packed));
        Ok(format!("| {name} | {standard} | {a} | {kway} | {b} | {packed} | {there} | {c} |\n"))
    };
    for ((family, trials), (_, kway, packed, standard)) in all.iter().zip(PAPER) {
        let packed = packed.map_or_else(|| "none".to_owned(), |packed| packed.to_string());
        let trials: Vec<&Trial> = trials.iter().collect();
        text += &row(&family.to_string(), &trials, [standard.to_string(), kway.to_string(), packed])?;
    }
    let every: Vec<&Trial> = all.iter().flat_map(|(_, trials)| trials).collect();
    text += &row("all", &every, ["84".to_owned(), "54".to_owned(), "92".to_owned()])?;
    text += "\n| objective, least / mean ± 95 % / most | improved | standard | K-way | A-BFD |\n|---|---|---|---|---|\n";
    for (family, trials) in all {
        let of = |objective: &dyn Fn(&Trial) -> Option<f64>| spread(trials.iter().filter_map(objective));
        let improved = of(&|trial| Some(trial.improved));
        let (standard, kway) = (of(&|trial| Some(trial.standard)), of(&|trial| Some(trial.kway)));
        let packed = of(&|trial| trial.packed);
        writeln!(text, "| {family} | {improved} | {standard} | {kway} | {packed} |")?;
    }
    Ok(text)
}

/// Least, mean with the half width of its 95 % interval, most.
fn spread(values: impl Iterator<Item = f64>) -> String {
    let values: Vec<f64> = values.collect();
    if values.is_empty() {
        return "-".to_owned();
    }
    let (mean, half) = mean(&values);
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    format!("{least:.3e} / {mean:.3e} ± {half:.1e} / {most:.3e}")
}

/// Mean objectives over strips, one panel per family.
fn figure(other: &str, all: &[(Family, Vec<Trial>)], objective: fn(&Trial) -> f64) -> String {
    let line = |name: &str, trials: &[Trial], of: fn(&Trial) -> f64| Series {
        name: name.to_owned(),
        points: STRIPS
            .iter()
            .map(|strip| {
                let at: Vec<f64> = trials.iter().filter(|trial| trial.strip == *strip).map(of).collect();
                (real(*strip), mean(&at).0)
            })
            .collect(),
    };
    let panel = |(family, trials): &(Family, Vec<Trial>)| Panel {
        title: family.to_string(),
        series: vec![line("improved", trials, |trial| trial.improved), line(other, trials, objective)],
    };
    let panels: Vec<Panel> = all.iter().map(panel).collect();
    let title = format!("The improved annealer and {other}: mean objective");
    lines(&Labels { title: &title, x: "vector strip", y: "objective", log: true }, &panels)
}
