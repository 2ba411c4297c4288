#!/usr/bin/env python3
"""Channels between large groups: time to the first plan, cost after 5 s, and memory.

groups.py KUBECTL-CAIRN --commit COMMIT: appends the missing runs of that commit to groups.jsonl, one run of a seed per line,
and writes groups.md from it; `--out`, `--seeds` and `--budget` change the folder and the runs. groups.py --snapshots FOLDER:
writes the instance of 120,000 edges, both as channels and with every pair listed, for other measurements.
"""

import argparse
import json
import os
import random
import subprocess
import tempfile
import time

PAGE = """# Channels between large groups

Two or three groups in a row; each actor sends to each actor of the next group. Manifests have identical actors; snapshots have work and rates
drawn from a seed, at half of the units' capacity. Medians over the seeds {seeds}; each seed is another instance, so min and max are not
search variance. *First plan* is the wall clock of `--effort=1`, process start and check by clingo included; memory is that of the largest process.

| instance | first plan, s | communication after {budget} s, median (min, max) | MiB | checked by |
|---|---:|---:|---:|---|
{table}

Made at {commit} by `make bench`: `docs/results/placement/groups.py`; the runs are in groups.jsonl.
"""

# Sizes of the stages, and units.
DENSE = (200, 300, 200), 192


def nodes(count):
    sizes = '{cpu: "64", memory: 256Gi, pods: "250"}'
    yield "apiVersion: cairn.dev/v1alpha1\nkind: DevicePool\nmetadata: {name: cpus}\nspec: {kind: cpu}\n"
    for node in range(count):
        yield (
            f"apiVersion: v1\nkind: Node\nmetadata:\n  name: n{node}\n  annotations: {{kwok.x-k8s.io/node: fake}}\n"
            f"  labels: {{topology.kubernetes.io/zone: z{node // 16}}}\nstatus:\n  allocatable: {sizes}\n"
            f'  capacity: {sizes}\n  conditions: [{{type: Ready, status: "True"}}]\n'
        )


def application(replicas, units):
    """Two groups, of which the first sends to the second, as manifests."""
    group = (
        "  - {{name: {}, replicas: {}, implementations: [{{kind: cpu, serviceTime: 10ms, "
        "template: {{spec: {{containers: [{{name: actor, image: none}}]}}}}}}]}}\n"
    )
    text = (
        "apiVersion: cairn.dev/v1alpha1\nkind: ActorApplication\nmetadata: {name: dense, namespace: big}\nspec:\n  actors:\n"
        + group.format("map", replicas)
        + group.format("reduce", replicas)
        + "  channels: [{from: map, to: reduce, rate: 60/s, pattern: AllToAll, drag: 1}]\n"
    )
    return "---\n".join([*nodes(units), text])


def snapshot(sizes, units, seed, listed):
    """A pipeline of actors with different work, at half of the units' capacity, with pairs listed or as channels."""
    draw = random.Random(seed)
    actors, stages = [], []
    for stage, size in enumerate(sizes):
        stages.append([f"ns/app/s{stage}-{at}" for at in range(size)])
        for name in stages[-1]:
            actors.append({"id": name, "group": f"s{stage}", "runsOn": {"cpu": draw.randint(10, 100)}})
    capacity = 2 * sum(actor["runsOn"]["cpu"] for actor in actors) // units + 100
    file = {
        "version": 1,
        "units": [
            {"id": f"n{at // 4}/{at}", "kind": "cpu", "node": f"n{at // 4}", "zone": f"z{at // 64}", "capacity": capacity}
            for at in range(units)
        ],
        "actors": actors,
        "exchangeCost": {"otherKind": 5, "otherNode": 30, "otherZone": 30},
    }
    counts = [draw.randint(1, 20) for _ in sizes[1:]]
    if listed:
        file["messages"] = [
            {"from": a, "to": b, "count": count}
            for count, senders, receivers in zip(counts, stages, stages[1:])
            for a in senders
            for b in receivers
        ]
    else:
        file["groupMessages"] = [
            {"from": f"ns/app/s{at}", "to": f"ns/app/s{at + 1}", "count": count} for at, count in enumerate(counts)
        ]
    return json.dumps(file)


def run(binary, text, is_snapshot, *more):
    with tempfile.NamedTemporaryFile("w", suffix=".json" if is_snapshot else ".yaml") as file:
        file.write(text)
        file.flush()
        subject = ["--snapshot", file.name] if is_snapshot else ["-f", file.name, "--application=big/dense"]
        began = time.monotonic()
        with subprocess.Popen(
            [binary, "plan", *subject, "-o", "json", *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as child:
            out = child.stdout.read()
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            return None
        plan = json.loads(out)
        return plan["objective"]["communication"], time.monotonic() - began, usage.ru_maxrss / 1024, plan["judged"]


def median(values):
    return sorted(values)[len(values) // 2]


def instances():
    """Yields name, generator by seed, and whether it is a snapshot."""
    for replicas, units in [(450, 48), (2500, 96)]:
        yield (
            f"application, {replicas} → {replicas}, {units} units",
            lambda _, replicas=replicas, units=units: application(replicas, units),
            False,
        )
    for sizes, units in [DENSE, ((450, 450), 192), ((5000, 5000), 400)]:
        yield (
            f"snapshot, {' → '.join(map(str, sizes))}, {units} units",
            lambda seed, sizes=sizes, units=units: snapshot(sizes, units, seed, False),
            True,
        )
    yield "200 → 300 → 200, every pair listed", lambda seed: snapshot(*DENSE, seed, True), True


def measure(binary, text, is_snapshot, seed, budget):
    quick = run(binary, text, is_snapshot, "--effort=1", f"--seed={seed}")
    if quick is None:
        return {"refused": True}
    found = run(binary, text, is_snapshot, f"--budget={budget}s", f"--seed={seed}")
    return {
        "firstSeconds": round(quick[1], 3),
        "communication": found[0],
        "memoryMib": round(found[2]),
        "judged": found[3],
    }


def line(name, rows):
    if any(row.get("refused") for row in rows):
        return f"| {name} | refused | | | |"
    first, costs, memory = ([row[key] for row in rows] for key in ("firstSeconds", "communication", "memoryMib"))
    cost = f"{median(costs):,} ({min(costs):,}, {max(costs):,})"
    return f"| {name} | {median(first):.2f} | {cost} | {median(memory):.0f} | {rows[0]['judged']} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cairn", nargs="?", help="kubectl-cairn")
    parser.add_argument("--commit")
    parser.add_argument("--snapshots", metavar="FOLDER", help="only write the dense instances of the seeds there")
    parser.add_argument("--out", default=os.path.dirname(os.path.abspath(__file__)), help="the folder of the results")
    parser.add_argument("--seeds", type=int, nargs="+", default=[11, 12, 13])
    parser.add_argument("--budget", type=int, default=5, help="of the search, in seconds")
    asked = parser.parse_args()
    if asked.snapshots:
        for seed in asked.seeds:
            for name, listed in [("channels", False), ("pairs", True)]:
                with open(os.path.join(asked.snapshots, f"D-700x192-{name}-s{seed}.json"), "w", encoding="utf-8") as file:
                    file.write(snapshot(*DENSE, seed, listed))
        return
    if not (asked.cairn and asked.commit):
        parser.error("to measure, name kubectl-cairn and --commit")
    kept = os.path.join(asked.out, "groups.jsonl")
    done = []
    if os.path.exists(kept):
        with open(kept, encoding="utf-8") as file:
            done = [row for row in map(json.loads, file) if row["commit"] == asked.commit]
    table = []
    for name, make, is_snapshot in instances():
        rows = []
        for seed in asked.seeds:
            row = next((row for row in done if (row["world"], row["seed"], row["budgetSeconds"]) == (name, seed, asked.budget)), None)
            if row is None:
                row = {"commit": asked.commit, "world": name, "seed": seed, "budgetSeconds": asked.budget}
                row |= measure(asked.cairn, make(seed), is_snapshot, seed, asked.budget)
                with open(kept, "a", encoding="utf-8") as file:
                    file.write(json.dumps(row, ensure_ascii=False) + "\n")
                print(row, flush=True)
            rows.append(row)
        table.append(line(name, rows))
    with open(os.path.join(asked.out, "groups.md"), "w", encoding="utf-8") as file:
        seeds = ", ".join(map(str, asked.seeds))
        file.write(PAGE.format(commit=asked.commit, seeds=seeds, budget=asked.budget, table="\n".join(table)))


if __name__ == "__main__":
    main()
