//! The tests that `docs/ARCHITECTURE.md` names beside its invariants exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::{read, root};

/// Names of functions, and of files and folders, of all Rust sources under a folder.
fn names(folder: &Path, functions: &mut BTreeSet<String>, modules: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !stem.starts_with('.') && stem != "target" {
            modules.insert(stem);
            names(&path, functions, modules);
        } else if path.extension().is_some_and(|it| it == "rs") {
            modules.insert(stem);
            for (_, rest) in read(&path).lines().filter_map(|line| line.split_once("fn ")) {
                let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next();
                functions.extend(name.map(str::to_owned));
            }
        }
    }
}

#[test]
fn tests_named_beside_invariants_exist() {
    let page = read(&root().join("docs/ARCHITECTURE.md"));
    let (_, table) = page.split_once("## Invariants").unwrap();
    let (mut functions, mut modules) = (BTreeSet::new(), BTreeSet::from(["tests".to_owned()]));
    names(&root(), &mut functions, &mut modules);
    let is_path = |span: &&str| {
        span.contains("::") && span.chars().all(|c| c.is_lowercase() || c.is_numeric() || "_:…".contains(c))
    };
    let mut missing = Vec::new();
    for span in table.split('`').skip(1).step_by(2).filter(is_path) {
        let (module, test) = span.rsplit_once("::").unwrap();
        let begins = |start: &str| functions.iter().any(|name| name.starts_with(start));
        let exists = test.strip_suffix('…').map_or_else(|| functions.contains(test), begins);
        if !(exists || modules.contains(test)) || !module.split("::").all(|name| modules.contains(name)) {
            missing.push(span);
        }
    }
    assert!(missing.is_empty(), "docs/ARCHITECTURE.md names tests that do not exist: {missing:?}");
}
