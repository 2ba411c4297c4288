#!/usr/bin/env python3
"""The structure of the source tree per crate: files, files per folder, longest file, production lines, dependencies, module cycles.

    docs/results/structure.py [TREE]         of a directory, the current one by default
    docs/results/structure.py --rev REV      of a git revision

Prints Markdown. Dependencies come from `cargo metadata`, everything else from the sources under `src`. Production lines are
lines outside `#[cfg(test)]` modules, comments and blank lines included. A cycle is a set of modules directly below a crate's root
that reach each other by `use crate::…`; names that the root re-exports are resolved.
"""

import argparse
import io
import json
import pathlib
import re
import subprocess
import tarfile
import tempfile

# Criteria whose names mean nothing else anywhere in the sources.
CRITERIA = ["annoyance", "bottleneck", "consolidate", "interference"]


TEST_FILE = re.compile(r"^#\[cfg\(test\)\]\n(?:#\[.*\]\n)*(?:pub(?:\([^)]*\))? )?mod (\w+);\n", re.M)


def production(path):
    """The text of a source file up to its unit tests."""
    text = TEST_FILE.sub("", path.read_text())
    return re.split(r"^#\[cfg\(test\)\]\n(?:#\[.*\]\n)*mod ", text, maxsplit=1, flags=re.M)[0]


def shipped(path):
    """The same without comments."""
    return re.sub(r"//.*", "", production(path))


def test_files(files):
    """The source files of modules that are declared under `#[cfg(test)]`."""
    found = set()
    for path in files:
        folder = path.parent if path.stem in ("lib", "main", "mod") else path.with_suffix("")
        for name in TEST_FILE.findall(path.read_text()):
            found |= {folder / f"{name}.rs", folder / name / "mod.rs"}
    return found


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


def production_lines(files):
    tests = test_files(files)
    return sum(len(production(path).splitlines()) for path in files if path not in tests)


def fullest_folder(files):
    """The most source files of one folder."""
    folders = [path.parent for path in files]
    return max(folders.count(folder) for folder in set(folders))


def tables(tree):
    command = ["cargo", "metadata", "--format-version=1", "--no-deps", "--locked", "--offline"]
    packages = json.loads(subprocess.run(command, cwd=tree, check=True, capture_output=True).stdout)["packages"]
    ours = {package["name"] for package in packages}
    rows, all_cycles, sources, all_tests = [], [], [], []
    for package in sorted(packages, key=lambda package: package["name"]):
        folder = pathlib.Path(package["manifest_path"]).parent
        files = sorted((folder / "src").rglob("*.rs"))
        others = [path for part in ["tests", "benches"] for path in (folder / part).rglob("*.rs")]
        used = {it["name"] for it in package["dependencies"] if it["name"] in ours and it["kind"] is None}
        found = cycles(folder / "src")
        all_cycles += [(package["name"], group) for group in found]
        sources += files
        all_tests += others
        rows.append(
            f"| {package['name']} | {', '.join(sorted(used)) or '—'} | {len(files)} | {fullest_folder(files)} "
            f"| {max(lines([path]) for path in files)} | {production_lines(files):,} "
            f"| {lines(files) - production_lines(files) + lines(others):,} | {sum(len(group) for group in found) or '—'} |"
        )
    print("| crate | depends on | files | files in the fullest folder | longest file | production lines | test lines | modules in cycles |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    print("\n".join(rows))
    tested = lines(sources) - production_lines(sources) + lines(all_tests)
    in_cycles = sum(len(group) for _, group in all_cycles) or "—"
    print(
        f"| **all {len(rows)}** | | {len(sources)} | {fullest_folder(sources)} | {max(lines([path]) for path in sources)} "
        f"| {production_lines(sources):,} | {tested:,} | {in_cycles} |"
    )
    longest = max(all_tests, key=lambda path: lines([path]))
    print(f"\nLongest test file: `{longest.relative_to(tree)}`, {lines([longest])} lines.")
    print("\nModule cycles:\n")
    print("\n".join(f"- {name}: {', '.join(group)}" for name, group in all_cycles) or "none")
    print("\n| criterion | source files that name it | logic programs |\n|---|---:|---:|")
    programs = list((tree / "policies").rglob("*.lp"))
    for criterion in CRITERIA:
        named = re.compile(rf"\b({criterion}|{criterion.capitalize()}|{criterion.upper()})\b")
        count = [sum(bool(named.search(shipped(path))) for path in sources)]
        count.append(sum(bool(named.search(re.sub(r"%.*", "", path.read_text()))) for path in programs))
        print(f"| {criterion} | {count[0]} | {count[1]} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", nargs="?", default=".", type=pathlib.Path)
    parser.add_argument("--rev", help="a git revision of the repository that TREE is in")
    asked = parser.parse_args()
    if not asked.rev:
        return tables(asked.tree.resolve())
    command = ["git", "-C", str(asked.tree), "archive", "--format=tar", asked.rev]
    archive = subprocess.run(command, check=True, capture_output=True).stdout
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
        tables(pathlib.Path(folder).resolve())


if __name__ == "__main__":
    main()
