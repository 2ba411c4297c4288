//! The metrics of Cairn. Names and labels are a stable interface.
//!
//! There is one list per program, [`operator`] and [`agent`], and one for applications, [`application`]. A program exposes
//! only metrics in its list. Tests check the lists against Prometheus' conventions and write them into
//! `docs/reference/metrics.md`, against which dashboards and alerts are checked.

/// Defines a constant for each metric, and the list of all of them.
macro_rules! metric_names {
    ($(#[$doc:meta])* $list:ident: $($constant:ident = $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(
            #[doc = concat!("`", $name, "`.")]
            pub static $constant: $crate::MetricDef =
                $crate::MetricDef::new($name, $crate::MetricKind::$kind, &[$($label),*], $help);
        )*
        $(#[$doc])*
        pub static $list: &[&$crate::MetricDef] = &[$(&$constant),*];
    };
}

pub mod agent;
pub mod application;
pub mod operator;

use std::{collections::BTreeSet, fmt::Write as _};

/// A metric family.
#[derive(Debug, PartialEq, Eq)]
pub struct MetricDef {
    family: &'static str,
    kind: MetricKind,
    labels: &'static [&'static str],
    help: &'static str,
}

/// The type of a metric family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum MetricKind {
    /// A value that only increases, and restarts at 0 with its program.
    Counter,
    /// A current value.
    Gauge,
    /// Counts of observations by upper bound; its series end with `_bucket`, `_sum` and `_count`.
    Histogram,
    /// Always 1; the labels are the information.
    Info,
    /// Among the series that differ only in the label `state` exactly one is 1.
    StateSet,
}

/// The units in use. A unit must precede its suffixes.
const UNITS: [&str; 8] =
    ["bytes_per_second", "seconds", "bytes", "joules", "watts", "celsius", "hertz", "ratio"];

impl MetricDef {
    /// A metric family; `help` is one sentence.
    pub const fn new(
        family: &'static str,
        kind: MetricKind,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { family, kind, labels, help }
    }

    /// The name of the family, such as `cairn_device_info`.
    pub fn name(&self) -> &'static str {
        self.family
    }

    /// The type of the family.
    pub fn kind(&self) -> MetricKind {
        self.kind
    }

    /// The unit, which is the suffix of the name; `None` for plain counts.
    pub fn unit(&self) -> Option<&'static str> {
        let stem = self.family.strip_suffix("_total").unwrap_or(self.family);
        let ends = |unit: &str| stem.strip_suffix(unit).is_some_and(|rest| rest.ends_with('_'));
        UNITS.into_iter().find(|unit| ends(unit))
    }

    /// The labels, in the order of their values.
    pub fn labels(&self) -> &'static [&'static str] {
        self.labels
    }

    /// The help text, one sentence.
    pub fn help(&self) -> &'static str {
        self.help
    }
}

/// Violations of Prometheus' conventions, and names that do not begin with `prefix`.
pub fn convention_violations(names: &[&MetricDef], prefix: &str) -> Vec<String> {
    let mut violations = Vec::new();
    let mut seen = BTreeSet::new();
    for name in names {
        let text = name.family;
        let mut expect = |holds: bool, violation: &str| {
            if !holds {
                violations.push(format!("{text} {violation}"));
            }
        };
        let stem = text.strip_suffix("_total").unwrap_or(text);
        let last = stem.rsplit('_').next().unwrap_or_default();
        let has_derived_unit =
            ["percent", "milliseconds", "minutes", "mebibytes", "mib", "mhz"].contains(&last);
        let is_word = |word: &str| word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        // Reserved by Prometheus, or confusing in queries.
        let is_reserved = |label: &str| ["job", "instance", "le", "quantile", "type"].contains(&label);
        expect(seen.insert(text), "is a duplicate");
        expect(text.starts_with(prefix), &format!("does not begin with {prefix}"));
        expect(is_word(text), "is not in snake case");
        expect(!has_derived_unit, "is not in a base unit");
        expect(
            text.ends_with("_total") == (name.kind == MetricKind::Counter),
            "must end in _total if and only if it is a counter",
        );
        expect(
            text.ends_with("_info") == (name.kind == MetricKind::Info),
            "must end in _info if and only if it is an info metric",
        );
        expect(
            name.kind != MetricKind::StateSet || name.labels.last() == Some(&"state"),
            "is a state set, whose last label must be `state`",
        );
        for label in name.labels {
            expect(is_word(label) && !is_reserved(label), &format!("has the invalid label `{label}`"));
        }
        expect(name.help.ends_with('.') && name.help.len() > 10, "has no help text");
    }
    violations
}

/// The documentation `text` with the table of `list` replaced by these metrics.
///
/// The table is between the lines `<!-- LIST: … -->` and `<!-- end -->`; `None` if they are missing.
pub fn update_table(text: &str, list: &str, names: &[&MetricDef]) -> Option<String> {
    let begin = text.find(&format!("<!-- {list}: "))?;
    let table = begin + text[begin..].find('\n')? + 1;
    let end = table + text[table..].find("<!-- end -->")?;
    Some(format!("{}{}{}", &text[..table], self::table(names), &text[end..]))
}

fn table(names: &[&MetricDef]) -> String {
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
    fn unit_is_the_suffix_of_the_name() {
        let unit = |family| MetricDef::new(family, MetricKind::Gauge, &[], "").unit();
        assert_eq!(unit("cairn_device_energy_joules_total"), Some("joules"));
        assert_eq!(unit("cairn_link_bandwidth_bytes_per_second"), Some("bytes_per_second"));
        assert_eq!(unit("cairn_last_change_timestamp_seconds"), Some("seconds"));
        assert_eq!(unit("cairn_megahertz"), None);
        assert_eq!(unit("cairn_device_errors_total"), None);
    }

    #[test]
    fn violations_are_reported() {
        let good =
            MetricDef::new("cairn_share_ratio", MetricKind::Gauge, &["node"], "How much of it there is.");
        let bad = MetricDef::new("load_percent_total", MetricKind::Gauge, &["type"], "Load");
        assert_eq!(convention_violations(&[&good], "cairn_"), Vec::<String>::new());
        assert_eq!(
            convention_violations(&[&good, &bad, &good], "cairn_"),
            [
                "load_percent_total does not begin with cairn_",
                "load_percent_total is not in a base unit",
                "load_percent_total must end in _total if and only if it is a counter",
                "load_percent_total has the invalid label `type`",
                "load_percent_total has no help text",
                "cairn_share_ratio is a duplicate",
            ]
        );
    }

    #[test]
    fn only_the_named_table_is_replaced() {
        let name = MetricDef::new("cairn_age_seconds", MetricKind::Gauge, &["a", "b"], "How old.");
        let text = "before\n<!-- it: by a test -->\nold\n<!-- end -->\n<!-- other: -->\nold\n<!-- end -->\n";
        assert_eq!(
            update_table(text, "it", &[&name]).unwrap(),
            "before\n<!-- it: by a test -->\n\
             | name | kind | unit | labels | |\n|---|---|---|---|---|\n\
             | `cairn_age_seconds` | gauge | seconds | a, b | How old. |\n\
             <!-- end -->\n<!-- other: -->\nold\n<!-- end -->\n"
        );
        assert_eq!(update_table(text, "none", &[]), None);
    }
}
