//! A device plugin of the kubelet for the NUMA domains of the node, the resources of pools with unit `NumaDomain`.
//!
//! Each domain is a resource `cairn.dev/numa-N`, and each of its devices has a topology hint. For a pod that requests a
//! device, the kubelet's topology manager makes the CPU and memory managers choose CPUs and memory of the domain. The plugin
//! itself restricts nothing.

mod domains;
mod registration;
mod server;
mod wire;

use std::{
    collections::BTreeMap,
    convert::Infallible,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use crds::NodeTopologySpec;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::metrics::{CollectorState, Metrics};
use domains::Domain;
use registration::{KUBELET, PluginError, register};
use server::{Endpoint, Identity, Offer};

/// The `collector` label of this module's metrics.
pub const COLLECTOR: &str = "device_plugin";
/// How often the topology and the kubelet's socket are checked.
pub const CHECK_EVERY: Duration = Duration::from_secs(1);
/// How long a kubelet may take to watch the devices that it registered.
const WATCHED_WITHIN: Duration = Duration::from_secs(10);

/// The resources of all domains of the node. Dropping it removes their sockets.
#[derive(Debug)]
pub struct Plugin {
    /// The kubelet's folder of device plugins.
    folder: PathBuf,
    /// The number of devices of each domain.
    slots: u32,
    watched_within: Duration,
    /// By number of the domain. A domain that is no longer in the topology stays, with unhealthy devices.
    resources: BTreeMap<u32, Resource>,
}

/// The resource of a domain.
#[derive(Debug)]
struct Resource {
    domain: Domain,
    /// Absent until its socket could be created.
    endpoint: Option<Endpoint>,
    /// The kubelet that accepted the last registration, and when.
    registered: Option<(Identity, Instant)>,
}

/// Whether the kubelet offers the resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// It watches the devices of all.
    Offered,
    /// It accepted the registrations a moment ago.
    Registered,
}

impl Plugin {
    /// Serves `slots` devices for each domain to the kubelet that listens in `folder`.
    pub fn new(folder: impl Into<PathBuf>, slots: u32) -> Self {
        let resources = BTreeMap::new();
        Self { folder: folder.into(), slots, watched_within: WATCHED_WITHIN, resources }
    }

    /// Follows the topology and the kubelet, checking them at an interval of `every`. Never returns.
    pub async fn keep(
        mut self,
        topology: impl Fn() -> Option<Arc<NodeTopologySpec>>,
        metrics: &Metrics,
        every: Duration,
    ) -> Infallible {
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Some(spec) = topology() {
                self.take(&Domain::of(&spec));
            }
            if self.resources.is_empty() {
                let words = "the topology has no NUMA domain";
                metrics.tell_collector(COLLECTOR, CollectorState::Absent, words);
                continue;
            }
            match self.register_all().await {
                Ok(Progress::Offered) => {
                    metrics.tell_collector(COLLECTOR, CollectorState::Ok, &self.summary());
                }
                Ok(Progress::Registered) => {}
                Err(error) => metrics.note_collector(COLLECTOR, error.state(), &error.to_string()),
            }
        }
    }

    /// Takes over the domains of the current topology.
    fn take(&mut self, found: &BTreeMap<u32, Domain>) {
        for (number, resource) in &mut self.resources {
            let gone = Domain { is_healthy: false, ..resource.domain };
            resource.domain = *found.get(number).unwrap_or(&gone);
            if let Some(endpoint) = &resource.endpoint {
                endpoint.set(Offer { domain: resource.domain, slots: self.slots });
            }
        }
        for (&number, &domain) in found {
            self.resources.entry(number).or_insert(Resource { domain, endpoint: None, registered: None });
        }
    }

    /// Registers each resource that the kubelet does not know; the first error, after all were tried.
    async fn register_all(&mut self) -> Result<Progress, PluginError> {
        let mut result = Ok(Progress::Offered);
        for resource in self.resources.values_mut() {
            match resource.register(&self.folder, self.slots, self.watched_within).await {
                Ok(Progress::Offered) => {}
                Ok(Progress::Registered) => result = result.map(|_| Progress::Registered),
                Err(error) => result = result.and(Err(error)),
            }
        }
        result
    }

    /// What the kubelet offers, for the collectors page.
    fn summary(&self) -> String {
        let of = |healthy: bool| {
            let some = self.resources.values().filter(|resource| resource.domain.is_healthy == healthy);
            some.map(|resource| resource.domain.resource()).collect::<Vec<_>>().join(", ")
        };
        let (healthy, lost, slots) = (of(true), of(false), self.slots);
        let mut words =
            format!("the kubelet at {} offers {healthy} with {slots} devices each", self.folder.display());
        if !lost.is_empty() {
            words = format!("{words}; the domains of {lost} are lost, and their devices unhealthy");
        }
        words
    }
}

impl Resource {
    /// Makes the kubelet offer this resource, after its restart or a failure as well.
    async fn register(
        &mut self,
        folder: &Path,
        slots: u32,
        watched_within: Duration,
    ) -> Result<Progress, PluginError> {
        let path = folder.join(KUBELET);
        // a restarted kubelet has a socket of its own, and has removed those of plugins
        let kubelet = Identity::of(&path).map_err(|error| PluginError::of_file(path, error))?;
        if self.endpoint.take_if(|endpoint| !endpoint.listens()).is_some() {
            self.registered = None;
        }
        let endpoint = if let Some(endpoint) = &self.endpoint {
            endpoint
        } else {
            let socket = folder.join(self.domain.socket());
            let bound = Endpoint::bind(socket.clone(), Offer { domain: self.domain, slots });
            self.endpoint.insert(bound.map_err(|error| PluginError::of_file(socket, error))?)
        };
        let known = self.registered.filter(|(with, _)| *with == kubelet);
        if let Some((_, at)) = known {
            if endpoint.is_watched() {
                return Ok(Progress::Offered);
            }
            if at.elapsed() < watched_within {
                return Ok(Progress::Registered);
            }
        }
        self.registered = None;
        let resource = self.domain.resource();
        register(folder, self.domain.socket(), resource.clone()).await?;
        self.registered = Some((kubelet, Instant::now()));
        if known.is_some() { Err(PluginError::Unwatched(resource)) } else { Ok(Progress::Registered) }
    }
}

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;
