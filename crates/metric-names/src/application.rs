//! What applications are asked to expose, which `docs/reference/metrics.md` explains. Cairn's own programs do not expose it.

metric_names! {
    /// What applications are asked to expose.
    APPLICATION:
    CHANNEL_MESSAGES = Counter "actor_channel_messages_total" ["actor", "peer"] "Messages that the actor sent to the peer.";
    CHANNEL_BYTES = Counter "actor_channel_bytes_total" ["actor", "peer"] "Bytes of these messages.";
    CHANNEL_ROLLBACKS = Counter "actor_channel_rollbacks_total" ["actor", "peer"] "Rollbacks of the actor that a message of the peer caused.";
    CHANNEL_NULL_MESSAGES = Counter "actor_channel_null_messages_total" ["actor", "peer"] "Null messages, which carry nothing but time, that the actor sent to the peer.";
    CHANNEL_IDLE = Counter "actor_channel_idle_seconds_total" ["actor", "peer"] "Time in which the actor could do nothing because the peer had not progressed.";
}
