#!/usr/bin/env python3
"""The structure of a tree of Cairn, in figures: rooms and their lines, who uses whom, cycles inside, what a criterion touches.

    docs/results/structure.py [TREE]        the tables, as Markdown

It asks `cargo metadata` who uses whom and reads the rest from the sources, without what is behind `#[cfg(test)]`. A cycle is
a set of modules right below a crate's root that reach each other by `use crate::…`; names that the root re-exports are
followed to where they are.
"""

import json
import pathlib
import re
import subprocess
import sys

# Criteria whose names mean nothing else anywhere in the sources.
CRITERIA = ["annoyance", "bottleneck", "consolidate", "interference"]


def shipped(path):
    """The text of a source file up to its unit tests, without comments."""
    text = re.split(r"^#\[cfg\(test\)\]\n(?:#\[.*\]\n)*mod ", path.read_text(), maxsplit=1, flags=re.M)[0]
    return re.sub(r"//.*", "", text)


def trees(text):
    """The paths of all `use` statements, groups written out; of a `pub use` also the name that it gives."""
    for is_public, body in re.findall(r"\b(pub(?:\([^)]*\))? )?use ([^;]+);", text):
        for path in expand(re.sub(r"\s+", "", body.replace(" as ", "=>"))):
            yield bool(is_public), path


def expand(body):
    """`a::{b,c::{d,e}}` as `a::b`, `a::c::d`, `a::c::e`."""
    start = body.find("{")
    if start < 0:
        return [body]
    depth, parts, begin = 0, [], start + 1
    for index in range(start, len(body)):
        depth += {"{": 1, "}": -1}.get(body[index], 0)
        if depth == 0 or (depth == 1 and body[index] == ","):
            parts.append(body[begin:index])
            begin = index + 1
            if depth == 0:
                break
    return [body[:start] + path for part in parts if part for path in expand(part)]


def cycles(folder):
    """The sets of modules below the root that use each other, given the folder of a crate's sources."""
    files = {path: path.relative_to(folder).with_suffix("").parts for path in sorted(folder.rglob("*.rs"))}
    roots = {("lib",), ("main",)}
    modules = {parts[0] for parts in files.values() if parts not in roots and parts[0] != "bin"}
    exported = {}
    for path, parts in files.items():
        if parts in roots:
            for _, used in trees(shipped(path)):
                steps = re.sub(r"^(crate|self)::", "", used).split("::")
                if steps[0] in modules:
                    exported[steps[-1].split("=>")[-1]] = steps[0]
    uses = {module: set() for module in modules}
    for path, parts in files.items():
        if parts in roots or parts[0] not in modules:
            continue
        text = shipped(path)
        paths = [used for _, used in trees(text)] + re.findall(r"\bcrate::[a-zA-Z_:]+", text)
        for used in paths:
            steps = used.split("::")
            if steps[0] == "super":
                up = 0
                while up < len(steps) and steps[up] == "super":
                    up += 1
                steps = ["crate", *parts[: len(parts) - up], *steps[up:]]
            if steps[0] != "crate" or len(steps) < 2:
                continue
            name = steps[1].split("=>")[0]
            target = name if name in modules else exported.get(name)
            if target and target != parts[0]:
                uses[parts[0]].add(target)
    return components(uses)


def components(uses):
    """The strongly connected components of more than one module."""

    def reached(start):
        seen, todo = set(), [start]
        while todo:
            for target in uses[todo.pop()] - seen:
                seen.add(target)
                todo.append(target)
        return seen

    reach = {module: reached(module) for module in uses}
    found = {frozenset({a} | {b for b in reach[a] if a in reach[b]}) for a in uses}
    return sorted((sorted(group) for group in found if len(group) > 1), key=lambda group: (-len(group), group))


def lines(paths):
    return sum(len(path.read_text().splitlines()) for path in paths)


def main():
    tree = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    command = ["cargo", "metadata", "--format-version=1", "--no-deps", "--locked", "--offline"]
    packages = json.loads(subprocess.run(command, cwd=tree, check=True, capture_output=True).stdout)["packages"]
    ours = {package["name"] for package in packages}
    rows, all_cycles, sources = [], [], []
    for package in sorted(packages, key=lambda package: package["name"]):
        folder = pathlib.Path(package["manifest_path"]).parent
        files = sorted((folder / "src").rglob("*.rs"))
        others = [path for part in ["tests", "benches"] for path in (folder / part).rglob("*.rs")]
        used = {it["name"] for it in package["dependencies"] if it["name"] in ours and it["kind"] is None}
        found = cycles(folder / "src")
        all_cycles += [(package["name"], group) for group in found]
        sources += files
        longest = max(files, key=lambda path: lines([path]))
        rows.append(
            f"| {package['name']} | {', '.join(sorted(used)) or '—'} | {len(files)} | {lines(files):,} | {lines(others):,} "
            f"| {lines([longest])} | {sum(len(group) for group in found) or '—'} |"
        )
    print("| room | uses | files | lines in src | lines of tests beside | longest file | modules in cycles |")
    print("|---|---|---:|---:|---:|---:|---:|")
    print("\n".join(rows))
    print(f"\nAll: {len(rows)} rooms, {len(sources)} files, {lines(sources):,} lines in src.")
    print("\nModules below a crate's root that use each other:\n")
    print("\n".join(f"- {name}: {', '.join(group)}" for name, group in all_cycles) or "none")
    print("\n| criterion | source files that name it | logic programs |\n|---|---:|---:|")
    programs = list((tree / "policies").rglob("*.lp"))
    for criterion in CRITERIA:
        named = re.compile(rf"\b({criterion}|{criterion.capitalize()}|{criterion.upper()})\b")
        count = [sum(bool(named.search(shipped(path))) for path in sources)]
        count.append(sum(bool(named.search(re.sub(r"%.*", "", path.read_text()))) for path in programs))
        print(f"| {criterion} | {count[0]} | {count[1]} |")


if __name__ == "__main__":
    main()
