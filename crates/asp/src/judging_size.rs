//! The size of a verification: the runs that it takes, and their expected time.

use std::collections::BTreeSet;
use std::time::Duration;

use placement::criteria::Encoding;
use placement::room::Rooms;
use placement::{Criterion, Snapshot};

use crate::facts::pairs;
use crate::group_counts::{GroupUnitCounts, JudgingBatch, Row};
use crate::scale::LARGEST_SUM;

/// Facts per actor and unit: given ones, and those derived from placements.
const PER_ACTOR: usize = 6;
const PER_UNIT: usize = 8;

/// Concurrent runs.
pub(crate) const CONCURRENT_RUNS: usize = 2;

/// The time of a run: start of the process, and half as much again per fact as measured (docs/results/history/placement.md).
const START: Duration = Duration::from_millis(30);
const PER_FACT: Duration = Duration::from_micros(12);
/// More facts than this exceed the processor's caches, and each further one takes longer.
const MANY_FACTS: usize = 60_000;
const PER_FURTHER_FACT: Duration = Duration::from_micros(60);

/// What a verification reads and derives, in facts.
pub(crate) struct JudgingSize {
    /// Pairs that criteria sum, and the facts of one of them: itself, and the pairs of kinds whose exchange cost it may need.
    pairs: usize,
    facts_per_pair: usize,
    actors: usize,
    units: usize,
    relations: usize,
    /// Criteria that one run computes as a whole.
    whole: usize,
    /// Rows of group channels; `None` if a sum of one is too large.
    rows: Option<Vec<Row>>,
}

impl JudgingSize {
    /// The size for a placement with these counts, on so many units.
    pub fn of(world: &Snapshot, units: usize, counts: &GroupUnitCounts) -> Self {
        let problem = world.problem();
        let kinds = problem.unit_kind.iter().collect::<BTreeSet<_>>().len();
        let rooms = Rooms::new(problem);
        let encoding = Encoding::new(world, &rooms);
        let criteria = world.objectives().levels().iter().flatten();
        let whole = criteria.map(|criterion| criterion.measure().effort_to_judge(&encoding));
        Self {
            pairs: pairs(&encoding),
            facts_per_pair: 1 + kinds * kinds,
            actors: PER_ACTOR * problem.movable.len(),
            units,
            relations: 2 * problem.relations.iter().map(|relation| relation.actors.len()).sum::<usize>(),
            whole: whole.fold(0, usize::saturating_add),
            rows: counts.rows(&encoding),
        }
    }

    /// Splits pairs and group channels into batches of at most `most` facts, one per run; empty if one run is enough. `None` if a
    /// batch exceeds `most`, or what only one run can compute does.
    pub fn batches(&self, most: usize) -> Option<Vec<JudgingBatch>> {
        // Actors, units and relations are always in the first run, whatever their number: constraints cannot be verified without.
        if self.whole > most {
            return None;
        }
        let rows = self.rows.as_ref()?;
        let (actors, units) = (self.actors, PER_UNIT * self.units);
        if rows.is_empty() && (self.pairs == 0 || self.first().saturating_add(self.of_pairs()) <= most) {
            return Some(Vec::new());
        }
        // A batch has the actors and units of its pairs: all, or two of each per pair.
        let of_all = most.saturating_sub(actors + units) / self.facts_per_pair;
        let each = of_all.max(most / (self.facts_per_pair + 2 * (PER_ACTOR + PER_UNIT)));
        if self.pairs > 0 && each == 0 {
            return None;
        }
        let pair_batches = (0..self.pairs).step_by(each.max(1));
        let pair_batches = pair_batches.map(|from| JudgingBatch {
            pairs: from..self.pairs.min(from + each),
            rows: Vec::new(),
            times: 1,
        });
        // A co-located group counts like an actor, and two groups with a channel like a derived pair.
        let room = most.saturating_sub((PER_ACTOR + PER_UNIT) * self.units);
        Some(pair_batches.chain(in_batches(rows.clone(), 1 + self.facts_per_pair, room)?).collect())
    }

    /// The facts of the first run without pairs.
    fn first(&self) -> usize {
        self.actors + PER_UNIT * self.units + self.relations + self.whole
    }

    fn of_pairs(&self) -> usize {
        self.pairs.saturating_mul(self.facts_per_pair)
    }

    /// The expected time of the first run without pairs, which verifies the constraints.
    pub fn time_of_constraints(&self) -> Duration {
        START + of_facts(self.first())
    }

    /// The expected time of everything, in one run or in a first one and batches of `most` facts.
    pub fn time(&self, batches: usize, most: usize) -> Duration {
        if batches == 0 {
            return START + of_facts(self.first().saturating_add(self.of_pairs()));
        }
        let rounds = u32::try_from(batches.div_ceil(CONCURRENT_RUNS)).unwrap_or(u32::MAX);
        self.time_of_constraints() + (START + of_facts(most)).saturating_mul(rounds)
    }
}

/// The most batches that group channels of a placement can take, whatever it is.
pub(crate) fn most_batches_of_channels(world: &Snapshot, most: usize) -> usize {
    let problem = world.problem();
    let channels = &problem.channels;
    if !channels.are_whole() {
        return 0;
    }
    let names = |criterion| world.objectives().names(criterion);
    let priced = usize::from(names(Criterion::Communication)) + usize::from(names(Criterion::Annoyance));
    let units = |end| channels.members.get(end).map_or(0, Vec::len).min(world.units());
    let kinds = problem.unit_kind.iter().collect::<BTreeSet<_>>().len();
    let facts = channels.of.enumerate().flat_map(|(end, of)| {
        let of = of.iter().filter(move |channel| channel.peer >= end);
        of.map(move |channel| units(end).saturating_mul(units(channel.peer)))
    });
    let facts = facts.fold(0, usize::saturating_add).saturating_mul(priced * (2 + kinds * kinds));
    facts.div_ceil(most.max(1))
}

fn of_facts(facts: usize) -> Duration {
    let times = |each: Duration, facts| each.saturating_mul(u32::try_from(facts).unwrap_or(u32::MAX));
    let few = facts.min(MANY_FACTS);
    times(PER_FACT, few).saturating_add(times(PER_FURTHER_FACT, facts - few))
}

/// Splits consecutive rows with equal multipliers into as few runs as possible; `None` if one row is too large for a run.
fn in_batches(mut rows: Vec<Row>, of_pair: usize, room: usize) -> Option<Vec<JudgingBatch>> {
    rows.sort_by_key(|row| row.times);
    let (mut batches, mut facts, mut sum) = (Vec::<JudgingBatch>::new(), 0, 0);
    for row in rows {
        let (more, most) = (of_pair * row.peer_units, row.most);
        if more > room {
            return None;
        }
        match batches.last_mut() {
            Some(batch) if batch.times == row.times && facts + more <= room && sum + most <= LARGEST_SUM => {
                (facts, sum) = (facts + more, sum + most);
                batch.rows.push(row);
            }
            _ => {
                (facts, sum) = (more, most);
                batches.push(JudgingBatch { pairs: 0..0, times: row.times, rows: vec![row] });
            }
        }
    }
    Some(batches)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Milliseconds of processor time as measured, in docs/results/history/placement.md.
    #[test]
    fn the_expected_time_covers_what_was_measured() {
        for (facts, measured) in
            [(7_600, 80), (15_200, 180), (38_000, 460), (76_000, 1_290), (114_000, 3_430), (152_000, 4_980)]
        {
            let (expected, measured) = (START + of_facts(facts), Duration::from_millis(measured));
            assert!(measured <= expected + expected / 20, "{facts}: {expected:?}");
            assert!(expected < 2 * measured, "{facts}: {expected:?}");
        }
        assert_eq!(START + of_facts(60_000), Duration::from_millis(750), "what one run has at most");
    }
}
