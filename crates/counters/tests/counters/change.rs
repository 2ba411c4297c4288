//! When the load changed.

use counters::CounterSeries::{Busy, Messages, Processed};
use counters::{MeasuredLoad, WindowChoice};

use crate::{Line, roster, windows};

/// Windows with these messages from `a-0` to `b-0`, the oldest first, and 1 s of work of `a-0`.
fn of_messages(messages: &[f64]) -> Vec<Vec<Line<'static>>> {
    let lines = |count: &f64| vec![(Messages, "a-0", "b-0", *count), (Busy, "a-0", "", 1.0)];
    messages.iter().map(lines).collect()
}

#[test]
fn both_newest_windows_must_differ_by_more_than_ten_percent_and_twice_the_noise() {
    let roster = roster(&["a-0", "b-0"]);
    let facts = windows(&roster, &of_messages(&[100.0])).load(WindowChoice::All);
    for (messages, has_changed) in [
        (&[111.0][..], false),
        (&[111.0, 111.0], true),
        (&[110.0, 150.0], false),
        (&[150.0, 110.0], false),
        (&[89.0, 89.0], true),
        (&[89.0, 111.0], true),
        (&[100.0, 100.0, 150.0, 150.0], true),
        // The windows before differ from their mean by 20 %.
        (&[80.0, 120.0, 130.0, 130.0], false),
        (&[80.0, 120.0, 141.0, 141.0], true),
        (&[0.0, 0.0], true),
    ] {
        let windows = windows(&roster, &of_messages(messages));
        assert_eq!(windows.has_changed(&facts), has_changed, "{messages:?}");
    }
    let windows = windows(&roster, &of_messages(&[100.0, 100.0]));
    assert!(windows.has_changed(&MeasuredLoad::default()), "nothing was measured before");
}

#[test]
fn messages_and_work_are_compared_apart() {
    let roster = roster(&["a-0", "b-0"]);
    let of = |messages: f64, work: f64| vec![(Messages, "a-0", "b-0", messages), (Busy, "a-0", "", work)];
    let facts = windows(&roster, &[of(100.0, 2.0)]).load(WindowChoice::All);
    for (newest, has_changed) in [
        ([of(100.0, 3.0), of(100.0, 3.0)], true),
        ([of(105.0, 2.1), of(105.0, 2.1)], false),
        ([of(150.0, 2.0), of(100.0, 3.0)], false),
    ] {
        assert_eq!(windows(&roster, &newest).has_changed(&facts), has_changed, "{newest:?}");
    }
    let other = windows(&roster, &[of(150.0, 1.0)]).load(WindowChoice::All);
    let difference = facts.difference(&other);
    assert_eq!((difference.messages, difference.work), (0.5, 0.5));
    let moved = windows(&roster, &[vec![(Messages, "b-0", "a-0", 100.0), (Busy, "a-0", "", 2.0)]]);
    let difference = facts.difference(&moved.load(WindowChoice::All));
    assert_eq!((difference.messages, difference.work), (2.0, 0.0), "another pair");
}

#[test]
fn windows_after_a_change_are_counted_and_earlier_ones_forgotten() {
    let roster = roster(&["a-0", "b-0"]);
    // Ends at 0, 10, … 50 s; 1 ms per message in the first three windows, 2 ms in the others.
    let lines = |at: u32| {
        let busy = if at < 3 { 1.0 } else { 2.0 };
        let messages = f64::from(at + 1) * 10.0;
        vec![(Messages, "a-0", "b-0", messages), (Processed, "b-0", "", 1000.0), (Busy, "b-0", "", busy)]
    };
    let mut windows = windows(&roster, &(0..6).map(lines).collect::<Vec<_>>());
    assert_eq!([-10.0, 20.0, 20.1, 50.0].map(|since| windows.usable_since(since)), [6, 3, 2, 0]);
    let service = |choice| windows.service_microseconds("b-0", choice);
    assert_eq!(service(WindowChoice::Newest(2)), Some(2000.0));
    assert_eq!(service(WindowChoice::One(5)), Some(1000.0));
    assert_eq!(service(WindowChoice::One(6)), None);
    assert_eq!(windows.service_microseconds("a-0", WindowChoice::All), None);
    windows.keep_newest(2);
    assert_eq!(windows.usable_windows(), 2);
    assert!((windows.load(WindowChoice::All).total_messages() - 55.0).abs() < 1e-9);
}

#[test]
fn single_pairs_must_differ_by_three_of_their_own_deviations_and_three_percent_of_all() {
    let roster = roster(&["a-0", "b-0", "c-0"]);
    let of = |pairs: [f64; 2]| {
        let [large, small] = pairs;
        vec![(Messages, "a-0", "b-0", large), (Messages, "a-0", "c-0", small), (Busy, "a-0", "", 1.0)]
    };
    // The large pair varies by a tenth, so that all messages do.
    let before: Vec<[f64; 2]> = (0..6).map(|at| [if at % 2 == 0 { 900.0 } else { 1100.0 }, 50.0]).collect();
    let facts = windows(&roster, &before.iter().copied().map(of).collect::<Vec<_>>()).load(WindowChoice::All);
    for (kept, newest, has_changed) in [
        (6, [[1000.0, 85.0], [1000.0, 85.0]], true),
        (6, [[1000.0, 80.0], [1000.0, 80.0]], false),
        (6, [[1000.0, 85.0], [1000.0, 50.0]], false),
        (6, [[1000.0, 85.0], [1000.0, 15.0]], false),
        (6, [[1000.0, 5.0], [1000.0, 5.0]], true),
        // Within three deviations of 110.
        (6, [[1190.0, 50.0], [1190.0, 50.0]], false),
        // Too few windows to know the noise of a pair.
        (5, [[1000.0, 85.0], [1000.0, 85.0]], false),
    ] {
        let all: Vec<[f64; 2]> = before[..kept].iter().chain(&newest).copied().collect();
        let windows = windows(&roster, &all.into_iter().map(of).collect::<Vec<_>>());
        assert_eq!(windows.has_changed(&facts), has_changed, "{kept} {newest:?}");
    }
}
