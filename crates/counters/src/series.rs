//! The series that are read, and their queries.

use metric_names::{MetricDef, agent, application};

/// A series of actors or of their pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CounterSeries {
    /// Messages of a pair; first, because it decides which pairs of a pod are kept.
    Messages,
    /// Bytes of a pair.
    Bytes,
    /// Rollbacks of the actor because of the peer.
    Rollbacks,
    /// Null messages of a pair.
    NullMessages,
    /// Seconds for which the actor waited for the peer.
    Idle,
    /// Messages that the actor processed.
    Processed,
    /// Seconds in handlers.
    Busy,
    /// Growth of the mailbox.
    Mailbox,
    /// Messages that the actor undid.
    Undone,
    /// Logical time that the actor passed.
    Progress,
    /// CPU seconds of the pod.
    Cpu,
    /// Successful scrapes of the pod.
    Scrapes,
}

/// All series in the order of their queries.
pub const ALL_SERIES: [CounterSeries; 12] = {
    use CounterSeries as S;
    [
        S::Messages,
        S::Bytes,
        S::Rollbacks,
        S::NullMessages,
        S::Idle,
        S::Processed,
        S::Busy,
        S::Mailbox,
        S::Undone,
        S::Progress,
        S::Cpu,
        S::Scrapes,
    ]
};

/// The kubelet's CPU seconds of a container.
const CONTAINER_CPU: &str = "container_cpu_usage_seconds_total";

impl CounterSeries {
    /// The metric of the actor; `None` for series of pods, which have no label `actor`.
    pub(crate) fn metric(self) -> Option<&'static MetricDef> {
        Some(match self {
            Self::Messages => &application::CHANNEL_MESSAGES,
            Self::Bytes => &application::CHANNEL_BYTES,
            Self::Rollbacks => &application::CHANNEL_ROLLBACKS,
            Self::NullMessages => &application::CHANNEL_NULL_MESSAGES,
            Self::Idle => &application::CHANNEL_IDLE,
            Self::Processed => &application::MESSAGES_PROCESSED,
            Self::Busy => &application::BUSY,
            Self::Mailbox => &application::MAILBOX_MESSAGES,
            Self::Undone => &application::MESSAGES_UNDONE,
            Self::Progress => &application::PROGRESS,
            Self::Cpu | Self::Scrapes => return None,
        })
    }

    /// Whether its samples are about a pair of actors.
    pub(crate) fn is_of_pairs(self) -> bool {
        self.metric().is_some_and(|metric| metric.labels().contains(&"peer"))
    }

    /// The `PromQL` of the increase within a window of so many milliseconds that ended `offset_milliseconds` before the
    /// evaluation; `selector` selects the scrapes of actors, such as `job=~".*cairn-actors"`.
    ///
    /// `max`, because a pod may be scraped by several jobs. The increase of a series that falls at more than half of its samples is
    /// negative, and so refused as a [value](crate::SampleRefusal::Value): it is no counter, and `increase()` would add up its values.
    pub fn query(self, selector: &str, milliseconds: u64, offset_milliseconds: u64) -> String {
        let offset =
            if offset_milliseconds == 0 { String::new() } else { format!(" offset {offset_milliseconds}ms") };
        let range = |series: &str| format!("{series}[{milliseconds}ms]{offset}");
        let by = "namespace, pod, actor, peer";
        match (self, self.metric()) {
            // A gauge; a mailbox that shrinks hides no demand.
            (Self::Mailbox, Some(metric)) => {
                format!(
                    "clamp_min(max by ({by}) (delta({})), 0)",
                    range(&format!("{}{{{selector}}}", metric.name()))
                )
            }
            (_, Some(metric)) => {
                let range = range(&format!("{}{{{selector}}}", metric.name()));
                let falls = format!("(resets({range}) > bool count_over_time({range}) / 2)");
                format!("max by ({by}) (increase({range}) * (1 - 2 * {falls}))")
            }
            (Self::Scrapes, None) => {
                // A failed scrape is 0.
                format!("max by (namespace, pod) (sum_over_time({}))", range(&format!("up{{{selector}}}")))
            }
            (_, None) => format!(
                "max by (namespace, pod) (increase({})) or sum by (namespace, pod) (max by (namespace, pod, container) (increase({})))",
                range(agent::POD_TASK_CLOCK.name()),
                range(&format!("{CONTAINER_CPU}{{container!=\"\", container!=\"POD\"}}")),
            ),
        }
    }
}
