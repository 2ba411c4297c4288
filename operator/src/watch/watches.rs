//! One watch per kind; each feeds a store and the index for the lifetime of the process.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use kube::runtime::reflector::{Store, store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use prometheus::IntCounterVec;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::watch::devices;

/// How often an API server that lacks a kind is asked again: it may be upgraded.
const DISCOVERY_INTERVAL: Duration = Duration::from_mins(10);
/// Pause after a failed discovery.
const DISCOVERY_RETRY: Duration = Duration::from_secs(2);

/// Namespaces and names of objects.
pub type Names = BTreeSet<(String, String)>;

/// Waits until a store is synced.
pub type BoxReady = Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// A future that runs one watch for the lifetime of the process.
pub type Feed = BoxFuture<'static, ()>;

/// Collects watches.
pub struct Watches<'a> {
    client: &'a Client,
    /// Failed requests by kind.
    errors: &'a IntCounterVec,
    feeds: Vec<Feed>,
    ready: Vec<BoxReady>,
}

impl<'a> Watches<'a> {
    /// No watches.
    pub fn new(client: &'a Client, errors: &'a IntCounterVec) -> Self {
        Self { client, errors, feeds: Vec::new(), ready: Vec::new() }
    }

    /// Logs and counts failed requests for a kind.
    fn report_failed<K: Resource<DynamicType = ()>>(&self) -> impl Fn(&watcher::Error) + use<K> {
        // Starts at 0, or the first error would be invisible to `increase()`.
        let errors = self.errors.with_label_values(&[&K::kind(&())]);
        move |e| {
            errors.inc();
            tracing::warn!(kind = %K::kind(&()), error = %e, "watch interrupted; retrying");
        }
    }

    /// The feeds, which must be run, and the functions that wait for their first sync.
    pub fn finish(self) -> (Vec<Feed>, Vec<BoxReady>) {
        (self.feeds, self.ready)
    }

    /// The client to watch with.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Watches a kind without a store; `on` handles every event.
    pub fn events<K>(
        &mut self,
        api: Api<K>,
        config: watcher::Config,
        slim: fn(&mut K),
        mut on: impl FnMut(watcher::Event<K>) + Send + 'static,
    ) where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let (filled, is_filled) = watch::channel(false);
        let report_failed = self.report_failed::<K>();
        let stream = watcher(api, config).default_backoff().modify(slim);
        let run = stream.for_each(move |event| {
            match event {
                Ok(event) => {
                    let is_done = matches!(event, watcher::Event::InitDone);
                    on(event);
                    if is_done {
                        filled.send_replace(true);
                    }
                }
                Err(e) => report_failed(&e),
            }
            futures::future::ready(())
        });
        self.feeds.push(run.boxed());
        self.ready.push(Box::new(move || {
            let mut filled = is_filled.clone();
            // The sender lives in the feed, for the lifetime of the process.
            async move { drop(filled.wait_for(|is| *is).await) }.boxed()
        }));
    }

    /// Watches a kind that the API server may not serve; until it does, the kind counts as synced without objects. `on_discovery` gets
    /// whether it is served.
    pub fn events_if_served<K>(
        &mut self,
        slim: fn(&mut K),
        on: impl FnMut(watcher::Event<K>) + Send + 'static,
        on_discovery: impl Fn(bool) + Send + Sync + 'static,
    ) where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + Sync + 'static,
    {
        self.events(Api::all(self.client()), watcher::Config::default(), slim, on);
        let (Some(feed), Some(synced)) = (self.feeds.pop(), self.ready.pop()) else { return };
        let (absent, is_absent) = watch::channel(false);
        let client = self.client();
        self.feeds.push(Box::pin(async move {
            wait_until_served::<K>(&client, |is_served| {
                on_discovery(is_served);
                if !is_served {
                    absent.send_replace(true);
                }
            })
            .await;
            feed.await;
        }));
        self.ready.push(Box::new(move || {
            let (synced, mut is_absent) = (synced(), is_absent.clone());
            Box::pin(async move {
                tokio::select! {
                    () = synced => {}
                    // The sender lives in the feed, for the lifetime of the process.
                    _ = is_absent.wait_for(|is| *is) => {}
                }
            })
        }));
    }

    /// Watches a kind with a store; `on` handles every event.
    pub fn store<K>(
        &mut self,
        api: Api<K>,
        config: watcher::Config,
        slim: fn(&mut K),
        mut on: impl FnMut(watcher::Event<K>, &Store<K>) + Send + 'static,
    ) -> Store<K>
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let (reader, writer) = store();
        let report_failed = self.report_failed::<K>();
        let stream = watcher(api, config).default_backoff().modify(slim).reflect(writer);
        let seen = reader.clone();
        let run = stream.for_each(move |event| {
            match event {
                Ok(event) => on(event, &seen),
                Err(e) => report_failed(&e),
            }
            futures::future::ready(())
        });
        self.feeds.push(run.boxed());
        let filled = reader.clone();
        self.ready.push(Box::new(move || {
            let filled = filled.clone();
            // The writer lives in the feed, for the lifetime of the process.
            async move { drop(filled.wait_until_ready().await) }.boxed()
        }));
        reader
    }
}

/// Returns once the API server serves a kind; `discovered` gets each answer.
async fn wait_until_served<K: Resource<DynamicType = ()>>(client: &Client, discovered: impl Fn(bool)) {
    loop {
        match client.list_api_group_resources(&K::api_version(&())).await {
            Ok(served) if served.resources.iter().any(|kind| kind.name == K::plural(&())) => {
                return discovered(true);
            }
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(e) => {
                tracing::warn!(kind = %K::kind(&()), error = %e, "discovery failed; retrying");
                tokio::time::sleep(DISCOVERY_RETRY).await;
                continue;
            }
        }
        discovered(false);
        tokio::time::sleep(DISCOVERY_INTERVAL).await;
    }
}

/// Filters out events that change no relevant field, such as heartbeats.
#[derive(Default)]
pub struct ChangeFilter {
    facts: HashMap<(String, String), u64>,
    pub devices: devices::AllocationDiff,
}

impl ChangeFilter {
    /// Whether the relevant fields of this object differ from the last event.
    pub fn changed(&mut self, object: &impl ResourceExt, facts: &impl Serialize) -> bool {
        let mut hasher = DefaultHasher::new();
        serde_json::to_string(facts).unwrap_or_default().hash(&mut hasher);
        let hash = hasher.finish();
        self.facts.insert(name_of(object), hash) != Some(hash)
    }

    pub fn forget(&mut self, object: &impl ResourceExt) {
        self.facts.remove(&name_of(object));
    }

    pub fn keep(&mut self, names: &Names) {
        self.facts.retain(|name, _| names.contains(name));
    }
}

/// Namespace and name of an object.
pub fn name_of(object: &impl ResourceExt) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::TcpListener;

    use k8s_openapi::api::resource::v1::{DeviceClass, ResourceSlice};
    use serde_json::json;

    use super::*;

    /// A client of an API server that serves `DeviceClass` of resource.k8s.io/v1, or not even the group.
    fn client(has_group: bool) -> Client {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
                let is_group = lines.next().unwrap_or_default().starts_with("GET /apis/resource.k8s.io/v1 ");
                lines.find(String::is_empty);
                let kind = json!({"name": "deviceclasses", "singularName": "", "namespaced": false, "kind": "DeviceClass",
                    "verbs": ["list", "watch"]});
                let list = json!({"kind": "APIResourceList", "groupVersion": "resource.k8s.io/v1", "resources": [kind]});
                let missing = json!({"kind": "Status", "status": "Failure", "message": "", "reason": "NotFound", "code": 404});
                let (code, body) = if is_group && has_group { (200, list) } else { (404, missing) };
                let body = body.to_string();
                let head =
                    format!("HTTP/1.1 {code} -\r\nContent-Type: application/json\r\nConnection: close\r\n");
                let _ = write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len());
            }
        });
        Client::try_from(kube::Config::new(format!("http://{address}").parse().unwrap())).unwrap()
    }

    /// Whether a kind is served; otherwise it counts as synced.
    async fn is_served<K: Resource<DynamicType = ()>>(client: &Client) -> bool {
        let (found, mut is_found) = watch::channel(None);
        let wait = wait_until_served::<K>(client, |is_served| {
            found.send_replace(Some(is_served));
        });
        tokio::select! {
            () = wait => true,
            found = is_found.wait_for(Option::is_some) => *found.unwrap() == Some(true),
        }
    }

    #[tokio::test]
    async fn kinds_of_newer_api_servers_are_watched_once_they_are_served() {
        assert!(is_served::<DeviceClass>(&client(true)).await);
        assert!(!is_served::<ResourceSlice>(&client(true)).await);
        assert!(!is_served::<DeviceClass>(&client(false)).await);
    }
}
