//! Larger graphs: sampling, shapes and sizes, reconfiguration costs, the best single mapping.

use std::fmt::Write as _;

use taskgraph::cost::Vector;
use taskgraph::generate::published::{PROFILE_A, PROFILE_B};
use taskgraph::generate::semi_static::{Shape, platform, profile, shaped};
use taskgraph::offline::{Settings, makespan};
use taskgraph::table::online::{Stored, models, plans};
use taskgraph::table::{Build, build, region_of};

use super::super::chart::{Labels, Panel, Series, lines};
use super::super::claims::{Claim, claims, yes};
use super::super::setting::{Failure, Setting};
use super::super::statistics::{mean, real};
use super::scenario::{RECONFIGURATION, Scenario, Scheme, sum};

const SHAPES: [Shape; 4] = [Shape::Random, Shape::InTree, Shape::OutTree, Shape::ForkJoin];
/// Graph sizes; the paper also has 100 and 200.
const SIZES: [usize; 2] = [10, 50];

/// A quarter of the paper's effort: five vectors per region, two runs for each, one of them seeded with ECT's mapping.
fn quarter(seed: u64) -> Build {
    Build { samples: 5, seed, divisions: 0, genetic: Settings { runs: 2, ..Settings::default() } }
}

/// Section 5.4: schemes 1 to 4 on random graphs of 50 nodes, profile A.
pub fn sampling(setting: &Setting) -> Result<(), Failure> {
    let platform = platform();
    let profile = PROFILE_A.map(Vector::new);
    let mut totals = vec![Vec::new(); 4];
    for seed in 1..=setting.seeds {
        let graph = shaped(Shape::Random, 50, seed)?;
        let four = Build { samples: 10, ..quarter(seed) };
        let unseeded = Settings { seeded: false, ..four.genetic };
        let schemes = [
            (Scheme::Middle, four),
            (Scheme::Samples, Build { samples: 1, ..four }),
            (Scheme::Samples, Build { genetic: unseeded, ..four }),
            (Scheme::Samples, four),
        ];
        for ((scheme, build), totals) in schemes.into_iter().zip(&mut totals) {
            let mut scenario = Scenario::new(&graph, &platform, build, scheme)?;
            totals.push(scenario.on_off(&profile, RECONFIGURATION, Stored::Table)?.total);
        }
        progress(setting, &format!("graph {seed}"));
    }
    let mut text = String::from(
        "# Sampling schemes for a region's mapping (5.4)\n\n| scheme | total ÷ scheme 4, ± 95 % | paper |\n|---|---|---|\n",
    );
    let names = [
        "1, centre of the region",
        "2, one random vector",
        "3, ten vectors, without ECT",
        "4, ten vectors, with ECT",
    ];
    for ((name, paper), of) in names.iter().zip([1.23, 1.19, 1.16, 1.00]).zip(&totals) {
        let ratios: Vec<f64> = of.iter().zip(&totals[3]).map(|(total, best)| total / best).collect();
        let (mean, half) = mean(&ratios);
        writeln!(text, "| {name} | {mean:.3} ± {half:.3} | {paper} |")?;
    }
    setting.write("semi-static-sampling.md", &text)
}

/// Figures 7, 8 (the intervals of the table) and 9.
pub fn graphs(setting: &Setting) -> Result<(), Failure> {
    let platform = platform();
    let mut csv = String::from("shape,size,seed,profile,on_off,ect,genetic,ideal\n");
    let mut text = String::from(
        "# Graph shapes and sizes (5.5, Figures 7 to 9)\n\n| shape | profile | GA on-line ÷ ideal, ± 95 % | On-Off ÷ GA on-line | On-Off ÷ ideal | ECT ÷ ideal |\n|---|---|---|---|---|---|\n",
    );
    let mut panels = Vec::new();
    let mut ideals = [("A", Vec::new()), ("B", Vec::new())];
    let mut groups = Vec::new();
    for shape in SHAPES {
        for (number, (name, printed)) in [("A", PROFILE_A), ("B", PROFILE_B)].into_iter().enumerate() {
            let profile = printed.map(Vector::new);
            let mut rows: Vec<(usize, [f64; 4])> = Vec::new();
            for size in SIZES {
                for seed in 1..=setting.seeds {
                    let graph = shaped(shape, size, seed)?;
                    let mut scenario = Scenario::new(&graph, &platform, quarter(seed), Scheme::Samples)?;
                    let table = scenario.on_off(&profile, RECONFIGURATION, Stored::Table)?.total;
                    let quick = scenario.ect(&profile, RECONFIGURATION)?.total;
                    let (online, ideal) = scenario.genetic(&profile, &quarter(seed).genetic, seed)?;
                    let all = [table, quick, sum(&online), sum(&ideal)];
                    writeln!(
                        csv,
                        "{shape},{size},{seed},{name},{}",
                        all.map(|total| format!("{total:.0}")).join(",")
                    )?;
                    rows.push((size, all));
                }
                progress(setting, &format!("{shape} {size} {name}"));
            }
            let ratio = |a: usize, b: usize| {
                let ratios: Vec<f64> = rows.iter().map(|(_, all)| all[a] / all[b]).collect();
                let (mean, half) = mean(&ratios);
                format!("{mean:.3} ± {half:.3}")
            };
            writeln!(
                text,
                "| {shape} | {name} | {} | {} | {} | {} |",
                ratio(2, 3),
                ratio(0, 2),
                ratio(0, 3),
                ratio(1, 3)
            )?;
            panels.push(panel(&format!("{shape}, profile {name}"), &rows));
            ideals[number].1.push(series(&shape.to_string(), &rows, |all| all[3]));
            groups.push(Group { shape, profile: name, rows });
        }
    }
    let labels = Labels { title: "Total times, the ideal's being 1", x: "tasks", y: "ratio", log: false };
    setting.write("figure-7.svg", &lines(&labels, &panels))?;
    let panels = ideals.map(|(name, series)| Panel { title: format!("profile {name}"), series });
    let labels = Labels { title: "Total times of the ideal", x: "tasks", y: "time", log: true };
    setting.write("figure-9.svg", &lines(&labels, &panels))?;
    setting.write("semi-static-graphs.csv", &csv)?;
    text += &claims(&shapes_and_sizes(&groups));
    setting.write("semi-static-graphs.md", &text)
}

/// The graphs of a shape under a profile: their sizes, and the totals of On-Off, ECT, the online genetic algorithm and
/// the ideal.
struct Group {
    shape: Shape,
    profile: &'static str,
    rows: Vec<(usize, [f64; 4])>,
}

impl Group {
    /// The mean ratio of total `a` to total `b` over graphs of at least this many tasks.
    fn ratio(&self, a: usize, b: usize, least: usize) -> f64 {
        let of = self.rows.iter().filter(|(size, _)| *size >= least).map(|(_, all)| all[a] / all[b]);
        mean(&of.collect::<Vec<f64>>()).0
    }
}

/// The paper's claims on its Figures 7 to 9 (section 5.5).
fn shapes_and_sizes(groups: &[Group]) -> [Claim<'static>; 4] {
    let within = |a: usize, b: usize, paper: f64| {
        let all: Vec<f64> =
            groups.iter().flat_map(|group| group.rows.iter().map(|(_, all)| all[a] / all[b])).collect();
        let most = all.iter().copied().fold(0.0, f64::max);
        let (low, high) = range(groups.iter().map(|group| group.ratio(a, b, 0)));
        format!(
            "{}: at most {most:.3}, {:.3} mean of all {}; means by shape and profile {low:.3} to {high:.3}",
            yes(most <= paper),
            mean(&all).0,
            all.len()
        )
    };
    let on = |profile: &'static str| groups.iter().filter(move |group| group.profile == profile);
    let (low, high) = range(on("A").zip(on("B")).map(|(a, b)| b.ratio(0, 3, 0) - a.ratio(0, 3, 0)));
    let large = SIZES[SIZES.len() - 1];
    let ect = || on("A").zip(on("B")).map(|(a, b)| (a.shape, [a, b].map(|group| group.ratio(1, 3, large))));
    let random = ect().find(|(shape, _)| *shape == Shape::Random).map_or([0.0; 2], |(_, ratios)| ratios);
    let above = ect().all(|(_, ratios)| ratios[0] <= random[0] && ratios[1] <= random[1]);
    let each: Vec<String> = ect().map(|(shape, [a, b])| format!("{shape} {a:.2} and {b:.2}")).collect();
    [
        ("GA on-line ÷ ideal", "at most 1.2", within(2, 3, 1.2)),
        ("On-Off ÷ GA on-line", "at most 1.3", within(0, 2, 1.3)),
        (
            "profile B is not much worse than A",
            "yes",
            format!("On-Off ÷ ideal is {low:+.3} to {high:+.3} by shape"),
        ),
        (
            "ECT is far from the ideal, furthest on large random graphs",
            "yes",
            format!("{}: ECT ÷ ideal on A and B, {large} tasks: {}", yes(above), each.join(", ")),
        ),
    ]
}

/// Minimum and maximum.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
}

fn panel(title: &str, rows: &[(usize, [f64; 4])]) -> Panel {
    let all = [
        series("On-Off", rows, |all| all[0] / all[3]),
        series("ECT", rows, |all| all[1] / all[3]),
        series("GA on-line", rows, |all| all[2] / all[3]),
    ];
    Panel { title: title.to_owned(), series: all.into() }
}

/// The mean of a value over the graphs of each size.
fn series(name: &str, rows: &[(usize, [f64; 4])], value: fn(&[f64; 4]) -> f64) -> Series {
    let at = |size: &usize| {
        let of = rows.iter().filter(|(of, _)| of == size).map(|(_, all)| value(all));
        (real(*size), mean(&of.collect::<Vec<f64>>()).0)
    };
    Series { name: name.to_owned(), points: SIZES.iter().map(at).collect() }
}

/// Table 6: random graphs of 50 nodes, profile B.
pub fn cost(setting: &Setting) -> Result<(), Failure> {
    let platform = platform();
    let paper = [(1000.0, 12), (5000.0, 10), (25_000.0, 8), (50_000.0, 7), (100_000.0, 7)];
    let mut rows = vec![(Vec::new(), Vec::new(), Vec::new(), Vec::new()); paper.len()];
    for seed in 1..=setting.seeds {
        let graph = shaped(Shape::Random, 50, seed)?;
        let mut scenario = Scenario::new(&graph, &platform, quarter(seed), Scheme::Samples)?;
        let profile = PROFILE_B.map(Vector::new);
        for ((cost, _), row) in paper.iter().zip(&mut rows) {
            let (table, quick) =
                (scenario.on_off(&profile, *cost, Stored::Table)?, scenario.ect(&profile, *cost)?);
            row.0.push(table.total);
            row.1.push(real(table.remaps));
            row.2.push(quick.total);
            row.3.push(real(quick.remaps));
        }
        progress(setting, &format!("graph {seed}"));
    }
    let mut text = String::from(
        "# Cost of reconfiguration (Table 6)\n\n| reconfiguration cost | On-Off ÷ at 1000 | paper | remaps | paper | ECT ÷ at 1000 | remaps |\n|---|---|---|---|---|---|---|\n",
    );
    let printed = [11_124_981.0, 11_370_890.0, 11_691_931.0, 12_017_445.0, 12_529_694.0];
    let base = (mean(&rows[0].0).0, mean(&rows[0].2).0);
    for (((cost, remaps), total), row) in paper.iter().zip(printed).zip(&rows) {
        writeln!(
            text,
            "| {cost} | {:.3} | {:.3} | {:.1} | {remaps} | {:.3} | {:.1} |",
            mean(&row.0).0 / base.0,
            total / printed[0],
            mean(&row.1).0,
            mean(&row.2).0 / base.1,
            mean(&row.3).0
        )?;
    }
    setting.write("semi-static-cost.md", &text)
}

/// Figure 10: graphs of 10 nodes of every shape, profiles of 200 iterations.
pub fn single(setting: &Setting) -> Result<(), Failure> {
    let platform = platform();
    let genetic = Settings { runs: 1, ..Settings::default() };
    let settings = Build { samples: 2, genetic, ..Build::default() };
    let deltas = [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5];
    let mut ratios = vec![[Vec::new(), Vec::new(), Vec::new(), Vec::new()]; deltas.len()];
    for shape in SHAPES {
        for seed in 1..=setting.seeds {
            let graph = shaped(shape, 10, seed)?;
            let table = build(&graph, &platform, &Build { seed, ..settings }, 1, &|_| {})?;
            let middles: Vec<Vector> = (0..256)
                .map(|number| {
                    let index = [number / 64, number / 16 % 4, number / 4 % 4, number % 4];
                    Vector::new(region_of(&table.ranges, index).map(|(from, to)| f64::midpoint(from, to)))
                })
                .collect();
            let middles = models(&graph, &platform, &middles)?;
            let plans = plans(&table, &middles[0])?;
            let total = |plan: &taskgraph::offline::Plan| {
                middles.iter().map(|model| makespan(model, plan)).sum::<f64>()
            };
            let best =
                plans.iter().min_by(|a, b| total(a).total_cmp(&total(b))).expect("a table has mappings");
            for (delta, ratios) in deltas.iter().zip(&mut ratios) {
                let profile = profile(200, *delta, seed);
                let mut scenario =
                    Scenario::new(&graph, &platform, Build { seed, ..settings }, Scheme::Samples)?;
                let table = scenario.on_off(&profile, RECONFIGURATION, Stored::Table)?.total;
                let quick = scenario.ect(&profile, RECONFIGURATION)?.total;
                let (online, ideal) = scenario.genetic(&profile, &genetic, seed)?;
                let fixed: f64 =
                    models(&graph, &platform, &profile[1..])?.iter().map(|model| makespan(model, best)).sum();
                let ideal = sum(&ideal);
                for (value, into) in [table, quick, sum(&online), fixed].into_iter().zip(ratios) {
                    into.push(value / ideal);
                }
            }
            progress(setting, &format!("{shape} {seed}"));
        }
    }
    let names = ["On-Off", "ECT", "GA on-line", "best single mapping"];
    let mut text = format!(
        "# Best single mapping (5.7, Figure 10)\n\n| Δ, % | {} |\n|---|---|---|---|---|\n",
        names.join(" | ")
    );
    for (delta, of) in deltas.iter().zip(&ratios) {
        let shown = of.each_ref().map(|values| format!("{:.3} ± {:.3}", mean(values).0, mean(values).1));
        writeln!(text, "| {:.0} | {} |", 100.0 * delta, shown.join(" | "))?;
    }
    let line = |(at, name): (usize, &&str)| Series {
        name: (*name).to_owned(),
        points: deltas.iter().zip(&ratios).map(|(delta, of)| (100.0 * delta, mean(&of[at]).0)).collect(),
    };
    let panel = Panel { title: String::new(), series: names.iter().enumerate().map(line).collect() };
    let labels = Labels { title: "Total times, the ideal's being 1", x: "Δ, %", y: "ratio", log: false };
    setting.write("figure-10.svg", &lines(&labels, &[panel]))?;
    setting.write("semi-static-single.md", &text)
}

fn progress(setting: &Setting, what: &str) {
    if setting.progress {
        eprintln!("{what}");
    }
}

#[cfg(test)]
mod tests {
    use super::{Group, Shape, shapes_and_sizes};

    #[test]
    fn verdicts_on_claims_are_correct() {
        let group = |shape, profile, ect| Group {
            shape,
            profile,
            rows: vec![(10, [1.1, 9.0, 1.0, 1.0]), (50, [1.2, ect, 1.25, 1.0])],
        };
        let groups = [
            group(Shape::Random, "A", 1.5),
            group(Shape::Random, "B", 1.6),
            group(Shape::InTree, "A", 1.4),
            group(Shape::InTree, "B", 1.3),
        ];
        let said = shapes_and_sizes(&groups).map(|(_, _, ours)| ours);
        assert_eq!(
            said,
            [
                "no: at most 1.250, 1.125 mean of all 8; means by shape and profile 1.125 to 1.125",
                "yes: at most 1.100, 1.030 mean of all 8; means by shape and profile 1.030 to 1.030",
                "On-Off ÷ ideal is +0.000 to +0.000 by shape",
                "yes: ECT ÷ ideal on A and B, 50 tasks: random 1.50 and 1.60, in-tree 1.40 and 1.30",
            ]
        );
    }
}
