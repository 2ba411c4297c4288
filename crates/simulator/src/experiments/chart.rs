//! Line charts as SVG: a grid of panels with common axes and one legend.
#![expect(clippy::disallowed_methods, reason = "drawn, not replayed")]

use std::fmt::Write as _;

use crate::dag::escape;

/// A data series.
#[derive(Clone, Debug)]
pub struct Series {
    /// Legend text; series of one name share a colour.
    pub name: String,
    /// Points, by x.
    pub points: Vec<(f64, f64)>,
}

/// A panel: axes with series.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Panel title.
    pub title: String,
    /// Series of the panel.
    pub series: Vec<Series>,
}

/// Titles and axes of the whole chart.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'a> {
    /// Chart title.
    pub title: &'a str,
    /// Label of the horizontal axis.
    pub x: &'a str,
    /// Label of the vertical axis.
    pub y: &'a str,
    /// Whether the vertical axis is logarithmic.
    pub log: bool,
}

const COLOURS: [&str; 8] =
    ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#aa3377", "#66ccee", "#000000", "#999999"];
const LEFT: f64 = 56.0;
const TOP: f64 = 62.0;
const GAP: f64 = 34.0;

/// Draws `panels` with common axes.
pub fn lines(labels: &Labels<'_>, panels: &[Panel]) -> String {
    let columns = panels.len().clamp(1, 4);
    let (width, height) = if panels.len() == 1 { (640.0, 320.0) } else { (230.0, 150.0) };
    let points = || panels.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.points);
    let right = points().map(|point| point.0).fold(1e-9, f64::max);
    let highest = points().map(|point| point.1).fold(1e-9, f64::max);
    let lowest = points().map(|point| point.1).filter(|y| *y > 0.0).fold(highest, f64::min);
    let (bottom, top) = if labels.log {
        (10_f64.powf(lowest.log10().floor()), 10_f64.powf(highest.log10().ceil()))
    } else {
        (0.0, round_up(highest))
    };
    let share = |y: f64| {
        if labels.log { (y.max(bottom) / bottom).log10() / (top / bottom).log10().max(1e-9) } else { y / top }
    };
    let mut names: Vec<&str> = Vec::new();
    for series in panels.iter().flat_map(|panel| &panel.series) {
        if !names.contains(&series.name.as_str()) {
            names.push(&series.name);
        }
    }
    let place = |number: usize| {
        let at = |count: usize| f64::from(u32::try_from(count).expect("few panels"));
        (LEFT + at(number % columns) * (width + GAP), TOP + at(number / columns) * (height + GAP + 8.0))
    };
    let last = place(panels.len().saturating_sub(1));
    let wide = place(columns - 1).0 + width + 20.0;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {wide:.0} {:.0}\" font-family=\"sans-serif\" \
         font-size=\"10\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"{LEFT}\" y=\"16\" \
         font-size=\"13\">{}</text>\n",
        last.1 + height + 40.0,
        escape(&format!("{} ({})", labels.title, labels.y))
    );
    let in_row = if names.len() > 8 { names.len() } else { names.len().div_ceil(2).max(5) };
    for (number, name) in names.iter().enumerate() {
        // Two legend rows fit above the panels.
        let (row, column) = (number / in_row, number % in_row);
        let at = |count: usize| f64::from(u32::try_from(count).expect("few series"));
        let (x, y) = (LEFT + 120.0 * at(column), 25.0 + 13.0 * at(row));
        let colour = COLOURS[number % COLOURS.len()];
        let _ = writeln!(
            text,
            "<rect x=\"{x}\" y=\"{y}\" width=\"14\" height=\"8\" fill=\"{colour}\"/><text x=\"{}\" y=\"{}\">{}</text>",
            x + 18.0,
            y + 8.0,
            escape(name)
        );
    }
    for (number, panel) in panels.iter().enumerate() {
        let (left, up) = place(number);
        let (x, y) = (|at: f64| left + at / right * width, |at: f64| up + height * (1.0 - share(at)));
        let _ = writeln!(
            text,
            "<text x=\"{left}\" y=\"{:.0}\">{}</text><rect x=\"{left}\" y=\"{up}\" width=\"{width}\" height=\"{height}\" \
             fill=\"none\" stroke=\"#888\"/>",
            up - 4.0,
            escape(&panel.title)
        );
        for tick in ticks(bottom, top, labels.log) {
            let _ = writeln!(
                text,
                "<text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{tick}</text><line x1=\"{left}\" x2=\"{:.0}\" \
                 y1=\"{3:.1}\" y2=\"{3:.1}\" stroke=\"#eee\"/>",
                left - 4.0,
                y(tick) + 3.0,
                left + width,
                y(tick)
            );
        }
        for tick in ticks(0.0, right, false) {
            let _ = writeln!(
                text,
                "<text x=\"{:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{tick}</text>",
                x(tick),
                up + height + 12.0
            );
        }
        for series in &panel.series {
            let colour = names.iter().position(|name| *name == series.name).unwrap_or(0);
            let path: Vec<String> =
                series.points.iter().map(|(a, b)| format!("{:.1},{:.1}", x(*a), y(*b))).collect();
            let _ = writeln!(
                text,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\"/>",
                path.join(" "),
                COLOURS[colour % COLOURS.len()]
            );
        }
    }
    let _ = writeln!(
        text,
        "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>\n</svg>",
        wide / 2.0,
        last.1 + height + 30.0,
        escape(labels.x)
    );
    text
}

/// The next round number: a power of ten times 1, 1.5, 2, 2.5 or another digit.
fn round_up(value: f64) -> f64 {
    let unit = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0];
    steps.iter().map(|step| step * unit).find(|step| *step >= value).unwrap_or(10.0 * unit)
}

/// Axis ticks.
fn ticks(from: f64, to: f64, log: bool) -> Vec<f64> {
    if log {
        let powers = std::iter::successors(Some(from), |tick| Some(tick * 10.0));
        return powers.take_while(|tick| *tick <= to * 1.01).map(tidy).collect();
    }
    let step = round_up((to - from) / 4.0);
    let all = std::iter::successors(Some(from), |tick| Some(tick + step));
    all.take_while(|tick| *tick <= to * 1.001).map(tidy).collect()
}

/// Formats without floating-point noise.
fn tidy(value: f64) -> f64 {
    format!("{value:.6}").parse().unwrap_or(value)
}
