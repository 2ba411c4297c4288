//! How many `use`s between modules of one crate stand in a cycle: the number is written down, and only falls.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use crate::modules::{Module, cycles, graph};
use crate::{crates, read, root};

/// Where the numbers are; crates without a row have none.
const WRITTEN: &str = "crates/testkit/tests/house/cycles.txt";

/// Uses between two modules of one cycle, in words.
fn uses_in_cycles(name: &str) -> Vec<String> {
    let graph = graph(&crates()[name].join("src"));
    let shown = |module: &Module| if module.is_empty() { "the root".to_owned() } else { module.join("::") };
    let mut found = Vec::new();
    for group in cycles(&graph) {
        for user in &group {
            let used = graph[user].intersection(&group);
            found.extend(used.map(|used| format!("{} uses {}", shown(user), shown(used))));
        }
    }
    found
}

#[test]
fn cycles_of_modules_only_become_fewer() {
    let text = read(&root().join(WRITTEN));
    let row = |line: &str| {
        let (name, number) = line.split_once(' ')?;
        Some((name.to_owned(), number.trim().parse::<usize>().ok()?))
    };
    let written: BTreeMap<String, usize> = text.lines().filter_map(row).collect();
    let (mut now, mut more) = (String::new(), String::new());
    for name in crates().keys() {
        let found = uses_in_cycles(name);
        let before = written.get(name).copied().unwrap_or_default();
        if found.len() > before {
            writeln!(more, "{name}: {} instead of {before}\n  {}", found.len(), found.join("\n  ")).unwrap();
        }
        if !found.is_empty() {
            writeln!(now, "{name} {}", found.len()).unwrap();
        }
    }
    assert!(more.is_empty(), "uses between modules that use each other, more than {WRITTEN} says:\n{more}");
    if now != text {
        fs::write(root().join(WRITTEN), &now).unwrap();
        panic!("there are fewer now; {WRITTEN} is written anew");
    }
}
