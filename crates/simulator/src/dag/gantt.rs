//! Gantt charts as SVG.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::applications::Applications;
use super::measures::Record;

const LEFT: f64 = 90.0;
const WIDTH: f64 = 1000.0;
const ROW: f64 = 26.0;
const TOP: f64 = 30.0;
/// Task labels are omitted above this number of tasks: the file would be too large to display.
const MOST_NAMED: usize = 1000;

/// A Gantt chart: one row per processing element, one colour per frame and instance; tasks are labelled up to a limit
/// of 1,000.
#[expect(clippy::cast_precision_loss, reason = "positions on a drawing")]
pub fn gantt(applications: &Applications, records: &[Record], title: &str) -> String {
    let first = records.iter().map(|record| record.start).min().unwrap_or(0);
    let last = records.iter().map(|record| record.end).max().unwrap_or(first);
    let scale = WIDTH / (last - first).max(1) as f64;
    let x = |time: u64| LEFT + (time - first) as f64 * scale;
    let rows = applications.pes().len() as f64;
    let bottom = TOP + rows * ROW;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"{LEFT}\" y=\"18\" font-size=\"13\">{}</text>\n",
        LEFT + WIDTH + 20.0,
        bottom + 36.0,
        escape(title)
    );
    let mut draw = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    for (row, name) in applications.pes().iter().enumerate() {
        let y = TOP + row as f64 * ROW;
        draw(format!(
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            y + 16.0,
            escape(name)
        ));
        draw(format!(
            "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{1:.1}\" y2=\"{1:.1}\" stroke=\"#ddd\"/>",
            LEFT + WIDTH,
            y + ROW
        ));
    }
    let colour = |record: &Record| {
        (u64::from(record.frame) * 47 + record.instance as u64 * 137 + record.application as u64 * 180) % 360
    };
    let box_of = |record: &Record| {
        let (from, to) = (x(record.start), x(record.end));
        (from, TOP + record.pe as f64 * ROW + 3.0, (to - from).max(0.2), ROW - 6.0)
    };
    if records.len() > MOST_NAMED {
        let mut paths: BTreeMap<u64, String> = BTreeMap::new();
        for record in records {
            let (left, top, width, height) = box_of(record);
            let path = paths.entry(colour(record)).or_default();
            let _ = write!(path, "M{left:.1} {top:.0}h{width:.1}v{height:.0}h-{width:.1}z");
        }
        for (hue, path) in paths {
            draw(format!("<path d=\"{path}\" fill=\"hsl({hue},60%,62%)\"/>"));
        }
    } else {
        for record in records {
            let (left, top, width, height) = box_of(record);
            let name = &applications.all[record.application].tasks[record.task];
            draw(format!(
                "<rect x=\"{left:.2}\" y=\"{top:.1}\" width=\"{width:.2}\" height=\"{height}\" \
                 fill=\"hsl({},60%,62%)\"><title>{} of instance {}, frame {}: {} to {} µs</title></rect>",
                colour(record),
                escape(name),
                record.instance + 1,
                record.frame,
                (record.start - first) / 1000,
                (record.end - first) / 1000,
            ));
        }
    }
    for tick in 0..=10_u64 {
        let time = first + (last - first) * tick / 10;
        let at = x(time);
        draw(format!(
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{bottom:.1}\" y2=\"{:.1}\" stroke=\"#333\"/>",
            bottom + 5.0
        ));
        draw(format!(
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{:.2}</text>",
            bottom + 17.0,
            (time - first) as f64 / 1e6
        ));
    }
    draw(format!(
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">ms</text>",
        LEFT + WIDTH / 2.0,
        bottom + 31.0
    ));
    let _ = writeln!(text, "</svg>");
    text
}

/// Escapes text for XML.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
