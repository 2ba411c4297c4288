//! The language of pages and sources.

use crate::files::sources;
use crate::links::{pages, prose, without_code};
use crate::{read, root};

/// Words that stand for objects in no page or source: an object is named by what it is.
const AVOIDED: [&str; 8] = ["told", "rings", "rung", "somebody", "nobody", "anybody", "everybody", "whoever"];
/// The sources that are checked, with their tests.
const SOURCES: [&str; 3] = ["operator", "crates/world", "crates/control"];
/// The most words of a sentence in README and Getting started.
const LONGEST: usize = 40;

/// A line without the targets of its links.
fn without_targets(line: &str) -> String {
    let mut parts = line.split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    first + &parts.filter_map(|part| part.split_once(')')).map(|(_, rest)| rest).collect::<String>()
}

#[test]
fn pages_name_objects_by_what_they_are() {
    let docs = root().join("docs");
    let others = ["adr", "results"].map(|folder| docs.join(folder));
    let ours = pages(&docs).into_iter().filter(|page| !others.iter().any(|other| page.starts_with(other)));
    let mut found = Vec::new();
    for page in ours.filter(|page| !page.ends_with("SUMMARY.md")).chain([root().join("README.md")]) {
        let text = read(&page);
        let text = if text.starts_with("<!-- Generated") { "" } else { text.as_str() };
        for (at, line) in prose(text).filter(|(_, line)| !line.starts_with("    ")) {
            let line = without_targets(&without_code(line)).to_lowercase();
            let words = line.split(|c: char| !c.is_alphabetic());
            let avoided = words.filter(|word| AVOIDED.contains(word));
            found.extend(avoided.map(|word| format!("{}:{at}: {word}", page.display())));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Comments, messages and names, whose words end at `_`; devices may be told apart.
#[test]
fn sources_name_objects_by_what_they_are() {
    let mut files = Vec::new();
    for folder in SOURCES {
        sources(&root().join(folder), &mut files);
    }
    let mut found = Vec::new();
    for file in files {
        let text = read(&file).to_lowercase();
        let words = || text.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty());
        let avoided = words().zip(words().skip(1)).filter(|pair| AVOIDED.contains(&pair.0));
        let others = avoided.filter(|pair| *pair != ("told", "apart"));
        found.extend(others.map(|(word, next)| format!("{}: {word} {next}", file.display())));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The sentences of a page: of paragraphs, items of lists and cells of tables.
fn sentences(text: &str) -> Vec<String> {
    let mut blocks = vec![String::new()];
    for (_, line) in prose(text).filter(|(_, line)| !line.starts_with("    ")) {
        let line = without_code(line);
        let starts = line.trim_start().starts_with(['-', '#', '|', '>', '<']) || line.trim().is_empty();
        if starts || line.trim_start().starts_with(|c: char| c.is_ascii_digit()) {
            blocks.push(String::new());
        }
        blocks.last_mut().unwrap().push_str(&format!("{line} ").replace('|', ". "));
    }
    blocks.iter().flat_map(|block| block.split(". ")).map(|it| it.trim().to_owned()).collect()
}

#[test]
fn sentences_of_the_first_pages_are_short() {
    for page in ["README.md", "docs/getting-started.md"] {
        for sentence in sentences(&read(&root().join(page))) {
            let words = sentence.split_whitespace().count();
            assert!(words <= LONGEST, "{page}: a sentence of {words} words: {sentence}");
        }
    }
}
