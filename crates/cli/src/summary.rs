//! A plan for people: a table of places, what moves and why, what it costs, how good that is.

use std::time::Duration;

use placement::ix::ActorIx;
use placement::{Cost, Holds, Objectives, Plan, Snapshot, StoppedBy, Unplaced};

use crate::explained::Explained;
use crate::style::{Style, Tone};
use crate::table::Table;
use crate::text::{by_whom, grouped, joined, section};

/// What a plan is about, for its first line.
#[derive(Debug)]
pub struct Title<'a> {
    /// The application, or the name of the snapshot.
    pub subject: &'a str,
    /// The policy, where it is known.
    pub policy: Option<&'a str>,
    /// How long the search took, where a clock had a say.
    pub took: Option<Duration>,
}

/// All of it; `explained` only where it was asked for.
pub fn render(
    snapshot: &Snapshot,
    plan: &Plan,
    title: &Title,
    explained: Option<&Explained>,
    notes: &[String],
    style: Style,
) -> String {
    let page = Page { snapshot, plan, style };
    let mut sections = vec![page.title(title), page.places(), page.moves()];
    sections.extend(explained.into_iter().flat_map(|explained| explained.render(style)));
    sections.extend([
        without_a_place(snapshot, &plan.unplaced, style),
        page.excused(),
        section("Notes", Tone::Change, notes, style),
        page.verdict(),
    ]);
    joined(sections)
}

/// Who has no place, and why.
pub fn without_a_place(snapshot: &Snapshot, unplaced: &[Unplaced], style: Style) -> String {
    let line = |left: &Unplaced| {
        let reach = match left.holds {
            Some(Holds::WhereOthersAre) => " (where the others are)",
            _ => "",
        };
        format!("{}: {}{reach}", snapshot.short_name(left.actor), left.reasons.join("; "))
    };
    section("Without a place", Tone::Bad, &unplaced.iter().map(line).collect::<Vec<_>>(), style)
}

struct Page<'a> {
    snapshot: &'a Snapshot,
    plan: &'a Plan,
    style: Style,
}

impl Page<'_> {
    fn title(&self, title: &Title) -> String {
        let mut words = vec![format!("strategy {}", self.plan.strategy)];
        words.extend(title.policy.map(|policy| format!("policy {policy}")));
        words.push(format!("seed {}", self.plan.seed));
        words.extend(title.took.map(|took| format!("{:.2} s", took.as_secs_f64())));
        let subject = self.style.paint(Tone::Heading, title.subject);
        format!("{subject}  {}\n", self.style.paint(Tone::Faint, &words.join(" · ")))
    }

    fn places(&self) -> String {
        let mut table = Table::new(&["ACTOR", "UNIT", "NODE", "KIND", "POOL", "CHANGE"]);
        for actor in ActorIx::first(self.snapshot.actors()).filter(|actor| !self.snapshot.is_fixed(*actor)) {
            let name = (self.snapshot.short_name(actor).to_owned(), Tone::Plain);
            let Some(unit) = self.plan.assignment[actor] else {
                let stops = match self.snapshot.current(actor) {
                    Some(from) => format!("no place, leaves {}", self.snapshot.unit_id(from)),
                    None => "no place".to_owned(),
                };
                let empty = || (String::new(), Tone::Plain);
                table.row([name, ("-".to_owned(), Tone::Bad), empty(), empty(), empty(), (stops, Tone::Bad)]);
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
        section("Why they move", Tone::Change, &lines, self.style)
    }

    /// Who is in a breach that was there before.
    fn excused(&self) -> String {
        let line = |one: &placement::Excused| {
            format!("{}: {}", self.snapshot.short_name(one.actor), one.reasons.join("; "))
        };
        let lines: Vec<String> = self.plan.excused.iter().map(line).collect();
        section("Excused: a rule is broken already", Tone::Change, &lines, self.style)
    }

    fn verdict(&self) -> String {
        let fixed =
            ActorIx::first(self.snapshot.actors()).filter(|actor| self.snapshot.is_fixed(*actor)).count();
        let wanted = self.snapshot.actors() - fixed;
        let placed = wanted - self.plan.unplaced.len();
        let tone = if placed == wanted { Tone::Good } else { Tone::Bad };
        let beside = match fixed {
            0 => String::new(),
            _ => format!(", beside {fixed} of other applications"),
        };
        let count = format!("{placed}/{wanted} actors placed{beside}");
        let cost = objective(self.snapshot, &self.plan.cost);
        let plan = self.plan;
        let (count, quality) = (self.style.paint(tone, &count), quality(self.snapshot, plan));
        let (found, proven) = (plan.found_by.into(), plan.proven_by.map(Into::into));
        let words = by_whom(Some(found), proven, Some(plan.judged.into()));
        format!("{count} · {cost}\n{quality} ({words})\n")
    }
}

/// The levels in words, most important first: `overload 0 · communication 59,040 · annoyance 21`.
///
/// Of criteria that are added, those that are 0 are left out beside others.
pub fn objective(snapshot: &Snapshot, cost: &Cost) -> String {
    let level = |level: &Vec<placement::Criterion>| {
        let words =
            |criterion: &placement::Criterion| format!("{criterion} {}", grouped(cost.of(*criterion)));
        let told: Vec<String> = level.iter().filter(|c| cost.of(**c) != 0).map(words).collect();
        if told.is_empty() { level.first().map(words).unwrap_or_default() } else { told.join(" + ") }
    };
    snapshot.objectives().levels().iter().map(level).collect::<Vec<_>>().join(" · ")
}

/// How good the plan is known to be.
fn quality(snapshot: &Snapshot, plan: &Plan) -> String {
    if plan.optimal {
        return "Proven optimal: nothing feasible is better.".to_owned();
    }
    let why = match plan.stopped_by {
        StoppedBy::Deadline => "the budget ended the search",
        StoppedBy::Effort => "the search ended without a proof",
        StoppedBy::Proof => "the proof does not cover it",
    };
    for level in snapshot.objectives().named() {
        let key = Objectives::key(level);
        let value: i64 = level.iter().map(|criterion| plan.cost.of(*criterion)).sum();
        match plan.bound.get(&key) {
            Some(bound) if *bound == value => {}
            Some(bound) => {
                return format!(
                    "Not proven optimal, {why}: {key} is {} and cannot be below {}.",
                    grouped(value),
                    grouped(*bound)
                );
            }
            None => return format!("Not proven optimal, {why}; no bound is known for {key}."),
        }
    }
    format!("Not proven optimal, {why}.")
}
