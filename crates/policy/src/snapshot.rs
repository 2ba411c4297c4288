//! The policy that a snapshot carries: what it derives from the snapshot, and what is asked about an assignment.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use placement::file::Scope;
use placement::ix::{ActorIx, UnitIx};
use placement::{Assignment, Derived, JudgeError, Rules, Snapshot};

use crate::choices::{Choices, choices, open_choices};
use crate::derive::{derived, not_derived, says};
use crate::facts::Facts;
use crate::ground::ground;
use crate::program::Program;
use crate::sink::{GroundBudget, Stop};
use crate::symbols::{actor, string};
use crate::verdict::{Argument, Instance, Verdict};

/// What a policy takes once it is written out for a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Conclusions from facts alone: `forbid`, `pin`, and their like.
    pub conclusions: usize,
    /// Ground rules that are left, about where actors are.
    pub rules: usize,
    /// Ground instances of constraints.
    pub constraints: usize,
    /// Different tuples of weak constraints.
    pub penalties: usize,
    /// Tuples that were looked at.
    pub steps: u64,
    /// Tuples and literals that were kept.
    pub kept: u64,
}

/// What clingo is asked about an assignment: the program, the facts, and the symbols that are answered by position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The policy's statements, one on each line, and what goes with them.
    pub program: String,
    /// The snapshot, and where every actor is.
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
    /// Reads the program that the snapshot carries; none where it has no policy, or one of parameters alone.
    ///
    /// # Errors
    /// Everything that is wrong with the text, by line and column.
    pub fn of(snapshot: &'a Snapshot) -> Result<Option<Self>, JudgeError> {
        let Some(policy) = &snapshot.file().policy else { return Ok(None) };
        let Some(text) = &policy.program else { return Ok(None) };
        match Program::parse(text) {
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

    /// Whether any rule says where actors may be together, or what that costs.
    pub fn depends_on_placement(&self) -> bool {
        self.program.depends_on_placement()
    }

    /// What the policy says of the snapshot, and how large it is once written out.
    ///
    /// # Errors
    /// When the policy is wrong, or takes more than `budget`.
    pub fn derive(&self, budget: GroundBudget) -> Result<(Derived, Size), JudgeError> {
        self.write_out(&choices(self.snapshot.problem()), budget)
    }

    /// The rules about where actors are if limits fell: actors could be on any unit of their kinds, and those of
    /// `anywhere` on any unit.
    ///
    /// # Errors
    /// When the policy is wrong, or takes more than `budget`.
    pub fn rules_everywhere(
        &self,
        anywhere: &[ActorIx],
        budget: GroundBudget,
    ) -> Result<Option<Rules>, JudgeError> {
        Ok(self.write_out(&open_choices(self.snapshot.problem(), anywhere), budget)?.0.rules)
    }

    /// What clingo is asked about an assignment.
    ///
    /// # Errors
    /// A number, or a sum that the policy could form, that 32 bits do not hold.
    pub fn question(&self, assignment: &Assignment) -> Result<Question, JudgeError> {
        let snapshot = self.snapshot;
        let mut facts = self.facts()?.text(assignment);
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

    /// Whether it says of places, from facts alone, where who may not be.
    pub fn limits_places(&self) -> bool {
        self.program.limits_places()
    }

    /// Whether it says anything from facts alone.
    pub fn speaks_of_facts(&self) -> bool {
        self.program.limits_places() || self.program.says_how_much()
    }

    /// Where units are, on every level, and who runs where now.
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

    /// What is broken of what the policy says from facts alone, or is not what was derived of it, in words with the policy's name.
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

    /// Broken constraints in words, with the policy's name; those that are excused in this assignment are left out.
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

    fn facts(&self) -> Result<Facts<'_>, JudgeError> {
        Facts::new(self.snapshot, &self.program).map_err(|problem| self.wrong(&format!(": {problem}")))
    }

    fn wrong(&self, problem: &str) -> JudgeError {
        JudgeError::Policy(format!("policy {}{problem}", self.name))
    }

    fn write_out(&self, choices: &Choices, budget: GroundBudget) -> Result<(Derived, Size), JudgeError> {
        let (snapshot, program) = (self.snapshot, &self.program);
        let facts = self.facts()?;
        let grounding = ground(program, &facts.all, snapshot, choices, budget).map_err(|stop| {
            let (statement, problem) = match stop {
                Stop::Fault(statement, problem) => (statement, problem),
                Stop::Budget(statement, what) => (
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
        let size = Size {
            conclusions: grounding.said.len(),
            rules: grounding.rules.len(),
            constraints: grounding.violated.len(),
            penalties: grounding.penalties.len(),
            steps: grounding.steps,
            kept: grounding.kept,
        };
        let derived = derived(program, self.name, snapshot, grounding).map_err(JudgeError::Policy)?;
        Ok((derived, size))
    }
}
