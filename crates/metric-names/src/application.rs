//! Metrics that applications should expose, see `docs/reference/metrics.md`. Cairn's programs do not expose them.

metric_names! {
    /// All metrics that applications should expose.
    APPLICATION:
    CHANNEL_MESSAGES = Counter "actor_channel_messages_total" ["actor", "peer"] "Messages sent by the actor to the peer.";
    CHANNEL_BYTES = Counter "actor_channel_bytes_total" ["actor", "peer"] "Bytes of messages sent by the actor to the peer.";
    CHANNEL_ROLLBACKS = Counter "actor_channel_rollbacks_total" ["actor", "peer"] "Rollbacks of the actor caused by messages of the peer.";
    CHANNEL_NULL_MESSAGES = Counter "actor_channel_null_messages_total" ["actor", "peer"] "Null messages, which carry only time, sent by the actor to the peer.";
    CHANNEL_IDLE = Counter "actor_channel_idle_seconds_total" ["actor", "peer"] "Time for which the actor was blocked by the progress of the peer.";
    MESSAGES_PROCESSED = Counter "actor_messages_processed_total" ["actor"] "Messages processed by the actor, including those undone later.";
    BUSY = Counter "actor_busy_seconds_total" ["actor"] "Time that the actor spent in message handlers.";
    MAILBOX_MESSAGES = Gauge "actor_mailbox_messages" ["actor"] "Messages that wait in the actor's mailbox.";
    MESSAGES_UNDONE = Counter "actor_messages_undone_total" ["actor"] "Processed messages that a rollback undid.";
    PROGRESS = Counter "actor_progress_total" ["actor"] "Logical time that the actor passed; only of engines with logical time.";
}
