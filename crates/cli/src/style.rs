//! Colours of terminal output; disabled by `NO_COLOR`.

use std::io::IsTerminal as _;

/// The tone of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Default.
    #[default]
    Plain,
    /// A heading.
    Heading,
    /// New or healthy.
    Good,
    /// A change.
    Change,
    /// A problem.
    Bad,
    /// Less important.
    Faint,
}

/// Whether to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style(bool);

impl Style {
    /// The style of standard output.
    pub fn of_stdout() -> Self {
        Self::of(std::io::stdout().is_terminal())
    }

    /// The style of standard error.
    pub fn of_stderr() -> Self {
        Self::of(std::io::stderr().is_terminal())
    }

    pub fn of(is_terminal: bool) -> Self {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self(is_terminal && !is_set("NO_COLOR") && !is_dumb)
    }

    /// Whether a text begins with what follows the escape character of a tone.
    pub fn is_code(text: &str) -> bool {
        ["[1m", "[32m", "[33m", "[31m", "[2m", "[0m"].iter().any(|code| text.starts_with(code))
    }

    /// Applies the tone to the text.
    pub fn paint(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Plain => "",
            Tone::Heading => "1",
            Tone::Good => "32",
            Tone::Change => "33",
            Tone::Bad => "31",
            Tone::Faint => "2",
        };
        if !self.0 || code.is_empty() || text.is_empty() {
            return text.to_owned();
        }
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_applied_only_if_enabled() {
        assert_eq!(Style(true).paint(Tone::Bad, "unplaced"), "\u{1b}[31munplaced\u{1b}[0m");
        assert_eq!(Style(true).paint(Tone::Plain, "gpu"), "gpu");
        assert_eq!(Style(false).paint(Tone::Bad, "unplaced"), "unplaced");
    }
}
