//! A text format for clusters and their actions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use control::{
    Action, Actions, Backoff, Decision, DesiredActor, DesiredState, ElectiveMove, FreeUnit, Instance,
    MoveLimits, NameConflict, NodeOutage, ObjectId, ObservedState, Pod, PodPhase, RefusedPod, StopMode,
    next_actions,
};

/// A cluster in text form:
/// `actors=N` `nodes=NODE:cpus:gpus` `units=NODE/POOL-K:slots` `pools=POOL:left` `decided=I:UNIT` `unplaced=I`
/// `closed=UNTIL` `instances=I[:terminating|asked]` `surplus=NAME` `pods=I:UNIT:STATE[:NODE]` `refused=I:WORDS[:SINCE]` `taken=I:by|leaving` `infeasible=I`
/// `now=SECONDS` `back=I:UNTIL` `ready=I` `old=I` `update=MAX_UNAVAILABLE` `silent=yes`
/// `lost=NODE[:SINCE|:out]` `force=SECONDS` `elective=I[:STARTING_SINCE]` `limits=AT_ONCE[:LEFT_IN_CLUSTER]` `kept=I:SINCE`.
///
/// Actors request one core. Pools whose name begins with `gpu` have kind gpu and a resource; the others have kind cpu.
#[derive(Clone, Debug, Default)]
pub struct World {
    pub wanted: DesiredState,
    pub decision: Decision,
    pub seen: ObservedState,
    pub infeasible: BTreeSet<String>,
}

pub fn actor(index: &str) -> String {
    format!("cam-{index}")
}

pub fn id(name: String) -> ObjectId {
    ObjectId { uid: format!("{name}-uid"), name, resource_version: None }
}

impl World {
    pub fn of(text: &str) -> Self {
        let mut world = Self::default();
        let asks = BTreeMap::from([("cpuMilli".to_owned(), 1000), ("pods".to_owned(), 1)]);
        world.wanted.requests = vec![["cpu", "gpu"].map(|kind| (kind.to_owned(), asks.clone())).into()];
        for (what, items) in text.split_whitespace().filter_map(|part| part.split_once('=')) {
            for item in items.split(',') {
                world.add(what, item);
            }
        }
        world
    }

    #[expect(clippy::too_many_lines, reason = "a list")]
    fn add(&mut self, what: &str, item: &str) {
        let fields: Vec<&str> = item.split(':').collect();
        let (first, second) = (fields[0].to_owned(), fields.get(1).copied());
        let number = |text: Option<&str>| text.unwrap().parse::<u64>().unwrap();
        let (seen, name) = (&mut self.seen, actor(fields[0]));
        match what {
            "actors" => {
                let named = |index: u64| DesiredActor { name: actor(&index.to_string()), group: 0 };
                self.wanted.actors = (0..number(Some(&first))).map(named).collect();
            }
            "groups" => {
                let position = self.wanted.actors.iter().position(|it| it.name == name).unwrap();
                self.wanted.actors[position].group = second.unwrap().parse().unwrap();
            }
            "nodes" => {
                let cores = second.map_or(9, |cores| cores.parse().unwrap());
                let gpus = fields.get(2).map_or(9, |gpus| gpus.parse().unwrap());
                let left = [("cpuMilli", cores * 1000), ("pods", 99), ("nvidia.com/gpu", gpus)];
                seen.free.nodes.insert(first, left.map(|(name, amount)| (name.to_owned(), amount)).into());
            }
            "units" => {
                let (node, slot) = first.split_once('/').unwrap();
                let pool = slot.rsplit_once('-').unwrap().0.to_owned();
                let of_gpus = pool.starts_with("gpu");
                let unit = FreeUnit {
                    kind: if of_gpus { "gpu" } else { "cpu" }.to_owned(),
                    node: node.to_owned(),
                    pool,
                    slots: second.map(|slots| slots.parse().unwrap()),
                    resource: of_gpus.then(|| "nvidia.com/gpu".to_owned()),
                };
                seen.free.units.insert(first.clone(), unit);
            }
            "pools" => drop(seen.free.pools.insert(first, number(second))),
            "decided" => drop(self.decision.places.insert(name, second.unwrap().to_owned())),
            "unplaced" => drop(self.decision.unplaced.insert(name)),
            "infeasible" => drop(self.infeasible.insert(name)),
            "instances" => {
                let instance = seen.instances.entry(name.clone()).or_default();
                instance.id = id(format!("app-{name}"));
                instance.terminating = second == Some("terminating");
                instance.requested = second == Some("asked");
            }
            "surplus" => {
                let (id, going) = (id(first), second == Some("terminating"));
                seen.surplus.push(Instance { id, terminating: going, ..Instance::default() });
            }
            "pods" => {
                let unit = second.filter(|unit| *unit != "-").map(str::to_owned);
                let node = unit.as_deref().map(|unit| unit.split('/').next().unwrap().to_owned());
                let node = fields.get(3).map_or(node, |node| Some((*node).to_owned()).filter(|n| n != "-"));
                let state = fields.get(2).map_or(PodPhase::Running, |state| state.parse().unwrap());
                let pod = Pod { id: id(format!("pod-{first}")), unit, node, phase: state, ..Pod::default() };
                seen.instances.get_mut(&name).unwrap().pod = Some(pod);
            }
            "refused" => {
                let pod = seen.instances.get_mut(&name).unwrap().pod.as_mut().unwrap();
                pod.refusal = second.map(str::to_owned);
                pod.refused_since = fields.get(2).map(|since| Duration::from_secs(since.parse().unwrap()));
            }
            "ready" => seen.instances.get_mut(&name).unwrap().pod.as_mut().unwrap().ready = true,
            "last" => seen.instances.get_mut(&name).unwrap().pod.as_mut().unwrap().restart_blocked = true,
            "old" => seen.instances.get_mut(&name).unwrap().pod.as_mut().unwrap().outdated = true,
            "update" => self.wanted.max_unavailable = number(Some(&first)),
            "lost" => {
                let since = second.and_then(|since| since.parse().ok()).map(Duration::from_secs);
                seen.unreachable.insert(first, NodeOutage { since, confirmed: second == Some("out") });
            }
            "force" => self.wanted.failover_after = Some(Duration::from_secs(number(Some(&first)))),
            "silent" => seen.mass_outage = first == "yes",
            "closed" => {
                let (until, why) =
                    (Duration::from_secs(number(Some(&first))), "the quota is full".to_owned());
                seen.namespace_backoff = Some(Backoff { until, reason: why });
            }
            "now" => seen.now = Duration::from_secs(number(Some(&first))),
            "elective" => {
                let starting_since = second.map(|since| Duration::from_secs(since.parse().unwrap()));
                self.decision.elective.insert(name, ElectiveMove { starting_since });
            }
            "limits" => {
                let left_in_cluster = second.map_or(usize::MAX, |left| left.parse().unwrap());
                let at_once = first.parse().unwrap();
                seen.move_limits = MoveLimits { at_once, left_in_cluster, ..MoveLimits::default() };
            }
            "kept" => {
                let since = Duration::from_secs(number(second));
                seen.not_evicted.insert(name, (since, "a budget".to_owned()));
            }
            "back" => {
                let (until, why) = (Duration::from_secs(number(second)), "it ended".to_owned());
                seen.backoff.insert(name, Backoff { until, reason: why });
            }
            "taken" => {
                let what = format!("Pod app-{name}");
                let taken = if second == Some("by") {
                    NameConflict::Foreign(what)
                } else {
                    NameConflict::Orphaned(what)
                };
                seen.name_conflicts.insert(name, taken);
            }
            other => panic!("{other}"),
        }
    }

    pub fn todo(&self) -> Actions {
        next_actions(&self.wanted, &self.decision, &self.seen, &self.infeasible)
    }
}

pub fn shown(todo: &Actions) -> String {
    let step = |step: &Action| match step {
        Action::CreateInstance { actor } => format!("make {actor}"),
        Action::DeleteInstance { instance } => format!("remove {}", instance.name),
        Action::StartPod { actor, unit, newest_template: true, .. } => {
            format!("start newest {actor} on {unit}")
        }
        Action::StartPod { actor, unit, .. } => format!("start {actor} on {unit}"),
        Action::StopPod { pod, mode: StopMode::Evict, .. } => format!("evict {}", pod.name),
        Action::StopPod { pod, mode: StopMode::Delete, .. } => format!("stop {}", pod.name),
        Action::StopPod { pod, mode: StopMode::Force, .. } => format!("stop {} at once", pod.name),
    };
    let mut lines: Vec<String> = todo.actions.iter().map(step).collect();
    let refused =
        |RefusedPod { actor, node, reason, .. }: &RefusedPod| format!("refused {actor} on {node}: {reason}");
    lines.extend(todo.refused_pods.iter().chain(&todo.not_evicted).map(refused));
    lines.extend(todo.blocked.iter().map(|(actor, why)| format!("{actor} waits: {why}")));
    lines.extend(todo.ended.iter().map(|actor| format!("{actor} ended")));
    lines.extend(todo.requeue_at.map(|next| format!("next at {}", next.as_secs())));
    lines.join("; ")
}

#[track_caller]
pub fn check(table: &[(&str, &str)]) {
    for (text, expected) in table {
        assert_eq!(shown(&World::of(text).todo()), *expected, "{text}");
    }
}
