//! Parts of the snapshots of all shapes.

use placement::Criterion;
use placement::file::{Actor, Levels, Message, RunsOn, SnapshotFile, Unit};

/// A file with these objects, and the objectives overload, then communication.
pub(super) fn world(units: Vec<Unit>, actors: Vec<Actor>, messages: Vec<Message>) -> SnapshotFile {
    let mut file = SnapshotFile {
        version: placement::file::VERSION,
        units,
        actors,
        messages,
        ..SnapshotFile::default()
    };
    file.objectives = Levels::InOrder(vec![vec![Criterion::Overload], vec![Criterion::Communication]]);
    (file.exchange_cost.other_kind, file.exchange_cost.other_node) = (Some(5), 30);
    file.exchange_cost.other_zone = 30;
    file
}

pub(super) fn actor(at: usize, kinds: &[&str], work: u64) -> Actor {
    let way = |kind: &&str| ((*kind).to_owned(), RunsOn { work, ..RunsOn::default() });
    Actor { id: format!("a-{at}"), runs_on: kinds.iter().map(way).collect(), ..Actor::default() }
}

pub(super) fn message(from: usize, to: usize, count: u64) -> Message {
    Message { from: format!("a-{from}"), to: format!("a-{to}"), count }
}
