//! Grouped bar charts as SVG, with a line at 1.

use std::fmt::Write as _;

/// A bar.
pub struct Bar {
    pub name: &'static str,
    pub value: f64,
}

const WIDE: f64 = 300.0;
const LEFT: f64 = 150.0;

/// Draws titled groups of bars with their numbers.
pub fn bars(title: &str, groups: &[(&str, Vec<Bar>)]) -> String {
    let most = groups.iter().flat_map(|(_, bars)| bars).map(|bar| bar.value).fold(1.0, f64::max);
    let (mut body, mut y) = (String::new(), 40.0);
    for (group, bars) in groups {
        y += 14.0;
        let _ = writeln!(body, "<text x=\"10\" y=\"{y}\" font-weight=\"bold\">{group}</text>");
        for Bar { name, value } in bars {
            y += 16.0;
            let wide = value / most * WIDE;
            let _ = writeln!(
                body,
                "<text x=\"{}\" y=\"{y}\" text-anchor=\"end\">{name}</text><rect x=\"{LEFT}\" y=\"{}\" width=\"{wide:.1}\" \
                 height=\"12\" fill=\"#4477aa\"/><text x=\"{:.1}\" y=\"{y}\">{value:.2}</text>",
                LEFT - 6.0,
                y - 10.0,
                LEFT + wide + 5.0
            );
        }
        y += 14.0;
    }
    let one = LEFT + WIDE / most;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {y}\" font-family=\"sans-serif\" font-size=\"10\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"10\" y=\"20\" font-size=\"13\">{title}</text>\n\
         <text x=\"10\" y=\"34\">points a second for each processor, of the first of its group</text>\n{body}\
         <line x1=\"{one:.1}\" x2=\"{one:.1}\" y1=\"44\" y2=\"{y}\" stroke=\"#999999\" stroke-dasharray=\"3 3\"/>\n</svg>\n",
        LEFT + WIDE + 50.0
    )
}
