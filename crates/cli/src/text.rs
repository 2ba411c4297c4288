//! Formatting of sections and numbers.

use crate::style::{Style, Tone};

/// The control characters of a page.
const KEPT: &str = "\n\t";

/// Joins non-empty sections with blank lines.
pub fn joined(sections: Vec<String>) -> String {
    sections.into_iter().filter(|section| !section.is_empty()).collect::<Vec<_>>().join("\n")
}

/// A heading with its lines; empty without lines.
pub fn section(heading: &str, tone: Tone, lines: &[String], style: Style) -> String {
    if lines.is_empty() {
        return String::new();
    }
    format!("{}\n  {}\n", style.paint(tone, heading), lines.join("\n  "))
}

/// The text without control characters other than the ends of lines and the colours of a [`Style`]: a name or message of
/// an object must not control the terminal. The escapes are those of JSON.
pub fn escaped(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let mut escaped = without_controls(parts.next().unwrap_or_default(), KEPT);
    for part in parts {
        escaped.push_str(if Style::is_code(part) { "\u{1b}" } else { "\\u001b" });
        escaped.push_str(&without_controls(part, KEPT));
    }
    escaped
}

/// The text with all control characters escaped, so that it stays in its line.
pub fn one_line(text: &str) -> String {
    without_controls(text, "")
}

fn without_controls(text: &str, kept: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() && !kept.contains(character) {
            escaped.extend(format!("\\u{:04x}", u32::from(character)).chars());
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// A number with thousands separators.
pub fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if number < 0 { format!("-{text}") } else { text }
}

/// The components that found and proved a plan, and what clingo verified, as far as known.
pub fn provenance(found: Option<&str>, proven: Option<&str>, judged: Option<&str>) -> String {
    let by = |verb: &str, component: Option<&str>| component.map(|it| format!("{verb} by {it}"));
    let judged = judged.filter(|judged| *judged != "none").map(|judged| match judged {
        "all" => "judged by clingo".to_owned(),
        what => format!("judged by clingo: {what}"),
    });
    let words: Vec<String> =
        [by("found", found), by("proven", proven), judged].into_iter().flatten().collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_colours_stay() {
        let painted = "\u{1b}[31mlost\u{1b}[0m\n";
        assert_eq!(escaped(painted), painted);
        assert_eq!(
            escaped("a\u{1b}]0;title\u{7}b\r\u{1b}[2Jc\u{9b}"),
            r"a\u001b]0;title\u0007b\u000d\u001b[2Jc\u009b"
        );
        assert_eq!(one_line("a\n\u{1b}[31mb é"), r"a\u000a\u001b[31mb é");
    }

    #[test]
    fn numbers_have_thousands_separators() {
        let shown: Vec<String> = [0, 999, 1000, 59_040, -1_234_567].map(grouped).into();
        assert_eq!(shown, ["0", "999", "1,000", "59,040", "-1,234,567"]);
    }
}
