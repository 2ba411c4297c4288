//! The human-readable plan: assignments, moves with reasons, unplaced actors, objective, optimality.

use std::time::Duration;

use placement::ix::ActorIx;
use placement::{Cost, Objectives, Plan, ReasonScope, Snapshot, StoppedBy, Unplaced};

use crate::explanation::ExplainedPlan;
use crate::style::{Style, Tone};
use crate::table::Table;
use crate::text::{grouped, joined, provenance, section};

/// The first line of a plan.
#[derive(Debug)]
pub struct Title<'a> {
    /// The application, or the name of the snapshot.
    pub subject: &'a str,
    /// The policy, if known.
    pub policy: Option<&'a str>,
    /// The duration of the search, if it had a time limit.
    pub took: Option<Duration>,
}

/// Renders a plan.
pub fn render(
    snapshot: &Snapshot,
    plan: &Plan,
    title: &Title,
    explained: Option<&ExplainedPlan>,
    notes: &[String],
    style: Style,
) -> String {
    let page = PlanPage { snapshot, plan, style };
    let mut sections = vec![page.title(title), page.assignments(), page.moves()];
    sections.extend(explained.into_iter().flat_map(|explained| explained.render(style)));
    sections.extend([
        unplaced_section(snapshot, &plan.unplaced, style),
        page.excused(),
        section("Notes", Tone::Change, notes, style),
        page.verdict(),
    ]);
    joined(sections)
}

/// The unplaced actors with reasons.
pub fn unplaced_section(snapshot: &Snapshot, unplaced: &[Unplaced], style: Style) -> String {
    let line = |left: &Unplaced| {
        let scope = match left.holds {
            Some(ReasonScope::WhereOthersAre) => " (with the other actors in place)",
            _ => "",
        };
        format!("{}: {}{scope}", snapshot.short_name(left.actor), left.reasons.join("; "))
    };
    section("Unplaced", Tone::Bad, &unplaced.iter().map(line).collect::<Vec<_>>(), style)
}

struct PlanPage<'a> {
    snapshot: &'a Snapshot,
    plan: &'a Plan,
    style: Style,
}

impl PlanPage<'_> {
    fn title(&self, title: &Title) -> String {
        let mut words = vec![format!("strategy {}", self.plan.strategy)];
        words.extend(title.policy.map(|policy| format!("policy {policy}")));
        words.push(format!("seed {}", self.plan.seed));
        words.extend(title.took.map(|took| format!("{:.2} s", took.as_secs_f64())));
        let subject = self.style.paint(Tone::Heading, title.subject);
        format!("{subject}  {}\n", self.style.paint(Tone::Faint, &words.join(" · ")))
    }

    fn assignments(&self) -> String {
        let mut table = Table::new(&["ACTOR", "UNIT", "NODE", "KIND", "POOL", "CHANGE"]);
        for actor in ActorIx::first(self.snapshot.actors()).filter(|actor| !self.snapshot.is_fixed(*actor)) {
            let name = (self.snapshot.short_name(actor).to_owned(), Tone::Plain);
            let Some(unit) = self.plan.assignment[actor] else {
                let change = match self.snapshot.current(actor) {
                    Some(from) => format!("unplaced, leaves {}", self.snapshot.unit_id(from)),
                    None => "unplaced".to_owned(),
                };
                let empty = || (String::new(), Tone::Plain);
                table.row([
                    name,
                    ("-".to_owned(), Tone::Bad),
                    empty(),
                    empty(),
                    empty(),
                    (change, Tone::Bad),
                ]);
                continue;
            };
            let given = &self.snapshot.file().units[unit.at()];
            let change = match self.snapshot.current(actor) {
                None => ("starts".to_owned(), Tone::Good),
                Some(from) if from == unit => ("stays".to_owned(), Tone::Faint),
                Some(from) => (format!("moves from {}", self.snapshot.unit_id(from)), Tone::Change),
            };
            let plain = |text: &str| (text.to_owned(), Tone::Plain);
            let pool = given.pool.as_deref().unwrap_or_default();
            table.row([name, plain(&given.id), plain(&given.node), plain(&given.kind), plain(pool), change]);
        }
        table.render(self.style)
    }

    fn moves(&self) -> String {
        let line =
            |step: &placement::Move| format!("{}: {}", self.snapshot.short_name(step.actor), step.reason);
        let lines: Vec<String> = self.plan.moves.iter().map(line).collect();
        section("Moves", Tone::Change, &lines, self.style)
    }

    /// Actors with tolerated violations that existed before.
    fn excused(&self) -> String {
        let line = |one: &placement::GrandfatheredActor| {
            format!("{}: {}", self.snapshot.short_name(one.actor), one.reasons.join("; "))
        };
        let lines: Vec<String> = self.plan.excused.iter().map(line).collect();
        section("Tolerated violations", Tone::Change, &lines, self.style)
    }

    fn verdict(&self) -> String {
        let fixed =
            ActorIx::first(self.snapshot.actors()).filter(|actor| self.snapshot.is_fixed(*actor)).count();
        let wanted = self.snapshot.actors() - fixed;
        let placed = wanted - self.plan.unplaced.len();
        let tone = if placed == wanted { Tone::Good } else { Tone::Bad };
        let others = match fixed {
            0 => String::new(),
            _ => format!(", {fixed} of other applications"),
        };
        let count = format!("{placed}/{wanted} actors placed{others}");
        let cost = objective(self.snapshot, &self.plan.cost);
        let plan = self.plan;
        let (count, quality) = (self.style.paint(tone, &count), quality(self.snapshot, plan));
        let (found, proven) = (plan.found_by.into(), plan.proven_by.map(Into::into));
        let words = provenance(Some(found), proven, Some(plan.judged.into()));
        let left = &self.snapshot.file().left_to_scheduler;
        let left = if left.is_empty() {
            String::new()
        } else {
            format!("Left to the scheduler: {}.\n", left.join("; "))
        };
        format!("{count} · {cost}\n{quality} ({words})\n{left}")
    }
}

/// The levels, highest priority first: `overload 0 · communication 59,040 · annoyance 21`.
///
/// Zero terms of a sum are omitted.
pub fn objective(snapshot: &Snapshot, cost: &Cost) -> String {
    let level = |level: &Vec<placement::Criterion>| {
        let words =
            |criterion: &placement::Criterion| format!("{criterion} {}", grouped(cost.of(*criterion)));
        let terms: Vec<String> = level.iter().filter(|c| cost.of(**c) != 0).map(words).collect();
        if terms.is_empty() { level.first().map(words).unwrap_or_default() } else { terms.join(" + ") }
    };
    snapshot.objectives().levels().iter().map(level).collect::<Vec<_>>().join(" · ")
}

/// What is known about the optimality of the plan.
fn quality(snapshot: &Snapshot, plan: &Plan) -> String {
    if plan.optimal {
        let is_whole = snapshot.file().left_to_scheduler.is_empty();
        let limits = if is_whole { "" } else { " under the rules that Cairn models" };
        return format!("Proven optimal{limits}.");
    }
    let why = match plan.stopped_by {
        StoppedBy::Deadline => "the search reached its time limit",
        StoppedBy::Effort => "the search ended without a proof",
        StoppedBy::Proof => "the proof covers only a part",
    };
    for level in snapshot.objectives().named() {
        let key = Objectives::key(level);
        let value: i64 = level.iter().map(|criterion| plan.cost.of(*criterion)).sum();
        match plan.bound.get(&key) {
            Some(bound) if *bound == value => {}
            Some(bound) => {
                return format!(
                    "Not proven optimal, {why}: {key} is {}, its lower bound is {}.",
                    grouped(value),
                    grouped(*bound)
                );
            }
            None => return format!("Not proven optimal, {why}: {key} has no lower bound."),
        }
    }
    format!("Not proven optimal, {why}.")
}
