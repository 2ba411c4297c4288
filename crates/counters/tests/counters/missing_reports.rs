//! Actors and groups whose counters are missing.

use std::sync::Arc;

use counters::CounterSeries::{Busy, Cpu, Messages, Processed};
use counters::{CounterSeries, MAX_WINDOWS, Roster, RosterApplication, WindowChoice, Windows};

use crate::{Line, application, collect, profiles, roster, running, scale};

const ACTORS: [&str; 6] = ["a-0", "a-1", "a-2", "a-3", "a-4", "b-0"];

/// CPU seconds of all actors, and messages and processed ones of those that report.
fn lines(reporting: usize, cpu: bool, messages: f64) -> Vec<Line<'static>> {
    let of = |series: CounterSeries, actors: usize, value: f64| {
        let peer = if series == Messages { "b-0" } else { "" };
        ACTORS.into_iter().take(actors).map(move |actor| (series, actor, peer, value))
    };
    let all = of(Messages, reporting.min(5), messages).chain(of(Processed, reporting, 10.0));
    all.chain(of(Cpu, if cpu { 6 } else { 0 }, 1.0)).collect()
}

fn add(windows: &mut Windows, roster: &Arc<Roster>, lines: &[Line], is_settled: bool) {
    let ended_at = windows.summaries().first().map_or(0.0, |newest| newest.ended_at + 10.0);
    windows.add(ended_at, &collect(roster, lines).windows[0], is_settled);
}

/// Eight windows in which all actors report.
fn measured(roster: &Arc<Roster>) -> Windows {
    let mut windows = Windows::new(scale());
    (0..8).for_each(|_| add(&mut windows, roster, &lines(6, true, 100.0), true));
    windows
}

#[test]
fn windows_without_counters_of_a_measured_group_are_not_used() {
    let roster = roster(&ACTORS);
    for (reporting, cpu, is_used) in [
        (6, true, true),
        // One exporter of five, or all, are not scraped; CPU seconds still arrive.
        (4, true, false),
        (0, true, false),
        // Without CPU seconds the work is that of the other windows.
        (6, false, true),
        (0, false, false),
    ] {
        let mut windows = measured(&roster);
        let facts = windows.load(WindowChoice::All);
        for _ in 0..4 {
            add(&mut windows, &roster, &lines(reporting, cpu, 100.0), true);
        }
        assert_eq!(windows.usable_windows(), if is_used { 12 } else { 8 }, "{reporting} {cpu}");
        assert_eq!(windows.is_stale(4), !is_used, "{reporting} {cpu}");
        assert!(!windows.has_changed(&facts), "{reporting} {cpu}");
        assert_eq!(Windows::of_file(&windows.file()).usable_windows(), windows.usable_windows());
        // Counters return.
        add(&mut windows, &roster, &lines(6, true, 100.0), true);
        assert!(!windows.is_stale(1));
    }
}

#[test]
fn groups_that_never_report_are_measured_by_cpu_seconds() {
    let roster = roster(&ACTORS);
    let mut windows = Windows::new(scale());
    (0..20).for_each(|_| add(&mut windows, &roster, &lines(0, true, 0.0), true));
    assert_eq!(windows.usable_windows(), MAX_WINDOWS);
    assert!(!windows.is_unmeasured(4), "work is measured");
    let numbers = windows.measure(&profiles(&[("a", 5, &["b"]), ("b", 1, &[])]), WindowChoice::All);
    assert!(numbers.groups["a"].work && !numbers.groups["a"].messages);
    // From now on they report: the windows before cannot be compared with these.
    (0..2).for_each(|_| add(&mut windows, &roster, &lines(6, true, 100.0), true));
    assert_eq!(windows.usable_windows(), 2);
}

#[test]
fn windows_without_cpu_seconds_have_the_work_of_the_others() {
    let roster = roster(&ACTORS);
    let profiles = profiles(&[("a", 5, &["b"]), ("b", 1, &[])]);
    let mut windows = Windows::new(scale());
    // As with cAdvisor, whose samples are rare.
    (0..9).for_each(|at| add(&mut windows, &roster, &lines(6, at % 3 == 0, 100.0), true));
    assert_eq!(windows.usable_windows(), 9);
    let all = windows.measure(&profiles, WindowChoice::All);
    assert!(all.groups["a"].work);
    for at in 0..9 {
        assert_eq!(windows.measure(&profiles, WindowChoice::One(at)).work, all.work, "window {at}");
    }
}

#[test]
fn counters_may_be_missing_for_long_unless_actors_started_since() {
    let roster = roster(&ACTORS);
    for (restarts, is_used) in [(false, false), (true, true)] {
        let mut windows = measured(&roster);
        add(&mut windows, &roster, &lines(0, true, 0.0), !restarts);
        (0..MAX_WINDOWS - 2).for_each(|_| add(&mut windows, &roster, &lines(0, true, 0.0), true));
        assert_eq!(windows.usable_windows(), 1, "only the last measured one: {restarts}");
        (0..MAX_WINDOWS).for_each(|_| add(&mut windows, &roster, &lines(0, true, 0.0), true));
        assert_eq!(windows.usable_windows() > 0, is_used, "{restarts}");
    }
}

#[test]
fn groups_that_are_scaled_or_change_their_kind_are_used() {
    let five = roster(&ACTORS);
    let two = roster(&["a-0", "a-1", "b-0"]);
    let on_gpu = ACTORS.map(|name| running(name, if name == "b-0" { "cpu" } else { "gpu" }, 1.0));
    let on_gpu = Arc::new(Roster::new(vec![RosterApplication { actors: on_gpu.into(), ..application(&[]) }]));
    let without_a = roster(&["b-0"]);
    for later in [&two, &on_gpu, &without_a] {
        let mut windows = measured(&five);
        add(&mut windows, later, &lines(6, true, 100.0), false);
        (0..2).for_each(|_| add(&mut windows, later, &lines(6, true, 100.0), true));
        assert_eq!(windows.usable_windows(), 10);
    }
}

#[test]
fn missing_reports_do_not_lower_the_mean() {
    // Ten actors, so that one report may be missing: that of the one that sends almost everything.
    let names: Vec<String> = (0..10).map(|at| format!("a-{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let roster = roster(&names);
    let of = |missing: usize| {
        let all = names.iter().skip(missing).flat_map(|name| {
            let messages = if *name == "a-0" { 900.0 } else { 10.0 };
            [(Messages, *name, "a-5", messages), (Busy, *name, "", 1.0)]
        });
        all.collect::<Vec<Line>>()
    };
    let mut windows = Windows::new(scale());
    (0..8).for_each(|_| add(&mut windows, &roster, &of(0), true));
    let facts = windows.load(WindowChoice::All);
    (0..2).for_each(|_| add(&mut windows, &roster, &of(1), true));
    assert_eq!(windows.usable_windows(), 10, "nine in ten report");
    assert!(!windows.has_changed(&facts));
    assert_eq!(windows.load(WindowChoice::All), facts);
}

#[test]
fn an_application_is_unmeasured_once_its_actors_ran_in_enough_windows() {
    let roster = roster(&ACTORS);
    let none = lines(0, false, 0.0);
    let mut windows = Windows::new(scale());
    windows.add_missing();
    assert_eq!(windows.newest_answered(), None);
    let mut unmeasured = Vec::new();
    for _ in 0..4 {
        add(&mut windows, &roster, &none, true);
        windows.add_missing();
        unmeasured.push(windows.is_unmeasured(4));
    }
    assert_eq!(unmeasured, [false, false, false, true]);
    assert_eq!(windows.newest_answered(), Some(70.0));
    add(&mut windows, &roster, &lines(6, true, 100.0), false);
    assert!(!windows.is_unmeasured(4), "measured, though not settled");
    let mut before = measured(&roster);
    (0..3 * MAX_WINDOWS).for_each(|_| add(&mut before, &roster, &none, true));
    assert!(!before.is_unmeasured(4), "measured before");
}
