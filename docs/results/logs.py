#!/usr/bin/env python3
"""Turns the output of other measurement programs into a Markdown table.

logs.py criterion LOG            benchmarks of criterion
logs.py fuzz TARGET=LOG…         cargo-fuzz, with -print_final_stats=1
logs.py tests LOG…               tests passed and failed per test binary, and their time
logs.py real-nodes LOG           the rows that e2e's test real_nodes prints
"""

import pathlib
import re
import sys


def text_of(path):
    return pathlib.Path(path).read_text(encoding="utf-8", errors="replace")


def criterion(log):
    yield "| benchmark | estimate | 95 % interval |"
    yield "|---|---:|---:|"
    value = r"([\d.]+ \S+)"
    for name, low, middle, high in re.findall(rf"^(\S.*?)\s+time:\s+\[{value} {value} {value}\]", text_of(log), re.M):
        yield f"| {name} | {middle} | {low} to {high} |"


def fuzz(*targets):
    yield "| target | seconds | executions | new coverage units | peak memory, MiB |"
    yield "|---|---:|---:|---:|---:|"
    for target in targets:
        name, log = target.split("=", 1)
        said = text_of(log)
        if "Done " not in said:
            sys.exit(f"logs.py: {log} has no final statistics; read it for the cause")
        runs, seconds = re.search(r"^Done (\d+) runs in (\d+) second", said, re.M).groups()
        kept, memory = (re.search(rf"^stat::{it}:\s+(\d+)", said, re.M)[1] for it in ["new_units_added", "peak_rss_mb"])
        yield f"| {name} | {int(seconds):,} | {int(runs):,} | {int(kept):,} | {memory} |"


def tests(*logs):
    yield "| test binary | passed | failed | seconds |"
    yield "|---|---:|---:|---:|"
    row = r"^\s+Running (?:\S+ )?(\S+) \(.*?\)$.*?^test result: \w+\. (\d+) passed; (\d+) failed;.*?finished in ([\d.]+)s"
    for log in logs:
        for program, passed, failed, seconds in re.findall(row, text_of(log), re.M | re.S):
            yield f"| {program} | {passed} | {failed} | {seconds} |"


def real_nodes(log):
    yield "| mode | node | process start to NodeTopology written | RSS at that time |"
    yield "|---|---|---:|---:|"
    yield from re.findall(r"^\| (?:hardware|described).*\|$", text_of(log), re.M)


def main():
    ways = {"criterion": criterion, "fuzz": fuzz, "tests": tests, "real-nodes": real_nodes}
    if len(sys.argv) < 3 or sys.argv[1] not in ways:
        sys.exit(__doc__)
    rows = list(ways[sys.argv[1]](*sys.argv[2:]))
    if len(rows) < 3:
        sys.exit(f"logs.py: no measurement found in {', '.join(sys.argv[2:])}; read it for the cause")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
