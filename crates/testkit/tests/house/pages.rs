//! Every table of `docs/results` is made by `make bench`: pages say at which commit, and what was measured by hand is history.

use std::fs;
use std::path::{Path, PathBuf};

use super::{read, root};

/// What stands on pages that are written by hand: lists of pages.
const LISTS: [&str; 2] = ["| page |", "| experiment |"];

fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|it| it == "md") {
            found.push(path);
        }
    }
}

/// The first rows of a page's tables.
fn heads(text: &str) -> impl Iterator<Item = &str> {
    let above = std::iter::once("").chain(text.lines());
    text.lines()
        .zip(above)
        .filter(|(line, above)| line.starts_with('|') && !above.starts_with('|'))
        .map(|(line, _)| line)
}

/// What is wrong with a page, if something is.
fn complaint(name: &str, text: &str) -> Option<String> {
    let by_hand = |head: &&str| !LISTS.iter().any(|list| head.starts_with(list));
    let said = ["Made at ", "Commit `", "| commit |"];
    match name {
        _ if name.starts_with("history/") => None,
        "README.md" => heads(text).find(by_hand).map(|head| format!("a table that no program makes: {head}")),
        _ if heads(text).next().is_none() || said.iter().any(|it| text.contains(it)) => None,
        _ => Some("it does not say at which commit it was made".to_owned()),
    }
}

#[test]
fn every_table_of_the_results_is_made_by_a_program_or_is_history() {
    let mut found = Vec::new();
    pages(&root().join("docs/results"), &mut found);
    assert!(found.len() > 20, "{found:?}");
    let problems = found.iter().filter_map(|path| {
        let file = path.file_name()?.to_str()?;
        let is_history = path.parent().is_some_and(|folder| folder.ends_with("history"));
        let name = if is_history { format!("history/{file}") } else { file.to_owned() };
        Some(format!("{}: {}", path.display(), complaint(&name, &read(path))?))
    });
    let problems: Vec<String> = problems.collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn a_table_by_hand_is_found() {
    let table = "# Title\n\n| what | s |\n|---|---|\n| a | 1 |\n";
    assert!(complaint("README.md", table).unwrap().contains("| what | s |"));
    assert!(complaint("page.md", table).is_some());
    assert!(complaint("page.md", &format!("{table}\nMade by `cairn-sim experiment gamma`.\n")).is_some());
    assert_eq!(complaint("history/scale.md", table), None);
    assert_eq!(complaint("page.md", &format!("{table}\nMade at 0123456 by `make bench`.\n")), None);
    assert_eq!(complaint("README.md", "| page | what |\n|---|---|\n"), None);
    assert_eq!(complaint("page.md", "No table.\n"), None);
}

/// Decimals of at least four characters, such as 0.82.
fn figures(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_digit() && c != '.' && c != ',');
    words.map(|word| word.trim_matches(['.', ','])).filter(|word| word.len() > 3 && word.contains('.'))
}

#[test]
fn decimals_of_the_index_stand_on_the_linked_pages() {
    let folder = root().join("docs/results");
    let index = read(&folder.join("README.md"));
    let mut checked = 0;
    for row in index.lines().filter(|line| line.starts_with("| [")) {
        let links = row.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let linked: String = links.map(|link| read(&folder.join(link))).collect();
        let text: String = row.split(']').skip(1).collect();
        for figure in figures(&text) {
            assert!(
                linked.contains(figure),
                "docs/results/README.md: {figure} is not on the linked pages: {row}"
            );
            checked += 1;
        }
    }
    assert!(checked > 20, "{checked}");
}
