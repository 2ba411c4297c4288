//! Sizes of files, and public types that share a name.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{crates, read, root};

/// The maximum length of a Rust file, unit tests included.
const LONGEST: usize = 500;
/// Public types that share a name across crates: name and crates on a line each; the list only shrinks.
const SHARED: &str = "crates/testkit/tests/house/shared-names.txt";

/// The Rust files below a folder, without build output.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn no_file_is_too_long() {
    let mut files = Vec::new();
    sources(&root(), &mut files);
    let mut long = String::new();
    for file in files {
        let lines = read(&file).lines().count();
        if lines > LONGEST {
            writeln!(long, "{}: {lines} lines, at most {LONGEST}; split it by topic", file.display())
                .unwrap();
        }
    }
    assert!(long.is_empty(), "\n{long}");
}

/// The name of a public type that a line declares.
fn declared(line: &str) -> Option<String> {
    let rest = line.strip_prefix("pub ")?;
    let rest = ["struct ", "enum ", "trait ", "type "].iter().find_map(|kind| rest.strip_prefix(kind))?;
    Some(rest.split(|c: char| !c.is_alphanumeric()).next()?.to_owned())
}

#[test]
fn public_types_share_no_name() {
    let mut crates_of: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, folder) in crates() {
        let mut files = Vec::new();
        sources(&folder.join("src"), &mut files);
        // A program exports nothing.
        for file in files.iter().filter(|_| folder.join("src/lib.rs").exists()) {
            for declared in read(file).lines().filter_map(declared) {
                crates_of.entry(declared).or_default().insert(name.clone());
            }
        }
    }
    let mut now = String::new();
    for (name, crates) in crates_of.iter().filter(|(_, crates)| crates.len() > 1) {
        writeln!(now, "{name} {}", crates.iter().cloned().collect::<Vec<_>>().join(" ")).unwrap();
    }
    let path = root().join(SHARED);
    let written = read(&path);
    let known: BTreeSet<&str> = written.lines().collect();
    let new: Vec<&str> = now.lines().filter(|line| !known.contains(line)).collect();
    assert!(new.is_empty(), "types of several crates share a name; rename one of them:\n{}", new.join("\n"));
    if now != written {
        fs::write(&path, now).unwrap();
        panic!("{SHARED}: fewer types share a name; the list was written anew, commit it");
    }
}
