#!/usr/bin/env python3
"""OR-Tools CP-SAT as a baseline: a snapshot on standard input, a placement on standard output.

cpsat.py --seconds S --seed N [--workers W] < snapshot.json > placement.json

For measurements only. It needs `pip install ortools` (measured with 9.15) in a separate environment, whose Python
`bench-placement --cp-sat` names. The time limit applies to the solver alone: reading the snapshot and building the model are
not counted, in the baseline's favour. The current placement is the warm start, as in Cairn's own search.

The model has one literal per actor and unit, exactly one of them true per actor. Work is within capacity; if that is proven
infeasible, the remaining time goes to minimizing the maximum excess. Resources of units and nodes, slots, apart, together, pin,
only and never are constraints. A message costs by the class of its units: one literal per edge for different units, NUMA domains,
nodes and zones, and one per pair of kinds, so that the model is linear in the number of units. If pairs of units have their own
costs, an edge costs at least what it costs from the unit of its first actor: one row per edge and unit. Levels are weighted into
one sum.
"""
import argparse
import collections
import json
import sys

from ortools.sat.python import cp_model


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--seconds", type=float, required=True)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--workers", type=int, default=8)
    arguments = arguments.parse_args()
    snapshot = json.load(sys.stdin)
    model = Model(snapshot)
    solver, status = solve(model, arguments, arguments.seconds)
    left = arguments.seconds - solver.wall_time
    if status == cp_model.INFEASIBLE and left > 0:
        model = Model(snapshot, overloads=True)
        solver, status = solve(model, arguments, left)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        sys.exit(f"cp-sat found no placement: {solver.status_name(status)}")
    assignments = {
        model.actors[a]["id"]: model.units[u]["id"] for (a, u), x in model.on.items() if solver.boolean_value(x)
    }
    json.dump({"assignments": assignments, "optimal": status == cp_model.OPTIMAL, "bound": model.bounds(solver)},
              sys.stdout)


def solve(model, arguments, seconds):
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.random_seed = arguments.seed
    solver.parameters.num_workers = arguments.workers
    return solver, solver.solve(model.model)


class Model:
    def __init__(self, snapshot, overloads=False):
        """`overloads`: whether units may exceed their capacity."""
        self.model = cp_model.CpModel()
        self.overloads = overloads
        self.snapshot = snapshot
        self.units, self.actors = snapshot["units"], snapshot["actors"]
        self.actor_at = {actor["id"]: a for a, actor in enumerate(self.actors)}
        self.unit_at = {unit["id"]: u for u, unit in enumerate(self.units)}
        if snapshot.get("groupMessages"):
            sys.exit("cpsat.py does not know groupMessages")
        self.place()
        self.hint()
        self.limit()
        self.constrain()
        self.aim()

    def place(self):
        self.on, self.need = {}, {}
        self.by_actor, self.by_unit = collections.defaultdict(list), collections.defaultdict(list)
        for a, actor in enumerate(self.actors):
            for u, unit in enumerate(self.units):
                runs = actor["runsOn"].get(unit["kind"])
                if runs is None or (actor.get("fixed") and actor["current"] != unit["id"]):
                    continue
                if not isinstance(runs, dict):
                    runs = {"work": runs}
                requires = collections.Counter(actor.get("requires", {}))
                requires.update(runs.get("requires", {}))
                self.need[a, u] = (runs["work"], requires, runs.get("nodeRequires", {}))
                self.on[a, u] = self.model.new_bool_var("")
                self.by_actor[a].append(((a, u), self.on[a, u]))
                self.by_unit[u].append(((a, u), self.on[a, u]))
            self.model.add_exactly_one(x for _, x in self.here(actor=a))

    def hint(self):
        """Hints each running actor's current unit."""
        for (a, u), x in self.on.items():
            current = self.actors[a].get("current")
            if current is not None:
                self.model.add_hint(x, current == self.units[u]["id"])

    def here(self, actor=None, unit=None):
        return self.by_actor[actor] if actor is not None else self.by_unit[unit]

    def limit(self):
        """Limits load to the capacity, or with overloads bounds the excess by the maximum excess variable."""
        nodes = collections.defaultdict(lambda: collections.defaultdict(list))
        provided = {node["id"]: node.get("provides", {}) for node in self.snapshot.get("nodes", [])}
        reserved = collections.Counter()
        for constraint in self.snapshot.get("constraints", []):
            if constraint["type"] == "reserve":
                reserved[constraint["unit"], constraint["resource"]] += constraint["quantity"]
        work = sum(max(self.need[key][0] for key, _ in here) for here in self.by_actor.values())
        self.beyond = work if self.overloads else 0
        self.overload = self.model.new_int_var(0, self.beyond, "")
        for u, unit in enumerate(self.units):
            here = self.here(unit=u)
            self.model.add(sum(self.need[key][0] * x for key, x in here) <= unit["capacity"] + self.overload)
            if "slots" in unit:
                self.model.add(sum(x for _, x in here) <= unit["slots"])
            for resource in {name for key, _ in here for name in self.need[key][1]}:
                left = unit.get("provides", {}).get(resource, 0) - reserved[unit["id"], resource]
                self.model.add(sum(self.need[key][1][resource] * x for key, x in here) <= left)
            for key, x in here:
                for resource, quantity in self.need[key][2].items():
                    nodes[unit["node"]][resource].append(quantity * x)
        for node, resources in nodes.items():
            for resource, terms in resources.items():
                self.model.add(sum(terms) <= provided.get(node, {}).get(resource, 0))

    def places(self, scope, actor):
        """The actor's literals by place within a scope."""
        places = collections.defaultdict(list)
        for (_, u), x in self.here(actor=actor):
            unit = self.units[u]
            place = unit["id"] if scope == "unit" else unit.get(scope, "of its own " + unit["id"])
            places[(unit["node"], place) if scope == "numa" else place].append(x)
        return places

    def constrain(self):
        for constraint in self.snapshot.get("constraints", []):
            kind = constraint["type"]
            if kind == "apart":
                by_place = collections.defaultdict(list)
                for actor in constraint["actors"]:
                    for place, literals in self.places(constraint["on"], self.actor_at[actor]).items():
                        by_place[place].extend(literals)
                for literals in by_place.values():
                    self.model.add_at_most_one(literals)
            elif kind == "together":
                first, *others = (self.places(constraint["on"], self.actor_at[actor]) for actor in constraint["actors"])
                for other in others:
                    for place in sorted({*first, *other}, key=str):
                        self.model.add(sum(first.get(place, [])) == sum(other.get(place, [])))
            elif kind == "pin":
                self.model.add(self.on[self.actor_at[constraint["actor"]], self.unit_at[constraint["unit"]]] == 1)
            elif kind in ("only", "never"):
                self.keep(constraint)
            elif kind != "reserve":
                sys.exit(f"cpsat.py does not know the constraint {kind}")

    def keep(self, constraint):
        for actor in constraint["actors"]:
            a = self.actor_at[actor]
            for (_, u), x in self.here(actor=a):
                unit = self.units[u]
                inside = (unit["id"] in constraint.get("units", []) or unit["node"] in constraint.get("nodes", [])
                          or unit.get("zone") in constraint.get("zones", []))
                stays = constraint.get("exceptCurrent") and self.actors[a].get("current") == unit["id"]
                if inside != (constraint["type"] == "only") and not stays:
                    self.model.add(x == 0)

    def edges(self, key, a, b, value):
        edges = collections.Counter()
        for given in self.snapshot.get(key, []):
            pair = sorted((self.actor_at[given[a]], self.actor_at[given[b]]))
            if pair[0] != pair[1]:
                edges[tuple(pair)] += given[value]
        return edges

    def split(self, scope, pair):
        """1 if the two are in different places of a scope."""
        if (scope, pair) not in self.splits:
            a, b = (self.places(scope, actor) for actor in pair)
            split = self.model.new_bool_var("")
            for place, literals in a.items():
                self.model.add(split >= sum(literals) - sum(b.get(place, [])))
            self.splits[scope, pair] = split
        return self.splits[scope, pair]

    def by_classes(self, pair, cost, price, same):
        """Cost of one message of a pair by the places and kinds of its actors, as terms of a sum."""
        yield same * self.split("unit", pair)
        node, zone, numa = (cost.get(key, 0) for key in ("otherNode", "otherZone", "otherNuma"))
        if numa > node:
            sys.exit("cpsat.py does not know an otherNuma above otherNode")
        if numa and any("numa" in unit for unit in self.units):
            # Domains of different nodes differ as well: their cost is counted here and subtracted from the nodes' cost.
            yield numa * self.split("numa", pair)
            node -= numa
        if len({unit["node"] for unit in self.units}) > 1 and node:
            yield node * self.split("node", pair)
        if len({unit.get("zone") for unit in self.units}) > 1 and zone:
            yield zone * self.split("zone", pair)
        a, b = (self.places("kind", actor) for actor in pair)
        for i in a:
            for j in b:
                extra = price[i, j] - same
                if extra > 0 and i != j:
                    both = self.model.new_bool_var("")
                    self.model.add(both >= sum(a[i]) + sum(b[j]) - 1)
                    yield extra * both
                elif extra > 0:
                    apart = self.model.new_bool_var("")
                    self.model.add(apart >= sum(a[i]) + sum(b[j]) - 2 + self.split("unit", pair))
                    yield extra * apart
                elif extra < 0:
                    sys.exit(f"cpsat.py does not know an exchange between {i} and {j} below that within a kind")

    def by_pairs(self, pair, cost, price, same):
        """Cost of one message of a pair if pairs of units have their own costs: a single term."""
        if not self.listed:
            for given in cost["pairs"]:
                u, v = self.unit_at[given["a"]], self.unit_at[given["b"]]
                self.listed[u, v] = self.listed[v, u] = given["cost"]
        first, second = (self.here(actor=actor) for actor in pair)
        rows = [(x, [(self.between(u, v, cost, price), y) for (_, v), y in second]) for (_, u), x in first]
        dearest = max((each for _, row in rows for each, _ in row), default=0)
        paid = self.model.new_int_var(0, dearest, "")
        for x, row in rows:
            self.model.add(paid >= sum(each * y for each, y in row)).only_enforce_if(x)
        yield paid

    def between(self, u, v, cost, price):
        """Cost of one message between two units."""
        if u == v:
            return 0
        if (u, v) in self.listed:
            return self.listed[u, v]
        one, other = self.units[u], self.units[v]
        differ = lambda key: one.get(key, one["id"]) != other.get(key, other["id"])
        if one["node"] == other["node"]:
            return price[one["kind"], other["kind"]] + differ("numa") * cost.get("otherNuma", 0)
        return price[one["kind"], other["kind"]] + cost.get("otherNode", 0) + differ("zone") * cost.get("otherZone", 0)

    def aim(self):
        self.splits, self.listed = {}, {}
        cost = self.snapshot.get("exchangeCost", {})
        kinds = sorted({unit["kind"] for unit in self.units})
        price = {}
        for i in kinds:
            for j in kinds:
                listed = cost.get("kinds", {})
                given = listed.get(i, {}).get(j, listed.get(j, {}).get(i))
                price[i, j] = (1 if i == j else cost.get("otherKind", 0)) if given is None else given
        same = min(price[kind, kind] for kind in kinds)
        # The least overloaded unit has no excess: if every unit had some, it would count for less than it does here.
        levels = {"unplaced": 0, "overload": self.overload}
        exchange = self.by_pairs if cost.get("pairs") else self.by_classes
        communication = []
        for pair, count in sorted(self.edges("messages", "from", "to", "count").items()):
            communication.extend(count * term for term in exchange(pair, cost, price, same))
        levels["communication"] = sum(communication)
        levels["annoyance"] = sum(drag * self.split("unit", pair)
                                  for pair, drag in sorted(self.edges("annoyance", "a", "b", "drag").items()))
        levels["interference"] = sum(drag * (1 - self.split("unit", pair))
                                     for pair, drag in sorted(self.edges("interference", "a", "b", "drag").items()))
        levels["migration"] = sum(
            actor.get("moveCost", 0) * (1 - self.on.get((a, self.unit_at[actor["current"]]), 0))
            for a, actor in enumerate(self.actors) if actor.get("current"))
        most = {"overload": self.beyond, "communication": self.most(price, cost),
                "annoyance": sum(given["drag"] for given in self.snapshot.get("annoyance", [])),
                "interference": sum(given["drag"] for given in self.snapshot.get("interference", [])),
                "migration": sum(actor.get("moveCost", 0) for actor in self.actors)}
        total, weight = 0, 1
        objectives = self.snapshot.get("objectives", ["overload", ["communication", "migration"], "annoyance"])
        self.weights = []
        for level in reversed(objectives):
            names = [level] if isinstance(level, str) else level
            unknown = set(names) - set(levels)
            if unknown:
                sys.exit(f"cpsat.py does not know {', '.join(sorted(unknown))}")
            total += weight * sum(levels[name] for name in names)
            self.weights.insert(0, ("+".join(names), weight))
            weight *= 1 + sum(most.get(name, 0) for name in names)
        if weight >= 2**62:
            sys.exit("the levels do not fit one sum")
        self.model.minimize(total)

    def most(self, price, cost):
        dearest = max(price.values()) + max(cost.get("otherNode", 0), cost.get("otherNuma", 0)) + cost.get("otherZone", 0)
        dearest = max([dearest, *(given["cost"] for given in cost.get("pairs", []))])
        return dearest * sum(message["count"] for message in self.snapshot.get("messages", []))

    def bounds(self, solver):
        """The bound on the first non-zero level implied by the bound of the sum, rounded down as solvers use floats."""
        for key, weight in self.weights:
            if key != "overload" and not self.overloads:
                return {key: int(solver.best_objective_bound // weight)}
        return {}


if __name__ == "__main__":
    main()
