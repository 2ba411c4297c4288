use counters::{WindowEntry, WindowsFile};
use serde_json::json;

use super::*;

#[test]
fn values_are_shown_after_four_equal_windows() {
    let mut held = Debounced::default();
    let mut shown = |values: &[u32]| {
        for value in values {
            held.observe(*value);
        }
        held.get()
    };
    assert_eq!(shown(&[]), 0);
    assert_eq!(shown(&[0, 7, 7, 7]), 0);
    assert_eq!(shown(&[8, 7, 7, 7]), 0);
    assert_eq!(shown(&[7]), 7);
    assert_eq!(shown(&[0, 0, 0, 7, 0, 0, 0]), 7, "not in a row");
}

#[test]
fn the_condition_names_the_moves_or_the_reason_for_none() {
    let proposed = |gain_percent, node| {
        let proposed = ProposedMove {
            actor: "crop-0".into(),
            from: "n1/cpus-0".into(),
            to: format!("{node}/cpus-0"),
            gain_percent,
        };
        LoadVerdict::WouldMove { rule: GateRule::Change, gain_percent, moves: vec![proposed] }
    };
    let mut report = LoadReport::default();
    let reported = |report: &LoadReport| {
        let Finding { holds, reason, message, .. } = report.findings().remove(0);
        format!("{holds} {reason}: {message}")
    };
    assert_eq!(
        reported(&report),
        "false Measuring: the current placement has not been evaluated on measured load yet"
    );
    let mut shown = |minute, verdict| {
        report.set_verdict((verdict, 1), Duration::from_mins(minute));
        reported(&report)
    };
    let moves = "true DryRun: would move crop-0 from n1/cpus-0 to n2/cpus-0 (31 %): gains 31 % since the load changed; DryRun \
                 moves nothing";
    assert_eq!(shown(60, proposed(31, "n2")), moves);
    assert_eq!(shown(65, proposed(29, "n3")), moves, "other moves within ten minutes");
    assert_eq!(shown(80, proposed(29, "n2")), moves, "the same moves are not written again");
    assert_eq!(shown(81, proposed(31, "n3")), moves.replace("n2", "n3"));
    let small = |gain| LoadVerdict::Stays(GateVerdict::Small { gain, least: 0.1 });
    let little = "false SmallGain: the best known moves gain less than the required 10 %";
    let no_gain = |stays_put| LoadVerdict::NoGain { stays_put };
    let uncertain = |gain| LoadVerdict::Stays(GateVerdict::Uncertain { gain });
    let varies =
        |gain| format!("false UncertainGain: expected gain {gain} %, but it varies too much between windows");
    assert_eq!(shown(82, small(0.051)), little);
    assert_eq!(shown(93, small(0.07)), little);
    assert_eq!(shown(94, no_gain(BTreeSet::new())), little, "not enough either");
    assert_eq!(shown(95, uncertain(0.12)), varies(12));
    assert_eq!(shown(96, no_gain(BTreeSet::new())), varies(12), "within ten minutes");
    assert_eq!(shown(104, uncertain(0.14)), varies(12), "within ten minutes");
    assert_eq!(shown(105, uncertain(0.14)), varies(14));
    let none = "false NoGain: no moves with the required gain were found";
    assert_eq!(shown(115, no_gain(BTreeSet::new())), none);
    assert_eq!(shown(116, small(0.07)), none);
    assert_eq!(
        shown(116, no_gain(["db".to_owned()].into())),
        "false NoGain: no moves with the required gain were found; actors of db are excluded from elective moves (pinned, \
         cairn.dev/do-not-move, or node-bound volumes or claims without cairn.dev/may-move)"
    );
}

#[test]
fn a_verdict_is_forgotten_when_it_no_longer_holds() {
    let moved = ProposedMove {
        actor: "crop-0".into(),
        from: "n1/cpus-0".into(),
        to: "n2/cpus-0".into(),
        gain_percent: 31,
    };
    let proposed = LoadVerdict::WouldMove { rule: GateRule::Steady, gain_percent: 31, moves: vec![moved] };
    let decided = proposed.clone().decided();
    let deferred = LoadVerdict::Deferred;
    let no_gain = LoadVerdict::NoGain { stays_put: BTreeSet::new() };
    let (moving, judging, waiting) =
        (Some(DeferralReason::Moving), Some(DeferralReason::Judging), Some(DeferralReason::Waiting));
    // What holds moves up now, whether the places are those of the verdict, and the units that are offered.
    for (verdict, now, expected) in [
        (&decided, (moving, true, "n2/cpus-0"), decided.clone()),
        (&decided, (judging, true, "n2/cpus-0"), deferred(DeferralReason::Judging)),
        (&decided, (waiting, true, "n2/cpus-0"), deferred(DeferralReason::Waiting)),
        (&decided, (None, false, "n2/cpus-0"), LoadVerdict::None),
        (&deferred(DeferralReason::Judging), (waiting, true, "n2/cpus-0"), deferred(DeferralReason::Waiting)),
        (&deferred(DeferralReason::Waiting), (None, true, "n2/cpus-0"), LoadVerdict::None),
        (&proposed, (None, true, "n2/cpus-0"), proposed.clone()),
        // In DryRun moves of other plans hold nothing up.
        (&proposed, (moving, true, "n2/cpus-0"), proposed.clone()),
        (&proposed, (None, false, "n2/cpus-0"), LoadVerdict::None),
        (&proposed, (None, true, "n1/cpus-0"), LoadVerdict::None),
        (&no_gain, (None, false, "n2/cpus-0"), no_gain.clone()),
    ] {
        let mut report = LoadReport::default();
        report.set_verdict((verdict.clone(), 7), Duration::from_mins(1));
        let (deferred, is_same, offered) = now;
        report.forget_outdated(deferred, if is_same { 7 } else { 8 }, |unit| unit == offered);
        assert_eq!(report.verdict, expected, "{verdict:?} {now:?}");
    }
}

#[test]
fn a_new_leader_shows_the_conditions_of_the_one_before_until_it_has_measured() {
    let condition = |type_: &str, status: &str, reason: &str| json!({"type": type_, "status": status, "reason": reason, "message": "as before", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let status: ActorApplicationStatus = serde_json::from_value(json!({
        "counters": {"covered": 3, "wanted": 4},
        "conditions": [condition("Ready", "True", "Ready"), condition("WouldMove", "True", "DryRun"),
            condition("CountersUnavailable", "True", "NoSettledWindow")]}))
    .unwrap();
    let key = ApplicationKey { namespace: "n".to_owned(), name: "app".to_owned() };
    let reports = LoadReports::default();
    reports.restore(&key, &ActorApplicationStatus::default());
    assert_eq!(reports.get(&key), None, "counters were not read");
    reports.restore(&key, &status);
    let shown = |report: &LoadReport| -> Vec<String> {
        let findings = report.findings();
        findings.iter().map(|it| format!("{} {} {}", it.type_, it.holds, it.reason)).collect()
    };
    let report = reports.get(&key).unwrap();
    assert_eq!(report.coverage.get(), CounterCoverage { covered: 3, wanted: 4 });
    let unavailable = "CountersUnavailable true NoSettledWindow";
    assert_eq!(shown(&report), ["WouldMove true DryRun", unavailable]);
    let no_windows = || Windows::of_file(&windows_file());
    // It has no verdict after so many windows.
    let mut waiting = report.clone();
    for would_move in [true, true, true, false, false] {
        waiting.observe(CounterCoverage { covered: 3, wanted: 4 }, &no_windows());
        let expected = if would_move { "WouldMove true DryRun" } else { "WouldMove false Measuring" };
        assert_eq!(shown(&waiting)[0], expected);
    }
    assert_eq!(shown(&waiting), ["WouldMove false Measuring"], "counters were there in four windows");
    let mut decided = report.clone();
    decided.set_verdict((LoadVerdict::NoGain { stays_put: BTreeSet::new() }, 1), Duration::ZERO);
    assert_eq!(shown(&decided), ["WouldMove false NoGain", unavailable]);
    let mut paused = report;
    paused.forget_would_move();
    assert_eq!(shown(&paused)[0], "WouldMove false Measuring");
    // The report of this leader is not replaced.
    reports.change(&key, LoadReport::forget_would_move);
    reports.restore(&key, &status);
    assert_eq!(shown(&reports.get(&key).unwrap())[0], "WouldMove false Measuring");
}

#[test]
fn without_counters_no_moves_are_known_to_pay() {
    let would_move = LoadVerdict::WouldMove { rule: GateRule::Steady, gain_percent: 31, moves: Vec::new() };
    let mut report = LoadReport::default();
    report.set_verdict((would_move, 1), Duration::ZERO);
    let mut windows = Windows::of_file(&windows_file());
    for at in 1..=4 {
        windows.add_missing();
        report.observe(CounterCoverage { covered: 0, wanted: 4 }, &windows);
        assert_eq!(report.findings()[0].holds, at < 4, "{at} windows without counters");
    }
}

fn windows_file() -> WindowsFile {
    WindowsFile {
        window_seconds: 10.0,
        message_quantum: 1.0,
        windows: Vec::new(),
        messages: Vec::new(),
        annoyance: Vec::new(),
        actors: BTreeMap::new(),
    }
}

/// Conditions after windows, the oldest first: whether each is usable, and the fewest scrapes of a pod in it.
fn conditions_after(wanted: i32, observed: &[(bool, u64)]) -> Vec<&'static str> {
    let mut report = LoadReport::default();
    let mut file = windows_file();
    let mut ended_at = 1000.0;
    for (is_usable, scrapes) in observed {
        let window = WindowEntry {
            ended_at,
            settled: *is_usable,
            has_data: true,
            min_scrapes: Some(*scrapes),
            bad_value: false,
            incomplete: false,
            groups: [("g".to_owned(), [1, 1, 1, 0])].into(),
        };
        file.windows.insert(0, window);
        ended_at += 10.0;
        report.observe(CounterCoverage { covered: 0, wanted }, &Windows::of_file(&file));
    }
    report.findings().into_iter().skip(1).map(|finding| finding.type_).collect()
}

#[test]
fn missing_counters_are_reported_after_four_windows() {
    let (unusable, usable, short) = ((false, 5), (true, 5), (true, 3));
    let unavailable = vec!["CountersUnavailable"];
    for (wanted, windows, expected) in [
        (2, vec![usable; 8], vec![]),
        (2, vec![unusable; 3], vec![]),
        (2, vec![unusable; 4], unavailable.clone()),
        (2, [vec![usable; 2], vec![unusable; 3]].concat(), vec![]),
        (2, [vec![usable; 2], vec![unusable; 4]].concat(), unavailable.clone()),
        // It ends after four windows that each have a usable one among the newest four.
        (2, [vec![unusable; 4], vec![usable; 3]].concat(), unavailable.clone()),
        (2, [vec![unusable; 4], vec![usable; 4]].concat(), vec![]),
        (0, vec![unusable; 8], vec![]),
        // A window with few scrapes is not usable either.
        (2, [vec![usable; 2], vec![short; 3]].concat(), vec![]),
        (2, [vec![usable; 2], vec![short; 4]].concat(), vec!["CountersUnavailable", "WindowTooShort"]),
    ] {
        assert_eq!(conditions_after(wanted, &windows), expected, "{wanted} {windows:?}");
    }
}
