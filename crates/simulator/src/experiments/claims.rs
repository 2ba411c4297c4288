//! A paper's claims compared with our results.

use std::fmt::Write as _;

/// A claim, the paper's value and ours.
pub type Claim<'a> = (&'a str, &'a str, String);

/// A Markdown table of claims, after an empty line.
pub fn claims(rows: &[Claim]) -> String {
    let mut text = String::from("\n| claim | paper | ours |\n|---|---|---|\n");
    for (claim, paper, ours) in rows {
        writeln!(text, "| {claim} | {paper} | {ours} |").expect("writing to a string succeeds");
    }
    text
}

/// The verdict on a claim, in a word.
pub const fn yes(holds: bool) -> &'static str {
    if holds { "yes" } else { "no" }
}

#[cfg(test)]
mod tests {
    use super::{claims, yes};

    #[test]
    fn a_claim_is_a_row() {
        let rows =
            [("slower", "+35 %", format!("{}: +74 %", yes(true))), ("level", "yes", yes(false).to_owned())];
        let table = "\n| claim | paper | ours |\n|---|---|---|\n| slower | +35 % | yes: +74 % |\n| level | yes | no |\n";
        assert_eq!(claims(&rows), table);
    }
}
