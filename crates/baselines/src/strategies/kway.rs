//! The mapper `kway`: METIS partitions the task graph, a baseline of the annealing paper.

use taskgraph::cost::{Division, WorkModel};
use taskgraph::offline::priced;
use taskgraph::{Budget, Graph, MapError, Mapped, Mapper, Platform};

use super::partition::{Method, WeightedGraph, cut};

/// K-way partitioning (the annealing paper, IV.A): one part per processing element. Work and vector length are two
/// balance constraints, and the target weights of a part are its processing element's shares of both; edge weights are
/// bytes. METIS minimizes the cut bytes and does not model bandwidths.
#[derive(Clone, Copy, Debug, Default)]
pub struct KWay {
    /// How vectors are divided, used in the objective only.
    pub division: Division,
}

impl Mapper for KWay {
    fn name(&self) -> &'static str {
        "kway"
    }

    fn map(&self, graph: &Graph, platform: &Platform, budget: &Budget) -> Result<Mapped, MapError> {
        let model = WorkModel::new(self.name(), graph, platform, self.division)?;
        let needs: Vec<(f64, f64)> = (0..model.tasks()).map(|task| model.needs(task)).collect();
        let capacities: Vec<(f64, f64)> = (0..model.pes()).map(|pe| model.capacity(pe)).collect();
        let (works, vectors) =
            (whole(needs.iter().map(|need| need.0)), whole(needs.iter().map(|need| need.1)));
        let bytes = whole(model.edges().iter().map(|edge| edge.bytes));
        let mut edges = vec![Vec::new(); model.tasks()];
        for (edge, bytes) in model.edges().iter().zip(bytes).filter(|(_, bytes)| *bytes > 0) {
            edges[edge.from].push((edge.to, bytes));
            edges[edge.to].push((edge.from, bytes));
        }
        for near in &mut edges {
            join(near);
        }
        let web = WeightedGraph {
            weights: works.into_iter().zip(vectors).map(|(w0, w1)| vec![w0, w1]).collect(),
            edges,
        };
        let shares =
            [whole(capacities.iter().map(|pe| pe.0)), whole(capacities.iter().map(|pe| pe.1))].to_vec();
        let mapping = cut(&web, &shares, Method::KWay, budget.seed).map_err(MapError::Other)?;
        Ok(priced(&model, mapping))
    }
}

/// Scales numbers proportionally to integers of about nine digits, as METIS requires.
fn whole(values: impl Iterator<Item = f64> + Clone) -> Vec<i64> {
    let most = values.clone().fold(0.0, f64::max);
    let factor = if most > 0.0 { 1e9 / most } else { 0.0 };
    #[expect(clippy::cast_possible_truncation, reason = "at most 10⁹")]
    values.map(|value| (value * factor).ceil() as i64).collect()
}

/// One edge per neighbour, as METIS requires: ascending, with the weights of both directions added.
fn join(near: &mut Vec<(usize, i64)>) {
    near.sort_unstable();
    near.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
}
