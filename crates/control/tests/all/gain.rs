//! Gains of plans over windows.

use std::collections::BTreeMap;
use std::time::Duration;

use control::{
    BACKGROUND_INTERVAL, ElectiveMoves, Gain, GateRule, GateVerdict, LastLoadSearch, LoadSignal, LoadTerms,
    due_load_rule, gain, judge_moves, least_with_pauses, necessary_part, require_gain,
};
use placement::ix::{ActorIx, UnitIx};
use placement::{Budget, NoPolicy, Snapshot, plan};
use search::Greedy;

/// Two actors on one of two units; moving the second reduces the load by this much in each window.
fn world(work: &[u64]) -> Snapshot {
    let actors = work
        .iter()
        .enumerate()
        .map(|(actor, work)| format!(r#"{{"id":"a{actor}","runsOn":{{"cpu":{work}}},"current":"u"}}"#));
    let actors = actors.collect::<Vec<_>>().join(",");
    let text = format!(
        r#"{{"version":1,"nodes":[{{"id":"n"}}],"actors":[{actors}],"objectives":["bottleneck"],"exchangeCost":{{"kinds":{{"cpu":{{"cpu":1}}}}}},
        "units":[{{"id":"u","kind":"cpu","node":"n","capacity":1000}},{{"id":"v","kind":"cpu","node":"n","capacity":1000}}]}}"#
    );
    Snapshot::read(&text).unwrap()
}

fn gained(together: &[u64], windows: &[&[u64]], goes: [Option<usize>; 2], least: f64) -> Gain {
    let (windows, world): (Vec<Snapshot>, Snapshot) =
        (windows.iter().map(|work| world(work)).collect(), world(together));
    let goes = goes.into_iter().map(|unit| unit.map(UnitIx::new)).collect();
    gain(&world, &windows, (&world.incumbent(), &goes), least)
}

#[test]
fn gains_are_relative_with_a_margin_from_windows() {
    let apart = [Some(0), Some(1)];
    let of = |windows: &[&[u64]]| gained(&[500, 500], windows, apart, 0.0);
    assert_eq!(of(&[]), Gain { expected: 0.5, margin: 0.0 });
    assert_eq!(of(&[&[500, 500], &[500, 500]]), Gain { expected: 0.5, margin: 0.0 });
    let split = of(&[&[500, 500], &[1000, 0]]);
    // Gains of a half and of zero have a standard error of a quarter.
    assert!((split.margin - 1.96 * 0.25).abs() < 1e-9, "{split:?}");
    assert_eq!(gained(&[500, 500], &[], [Some(0), Some(0)], 0.0), Gain::default(), "nothing changes");
}

#[test]
fn gains_of_load_are_relative_to_the_capacity_and_small_differences_are_none() {
    let apart = [Some(0), Some(1)];
    // Capacity is 1000 and a level of `bottleneck` counts thousandths.
    assert_eq!(gained(&[50, 50], &[], apart, 0.0), Gain { expected: 0.05, margin: 0.0 });
    assert_eq!(gained(&[50, 50], &[], apart, 0.1), Gain { expected: 0.05, margin: 0.0 });
    assert_eq!(gained(&[50, 50], &[], apart, 0.11), Gain::default(), "less than half of what is asked for");
    assert_eq!(gained(&[1500, 500], &[], apart, 0.0), Gain { expected: 0.25, margin: 0.0 }, "of 2000");
}

#[test]
fn small_or_uncertain_gains_keep_the_incumbent() {
    let goes = |windows: &[&[u64]], least: f64| {
        let world_now = world(&[500, 400]);
        let windows: Vec<Snapshot> = windows.iter().map(|work| world(work)).collect();
        let plan = plan(&world_now, &Greedy, &NoPolicy, &Budget::effort(None, 1)).unwrap();
        assert_eq!(plan.moves.len(), 1, "one of the two goes to the free unit");
        let decided = require_gain(&world_now, &windows, plan.clone(), least);
        if decided == plan {
            return true;
        }
        assert_eq!(decided.assignment, world_now.incumbent());
        assert!(decided.moves.is_empty());
        assert_eq!(decided.cost, world_now.cost(&world_now.incumbent()));
        false
    };
    assert!(goes(&[], 0.4), "from 900 to 500 thousandths of 1000");
    assert!(!goes(&[], 0.41), "that is not more");
    assert!(goes(&[&[500, 400], &[500, 410]], 0.4));
    assert!(!goes(&[&[500, 500], &[1000, 0]], 0.1), "windows that do not agree");
}

#[test]
fn a_kept_incumbent_lists_its_unplaced_actors() {
    // One slot each: the second actor waits, and has less to do than the first.
    let text = r#"{"version":1,"nodes":[{"id":"n"}],"objectives":["bottleneck"],"exchangeCost":{"kinds":{"cpu":{"cpu":1}}},
        "actors":[{"id":"a","runsOn":{"cpu":500},"current":"u"},{"id":"b","runsOn":{"cpu":400}}],
        "units":[{"id":"u","kind":"cpu","node":"n","capacity":1000,"slots":1}]}"#;
    let snapshot = Snapshot::read(text).unwrap();
    let goes: placement::Assignment = [None, Some(UnitIx::new(0))].into_iter().collect();
    let kept = plan(&snapshot, &Greedy, &NoPolicy, &Budget::effort(None, 1)).unwrap();
    let first = kept.unplaced[0].clone();
    let unplaced = vec![placement::Unplaced { actor: ActorIx::new(0), ..first }];
    let going = placement::Plan { cost: snapshot.cost(&goes), assignment: goes, unplaced, ..kept };
    let waits = |least: f64| require_gain(&snapshot, &[], going.clone(), least).unplaced[0].actor.at();
    assert_eq!([0.1, 0.11].map(waits), [0, 1], "from 500 to 400 thousandths");
}

/// Actors `WORK@FROM>TO` on units of two slots, `-` without a unit; the necessary part in the same form, without the unchanged ones.
fn necessary(units: &str, actors: &str) -> String {
    let named: Vec<(&str, &str, &str)> = actors
        .split_whitespace()
        .map(|actor| {
            let (work, ends) = actor.split_once('@').unwrap();
            let (from, to) = ends.split_once('>').unwrap();
            (work, from, to)
        })
        .collect();
    let actor = |(at, (work, from, _)): (usize, &(&str, &str, &str))| {
        let current = if *from == "-" { String::new() } else { format!(r#","current":"{from}""#) };
        format!(r#"{{"id":"a{at}","runsOn":{{"cpu":{work}}}{current}}}"#)
    };
    let listed = named.iter().enumerate().map(actor).collect::<Vec<_>>().join(",");
    let unit = |unit: char| format!(r#"{{"id":"{unit}","kind":"cpu","node":"n","capacity":1000,"slots":2}}"#);
    let offered = units.chars().map(unit).collect::<Vec<_>>().join(",");
    let rule = if units.contains('x') { r#"{"type":"never","actors":["a0"],"units":["x"]}"# } else { "" };
    let snapshot = Snapshot::read(&format!(
        r#"{{"version":1,"nodes":[{{"id":"n"}}],"actors":[{listed}],"units":[{offered}],"objectives":["bottleneck"],
        "constraints":[{rule}],"exchangeCost":{{"kinds":{{"cpu":{{"cpu":1}}}}}}}}"#
    ))
    .unwrap();
    let goes = named.iter().map(|(_, _, to)| snapshot.unit(to)).collect();
    let part = necessary_part(&snapshot, &goes);
    let changed = part.enumerate().filter(|(actor, unit)| snapshot.current(*actor) != **unit);
    let shown = changed.map(|(actor, unit)| {
        format!("{}>{}", snapshot.actor_id(actor), unit.map_or("-", |unit| snapshot.unit_id(unit)))
    });
    shown.collect::<Vec<_>>().join(" ")
}

#[test]
fn only_moves_without_which_the_plan_fails_are_necessary() {
    for (units, actors, expected) in [
        ("uv", "1@u>v 1@u>u", ""),
        // A new actor, and a swap that has nothing to do with it.
        ("uvw", "1@->w 1@u>v 1@v>u", "a0>w"),
        // The move makes room for the new actor.
        ("uv", "1@u>u 1@u>v 1@->u", "a1>v a2>u"),
        // An actor on a forbidden unit.
        ("xuv", "1@x>u 1@u>v", "a0>u"),
        // An actor is exchanged for another: as many are placed.
        ("u", "1@u>u 1@u>- 1@->u", ""),
        ("uv", "1@->u 1@->v", "a0>u a1>v"),
        // A cycle through full units is reverted as a whole.
        ("uvw", "1@u>v 1@u>v 1@v>u 1@v>u 1@->w", "a4>w"),
    ] {
        assert_eq!(necessary(units, actors), expected, "{units}: {actors}");
    }
}

#[test]
fn elective_moves_of_a_plan_for_a_new_actor_must_gain() {
    // The second actor is new; the first would also go from the busy unit to a free one.
    let text = r#"{"version":1,"nodes":[{"id":"n"}],"objectives":["bottleneck"],"exchangeCost":{"kinds":{"cpu":{"cpu":1}}},
        "actors":[{"id":"a","runsOn":{"cpu":300},"current":"u"},{"id":"b","runsOn":{"cpu":300},"current":"u"},{"id":"c","runsOn":{"cpu":500}}],
        "units":[{"id":"u","kind":"cpu","node":"n","capacity":1000},{"id":"v","kind":"cpu","node":"n","capacity":1000},
                 {"id":"w","kind":"cpu","node":"n","capacity":1000}]}"#;
    let snapshot = Snapshot::read(text).unwrap();
    let best = plan(&snapshot, &Greedy, &NoPolicy, &Budget::effort(None, 1)).unwrap();
    let goes: placement::Assignment = [0, 1, 2].map(|unit| Some(UnitIx::new(unit))).into_iter().collect();
    let going = placement::Plan { cost: snapshot.cost(&goes), assignment: goes, ..best };
    let units = |least: f64| {
        let plan = require_gain(&snapshot, &[], going.clone(), least);
        plan.assignment.enumerate().map(|(_, unit)| unit.unwrap().at()).collect::<Vec<_>>()
    };
    assert_eq!(units(0.1), [0, 1, 2], "from 600 to 500 thousandths");
    assert_eq!(units(0.11), [0, 0, 2]);
}

#[test]
fn a_change_passes_after_two_windows_and_a_steady_gain_after_eight() {
    const LEAST: f64 = 0.1;
    let judge = |rule: GateRule, gains: &[f64]| match rule.judge(gains, LEAST) {
        GateVerdict::Pays { gain, .. } => format!("pays {gain:.2}"),
        GateVerdict::Small { gain, .. } => format!("small {gain:.2}"),
        GateVerdict::Uncertain { gain } => format!("uncertain {gain:.2}"),
        GateVerdict::FewWindows { windows, needed } => format!("{windows} of {needed}"),
    };
    // The load may have changed in the last of these windows.
    let noise = [0.02, -0.02, 0.01, -0.01, 0.02, -0.02, 0.25];
    let then = |newest: &[f64]| [&noise, newest].concat();
    for (rule, gains, expected) in [
        (GateRule::Change, then(&[0.3]), "8 of 9"),
        (GateRule::Change, then(&[0.3, 0.3]), "pays 0.30"),
        (GateRule::Change, then(&[0.3, 0.05]), "uncertain 0.17"),
        (GateRule::Change, then(&[0.05, 0.05]), "small 0.05"),
        // The earlier windows varied as much.
        (GateRule::Change, vec![0.3, -0.3, 0.3, -0.3, 0.3, -0.3, 0.3, 0.4, 0.4], "uncertain 0.40"),
        // Windows of an earlier load, in which the moves would have lost much, do not count.
        (GateRule::Change, [&[-0.9; 4][..], &[0.0, 0.01], &then(&[0.3, 0.3])].concat(), "pays 0.30"),
        (GateRule::Steady, vec![0.15; 7], "7 of 8"),
        (GateRule::Steady, vec![0.15; 8], "pays 0.15"),
        (GateRule::Steady, vec![0.05; 16], "small 0.05"),
        (GateRule::Steady, vec![0.6, -0.3, 0.6, -0.3, 0.6, -0.3, 0.6, -0.3], "uncertain 0.15"),
    ] {
        assert_eq!(judge(rule, &gains), expected, "{rule}: {gains:?}");
    }
}

#[test]
fn a_gain_does_not_count_if_a_more_important_level_loses() {
    let world = |work: u64, count: u64| {
        Snapshot::read(&format!(
            r#"{{"version":1,"nodes":[{{"id":"u"}},{{"id":"v"}}],"actors":[{{"id":"a","runsOn":{{"cpu":500}},"current":"u"}},
            {{"id":"b","runsOn":{{"cpu":{work}}},"current":"v"}}],
            "units":[{{"id":"u","kind":"cpu","node":"u","capacity":1000}},{{"id":"v","kind":"cpu","node":"v","capacity":1000}}],
            "messages":[{{"from":"a","to":"b","count":{count}}}],"objectives":["overload","communication"],
            "exchangeCost":{{"kinds":{{"cpu":{{"cpu":1}}}}}}}}"#
        ))
        .unwrap()
    };
    let goes = [0, 0].map(|unit| Some(UnitIx::new(unit))).into_iter().collect();
    let terms = LoadTerms {
        least: 0.1,
        max_moves: 8,
        pause_seconds: 30.0,
        pauses: BTreeMap::new(),
        horizon_seconds: 300.0,
    };
    let verdict = |works: &[u64]| {
        let window = |at: usize| Ok::<_, ()>(world(works[at], 100));
        let judged = judge_moves(GateRule::Steady, (&world(500, 100), &goes), &terms, works.len(), window);
        judged.unwrap().verdict()
    };
    let pays = |gain| Some(GateVerdict::Pays { rule: GateRule::Steady, gain });
    assert_eq!(verdict(&[500; 8]), pays(1.0));
    assert_eq!(verdict(&[500, 480, 500, 520, 490, 500, 510, 500]), pays(1.0), "half a percent on average");
    let uncertain = Some(GateVerdict::Uncertain { gain: 1.0 });
    assert_eq!(
        verdict(&[400, 600, 400, 600, 400, 600, 400, 600]),
        uncertain,
        "5 % of the capacity on average"
    );
    // Half of the work stops for a tenth of the time.
    let moves = ElectiveMoves::of_plan(&world(500, 100), &goes, &terms).unwrap();
    assert!((moves.required_gain(&world(500, 100), &terms) - 0.15).abs() < 1e-12);
}

#[test]
fn a_search_is_due_when_the_load_changed_and_until_a_change_pays_or_does_not() {
    let signal = LoadSignal { windows: 16, ..LoadSignal::default() };
    let now = BACKGROUND_INTERVAL * 2;
    assert_eq!(due_load_rule(None, LoadSignal { windows: 7, ..signal }, now), None);
    assert_eq!(due_load_rule(None, signal, now), Some(GateRule::Steady));
    let searched = |verdict| LastLoadSearch::after(None, now, signal, verdict);
    let due = |last, signal| due_load_rule(Some(last), signal, now);
    let quiet = searched(None);
    assert_eq!(due(quiet, signal), None);
    assert_eq!(due(quiet, LoadSignal { has_changed: true, ..signal }), Some(GateRule::Change));
    let moved = LoadSignal { mean_difference: 0.06, ..signal };
    assert_eq!(due(quiet, moved), None, "searched just now");
    assert_eq!(due_load_rule(Some(quiet), moved, now + BACKGROUND_INTERVAL), Some(GateRule::Steady));
    assert_eq!(due_load_rule(Some(quiet), signal, now + BACKGROUND_INTERVAL), None);
    // The moves may pay in more windows.
    for (verdict, is_open) in [
        (GateVerdict::Uncertain { gain: 0.2 }, true),
        (GateVerdict::Small { gain: 0.08, least: 0.1 }, true),
        (GateVerdict::Small { gain: 0.04, least: 0.1 }, false),
        (GateVerdict::Pays { rule: GateRule::Change, gain: 0.2 }, false),
    ] {
        assert_eq!(due(searched(Some(verdict)), signal), is_open.then_some(GateRule::Change), "{verdict:?}");
    }
    let mut last = searched(Some(GateVerdict::Uncertain { gain: 0.2 }));
    let mut rules = Vec::new();
    while let Some(rule) = due(last, signal) {
        rules.push(rule);
        last = LastLoadSearch::after(Some(last), now, signal, None);
    }
    assert_eq!((rules.len(), rules[0], rules[15]), (16, GateRule::Change, GateRule::Steady));
    assert!(rules[1..].iter().all(|rule| *rule == GateRule::Steady));
}

/// A change with so few windows, of which there are more and more up to `most`: the rules of the searches by windows, with what
/// the load looks like to the rule for changes after the first search.
fn searches_of_a_change(first: usize, most: usize, has_changed: bool) -> Vec<(usize, GateRule)> {
    let now = BACKGROUND_INTERVAL * 2;
    let few = LoadSignal { windows: first, ..LoadSignal::default() };
    let mut last = LastLoadSearch::after(None, now, few, None);
    let mut searches = Vec::new();
    for window in 0..40 {
        let windows = (first + window).min(most);
        let is_first = searches.is_empty();
        let signal = LoadSignal { windows, has_changed: is_first || has_changed, ..LoadSignal::default() };
        let Some(rule) = due_load_rule(Some(last), signal, now) else { continue };
        searches.push((windows, rule));
        let verdict = rule.judge(&vec![0.2; windows], 0.1);
        let verdict = match verdict {
            GateVerdict::FewWindows { .. } => verdict,
            _ => GateVerdict::Uncertain { gain: 0.2 },
        };
        last = LastLoadSearch::after(Some(last), now, signal, Some(verdict));
        if last.open_searches == 0 {
            break;
        }
    }
    searches
}

#[test]
fn a_change_with_few_windows_is_searched_again_when_there_are_enough() {
    use GateRule::{Change, Steady};
    for (first, has_changed, expected) in [
        (2, false, [(2, Change), (8, Steady), (9, Steady), (10, Steady)]),
        (7, false, [(7, Change), (8, Steady), (9, Steady), (10, Steady)]),
        (8, false, [(8, Change), (9, Change), (10, Steady), (11, Steady)]),
        // The newest windows still differ from the facts of the first search, one of whose windows was mixed.
        (2, true, [(2, Change), (8, Steady), (9, Steady), (10, Change)]),
        (8, true, [(8, Change), (9, Change), (10, Steady), (11, Change)]),
    ] {
        let searches = searches_of_a_change(first, 16, has_changed);
        assert_eq!(searches[..4], expected, "{first} {has_changed}");
        assert_eq!(searches.len(), 17, "a search in each window ends");
    }
    // There are never more windows.
    assert_eq!(searches_of_a_change(3, 7, true), [(3, Change)]);
    let steady = searches_of_a_change(3, 8, true);
    assert!(steady[1..].iter().all(|search| *search == (8, Steady)), "{steady:?}");
    assert_eq!(steady.len(), 17);
}

#[test]
fn an_opportunity_is_searched_once_in_ten_minutes_and_opens_no_series() {
    let begun = BACKGROUND_INTERVAL * 2;
    let steady = LoadSignal { windows: 16, ..LoadSignal::default() };
    let opportunity = LoadSignal { has_opportunity: true, ..steady };
    let last = LastLoadSearch::after(None, begun, steady, None);
    let later = begun + BACKGROUND_INTERVAL;
    for (signal, now, expected) in [
        (steady, later, None),
        (opportunity, begun + BACKGROUND_INTERVAL / 2, None),
        (opportunity, later, Some(GateRule::Steady)),
        (LoadSignal { windows: 7, ..opportunity }, later, None),
        (LoadSignal { has_changed: true, ..opportunity }, later, Some(GateRule::Change)),
    ] {
        assert_eq!(due_load_rule(Some(last), signal, now), expected, "{signal:?}");
    }
    let uncertain = Some(GateVerdict::Uncertain { gain: 0.2 });
    for (signal, is_open) in [
        (opportunity, false),
        (LoadSignal { mean_difference: 0.06, ..opportunity }, true),
        (LoadSignal { has_changed: true, ..opportunity }, true),
    ] {
        let searched = LastLoadSearch::after(Some(last), later, signal, uncertain);
        assert_eq!(searched.open_searches, usize::from(is_open), "{signal:?}");
        let is_due = due_load_rule(Some(searched), steady, later).is_some();
        assert_eq!(is_due, is_open, "{signal:?}");
    }
    // Whatever comes of it, units are freed in each window, and there is one search in ten minutes.
    let (mut last, mut searches) = (last, Vec::new());
    for minute in 0..35 {
        let now = later + Duration::from_mins(minute);
        if due_load_rule(Some(last), opportunity, now).is_some() {
            searches.push(minute);
            last = LastLoadSearch::after(Some(last), now, opportunity, uncertain);
        }
    }
    assert_eq!(searches, [0, 10, 20, 30]);
}

#[test]
fn pauses_of_the_movers_raise_the_least_gain() {
    // 10 s of a third of the work, in 300 s.
    let least = least_with_pauses(0.1, [(10.0, 1.0 / 3.0)], 300.0);
    assert!((least - 0.1 - 1.0 / 90.0).abs() < 1e-12, "{least}");
}

/// A hub sends these numbers of messages to actors on another unit, some of which move to the hub: the kept moves with
/// their gain in percent, and the gain of all.
fn pruned(work: &[u64], goes: &[usize], most: usize) -> String {
    let messages = work
        .iter()
        .enumerate()
        .map(|(at, count)| format!(r#"{{"from":"hub","to":"a{at}","count":{count}}}"#));
    let messages = messages.collect::<Vec<_>>().join(",");
    let actors = (0..work.len()).map(|at| format!(r#"{{"id":"a{at}","runsOn":{{"cpu":1}},"current":"v"}}"#));
    let actors = actors.collect::<Vec<_>>().join(",");
    let unit = |unit: &str| format!(r#"{{"id":"{unit}","kind":"cpu","node":"{unit}","capacity":1000}}"#);
    let snapshot = Snapshot::read(&format!(
        r#"{{"version":1,"nodes":[{{"id":"u"}},{{"id":"v"}}],"actors":[{{"id":"hub","runsOn":{{"cpu":1}},"current":"u"}},{actors}],
        "units":[{},{}],"messages":[{messages}],"objectives":["communication"],"exchangeCost":{{"kinds":{{"cpu":{{"cpu":1}}}}}}}}"#,
        unit("u"),
        unit("v")
    ))
    .unwrap();
    let stays = snapshot.incumbent();
    let mut assignment = stays.clone();
    for &at in goes {
        assignment[ActorIx::new(at + 1)] = Some(UnitIx::new(0));
    }
    let Some(kept) = ElectiveMoves::of(&snapshot, stays, &assignment, 0.1, most) else {
        return "none".to_owned();
    };
    let shown =
        kept.gains.iter().map(|(actor, gain)| format!("{} {:.0}", snapshot.actor_id(*actor), gain * 100.0));
    let all = shown.collect::<Vec<_>>().join(", ");
    format!("{all}: {:.0}", kept.gain(&snapshot) * 100.0)
}

#[test]
fn moves_with_little_of_the_gain_are_reverted() {
    let work = [600, 300, 92, 8];
    assert_eq!(
        pruned(&work, &[0, 1, 2, 3], 8),
        "a0 60, a1 30, a2 9: 99",
        "less than a percent is no reason to move"
    );
    assert_eq!(pruned(&work, &[0, 1, 2, 3], 2), "a0 60, a1 30: 90", "the weakest above the limit");
    assert_eq!(pruned(&work, &[3], 8), "none", "less than half of the least gain");
    assert_eq!(pruned(&work, &[], 8), "none");
}

#[test]
fn actors_of_held_groups_make_only_necessary_moves() {
    // Two actors would leave a busy unit; the third has to leave one that it may not use.
    let actor = |id: &str, group: &str, unit: &str| {
        format!(r#"{{"id":"{id}","group":"{group}","runsOn":{{"cpu":300}},"current":"{unit}"}}"#)
    };
    let actors = [actor("a", "free", "u"), actor("b", "held", "u"), actor("c", "held", "x")].join(",");
    let unit = |id: &str| format!(r#"{{"id":"{id}","kind":"cpu","node":"n","capacity":1000}}"#);
    let units = ["u", "v", "w", "x"].map(unit).join(",");
    let snapshot = Snapshot::read(&format!(
        r#"{{"version":1,"nodes":[{{"id":"n"}}],"actors":[{actors}],"units":[{units}],"objectives":["bottleneck"],
        "constraints":[{{"type":"never","actors":["c"],"units":["x"]}}],"exchangeCost":{{"kinds":{{"cpu":{{"cpu":1}}}}}}}}"#
    ))
    .unwrap();
    let best = plan(&snapshot, &Greedy, &NoPolicy, &Budget::effort(None, 1)).unwrap();
    let goes: placement::Assignment = [1, 2, 0].map(|unit| Some(UnitIx::new(unit))).into_iter().collect();
    let going = placement::Plan { cost: snapshot.cost(&goes), assignment: goes, ..best };
    let held = control::hold_actors(&snapshot, going.clone(), |group| group == "held");
    let units = |plan: &placement::Plan| {
        plan.assignment.enumerate().map(|(_, unit)| unit.unwrap().at()).collect::<Vec<_>>()
    };
    assert_eq!(units(&held), [1, 0, 0], "b stays, and c leaves x");
    assert_eq!(units(&control::hold_actors(&snapshot, going, |_| false)), [1, 2, 0]);
}
