//! Samples that are refused, and windows that are left out.

use std::collections::BTreeMap;
use std::sync::Arc;

use counters::CounterSeries::{Busy, Cpu, Messages, Processed, Rollbacks, Scrapes};
use counters::{
    Collector, MAX_PAIRS_OF_POD, MAX_WINDOWS, MembershipTracker, Roster, RosterApplication, Sample,
    SampleRefusal, WindowChoice, Windows,
};

use crate::{application, collect, profiles, roster, running, scale, windows};

#[test]
fn bad_samples_are_refused_alone_with_a_reason() {
    let good = Sample { namespace: "shop", pod: "web-a-0", actor: "a-0", peer: "shop/web/b-0", value: 5.0 };
    let of = |value| Sample { value, ..good };
    let peer = |peer| Sample { peer, ..good };
    for (sample, reason) in [
        (good, None),
        (of(0.0), None),
        (of(1_099_511_627_776.0), None),
        (of(f64::NAN), Some(SampleRefusal::Value)),
        (of(f64::INFINITY), Some(SampleRefusal::Value)),
        (of(f64::NEG_INFINITY), Some(SampleRefusal::Value)),
        (of(-1.0), Some(SampleRefusal::Value)),
        (of(1e300), Some(SampleRefusal::Value)),
        (of(1_099_511_627_777.0), Some(SampleRefusal::Value)),
        (Sample { namespace: "other", ..good }, Some(SampleRefusal::UnknownPod)),
        (Sample { pod: "web-a-9", ..good }, Some(SampleRefusal::UnknownPod)),
        (Sample { actor: "b-0", ..good }, Some(SampleRefusal::Actor)),
        (Sample { actor: "", ..good }, Some(SampleRefusal::Actor)),
        (peer("other/web/b-0"), Some(SampleRefusal::Peer)),
        (peer("b-0"), Some(SampleRefusal::Peer)),
        (peer("shop/web/b-0/x"), Some(SampleRefusal::Peer)),
        (peer("shop//b-0"), Some(SampleRefusal::Peer)),
        (peer(""), Some(SampleRefusal::Peer)),
        // No edge, but no error either.
        (peer("shop/another/b-0"), None),
        (peer("shop/web/gone-0"), None),
        (peer("_other"), None),
    ] {
        let roster = roster(&["a-0", "b-0"]);
        let mut collector = Collector::new(roster.clone());
        let well = Sample { peer: "shop/web/b-0", value: 7.0, ..good };
        collector.add(Messages, [sample]);
        collector.add(Rollbacks, [well]);
        let collected = collector.finish();
        let expected: BTreeMap<_, u64> = reason.map(|reason| (reason, 1)).into_iter().collect();
        assert_eq!(collected.refused, expected, "{sample:?}");
        let pair = collected.windows[0].pair("a-0", "b-0").unwrap();
        let messages = if sample.peer == good.peer && reason.is_none() { sample.value } else { 0.0 };
        assert_eq!((pair.messages, pair.rollbacks), (messages, 7.0), "{sample:?}");
    }
    assert_eq!(SampleRefusal::UnknownPod.to_string(), "unknown-pod");
}

#[test]
fn foreign_pods_have_cpu_seconds_and_are_no_strangers() {
    let roster = roster(&["a-0"]);
    let mut collector = Collector::new(roster.clone());
    collector.add(Cpu, [Sample { namespace: "x", pod: "y", actor: "", peer: "", value: 1.0 }]);
    assert_eq!(collector.finish().refused, BTreeMap::new());
}

#[test]
fn the_heaviest_pairs_of_a_pod_are_kept() {
    let names: Vec<String> = (0..MAX_PAIRS_OF_POD + 10).map(|at| format!("b-{at}")).collect();
    let actors = std::iter::once(running("a-0", "cpu", 1.0))
        .chain(names.iter().map(|name| running(name, "cpu", 1.0)))
        .collect();
    let roster = Arc::new(Roster::new(vec![RosterApplication { actors, ..application(&[]) }]));
    let mut lines: Vec<_> = names.iter().map(|name| (Messages, "a-0", name.as_str(), 2.0)).collect();
    // The first ten are the lightest.
    lines.iter_mut().take(10).for_each(|line| line.3 = 1.0);
    lines.push((Messages, "a-0", "_other", 5.0));
    lines.extend(["b-0", "b-1", "b-10"].map(|peer| (Rollbacks, "a-0", peer, 3.0)));
    let collected = collect(&roster, &lines);
    assert_eq!(collected.refused, BTreeMap::from([(SampleRefusal::Pairs, 12)]));
    let window = &collected.windows[0];
    assert_eq!(window.pair("a-0", "b-9"), None);
    let kept = window.pair("a-0", "b-10").unwrap();
    assert_eq!((kept.messages, kept.rollbacks), (2.0, 3.0));
    let kept = names.iter().filter(|name| window.pair("a-0", name).is_some()).count();
    assert_eq!(kept, MAX_PAIRS_OF_POD);
}

#[test]
fn a_pod_of_several_actors_reports_for_each_of_them_alone() {
    let actors = ["a-0", "a-1", "b-0"].map(|name| counters::RunningActor {
        pod: if name == "b-0" { "other".to_owned() } else { "host".to_owned() },
        ..running(name, "cpu", 1.0)
    });
    let shared = RosterApplication { actors: actors.into(), ..application(&[]) };
    let roster = Arc::new(Roster::new(vec![shared]));
    let mut collector = Collector::new(roster.clone());
    let of = |actor| Sample { namespace: "shop", pod: "host", actor, peer: "", value: 1.0 };
    collector.add(Busy, [of("a-0"), of("a-1"), of("b-0")]);
    collector.add(Cpu, [of("")]);
    let collected = collector.finish();
    assert_eq!(collected.refused, BTreeMap::from([(SampleRefusal::Actor, 1)]));
    assert_eq!(collected.windows[0].without_reports(), ["b-0"].into());
    let mut windows = Windows::new(scale());
    windows.add(0.0, &collected.windows[0], true);
    let measured = windows.measure(&profiles(&[("a", 2, &[]), ("b", 1, &[])]), WindowChoice::All);
    assert_eq!(measured.work["a-0"]["cpu"], 1_000_000);
    assert!(!measured.groups["b"].work, "CPU seconds of a pod of several actors belong to none");
}

#[test]
fn unsettled_windows_and_those_without_data_are_left_out() {
    let roster = roster(&["a-0"]);
    let mut windows = Windows::new(scale());
    let groups = profiles(&[("a", 1, &[])]);
    let busy = |seconds| collect(&roster, &[(Busy, "a-0", "", seconds)]).windows.remove(0);
    let empty = collect(&roster, &[]).windows.remove(0);
    let work =
        |windows: &Windows, choice| windows.measure(&groups, choice).work.get("a-0").map(|it| it["cpu"]);
    windows.add(10.0, &busy(1.0), true);
    windows.add(20.0, &busy(9.0), false);
    windows.add(30.0, &empty, true);
    assert_eq!(work(&windows, WindowChoice::Newest(2)), Some(1_000_000));
    windows.add(40.0, &busy(3.0), true);
    assert_eq!(work(&windows, WindowChoice::Newest(2)), Some(2_000_000));
    assert_eq!(work(&windows, WindowChoice::Newest(1)), Some(3_000_000));
    let shown: Vec<_> =
        windows.summaries().iter().map(|it| (it.ended_at, it.is_settled, it.has_data)).collect();
    assert_eq!(shown, [(40.0, true, true), (30.0, true, false), (20.0, false, true), (10.0, true, true)]);
    assert_eq!(windows.usable_windows(), 2);
    assert!(windows.is_stale(0) && !windows.is_stale(1), "the newest is good");
    for _ in 0..3 {
        windows.add_missing();
    }
    assert!(windows.is_stale(3) && !windows.is_stale(4));
    let newest = windows.summaries().remove(0);
    assert_eq!((newest.ended_at, newest.has_data), (70.0, false));
    assert_eq!(work(&windows, WindowChoice::Newest(1)), Some(3_000_000), "the last good window");
}

#[test]
fn sixteen_windows_are_kept_in_any_order_of_arrival() {
    let roster = roster(&["a-0", "b-0"]);
    let lines = |count: usize| vec![(Messages, "a-0", "b-0", f64::from(u32::try_from(count).unwrap()))];
    let all: Vec<_> = (0..MAX_WINDOWS + 4).map(lines).collect();
    let forward = windows(&roster, &all);
    let mut backward = Windows::new(scale());
    for (at, lines) in all.iter().enumerate().rev() {
        let ended_at = 10.0 * f64::from(u32::try_from(at).unwrap());
        backward.add(ended_at, &collect(&roster, lines).windows[0], true);
    }
    assert_eq!(forward.summaries(), backward.summaries());
    assert_eq!(forward.summaries().len(), MAX_WINDOWS);
    assert_eq!(forward.load(WindowChoice::All), backward.load(WindowChoice::All));
    let pair = |windows: &Windows| {
        let groups = profiles(&[("a", 1, &["b"]), ("b", 1, &[])]);
        windows.measure(&groups, WindowChoice::All).pairs[&("a-0".to_owned(), "b-0".to_owned())]
    };
    // 4 to 19: 11.5.
    assert_eq!((pair(&forward), pair(&backward)), (12, 12));
}

#[test]
fn scrapes_are_counted_by_pod() {
    let roster = roster(&["a-0", "b-0"]);
    let lines = [(Scrapes, "a-0", "", 6.0), (Scrapes, "b-0", "", 3.0), (Processed, "a-0", "", 1.0)];
    assert_eq!(collect(&roster, &lines).windows[0].min_scrapes(), Some(3));
    assert_eq!(collect(&roster, &[]).windows[0].min_scrapes(), None);
    // A pod that is never scraped reports nothing.
    let lines = [(Scrapes, "a-0", "", 6.0), (Scrapes, "b-0", "", 0.0)];
    assert_eq!(collect(&roster, &lines).windows[0].min_scrapes(), Some(6));
}

#[test]
fn windows_with_few_scrapes_are_not_used() {
    let roster = roster(&["a-0"]);
    for (scrapes, is_used) in [(3.0, false), (4.0, true)] {
        let lines = vec![(Scrapes, "a-0", "", scrapes), (Busy, "a-0", "", 1.0)];
        let measured = windows(&roster, &[lines]).measure(&profiles(&[("a", 1, &[])]), WindowChoice::All);
        assert_eq!(measured.groups["a"].work, is_used, "{scrapes}");
    }
}

#[test]
fn windows_are_settled_one_and_a_half_windows_after_a_change() {
    let members = |uid: &str| [("a-0".to_owned(), uid.to_owned())].into();
    for (uids, expected) in [
        ("1111", [false, false, false, true].as_slice()),
        ("1111222233", &[false, false, false, true, false, false, false, true, false, false]),
        ("1212", &[false; 4]),
    ] {
        let mut tracker = MembershipTracker::default();
        let settled = uids.split("").filter(|uid| !uid.is_empty()).map(|uid| {
            tracker.observe(members(uid));
            tracker.is_settled()
        });
        assert_eq!(settled.collect::<Vec<_>>(), expected, "{uids}");
        assert_eq!(tracker.has_changed(), uids != "1111");
    }
}

#[test]
fn windows_with_a_refused_value_are_not_used() {
    let roster = roster(&["a-0", "b-0"]);
    let good = vec![(Messages, "a-0", "b-0", 7.0)];
    for bad in [f64::NAN, -1.0, 1e300] {
        let lines = vec![(Messages, "a-0", "b-0", 7.0), (Rollbacks, "a-0", "b-0", bad)];
        let windows = windows(&roster, &[good.clone(), lines]);
        assert_eq!(windows.usable_windows(), 1);
        assert_eq!(Windows::of_file(&windows.file()).usable_windows(), 1);
        assert!(windows.is_stale(1) && !windows.is_stale(2));
    }
}
