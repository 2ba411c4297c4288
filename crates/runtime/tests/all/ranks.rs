//! Runs a test's body on several Instances: threads of this process, and processes under `cairn-run`.

use std::{
    process::{Command, Output},
    sync::Arc,
    time::{Duration, Instant},
};

use runtime::{
    CommunicationManager, Error, InstanceId, InstanceManager, Key, LocalSlot, MemoryManager, Tag,
    TopologyManager, Wait,
    backends::{host, processes, tcp},
    hicr::MemorySpace,
};

/// The managers of one Instance.
pub struct Rank {
    pub instances: Arc<dyn InstanceManager>,
    pub topology: Arc<dyn TopologyManager>,
    pub memory: Arc<dyn MemoryManager>,
    pub communication: Arc<dyn CommunicationManager>,
}

impl Rank {
    pub fn me(&self) -> InstanceId {
        self.instances.current().id()
    }

    /// All ids, sorted, the root first.
    pub fn ids(&self) -> Vec<InstanceId> {
        let mut ids: Vec<_> = self.instances.instances().iter().map(runtime::Instance::id).collect();
        let root = self.instances.root_id();
        ids.sort_by_key(|id| (*id != root, *id));
        ids
    }

    /// The index of this Instance in `ids`; the root is 0.
    pub fn index(&self) -> usize {
        self.ids().iter().position(|id| *id == self.me()).unwrap()
    }

    pub fn group(&self) -> Vec<InstanceId> {
        let mut ids = self.ids();
        ids.sort_unstable();
        ids
    }

    pub fn space(&self) -> MemorySpace {
        let topology = self.topology.query().unwrap();
        let spaces = topology.devices.iter().flat_map(|device| &device.memory_spaces);
        spaces.clone().find(|space| self.memory.claims(space)).unwrap().clone()
    }

    pub fn slot(&self, size: usize) -> LocalSlot {
        self.memory.allocate(&self.space(), size).unwrap()
    }

    /// A barrier of all Instances.
    pub fn barrier(&self, tag: u64) {
        let exchange = self.communication.exchange(&self.group(), Tag(tag), &[]).unwrap();
        assert!(soon(exchange).unwrap().is_empty());
    }
}

/// Waits with a generous deadline.
pub fn soon<T>(mut wait: Wait<T>) -> Result<T, Error> {
    wait.block(Instant::now() + Duration::from_mins(1))
}

/// Runs `body` as `count` Instances on every back-end that supports several. `name` is the path of the test.
pub fn everywhere(count: usize, name: &str, body: fn(&Rank)) {
    if processes::launched() {
        member(body);
    }
    inside(count, body);
    for by in BY {
        let output = launched_by(by, &["-n", &count.to_string(), "--oversubscribe"], name);
        assert!(output.status.success(), "{by}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The back-ends for several processes.
pub const BY: [&str; 2] = ["processes", "tcp"];

/// The single Instance of this process.
pub fn one() -> Rank {
    rank(host::alone().unwrap())
}

fn rank(managers: host::Managers) -> Rank {
    Rank {
        instances: Arc::new(managers.instances),
        topology: Arc::new(managers.topology),
        memory: Arc::new(managers.memory),
        communication: Arc::new(managers.communication),
    }
}

pub fn inside(count: usize, body: fn(&Rank)) {
    std::thread::scope(|threads| {
        for managers in host::inside(count).unwrap() {
            threads.spawn(move || body(&rank(managers)));
        }
    });
}

/// The main function of a launched process: runs the body and exits without returning to the test harness.
pub fn member(body: fn(&Rank)) -> ! {
    if tcp::launched() {
        let managers = tcp::join().unwrap();
        body(&Rank {
            instances: Arc::new(managers.instances),
            topology: Arc::new(managers.topology),
            memory: Arc::new(managers.memory),
            communication: Arc::new(managers.communication),
        });
    } else {
        let managers = processes::join().unwrap();
        body(&Rank {
            instances: Arc::new(managers.instances),
            topology: Arc::new(managers.topology),
            memory: Arc::new(managers.memory),
            communication: Arc::new(managers.communication),
        });
    }
    std::process::exit(0)
}

/// Runs only the test `name` of this program under `cairn-run`.
pub fn launched(options: &[&str], name: &str) -> Output {
    launched_by("processes", options, name)
}

/// The same with a back-end for several processes.
pub fn launched_by(by: &str, options: &[&str], name: &str) -> Output {
    launched_with(by, options, name, &[])
}

/// The same with environment variables.
pub fn launched_with(by: &str, options: &[&str], name: &str, environment: &[(&str, &str)]) -> Output {
    let this = std::env::current_exe().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_cairn-run"));
    command.args((by == "tcp").then_some("--tcp")).args(options).arg(this).args([
        "--exact",
        name,
        "--nocapture",
        "--test-threads=1",
    ]);
    command.envs(environment.iter().copied()).output().unwrap()
}

/// A global slot of an exchange by its key.
pub fn key(number: usize) -> Key {
    Key(number as u64)
}
