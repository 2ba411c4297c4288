//! The measurement of the agent in little: a minute in which devices and pods come and go all the time.

use e2e::footprint::{Pace, measure};

/// What may stay of a minute with 500 scrapes of some 100 KB each: less than a fiftieth of each.
const MOST_GROWTH_MIB: f64 = 1.0;

/// How many descriptors more than at rest may be open in the end: connections to the API server that are kept a while. One that
/// stayed open with every change would be twice as many.
const MOST_CONNECTIONS: usize = 3;

/// How many losses and returns a minute has at least: the agent looks every two seconds, and believes a loss at the second
/// look and a return at the third, so that there are twelve at most.
const LEAST_CHANGES: usize = 6;

#[tokio::test]
async fn an_agent_under_device_and_pod_churn_does_not_leak() {
    let measured = measure(Pace::SHORT).await.unwrap();
    let cost = &measured.in_trouble;
    let (growth, error) = cost.growth_mib();
    let [first, last] = measured.descriptors;
    eprintln!(
        "{} changes, growth {growth:.2} ± {error:.2} MiB, {first} descriptors and then {last}",
        measured.changes
    );
    assert!(measured.changes >= LEAST_CHANGES, "only {} changes were noticed", measured.changes);
    assert!(growth - 3.0 * error < MOST_GROWTH_MIB, "{growth} ± {error} MiB: {:?}", cost.memory_mib);
    assert!(last <= first + MOST_CONNECTIONS, "{first} and then {last}: {:?}", cost.descriptors);
    let [before, after] = &measured.series_by_name;
    assert_eq!(before, after, "as many series of each name as before");
}
