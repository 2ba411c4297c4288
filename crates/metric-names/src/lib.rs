//! The names of metrics, which are an interface like the kinds and their labels.
//!
//! Each program has one list and exposes nothing that is not in it: [`operator`], [`agent`], and [`application`] for what
//! applications are asked for. A new series is one line in its list. The tests hold the lists to Prometheus' conventions
//! and write them into `docs/reference/metrics.md`, from which dashboards and alerts are checked.

/// Makes constants and the list of all of them, so that none is left out of the list.
macro_rules! metric_names {
    ($(#[$doc:meta])* $list:ident: $($constant:ident = $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(
            #[doc = concat!("`", $name, "`.")]
            pub static $constant: $crate::Name =
                $crate::Name::new($name, $crate::Kind::$kind, &[$($label),*], $help);
        )*
        $(#[$doc])*
        pub static $list: &[&$crate::Name] = &[$(&$constant),*];
    };
}

pub mod agent;
pub mod application;
pub mod operator;

use std::{collections::BTreeSet, fmt::Write as _};

/// One family of series.
#[derive(Debug, PartialEq, Eq)]
pub struct Name {
    family: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
    help: &'static str,
}

/// What the values of a family mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum Kind {
    /// It only grows, and begins at 0 anew when its program does.
    Counter,
    /// It is what it is now.
    Gauge,
    /// How often a value was at most so much; `_bucket`, `_sum` and `_count` are its series.
    Histogram,
    /// Always 1: the labels are what is told.
    Info,
    /// Of the series that differ in the label `state` one is 1, the others are 0.
    StateSet,
}

/// Prometheus' base units, and what is made of them; the longer of two that end alike comes first.
const UNITS: [&str; 8] =
    ["bytes_per_second", "seconds", "bytes", "joules", "watts", "celsius", "hertz", "ratio"];

impl Name {
    /// A family; `help` is one sentence.
    pub const fn new(
        family: &'static str,
        kind: Kind,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { family, kind, labels, help }
    }

    /// The name of the family, as in `cairn_device_info`.
    pub fn name(&self) -> &'static str {
        self.family
    }

    /// What its values mean.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The unit of its values, which the name ends with; none of what is merely counted.
    pub fn unit(&self) -> Option<&'static str> {
        let stem = self.family.strip_suffix("_total").unwrap_or(self.family);
        let ends = |unit: &str| stem.strip_suffix(unit).is_some_and(|rest| rest.ends_with('_'));
        UNITS.into_iter().find(|unit| ends(unit))
    }

    /// The labels of each of its series, in the order in which values are given.
    pub fn labels(&self) -> &'static [&'static str] {
        self.labels
    }

    /// One sentence.
    pub fn help(&self) -> &'static str {
        self.help
    }
}

/// Where names that begin with `prefix` break Prometheus' conventions, one sentence each.
pub fn broken_conventions(names: &[&Name], prefix: &str) -> Vec<String> {
    let mut broken = Vec::new();
    let mut seen = BTreeSet::new();
    for name in names {
        let text = name.family;
        let mut expect = |holds: bool, otherwise: &str| {
            if !holds {
                broken.push(format!("{text} {otherwise}"));
            }
        };
        let stem = text.strip_suffix("_total").unwrap_or(text);
        let last = stem.rsplit('_').next().unwrap_or_default();
        let is_of_another_unit =
            ["percent", "milliseconds", "minutes", "mebibytes", "mib", "mhz"].contains(&last);
        let is_word = |word: &str| word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        // Reserved by scrapes, or a word that a query reads badly.
        let is_taken = |label: &str| ["job", "instance", "le", "quantile", "type"].contains(&label);
        expect(seen.insert(text), "is there twice");
        expect(text.starts_with(prefix), &format!("does not begin with {prefix}"));
        expect(is_word(text), "is not in lower case");
        expect(!is_of_another_unit, "is in no base unit");
        expect(text.ends_with("_total") == (name.kind == Kind::Counter), "ends in _total if it is a counter");
        expect(text.ends_with("_info") == (name.kind == Kind::Info), "ends in _info if it is an info");
        expect(
            name.kind != Kind::StateSet || name.labels.last() == Some(&"state"),
            "is a state set, whose last label is `state`",
        );
        for label in name.labels {
            expect(is_word(label) && !is_taken(label), &format!("has a label `{label}`"));
        }
        expect(name.help.ends_with('.') && name.help.len() > 10, "has no sentence");
    }
    broken
}

/// The documentation `text` with the table of `list` as these names are.
///
/// The table is between the lines `<!-- LIST: … -->` and `<!-- end -->`; none when they are not there.
pub fn documented(text: &str, list: &str, names: &[&Name]) -> Option<String> {
    let begin = text.find(&format!("<!-- {list}: "))?;
    let table = begin + text[begin..].find('\n')? + 1;
    let end = table + text[table..].find("<!-- end -->")?;
    Some(format!("{}{}{}", &text[..table], self::table(names), &text[end..]))
}

fn table(names: &[&Name]) -> String {
    let mut text = String::from("| name | kind | unit | labels | |\n|---|---|---|---|---|\n");
    for name in names {
        let (unit, labels) = (name.unit().unwrap_or_default(), name.labels.join(", "));
        let _ = writeln!(text, "| `{}` | {} | {unit} | {labels} | {} |", name.family, name.kind, name.help);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_is_what_the_name_ends_with() {
        let unit = |family| Name::new(family, Kind::Gauge, &[], "").unit();
        assert_eq!(unit("cairn_device_energy_joules_total"), Some("joules"));
        assert_eq!(unit("cairn_link_bandwidth_bytes_per_second"), Some("bytes_per_second"));
        assert_eq!(unit("cairn_last_change_timestamp_seconds"), Some("seconds"));
        assert_eq!(unit("cairn_megahertz"), None);
        assert_eq!(unit("cairn_device_errors_total"), None);
    }

    #[test]
    fn what_breaks_a_convention_is_said() {
        let good = Name::new("cairn_share_ratio", Kind::Gauge, &["node"], "How much of it there is.");
        let bad = Name::new("load_percent_total", Kind::Gauge, &["type"], "Load");
        assert_eq!(broken_conventions(&[&good], "cairn_"), Vec::<String>::new());
        assert_eq!(
            broken_conventions(&[&good, &bad, &good], "cairn_"),
            [
                "load_percent_total does not begin with cairn_",
                "load_percent_total is in no base unit",
                "load_percent_total ends in _total if it is a counter",
                "load_percent_total has a label `type`",
                "load_percent_total has no sentence",
                "cairn_share_ratio is there twice",
            ]
        );
    }

    #[test]
    fn a_table_is_replaced_and_nothing_else() {
        let name = Name::new("cairn_age_seconds", Kind::Gauge, &["a", "b"], "How old.");
        let text = "before\n<!-- it: by a test -->\nold\n<!-- end -->\n<!-- other: -->\nold\n<!-- end -->\n";
        assert_eq!(
            documented(text, "it", &[&name]).unwrap(),
            "before\n<!-- it: by a test -->\n\
             | name | kind | unit | labels | |\n|---|---|---|---|---|\n\
             | `cairn_age_seconds` | gauge | seconds | a, b | How old. |\n\
             <!-- end -->\n<!-- other: -->\nold\n<!-- end -->\n"
        );
        assert_eq!(documented(text, "none", &[]), None);
    }
}
