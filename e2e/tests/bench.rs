//! The measurement in little: it measures, and everything is placed and bound.

use e2e::bench::{Size, measure};

#[tokio::test]
async fn a_hundred_actors_are_placed_and_bound() {
    let measured = measure(Size::SHORT, "greedy").await.unwrap();
    assert!(measured.seconds_until_placed <= measured.seconds_until_bound);
    // each actor has an Instance and a pod: a number that does not grow unnoticed
    assert_eq!(
        (measured.writes["create instances"], measured.writes["create pods"]),
        (100, 100),
        "{measured:?}"
    );
    assert!(measured.writes_per_actor < 8.0, "{measured:?}");
}
