//! Parameters and program of a policy, which an administrator writes in a `ConfigMap`.

use std::collections::BTreeSet;

use counters::AnnoyanceScale;
use crds::labels;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use placement::file::{ExchangeCost, Levels, Policy as PolicyName, SnapshotFile, VERSION};
use placement::{Snapshot, Strict};
use serde::Deserialize;

use crate::annoyance::AnnoyanceParameters;
use crate::exchange_cost::{self, ExchangeParameters};
use crate::link_costs::LinkCosts;
use crate::numbers::{Exact, duration, floor, quantity};
use crate::rebalance::{Rebalance, RebalanceParameters, percent};

/// Key of the parameters.
pub const PARAMETERS: &str = "policy.yaml";
/// Key of the program.
pub const PROGRAM: &str = "program.lp";
/// The smallest window: a second. Prometheus is queried once in each, and actors are observed twice.
const SHORTEST_WINDOW: i128 = 1_000_000;
/// The largest window: a day.
const LONGEST_WINDOW: i128 = 24 * 3600 * 1_000_000;

/// The maximum length of the parameters in bytes: a YAML parser takes time quadratic in the nesting of brackets.
const MAX_PARAMETERS: usize = 16 << 10;
/// The highest fixed cost of a move: that of 20,000 actors is far below what a snapshot can add up.
const MAX_MOVE_COST: u64 = 1_000_000_000;
/// The longest budget of one plan: a search occupies a solver slot that others wait for.
const LONGEST_WALL: i128 = 3600 * 1_000_000;

/// Objectives, and the search budget.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Name of the `ConfigMap`.
    pub name: String,
    /// Time window of work and messages, in microseconds.
    pub window: Exact,
    /// Search strategy.
    pub strategy: String,
    /// Wall-clock limit of one plan, in milliseconds.
    pub wall_milliseconds: u64,
    /// Memory limit of a solver, in MiB.
    pub memory_mib: u64,
    /// Objective levels, the most important first.
    pub objectives: Levels,
    /// Cost of a message between two units.
    pub exchange_cost: ExchangeCost,
    /// Cost of a message between units of one node by the link of their devices.
    pub link_costs: LinkCosts,
    /// Bytes that one message carries.
    pub message_quantum: Exact,
    /// How measured lost time becomes annoyance.
    pub annoyance: AnnoyanceScale,
    /// Fixed cost of a move.
    pub move_fixed: u64,
    /// Bytes of state that add one point to the cost of a move.
    pub bytes_per_point: Exact,
    /// Minimum gain of a plan with moves, in percent of the incumbent's cost.
    pub min_gain_percent: u64,
    /// What is done about measured load.
    pub rebalance: Rebalance,
    /// Whether a plan that clingo could not judge may be carried out.
    pub judge: JudgeRequirement,
    /// Text of the program, not checked here.
    pub program: Option<String>,
    /// Programs of enforced policies, by the name of their `ConfigMap`.
    pub enforced: Vec<(String, String)>,
}

/// Whether a plan needs a verdict of clingo.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum JudgeRequirement {
    /// A plan that clingo did not judge is not carried out.
    Required,
    /// It is carried out, as it has passed the checker.
    #[default]
    BestEffort,
}

/// Why a policy is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("policy {name}: {place}: {problem}")]
pub struct PolicyError {
    /// Name of the `ConfigMap`.
    pub name: String,
    /// Key, and line or field.
    pub place: String,
    /// The problem and its solution.
    pub problem: String,
}

impl Policy {
    /// The default policy: the values of the APO paper.
    pub fn builtin(name: &str) -> Self {
        Self::parse(name, "{}").expect("every parameter has a feasible default")
    }

    /// Reads a policy from a `ConfigMap`.
    ///
    /// # Errors
    /// Any unknown or invalid parameter, with its line or field.
    pub fn read(config_map: &ConfigMap) -> Result<Self, PolicyError> {
        let name = config_map.name_any();
        let empty = std::collections::BTreeMap::new();
        let data = config_map.data.as_ref().unwrap_or(&empty);
        let error = |place: &str, problem: &str| PolicyError {
            name: name.clone(),
            place: place.to_owned(),
            problem: problem.to_owned(),
        };
        if let Some(key) = data.keys().find(|key| *key != PARAMETERS && *key != PROGRAM) {
            return Err(error(key, "is unknown; a policy has the keys policy.yaml and program.lp"));
        }
        let text = match data.get(PARAMETERS) {
            Some(text) => text.as_str(),
            // Every parameter has a default.
            None if data.contains_key(PROGRAM) => "",
            None => return Err(error(PARAMETERS, "is missing; add it with the parameters")),
        };
        Ok(Self { program: data.get(PROGRAM).cloned(), ..Self::parse(&name, text)? })
    }

    /// Parses parameters from YAML.
    ///
    /// # Errors
    /// Any unknown or invalid parameter, with its line or field.
    pub fn parse(name: &str, text: &str) -> Result<Self, PolicyError> {
        let error = |place: String, problem: String| PolicyError { name: name.to_owned(), place, problem };
        if text.len() > MAX_PARAMETERS {
            let problem = format!("has {} bytes; parameters have at most {MAX_PARAMETERS}", text.len());
            return Err(error(PARAMETERS.to_owned(), problem));
        }
        let reader = serde_yaml::Deserializer::from_str(text);
        let given: Option<Parameters> = serde_path_to_error::deserialize(Strict(reader)).map_err(|e| {
            let line = e
                .inner()
                .location()
                .map_or(String::new(), |at| format!(" line {} column {}", at.line(), at.column()));
            let path = e.path().to_string();
            let problem = without_location(e.inner());
            // The message may repeat the field that the path names.
            let named = problem.split_once(": ").filter(|(field, _)| path.starts_with(*field));
            let problem = named.map_or(problem.as_str(), |(_, rest)| rest).to_owned();
            let path = if path == "." { String::new() } else { format!(", {path}") };
            error(format!("{PARAMETERS}{line}{path}"), problem)
        })?;
        let given = given.unwrap_or_default();
        let field = |field: &str, problem: String| error(format!("{PARAMETERS}, {field}"), problem);
        let window = positive("window", given.window.as_deref().unwrap_or("30s"), duration)
            .map_err(|e| field("window", e))?;
        if window < Exact::from(SHORTEST_WINDOW) {
            return Err(field("window", "is shorter than a second; choose a longer one".to_owned()));
        }
        if window > Exact::from(LONGEST_WINDOW) {
            return Err(field("window", "is longer than a day; choose a shorter one".to_owned()));
        }
        let budget = given.budget.unwrap_or_default();
        let wall = positive("wall", budget.wall.as_deref().unwrap_or("2s"), duration)
            .map_err(|e| field("budget.wall", e))?;
        if wall > Exact::from(LONGEST_WALL) {
            return Err(field("budget.wall", "is longer than an hour; choose a shorter one".to_owned()));
        }
        let memory = budget.memory.as_ref().map_or("1Gi".to_owned(), ToString::to_string);
        let memory = positive("memory", &memory, quantity).map_err(|e| field("budget.memory", e))?;
        let quantum = given.message_quantum.as_ref().map_or("64Ki".to_owned(), ToString::to_string);
        let move_cost = given.move_cost.unwrap_or_default();
        let bytes = move_cost.bytes_per_point.as_ref().map_or("1Mi".to_owned(), ToString::to_string);
        let move_fixed = move_cost.fixed.unwrap_or(500);
        if move_fixed > MAX_MOVE_COST {
            let problem = format!("{move_fixed}; must be at most {MAX_MOVE_COST}");
            return Err(field("moveCost.fixed", problem));
        }
        let least_gain_percent = given.least_gain_percent.unwrap_or(0);
        if least_gain_percent > 100 {
            let problem = format!("{least_gain_percent}; must be at most 100");
            return Err(field("leastGainPercent", problem));
        }
        let rebalance = given.rebalance.unwrap_or_default().resolve().map_err(|(at, e)| field(at, e))?;
        let objectives = given.objectives.unwrap_or_default();
        objectives.check().map_err(|problem| field("objectives", problem))?;
        let annoyance = given.annoyance.unwrap_or_default().resolve().map_err(|(at, e)| field(at, e))?;
        let (exchange_cost, link_costs) = given.exchange_cost.unwrap_or_default().resolve();
        let costs = exchange_cost.clone();
        let costs = SnapshotFile { version: VERSION, exchange_cost: costs, ..SnapshotFile::default() };
        Snapshot::new(costs).map_err(|e| field(&e.path, e.problem))?;
        exchange_cost::check(&exchange_cost).map_err(|problem| field("exchangeCost", problem))?;
        Ok(Self {
            name: name.to_owned(),
            annoyance,
            window,
            strategy: given.strategy.unwrap_or_else(|| "asp".to_owned()),
            wall_milliseconds: floor(wall / Exact::from(1000)).max(1),
            memory_mib: floor(memory / Exact::from(1 << 20)).max(1),
            objectives,
            link_costs,
            exchange_cost,
            message_quantum: positive("messageQuantum", &quantum, quantity)
                .map_err(|e| field("messageQuantum", e))?,
            move_fixed,
            bytes_per_point: positive("bytesPerPoint", &bytes, quantity)
                .map_err(|e| field("moveCost.bytesPerPoint", e))?,
            min_gain_percent: least_gain_percent,
            rebalance,
            judge: given.judge.unwrap_or_default(),
            program: None,
            enforced: Vec::new(),
        })
    }

    /// Whether the policy's program applies to every application.
    pub fn is_enforced(config_map: &ConfigMap) -> bool {
        config_map.labels().get(labels::POLICY).map(String::as_str) == Some(labels::ENFORCED)
    }

    /// Namespaces whose applications may use a policy; `None` means all.
    pub fn namespaces(config_map: &ConfigMap) -> Option<BTreeSet<String>> {
        let list = config_map.annotations().get(labels::NAMESPACES)?;
        Some(list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect())
    }

    /// Adds the programs of enforced policies, except its own; their parameters are ignored.
    #[must_use]
    pub fn with_enforced<'a>(mut self, enforced: impl IntoIterator<Item = &'a Self>) -> Self {
        let programs = enforced.into_iter().filter(|policy| policy.name != self.name);
        self.enforced =
            programs.filter_map(|policy| Some((policy.name.clone(), policy.program.clone()?))).collect();
        self
    }

    /// All rules: the own program first, so that its line numbers stay, then the enforced ones.
    pub fn rules(&self) -> Option<String> {
        let own = self.program.iter().cloned();
        let mark = PolicyName::FURTHER_PROGRAM;
        let enforced = self.enforced.iter().map(|(name, program)| format!("{mark}{name}\n{program}"));
        let all: Vec<String> = own.chain(enforced).collect();
        (!all.is_empty()).then(|| all.join("\n"))
    }

    /// The enforced policies in combined rules, as [`Self::rules`] marks them, with default parameters.
    pub fn enforced_in(rules: &str) -> Vec<Self> {
        let (text, mark) = (format!("\n{rules}"), format!("\n{}", PolicyName::FURTHER_PROGRAM));
        let parts = text.split(&mark).skip(1);
        let read = |part: &str| {
            let (name, program) = part.split_once('\n').unwrap_or((part, ""));
            Self { program: Some(program.to_owned()), ..Self::builtin(name) }
        };
        parts.map(read).collect()
    }

    /// Attributes a problem in the combined rules to one program and its own line number; without a line it is this policy's.
    ///
    /// A rule that fails in a snapshot is `policy NAME line 7: …`; what is wrong with the text is
    /// `policy NAME: line 7 column 3: …; line 9 column 1: …`.
    pub fn locate_problem(&self, problem: &str) -> (&str, String) {
        let own = (self.name.as_str(), problem.to_owned());
        let faults: Vec<&str> = match problem.strip_prefix(&self.before_fault()) {
            Some(faults) => faults.split("; line ").collect(),
            None => problem.strip_prefix(&format!("policy {} line ", self.name)).into_iter().collect(),
        };
        let located = faults.iter().map(|fault| match self.locate_line(fault) {
            Some((name, line, rest)) => (name, format!("policy {name} line {line}{rest}")),
            None => (self.name.as_str(), format!("line {fault}")),
        });
        let (names, messages): (Vec<&str>, Vec<String>) = located.unzip();
        match (names.first(), faults.first().and_then(|first| self.locate_line(first))) {
            (Some(name), Some(_)) => (name, messages.join("; ")),
            _ => own,
        }
    }

    /// The policies whose newest version can be the cause of a problem in the combined rules: the one that it is attributed
    /// to, and also the others if their texts, each of which is valid, conflict.
    pub fn suspects(&self, problem: &str) -> Vec<&str> {
        let (blamed, _) = self.locate_problem(problem);
        let all = [self.name.as_str()].into_iter().chain(self.enforced.iter().map(|(name, _)| name.as_str()));
        let others = all.filter(|name| *name != blamed && problem.starts_with(&self.before_fault()));
        [blamed].into_iter().chain(others).collect()
    }

    /// What precedes the line of a fault of the text.
    fn before_fault(&self) -> String {
        format!("policy {}: line ", self.name)
    }

    /// The program of a line of the combined rules, the line in that program, and the rest of the text after the number.
    fn locate_line<'a>(&self, text: &'a str) -> Option<(&str, usize, &'a str)> {
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (line, rest) = text.split_at(digits);
        let line = line.parse::<usize>().ok()?;
        let lines = |program: &str| program.matches('\n').count() + 1;
        let mut before = self.program.as_deref().map_or(0, lines);
        if line <= before {
            return Some((&self.name, line, rest));
        }
        for (name, program) in &self.enforced {
            // the line with its name comes first
            before += 1;
            let end = before + lines(program);
            if line > before && line <= end {
                return Some((name, line - before, rest));
            }
            before = end;
        }
        None
    }

    /// Replaces policy names and line numbers of the combined rules in a text by those of the single programs.
    pub fn attribute_lines(&self, text: &str) -> String {
        let is_named_here = format!("policy {} line ", self.name);
        let mut parts = text.split(&is_named_here);
        let mut result = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            result += &self.locate_problem(&format!("{is_named_here}{part}")).1;
        }
        result
    }

    /// Whether a plan that clingo did not judge is refused.
    pub fn requires_judge(&self) -> bool {
        self.judge == JudgeRequirement::Required
    }

    /// Minimum gain of a plan with moves, relative to the incumbent's cost.
    pub fn min_gain(&self) -> f64 {
        percent(self.min_gain_percent)
    }
}

/// Parses a number that must be positive.
fn positive(
    what: &str,
    text: &str,
    parse: impl Fn(&str) -> Result<Exact, crate::NumberError>,
) -> Result<Exact, String> {
    let exact = parse(text).map_err(|e| e.to_string())?;
    if exact > Exact::from(0) {
        return Ok(exact);
    }
    Err(format!("`{text}` is not above zero, as a {what} must be"))
}

/// The message without its location.
fn without_location(error: &serde_yaml::Error) -> String {
    let text = error.to_string();
    let end = text.find(" at line ").unwrap_or(text.len());
    text[..end].to_owned()
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct Parameters {
    window: Option<String>,
    strategy: Option<String>,
    budget: Option<BudgetParameters>,
    objectives: Option<Levels>,
    exchange_cost: Option<ExchangeParameters>,
    message_quantum: Option<TextOrNumber>,
    annoyance: Option<AnnoyanceParameters>,
    move_cost: Option<MoveParameters>,
    least_gain_percent: Option<u64>,
    rebalance: Option<RebalanceParameters>,
    judge: Option<JudgeRequirement>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct BudgetParameters {
    wall: Option<String>,
    memory: Option<TextOrNumber>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct MoveParameters {
    fixed: Option<u64>,
    bytes_per_point: Option<TextOrNumber>,
}

/// A quantity; YAML reads one without suffix as a number.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a quantity, such as 64Ki")]
enum TextOrNumber {
    Text(String),
    Number(u64),
    Fraction(f64),
}

impl std::fmt::Display for TextOrNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Number(number) => write!(f, "{number}"),
            Self::Fraction(number) => write!(f, "{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_combined_rules_map_to_one_program() {
        let mut policy = Policy::builtin("fast");
        policy.program = Some("p(1).\nq(1).\n".to_owned());
        policy.enforced =
            vec![("one".to_owned(), "r(1).".to_owned()), ("two".to_owned(), "s(1).\nt(1).".to_owned())];
        let rules = policy.rules().unwrap();
        let line_of = |text: &str| rules.lines().position(|line| line == text).unwrap() + 1;
        for (text, name, line) in [
            ("p(1).", "fast", 1),
            ("q(1).", "fast", 2),
            ("r(1).", "one", 1),
            ("s(1).", "two", 1),
            ("t(1).", "two", 2),
        ] {
            let (blamed, result) =
                policy.locate_problem(&format!("policy fast line {}: too much", line_of(text)));
            assert_eq!((blamed, result), (name, format!("policy {name} line {line}: too much")), "{text}");
            let attributed = policy.attribute_lines(&format!(
                "2 units: policy fast line {}, A = x; policy fast line 1",
                line_of(text)
            ));
            assert_eq!(
                attributed,
                format!("2 units: policy {name} line {line}, A = x; policy fast line 1"),
                "{text}"
            );
        }
        let read: Vec<(String, String)> =
            Policy::enforced_in(&rules).into_iter().map(|it| (it.name, it.program.unwrap())).collect();
        assert_eq!(read, policy.enforced);
        policy.program = None;
        assert_eq!(Policy::enforced_in(&policy.rules().unwrap()).len(), 2);
        assert_eq!(Policy::enforced_in("p(1). % enforced: no\n"), []);
        let others = [
            "policy fast: no line",
            "policy fast line x",
            "policy fast line 99: foreign",
            "policy fast: line 99 column 1: foreign",
        ];
        for other in others {
            assert_eq!(policy.locate_problem(other), ("fast", other.to_owned()));
        }
    }

    /// Texts that are valid one by one and not together.
    #[test]
    fn faults_of_combined_rules_map_to_one_program_and_concern_all() {
        let mut policy = Policy::builtin("fast");
        policy.program = Some("p(1).\nq(1).".to_owned());
        policy.enforced = vec![("rules".to_owned(), "r(1).\ns(1).".to_owned())];
        let fault = "policy fast: line 5 column 3: a cycle; break it; line 2 column 1: another; line 4 column 7: this";
        let expected = "policy rules line 2 column 3: a cycle; break it; policy fast line 2 column 1: another; policy rules line \
                        1 column 7: this";
        assert_eq!(policy.locate_problem(fault), ("rules", expected.to_owned()));
        assert_eq!(policy.suspects(fault), ["rules", "fast"]);
        assert_eq!(policy.suspects("policy fast: line 2 column 1: a cycle"), ["fast", "rules"]);
        // A rule that is too expensive in a snapshot is its own policy's.
        assert_eq!(policy.suspects("policy fast line 5: it takes too many steps"), ["rules"]);
        assert_eq!(policy.suspects("policy fast line 2: it takes too many steps"), ["fast"]);
    }
}
