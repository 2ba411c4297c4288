//! Colours, where a person looks: on a terminal, and not when `NO_COLOR` asks for none.

use std::io::IsTerminal as _;

/// How a word is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// As it is.
    #[default]
    Plain,
    /// What a table or a section is about.
    Heading,
    /// What is new, and what is well.
    Good,
    /// What changes.
    Change,
    /// What is wrong.
    Bad,
    /// What matters less.
    Faint,
}

/// Whether colours are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style(bool);

impl Style {
    /// As the terminal and the environment have it.
    pub fn of_stdout() -> Self {
        Self::of(std::io::stdout().is_terminal())
    }

    /// The same for what is printed beside the result.
    pub fn of_stderr() -> Self {
        Self::of(std::io::stderr().is_terminal())
    }

    fn of(is_terminal: bool) -> Self {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self(is_terminal && !is_set("NO_COLOR") && !is_dumb)
    }

    /// The text in its tone.
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
    fn colours_are_put_around_words_and_only_where_they_are_wanted() {
        assert_eq!(Style(true).paint(Tone::Bad, "no place"), "\u{1b}[31mno place\u{1b}[0m");
        assert_eq!(Style(true).paint(Tone::Plain, "gpu"), "gpu");
        assert_eq!(Style(false).paint(Tone::Bad, "no place"), "no place");
    }
}
