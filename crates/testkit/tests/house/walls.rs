//! `docs/ARCHITECTURE.md` has the dependency rules; `deny.toml` and the manifests say the same.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::{crates, quoted, read, root};

/// What a crate uses, and what its tests use beside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Uses {
    always: BTreeSet<String>,
    in_tests: BTreeSet<String>,
}

/// `testkit` is there for every crate's tests: no row names it.
const FOR_ALL_TESTS: &str = "testkit";

/// The table: `crate  a, b; in tests c; a remark`.
fn table() -> BTreeMap<String, Uses> {
    let page = read(&root().join("docs/ARCHITECTURE.md"));
    let section = page.split_once("## Dependency rules\n").unwrap().1;
    let section = section.split_once("\n## ").map_or(section, |(section, _)| section);
    let rows = section.lines().filter_map(|line| line.strip_prefix("    "));
    rows.filter(|row| row.starts_with(|c: char| c.is_ascii_lowercase())).map(row).collect()
}

fn row(row: &str) -> (String, Uses) {
    let (name, uses) = row.split_once(' ').unwrap_or_else(|| panic!("a row without a second column: {row}"));
    let mut parts = uses.split(';');
    let always = parts.next().unwrap_or_default();
    let in_tests = parts.find_map(|part| part.strip_prefix(" in tests ")).unwrap_or_default();
    let names = |text: &str| {
        let names =
            text.split(',').map(str::trim).filter(|name| !name.is_empty() && *name != "nothing of ours");
        names.map(str::to_owned).collect()
    };
    (name.to_owned(), Uses { always: names(always), in_tests: names(in_tests) })
}

/// What a manifest says, of our own crates.
fn manifest(folder: &Path, ours: &BTreeSet<String>) -> Uses {
    let text = read(&folder.join("Cargo.toml"));
    let (mut uses, mut section) = (Uses::default(), "");
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        }
        let Some((name, _)) = line.split_once([' ', '=', '.']).filter(|(name, _)| ours.contains(*name))
        else {
            continue;
        };
        match section {
            "dependencies" | "build-dependencies" => drop(uses.always.insert(name.to_owned())),
            "dev-dependencies" if name != FOR_ALL_TESTS => drop(uses.in_tests.insert(name.to_owned())),
            _ => {}
        }
    }
    uses
}

/// `deny.toml`: by crate, who may depend on it.
fn wrappers() -> BTreeMap<String, BTreeSet<String>> {
    let text = read(&root().join("deny.toml"));
    let rule = |line: &str| {
        let (name, rest) = line.trim().strip_prefix("{ crate = \"")?.split_once('"')?;
        let (_, rest) = rest.split_once("wrappers = [")?;
        let names = quoted(rest.split_once(']')?.0).into_iter().map(str::to_owned).collect();
        Some((name.to_owned(), names))
    };
    text.lines().filter_map(rule).collect()
}

/// Crates that stand in the table: those that do something, not the doubles and links of one of them.
fn rooms() -> BTreeSet<String> {
    crates().into_keys().filter(|name| !name.starts_with("stub-") && name != "nvml-links").collect()
}

#[test]
fn the_table_says_of_every_crate_what_it_uses() {
    let (table, rooms) = (table(), rooms());
    let rows: BTreeSet<String> = table.keys().cloned().collect();
    assert_eq!(rows, rooms, "docs/ARCHITECTURE.md, dependency rules: one row for each crate");
    for (name, folder) in crates().into_iter().filter(|(name, _)| rooms.contains(name)) {
        assert_eq!(
            manifest(&folder, &rooms),
            table[&name],
            "{name}: its Cargo.toml and docs/ARCHITECTURE.md"
        );
    }
}

#[test]
fn deny_allows_the_users_of_the_table() {
    let (table, mut denied) = (table(), wrappers());
    let all = crates();
    for name in rooms() {
        let users: BTreeSet<String> = if name == FOR_ALL_TESTS {
            let tests_with = |folder: &Path| read(&folder.join("Cargo.toml")).contains("\ntestkit = {");
            all.iter().filter(|(_, folder)| tests_with(folder)).map(|(user, _)| user.clone()).collect()
        } else {
            let uses = |uses: &Uses| uses.always.contains(&name) || uses.in_tests.contains(&name);
            table.iter().filter(|(_, row)| uses(row)).map(|(user, _)| user.clone()).collect()
        };
        let may = denied.remove(&name).unwrap_or_default();
        assert_eq!(may, users, "{name}: deny.toml, and who uses it in docs/ARCHITECTURE.md");
    }
}

#[test]
fn only_asp_links_clingo_and_only_baselines_metis() {
    let users = |library: &str| {
        let names = |folder: &Path| read(&folder.join("Cargo.toml")).contains(&format!("\n{library} = "));
        crates().into_iter().filter(|(_, folder)| names(folder)).map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(users("clingo"), ["asp"]);
    assert_eq!(users("metis"), ["baselines"]);
    let of_clingo: BTreeSet<&str> = ["asp"].into();
    assert_eq!(wrappers()["clingo"].iter().map(String::as_str).collect::<BTreeSet<_>>(), of_clingo);
}

#[test]
fn crate_dependencies_have_no_cycle() {
    let table = table();
    for name in table.keys() {
        let (mut seen, mut next) = (BTreeSet::new(), vec![name.clone()]);
        while let Some(at) = next.pop() {
            for used in &table[&at].always {
                assert_ne!(used, name, "{name} uses itself through {at}");
                if seen.insert(used.clone()) {
                    next.push(used.clone());
                }
            }
        }
    }
}
