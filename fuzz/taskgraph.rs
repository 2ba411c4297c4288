//! What must hold of any bytes that are read as a file of a task graph: no panic, and what is accepted is sound.

use taskgraph::cost::{Division, ParallelModel, Vector, WorkModel};
use taskgraph::files::{cedr, graph, mapping, platform, workload};
use taskgraph::generate::semi_static;
use taskgraph::offline::{Plan, list, schedule};
use taskgraph::online::{Classes, Pool, Ready, Round, SCHEDULERS, scheduler};
use taskgraph::table::{self, online};
use taskgraph::{Cost, Costs, FileError, Graph, Group, Kind, Model, Platform};

/// Rounds over more tasks than this are not run: finding faults needs many graphs, not large ones.
const LARGEST: usize = 200;

/// Iteration 5 of the semi-static paper's profile A.
const VECTOR: [f64; 4] = [3090.0, 13.0, 258.0, 67.0];
/// Its ten tasks, and two for the model `work`, on which mappings are priced.
const PAIR: &str = "{version: 1, model: work, tasks: [{id: t0, work: 4096}, {id: t1, work: 1}], edges: [{from: t0, to: t1, bytes: 3}], \
                    variables: [{name: u, bytes: 8, writers: [t0], readers: [t1]}]}";

/// Reads as each of the six sorts of file; what is accepted is written and read back as itself, scheduled or priced once.
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
    if let Some(places) = sound(mapping::read(text)) {
        priced(&places);
    }
    if let Some(found) = sound(table::read(text)) {
        assert_eq!(table::read(&table::write(&found)).expect("what was written is read"), found);
        let (graph, platform) = (semi_static::ten_node(), semi_static::platform());
        let profile = [VECTOR, [1e9, -1e9, 0.0, 1.0]].map(Vector::new);
        found.lookup(&profile[1]);
        if let Ok(replayed) =
            online::with_table(&graph, &platform, &found, &profile, 1000.0, online::Stored::Observed)
        {
            assert_eq!(replayed.iterations.len(), 2);
        }
    }
}

/// What a mapping costs, of two tasks or of ten, if it is one.
fn priced(places: &mapping::Places) {
    let (pair, ten) = (graph::read(PAIR).expect("a sound graph"), semi_static::ten_node());
    let platform =
        platform::read("{pes: [{kind: cpu, count: 2}], links: {bandwidth: 4}}").expect("a sound platform");
    let model = WorkModel::new("fuzz", &pair, &platform, Division::Exact).expect("its platform has a link");
    if let Some(pes) = sound(mapping::single(&pair, &platform, &model, places)) {
        assert!(list::schedule(&model, &pes).makespan >= model.objective(&pes));
    }
    let platform = semi_static::platform();
    let model =
        ParallelModel::new("fuzz", &ten, &platform, &Vector::new(VECTOR)).expect("ten tasks of the paper");
    if let Some(allotments) = sound(mapping::parallel(&ten, places))
        && let Ok(plan) = Plan::new(&model, &allotments, |task| ten.tasks()[task].id.clone())
    {
        assert_eq!(schedule(&model, &plan).slots.len(), 10);
    }
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
        assert_eq!(round.dispatched.len(), tasks, "{name}");
    }
}
