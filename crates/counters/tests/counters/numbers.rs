//! Messages, work and annoyance of windows.

use std::collections::BTreeMap;
use std::slice;
use std::sync::Arc;

use counters::CounterSeries::{
    Busy, Bytes, Cpu, Idle, Mailbox, Messages, NullMessages, Processed, Progress, Rollbacks, Undone,
};
use counters::{
    AnnoyanceScale, Gamma, KindProfile, LoadScale, MeasuredNumbers, Roster, RosterApplication, WindowChoice,
    Windows,
};

use crate::{Line, application, collect, profiles, roster, running, scale, windows};

fn measured(actors: &[&str], of: &[Vec<Line>], groups: &[(&str, usize, &[&str])]) -> MeasuredNumbers {
    windows(&roster(actors), of).measure(&profiles(groups), WindowChoice::All)
}

fn shown(pairs: &BTreeMap<(String, String), u64>) -> Vec<String> {
    pairs.iter().map(|((from, to), count)| format!("{from} {to} {count}")).collect()
}

#[test]
fn messages_are_the_mean_of_windows_in_quanta_rounded_up_once() {
    let groups: &[(&str, usize, &[&str])] = &[("a", 2, &["b"]), ("b", 1, &[])];
    for (lines, expected) in [
        (vec![vec![(Messages, "a-0", "b-0", 60.0)]], "a-0 b-0 60"),
        // Prometheus extrapolates in floating point.
        (vec![vec![(Messages, "a-0", "b-0", 60.000_000_000_1)]], "a-0 b-0 60"),
        (vec![vec![(Messages, "a-0", "b-0", 60.01)]], "a-0 b-0 61"),
        // 2,500 bytes are three messages of 1,000; 1,000 are one.
        (vec![vec![(Messages, "a-0", "b-0", 4.0), (Bytes, "a-0", "b-0", 10_000.0)]], "a-0 b-0 12"),
        (vec![vec![(Messages, "a-0", "b-0", 4.0), (Bytes, "a-0", "b-0", 4_000.0)]], "a-0 b-0 4"),
        (vec![vec![(Messages, "a-0", "b-0", 4.0), (Bytes, "a-0", "b-0", 4.0)]], "a-0 b-0 4"),
        // 1.2 and 1.4: not 2 and 2, but 1.3.
        (vec![vec![(Messages, "a-0", "b-0", 1.2)], vec![(Messages, "a-0", "b-0", 1.4)]], "a-0 b-0 2"),
        (vec![vec![(Messages, "a-0", "b-0", 10.0)], vec![(Processed, "a-0", "", 3.0)]], "a-0 b-0 5"),
        // Messages to itself cost nothing.
        (vec![vec![(Messages, "a-0", "b-0", 1.0), (Messages, "a-0", "a-0", 9.0)]], "a-0 b-0 1"),
    ] {
        let mut lines = lines;
        for window in &mut lines {
            window.push((Processed, "a-1", "", 1.0));
            window.push((Processed, "b-0", "", 1.0));
        }
        assert_eq!(shown(&measured(&["a-0", "a-1", "b-0"], &lines, groups).pairs), [expected], "{lines:?}");
    }
}

#[test]
fn small_and_unlisted_pairs_are_spread_over_the_receivers_of_the_groups_channels() {
    let lines = vec![
        (Messages, "a-0", "b-0", 10_000.0),
        (Messages, "a-0", "b-1", 10.0),
        (Messages, "a-1", "b-1", 9.0),
        (Messages, "a-1", "_other", 3.0),
        (Processed, "b-0", "", 1.0),
        (Processed, "b-1", "", 1.0),
    ];
    let with_channel =
        measured(&["a-0", "a-1", "b-0", "b-1"], slice::from_ref(&lines), &[("a", 2, &["b"]), ("b", 2, &[])]);
    assert_eq!(shown(&with_channel.pairs), ["a-0 b-0 10000"], "10,022 in all, so less than 10.022 is small");
    assert_eq!(shown(&with_channel.group_messages), ["a b 6"], "22 over 2 × 2 pairs");
    let without =
        measured(&["a-0", "a-1", "b-0", "b-1"], slice::from_ref(&lines), &[("a", 2, &[]), ("b", 2, &[])]);
    assert_eq!(shown(&without.group_messages), ["a b 6"], "the group it sent to");
    let to_itself =
        measured(&["a-0", "a-1", "b-0", "b-1"], &[lines], &[("a", 2, &["a", "b"]), ("b", 2, &[])]);
    assert_eq!(shown(&to_itself.group_messages), ["a a 4", "a b 4"], "22 over 2 × (1 + 2) pairs");
}

#[test]
fn a_group_is_measured_if_nine_in_ten_running_actors_report() {
    let names: Vec<String> = (0..20).map(|at| format!("a-{at}")).collect();
    let actors: Vec<&str> = names.iter().map(String::as_str).collect();
    for (reporting, is_measured) in [(20, true), (18, true), (17, false)] {
        let busy = actors[..reporting].iter().map(|actor| (Busy, *actor, "", 2.0));
        let lines = busy.chain([(Messages, "a-0", "a-1", 0.0)]).collect();
        let measured = measured(&actors, &[lines], &[("a", 20, &[])]);
        let group = measured.groups["a"];
        assert_eq!((group.work, group.messages, group.wanted), (is_measured, is_measured, 20), "{reporting}");
        assert_eq!(measured.work.len(), if is_measured { 20 } else { 0 });
        assert_eq!(measured.coverage(), (if is_measured { 20 } else { 0 }, 20));
    }
}

/// A runtime that exposes work alone says nothing about messages, unless it exposed them in an earlier window.
#[test]
fn messages_are_measured_once_the_application_exposes_them() {
    let busy = vec![(Busy, "a-0", "", 2.0), (Busy, "b-0", "", 2.0)];
    let sending = [busy.clone(), vec![(Messages, "a-0", "b-0", 5.0)]].concat();
    for (windows, expected) in [
        (vec![busy.clone(), busy.clone()], None),
        (vec![sending.clone()], Some(5)),
        // The mean of both windows.
        (vec![sending.clone(), busy.clone()], Some(3)),
        // The first window is not used: what is measured later is missing there.
        (vec![busy, sending], Some(5)),
    ] {
        let measured = measured(&["a-0", "b-0"], &windows, &[("a", 1, &["b"]), ("b", 1, &[])]);
        let group = measured.groups["a"];
        assert_eq!((group.work, group.messages), (true, expected.is_some()), "{windows:?}");
        let pair = measured.pairs.get(&("a-0".to_owned(), "b-0".to_owned())).copied();
        assert_eq!(pair, expected, "{windows:?}");
    }
}

#[test]
fn actors_without_a_report_have_the_mean_of_their_measured_group() {
    let lines = vec![
        (Busy, "a-0", "", 2.0),
        (Busy, "a-1", "", 4.0),
        (Messages, "a-0", "b-0", 10.0),
        (Messages, "a-0", "b-1", 30.0),
        (Messages, "a-1", "b-0", 20.0),
        (Processed, "b-0", "", 1.0),
        (Processed, "b-1", "", 1.0),
    ];
    // a-2 is new: it does not run yet.
    let measured = measured(&["a-0", "a-1", "b-0", "b-1"], &[lines], &[("a", 3, &["b"]), ("b", 2, &[])]);
    let work: Vec<u64> = ["a-0", "a-1", "a-2"].map(|actor| measured.work[actor]["cpu"]).into();
    assert_eq!(work, [2_000_000, 4_000_000, 3_000_000]);
    // 60 messages of two senders to two receivers: 15 each.
    let expected = ["a-0 b-0 10", "a-0 b-1 30", "a-1 b-0 20", "a-2 b-0 15", "a-2 b-1 15"];
    assert_eq!(shown(&measured.pairs), expected);
    assert!(!measured.groups["b"].work, "the manifest's work holds for b");
}

#[test]
fn work_is_busy_time_times_speed_or_cpu_seconds_on_cpus() {
    let shop = |kind: &str, speed: f64| {
        let actors = vec![running("a-0", kind, speed)];
        Arc::new(Roster::new(vec![RosterApplication { actors, ..application(&[]) }]))
    };
    let manifest =
        KindProfile { work_microseconds: 2000.0, service_microseconds: 1000.0, ..KindProfile::default() };
    let on_gpu = KindProfile { service_microseconds: 100.0, ..manifest };
    let mut groups = profiles(&[("a", 1, &[])]);
    groups.get_mut("a").unwrap().kinds.insert("gpu".to_owned(), on_gpu);
    for (kind, speed, lines, expected) in [
        ("cpu", 1.0, vec![(Busy, "a-0", "", 0.1)], Some((100_000, 10_000))),
        ("cpu", 2.0, vec![(Busy, "a-0", "", 0.5), (Cpu, "a-0", "", 3.0)], Some((1_000_000, 100_000))),
        ("cpu", 1.0, vec![(Cpu, "a-0", "", 3.0)], Some((3_000_000, 300_000))),
        ("gpu", 1.0, vec![(Busy, "a-0", "", 0.5)], Some((5_000_000, 500_000))),
        ("gpu", 1.0, vec![(Cpu, "a-0", "", 3.0)], None),
        // Saturated at 9.5 of 10 s: 10 more messages in the mailbox, at the measured 0.95 s each.
        (
            "cpu",
            1.0,
            vec![(Busy, "a-0", "", 9.5), (Processed, "a-0", "", 10.0), (Mailbox, "a-0", "", 10.0)],
            Some((19_000_000, 1_900_000)),
        ),
        // Nothing processed: at the manifest's 1 ms.
        ("cpu", 1.0, vec![(Busy, "a-0", "", 9.5), (Mailbox, "a-0", "", 10.0)], Some((9_510_000, 951_000))),
        ("cpu", 1.0, vec![(Busy, "a-0", "", 9.4), (Mailbox, "a-0", "", 10.0)], Some((9_400_000, 940_000))),
    ] {
        let measured =
            windows(&shop(kind, speed), slice::from_ref(&lines)).measure(&groups, WindowChoice::All);
        let work = measured.work.get("a-0").map(|work| (work["cpu"], work["gpu"]));
        assert_eq!(work, expected, "{kind} {speed} {lines:?}");
    }
    // Saturated: never below the manifest's work.
    groups.get_mut("a").unwrap().kinds.get_mut("cpu").unwrap().work_microseconds = 12_000_000.0;
    let measured = |busy: f64| {
        let windows = windows(&shop("cpu", 1.0), &[vec![(Busy, "a-0", "", busy)]]);
        windows.measure(&groups, WindowChoice::All).work["a-0"]["cpu"]
    };
    assert_eq!((measured(9.6), measured(9.4)), (12_000_000, 9_400_000));
    // MeasuredNumbers service times on both kinds replace the manifest's: 0.5 s on a CPU, 0.2 s on a GPU.
    groups.get_mut("a").unwrap().kinds.get_mut("gpu").unwrap().measured_service_microseconds =
        Some(200_000.0);
    let lines = vec![vec![(Busy, "a-0", "", 5.0), (Processed, "a-0", "", 10.0)]];
    let measured = windows(&shop("cpu", 1.0), &lines).measure(&groups, WindowChoice::All);
    assert_eq!((measured.work["a-0"]["cpu"], measured.work["a-0"]["gpu"]), (5_000_000, 2_000_000));
    let service = measured.services[&("a".to_owned(), "cpu".to_owned())];
    assert!((service - 500_000.0).abs() < 1e-6);
}

#[test]
fn engines_with_logical_time_work_at_the_common_pace() {
    // a-0 ran ahead: 30 tasks kept for 3 units of time, a-1 10 for 1. At the common pace both have 20 of the 40.
    let lines = vec![
        (Processed, "a-0", "", 35.0),
        (Undone, "a-0", "", 5.0),
        (Progress, "a-0", "", 3.0),
        (Busy, "a-0", "", 7.0),
        (Processed, "a-1", "", 10.0),
        (Undone, "a-1", "", 0.0),
        (Progress, "a-1", "", 1.0),
        (Busy, "a-1", "", 5.0),
    ];
    let measured = measured(&["a-0", "a-1"], &[lines], &[("a", 2, &[])]);
    // 7 s for 35 and 5 s for 10 messages.
    let work: Vec<u64> = ["a-0", "a-1"].map(|actor| measured.work[actor]["cpu"]).into();
    assert_eq!(work, [20 * 200_000, 20 * 500_000]);
}

#[test]
fn annoyance_is_exact_and_rounded_once() {
    let gamma = Gamma::new("1/3", "1", "0.5").unwrap();
    let annoyance = AnnoyanceScale {
        gamma,
        baseline_nanoseconds: 100_000,
        rollback_nanoseconds: 30_000,
        null_message_nanoseconds: 20_000,
    };
    let mut windows = Windows::new(LoadScale { annoyance, ..scale() });
    let roster = roster(&["a-0", "b-0"]);
    // σ = 6; rollbacks 7 × 30 µs / 3, null messages 2 × 20 µs, idle 1 ms / 2, over 100 µs: 4.2 + 2.4 + 30.
    let first =
        [(Rollbacks, "a-0", "b-0", 7.0), (NullMessages, "a-0", "b-0", 2.0), (Idle, "a-0", "b-0", 0.001)];
    windows.add(0.0, &collect(&roster, &first).windows[0], true);
    let groups = profiles(&[("a", 1, &["b"]), ("b", 1, &[])]);
    let only = windows.measure(&groups, WindowChoice::All);
    assert_eq!(shown(&only.annoyance), ["a-0 b-0 37"]);
    assert!(only.groups["a"].annoyance && !only.groups["b"].annoyance);
    // 36.6 and 30.6: 33.6.
    let second =
        [(Rollbacks, "a-0", "b-0", 7.0), (NullMessages, "a-0", "b-0", 2.0), (Idle, "a-0", "b-0", 0.0008)];
    windows.add(10.0, &collect(&roster, &second).windows[0], true);
    assert_eq!(shown(&windows.measure(&groups, WindowChoice::All).annoyance), ["a-0 b-0 34"]);
    assert_eq!(shown(&windows.measure(&groups, WindowChoice::Newest(1)).annoyance), ["a-0 b-0 31"]);
}
