//! A small run of the benchmark: everything is placed and bound.

use e2e::bench::{BenchSize, measure};

#[tokio::test]
async fn one_hundred_actors_are_placed_and_bound() {
    let measured = measure(BenchSize::SHORT, "none", "greedy").await.unwrap();
    assert!(measured.seconds_until_placed <= measured.seconds_until_bound);
    // Each actor has an Instance and a pod; an object that the watch has not delivered yet may be created again.
    for kind in ["create instances", "create pods"] {
        assert!(measured.writes[kind] >= 100, "{measured:?}");
    }
    assert!(measured.writes_per_actor < 8.0, "{measured:?}");
}
