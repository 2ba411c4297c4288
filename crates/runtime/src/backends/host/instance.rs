//! Instances within one process.

use std::sync::{Arc, Mutex, mpsc};

use crate::{
    backends::shared::hub::Hub,
    model::{
        Capability, Description, Error, Event, Instance, InstanceId, InstanceManager, InstanceState,
        InstanceTemplate, Refused, Watch, wait::lock,
    },
};

/// State shared by the Instances of a process.
pub(super) struct Shared {
    all: Vec<(Description, Arc<Mutex<InstanceState>>)>,
    watches: Mutex<Vec<mpsc::Sender<Event>>>,
    hub: Arc<Hub>,
}

impl Shared {
    pub(super) fn new(descriptions: Vec<Description>, hub: Arc<Hub>) -> Arc<Self> {
        let all = descriptions.into_iter();
        let all =
            all.map(|description| (description, Arc::new(Mutex::new(InstanceState::Running)))).collect();
        Arc::new(Self { all, watches: Mutex::default(), hub })
    }

    fn set(&self, id: InstanceId, next: &InstanceState) -> Result<(), Error> {
        let found = self.all.iter().find(|(description, _)| description.id == id);
        let (_, state) = found.ok_or_else(|| unknown(id))?;
        {
            let mut state = lock(state);
            if !state.may_become(next) {
                let (is, what) = (format!("{state:?}"), format!("make it {next:?}"));
                return Err(Error::state(format!("Instance {id}"), &what, is, "Running"));
            }
            *state = next.clone();
        }
        let event = Event { id, state: next.clone() };
        lock(&self.watches).retain(|watch| watch.send(event.clone()).is_ok());
        if next.is_over() {
            self.hub.lose(id);
        }
        Ok(())
    }
}

fn unknown(id: InstanceId) -> Error {
    Error::misuse("find an Instance", format!("Instance {id} does not exist; `instances` lists all"))
}

/// The Instances of this process, from the perspective of one of them.
pub struct Instances {
    me: InstanceId,
    shared: Arc<Shared>,
}

impl Instances {
    pub(super) fn new(me: InstanceId, shared: Arc<Shared>) -> Self {
        Self { me, shared }
    }

    fn get(&self, id: InstanceId) -> Option<Instance> {
        let (description, state) = self.shared.all.iter().find(|(description, _)| description.id == id)?;
        Some(Instance::new(description.clone(), Arc::clone(state), id == self.root_id()))
    }
}

impl InstanceManager for Instances {
    fn name(&self) -> &'static str {
        "host"
    }

    fn supports(&self, capability: Capability) -> bool {
        capability == Capability::SeveralInstances && self.shared.all.len() > 1
    }

    fn current(&self) -> Instance {
        self.get(self.me).expect("it is listed while it exists")
    }

    fn instances(&self) -> Vec<Instance> {
        let all = self.shared.all.iter().filter_map(|(description, _)| self.get(description.id));
        all.filter(|instance| !instance.state().is_over()).collect()
    }

    fn root_id(&self) -> InstanceId {
        self.shared.all[0].0.id
    }

    fn watch(&self) -> Watch {
        let (sender, watch) = Watch::new();
        lock(&self.shared.watches).push(sender);
        watch
    }

    fn create_instances(&self, n: usize, _template: &InstanceTemplate) -> Vec<Result<Instance, Refused>> {
        let why =
            "the host back-end has only the Instances of this process; start the program with cairn-run";
        (0..n).map(|_| Err(Refused { why: why.into() })).collect()
    }

    fn add_instance(&self, id: InstanceId) -> Result<Instance, Error> {
        self.get(id).ok_or_else(|| unknown(id))
    }

    fn terminate(&self, id: InstanceId) -> Result<(), Error> {
        if id == self.me {
            let why = "it is the calling one; return from `main` or call `abort`";
            return Err(Error::misuse("terminate an Instance", why));
        }
        self.shared.set(id, &InstanceState::Leaving)?;
        self.shared.set(id, &InstanceState::Gone)
    }

    fn finalize(&self) -> Result<(), Error> {
        if self.me != self.root_id() {
            let (root, is) = (self.root_id(), "not the root");
            return Err(Error::state(
                format!("Instance {}", self.me),
                "finalize",
                is,
                &format!("the root, {root}"),
            ));
        }
        let others = self.instances().into_iter().map(|instance| instance.id()).filter(|id| *id != self.me);
        others.into_iter().try_for_each(|id| self.terminate(id))
    }

    fn abort(&self, code: i32, reason: &str) -> Result<(), Error> {
        let failed = InstanceState::Failed(format!("aborted with code {code} by {}: {reason}", self.me));
        let all = self.instances().into_iter();
        all.into_iter().try_for_each(|instance| self.shared.set(instance.id(), &failed))
    }
}
