//! A device plugin of the kubelet for the NUMA domains of the node, the resources of pools with unit `NumaDomain`.
//!
//! Each domain is a resource `cairn.dev/numa-N` whose devices have a topology hint. For a pod that requests a device,
//! the kubelet's topology manager aligns CPUs and memory with the domain. The plugin itself restricts nothing.

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
use domains::OfferedDomain;
use registration::{KUBELET, PluginError, register};
use server::{Endpoint, Identity, Offer};

/// The `collector` label of this module's metrics.
pub const COLLECTOR: &str = "device_plugin";
/// How often the topology and the kubelet's socket are checked.
pub const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The timeout of the kubelet's `ListAndWatch` call after a registration.
const WATCH_TIMEOUT: Duration = Duration::from_secs(10);

/// The resources of all domains of the node. Dropping it removes their sockets.
#[derive(Debug)]
pub struct Plugin {
    /// The kubelet's folder of device plugins.
    folder: PathBuf,
    /// The number of devices of each domain.
    slots: u32,
    watch_timeout: Duration,
    /// By number of the domain. A domain that left the topology is kept with unhealthy devices.
    resources: BTreeMap<u32, Resource>,
}

/// The resource of a domain.
#[derive(Debug)]
struct Resource {
    domain: OfferedDomain,
    /// `None` until its socket is created.
    endpoint: Option<Endpoint>,
    /// The kubelet that accepted the last registration, and when.
    registered: Option<(Identity, Instant)>,
}

/// The state of the registrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// The kubelet watches the devices of all resources.
    Offered,
    /// The kubelet accepted the registrations, and may still start to watch.
    Registered,
}

impl Plugin {
    /// Serves `slots` devices for each domain to the kubelet that listens in `folder`.
    pub fn new(folder: impl Into<PathBuf>, slots: u32) -> Self {
        let resources = BTreeMap::new();
        Self { folder: folder.into(), slots, watch_timeout: WATCH_TIMEOUT, resources }
    }

    /// Checks the topology and the kubelet at an interval of `every`. Never returns.
    pub async fn run(
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
                self.set_domains(&OfferedDomain::of(&spec));
            }
            if self.resources.is_empty() {
                let message = "the topology has no NUMA domain";
                metrics.record_collector(COLLECTOR, CollectorState::Absent, message);
                continue;
            }
            match self.register_all().await {
                Ok(Progress::Offered) => {
                    metrics.record_collector(COLLECTOR, CollectorState::Ok, &self.summary());
                }
                Ok(Progress::Registered) => {}
                Err(error) => metrics.note_collector(COLLECTOR, error.state(), &error.to_string()),
            }
        }
    }

    /// Sets the domains of the current topology.
    fn set_domains(&mut self, found: &BTreeMap<u32, OfferedDomain>) {
        for (number, resource) in &mut self.resources {
            let gone = OfferedDomain { is_healthy: false, ..resource.domain };
            resource.domain = *found.get(number).unwrap_or(&gone);
            if let Some(endpoint) = &resource.endpoint {
                endpoint.set(Offer { domain: resource.domain, slots: self.slots });
            }
        }
        for (&number, &domain) in found {
            self.resources.entry(number).or_insert(Resource { domain, endpoint: None, registered: None });
        }
    }

    /// Registers each resource that the kubelet does not watch. Tries all, and returns the first error.
    async fn register_all(&mut self) -> Result<Progress, PluginError> {
        let mut result = Ok(Progress::Offered);
        for resource in self.resources.values_mut() {
            match resource.register(&self.folder, self.slots, self.watch_timeout).await {
                Ok(Progress::Offered) => {}
                Ok(Progress::Registered) => result = result.map(|_| Progress::Registered),
                Err(error) => result = result.and(Err(error)),
            }
        }
        result
    }

    /// The offered resources, for the collectors page.
    fn summary(&self) -> String {
        let of = |healthy: bool| {
            let resources = self.resources.values().filter(|resource| resource.domain.is_healthy == healthy);
            resources.map(|resource| resource.domain.resource()).collect::<Vec<_>>().join(", ")
        };
        let (healthy, lost, slots) = (of(true), of(false), self.slots);
        let mut message =
            format!("the kubelet at {} offers {healthy} with {slots} devices each", self.folder.display());
        if !lost.is_empty() {
            message = format!("{message}; the domains of {lost} are lost, and their devices unhealthy");
        }
        message
    }
}

impl Resource {
    /// Registers this resource unless the kubelet watches it. Registers again after a kubelet restart or a failure.
    async fn register(
        &mut self,
        folder: &Path,
        slots: u32,
        watch_timeout: Duration,
    ) -> Result<Progress, PluginError> {
        let path = folder.join(KUBELET);
        // A kubelet removes all sockets of the folder when it starts, and creates its own.
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
        let last = self.registered.filter(|(with, _)| *with == kubelet);
        if let Some((_, at)) = last {
            if endpoint.is_watched() {
                return Ok(Progress::Offered);
            }
            if at.elapsed() < watch_timeout {
                return Ok(Progress::Registered);
            }
        }
        self.registered = None;
        let resource = self.domain.resource();
        register(folder, self.domain.socket(), resource.clone()).await?;
        self.registered = Some((kubelet, Instant::now()));
        if last.is_some() { Err(PluginError::Unwatched(resource)) } else { Ok(Progress::Registered) }
    }
}

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;
