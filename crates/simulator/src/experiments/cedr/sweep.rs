//! The sweep over pools, schedulers, rates and workloads, and slices of it.

use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use taskgraph::generate::cedr::Pair;

use super::common::{
    Counts, FULL, SCHEDULERS, each_ms, graphs, measure, page, prepare, ratio_columns, table,
};
use crate::dag::{Measures, RuntimeSetting};
use crate::experiments::chart::{Labels, Panel, Series, lines};
use crate::experiments::claims::{Claim, claims, yes};
use crate::experiments::setting::{Failure, Setting as Experiment};

/// The two workloads with their names in the paper.
fn workloads() -> [(&'static str, Pair); 2] {
    [("low", Pair::low()), ("high", Pair::high())]
}

/// One run of the sweep.
struct Point {
    workload: &'static str,
    pool: Counts,
    scheduler: &'static str,
    mbps: u32,
    measures: Measures,
}

/// A plotted measure: its name, the paper's figure, and its value in milliseconds per application.
type Shown = (&'static str, u32, fn(&Measures) -> f64);

const SHOWN: [Shown; 3] = [
    ("cumulative", 3, |measures| each_ms(measures.cumulative_ns, measures)),
    ("execution", 4, |measures| each_ms(measures.execution_ns, measures)),
    ("overhead", 6, |measures| each_ms(measures.overhead_ns, measures)),
];

/// Runs `pools` × workloads × schedulers × rates on all cores, in a fixed result order.
fn points(pools: &[Counts]) -> Result<Vec<Point>, Failure> {
    let jobs: Vec<(usize, Counts)> = (0..2).flat_map(|w| pools.iter().map(move |pool| (w, *pool))).collect();
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(jobs.len());
    let failed = std::thread::scope(|scope| {
        let work = || -> Result<(), Failure> {
            while let Some((number, (workload, pool))) = take(&next, &jobs) {
                let found = one_pool(workload, pool)?;
                done.lock().expect("no thread panics while holding the lock").push((number, found));
            }
            Ok(())
        };
        let started: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        started.into_iter().find_map(|thread| thread.join().expect("a run does not panic").err())
    });
    if let Some(error) = failed {
        return Err(error);
    }
    let mut done = done.into_inner().expect("no thread panics while holding the lock");
    done.sort_by_key(|(number, _)| *number);
    Ok(done.into_iter().flat_map(|(_, found)| found).collect())
}

fn take(next: &AtomicUsize, jobs: &[(usize, Counts)]) -> Option<(usize, (usize, Counts))> {
    let number = next.fetch_add(1, Ordering::Relaxed);
    jobs.get(number).map(|job| (number, *job))
}

fn one_pool(workload: usize, pool: Counts) -> Result<Vec<Point>, Failure> {
    let (name, pair) = &workloads()[workload];
    let applications = prepare(&graphs(pair), &pool.platform())?;
    let mut found = Vec::new();
    for scheduler in SCHEDULERS {
        for mbps in &pair.rates {
            let measures =
                measure(&applications, &pair.arriving(*mbps), scheduler, &RuntimeSetting::default())?;
            found.push(Point { workload: name, pool, scheduler, mbps: *mbps, measures });
        }
    }
    Ok(found)
}

/// Lines over rates, one per scheduler.
fn series(points: &[&Point], read: fn(&Measures) -> f64) -> Vec<Series> {
    let line = |name: &&str| Series {
        name: (*name).to_owned(),
        points: points
            .iter()
            .filter(|point| point.scheduler == *name)
            .map(|point| (f64::from(point.mbps), read(&point.measures)))
            .collect(),
    };
    SCHEDULERS.iter().map(line).collect()
}

/// `cedr-sweep`.
pub fn sweep(setting: &Experiment) -> Result<(), Failure> {
    let points = points(&Counts::all())?;
    let mut text =
        String::from("workload,pool,scheduler,mbps,execution_ms,cumulative_ms,overhead_ms,rounds,looks\n");
    for Point { workload, pool, scheduler, mbps, measures } in &points {
        let [cumulative, execution, overhead] = SHOWN.map(|(_, _, read)| read(measures));
        let (rounds, looks) = (measures.rounds, measures.looks);
        writeln!(
            text,
            "{workload},{},{scheduler},{mbps},{execution:.4},{cumulative:.4},{overhead:.5},{rounds},{looks}",
            pool.name()
        )?;
    }
    setting.write("sweep.csv", &text)?;
    for (name, figure, read) in SHOWN {
        for (workload, _) in workloads() {
            let panel = |pool: Counts| {
                let of: Vec<&Point> =
                    points.iter().filter(|point| point.workload == workload && point.pool == pool).collect();
                Panel { title: pool.name(), series: series(&of, read) }
            };
            let panels: Vec<Panel> = Counts::all().into_iter().map(panel).collect();
            let title = format!("Figure {figure}, {workload} latency workload: {name} per application");
            let labels =
                Labels { title: &title, x: "injection rate (Mbps)", y: "ms", log: workload == "high" };
            setting.write(&format!("figure-{figure}-{workload}.svg"), &lines(&labels, &panels))?;
        }
    }
    setting.write("sweep.md", &summary(&points))
}

/// The pools at the highest rate, compared with the paper's claims.
fn summary(points: &[Point]) -> String {
    let mut text = page("Design space sweep of 3,480 runs (Figures 3, 4, 6)");
    text += "12 pools × 5 schedulers × 29 rates × 2 workloads, all in `sweep.csv`; the tables show the highest rate of each workload.\n";
    text += &claims(&by_cores(points));
    for (workload, pair) in workloads() {
        let mbps = *pair.rates.last().expect("29 rates");
        for (name, figure, read) in SHOWN {
            let _ = writeln!(
                text,
                "\n## {workload} latency workload, {mbps} Mbps: {name} per application (Figure {figure})\n"
            );
            let rows: Vec<Vec<String>> = Counts::all()
                .into_iter()
                .map(|pool| {
                    let value = |scheduler: &&str| {
                        let found = points.iter().find(|point| {
                            (point.workload, point.pool, point.scheduler, point.mbps)
                                == (workload, pool, *scheduler, mbps)
                        });
                        found.map_or(String::new(), |point| format!("{:.4}", read(&point.measures)))
                    };
                    std::iter::once(pool.name()).chain(SCHEDULERS.iter().map(value)).collect()
                })
                .collect();
            let head: Vec<&str> = std::iter::once("pool").chain(SCHEDULERS).collect();
            text += &table(&head, &rows);
        }
    }
    text
}

/// The paper's claims on execution time over pools (Figure 4, high latency workload at the highest rate).
fn by_cores(points: &[Point]) -> Vec<Claim<'static>> {
    let execution = |scheduler: &str, pool: Counts| {
        let of =
            |point: &&Point| point.workload == "high" && point.scheduler == scheduler && point.pool == pool;
        // Rates ascend.
        points.iter().rfind(of).map_or(0.0, |point| each_ms(point.measures.execution_ns, &point.measures))
    };
    let grown = [Counts(2, 0, 0), Counts(3, 0, 0), FULL];
    let etf = grown.map(|pool| execution("ETF", pool));
    let said = etf.iter().zip(grown).map(|(ms, pool)| format!("{ms:.0} ms on {}", pool.name()));
    let others: Vec<(f64, f64)> = SCHEDULERS
        .into_iter()
        .filter(|scheduler| *scheduler != "ETF")
        .flat_map(|scheduler| {
            let more = Counts::all().into_iter().filter(|pool| pool.0 > 1);
            more.map(move |pool| (scheduler, pool))
        })
        .map(|(scheduler, pool)| {
            let fewer = Counts(pool.0 - 1, pool.1, pool.2);
            (execution(scheduler, fewer), execution(scheduler, pool))
        })
        .collect();
    let falls = others.iter().filter(|(fewer, more)| more < fewer).count();
    vec![
        (
            "high latency workload: ETF's execution rises with processing elements beyond two cores",
            "yes",
            format!("{}: {}", yes(etf.is_sorted_by(|a, b| a < b)), said.collect::<Vec<_>>().join(", ")),
        ),
        (
            "high latency workload: execution of the other schedulers falls with every core",
            "yes",
            format!("{}: in {falls} of {} steps of one core", yes(falls == others.len()), others.len()),
        ),
    ]
}

/// The paper's claims on the low latency workload on the full pool at the highest rate (Figures 5, 7); `times` holds each
/// scheduler's execution time and overhead in milliseconds per application.
fn low_claims(times: &[[f64; 2]; 5]) -> Vec<Claim<'static>> {
    let least = times.iter().map(|times| times[0]).fold(f64::INFINITY, f64::min);
    let most = times.iter().map(|times| times[0]).fold(0.0, f64::max);
    let [simple, met, eft, etf, heft] = times.map(|times| 1e3 * times[1]);
    let order = simple < met && met < eft && eft < heft.min(etf);
    vec![
        (
            "execution: all five alike",
            "yes",
            format!("{least:.1} to {most:.1} ms, max ÷ min {:.2}", most / least),
        ),
        (
            "overhead: RR < MET < EFT < HEFT_RT ≈ ETF",
            "yes",
            format!(
                "{}: {simple:.1}, {met:.1}, {eft:.1}, {heft:.1}, {etf:.1} µs; ETF {:+.1} % against HEFT_RT",
                yes(order),
                100.0 * (etf / heft - 1.0)
            ),
        ),
    ]
}

/// Maximum deviation of the execution time, from 1000 Mbps on, from that at the highest rate, in per cent.
fn settled(of: &[&Point]) -> f64 {
    let changes = SCHEDULERS.into_iter().flat_map(|scheduler| {
        let late = of.iter().filter(move |point| point.scheduler == scheduler && point.mbps >= 1000);
        let times: Vec<f64> =
            late.map(|point| each_ms(point.measures.execution_ns, &point.measures)).collect();
        let last = times.last().copied().unwrap_or_default();
        times.into_iter().map(move |time| 100.0 * (time / last - 1.0).abs())
    });
    changes.fold(0.0, f64::max)
}

/// Execution time and overhead per application on the full pool at 2000 Mbps in the authors' data: SIMPLE, MET, EFT,
/// ETF, `HEFT_RT`.
const PUBLISHED: [[f64; 5]; 2] = [[225.0, 241.0, 219.0, 692.0, 225.0], [0.58, 0.74, 0.72, 65.5, 1.14]];

/// `cedr-slices`.
pub fn slices(setting: &Experiment) -> Result<(), Failure> {
    let points = points(&[FULL])?;
    let mut text = page("Injection rates on 3 cores, 1 FFT and 1 MMULT (Figures 5, 7, 10)");
    text += "Per application.\n";
    for (workload, pair) in workloads() {
        let of: Vec<&Point> = points.iter().filter(|point| point.workload == workload).collect();
        for (name, figure, read) in [SHOWN[1], SHOWN[2]] {
            // Figure 5 is a slice of Figure 4, Figure 7 one of Figure 6.
            let figure = figure + 1;
            let title =
                format!("Figure {figure}, {workload} latency workload, C3-F1-M1: {name} per application");
            let labels =
                Labels { title: &title, x: "injection rate (Mbps)", y: "ms", log: workload == "high" };
            let panel = Panel { title: String::new(), series: series(&of, read) };
            setting.write(&format!("figure-{figure}-{workload}.svg"), &lines(&labels, &[panel]))?;
        }
        let mbps = *pair.rates.last().expect("29 rates");
        let _ = writeln!(text, "\n## {workload} latency workload, {mbps} Mbps\n");
        let last: Vec<&&Point> = of.iter().filter(|point| point.mbps == mbps).collect();
        let rows: Vec<Vec<String>> = last
            .iter()
            .enumerate()
            .map(|(number, point)| {
                let [cumulative, execution, overhead] = SHOWN.map(|(_, _, read)| read(&point.measures));
                let mut row = vec![point.scheduler.to_owned()];
                if workload == "high" {
                    row.extend(ratio_columns(execution, PUBLISHED[0][number]));
                    row.extend(ratio_columns(overhead, PUBLISHED[1][number]));
                } else {
                    row.extend([format!("{execution:.3}"), format!("{overhead:.5}")]);
                }
                row.push(format!("{cumulative:.3}"));
                row
            })
            .collect();
        text += &if workload == "high" {
            let head = [
                "scheduler",
                "execution, ours / paper",
                "ours",
                "paper",
                "overhead, ours / paper",
                "ours",
                "paper",
                "cumulative",
            ];
            table(&head, &rows)
        } else {
            table(&["scheduler", "execution", "overhead", "cumulative"], &rows)
        };
        if workload == "low" {
            let mut times = [[0.0; 2]; 5];
            for (times, point) in times.iter_mut().zip(&last) {
                *times = [SHOWN[1].2(&point.measures), SHOWN[2].2(&point.measures)];
            }
            text += &claims(&low_claims(&times));
        }
    }
    let two = |read: fn(&Measures) -> f64| {
        let of: Vec<&Point> = points
            .iter()
            .filter(|point| point.workload == "high" && ["SIMPLE", "ETF"].contains(&point.scheduler))
            .collect();
        series(&of, read).into_iter().filter(|series| !series.points.is_empty()).collect::<Vec<_>>()
    };
    let panels = [("(a) cumulative", SHOWN[0].2), ("(b) execution", SHOWN[1].2)]
        .map(|(title, read)| Panel { title: title.to_owned(), series: two(read) });
    let labels = Labels {
        title: "Figure 10, high latency workload, C3-F1-M1: SIMPLE and ETF, per application",
        x: "injection rate (Mbps)",
        y: "ms",
        log: false,
    };
    let [cumulative, execution] = panels;
    setting.write("figure-10a.svg", &lines(&labels, &[cumulative]))?;
    setting.write("figure-10b.svg", &lines(&labels, &[execution]))?;
    let last = |scheduler: &str| {
        points.iter().rfind(|point| point.workload == "high" && point.scheduler == scheduler)
    };
    if let (Some(simple), Some(etf)) = (last("SIMPLE"), last("ETF")) {
        let by = |read: fn(&Measures) -> f64| read(&etf.measures) - read(&simple.measures);
        let high: Vec<&Point> = points.iter().filter(|point| point.workload == "high").collect();
        text += &claims(&[
            (
                "execution saturates over rates (Figure 5)",
                "yes",
                format!("from 1000 Mbps on within {:.1} % of that at 2000", settled(&high)),
            ),
            ("execution of ETF − SIMPLE (Figure 10)", "+468 ms", format!("{:+.0} ms", by(SHOWN[1].2))),
            ("cumulative time of ETF − SIMPLE (Figure 10)", "-1.9 ms", format!("{:+.2} ms", by(SHOWN[0].2))),
        ]);
    }
    setting.write("slices.md", &text)
}

/// Published utilization of the FFT accelerator in percent; the text gives all but one.
const FFT_UTILISATION: [[f64; 5]; 2] = [[6.4, 17.9, 27.4, 38.3, 23.1], [23.7, 29.9, 30.6, 4.3, 26.9]];

/// `cedr-utilisation`.
pub fn utilisation(setting: &Experiment) -> Result<(), Failure> {
    let mut text = page("Utilisation of the full pool (Figure 8)");
    text += "Busy over end-to-end time in percent, on 3 cores (average), 1 FFT, 1 MMULT. The paper's text gives the FFT.\n";
    for (number, (workload, pair)) in workloads().into_iter().enumerate() {
        let mbps = *pair.rates.last().expect("29 rates");
        let applications = prepare(&graphs(&pair), &FULL.platform())?;
        let _ = writeln!(text, "\n## {workload} latency workload, {mbps} Mbps\n");
        let mut rows = Vec::new();
        for (position, scheduler) in SCHEDULERS.iter().enumerate() {
            let measures =
                measure(&applications, &pair.arriving(mbps), scheduler, &RuntimeSetting::default())?;
            let [core, fft, mmult] =
                ["Core", "FFT", "MMULT"].map(|title| 100.0 * measures.utilisation(title));
            let mut row = vec![(*scheduler).to_owned()];
            row.extend(ratio_columns(fft, FFT_UTILISATION[number][position]));
            row.extend([format!("{core:.1}"), format!("{mmult:.1}")]);
            rows.push(row);
        }
        text += &table(&["scheduler", "FFT, ours / paper", "ours", "paper", "cores", "MMULT"], &rows);
    }
    setting.write("utilisation.md", &text)
}

#[cfg(test)]
mod tests {
    use super::low_claims;

    #[test]
    fn a_violated_order_fails_the_claim() {
        let mut times = [[8.0, 0.001], [9.0, 0.002], [8.0, 0.003], [8.0, 0.005], [10.0, 0.004]];
        let said = low_claims(&times);
        assert_eq!(said[0].2, "8.0 to 10.0 ms, max ÷ min 1.25");
        assert_eq!(said[1].2, "yes: 1.0, 2.0, 3.0, 4.0, 5.0 µs; ETF +25.0 % against HEFT_RT");
        times[0][1] = 0.0025;
        assert!(low_claims(&times)[1].2.starts_with("no: "));
    }
}
