//! `cairn-run`: starts Instances, connects them, decides their collectives and supervises their processes.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    net::TcpListener,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            net::{SocketAddr, UnixListener},
            process::ExitStatusExt,
        },
    },
    process::{Child, Command, ExitStatus},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    time::{Duration, Instant},
};

use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use sha2::{Digest, Sha256};

use super::{
    hosts::Hosts,
    stream::{Stream, network},
    wire::{self, ADDRESS, REACHED_AT, TCP, TOKEN, ToInstance, ToLauncher},
};
use crate::{
    backends::shared::arbiter::{Arbiter, Decision},
    model::{Description, Error, Event, InstanceId, InstanceState, InstanceTemplate, Refused},
};

/// Grace period for termination.
const TERMINATION_GRACE: Duration = Duration::from_secs(10);

/// The parameters of a launch.
pub struct Launch {
    /// Number of Instances.
    pub instances: usize,
    /// The hosts to use.
    pub hosts: Hosts,
    /// The program.
    pub program: OsString,
    /// Whether Instances communicate over TCP, as between several machines.
    pub tcp: bool,
    /// The program's arguments.
    pub arguments: Vec<OsString>,
    /// The local address at which Instances on other hosts reach the launcher.
    pub listen: Option<String>,
}

enum LauncherEvent {
    Connected { token: String, address: Option<String>, stream: Stream },
    Message(InstanceId, ToLauncher),
    Ended(InstanceId, io::Result<ExitStatus>),
}

struct Member {
    description: Description,
    state: InstanceState,
    /// Present until the process was reaped.
    process: Option<std::os::fd::OwnedFd>,
    pid: u32,
    /// Pending requests, by Instance and number, to be answered when it has ended.
    awaited_by: Vec<(InstanceId, u64)>,
    to: Option<Sender<ToInstance>>,
    /// The deadline after which it is killed.
    kill_at: Option<Instant>,
}

/// A creation request, some of whose Instances are not decided yet.
struct Creation {
    from: InstanceId,
    request: u64,
    answers: Vec<Result<InstanceId, Refused>>,
}

struct Launcher {
    launch: Launch,
    address: String,
    /// The address for Instances of other hosts.
    far_address: Option<String>,
    run: String,
    secret: [u8; 32],
    created: u64,
    members: BTreeMap<InstanceId, Member>,
    tokens: BTreeMap<String, InstanceId>,
    root: Option<InstanceId>,
    arbiter: Arbiter,
    creations: Vec<Creation>,
    events: Sender<LauncherEvent>,
    code: i32,
}

/// Runs until the last Instance has ended. Returns the exit code of an abort, or the first non-zero one.
pub fn launch(launch: Launch) -> Result<i32, Error> {
    let run = random()?;
    let address = format!("cairn-run-{run}");
    let wrong = |error| Error::system("listen for Instances", error);
    let name = SocketAddr::from_abstract_name(&address).map_err(wrong)?;
    let listener = UnixListener::bind_addr(&name).map_err(wrong)?;
    let (events, receiver) = channel();
    let far = launch.far_listener()?;
    let far_address = far.as_ref().map(|far| far.local_addr().map(network)).transpose().map_err(wrong)?;
    let mut launcher = Launcher {
        launch,
        address,
        far_address,
        run,
        secret: draw()?,
        created: 0,
        members: BTreeMap::new(),
        tokens: BTreeMap::new(),
        root: None,
        arbiter: Arbiter::default(),
        creations: Vec::new(),
        events: events.clone(),
        code: 0,
    };
    if let Some(far) = far {
        let events = events.clone();
        std::thread::spawn(move || {
            let streams = far.incoming().flatten().filter_map(|stream| Stream::over_network(stream).ok());
            greet_all(streams, &events);
        });
    }
    std::thread::spawn(move || greet_all(listener.incoming().flatten().map(Stream::Machine), &events));
    launcher.begin()?;
    launcher.serve(&receiver);
    Ok(launcher.code)
}

fn random() -> Result<String, Error> {
    Ok(format!("{:032x}", u128::from_ne_bytes(draw()?)))
}

/// Random bytes; the kernel never returns fewer for up to 256.
pub(crate) fn draw<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(drawn) if drawn == N => Ok(bytes),
        other => Err(Error::system("draw a random number", format!("{other:?}"))),
    }
}

fn greet_all(streams: impl Iterator<Item = Stream>, events: &Sender<LauncherEvent>) {
    for stream in streams {
        let events = events.clone();
        std::thread::spawn(move || greet(stream, &events));
    }
}

fn greet(mut stream: Stream, events: &Sender<LauncherEvent>) {
    if let Ok(ToLauncher::Hello { token, address }) = wire::receive(&mut stream) {
        let _ = events.send(LauncherEvent::Connected { token, address, stream });
    }
}

impl Launch {
    /// Listens for Instances on other hosts, if there are any.
    fn far_listener(&self) -> Result<Option<TcpListener>, Error> {
        let what = "launch on other hosts";
        match (&self.listen, self.hosts.has_far()) {
            (_, true) if !self.tcp => {
                Err(Error::misuse(what, "Instances on several hosts communicate over TCP; pass --tcp"))
            }
            (None, true) => {
                let why = "Instances on other hosts must reach the launcher; pass --listen with an address of this host";
                Err(Error::misuse(what, why))
            }
            (None, false) => Ok(None),
            (Some(address), _) => {
                let listener = TcpListener::bind((address.as_str(), 0));
                listener.map(Some).map_err(|error| Error::system(&format!("listen at {address}"), error))
            }
        }
    }
}

impl Launcher {
    fn begin(&mut self) -> Result<(), Error> {
        // All are registered before the first starts, so that each knows all.
        let mut ids = Vec::new();
        for _ in 0..self.launch.instances {
            let id = self.new_id();
            let granted = self.launch.hosts.take_next(id).map_err(|why| Error::misuse("launch", why))?;
            self.add(id, granted);
            ids.push(id);
        }
        self.root = ids.first().copied();
        for id in ids {
            self.start(id)?;
        }
        Ok(())
    }

    fn new_id(&mut self) -> InstanceId {
        self.created += 1;
        let uid = format!("{}-{}", self.run, self.created);
        let digest: [u8; 32] = Sha256::digest(uid).into();
        let mut first = [0; 8];
        first.copy_from_slice(&digest[..8]);
        InstanceId(u64::from_be_bytes(first))
    }

    fn add(&mut self, id: InstanceId, topology: crate::hicr::Topology) {
        let description = Description { id, boot: 1, topology, address: String::new() };
        let (state, awaited_by) = (InstanceState::Requested, Vec::new());
        let member =
            Member { description, state, process: None, pid: 0, awaited_by, to: None, kill_at: None };
        self.members.insert(id, member);
    }

    fn start(&mut self, id: InstanceId) -> Result<(), Error> {
        let token = random()?;
        let program = &self.launch.program;
        let (launch, address) = self.launch.hosts.way_to(id);
        let launcher = self.far_address.as_ref().filter(|_| !launch.is_empty()).unwrap_or(&self.address);
        let mut environment = vec![(ADDRESS, launcher.as_str()), (TOKEN, token.as_str())];
        environment.extend(self.launch.tcp.then_some((TCP, "1")));
        environment.extend(address.map(|address| (REACHED_AT, address)));
        let mut command = match launch {
            [] => {
                let mut command = Command::new(program);
                command.envs(environment);
                command
            }
            // The command may lead to a host without this environment.
            [first, others @ ..] => {
                let mut command = Command::new(first);
                command.args(others).arg("env");
                command.args(environment.iter().map(|(name, value)| format!("{name}={value}"))).arg(program);
                command
            }
        };
        command.args(&self.launch.arguments);
        let what = format!("start {}", command.get_program().to_string_lossy());
        let child = command.spawn().map_err(|error| Error::system(&what, error))?;
        let process = pid(&child).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        self.tokens.insert(token, id);
        if let Some(member) = self.members.get_mut(&id) {
            member.process = process;
            member.pid = child.id();
            member.description.address = format!("process {}", child.id());
        }
        self.set_state(id, InstanceState::Starting);
        let events = self.events.clone();
        std::thread::spawn(move || {
            let mut child = child;
            let _ = events.send(LauncherEvent::Ended(id, child.wait()));
        });
        Ok(())
    }

    fn serve(&mut self, events: &Receiver<LauncherEvent>) {
        while self.members.values().any(|member| !member.state.is_over()) {
            let next = self.members.values().filter_map(|member| member.kill_at).min();
            let event = match next {
                None => events.recv().ok(),
                Some(next) => match events.recv_timeout(next.saturating_duration_since(Instant::now())) {
                    Err(RecvTimeoutError::Timeout) => {
                        self.kill_overdue();
                        continue;
                    }
                    event => event.ok(),
                },
            };
            match event {
                Some(LauncherEvent::Connected { token, address, stream }) => {
                    self.connected(&token, address, stream);
                }
                Some(LauncherEvent::Message(id, message)) => self.handle(id, message),
                Some(LauncherEvent::Ended(id, status)) => self.ended(id, status),
                None => return,
            }
        }
    }

    fn kill_overdue(&mut self) {
        let now = Instant::now();
        for member in self.members.values_mut() {
            if member.kill_at.is_some_and(|until| until <= now) {
                member.kill_at = None;
                signal(member, Signal::KILL);
            }
        }
    }

    fn connected(&mut self, token: &str, address: Option<String>, mut stream: Stream) {
        // A token is valid once.
        let (Some(id), Ok(mut writer)) = (self.tokens.remove(token), stream.try_clone()) else { return };
        let (to, messages) = channel::<ToInstance>();
        std::thread::spawn(move || {
            // A stopped Instance blocks only this thread.
            while let Ok(message) = messages.recv() {
                if wire::send(&mut writer, &message).is_err() {
                    return;
                }
            }
        });
        let events = self.events.clone();
        std::thread::spawn(move || {
            while let Ok(message) = wire::receive(&mut stream) {
                if events.send(LauncherEvent::Message(id, message)).is_err() {
                    return;
                }
            }
        });
        if let (Some(address), Some(member)) = (address, self.members.get_mut(&id)) {
            member.description.address.clone_from(&address);
            self.broadcast(|| ToInstance::Reached { id, address: address.clone() });
        }
        self.set_state(id, InstanceState::Running);
        let all =
            self.members.values().map(|member| (member.description.clone(), member.state.clone())).collect();
        let _ =
            to.send(ToInstance::Welcome { me: id, root: self.root.unwrap_or(id), secret: self.secret, all });
        if let Some(member) = self.members.get_mut(&id) {
            member.to = Some(to);
        }
        self.answer_creations();
    }

    fn send(&self, id: InstanceId, message: ToInstance) {
        if let Some(to) = self.members.get(&id).and_then(|member| member.to.as_ref()) {
            let _ = to.send(message);
        }
    }

    fn broadcast(&self, message: impl Fn() -> ToInstance) {
        self.members.keys().for_each(|id| self.send(*id, message()));
    }

    fn decided(&self, decisions: Vec<Decision>) {
        for Decision { to, tag, round, result } in decisions {
            for id in to {
                self.send(id, ToInstance::Decided { tag, round, result: result.clone() });
            }
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "callers create the state")]
    fn set_state(&mut self, id: InstanceId, state: InstanceState) {
        let Some(member) = self.members.get_mut(&id).filter(|member| member.state.may_become(&state)) else {
            return;
        };
        member.state = state.clone();
        self.broadcast(|| ToInstance::Event(Event { id, state: state.clone() }));
    }

    fn handle(&mut self, from: InstanceId, message: ToLauncher) {
        match message {
            ToLauncher::Hello { .. } => {}
            ToLauncher::Gather(call) => {
                let decisions = self.arbiter.enter(from, call);
                self.decided(decisions);
            }
            ToLauncher::Withdraw { tag, round } => {
                let decisions = self.arbiter.withdraw(from, tag, round);
                self.decided(decisions);
            }
            ToLauncher::Release { tag, key } => self.arbiter.release(from, tag, key),
            ToLauncher::Create { request, n, template } => {
                let answers = (0..n).map(|_| self.create(&template)).collect();
                self.creations.push(Creation { from, request, answers });
                self.answer_creations();
            }
            ToLauncher::Terminate { request, id } => {
                let result = self.terminate(id);
                self.send(from, ToInstance::Done { request, result });
            }
            ToLauncher::Outlive { request, id, process } => {
                let member = self.members.get_mut(&id).filter(|it| it.pid == process && !it.state.is_over());
                match member {
                    Some(member) => member.awaited_by.push((from, request)),
                    None => self.send(from, ToInstance::Done { request, result: Ok(()) }),
                }
            }
            ToLauncher::Abort { code, reason } => {
                eprintln!("cairn-run: Instance {from} aborted with code {code}: {reason}");
                self.code = code;
                let failed = InstanceState::Failed(format!("aborted with code {code} by {from}: {reason}"));
                for id in self.members.keys().copied().collect::<Vec<_>>() {
                    self.set_state(id, failed.clone());
                    signal(&self.members[&id], Signal::KILL);
                }
            }
        }
    }

    fn create(&mut self, template: &InstanceTemplate) -> Result<InstanceId, Refused> {
        let id = self.new_id();
        let granted = self.launch.hosts.take(id, &template.topology).map_err(|why| Refused { why })?;
        self.add(id, granted);
        self.broadcast(|| ToInstance::Added(self.members[&id].description.clone()));
        if let Err(error) = self.start(id) {
            self.set_state(id, InstanceState::Failed(error.to_string()));
            self.launch.hosts.give_back(id);
            return Err(Refused { why: error.to_string() });
        }
        Ok(id)
    }

    /// Answers the creation requests whose Instances are all running or refused.
    fn answer_creations(&mut self) {
        for mut creation in std::mem::take(&mut self.creations) {
            let mut open = false;
            for answer in &mut creation.answers {
                let Ok(id) = answer else { continue };
                match &self.members[id].state {
                    InstanceState::Requested | InstanceState::Starting => open = true,
                    InstanceState::Failed(why) => *answer = Err(Refused { why: why.clone() }),
                    _ => {}
                }
            }
            if open {
                self.creations.push(creation);
            } else {
                let Creation { from, request, answers } = creation;
                self.send(from, ToInstance::Created { request, answers });
            }
        }
    }

    fn terminate(&mut self, id: InstanceId) -> Result<(), Error> {
        let Some(member) = self.members.get_mut(&id) else {
            let why = format!("Instance {id} does not exist; `instances` lists all");
            return Err(Error::misuse("terminate an Instance", why));
        };
        if !member.state.may_become(&InstanceState::Leaving) {
            let is = format!("{:?}", member.state);
            return Err(Error::state(format!("Instance {id}"), "terminate it", is, "Starting or Running"));
        }
        member.kill_at = Some(Instant::now() + TERMINATION_GRACE);
        self.set_state(id, InstanceState::Leaving);
        signal(&self.members[&id], Signal::TERM);
        Ok(())
    }

    fn ended(&mut self, id: InstanceId, status: io::Result<ExitStatus>) {
        let Some(member) = self.members.get_mut(&id) else { return };
        let leaving = member.state == InstanceState::Leaving;
        let up = !matches!(member.state, InstanceState::Requested | InstanceState::Starting);
        member.process = None;
        member.kill_at = None;
        let state = match &status {
            _ if leaving => InstanceState::Gone,
            Ok(status) if status.success() && up => InstanceState::Gone,
            Ok(status) if status.success() => InstanceState::Failed("it ended before it joined".into()),
            Ok(status) => InstanceState::Failed(match (status.code(), status.signal()) {
                (Some(code), _) => format!("it exited with code {code}"),
                (None, Some(signal)) => format!("it was killed by signal {signal}"),
                (None, None) => "it ended".into(),
            }),
            Err(error) => InstanceState::Failed(format!("it could not be waited for: {error}")),
        };
        if let (InstanceState::Failed(_), 0) = (&state, self.code) {
            let code = status.ok().and_then(|status| status.code()).filter(|code| *code != 0);
            self.code = code.unwrap_or(1);
        }
        self.set_state(id, state);
        if let Some(member) = self.members.get_mut(&id) {
            member.to = None;
            for (requester, request) in std::mem::take(&mut member.awaited_by) {
                self.send(requester, ToInstance::Done { request, result: Ok(()) });
            }
        }
        self.launch.hosts.give_back(id);
        let decisions = self.arbiter.lose(id);
        self.decided(decisions);
        self.answer_creations();
    }
}

fn pid(child: &Child) -> Option<rustix::process::Pid> {
    rustix::process::Pid::from_raw(i32::try_from(child.id()).ok()?)
}

/// Through the pidfd, since the process id may be reused.
fn signal(member: &Member, signal: Signal) {
    if let Some(process) = &member.process {
        let _ = pidfd_send_signal(process, signal);
    }
}
