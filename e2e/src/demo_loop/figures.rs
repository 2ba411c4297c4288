//! What the demo of the loop measured, and how its parts compare.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use super::world::DELAY;
use crate::demo::story::Story;

/// The length of a window of counters.
pub(super) const WINDOW: Duration = Duration::from_secs(10);
/// Windows of a phase.
pub(super) const WINDOWS: u32 = 12;
/// The width of a bar.
const BAR: f64 = 40.0;
/// Windows after the last moved actor became ready that are not compared with the best placement: the one in which it did, and
/// the next one.
const SETTLING: usize = 2;

/// What a part measured.
pub(super) struct Part {
    /// Its name.
    pub name: &'static str,
    /// Answers per second in each window.
    pub throughput: Vec<f64>,
    /// Whether the hot pair was on one node at the end of each window.
    pub local: Vec<bool>,
    /// The moves as they were last printed.
    pub moves: String,
    /// The node of each actor, by its number.
    pub places: BTreeMap<usize, String>,
    /// The hot pair of each phase so far.
    pub pairs: Vec<(usize, usize)>,
    /// How each phase was followed.
    pub phases: BTreeMap<u32, Phase>,
}

/// How moves followed the change at the beginning of a phase, in seconds since it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Phase {
    /// When they were decided.
    pub decided: Option<i64>,
    /// When the last moved actor was ready.
    pub ready: Option<i64>,
}

impl Part {
    pub(super) fn new(name: &'static str) -> Self {
        Self {
            name,
            throughput: Vec::new(),
            local: Vec::new(),
            moves: String::new(),
            places: BTreeMap::new(),
            pairs: Vec::new(),
            phases: BTreeMap::new(),
        }
    }

    /// Whether two actors are on one node.
    pub(super) fn are_on_one_node(&self, (one, other): (usize, usize)) -> bool {
        self.places.get(&one) == self.places.get(&other)
    }

    /// All pairs of actors.
    fn all_pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        let others = |one: usize| self.places.range(one + 1..).map(move |(other, _)| (one, *other));
        self.places.keys().flat_map(move |one| others(*one))
    }

    /// The throughput of a phase after its moves, and the number of its windows; from its beginning if it needs none.
    fn after_moves(&self, phase: u32) -> Option<f64> {
        let first = usize::try_from(phase * WINDOWS).ok()?;
        let last = (first + WINDOWS as usize).min(self.throughput.len());
        let moved = self.phases.get(&phase).and_then(|phase| phase.ready);
        let skipped = match moved {
            Some(ready) => usize::try_from(ready).ok()? / usize::try_from(WINDOW.as_secs()).ok()? + SETTLING,
            None => 0,
        };
        let after = self.throughput.get(first + skipped..last)?;
        (!after.is_empty()).then(|| mean(after))
    }
}

/// Two actors that are on one node.
pub(super) fn pair_on_one_node(part: &Part) -> Option<(usize, usize)> {
    part.all_pairs().find(|pair| part.are_on_one_node(*pair))
}

/// Two actors that are on two nodes: those that were in the fewest hot pairs so far.
pub(super) fn pair_on_two_nodes(part: &Part) -> Option<(usize, usize)> {
    let times = |actor: usize| part.pairs.iter().filter(|pair| pair.0 == actor || pair.1 == actor).count();
    let apart = part.all_pairs().filter(|pair| !part.are_on_one_node(*pair));
    apart.min_by_key(|(one, other)| times(*one) + times(*other))
}

/// The next hot pair without moves. Of five phases the second and the fourth have one that is on one node: with three of six actors
/// on each node, that is the share of all 15 pairs that are (6 of 15).
pub(super) fn pair_without_moves(part: &Part) -> Option<(usize, usize)> {
    let is_local = part.pairs.len() % 5 % 2 == 1;
    if is_local { pair_on_one_node(part) } else { pair_on_two_nodes(part) }
}

fn mean(numbers: &[f64]) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a few windows")]
    let count = numbers.len().max(1) as f64;
    numbers.iter().sum::<f64>() / count
}

/// Prints the parts beside each other; returns the page of results.
pub(super) fn compare(story: &Story, parts: &[Part], commit: &str) -> String {
    let means: Vec<f64> = parts.iter().map(|part| mean(&part.throughput)).collect();
    let most = means.iter().copied().fold(1.0, f64::max);
    story.say("");
    story.step(
        "Answers per second, mean of all windows (Best: the hot pair is on one node from the beginning):",
    );
    for (part, mean) in parts.iter().zip(&means) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most the width")]
        let width = (mean / most * BAR) as usize;
        story.say(format!("{:<4} {:<40} {mean:>6.0}", part.name, "█".repeat(width)));
    }
    page(parts, &means, commit)
}

fn page(parts: &[Part], means: &[f64], commit: &str) -> String {
    let mut page = String::from("# The closed loop on two real nodes\n\n");
    page +=
        "| mode | answers/s | beside `Off` | windows with the hot pair on one node |\n|---|---|---|---|\n";
    let of =
        |name| parts.iter().zip(means).find(|(part, _)| part.name == name).map(|(_, mean)| mean.max(1.0));
    for (part, mean) in parts.iter().zip(means) {
        let local = part.local.iter().filter(|local| **local).count();
        let (name, ratio, windows) = (part.name, mean / of("Off").unwrap_or(1.0), part.local.len());
        let _ = writeln!(page, "| `{name}` | {mean:.0} | {ratio:.2} | {local} of {windows} |");
    }
    page += "\n| phase | decided after | last actor ready after | answers/s from then on | beside `Best` |\n|---|---|---|---|---|\n";
    let on = parts.iter().find(|part| part.name == "On");
    for (number, phase) in on.iter().flat_map(|on| &on.phases) {
        let seconds =
            |time: Option<i64>| time.map_or_else(|| "no move".to_owned(), |time| format!("{time} s"));
        let after = on.and_then(|on| on.after_moves(*number));
        let none = || "none".to_owned();
        let beside = after.zip(of("Best")).map_or_else(none, |(after, best)| format!("{:.2}", after / best));
        let after = after.map_or_else(none, |after| format!("{after:.0}"));
        let _ = writeln!(
            page,
            "| {} | {} | {} | {after} | {beside} |",
            number + 1,
            seconds(phase.decided),
            seconds(phase.ready)
        );
    }
    let _ = writeln!(
        page,
        "\nMade at {commit} by `cairn-e2e demo-loop --results docs/results`: six actors on two kubelets with a core each, {} ms between them each way, windows of {} s, {WINDOWS} windows a phase, one run. `Best` has the hot pair on one node from the beginning, for one phase; all actors are alike. Required are 1.3 of `Off` and 0.85 of `Best`.",
        DELAY.as_secs_f64() * 1000.0,
        WINDOW.as_secs()
    );
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_a_phase_begin_after_its_moves() {
        let mut part = Part::new("On");
        part.throughput = (0..24).map(f64::from).collect();
        part.phases =
            BTreeMap::from([(0, Phase::default()), (1, Phase { decided: Some(31), ready: Some(39) })]);
        assert_eq!(part.after_moves(0), Some(5.5));
        // Windows 12 + 3 + 2 to 23.
        assert_eq!(part.after_moves(1), Some(20.0));
        part.places =
            [(0, "b"), (1, "a"), (4, "b"), (5, "a")].map(|(actor, node)| (actor, node.to_owned())).into();
        assert_eq!(pair_on_one_node(&part), Some((0, 4)));
        assert_eq!(pair_on_two_nodes(&part), Some((0, 1)));
        part.pairs = vec![(0, 1)];
        assert_eq!(pair_on_two_nodes(&part), Some((4, 5)));
    }

    #[test]
    fn without_moves_the_pair_is_on_one_node_in_two_of_five_phases() {
        let mut part = Part::new("Off");
        part.places = (0..6).map(|actor| (actor, if actor < 3 { "a" } else { "b" }.to_owned())).collect();
        let local: Vec<bool> = (0..5)
            .map(|_| {
                let pair = pair_without_moves(&part).unwrap();
                part.pairs.push(pair);
                part.are_on_one_node(pair)
            })
            .collect();
        assert_eq!(local, [false, true, false, true, false]);
    }
}
