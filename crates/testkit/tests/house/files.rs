//! Sizes of files, and types that share a name.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{crates, read, root};

/// The maximum length of a Rust file, unit tests included.
const LONGEST: usize = 500;
/// Types that share a name: name and crates on a line each, a crate once for each of its types; the list only shrinks.
const SHARED: &str = "crates/testkit/tests/house/shared-names.txt";

/// The Rust files below a folder, without build output.
pub fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
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

/// The name of a type that a line declares outside of functions and test modules, and whether it is public.
fn declared(line: &str) -> Option<(String, bool)> {
    let public = line.strip_prefix("pub ");
    let rest = public.or_else(|| line.strip_prefix("pub(crate) ")).unwrap_or(line);
    let rest = ["struct ", "enum ", "trait ", "type "].iter().find_map(|kind| rest.strip_prefix(kind))?;
    Some((rest.split(|c: char| !c.is_alphanumeric()).next()?.to_owned(), public.is_some()))
}

/// Types of one name: by crate all of them, and how many of them are public.
type Namesakes = BTreeMap<String, (usize, usize)>;

/// Public types of several crates, and all types of one crate. A program's types count like those of a library, except those of
/// the commands of `src/bin`, which have an `Arguments` each.
fn shared_names() -> String {
    let mut types: BTreeMap<String, Namesakes> = BTreeMap::new();
    for (name, folder) in crates() {
        let mut files = Vec::new();
        sources(&folder.join("src"), &mut files);
        files.retain(|file| !file.starts_with(folder.join("src/bin")));
        for (declared, is_public) in files.iter().flat_map(|file| declarations(file)) {
            let (all, public) = types.entry(declared).or_default().entry(name.clone()).or_default();
            (*all, *public) = (*all + 1, *public + usize::from(is_public));
        }
    }
    let mut shared = String::new();
    for (name, crates) in types {
        let counted = |(name, (all, public)): (String, (usize, usize))| {
            let count = if all > 1 { all } else { public };
            std::iter::repeat_n(name, count)
        };
        let crates: Vec<String> = crates.into_iter().flat_map(counted).collect();
        if crates.len() > 1 {
            writeln!(shared, "{name} {}", crates.join(" ")).unwrap();
        }
    }
    shared
}

fn declarations(file: &Path) -> Vec<(String, bool)> {
    read(file).lines().filter_map(declared).collect()
}

#[test]
fn types_share_no_name() {
    let now = shared_names();
    let path = root().join(SHARED);
    let written = read(&path);
    let new: Vec<&str> = now.lines().filter(|line| !written.lines().any(|known| known == *line)).collect();
    assert!(new.is_empty(), "types share a name; rename one of them:\n{}", new.join("\n"));
    if now != written {
        fs::write(&path, now).unwrap();
        panic!("{SHARED}: fewer types share a name; the list was written anew, commit it");
    }
}
