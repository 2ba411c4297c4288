//! Events. A repeated event is counted in its series.
//!
//! The recorder of kube merges by reason alone and keeps the first note, so a second Placement within six minutes would stay
//! invisible.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event as Written, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Resource;
use kube::api::ObjectMeta;
use kube::runtime::events::{Event, EventType};

use crate::api::writes::Writer;
use crate::error::Error;

/// The reporting controller.
const CONTROLLER: &str = "cairn.dev/operator";
/// The same event within this time extends its series.
const SERIES: Duration = Duration::from_mins(6);

/// What makes two events the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct EventKey {
    uid: Option<String>,
    reason: String,
    note: Option<String>,
}

/// Emits events and remembers the recent ones.
pub struct Events {
    writer: Writer,
    /// The identity of this replica, as in its Lease.
    identity: String,
    recent: Mutex<HashMap<EventKey, Written>>,
}

impl Events {
    pub fn new(writer: Writer, identity: String) -> Self {
        Self { writer, identity, recent: Mutex::default() }
    }

    /// Emits an event on an object; cluster-scoped objects use the namespace `default`.
    ///
    /// # Errors
    /// When the lease is lost, or the API server rejects the event.
    pub async fn emit<K: Resource<DynamicType = ()>>(&self, object: &K, event: &Event) -> Result<(), Error> {
        let regarding = object.object_ref(&());
        let key =
            EventKey { uid: regarding.uid.clone(), reason: event.reason.clone(), note: event.note.clone() };
        let now = Timestamp::now();
        let written = match self.recent_series(&key, now) {
            Some(before) => self.writer.count_event(&repeated(before, now)).await,
            None => self.writer.create_event(&new_event(regarding, event, &self.identity, now)).await,
        };
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        match written {
            Ok(ref written) => recent.insert(key, written.clone()),
            // The event may have been deleted: the next one starts a new series.
            Err(_) => recent.remove(&key),
        };
        written.map(|_| ())
    }

    /// The recent event of the same key.
    fn recent_series(&self, key: &EventKey, now: Timestamp) -> Option<Written> {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.retain(|_, event| {
            last(event).is_some_and(|last| now.duration_since(last).unsigned_abs() < SERIES)
        });
        recent.get(key).cloned()
    }
}

/// When the event was last observed.
fn last(event: &Written) -> Option<Timestamp> {
    let again = event.series.as_ref().map(|series| series.last_observed_time.0);
    again.or(event.event_time.as_ref().map(|time| time.0))
}

/// The first event of a series.
fn new_event(regarding: ObjectReference, event: &Event, identity: &str, now: Timestamp) -> Written {
    let name = format!("{}.{:x}", regarding.name.as_deref().unwrap_or_default(), now.as_nanosecond());
    let type_ = match event.type_ {
        EventType::Normal => "Normal",
        EventType::Warning => "Warning",
    };
    Written {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(regarding.namespace.clone().unwrap_or_else(|| "default".to_owned())),
            ..ObjectMeta::default()
        },
        action: Some(event.action.clone()),
        event_time: Some(MicroTime(now)),
        note: event.note.clone(),
        reason: Some(event.reason.clone()),
        regarding: Some(regarding),
        related: event.secondary.clone(),
        reporting_controller: Some(CONTROLLER.to_owned()),
        reporting_instance: Some(identity.to_owned()),
        type_: Some(type_.to_owned()),
        ..Written::default()
    }
}

/// The event with its series extended by one.
fn repeated(mut event: Written, now: Timestamp) -> Written {
    let count = event.series.as_ref().map_or(1, |series| series.count) + 1;
    event.series = Some(EventSeries { count, last_observed_time: MicroTime(now) });
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_events_extend_a_series() {
        let event = Event {
            type_: EventType::Warning,
            reason: "Unplaced".into(),
            note: Some("no room".into()),
            action: "Plan".into(),
            secondary: None,
        };
        let about = ObjectReference { name: Some("app".into()), ..ObjectReference::default() };
        let once = new_event(about, &event, "operator-0", Timestamp::UNIX_EPOCH);
        assert_eq!(once.metadata.namespace.as_deref(), Some("default"));
        assert_eq!(last(&once), Some(Timestamp::UNIX_EPOCH));
        let later = Timestamp::from_second(7).unwrap();
        let thrice = repeated(repeated(once.clone(), Timestamp::UNIX_EPOCH), later);
        assert_eq!(thrice.series.as_ref().map(|series| series.count), Some(3));
        assert_eq!((last(&thrice), &thrice.note), (Some(later), &once.note));
    }
}
