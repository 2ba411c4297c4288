//! Lines over windows as a picture: plain SVG, no script, legible on light and dark.

use std::fmt::Write as _;

/// Told apart by people who see few colours too (Okabe and Ito, 2008).
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#888888"];

const LEFT: f64 = 52.0;
const TOP: f64 = 34.0;
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 260.0;
const LEGEND: f64 = 18.0;

/// A line: its name and its values, one per window.
pub struct Line {
    /// The name.
    pub name: String,
    /// The values.
    pub values: Vec<f64>,
}

/// Throughput over windows; `level` is drawn across where it is given.
pub fn lines(title: &str, of: &[Line], level: Option<(&str, f64)>) -> String {
    let most = of.iter().flat_map(|line| line.values.iter().copied()).chain(level.map(|level| level.1));
    let most = most.fold(1.0, f64::max) * 1.05;
    let longest = of.iter().map(|line| line.values.len()).max().unwrap_or(0).max(2);
    let x = |window: usize| LEFT + WIDTH * real(window) / real(longest - 1);
    let y = |value: f64| TOP + HEIGHT * (1.0 - value / most);
    let rows = of.len() + usize::from(level.is_some());
    let height = TOP + HEIGHT + 48.0 + LEGEND * real(rows);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\" fill=\"#888888\">\n<text x=\"{LEFT}\" y=\"18\" font-size=\"14\">{title}</text>\n",
        LEFT + WIDTH + 20.0
    );
    let mut put = |line: String| text.push_str(&line);
    for tick in 0..=4 {
        let value = most * real(tick) / 4.0;
        put(format!(
            "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{1:.1}\" y2=\"{1:.1}\" stroke=\"#888888\" stroke-opacity=\"0.3\"/>\n\
             <text x=\"{2}\" y=\"{3:.1}\" text-anchor=\"end\">{value:.0}</text>\n",
            LEFT + WIDTH,
            y(value),
            LEFT - 6.0,
            y(value) + 4.0
        ));
    }
    put(format!(
        "<text x=\"{LEFT}\" y=\"{0}\">window 1</text>\n<text x=\"{1}\" y=\"{0}\" text-anchor=\"end\">{longest}</text>\n",
        TOP + HEIGHT + 18.0,
        LEFT + WIDTH
    ));
    let mut legend = TOP + HEIGHT + 42.0;
    for (number, line) in of.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let dashes = ["", "6 3", "2 3"][number / COLOURS.len() % 3];
        let mut points = String::new();
        for (window, value) in line.values.iter().enumerate() {
            write!(points, "{:.1},{:.1} ", x(window), y(*value)).expect("text takes everything");
        }
        put(format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\" stroke-dasharray=\"{dashes}\"/>\n\
             <line x1=\"{LEFT}\" x2=\"{}\" y1=\"{2}\" y2=\"{2}\" stroke=\"{colour}\" stroke-width=\"3\" \
             stroke-dasharray=\"{dashes}\"/>\n<text x=\"{3}\" y=\"{4}\">{5}</text>\n",
            points.trim_end(),
            LEFT + 24.0,
            legend - 4.0,
            LEFT + 32.0,
            legend,
            line.name
        ));
        legend += LEGEND;
    }
    if let Some((name, value)) = level {
        put(format!(
            "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{1:.1}\" y2=\"{1:.1}\" stroke=\"#888888\" stroke-width=\"1.6\"/>\n\
             <text x=\"{2}\" y=\"{legend}\">{name} (across)</text>\n",
            LEFT + WIDTH,
            y(value),
            LEFT + 32.0
        ));
    }
    text.push_str("</svg>\n");
    text
}

fn real(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::{Line, lines};

    #[test]
    fn every_line_is_drawn_and_named() {
        let of = |name: &str, values: &[f64]| Line { name: name.to_owned(), values: values.to_vec() };
        let text = lines("t", &[of("a", &[1.0, 2.0]), of("b", &[2.0])], Some(("best", 3.0)));
        assert_eq!(text.matches("<polyline").count(), 2);
        for name in [">a<", ">b<", ">best (across)<"] {
            assert!(text.contains(name), "{text}");
        }
    }
}
