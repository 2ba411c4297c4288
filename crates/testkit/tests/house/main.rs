//! The tree itself: dependencies of crates are as documented, and cycles of modules only become fewer.
#![expect(clippy::unwrap_used, reason = "a test that cannot read the tree should fail at once")]

mod cycles;
mod files;
mod invariants;
mod links;
mod modules;
mod pages;
mod walls;
mod words;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The root of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The workspace's crates: name and folder, as the manifest of the workspace lists them.
fn crates() -> BTreeMap<String, PathBuf> {
    let manifest = read(&root().join("Cargo.toml"));
    let members = manifest.split_once("members = [").and_then(|(_, rest)| rest.split_once(']')).unwrap().0;
    let folders = quoted(members).into_iter().map(|folder| root().join(folder));
    folders.map(|folder| (name_of(&folder), folder)).collect()
}

fn name_of(folder: &Path) -> String {
    let manifest = read(&folder.join("Cargo.toml"));
    let line = manifest.lines().find_map(|line| line.strip_prefix("name = "));
    line.unwrap().trim_matches('"').to_owned()
}

/// What stands between double quotes.
fn quoted(text: &str) -> Vec<&str> {
    text.split('"').skip(1).step_by(2).collect()
}
