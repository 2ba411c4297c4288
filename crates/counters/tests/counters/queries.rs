//! The queries.

use counters::{ALL_SERIES, CounterSeries};

#[test]
fn queries_take_the_largest_of_several_jobs() {
    let selector = "job=~\".*cairn-actors\"";
    for (series, offset, expected) in [
        (
            CounterSeries::Messages,
            0,
            "max by (namespace, pod, actor, peer) (increase(actor_channel_messages_total{job=~\".*cairn-actors\"}[30000ms]) * (1 - 2 * \
             (resets(actor_channel_messages_total{job=~\".*cairn-actors\"}[30000ms]) > bool \
             count_over_time(actor_channel_messages_total{job=~\".*cairn-actors\"}[30000ms]) / 2)))",
        ),
        (
            CounterSeries::Busy,
            60_000,
            "max by (namespace, pod, actor, peer) (increase(actor_busy_seconds_total{job=~\".*cairn-actors\"}[30000ms] offset 60000ms) * (1 - 2 * \
             (resets(actor_busy_seconds_total{job=~\".*cairn-actors\"}[30000ms] offset 60000ms) > bool \
             count_over_time(actor_busy_seconds_total{job=~\".*cairn-actors\"}[30000ms] offset 60000ms) / 2)))",
        ),
        (
            CounterSeries::Mailbox,
            0,
            "clamp_min(max by (namespace, pod, actor, peer) (delta(actor_mailbox_messages{job=~\".*cairn-actors\"}[30000ms])), 0)",
        ),
        (
            CounterSeries::Scrapes,
            0,
            "max by (namespace, pod) (sum_over_time(up{job=~\".*cairn-actors\"}[30000ms]))",
        ),
    ] {
        assert_eq!(series.query(selector, 30_000, offset), expected);
    }
    let cpu = CounterSeries::Cpu.query(selector, 30_000, 0);
    assert!(
        cpu.contains("cairn_pod_cpu_task_clock_seconds_total[30000ms]") && !cpu.contains(selector),
        "{cpu}"
    );
}

#[test]
fn a_tick_has_at_most_twelve_queries_and_messages_are_first() {
    assert!(ALL_SERIES.len() <= 12);
    assert_eq!(ALL_SERIES[0], CounterSeries::Messages);
}
