//! Cost of a tick: the answers of one window are parsed, joined, kept and measured. Prints the page of results.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::sync::Arc;

use counters::{
    ALL_SERIES, AnnoyanceScale, Collector, CounterSeries, GroupProfile, KindProfile, LoadScale, MAX_WINDOWS,
    Roster, RosterApplication, RunningActor, VectorAnswer, WindowChoice, Windows,
};

const APPLICATIONS: usize = 20;
const ACTORS: usize = 500;
const PEERS: usize = 10;
const NODES: usize = 1000;
const TICKS: usize = MAX_WINDOWS + 4;
/// Targets.
const CPU_SECONDS: f64 = 2.0;
const MEGABYTES: f64 = 300.0;
/// Ticks of the kernel in a second.
const CLOCK_TICKS: f64 = 100.0;

fn actor(at: usize) -> String {
    format!("group-{at}")
}

fn pod(application: usize, at: usize) -> String {
    format!("application-{application}-{}", actor(at))
}

fn roster() -> Roster {
    let application = |application: usize| RosterApplication {
        namespace: "shop".to_owned(),
        name: format!("application-{application}"),
        actors: (0..ACTORS)
            .map(|at| RunningActor {
                name: actor(at),
                group: "group".to_owned(),
                pod: pod(application, at),
                kind: "cpu".to_owned(),
                speed: 1.0,
                service_microseconds: 1000.0,
            })
            .collect(),
    };
    Roster::new((0..APPLICATIONS).map(application).collect())
}

/// The answer of Prometheus for a series.
fn answer(series: CounterSeries, tick: usize) -> String {
    let mut body = r#"{"status":"success","data":{"resultType":"vector","result":["#.to_owned();
    let is_of_pairs = matches!(series, CounterSeries::Messages | CounterSeries::Bytes);
    let is_of_pod = matches!(series, CounterSeries::Cpu | CounterSeries::Scrapes);
    let is_exposed =
        is_of_pairs || is_of_pod || matches!(series, CounterSeries::Processed | CounterSeries::Busy);
    let mut separator = "";
    let all = (0..APPLICATIONS).flat_map(|application| (0..ACTORS).map(move |at| (application, at)));
    for (application, at) in all.filter(|_| is_exposed) {
        for next in 1..=if is_of_pairs { PEERS } else { 1 } {
            let mut labels = format!(r#""namespace":"shop","pod":"{}""#, pod(application, at));
            if !is_of_pod {
                write!(labels, r#","actor":"{}""#, actor(at)).unwrap();
            }
            if is_of_pairs {
                let peer = actor((at + next * 7) % ACTORS);
                write!(labels, r#","peer":"shop/application-{application}/{peer}""#).unwrap();
            }
            let value = 100.0 + f64::from(u8::try_from((at + next + tick) % 200).unwrap()) / 7.0;
            write!(
                body,
                r#"{separator}{{"metric":{{{labels}}},"value":[{}.25,"{value}"]}}"#,
                1000 + 30 * tick
            )
            .unwrap();
            separator = ",";
        }
    }
    body + "]}}"
}

/// CPU seconds of this process.
fn cpu() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / CLOCK_TICKS
}

/// Peak resident memory in megabytes.
fn peak() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() * 1024.0 / 1e6
}

fn main() {
    let roster = Arc::new(roster());
    let scale =
        || LoadScale { window_seconds: 30.0, message_quantum: 1000.0, annoyance: AnnoyanceScale::default() };
    let mut kept: Vec<Windows> = (0..APPLICATIONS).map(|_| Windows::new(scale())).collect();
    let kind = KindProfile { work_microseconds: 1e6, service_microseconds: 1000.0, ..KindProfile::default() };
    let profile = GroupProfile {
        actors: (0..ACTORS).map(actor).collect(),
        receivers: vec!["group".to_owned()],
        kinds: [("cpu".to_owned(), kind)].into(),
    };
    let profiles = BTreeMap::from([("group".to_owned(), profile)]);
    let (mut ticks, mut bytes) = (Vec::new(), 0);
    for tick in 0..TICKS {
        let (mut spent, mut collector) = (0.0, Collector::new(roster.clone()));
        for series in ALL_SERIES {
            let body = answer(series, tick);
            bytes = bytes.max(body.len());
            let before = cpu();
            collector.add(series, VectorAnswer::parse(body.as_bytes()).unwrap().samples());
            spent += cpu() - before;
        }
        let before = cpu();
        let collected = collector.finish();
        assert!(collected.refused.is_empty(), "{:?}", collected.refused);
        for (windows, collected) in kept.iter_mut().zip(&collected.windows) {
            let facts = windows.load(WindowChoice::All);
            windows.add(f64::from(u32::try_from(tick).unwrap()) * 30.0, collected, true);
            windows.has_changed(&facts);
            let measured = windows.measure(&profiles, WindowChoice::All);
            assert_eq!(measured.pairs.len(), ACTORS * PEERS);
        }
        ticks.push(spent + cpu() - before);
    }
    ticks.sort_by(f64::total_cmp);
    let (median, most, peak) = (ticks[TICKS / 2], ticks[TICKS - 1], peak());
    let pairs = APPLICATIONS * ACTORS * PEERS;
    println!("# Reading the load of a large cluster\n");
    println!("| measured | median | max | target | max ÷ target |\n|---|---:|---:|---:|---:|");
    let ratio = most / CPU_SECONDS;
    println!("| CPU of a tick | {median:.2} s | {most:.2} s | {CPU_SECONDS:.1} s | {ratio:.2} |");
    let ratio = peak / MEGABYTES;
    println!("| peak memory | | {peak:.0} MB | {MEGABYTES:.0} MB | {ratio:.2} |\n");
    println!(
        "{APPLICATIONS} applications of {ACTORS} actors, as {NODES} nodes may run them, have {pairs} pairs, and answers of at most {:.0} MB a query. A tick \
         parses the answers of 12 queries, joins them to the running actors, adds the window to {MAX_WINDOWS} kept ones, and computes the \
         numbers of all applications; {TICKS} ticks follow each other. The peak includes one answer at a time; queries, the caches of \
         the operator and its plans are not part of it.",
        f64::from(u32::try_from(bytes).unwrap()) / 1e6
    );
}
