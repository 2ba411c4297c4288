//! Published instances, and several copies of one.

use placement::Snapshot;
use placement::file::{Actor, Drag, Message, Node, SnapshotFile, Unit};

/// A published instance of `examples/instances`, by its name.
pub fn published(name: &str) -> Snapshot {
    let path = format!("{}/../../examples/instances/{name}.json", env!("CARGO_MANIFEST_DIR"));
    Snapshot::read(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Copies of a published instance, with messages from each copy to the next: too large for a proof, but quickly solved
/// by subproblems.
pub fn several(name: &str, copies: usize) -> Snapshot {
    let one = published(name).file().clone();
    let mut file = SnapshotFile {
        nodes: vec![],
        units: vec![],
        actors: vec![],
        messages: vec![],
        annoyance: vec![],
        ..one.clone()
    };
    for copy in 0..copies {
        let named = |id: &String| format!("{id}-{copy}");
        file.nodes.extend(one.nodes.iter().map(|node| Node { id: named(&node.id), ..node.clone() }));
        file.units.extend(one.units.iter().map(|unit| Unit {
            id: named(&unit.id),
            node: named(&unit.node),
            ..unit.clone()
        }));
        file.actors.extend(one.actors.iter().map(|actor| Actor { id: named(&actor.id), ..actor.clone() }));
        let message = |m: &Message| Message { from: named(&m.from), to: named(&m.to), count: m.count };
        file.messages.extend(one.messages.iter().map(message));
        let drag = |pair: &Drag| Drag { a: named(&pair.a), b: named(&pair.b), drag: pair.drag };
        file.annoyance.extend(one.annoyance.iter().map(drag));
        let next = format!("{}-{}", one.actors[0].id, (copy + 1) % copies);
        file.messages.push(Message { from: named(&one.actors[0].id), to: next, count: 1 });
    }
    Snapshot::new(file).unwrap()
}
