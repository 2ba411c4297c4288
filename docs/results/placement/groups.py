#!/usr/bin/env python3
"""Channels between large groups: how long the first plan takes, what 5 s find, and how much memory that takes.

groups.py NOW [BEFORE]: two executables of kubectl-cairn. Prints the table of groups.md.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time

SEEDS = (11, 12, 13)


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
    """Stages of a pipeline of actors with different work, at half of the units' capacity; with every pair listed or as channels."""
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


def row(name, binary, make, is_snapshot, budget):
    first, cost, memory, judged = [], [], [], "-"
    for seed in SEEDS:
        text = make(seed)
        quick = run(binary, text, is_snapshot, "--effort=1", f"--seed={seed}")
        if quick is None:
            print(f"| {name} | refused | | | |", flush=True)
            return
        found = run(binary, text, is_snapshot, f"--budget={budget}s", f"--seed={seed}")
        first.append(quick[1])
        cost.append(found[0])
        memory.append(found[2])
        judged = found[3]
    costs = f"{median(cost):,} ({min(cost):,}, {max(cost):,})"
    print(f"| {name} | {median(first):.2f} | {costs} | {median(memory):.0f} | {judged} |", flush=True)


def main():
    now, before = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
    print("| world | first plan, s | communication after 5 s, median (best, worst) | MiB | judged |")
    print("|---|---:|---:|---:|---|")
    for name, binary in [("now", now), ("before", before)]:
        if binary is None:
            continue
        for replicas, units in [(450, 48), (2500, 96)]:
            row(f"{name}: application, {replicas} → {replicas}, {units} units", binary, lambda _: application(replicas, units), False, 5)
        for sizes, units in [((200, 300, 200), 192), ((450, 450), 192), ((5000, 5000), 400)]:
            label = " → ".join(map(str, sizes))
            row(f"{name}: snapshot, {label}, {units} units", binary, lambda seed: snapshot(sizes, units, seed, False), True, 5)
        row(f"{name}: 200 → 300 → 200, every pair listed", binary, lambda seed: snapshot((200, 300, 200), 192, seed, True), True, 5)


if __name__ == "__main__":
    main()
