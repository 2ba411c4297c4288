//! What must hold of any bytes that are read as a file of a task graph: no panic, and what is accepted is sound.

use taskgraph::files::{cedr, graph, platform, workload};
use taskgraph::online::{Classes, Pool, Ready, Round, SCHEDULERS, scheduler};
use taskgraph::{Cost, Costs, FileError, Graph, Group, Kind, Model, Platform};

/// Rounds over more tasks than this are not run: finding faults needs many graphs, not large ones.
const LARGEST: usize = 200;

/// Reads as each of the four sorts of file; what is accepted is written and read back as itself, and scheduled once.
pub fn taskgraph(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some((graph, _)) = sound(cedr::read(text)) {
        let written = cedr::write(&graph).expect("what was read in this format can be written in it");
        let (again, _) = cedr::read(&written).expect("what was written is read");
        assert_eq!(again, graph);
        round(&graph);
    }
    if let Some(graph) = sound(graph::read(text)) {
        assert_eq!(graph::read(&graph::write(&graph)).expect("what was written is read"), graph);
        if graph.model() == Model::Measured
            && let Some(text) = sound(cedr::write(&graph))
        {
            cedr::read(&text).expect("what was written is read");
        }
        round(&graph);
    }
    if let Some(platform) = sound(platform::read(text)) {
        assert_eq!(platform::read(&platform::write(&platform)).expect("what was written is read"), platform);
    }
    sound(workload::read(text));
}

/// What was read; a refusal says where, why and what to do.
fn sound<T>(read: Result<T, FileError>) -> Option<T> {
    match read {
        Ok(read) => Some(read),
        Err(error) => {
            let FileError { path, problem, remedy } = &error;
            assert!(!path.is_empty() && !problem.is_empty() && !remedy.is_empty(), "{error:?}");
            None
        }
    }
}

/// One round of every scheduler over all tasks, on a core and one device of each of CEDR's kinds.
fn round(graph: &Graph) {
    let kinds = [Kind::Cpu, Kind::Fft, Kind::Mmult, Kind::Gpu];
    let platform = Platform::new(&kinds.map(|kind| Group::new(kind, 1))).expect("four are not too many");
    let mut classes = Classes::new(&platform);
    let mut queue = Vec::new();
    for (token, task) in graph.tasks().iter().take(LARGEST).enumerate() {
        let Cost::Measured(on) = &task.cost else { return };
        let Some(class) = sound(classes.intern(task, on)) else { continue };
        queue.push(Ready { token: token as u64, class, origin: 0 });
    }
    for name in SCHEDULERS {
        let mut pool = Pool { available: vec![0; 4], open: vec![true; 4], queueing: true };
        let (mut queue, tasks) = (queue.clone(), queue.len());
        let mut scheduler = scheduler(name).expect("a name of the list");
        let mut round = Round::new(0, &classes, Costs::ZCU102, &mut pool, &mut queue);
        round.run(&mut *scheduler, None);
        assert_eq!(round.handed.len(), tasks, "{name}");
    }
}
