//! A graph under a profile: the table, ECT, the online genetic algorithm, and the ideal.

use std::collections::BTreeMap;

use taskgraph::cost::{ParallelModel, Vector};
use taskgraph::offline::{Plan, Settings, ect, evolve, makespan};
use taskgraph::table::online::{Candidate, Replay, Stored, models, replay};
use taskgraph::table::{Build, build_region, index_of, ranges, region_of};
use taskgraph::{Budget, Graph, Mapping, Platform, Range};

use super::super::setting::Failure;

/// Cost of a reconfiguration.
pub const RECONFIGURATION: f64 = 1000.0;

/// How a region's mapping is chosen (section 5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// The mapping for the region's centre.
    Middle,
    /// As in the table: the best mean over sampled vectors.
    Samples,
}

/// A graph with the regions built so far.
pub struct Scenario<'a> {
    graph: &'a Graph,
    platform: &'a Platform,
    build: Build,
    scheme: Scheme,
    ranges: [Range; 4],
    regions: BTreeMap<[usize; 4], (Plan, f64)>,
}

impl<'a> Scenario<'a> {
    /// A graph without regions.
    pub fn new(
        graph: &'a Graph,
        platform: &'a Platform,
        build: Build,
        scheme: Scheme,
    ) -> Result<Self, Failure> {
        let ranges = ranges(graph)?;
        Ok(Self { graph, platform, build, scheme, ranges, regions: BTreeMap::new() })
    }

    fn model(&self, vector: &Vector) -> Result<ParallelModel, Failure> {
        Ok(ParallelModel::new("table", self.graph, self.platform, vector)?)
    }

    /// Builds the region of a vector unless it exists.
    fn make(&mut self, index: [usize; 4]) -> Result<(), Failure> {
        if self.regions.contains_key(&index) {
            return Ok(());
        }
        let middle = Vector::new(region_of(&self.ranges, index).map(|(from, to)| f64::midpoint(from, to)));
        let model = self.model(&middle)?;
        let entry = match self.scheme {
            Scheme::Middle => {
                let found = evolve(&model, &self.build.genetic, &[], &Budget::effort(None, self.build.seed));
                (found.plan, found.makespan)
            }
            Scheme::Samples => {
                let (region, mappings) = build_region(self.graph, self.platform, &self.build, index)?;
                let Mapping::Parallel(allotments) = &mappings[region.plan] else {
                    return Err("a region has a mapping of the model parallel".into());
                };
                (Plan::new(&model, allotments, |task| format!("s{task}"))?, region.mean)
            }
        };
        self.regions.insert(index, entry);
        Ok(())
    }

    /// Runs a profile with the table.
    pub fn on_off(&mut self, profile: &[Vector], cost: f64, stored: Stored) -> Result<Replay, Failure> {
        for vector in profile {
            self.make(index_of(&self.ranges, vector))?;
        }
        let models = models(self.graph, self.platform, profile)?;
        Ok(replay(&models, cost, |number, _, observed| {
            let (plan, mean) = &self.regions[&index_of(&self.ranges, &profile[number])];
            let seen = observed.get(plan).copied().filter(|_| stored == Stored::Observed);
            Candidate { plan: plan.clone(), stored: seen.unwrap_or(*mean) }
        }))
    }

    /// Runs a profile with ECT, re-mapped after each iteration.
    pub fn ect(&self, profile: &[Vector], cost: f64) -> Result<Replay, Failure> {
        let models = models(self.graph, self.platform, profile)?;
        Ok(replay(&models, cost, |_, model, _| {
            let plan = ect(model);
            Candidate { stored: makespan(model, &plan), plan }
        }))
    }

    /// Times of iterations 1 … n with the online genetic algorithm, warm-started from its last mapping; and of the ideal, which
    /// knows the iteration's parameters and starts from that and from the table's mapping. Reconfigurations are free.
    pub fn genetic(
        &self,
        profile: &[Vector],
        settings: &Settings,
        seed: u64,
    ) -> Result<(Vec<f64>, Vec<f64>), Failure> {
        let models = models(self.graph, self.platform, profile)?;
        let (mut online, mut ideal) = (Vec::new(), Vec::new());
        let mut known: Vec<Plan> = Vec::new();
        for (number, pair) in models.windows(2).enumerate() {
            let budget = |salt: u64| {
                Budget::effort(None, seed.wrapping_mul(1000).wrapping_add(2 * number as u64 + salt))
            };
            let plan = evolve(&pair[0], settings, &known, &budget(0)).plan;
            online.push(makespan(&pair[1], &plan));
            let mut seeds = vec![plan.clone()];
            let region = self.regions.get(&index_of(&self.ranges, &profile[number]));
            seeds.extend(region.map(|(plan, _)| plan.clone()));
            ideal.push(evolve(&pair[1], settings, &seeds, &budget(1)).makespan);
            known = vec![plan];
        }
        Ok((online, ideal))
    }
}

/// The sum of times.
pub fn sum(times: &[f64]) -> f64 {
    times.iter().sum()
}
