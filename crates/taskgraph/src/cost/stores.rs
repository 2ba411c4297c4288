//! Data stores: variables as tasks without work, so that a mapping assigns each to a memory.

use super::edge::WorkEdge;
use crate::{Graph, Weight};

/// The edges of a graph with its data stores, numbered after its tasks in variable order.
///
/// The edges writer → store → reader carry the variable's bytes. An edge from a writer to a reader only orders them, so
/// that no byte counts twice; every other edge keeps its bytes.
pub(super) fn edges(graph: &Graph) -> Vec<WorkEdge> {
    let tasks = graph.tasks().len();
    let mut written = vec![Vec::new(); tasks];
    for variable in graph.variables() {
        for &writer in &variable.writers {
            written[writer].push(&variable.readers);
        }
    }
    let shared = |from: usize, to: usize| written[from].iter().any(|readers| readers.contains(&to));
    let kept = |edge: &crate::Edge| {
        let bytes = match edge.weight {
            Weight::Bytes(bytes) if !shared(edge.from, edge.to) => bytes,
            _ => 0.0,
        };
        WorkEdge { from: edge.from, to: edge.to, bytes, ordering: true }
    };
    let mut all = Ordered::new(tasks + graph.variables().len());
    for edge in graph.edges() {
        all.add(kept(edge));
    }
    for (number, variable) in graph.variables().iter().enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "bytes beyond 2^52 are no variable's")]
        let bytes = variable.bytes as f64;
        let store = tasks + number;
        for &writer in &variable.writers {
            all.add(WorkEdge { from: writer, to: store, bytes, ordering: true });
        }
        for &reader in &variable.readers {
            // Read before its last write, as in an iteration: sent, but no task waits for it.
            let ordering = !all.reaches(reader, store);
            all.add(WorkEdge { from: store, to: reader, bytes, ordering });
        }
    }
    all.edges
}

/// Ordering edges, and their transitive reachability.
struct Ordered {
    edges: Vec<WorkEdge>,
    next: Vec<Vec<usize>>,
}

impl Ordered {
    fn new(tasks: usize) -> Self {
        Self { edges: Vec::new(), next: vec![Vec::new(); tasks] }
    }

    fn add(&mut self, edge: WorkEdge) {
        if edge.ordering {
            self.next[edge.from].push(edge.to);
        }
        self.edges.push(edge);
    }

    fn reaches(&self, from: usize, to: usize) -> bool {
        let (mut seen, mut left) = (vec![false; self.next.len()], vec![from]);
        while let Some(task) = left.pop() {
            if task == to {
                return true;
            }
            if !std::mem::replace(&mut seen[task], true) {
                left.extend(&self.next[task]);
            }
        }
        false
    }
}
