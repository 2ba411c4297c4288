#!/usr/bin/env python3
"""Measures CPU time, wall clock and memory of the task graph commands.

taskgraph-speed.py CAIRN-SIM --commit COMMIT [--runs N] [--table-runs N] [--out FOLDER]
"""

import argparse
import os
import pathlib
import subprocess
import tempfile
import time

PAGE = """# Speed of task graph scheduling and mapping

CPU time of the whole process (all threads, start, input and output), wall clock and peak memory on {cores} cores: min / median / max of {runs} runs,
one run for rows marked *. A ratio above 1 misses the target. Single functions are in [kernels.md](kernels.md).

| CPU time ÷ target | task | target | CPU time | wall clock | MiB | command |
|---:|---|---:|---:|---:|---:|---|
{table}

`g1008`, `g5068` and `g10` are `cairn-sim dag generate gram-schmidt --strip 22`, `--strip 50` and `ten-node`; `p32` is

```yaml
{platform}```

Targets are wall clock on two cores for the sweep (30 s) and the 256 regions (5 min), on one core for the others; the table states them as CPU time.

Made at {commit} by `make bench`, which runs `docs/results/taskgraph-speed.py`.
"""

PLATFORM = """pes: [{kind: cpu, count: 16, work: 1048576, vector: 4}, {kind: gpu, count: 16, work: 65536, vector: 32}]
links: {bandwidth: 4e9}
"""


def commands(table_runs):
    """Name, target in seconds of CPU time or None, whether it is run once only, and the command."""
    yield "sweep, 3,480 runs (on the board: under 3 h)", 60, False, "experiment cedr-sweep --out out"
    yield "improved annealing, 1,008 tasks on 32 PEs, to convergence", 15, False, "dag map --mapper annealing-improved --graph g1008 --platform p32"
    yield "standard annealing, the same graph", None, False, "dag map --mapper annealing-standard --graph g1008 --platform p32"
    yield "K-way, 5,068 tasks on 32 PEs", 1, False, "dag map --mapper kway --graph g5068 --platform p32"
    yield "mapping table entry, 100 tasks (paper: about 10 min)", 30, True, "experiment semi-static-time --out out"
    yield (
        f"256 regions of the ten-node graph, {10 * table_runs} runs each",
        600,
        True,
        f"dag table build --graph g10 --platform p10 --samples 10 --runs {table_runs} --out t.json",
    )


def run(binary, arguments, folder):
    began = time.monotonic()
    with subprocess.Popen([binary, *arguments], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:
        problem = child.stderr.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise SystemExit(f"{' '.join(arguments)} ended with {child.returncode}:\n{problem}")
    return usage.ru_utime + usage.ru_stime, time.monotonic() - began, usage.ru_maxrss / 1024


def prepare(binary, folder):
    """The graphs and platforms by the short names used in the commands."""
    files = {}
    for name, kind in [("g1008", "gram-schmidt --strip 22"), ("g5068", "gram-schmidt --strip 50"), ("g10", "ten-node")]:
        run(binary, ["dag", "generate", *kind.split(), "--out", name], folder)
        (graph,) = (file for file in (folder / name).iterdir() if not file.name.startswith("platform"))
        files[name] = str(graph)
    (folder / "p32.yaml").write_text(PLATFORM)
    return files | {"p32": "p32.yaml", "p10": "g10/platform.yaml"}


def told(values, digits):
    return " / ".join(f"{value:.{digits}f}" for value in sorted(values))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("simulator", help="cairn-sim")
    parser.add_argument("--commit", required=True)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent, help="the folder of the page")
    parser.add_argument("--runs", type=int, default=3, help="of what is not slow")
    parser.add_argument("--table-runs", type=int, default=10, help="of the genetic algorithm for each vector of a region")
    asked = parser.parse_args()
    binary, rows = os.path.abspath(asked.simulator), []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        files = prepare(binary, folder)
        for what, limit, slow, command in commands(asked.table_runs):
            arguments = [files.get(word, word) for word in command.split()]
            runs = sorted(run(binary, arguments, folder) for _ in range(1 if slow else asked.runs))
            middle = runs[len(runs) // 2]
            shown = [runs[0], middle, runs[-1]] if len(runs) > 1 else runs
            processor, wall = (told([it[at] for it in shown], 2) for at in (0, 1))
            ratio = f"{middle[0] / limit:.2f}" if limit else ""
            wanted = f"{limit} s" if limit else ""
            memory = max(it[2] for it in runs)
            rows.append(f"| {ratio} | {what}{' *' if slow else ''} | {wanted} | {processor} s | {wall} s | {memory:.0f} | `cairn-sim {command}` |")
            print(rows[-1], flush=True)
    page = PAGE.format(runs=asked.runs, cores=os.cpu_count(), table="\n".join(rows), platform=PLATFORM, commit=asked.commit)
    (asked.out / "taskgraph-speed.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
