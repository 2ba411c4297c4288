//! The policy of a snapshot: the constraints that it derives, and the question that clingo answers about an assignment.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use placement::file::Scope;
use placement::ix::{ActorIx, UnitIx};
use placement::{Assignment, Derived, JudgeError, Rules, Snapshot};

use crate::derive::{derived, not_derived, says};
use crate::domains::Domains;
use crate::facts::Facts;
use crate::ground::ground;
use crate::limits::on_known_stack;
use crate::output::{GroundBudget, GroundingStop};
use crate::program::Program;
use crate::symbols::{actor, string};
use crate::verdict::{Argument, Instance, Verdict};

/// The size of a policy that is grounded for a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroundSize {
    /// Conclusions from facts alone, such as `forbid` and `pin`.
    pub conclusions: usize,
    /// Ground rules over placements.
    pub rules: usize,
    /// Ground instances of constraints.
    pub constraints: usize,
    /// Distinct tuples of weak constraints.
    pub penalties: usize,
    /// Tuples visited; large terms count as several.
    pub steps: u64,
    /// Tuples, literals and computed terms stored.
    pub kept: u64,
}

/// A question to clingo about an assignment: program, facts, and the symbols that the answer refers to by position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The policy's statements, one per line, with what they need.
    pub program: String,
    /// The facts of the snapshot, and the placement of every actor.
    pub facts: String,
    /// The symbol of every actor.
    pub actors: Vec<String>,
    /// The symbol of every unit.
    pub units: Vec<String>,
}

/// The policy of one snapshot.
#[derive(Clone, Debug)]
pub struct Policy<'a> {
    snapshot: &'a Snapshot,
    name: &'a str,
    program: Program,
}

impl<'a> Policy<'a> {
    /// The policy of a snapshot; `None` without a policy, or with parameters alone.
    ///
    /// # Errors
    /// All faults of the text, with line and column.
    pub fn of(snapshot: &'a Snapshot) -> Result<Option<Self>, JudgeError> {
        let Some(policy) = &snapshot.file().policy else { return Ok(None) };
        let Some(text) = &policy.program else { return Ok(None) };
        match Program::parse_joined(text) {
            Ok(program) => Ok(Some(Self { snapshot, name: &policy.name, program })),
            Err(faults) => {
                let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
                Err(JudgeError::Policy(format!("policy {}: {}", policy.name, faults.join("; "))))
            }
        }
    }

    /// The policy's name.
    pub fn name(&self) -> &str {
        self.name
    }

    /// Whether any statement constrains or prices a combination of placements.
    pub fn depends_on_placement(&self) -> bool {
        self.program.depends_on_placement()
    }

    /// The constraints and rules that the policy derives from the snapshot, and their size.
    ///
    /// # Errors
    /// When the policy is invalid for this snapshot, or exceeds `budget`.
    pub fn derive(&self, budget: GroundBudget) -> Result<(Derived, GroundSize), JudgeError> {
        self.ground_over(&Domains::of(self.snapshot.problem()), budget)
    }

    /// The rules over placements when limits are suspended: actors may be on any unit of their kinds, those of `anywhere` on
    /// any unit.
    ///
    /// # Errors
    /// When the policy is invalid for this snapshot, or exceeds `budget`.
    pub fn rules_everywhere(
        &self,
        anywhere: &[ActorIx],
        budget: GroundBudget,
    ) -> Result<Option<Rules>, JudgeError> {
        Ok(self.ground_over(&Domains::relaxed(self.snapshot.problem(), anywhere), budget)?.0.rules)
    }

    /// The question to clingo about an assignment.
    ///
    /// # Errors
    /// A number, or a sum that the policy could compute, exceeds 32 bits.
    pub fn question(&self, assignment: &Assignment) -> Result<Question, JudgeError> {
        let snapshot = self.snapshot;
        // The budget was spent by deriving from the same facts.
        let mut facts = self.facts(u64::MAX)?.text(assignment);
        if self.limits_places() {
            self.places(&mut facts);
        }
        Ok(Question {
            program: self.program.text(),
            facts,
            actors: ActorIx::first(snapshot.actors()).map(|at| actor(snapshot.actor_id(at))).collect(),
            units: UnitIx::first(snapshot.units()).map(|at| string(snapshot.unit_id(at))).collect(),
        })
    }

    /// Whether facts alone restrict the units of actors.
    pub fn limits_places(&self) -> bool {
        self.program.limits_places()
    }

    /// Whether facts alone lead to any conclusion.
    pub fn speaks_of_facts(&self) -> bool {
        self.program.limits_places() || self.program.says_how_much()
    }

    /// The location of units on every level, and the current unit of actors.
    fn places(&self, facts: &mut String) {
        for at in ActorIx::first(self.snapshot.actors()) {
            if let Some(unit) = self.snapshot.current(at) {
                let (name, unit) = (actor(self.snapshot.actor_id(at)), string(self.snapshot.unit_id(unit)));
                writeln!(facts, "now({name},{unit}).").expect("a string takes any text");
            }
        }
        for unit in UnitIx::first(self.snapshot.units()) {
            for scope in [Scope::Unit, Scope::Numa, Scope::Node, Scope::Zone] {
                let (name, place) = (string(self.snapshot.unit_id(unit)), self.snapshot.place(scope, unit));
                writeln!(facts, "place({scope},{name},{}).", place.raw()).expect("a string takes any text");
            }
        }
    }

    /// The first violation of a conclusion from facts, or difference from what was derived, prefixed with the policy's name.
    pub fn broken(&self, verdict: &Verdict) -> Option<String> {
        if let Some((statement, what)) = verdict.broken.first() {
            return Some(format!(
                "policy {} line {}: {what} is broken",
                self.name,
                self.program.line(*statement)
            ));
        }
        let problem = not_derived(self.snapshot, &verdict.concluded)?;
        Some(format!("policy {}: {problem}", self.name))
    }

    /// Violated constraints as sentences, prefixed with the policy's name, without grandfathered violations.
    pub fn violations(&self, verdict: &Verdict, assignment: &Assignment) -> Vec<String> {
        let says = |broken: &Instance| {
            format!("policy {} {}", self.name, says(&self.program, self.snapshot, broken))
        };
        let broken = verdict.violated.iter().map(says);
        let Some(rules) = self.snapshot.rules().filter(|rules| !rules.excusable().is_empty()) else {
            return broken.collect();
        };
        let blamed: BTreeSet<String> = rules.violations(assignment).into_iter().collect();
        let is_held = |says: &String| !rules.excusable().contains(says) || blamed.contains(says);
        broken.filter(is_held).collect()
    }

    /// The sum of a verdict's penalties.
    pub fn penalty(verdict: &Verdict) -> i64 {
        let weight = |weight: &Argument| match weight {
            Argument::Number(weight) => i64::from(*weight),
            _ => 0,
        };
        verdict.penalties.iter().map(weight).sum()
    }

    /// At most `most` facts.
    fn facts(&self, most: u64) -> Result<Facts<'_>, JudgeError> {
        Facts::new(self.snapshot, &self.program, most).map_err(|problem| self.wrong(&format!(": {problem}")))
    }

    fn wrong(&self, problem: &str) -> JudgeError {
        JudgeError::Policy(format!("policy {}{problem}", self.name))
    }

    fn ground_over(
        &self,
        domains: &Domains,
        budget: GroundBudget,
    ) -> Result<(Derived, GroundSize), JudgeError> {
        on_known_stack(|| self.ground_here(domains, budget))
    }

    fn ground_here(
        &self,
        domains: &Domains,
        budget: GroundBudget,
    ) -> Result<(Derived, GroundSize), JudgeError> {
        let (snapshot, program) = (self.snapshot, &self.program);
        // A fact is stored twice: as it was read, and as a tuple.
        let facts = self.facts(budget.kept / 2)?;
        let of_facts = 2 * facts.all.len() as u64;
        let left = GroundBudget { kept: budget.kept - of_facts, ..budget };
        let grounding = ground(program, &facts.all, snapshot, domains, left).map_err(|stop| {
            let (statement, problem) = match stop {
                GroundingStop::Fault(statement, problem) => (statement, problem),
                GroundingStop::Budget(statement, what) => (
                    statement,
                    format!(
                        "written out for {} actors and {} units it {what}; let it speak of fewer things at once, or give \
                         the policy a larger budget",
                        snapshot.actors(),
                        snapshot.units()
                    ),
                ),
            };
            self.wrong(&format!(" line {}: {problem}", program.line(statement)))
        })?;
        let size = GroundSize {
            conclusions: grounding.said.len(),
            rules: grounding.rules.len(),
            constraints: grounding.violated.len(),
            penalties: grounding.penalties.len(),
            steps: grounding.steps,
            kept: of_facts + grounding.kept,
        };
        let derived = derived(program, self.name, snapshot, grounding).map_err(JudgeError::Policy)?;
        Ok((derived, size))
    }
}
