//! Pieces of what people read: sections, numbers.

use crate::style::{Style, Tone};

/// Sections with an empty line between them, without those that are empty.
pub fn joined(sections: Vec<String>) -> String {
    sections.into_iter().filter(|section| !section.is_empty()).collect::<Vec<_>>().join("\n")
}

/// A heading and its lines; nothing where there are none.
pub fn section(heading: &str, tone: Tone, lines: &[String], style: Style) -> String {
    if lines.is_empty() {
        return String::new();
    }
    format!("{}\n  {}\n", style.paint(tone, heading), lines.join("\n  "))
}

/// A number with its thousands set apart.
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

/// Which part found an answer and which proved it the best, and what of it clingo judged, as far as that is known and anything was.
pub fn by_whom(found: Option<&str>, proven: Option<&str>, judged: Option<&str>) -> String {
    let by = |what: &str, who: Option<&str>| who.map(|who| format!("{what} by {who}"));
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
    fn thousands_are_set_apart() {
        let shown: Vec<String> = [0, 999, 1000, 59_040, -1_234_567].map(grouped).into();
        assert_eq!(shown, ["0", "999", "1,000", "59,040", "-1,234,567"]);
    }
}
