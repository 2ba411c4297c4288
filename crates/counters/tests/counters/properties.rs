//! What holds for all samples.

use counters::CounterSeries::{Busy, Messages};
use counters::{Collector, Gamma, Sample, WindowChoice, Windows, round_up};
use proptest::prelude::*;

use crate::{profiles, roster, scale, windows};

const ACTORS: [&str; 4] = ["a-0", "a-1", "b-0", "b-1"];

fn any_text() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "shop",
        "web-a-0",
        "web-b-1",
        "a-0",
        "b-1",
        "shop/web/b-0",
        "shop/web/a-1",
        "_other",
        "",
        "other/web/b-0",
    ]);
    prop_oneof![9 => known.prop_map(str::to_owned), 1 => ".{0,12}"]
}

fn any_value() -> impl Strategy<Value = f64> {
    prop_oneof![0.0..1e4, any::<f64>(), Just(f64::NAN), Just(-1.0)]
}

proptest! {
    #[test]
    fn any_samples_give_finite_numbers(
        samples in prop::collection::vec((0..12usize, any_text(), any_text(), any_text(), any_text(), any_value()), 0..60),
        is_settled in prop::collection::vec(any::<bool>(), 1..4),
    ) {
        let roster = roster(&ACTORS);
        let mut kept = Windows::new(scale());
        for (at, is_settled) in is_settled.iter().enumerate() {
            let mut collector = Collector::new(roster.clone());
            for (position, series) in counters::ALL_SERIES.into_iter().enumerate() {
                let of = samples.iter().filter(|sample| sample.0 == position);
                collector.add(series, of.map(|(_, namespace, pod, actor, peer, value)| Sample {
                    namespace, pod, actor, peer, value: *value,
                }));
            }
            let collected = collector.finish();
            prop_assert!(collected.refused.values().sum::<u64>() <= samples.len() as u64);
            kept.add(at as f64, &collected.windows[0], *is_settled);
        }
        let measured = kept.measure(&profiles(&[("a", 2, &["b"]), ("b", 2, &["a"])]), WindowChoice::All);
        // At most 2^40 messages of 2^40 bytes each, in messages of 1,000 bytes.
        prop_assert!(measured.pairs.values().all(|count| *count > 0));
        prop_assert!(measured.pairs.keys().all(|(from, to)| from != to));
        prop_assert!(measured.pairs.len() <= 12);
        let text = serde_json::to_string(&kept.file()).unwrap();
        let read = Windows::of_file(&serde_json::from_str(&text).unwrap());
        prop_assert_eq!(read.file(), kept.file());
        let profiles = profiles(&[("a", 2, &["b"]), ("b", 2, &["a"])]);
        prop_assert_eq!(read.measure(&profiles, WindowChoice::All), measured.clone());
        let (covered, wanted) = measured.coverage();
        prop_assert!(covered <= wanted && wanted == 4);
        prop_assert!(measured.services.values().all(|service| service.is_finite() && *service > 0.0));
        let load = kept.load(WindowChoice::All);
        let difference = load.difference(&load);
        prop_assert_eq!((difference.messages, difference.work), (0.0, 0.0));
        prop_assert!(!kept.has_changed(&load) || kept.summaries().len() >= 2);
    }

    /// Messages of listed pairs and of groups are those that were sent, rounded up by less than one for each pair.
    #[test]
    fn no_messages_are_lost(counts in prop::collection::vec(0.0..5000.0f64, 4)) {
        let pairs = [("a-0", "b-0"), ("a-0", "b-1"), ("a-1", "b-0"), ("a-1", "b-1")];
        let mut lines: Vec<_> =
            pairs.iter().zip(&counts).map(|((from, to), count)| (Messages, *from, *to, *count)).collect();
        lines.extend(["b-0", "b-1"].map(|name| (Busy, name, "", 1.0)));
        let measured = windows(&roster(&ACTORS), &[lines])
            .measure(&profiles(&[("a", 2, &["b"]), ("b", 2, &[])]), WindowChoice::All);
        let listed: u64 = measured.pairs.values().sum();
        let spread: u64 = measured.group_messages.values().map(|each| each * 4).sum();
        let sent: f64 = counts.iter().sum();
        let counted = (listed + spread) as f64;
        prop_assert!(counted >= sent * (1.0 - 1e-5) && counted <= sent + 8.0, "{counted} of {sent}");
    }

    #[test]
    fn annoyance_is_linear(lost in prop::array::uniform3(0..1u64 << 40), times in 1..1000u64) {
        let gamma = Gamma::new("1/3", "0.25", "2").unwrap();
        let once = gamma.annoyance(lost, 7);
        prop_assert_eq!(gamma.annoyance(lost.map(|lost| lost * times), 7), once * i128::from(times));
        prop_assert_eq!(once * 7, gamma.annoyance(lost, 1));
    }

    #[test]
    fn rounding_up_ignores_the_error_of_measurement(number in 1..1u64 << 40, error in -1e-7..1e-7f64) {
        prop_assert_eq!(round_up(number as f64), number);
        let measured = round_up(number as f64 * (1.0 + error));
        prop_assert!(measured.abs_diff(number) as f64 <= number as f64 * 1e-6);
        if number < 1 << 20 {
            prop_assert_eq!(measured, number);
        }
    }
}
