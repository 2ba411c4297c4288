//! Cuts long words of a message.

/// The most characters of a word that is not cut.
const LONGEST: usize = 100;
/// The characters that a cut word keeps.
const KEPT: usize = 80;

/// The message with its long words cut, as input that it repeats can have any length. Paths stay whole.
pub fn shortened(message: &str) -> String {
    message.split_inclusive(char::is_whitespace).map(cut).collect()
}

fn cut(word: &str) -> String {
    if word.contains('/') || word.trim_end().chars().nth(LONGEST).is_none() {
        return word.to_owned();
    }
    let kept: String = word.chars().take(KEPT).collect();
    // The quotation mark and the blank that end it.
    let rest = word.trim_end_matches(|last: char| !last.is_alphanumeric());
    let end = if word.len() - rest.len() < 5 { &word[rest.len()..] } else { "" };
    format!("{kept}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_are_cut_and_paths_stay() {
        let (long, path) = ("x".repeat(101), format!("/{}", "p".repeat(200)));
        let message = format!("{path}: `{long}`, not {}\n", &long[1..]);
        let expected = format!("{path}: `{}…`, not {}\n", &long[..79], &long[1..]);
        assert_eq!(shortened(&message), expected);
        assert_eq!(shortened(&"é".repeat(500)), "é".repeat(80) + "…");
        assert_eq!(shortened(&"!".repeat(500)), "!".repeat(80) + "…");
    }
}
