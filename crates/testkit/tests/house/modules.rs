//! The modules of a crate and their dependencies on each other, read from the source.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::read;

/// A module by its path; the root is empty.
pub type Module = Vec<String>;

/// Every module, and those it uses.
pub type Graph = BTreeMap<Module, BTreeSet<Module>>;

/// The graph of the modules below `src`, tests left out; a module that is a file of its own is one.
///
/// A name that a module hands on (`pub use`) stands for the module that it comes from.
pub fn graph(src: &Path) -> Graph {
    let mut texts = BTreeMap::new();
    collect(src, &mut Vec::new(), &mut texts);
    let mut handed_on: BTreeMap<Module, BTreeMap<String, Module>> = BTreeMap::new();
    for (module, text) in &texts {
        for (is_handed_on, path) in uses(text) {
            let found = resolve(module, &path, &texts).filter(|_| is_handed_on);
            if let Some(((found, _), name)) = found.zip(path.last()) {
                handed_on.entry(module.clone()).or_default().insert(name.clone(), found);
            }
        }
    }
    let mut graph = Graph::new();
    for (module, text) in &texts {
        let paths = uses(text).into_iter().map(|(_, path)| path).chain(inline(text));
        let mut used: BTreeSet<Module> = BTreeSet::new();
        for path in paths {
            let Some((found, names)) = resolve(module, &path, &texts) else { continue };
            let last = path.get(names);
            let real = last.and_then(|name| handed_on.get(&found)?.get(name)).unwrap_or(&found);
            used.insert(real.clone());
        }
        used.remove(module);
        graph.insert(module.clone(), used);
    }
    graph
}

/// Modules in groups that use each other, directly or through others; those alone are left out.
pub fn cycles(graph: &Graph) -> Vec<BTreeSet<Module>> {
    let reach: BTreeMap<&Module, BTreeSet<&Module>> = graph
        .keys()
        .map(|start| {
            let (mut seen, mut next) = (BTreeSet::new(), vec![start]);
            while let Some(at) = next.pop() {
                next.extend(graph[at].iter().filter(|used| graph.contains_key(*used) && seen.insert(*used)));
            }
            (start, seen)
        })
        .collect();
    let mut groups: Vec<BTreeSet<Module>> = Vec::new();
    for module in graph.keys() {
        let group: BTreeSet<Module> = reach[module]
            .iter()
            .filter(|other| reach[**other].contains(module))
            .map(|&m| m.clone())
            .collect();
        if group.len() > 1 && !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups
}

fn collect(folder: &Path, at: &mut Module, texts: &mut BTreeMap<Module, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            if stem != "bin" {
                at.push(stem);
                collect(&path, at, texts);
                at.pop();
            }
        } else if path.extension().is_some_and(|ending| ending == "rs") && stem != "tests" {
            let is_own = matches!(stem.as_str(), "mod" | "lib" | "main");
            let module = at.iter().cloned().chain((!is_own).then_some(stem)).collect();
            let text = code(&read(&path));
            texts.entry(module).and_modify(|all: &mut String| all.push_str(&text)).or_insert(text);
        }
    }
}

/// The text without comments and without what is compiled for tests alone.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let line = |line: &str| line.split("//").next().unwrap_or_default().trim().to_owned() + " ";
    text.lines().map(line).collect()
}

/// Paths of `use` items, groups taken apart; true for those that are handed on.
fn uses(text: &str) -> Vec<(bool, Vec<String>)> {
    let mut found = Vec::new();
    for (start, _) in text.match_indices("use ") {
        let before = text[..start].trim_end();
        let is_handed_on = before.ends_with("pub") || before.ends_with("pub(crate)");
        let begins = before.is_empty() || before.ends_with([';', '{', '}', ']']) || is_handed_on;
        let Some((tree, _)) = text[start + 4..].split_once(';').filter(|_| begins) else { continue };
        let mut paths = Vec::new();
        expand(tree, &[], &mut paths);
        found.extend(paths.into_iter().map(|path| (is_handed_on, path)));
    }
    found
}

/// `a::{b, c::d}` as `a::b` and `a::c::d`.
fn expand(tree: &str, prefix: &[String], paths: &mut Vec<Vec<String>>) {
    let tree = tree.trim();
    let Some((head, group)) = tree.split_once('{') else {
        let name = tree.split(" as ").next().unwrap_or_default();
        let names = name.split("::").map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
        paths.push(prefix.iter().cloned().chain(names).filter(|name| name != "self").collect());
        return;
    };
    let names = head.split("::").map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
    let prefix: Vec<String> = prefix.iter().cloned().chain(names).collect();
    let group = group.rsplit_once('}').map_or(group, |(group, _)| group);
    let (mut depth, mut from) = (0, 0);
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&group[from..at], &prefix, paths);
                from = at + 1;
            }
            _ => {}
        }
    }
    if !group[from..].trim().is_empty() {
        expand(&group[from..], &prefix, paths);
    }
}

/// Paths in the middle of code that begin at the root or above.
fn inline(text: &str) -> Vec<Vec<String>> {
    let starts = ["crate::", "super::"].into_iter().flat_map(|word| text.match_indices(word));
    let path = |(start, _): (usize, &str)| {
        let path: String =
            text[start..].chars().take_while(|c| c.is_alphanumeric() || matches!(c, '_' | ':')).collect();
        path.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect()
    };
    // A group of a `use` is taken apart elsewhere.
    let names_something = |path: &Vec<String>| path.iter().any(|name| name != "crate" && name != "super");
    starts.map(path).filter(names_something).collect()
}

/// Where a path starts, and how many of its names say so; none for paths into other crates.
fn relative_to(module: &[String], path: &[String]) -> Option<(Module, usize)> {
    let up = path.iter().take_while(|name| *name == "super").count();
    match path.first()?.as_str() {
        "crate" => Some((Vec::new(), 1)),
        "super" => Some((module[..module.len().checked_sub(up)?].to_vec(), up)),
        _ => None,
    }
}

/// The module that a path names, or names something in, and how many of its names say so.
fn resolve(module: &[String], path: &[String], texts: &BTreeMap<Module, String>) -> Option<(Module, usize)> {
    // A path that starts with a child's name is one of ours too.
    let child = |name: &String| texts.contains_key(&[module, std::slice::from_ref(name)].concat());
    let (mut at, mut names) = match relative_to(module, path) {
        Some(start) => start,
        None if path.first().is_some_and(child) => (module.to_vec(), 0),
        None => return None,
    };
    for name in &path[names..] {
        at.push(name.clone());
        if !texts.contains_key(&at) {
            at.pop();
            break;
        }
        names += 1;
    }
    Some((at, names))
}

#[test]
fn paths_are_taken_apart() {
    let text = code(
        "use crate::a::{self, B, c::{D, E as F}}; // use x::y;\npub use b::G;\nfn f() { crate::k::l(); }",
    );
    let paths: Vec<String> = uses(&text)
        .into_iter()
        .map(|(is_handed_on, path)| format!("{}{}", path.join("::"), if is_handed_on { "!" } else { "" }))
        .collect();
    assert_eq!(paths, ["crate::a", "crate::a::B", "crate::a::c::D", "crate::a::c::E", "b::G!"]);
    assert!(inline(&text).iter().any(|path| path.join("::") == "crate::k::l"));
}

#[test]
fn what_uses_each_other_is_found() {
    let module = |name: &str| vec![name.to_owned()];
    let edges = [("a", "b"), ("b", "c"), ("c", "a"), ("d", "a"), ("e", "f"), ("f", "e")];
    let mut graph = Graph::new();
    for (user, used) in edges {
        graph.entry(module(user)).or_default().insert(module(used));
    }
    let found: Vec<usize> = cycles(&graph).iter().map(BTreeSet::len).collect();
    assert_eq!(found, [3, 2]);
}
