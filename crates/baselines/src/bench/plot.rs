//! Plots as plain SVG without scripts, legible on light and dark backgrounds.
#![expect(clippy::disallowed_methods, reason = "drawn, not replayed")]

use std::fmt::Write;

use super::cells::{budgets, in_order};
use super::summary::quotient;

use super::{Cell, Summary};

/// One colour per strategy, from a palette for colour-blind readers (Okabe and Ito, 2008).
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#888888"];

/// Larger gaps to the best known are drawn at the upper edge.
const MOST_PERCENT: f64 = 100.0;

const LEFT: f64 = 48.0;
const TOP: f64 = 28.0;
const PANEL: (f64, f64) = (190.0, 130.0);
const STEP: (f64, f64) = (260.0, 200.0);
const COLUMNS: usize = 4;

/// Gap to the best known in percent by budget, one panel per instance, both axes logarithmic.
pub fn cost_over_time(summaries: &[Summary]) -> String {
    let strategies = in_order(summaries, |cell| cell.strategy.clone());
    let rows = summaries.len().div_ceil(COLUMNS);
    let mut picture = Canvas::new(columns(summaries.len()), rows, &strategies);
    let budgets = budgets(summaries);
    let (Some(&least), Some(&most)) = (budgets.first(), budgets.last()) else { return picture.finish() };
    for (position, summary) in summaries.iter().enumerate() {
        let mut panel = Panel::at(position, &mut picture);
        panel.frame(&summary.instance, "seconds");
        let scale = Log { least, most };
        for budget in &budgets {
            panel.tick_x(scale.of(*budget), &budget.to_string());
        }
        panel.percent_ticks();
        for (colour, strategy) in strategies.iter().enumerate() {
            let cells = budgets.iter().filter_map(|budget| summary.cell(strategy, *budget));
            let points = cells.filter_map(|cell| Some((scale.of(cell.budget_seconds), gap(summary, cell)?)));
            panel.line(colour, &points.collect::<Vec<_>>());
        }
    }
    picture.finish()
}

/// Gap to the best known in percent by number of actors, one panel per family, with the largest budget of each instance.
pub fn gap_by_size(summaries: &[Summary]) -> String {
    let strategies = in_order(summaries, |cell| cell.strategy.clone());
    let family = |summary: &Summary| summary.instance.split('-').next().unwrap_or_default().to_owned();
    let mut families: Vec<String> = summaries.iter().map(family).collect();
    families.dedup();
    let mut picture = Canvas::new(columns(families.len()), 1, &strategies);
    for (position, name) in families.iter().enumerate() {
        let members: Vec<&Summary> = summaries.iter().filter(|summary| family(summary) == *name).collect();
        let sizes: Vec<f64> = members.iter().map(|summary| quotient(summary.actors, 1)).collect();
        let scale = Log {
            least: sizes.iter().copied().fold(f64::MAX, f64::min),
            most: sizes.iter().copied().fold(0.0, f64::max),
        };
        let mut panel = Panel::at(position, &mut picture);
        panel.frame(&format!("family {name}"), "actors");
        for size in [scale.least, scale.most] {
            panel.tick_x(scale.of(size), &size.to_string());
        }
        panel.percent_ticks();
        for (colour, strategy) in strategies.iter().enumerate() {
            let points = members.iter().zip(&sizes).filter_map(|(summary, size)| {
                let cells = summary.cells.iter().filter(|cell| cell.strategy == *strategy);
                let longest = cells.max_by(|a, b| a.budget_seconds.total_cmp(&b.budget_seconds))?;
                Some((scale.of(*size), gap(summary, longest)?))
            });
            panel.line(colour, &points.collect::<Vec<_>>());
        }
    }
    picture.finish()
}

fn columns(panels: usize) -> usize {
    panels.clamp(1, COLUMNS)
}

/// Gap of the median run to the best known in percent, if it has a ratio.
fn gap(summary: &Summary, cell: &Cell) -> Option<f64> {
    Some(summary.gap(cell.median())? * 100.0)
}

/// Positions on a logarithmic axis, 0 to 1.
struct Log {
    least: f64,
    most: f64,
}

impl Log {
    fn of(&self, value: f64) -> f64 {
        if self.most > self.least { (value / self.least).ln() / (self.most / self.least).ln() } else { 0.5 }
    }
}

/// Position of a percentage from 0 at the lower edge to 1 at the upper: logarithmic, with a position for 0 %.
fn height(percent: f64) -> f64 {
    let (least, most) = (0.1_f64, MOST_PERCENT);
    let inside = percent.clamp(0.0, most) + least;
    (inside / least).ln() / ((most + least) / least).ln()
}

struct Canvas {
    text: String,
}

impl Canvas {
    fn new(columns: usize, rows: usize, strategies: &[String]) -> Self {
        let width = quotient(columns, 1) * STEP.0 + LEFT;
        let bottom = quotient(rows.max(1), 1) * STEP.1 + TOP;
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {}\" font-family=\"sans-serif\" \
             font-size=\"11\" fill=\"#777\">\n",
            bottom + 30.0
        );
        for (position, strategy) in strategies.iter().enumerate() {
            let (x, y) = (LEFT + quotient(position, 1) * 110.0, bottom + 14.0);
            let (colour, name) = (colour(position), escaped(strategy));
            writeln!(
                text,
                "<rect x=\"{x}\" y=\"{}\" width=\"14\" height=\"4\" fill=\"{colour}\"/>\
                 <text x=\"{}\" y=\"{y}\">{name}</text>",
                y - 6.0,
                x + 19.0
            )
            .expect(INTO_TEXT);
        }
        Self { text }
    }

    fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }
}

struct Panel<'a> {
    picture: &'a mut Canvas,
    left: f64,
    top: f64,
}

impl<'a> Panel<'a> {
    fn at(position: usize, picture: &'a mut Canvas) -> Self {
        let (column, row) = (quotient(position % COLUMNS, 1), quotient(position / COLUMNS, 1));
        Self { picture, left: LEFT + column * STEP.0, top: TOP + row * STEP.1 }
    }

    fn frame(&mut self, title: &str, below: &str) {
        let (left, top, (width, high)) = (self.left, self.top, PANEL);
        let middle = left + width / 2.0;
        writeln!(
            self.picture.text,
            "<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{high}\" fill=\"none\" stroke=\"#999\"/>\
             <text x=\"{left}\" y=\"{}\" font-weight=\"bold\">{} — gap to the best known, %</text>\
             <text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{below}</text>",
            top - 6.0,
            escaped(title),
            top + high + 28.0,
        )
        .expect(INTO_TEXT);
    }

    fn tick_x(&mut self, at: f64, label: &str) {
        let (x, y) = (self.left + at * PANEL.0, self.top + PANEL.1);
        let text = &mut self.picture.text;
        writeln!(text, "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>", y + 14.0)
            .expect(INTO_TEXT);
    }

    fn percent_ticks(&mut self) {
        for percent in [0.0, 1.0, 10.0, MOST_PERCENT] {
            let y = self.y(percent);
            let (left, right) = (self.left, self.left + PANEL.0);
            writeln!(
                self.picture.text,
                "<line x1=\"{left}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#999\" stroke-opacity=\"0.3\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{percent}</text>",
                left - 5.0,
                y + 4.0
            )
            .expect(INTO_TEXT);
        }
    }

    fn line(&mut self, colour_of: usize, points: &[(f64, f64)]) {
        let colour = colour(colour_of);
        let places: Vec<(f64, f64)> =
            points.iter().map(|&(x, percent)| (self.left + x * PANEL.0, self.y(percent))).collect();
        let mut joined = places.clone();
        // Of points at one x only the first joins the line, as a vertical segment has no meaning.
        joined.dedup_by(|a, b| a.0.total_cmp(&b.0).is_eq());
        let path: Vec<String> = joined.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let text = &mut self.picture.text;
        writeln!(
            text,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>",
            path.join(" ")
        )
        .expect(INTO_TEXT);
        for (x, y) in places {
            writeln!(text, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\" fill=\"{colour}\"/>")
                .expect(INTO_TEXT);
        }
    }

    fn y(&self, percent: f64) -> f64 {
        self.top + PANEL.1 * (1.0 - height(percent))
    }
}

fn colour(position: usize) -> &'static str {
    COLOURS[position % COLOURS.len()]
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

const INTO_TEXT: &str = "writing into a string does not fail";
