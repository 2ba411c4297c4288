//! Results published by the authors of CEDR, within the bounds that docs/results/cedr claims.

use simulator::dag::{Applications, Measures, RuntimeSetting, arrivals, run};
use taskgraph::generate::cedr::{Pair, actual, application};
use taskgraph::{Costs, Graph, Group, Kind, Platform, online};

/// A workload at its highest rate on 3 cores, an FFT and an MMULT of a ZCU102.
fn full(pair: &Pair, scheduler: &str, cache: bool) -> Measures {
    let groups = [Group::new(Kind::Cpu, 3), Group::new(Kind::Fft, 1), Group::new(Kind::Mmult, 1)];
    let mut platform = Platform::new(&groups).expect("there are cores");
    platform.costs = Costs::ZCU102;
    let graphs = pair.applications.map(|name| application(name).expect("a known application"));
    let graphs: Vec<&Graph> = graphs.iter().collect();
    let applications = Applications::new(&graphs, &platform, &actual()).expect("all kinds are there");
    let mut scheduler = online::scheduler(scheduler).expect("a name of the list");
    let arrivals = arrivals(&pair.arriving(*pair.rates.last().expect("29 rates")), 1);
    let setting = RuntimeSetting { cache, ..RuntimeSetting::default() };
    run(&applications, &arrivals, &mut *scheduler, &setting, &mut |_| {}).expect("a short workload")
}

fn ms(total: u64) -> f64 {
    f64::from(u32::try_from(total / 1000).expect("short")) / 1000.0 / 10.0
}

#[test]
fn the_high_latency_workload_matches_the_board() {
    let published = [
        ("SIMPLE", 225.0, 0.58, 1.0 / 3.0),
        ("MET", 241.0, 0.74, 1.0 / 3.0),
        ("EFT", 219.0, 0.72, 1.0 / 3.0),
        ("ETF", 692.0, 65.5, 0.15),
        ("HEFT_RT", 225.0, 1.14, 1.0 / 3.0),
    ];
    for (scheduler, execution, overhead, within) in published {
        let found = full(&Pair::high(), scheduler, false);
        assert_eq!((found.applications, found.tasks), (10, 5600));
        let off = [ms(found.execution_ns) / execution - 1.0, ms(found.overhead_ns) / overhead - 1.0];
        assert!(off[0].abs() < within && off[1].abs() < 0.2, "{scheduler}: {off:?}");
    }
}

#[test]
fn caching_removes_etfs_overhead() {
    let [simple, etf, cached] = [("SIMPLE", false), ("ETF", false), ("ETF", true)]
        .map(|(scheduler, cache)| ms(full(&Pair::high(), scheduler, cache).execution_ns));
    assert!(etf - simple > 400.0 && (cached / simple - 1.0).abs() < 0.15, "{simple} {etf} {cached}");
}

#[test]
fn low_latency_execution_times_are_similar_and_overhead_grows_with_complexity() {
    let all = online::SCHEDULERS.map(|name| full(&Pair::low(), name, false));
    let [simple, met, eft, etf, _, heft] = all.each_ref().map(|measures| measures.overhead_ns);
    assert!(
        simple < met && met < eft && eft < heft && heft.abs_diff(etf) < etf / 10,
        "{simple} {met} {eft} {etf} {heft}"
    );
    let execution = all.map(|measures| measures.execution_ns);
    let (least, most) = (execution.iter().min().unwrap(), execution.iter().max().unwrap());
    assert!(most - least < least / 5, "{execution:?}");
}
