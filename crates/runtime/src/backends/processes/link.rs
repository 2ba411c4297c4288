//! An Instance's connection to its launcher, and the state received through it.

use std::{
    collections::BTreeMap,
    fs::OpenOptions,
    os::fd::{AsRawFd, OwnedFd},
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicU64, Ordering::SeqCst},
        mpsc,
    },
};

use raw::Memory;
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use super::{
    stream::Stream,
    wire::{self, ADDRESS, TOKEN, ToInstance, ToLauncher},
};
use crate::{
    backends::shared::{
        Control,
        arbiter::{Agreed, Call},
    },
    hicr::{MemorySpace, Topology},
    model::{
        Bytes, Capability, Description, Error, Event, Instance, InstanceId, InstanceManager, InstanceState,
        InstanceTemplate, Key, Promise, Refused, Tag, TopologyManager, Wait, Watch, fence::Losses,
        memory::SlotCore, promise, wait::lock,
    },
};

type InstanceTable = BTreeMap<InstanceId, (Description, Arc<Mutex<InstanceState>>)>;
type Collectives = BTreeMap<(Tag, Option<u64>), Promise<Agreed>>;
type Answers = Vec<Result<InstanceId, Refused>>;

/// The connection, shared by all managers of the process.
pub struct Link {
    me: InstanceId,
    root: InstanceId,
    to: Mutex<Stream>,
    known: Mutex<InstanceTable>,
    losses: Arc<Losses>,
    collectives: Mutex<Collectives>,
    creations: Mutex<BTreeMap<u64, Promise<Answers>>>,
    requests: Mutex<BTreeMap<u64, Promise<()>>>,
    next: AtomicU64,
    watches: Mutex<Vec<mpsc::Sender<Event>>>,
    secret: [u8; 32],
    /// A subscriber to addresses and terminations of Instances.
    follower: Mutex<Option<Follower>>,
}

type Follower = Box<dyn Fn(PeerEvent<'_>) + Send>;

/// A notification by the launcher about an Instance.
pub(crate) enum PeerEvent<'a> {
    /// Its address.
    Address(InstanceId, &'a str),
    /// Its process has ended.
    Ended(InstanceId),
}

/// The descriptor by which another process maps a slot.
#[derive(Serialize, Deserialize)]
struct Place {
    process: u32,
    file: i32,
    size: u64,
}

fn known(description: Description, state: InstanceState) -> (Description, Arc<Mutex<InstanceState>>) {
    (description, Arc::new(Mutex::new(state)))
}

impl Link {
    /// `address` is where peers reach this process over a network, if they do.
    pub(crate) fn join(address: Option<String>) -> Result<Arc<Self>, Error> {
        let variable = |name: &str| {
            let why = format!("{name} is not set; start the program with cairn-run");
            std::env::var(name).map_err(|_| Error::misuse("join the run", why))
        };
        let wrong = |error: std::io::Error| Error::system("join the run", error);
        let launcher = variable(ADDRESS)?;
        let token = variable(TOKEN)?;
        // This process ends with its launcher.
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
        let mut stream = Stream::connect(&launcher).map_err(wrong)?;
        wire::send(&mut stream, &ToLauncher::Hello { token, address }).map_err(wrong)?;
        let welcome = wire::receive(&mut stream).map_err(|_| {
            Error::misuse(
                "join the run",
                "the launcher does not expect this process; join once, in the program itself",
            )
        })?;
        let ToInstance::Welcome { me, root, secret, all } = welcome else {
            return Err(Error::system("join the run", "the launcher rejected this Instance"));
        };
        let all = all.into_iter().map(|(description, state)| (description.id, known(description, state)));
        let link = Arc::new(Self {
            me,
            root,
            to: Mutex::new(stream.try_clone().map_err(wrong)?),
            known: Mutex::new(all.collect()),
            losses: Arc::default(),
            collectives: Mutex::default(),
            creations: Mutex::default(),
            requests: Mutex::default(),
            next: AtomicU64::new(1),
            watches: Mutex::default(),
            secret,
            follower: Mutex::default(),
        });
        for (id, (_, state)) in lock(&link.known).iter() {
            if lock(state).is_over() {
                link.losses.lose(*id);
            }
        }
        let listener = Arc::downgrade(&link);
        std::thread::spawn(move || listen(stream, &listener));
        Ok(link)
    }

    pub(crate) fn me(&self) -> InstanceId {
        self.me
    }

    /// The secret shared by all Instances of the run.
    pub(crate) fn secret(&self) -> [u8; 32] {
        self.secret
    }

    /// Subscribes `follower` to the addresses and terminations of Instances, starting with the current ones.
    pub(crate) fn follow(&self, follower: impl Fn(PeerEvent<'_>) + Send + 'static) {
        let known = lock(&self.known);
        for (id, (description, state)) in known.iter() {
            if lock(state).is_over() {
                follower(PeerEvent::Ended(*id));
            } else if !description.address.is_empty() {
                follower(PeerEvent::Address(*id, &description.address));
            }
        }
        *lock(&self.follower) = Some(Box::new(follower));
    }

    fn notify(&self, event: PeerEvent<'_>) {
        if let Some(follower) = &*lock(&self.follower) {
            follower(event);
        }
    }

    pub(crate) fn granted(&self) -> Granted {
        let known = lock(&self.known);
        Granted(known.get(&self.me).map(|(description, _)| description.topology.clone()).unwrap_or_default())
    }

    fn send(&self, message: &ToLauncher) -> Result<(), Error> {
        wire::send(&mut *lock(&self.to), message)
            .map_err(|error| Error::system("communicate with the launcher", error))
    }

    fn handle(&self, message: ToInstance) {
        match message {
            ToInstance::Welcome { .. } => {}
            ToInstance::Added(description) => {
                lock(&self.known).insert(description.id, known(description, InstanceState::Requested));
            }
            ToInstance::Reached { id, address } => {
                // `known` is locked, so no subscription starts here: each notification is delivered exactly once.
                let mut known = lock(&self.known);
                if let Some((description, _)) = known.get_mut(&id) {
                    description.address.clone_from(&address);
                    self.notify(PeerEvent::Address(id, &address));
                }
            }
            ToInstance::Event(event) => {
                if let Some((_, state)) = lock(&self.known).get(&event.id) {
                    lock(state).clone_from(&event.state);
                }
                if event.state.is_over() {
                    self.losses.lose(event.id);
                    let _known = lock(&self.known);
                    self.notify(PeerEvent::Ended(event.id));
                }
                lock(&self.watches).retain(|watch| watch.send(event.clone()).is_ok());
            }
            ToInstance::Decided { tag, round, result } => {
                let promise = lock(&self.collectives).remove(&(tag, round));
                if let Some(promise) = promise {
                    promise.keep(result.clone());
                }
            }
            ToInstance::Created { request, answers } => {
                let promise = lock(&self.creations).remove(&request);
                if let Some(promise) = promise {
                    promise.keep(Ok(answers.clone()));
                }
            }
            ToInstance::Done { request, result } => {
                let promise = lock(&self.requests).remove(&request);
                if let Some(promise) = promise {
                    promise.keep(result.clone());
                }
            }
        }
    }

    fn get(&self, id: InstanceId) -> Option<Instance> {
        let known = lock(&self.known);
        let (description, state) = known.get(&id)?;
        Some(Instance::new(description.clone(), Arc::clone(state), id == self.root))
    }

    fn request(&self, message: impl FnOnce(u64) -> ToLauncher) -> Result<(), Error> {
        let request = self.next.fetch_add(1, SeqCst);
        let (kept, wait) = promise("the launcher's answer", || {});
        lock(&self.requests).insert(request, kept);
        self.send(&message(request))?;
        wait.done()
    }
}

fn listen(mut stream: Stream, link: &Weak<Link>) {
    while let Ok(message) = wire::receive(&mut stream) {
        let Some(link) = link.upgrade() else { return };
        link.handle(message);
    }
    if let Stream::Network(_) = stream {
        // This process ends with its launcher, as the kernel ensures on the same machine.
        let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::KILL);
    }
    // Without the launcher no state of a peer can be known.
    let Some(link) = link.upgrade() else { return };
    let others: Vec<_> = lock(&link.known).keys().copied().filter(|id| *id != link.me).collect();
    for id in others {
        link.losses.lose(id);
        link.notify(PeerEvent::Ended(id));
    }
    let gone = || Error::system("communicate with the launcher", "the connection is closed");
    for promise in std::mem::take(&mut *lock(&link.collectives)).into_values() {
        promise.keep(Err(gone()));
    }
    for promise in std::mem::take(&mut *lock(&link.creations)).into_values() {
        promise.keep(Err(gone()));
    }
    for promise in std::mem::take(&mut *lock(&link.requests)).into_values() {
        promise.keep(Err(gone()));
    }
}

impl Control for Link {
    fn me(&self) -> InstanceId {
        self.me
    }

    fn losses(&self) -> &Arc<Losses> {
        &self.losses
    }

    fn gather(&self, call: Call) -> Wait<Agreed> {
        let (tag, round) = (call.tag, call.round);
        let Ok(to) = lock(&self.to).try_clone() else {
            return Wait::ready(Err(Error::system("communicate with the launcher", "too many open files")));
        };
        let to = Mutex::new(to);
        let (kept, wait) = promise("the collective", move || {
            let _ = wire::send(&mut *lock(&to), &ToLauncher::Withdraw { tag, round });
        });
        lock(&self.collectives).insert((tag, round), kept);
        if let Err(error) = self.send(&ToLauncher::Gather(call)) {
            let promise = lock(&self.collectives).remove(&(tag, round));
            if let Some(promise) = promise {
                promise.keep(Err(error.clone()));
            }
        }
        wait
    }

    fn release(&self, tag: Tag, key: Key) {
        let _ = self.send(&ToLauncher::Release { tag, key });
    }

    fn describe(&self, core: &Arc<SlotCore>) -> Result<Vec<u8>, Error> {
        let memory = core.host("exchange")?;
        let file = memory.give().ok_or_else(|| {
            let why =
                format!("{core} is not a shared segment; allocate it with the memory manager `processes`");
            Error::misuse("exchange", why)
        })?;
        let place = Place { process: std::process::id(), file: file.as_raw_fd(), size: memory.size() as u64 };
        postcard::to_stdvec(&place).map_err(|error| Error::system("exchange", error))
    }

    fn open(&self, owner: InstanceId, bytes: &[u8]) -> Result<Arc<SlotCore>, Error> {
        let gone = |_| Error::Gone("the slot".into());
        let place: Place = postcard::from_bytes(bytes).map_err(|_| Error::Gone("the slot".into()))?;
        let files = format!("/proc/{}/fd", place.process);
        let path = format!("{files}/{}", place.file);
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(|_| {
            // A process without files is terminating or has ended: a live one is connected to the launcher. Before the
            // launcher answers this request, it reports that loss. For a live process it answers at once, after
            // the losses known to that process.
            let lives = std::fs::read_dir(&files).is_ok_and(|mut files| files.next().is_some());
            let process = if lives { NO_PROCESS } else { place.process };
            let _ = self.request(|request| ToLauncher::Outlive { request, id: owner, process });
            if self.losses.is_lost(owner) { Error::PeerLost(owner) } else { Error::Gone("the slot".into()) }
        })?;
        let memory = Memory::open(OwnedFd::from(file)).map_err(gone)?;
        let size = memory.size();
        if size as u64 != place.size {
            return Err(Error::Gone("the slot".into()));
        }
        let space = MemorySpace { type_: host_ram(), size: place.size, more: serde_json::Map::new() };
        Ok(Arc::new(SlotCore::new("processes", space, Bytes::Host(memory), None, size)))
    }
}

/// A number that no process has.
const NO_PROCESS: u32 = u32::MAX;

fn host_ram() -> String {
    crate::backends::host::RAM.to_owned()
}

/// The topology granted by the launcher.
#[derive(Clone, Debug)]
pub struct Granted(Topology);

impl TopologyManager for Granted {
    fn name(&self) -> &'static str {
        "granted"
    }

    fn supports(&self, _capability: Capability) -> bool {
        false
    }

    fn query(&self) -> Result<Topology, Error> {
        Ok(self.0.clone())
    }
}

/// The Instances of a run.
pub struct Instances(Arc<Link>);

impl Instances {
    pub(crate) fn new(link: Arc<Link>) -> Self {
        Self(link)
    }
}

impl InstanceManager for Instances {
    fn name(&self) -> &'static str {
        "processes"
    }

    fn supports(&self, capability: Capability) -> bool {
        matches!(capability, Capability::CreateInstances | Capability::SeveralInstances)
    }

    fn current(&self) -> Instance {
        self.0.get(self.0.me).expect("the launcher's welcome names this Instance")
    }

    fn instances(&self) -> Vec<Instance> {
        let ids: Vec<_> = lock(&self.0.known).keys().copied().collect();
        let all = ids.into_iter().filter_map(|id| self.0.get(id));
        all.filter(|instance| !instance.state().is_over()).collect()
    }

    fn root_id(&self) -> InstanceId {
        self.0.root
    }

    fn watch(&self) -> Watch {
        let (sender, watch) = Watch::new();
        lock(&self.0.watches).push(sender);
        watch
    }

    fn create_instances(&self, n: usize, template: &InstanceTemplate) -> Vec<Result<Instance, Refused>> {
        let request = self.0.next.fetch_add(1, SeqCst);
        let (kept, wait) = promise::<Answers>("the new Instances", || {});
        lock(&self.0.creations).insert(request, kept);
        let answers = self.0.send(&ToLauncher::Create { request, n, template: template.clone() });
        match answers.and_then(|()| wait.done()) {
            Ok(answers) => answers
                .into_iter()
                .map(|answer| {
                    let id = answer?;
                    self.0.get(id).ok_or_else(|| Refused { why: "it ended immediately".into() })
                })
                .collect(),
            Err(error) => (0..n).map(|_| Err(Refused { why: error.to_string() })).collect(),
        }
    }

    fn add_instance(&self, id: InstanceId) -> Result<Instance, Error> {
        self.0.get(id).ok_or_else(|| {
            Error::misuse("find an Instance", format!("Instance {id} does not exist; `instances` lists all"))
        })
    }

    fn terminate(&self, id: InstanceId) -> Result<(), Error> {
        if id == self.0.me {
            let why = "it is the calling one; return from `main` or call `abort`";
            return Err(Error::misuse("terminate an Instance", why));
        }
        self.0.request(|request| ToLauncher::Terminate { request, id })
    }

    fn finalize(&self) -> Result<(), Error> {
        if self.0.me != self.0.root {
            let must = format!("the root, {}", self.0.root);
            return Err(Error::state(format!("Instance {}", self.0.me), "finalize", "not the root", &must));
        }
        let others = self.instances().into_iter().filter(|instance| instance.id() != self.0.me);
        let others = others.filter(|instance| instance.state().may_become(&InstanceState::Leaving));
        for id in others.map(|instance| instance.id()).collect::<Vec<_>>() {
            match self.terminate(id) {
                // It has ended in the meantime.
                Err(Error::State { .. }) | Ok(()) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn abort(&self, code: i32, reason: &str) -> Result<(), Error> {
        self.0.send(&ToLauncher::Abort { code, reason: reason.to_owned() })
    }
}
