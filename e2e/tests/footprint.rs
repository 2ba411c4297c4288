//! A small run of the agent's benchmark: a minute of constant device and pod churn.

use e2e::footprint::{ScrapePlan, measure};

/// The allowed growth after a minute with 500 scrapes of some 100 KB each: less than a fiftieth of each scrape.
const MOST_GROWTH_MIB: f64 = 1.0;

/// The allowed number of additional open descriptors: connections to the API server that are kept for some time. A leak with every
/// change would be twice as many.
const MOST_CONNECTIONS: usize = 3;

/// The minimum number of losses and returns in a minute: the agent probes every two seconds, and confirms a loss at the second
/// probe and a return at the third, so there are at most twelve.
const LEAST_CHANGES: usize = 6;

#[tokio::test]
async fn an_agent_under_device_and_pod_churn_does_not_leak() {
    let measured = measure(ScrapePlan::SHORT).await.unwrap();
    let cost = &measured.in_trouble;
    let (growth, error) = cost.growth_mib();
    let [first, last] = measured.descriptors;
    eprintln!(
        "{} changes, growth {growth:.2} ± {error:.2} MiB, {first} descriptors before, {last} after",
        measured.changes
    );
    assert!(measured.changes >= LEAST_CHANGES, "only {} changes were noticed", measured.changes);
    assert!(growth - 3.0 * error < MOST_GROWTH_MIB, "{growth} ± {error} MiB: {:?}", cost.memory_mib);
    assert!(last <= first + MOST_CONNECTIONS, "{first} and then {last}: {:?}", cost.descriptors);
    let [before, after] = &measured.series_by_name;
    assert_eq!(before, after, "as many series of each name as before");
}
