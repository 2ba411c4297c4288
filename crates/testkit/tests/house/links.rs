//! Links between pages lead somewhere, and `docs/SUMMARY.md` lists every page of the documentation site.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{read, root};

/// Folders of `docs` whose entries in the summary are written by the test below.
const LISTED: [&str; 3] = ["runbooks", "results", "adr"];
/// Folders that the documentation site holds beside `docs`; their pages are not rendered.
const BESIDE: [&str; 3] = ["examples", "policies", "charts"];
/// Folders whose files the documentation names from the root of the tree.
const TOP: [&str; 8] =
    ["crates/", "crds/", "operator/", "node-agent/", "e2e/", "charts/", "policies/", "examples/"];
/// Folders without pages of ours.
const SKIPPED: [&str; 4] = ["target", ".git", "images", "corpus"];

/// Every page under a folder, sorted.
pub fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    let mut found = Vec::new();
    for path in entries {
        if path.is_dir() && !SKIPPED.iter().any(|it| path.ends_with(it)) {
            found.extend(pages(&path));
        } else if path.extension().is_some_and(|it| it == "md") {
            found.push(path);
        }
    }
    found
}

/// The lines of a page that are not inside a code block, numbered from 1.
pub fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut inside = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        (!inside && !fence).then_some((at + 1, line))
    })
}

/// A line without its code spans.
pub fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// The targets of a line's links.
fn links(line: &str) -> Vec<String> {
    let line = without_code(line);
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).collect()
}

/// The anchors of a page's headings, as GitHub and mdBook form them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, line) in prose(text).filter(|(_, line)| line.starts_with('#')) {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let repeated = (1..).map(|n| format!("{anchor}-{n}"));
        let free = std::iter::once(anchor.clone()).chain(repeated).find(|it| !found.contains(it));
        found.extend(free);
    }
    found
}

/// What is wrong with a link of a page, if something is.
fn dead(page: &Path, target: &str, docs: &Path) -> Option<&'static str> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let file = if file.is_empty() { page.to_owned() } else { page.parent()?.join(file) };
    let Ok(file) = file.canonicalize() else { return Some("no such file") };
    let is_page = file.extension().is_some_and(|it| it == "md");
    if page.starts_with(docs) {
        let beside = BESIDE.iter().any(|it| file.starts_with(docs.with_file_name(it)));
        if !beside && !file.starts_with(docs) || is_page && beside {
            return Some("not on the documentation site");
        }
        if file.is_dir() {
            return Some("a folder: link to a page");
        }
    }
    (is_page && !anchor.is_empty() && !anchors(&read(&file)).contains(anchor)).then_some("no such heading")
}

#[test]
fn links_between_pages_resolve() {
    let root = root();
    let mut wrong = Vec::new();
    for page in pages(&root) {
        for (at, line) in prose(&read(&page)) {
            for target in links(line) {
                if let Some(reason) = dead(&page, &target, &root.join("docs")) {
                    wrong.push(format!("{}:{at}: {target}: {reason}", page.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The title of a page, as it can stand in a link.
fn title(page: &Path) -> String {
    let text = read(page);
    let title = text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or("untitled");
    title.replace('[', "\\[").replace(']', "\\]")
}

/// Summary entries of the pages of a folder; a subfolder's pages stand below its `README.md`.
fn entries(folder: &Path, docs: &Path, depth: usize, lines: &mut Vec<String>) {
    let entry = |page: &Path| {
        let path = page.strip_prefix(docs).unwrap().display();
        format!("{}- [{}]({path})", "  ".repeat(depth), title(page))
    };
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let (folders, files): (Vec<_>, Vec<_>) = paths.into_iter().partition(|path| path.is_dir());
    let is_page =
        |path: &&PathBuf| path.extension().is_some_and(|it| it == "md") && !path.ends_with("README.md");
    lines.extend(files.iter().filter(is_page).map(|page| entry(page)));
    for folder in folders {
        let index = folder.join("README.md");
        let below = usize::from(index.exists());
        if index.exists() {
            lines.push(entry(&index));
        }
        entries(&folder, docs, depth + below, lines);
    }
}

#[test]
fn the_summary_lists_every_page() {
    let docs = root().join("docs");
    let file = docs.join("SUMMARY.md");
    let written = read(&file);
    let mut lines: Vec<String> = Vec::new();
    for line in written.lines() {
        let is_of = |folder: &&str| line.starts_with("  ") && line.contains(&format!("]({folder}/"));
        if !LISTED.iter().any(is_of) {
            lines.push(line.to_owned());
        }
        let is_index = |folder: &&&str| {
            line.ends_with(&format!("({folder}/README.md)")) || line.ends_with(&format!("/{folder}.md)"))
        };
        if let Some(folder) = LISTED.iter().find(is_index).filter(|_| line.starts_with("- ")) {
            entries(&docs.join(folder), &docs, 1, &mut lines);
        }
    }
    let wanted = lines.join("\n") + "\n";
    if wanted != written {
        fs::write(&file, &wanted).unwrap();
        panic!("pages or titles changed, so docs/SUMMARY.md was updated; commit it");
    }
    let listed: BTreeSet<PathBuf> = wanted.lines().flat_map(links).map(|link| docs.join(link)).collect();
    let missing: Vec<_> = pages(&docs).into_iter().filter(|it| *it != file && !listed.contains(it)).collect();
    assert!(missing.is_empty(), "docs/SUMMARY.md does not list {missing:?}");
}

/// Code spans that name a file or folder of the tree.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    let is_path = |span: &&str| {
        TOP.iter().any(|top| span.starts_with(top))
            && span.chars().all(|c| c.is_alphanumeric() || "/._-".contains(c))
    };
    line.split('`').skip(1).step_by(2).filter(is_path)
}

#[test]
fn files_named_in_pages_exist() {
    let root = root();
    let docs = root.join("docs");
    let records = ["adr", "results"].map(|folder| docs.join(folder));
    let mut missing = Vec::new();
    for page in pages(&docs).iter().filter(|page| !records.iter().any(|it| page.starts_with(it))) {
        for (at, line) in prose(&read(page)) {
            let dead = paths(line).filter(|path| !root.join(path).exists());
            missing.extend(dead.map(|path| format!("{}:{at}: {path}", page.display())));
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn dead_links_are_found() {
    let page = root().join("docs/ARCHITECTURE.md");
    let docs = root().join("docs");
    assert_eq!(dead(&page, "https://example.com/x", &docs), None);
    assert_eq!(dead(&page, "getting-started.md", &docs), None);
    assert_eq!(dead(&page, "nothing.md", &docs), Some("no such file"));
    assert_eq!(dead(&page, "getting-started.md#nothing", &docs), Some("no such heading"));
    assert!(dead(&page, "../README.md", &docs).is_some() && dead(&page, "adr", &docs).is_some());
    assert_eq!(links("[a](b.md) and `[c](d.md)`, [e](f.md#g)"), ["b.md", "f.md#g"]);
    assert!(anchors("# Made `by` hand: 1\n").contains("made-by-hand-1"));
}
