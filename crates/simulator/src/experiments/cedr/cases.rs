//! The case studies: charts, caching, queues, streaming.

use taskgraph::files::workload::{Arrivals, Arriving};
use taskgraph::generate::cedr::{Pair, application};
use taskgraph::{Graph, Streaming};

use super::common::{
    Counts, FULL, each_ms, graphs, measure, ms, page, prepare, ratio_columns, record, table,
};
use crate::dag::{Applications, Measures, Record, RuntimeSetting, gantt};
use crate::experiments::chart::{Labels, Panel, Series, lines};
use crate::experiments::claims::{claims, yes};
use crate::experiments::setting::{Failure, Setting as Experiment};

/// `cedr-gantt`.
pub fn charts(setting: &Experiment) -> Result<(), Failure> {
    let pair = Pair::high();
    let pool = Counts(3, 1, 0);
    let applications = prepare(&graphs(&pair), &pool.platform())?;
    let dags = pair.arriving(2000);
    let mut text = page("Gantt charts (Figures 9, 15)");
    text += "High latency workload, 2000 Mbps, 3 cores and 1 FFT: every transform on the accelerator (MET), or on both (EFT).\n\n";
    let (mut ends, mut moved) = (Vec::new(), Vec::new());
    let mut rows = Vec::new();
    for (letter, scheduler, end, transforms) in [("a", "MET", 350.0, 2610.0), ("b", "EFT", 260.0, 1165.0)] {
        let (measures, records) = record(&applications, &dags, scheduler, &RuntimeSetting::default())?;
        let title =
            format!("Figure 9({letter}): {scheduler}, high latency workload at 2000 Mbps on {}", pool.name());
        setting.write(&format!("figure-9{letter}.svg"), &gantt(&applications, &records, &title))?;
        let on = records.iter().filter(|record| applications.pes()[record.pe].starts_with("FFT")).count();
        moved.push(on);
        let on = f64::from(u32::try_from(on)?);
        let mut row = vec![scheduler.to_owned()];
        row.extend(ratio_columns(ms(measures.end_to_end_ns), end));
        row.extend(ratio_columns(on, transforms));
        rows.push(row);
        ends.push(ms(measures.end_to_end_ns));
    }
    let head = [
        "scheduler",
        "end to end, ours / paper",
        "ours",
        "paper",
        "transforms on the FFT, ours / paper",
        "ours",
        "paper",
    ];
    text += &table(&head, &rows);
    // Figure 9.
    text += &claims(&[(
        "all 2,610 transforms on the accelerator end later than with both",
        "350 against 260 ms, +35 %",
        format!(
            "{}, {} of them: {:.0} against {:.0} ms, {:+.0} %",
            yes(ends[0] > ends[1]),
            moved[0],
            ends[0],
            ends[1],
            100.0 * (ends[0] / ends[1] - 1.0)
        ),
    )]);
    for (name, letters) in STREAMED {
        for (mode, letter) in [Streaming::Sequential, Streaming::Double].into_iter().zip(letters) {
            let (applications, _, records) = streamed(name, mode)?;
            let title = format!("Figure 15({letter}): {name}, 40 frames, {mode}");
            setting.write(&format!("figure-15{letter}.svg"), &gantt(&applications, &records, &title))?;
        }
    }
    setting.write("gantt.md", &text)
}

/// Extracts nanoseconds from a run.
type Total = fn(&Measures) -> u64;

/// `cedr-cache`.
pub fn cache(setting: &Experiment) -> Result<(), Failure> {
    let pair = Pair::high();
    let applications = prepare(&graphs(&pair), &FULL.platform())?;
    let ways = [("SIMPLE", "SIMPLE", false), ("ETF", "ETF", false), ("cached ETF", "ETF", true)];
    let mut found: Vec<(&str, Vec<(u32, Measures)>)> = Vec::new();
    for (name, scheduler, cache) in ways {
        let how = RuntimeSetting { cache, ..RuntimeSetting::default() };
        let run = |mbps: &u32| Ok((*mbps, measure(&applications, &pair.arriving(*mbps), scheduler, &how)?));
        found.push((name, pair.rates.iter().map(run).collect::<Result<_, Failure>>()?));
    }
    let shown: [(&str, Total); 3] = [
        ("cumulative", |measures| measures.cumulative_ns),
        ("execution", |measures| measures.execution_ns),
        ("overhead", |measures| measures.overhead_ns),
    ];
    for (letter, (measure, read)) in ["a", "b", "c"].iter().zip(shown) {
        let line = |(name, points): &(&str, Vec<(u32, Measures)>)| Series {
            name: (*name).to_owned(),
            points: points.iter().map(|(mbps, one)| (f64::from(*mbps), each_ms(read(one), one))).collect(),
        };
        let title =
            format!("Figure 11({letter}), high latency workload, C3-F1-M1: {measure} per application");
        let labels = Labels { title: &title, x: "injection rate (Mbps)", y: "ms", log: false };
        let panel = Panel { title: String::new(), series: found.iter().map(line).collect() };
        setting.write(&format!("figure-11{letter}.svg"), &lines(&labels, &[panel]))?;
    }
    let mut text = page("Schedule caching (Figure 11)");
    text += "High latency workload on 3 cores, 1 FFT, 1 MMULT; per application, at 2000 Mbps.\n\n";
    let last = |points: &[(u32, Measures)]| points.last().expect("29 rates").1.clone();
    let execution = |points: &[(u32, Measures)]| each_ms(last(points).execution_ns, &last(points));
    let simple = execution(&found[0].1);
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|(name, points)| {
            let one = last(points);
            let times =
                [one.cumulative_ns, one.execution_ns, one.overhead_ns].map(|total| each_ms(total, &one));
            let mut row = vec![(*name).to_owned()];
            row.extend(times.map(|time| format!("{time:.3}")));
            row.push(format!("{:.3}", execution(points) / simple));
            row
        })
        .collect();
    text += &table(&["scheduler", "cumulative", "execution", "overhead", "execution / SIMPLE's"], &rows);
    let mean = |points: &[(u32, Measures)]| {
        points.iter().map(|(_, one)| each_ms(one.cumulative_ns, one)).sum::<f64>() / 29.0
    };
    let against = |ours: f64, other: f64| format!("{:+.1} %", 100.0 * (ours / other - 1.0));
    text += &claims(&[
        ("execution of ETF − SIMPLE", "+468 ms", format!("{:+.0} ms", execution(&found[1].1) - simple)),
        (
            "execution of cached ETF against SIMPLE",
            "almost identical",
            against(execution(&found[2].1), simple),
        ),
        (
            "cumulative time of cached ETF against ETF's, mean over all rates",
            "+4.3 %",
            against(mean(&found[2].1), mean(&found[1].1)),
        ),
    ]);
    setting.write("cache.md", &text)
}

/// `cedr-queues`: EFT, 3 cores, 1 to 300 Radar Correlators.
pub fn queues(setting: &Experiment) -> Result<(), Failure> {
    let graph = application("radar-correlator").expect("a known application");
    let applications = prepare(&[graph], &Counts(3, 0, 0).platform())?;
    let counts: Vec<u32> = std::iter::once(1).chain((1..=30).map(|n| 10 * n)).collect();
    let mut lines_of = Vec::new();
    let mut rows: Vec<Vec<String>> = counts.iter().map(|count| vec![count.to_string()]).collect();
    for (name, queueing) in [("without queues", false), ("with queues", true)] {
        let how = RuntimeSetting { queueing, ..RuntimeSetting::default() };
        let mut points = Vec::new();
        for (count, row) in counts.iter().zip(&mut rows) {
            // 32 Kb each at 1000 Mbps exceed the capacity of three cores.
            let dags = [Arriving {
                file: String::new(),
                instances: u64::from(*count),
                period_ns: 31_000,
                arrivals: Arrivals::Periodic,
            }];
            let measures = measure(&applications, &dags, "EFT", &how)?;
            points.push((f64::from(*count), ms(measures.dispatch_ns)));
            row.extend([format!("{:.2}", ms(measures.dispatch_ns)), measures.rounds.to_string()]);
        }
        lines_of.push(Series { name: name.to_owned(), points });
    }
    let title = "Figure 13: dispatch overhead of EFT on 3 cores";
    let labels = Labels { title, x: "instances of Radar Correlator", y: "ms", log: false };
    let grown = [0, 1].map(|line: usize| lines_of[line].points.clone());
    let panel = Panel { title: String::new(), series: lines_of };
    setting.write("figure-13.svg", &lines(&labels, &[panel]))?;
    let mut text = page("Work queues (Figure 13)");
    text += "Dispatch overhead, Σ (start − end of the previous task on that core), of EFT on 3 cores; Radar Correlators every 31 µs.\n\n";
    text += &table(&["instances", "without queues", "rounds", "with queues", "rounds"], &rows);
    text += &claims(&[("dispatch overhead grows faster without queues", "yes", growth(&grown))]);
    setting.write("queues.md", &text)
}

/// Whether the first line grows more than the second, and the last points of both.
fn growth([without, with]: &[Vec<(f64, f64)>; 2]) -> String {
    let end = |points: &[(f64, f64)]| points.last().copied().unwrap_or_default();
    let grows = |points: &[(f64, f64)]| end(points).1 - points.first().copied().unwrap_or_default().1;
    format!(
        "{}: to {:.1} ms at {} instances, {:+.1} % against {:.1} ms with queues",
        yes(grows(without) > grows(with)),
        end(without).1,
        end(without).0,
        100.0 * (end(without).1 / end(with).1 - 1.0),
        end(with).1
    )
}

/// The two applications of Table 6, with the letters of their charts in Figure 15.
const STREAMED: [(&str, [&str; 2]); 2] =
    [("radar-correlator", ["a", "b"]), ("temporal-mitigation", ["c", "d"])];

/// 40 frames under SIMPLE on the full pool.
fn streamed(name: &str, mode: Streaming) -> Result<(Applications, Measures, Vec<Record>), Failure> {
    let mut parts = application(name).expect("a known application").into_parts();
    (parts.streaming, parts.frames) = (mode, 40);
    let applications = prepare(&[Graph::new(parts)?], &FULL.platform())?;
    let dags = [Arriving { file: String::new(), instances: 1, period_ns: 0, arrivals: Arrivals::Periodic }];
    let (measures, records) = record(&applications, &dags, "SIMPLE", &RuntimeSetting::default())?;
    Ok((applications, measures, records))
}

/// `cedr-streaming`.
pub fn streaming(setting: &Experiment) -> Result<(), Failure> {
    let mut text = page("Streaming (Table 6)");
    text += "40 frames under SIMPLE on 3 cores, 1 FFT, 1 MMULT: sequential, or pipelined with single or double buffers.\n\n";
    // Sequential and pipelined: time, then core utilization.
    let published = [[19.35, 9.80, 28.74, 56.32], [86.41, 63.03, 36.68, 50.27]];
    let mut rows = Vec::new();
    for ((name, _), paper) in STREAMED.iter().zip(published) {
        for (number, mode) in
            [Streaming::Sequential, Streaming::Single, Streaming::Double].into_iter().enumerate()
        {
            let (_, measures, _) = streamed(name, mode)?;
            let (time, busy) = (ms(measures.end_to_end_ns), 100.0 * measures.utilisation("Core"));
            let mut row = vec![format!("{name}, {mode}")];
            if mode == Streaming::Single {
                // The paper has no such row.
                row.extend(["", &format!("{time:.2}"), "", "", &format!("{busy:.1}"), ""].map(str::to_owned));
            } else {
                row.extend(ratio_columns(time, paper[number / 2]));
                row.extend(ratio_columns(busy, paper[2 + number / 2]));
            }
            rows.push(row);
        }
    }
    let head = [
        "application, mode",
        "time, ours / paper",
        "ours",
        "paper",
        "utilisation of cores (%), ours / paper",
        "ours",
        "paper",
    ];
    text += &table(&head, &rows);
    setting.write("streaming.md", &text)
}

#[cfg(test)]
mod tests {
    use super::growth;

    #[test]
    fn the_faster_growing_line_is_detected() {
        let (flat, steep) = (vec![(1.0, 1.0), (10.0, 2.0)], vec![(1.0, 1.0), (10.0, 3.0)]);
        let said = growth(&[steep.clone(), flat.clone()]);
        assert_eq!(said, "yes: to 3.0 ms at 10 instances, +50.0 % against 2.0 ms with queues");
        assert!(growth(&[flat, steep]).starts_with("no: "));
    }
}
