//! Incremental updates of the index, compared with a rebuild.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use crds::{ActorApplication, Assignment, Placement, Quantity, Time};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::ResourceExt;
use placement::file::SnapshotFile;
use world::{
    ApplicationKey, AssembledSnapshot, Index, Objects, Policy, assemble, observed_state, owned_objects,
    units, units_at,
};

use crate::scene::everything;

/// One event about the object at a position: it is added or removed.
fn happen(index: &mut Index, left: &mut Objects, all: &Objects, mut at: usize, comes: bool) {
    /// Finds the position within a kind, and runs the action if it exists.
    macro_rules! kind {
        ($field:ident, $put:ident, |$it:ident| $remove:expr) => {
            if let Some($it) = all.$field.get(at) {
                left.$field.retain(|other| other.uid() != $it.uid() || other.name_any() != $it.name_any());
                if comes {
                    left.$field.push($it.clone());
                    index.$put($it.clone());
                } else {
                    $remove(&mut *index);
                }
                return;
            }
            at -= all.$field.len();
        };
    }
    let key = |name: String| ApplicationKey { namespace: "ns".into(), name };
    kind!(nodes, put_node, |it| |index: &mut Index| index.remove_node(&it.name_any()));
    kind!(topologies, put_topology, |it| |index: &mut Index| index.remove_topology(&it.name_any()));
    kind!(pools, put_pool, |it| |index: &mut Index| index.remove_pool(&it.name_any()));
    kind!(applications, put_application, |it| |index: &mut Index| index
        .remove_application(&key(it.name_any())));
    kind!(placements, put_placement, |it| |index: &mut Index| index.remove_placement(&key(it.name_any())));
    kind!(instances, put_instance, |it| |index: &mut Index| index.remove_instance("ns", &it.name_any()));
    kind!(pods, put_pod, |it| |index: &mut Index| index.remove_pod("ns", &it.name_any()));
    unreachable!("{at} is beyond all objects");
}

/// Results of all queries.
fn summary(index: &Index, all: &Objects) -> String {
    let policies = ["window: 30s", "window: 7s"].map(|parameters| {
        let config_map = serde_yaml::from_str(&format!(
            "{{metadata: {{name: p}}, data: {{policy.yaml: '{parameters}'}}}}"
        ));
        Policy::read(&config_map.unwrap()).unwrap()
    });
    let mut text = String::new();
    for application in &all.applications {
        for policy in &policies {
            let key = ApplicationKey::of(application);
            let world = assemble(index, &key, policy, Timestamp::UNIX_EPOCH);
            let world = world.map_or_else(|e| e.to_string(), |world| world.snapshot.write());
            let units = units(index, policy);
            let at: BTreeSet<String> =
                ["n0", "n1"].iter().flat_map(|node| units_at(index, node, policy).into_keys()).collect();
            assert!(at.iter().eq(units.keys()), "a node offers by itself what it offers among all");
            writeln!(
                text,
                "{world}\n{:?}\n{:?}",
                observed_state(index, application, &units),
                owned_objects(index, application)
            )
            .unwrap();
        }
    }
    text
}

#[test]
fn incremental_updates_equal_a_rebuild() {
    let mut all = everything();
    // Two requested ones; one has an owner.
    let owner = "ownerReferences: [{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, name: web, uid: web-uid, controller: true}]";
    let asked = |name: &str, owner: &str| {
        format!(
            "\n---\n{{apiVersion: cairn.dev/v1alpha1, kind: Instance, metadata: {{name: {name}, namespace: ns, uid: {name}-uid, {owner}}}, \
             spec: {{applicationName: web, actorGroup: s, origin: Runtime}}}}"
        )
    };
    all.read("asked", &(asked("one", owner) + &asked("two", ""))).unwrap();
    let count = all.nodes.len()
        + all.topologies.len()
        + all.pools.len()
        + all.applications.len()
        + all.placements.len()
        + all.instances.len()
        + all.pods.len();
    // Knuth's linear congruential generator; any other would do.
    let mut state = 1_u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let (mut index, mut left) = (Index::default(), Objects::default());
    for event in 0..300 {
        // More additions than removals, so that complete chains occur.
        happen(&mut index, &mut left, &all, next(count), next(3) > 0);
        if event % 3 == 0 {
            assert_eq!(summary(&index, &all), summary(&Index::of(&left), &all), "after event {event}");
        }
    }
}

/// After a relist, objects that were deleted unnoticed are removed, and so are their units.
#[test]
fn a_relist_removes_missing_objects() {
    let all = everything();
    macro_rules! kind {
        ($field:ident, $keep:ident) => {
            for at in 0..all.$field.len() {
                let (mut index, mut left) = (Index::of(&all), all.clone());
                // Fills the caches.
                drop(summary(&index, &all));
                let gone = left.$field.remove(at);
                let names = left.$field.iter().map(|it| (it.namespace().unwrap_or_default(), it.name_any()));
                index.$keep(&names.collect());
                let what = concat!(stringify!($field), " without ").to_owned() + &gone.name_any();
                assert_eq!(summary(&index, &all), summary(&Index::of(&left), &all), "{what}");
            }
        };
    }
    kind!(nodes, retain_nodes);
    kind!(topologies, retain_topologies);
    kind!(pools, retain_pools);
    kind!(applications, retain_applications);
    kind!(placements, retain_placements);
    kind!(instances, retain_instances);
    kind!(pods, retain_pods);
}

/// The snapshot of `web` under a policy.
fn world_of_web(index: &Index, policy: &Policy) -> AssembledSnapshot {
    let key = ApplicationKey { namespace: "ns".into(), name: "web".into() };
    assemble(index, &key, policy, Timestamp::UNIX_EPOCH).unwrap()
}

/// Other load that `web` sees: actors and work by unit.
fn others(index: &Index) -> String {
    let world = world_of_web(index, &Policy::builtin("p"));
    let written: serde_json::Value = serde_json::from_str(&world.snapshot.write()).unwrap();
    let units = written["units"].as_array().unwrap().iter().filter(|unit| !unit["others"].is_null());
    let one = |unit: &serde_json::Value| {
        format!("{} {} {}", unit["id"].as_str().unwrap(), unit["others"]["count"], unit["others"]["work"])
    };
    units.map(one).collect::<Vec<_>>().join(", ")
}

/// Applies an event of `shop`: `decided ACTOR@NODE/POOL-0 …`, `undecided`, `wants N` (replicas), `typo` (an invalid
/// quantity), `leaves` (terminating). Of a pod: `asks ACTOR CPU`, `goes` (terminating), `ends` (failed), `gone`.
fn happens(index: &mut Index, all: &Objects, event: &str) {
    let (verb, rest) = event.split_once(' ').unwrap_or((event, ""));
    let name = format!("shop-{rest}");
    let pod = || -> Pod { all.pods.iter().find(|pod| pod.name_any() == name).unwrap().as_ref().clone() };
    match verb {
        "decided" => {
            let place = |text: &str| {
                let (actor, unit) = text.split_once('@').unwrap();
                let (node, slot) = unit.split_once('/').unwrap();
                let pool = slot.trim_end_matches("-0");
                let [actor, unit, node, pool] = [actor, unit, node, pool].map(str::to_owned);
                Assignment { actor, unit, node, pool }
            };
            let mut decision: Placement = all.placements[1].as_ref().clone();
            decision.spec.assignments = rest.split(' ').map(place).collect();
            index.put_placement(Arc::new(decision));
        }
        "undecided" => {
            index.remove_placement(&ApplicationKey { namespace: "ns".into(), name: "shop".into() });
        }
        "wants" => {
            let mut application: ActorApplication = all.applications[1].as_ref().clone();
            application.spec.actors[0].replicas = rest.parse().unwrap();
            index.put_application(Arc::new(application));
        }
        "typo" => {
            let mut application: ActorApplication = all.applications[1].as_ref().clone();
            let template = &mut application.spec.actors[0].implementations[0].template;
            let container = &mut template.spec.as_mut().unwrap().containers[0];
            let asked = container.resources.as_mut().unwrap().requests.as_mut().unwrap();
            asked.insert("memory".to_owned(), Quantity("1gb".to_owned()));
            index.put_application(Arc::new(application));
        }
        "leaves" => {
            let mut application: ActorApplication = all.applications[1].as_ref().clone();
            application.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
            index.put_application(Arc::new(application));
        }
        "goes" => {
            let mut pod = pod();
            pod.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
            index.put_pod(Arc::new(pod));
        }
        "ends" => {
            let mut pod = pod();
            pod.status = Some(PodStatus { phase: Some("Failed".to_owned()), ..PodStatus::default() });
            index.put_pod(Arc::new(pod));
        }
        "asks" => {
            let (actor, cpu) = rest.split_once(' ').unwrap();
            let name = format!("shop-{actor}");
            let pod = all.pods.iter().find(|pod| pod.name_any() == name).unwrap();
            let mut pod: Pod = pod.as_ref().clone();
            let container = &mut pod.spec.as_mut().unwrap().containers[0];
            let asked = container.resources.as_mut().unwrap().requests.as_mut().unwrap();
            asked.insert("cpu".to_owned(), Quantity(cpu.to_owned()));
            index.put_pod(Arc::new(pod));
        }
        "gone" => index.remove_pod("ns", &name),
        other => panic!("{other}"),
    }
}

#[test]
fn other_applications_use_room_at_decided_and_actual_places() {
    let all = everything();
    let (cpu, gpu) = ("n0/cpus-0 1 270000", "n1/gpus-0 1 30000");
    let both = format!("{cpu}, {gpu}");
    for (events, expected) in [
        ("", &*both),
        // without a decision they are where they run, until that is over
        ("undecided", &both),
        ("undecided, goes s-0", &both),
        ("undecided, ends s-0", cpu),
        ("undecided, gone s-1", gpu),
        ("undecided, gone s-1, gone s-0", ""),
        // a missing pod restarts where it was decided
        ("gone s-0", &both),
        // a moving actor counts at both units
        ("decided s-0@n1/cpus-0 s-1@n0/cpus-0", &format!("{cpu}, n1/cpus-0 1 270000, {gpu}")),
        ("decided s-0@n1/cpus-0 s-1@n0/cpus-0, goes s-0", &format!("{cpu}, n1/cpus-0 1 270000, {gpu}")),
        ("decided s-0@n1/cpus-0 s-1@n0/cpus-0, gone s-0", &format!("{cpu}, n1/cpus-0 1 270000")),
        // and two that exchange their places count once at each, however far they are
        ("decided s-0@n0/cpus-0 s-1@n1/gpus-0", &both),
        ("decided s-0@n0/cpus-0 s-1@n1/gpus-0, gone s-0", &both),
        // a successor reuses the room of a terminating pod
        ("decided s-1@n1/gpus-0, gone s-0", &both),
        ("decided s-0@n0/cpus-0, gone s-1", &both),
        // it is unwanted but exists
        ("wants 1", &both),
        ("wants 1, gone s-1", gpu),
        ("undecided, wants 0", &both),
        ("undecided, wants 0, gone s-0", cpu),
    ] {
        let mut index = Index::of(&all);
        for event in events.split(", ").filter(|event| !event.is_empty()) {
            // Fills the caches before the event.
            others(&index);
            happens(&mut index, &all, event);
        }
        assert_eq!(others(&index), expected, "{events}");
        // the same room is left for a policy with a program, which lists the actors
        assert_eq!(taken(&index, &ruled()), taken(&index, &Policy::builtin("p")), "{events}, and a program");
    }
}

/// A policy with a program: it may refer to any actor, so all that can be listed are.
fn ruled() -> Policy {
    Policy { program: Some(":- run_on(A,U), run_on(B,U), A < B.".into()), ..Policy::builtin("p") }
}

/// How many actors of others are on each unit, listed or not, and what they leave of the cores of each node.
fn taken(index: &Index, policy: &Policy) -> (BTreeMap<String, u64>, BTreeMap<String, u64>) {
    let world = world_of_web(index, policy);
    let file: SnapshotFile = serde_json::from_str(&world.snapshot.write()).unwrap();
    let others = file.units.iter().filter_map(|unit| Some((unit.id.clone(), unit.others.as_ref()?.count)));
    let mut counts: BTreeMap<String, u64> = others.filter(|(_, count)| *count > 0).collect();
    let mut cores: BTreeMap<String, u64> =
        file.nodes.iter().map(|node| (node.id.clone(), node.provides["cpuMilli"])).collect();
    for actor in file.actors.iter().filter(|actor| actor.fixed) {
        let unit = file.units.iter().find(|unit| actor.current.as_ref() == Some(&unit.id)).unwrap();
        *counts.entry(unit.id.clone()).or_default() += 1;
        let asked = actor.runs_on[&unit.kind].node_requires.get("cpuMilli");
        *cores.get_mut(&unit.node).unwrap() -= asked.copied().unwrap_or(0);
    }
    (counts, cores)
}

/// Other load that `web` sees, the remaining cores of each node, and whether a manifest is reported as invalid.
fn room(index: &Index, policy: &Policy) -> String {
    let world = world_of_web(index, policy);
    let written: serde_json::Value = serde_json::from_str(&world.snapshot.write()).unwrap();
    let units = written["units"].as_array().unwrap().iter().filter(|unit| !unit["others"].is_null());
    let units: Vec<String> =
        units.map(|unit| format!("{} {}", unit["id"].as_str().unwrap(), unit["others"]["count"])).collect();
    let nodes = world.snapshot.file().nodes.iter();
    let nodes: Vec<String> = nodes.map(|node| format!("{} {}", node.id, node.provides["cpuMilli"])).collect();
    let is_partial = world.warnings.iter().any(|note| note.condition == "Partial");
    format!("{}; {}{}", units.join(", "), nodes.join(", "), if is_partial { "; Partial" } else { "" })
}

#[test]
fn invalid_and_terminating_applications_use_room_where_their_pods_are() {
    let all = everything();
    let plain = Policy::builtin("p");
    let ruled = ruled();
    let both = "n0/cpus-0 1, n1/gpus-0 1";
    for (events, expected) in [
        // the pod's requests are known, the template is not
        ("typo", &*format!("{both}; n0 6000, n1 6000; Partial")),
        ("typo, undecided", &format!("{both}; n0 6000, n1 6000; Partial")),
        ("typo, goes s-0", &format!("{both}; n0 6000, n1 6000; Partial")),
        // without a pod only the place is known
        ("typo, gone s-0", &format!("{both}; n0 6000, n1 7000; Partial")),
        ("typo, ends s-0", &format!("{both}; n0 6000, n1 7000; Partial")),
        ("typo, undecided, gone s-0", "n0/cpus-0 1; n0 6000, n1 7000; Partial"),
        (
            "typo, decided s-0@n1/cpus-0 s-1@n0/cpus-0",
            "n0/cpus-0 1, n1/cpus-0 1, n1/gpus-0 1; n0 6000, n1 6000; Partial",
        ),
        ("gone s-0, gone s-1, undecided, typo", "; n0 7000, n1 7000"),
        // a terminating application starts nothing, and counts until its pods are gone
        ("leaves", &format!("{both}; n0 5000, n1 6000")),
        ("leaves, undecided", &format!("{both}; n0 5000, n1 6000")),
        ("leaves, goes s-0", &format!("{both}; n0 5000, n1 6000")),
        ("leaves, gone s-0", "n0/cpus-0 1; n0 5000, n1 7000"),
        ("leaves, ends s-0", "n0/cpus-0 1; n0 5000, n1 7000"),
        ("leaves, gone s-0, gone s-1", "; n0 7000, n1 7000"),
    ] {
        let mut index = Index::of(&all);
        for event in events.split(", ") {
            // Fills the caches before the event.
            drop(room(&index, &plain));
            happens(&mut index, &all, event);
        }
        assert_eq!(room(&index, &plain), expected, "{events}");
        assert_eq!(room(&index, &ruled), expected, "{events}, and a program");
    }
}

#[test]
fn pods_that_exceed_their_template_count_with_their_requests() {
    let all = everything();
    let both = "n0/cpus-0 1, n1/gpus-0 1";
    for (events, expected) in [
        ("asks s-0 1", &*format!("{both}; n0 5000, n1 6000")),
        ("asks s-0 2500m", &format!("{both}; n0 5000, n1 4500")),
        ("asks s-1 3500m", &format!("{both}; n0 3500, n1 6000")),
        // one with smaller requests may be recreated
        ("asks s-0 500m", &format!("{both}; n0 5000, n1 6000")),
        ("asks s-0 3, asks s-0 1", &format!("{both}; n0 5000, n1 6000")),
        // the next pod uses the template
        ("asks s-0 3, gone s-0", &format!("{both}; n0 5000, n1 6000")),
        ("asks s-0 3, ends s-0", &format!("{both}; n0 5000, n1 6000")),
        // undecided, and at the source of a move
        ("undecided, asks s-0 3", &format!("{both}; n0 5000, n1 4000")),
        (
            "decided s-0@n1/cpus-0 s-1@n0/cpus-0, asks s-0 3",
            "n0/cpus-0 1, n1/cpus-0 1, n1/gpus-0 1; n0 5000, n1 2000",
        ),
    ] {
        let mut index = Index::of(&all);
        let policy = Policy::builtin("p");
        for event in events.split(", ") {
            // Fills the caches before the event.
            drop(room(&index, &policy));
            happens(&mut index, &all, event);
        }
        assert_eq!(room(&index, &policy), expected, "{events}");
    }
}

/// With a program, others are listed: they use as much of their nodes as when they are summed.
#[test]
fn listed_actors_count_with_the_requests_of_their_pods() {
    let all = everything();
    let ruled =
        Policy { program: Some(":- run_on(A,U), run_on(B,U), A < B.".into()), ..Policy::builtin("p") };
    for events in ["asks s-0 1", "asks s-0 2500m", "asks s-1 3500m", "asks s-0 500m"] {
        let mut index = Index::of(&all);
        happens(&mut index, &all, events);
        let left = |world: &AssembledSnapshot| -> Vec<u64> {
            let file = world.snapshot.file();
            let fixed = |node: &str| -> u64 {
                let there = |it: &&placement::file::Actor| {
                    it.fixed && it.current.as_ref().is_some_and(|unit| unit.starts_with(&format!("{node}/")))
                };
                let ways = file.actors.iter().filter(there).flat_map(|it| it.runs_on.values());
                ways.filter_map(|way| way.node_requires.get("cpuMilli")).sum()
            };
            file.nodes.iter().map(|node| node.provides["cpuMilli"] - fixed(&node.id)).collect()
        };
        let [summed, listed] =
            [&Policy::builtin("p"), &ruled].map(|policy| left(&world_of_web(&index, policy)));
        assert_eq!(listed, summed, "{events}");
    }
}

#[test]
fn other_load_is_summed_per_unit_and_subtracted_from_the_node() {
    let mut all = everything();
    let mut index = Index::of(&all);
    let world = world_of_web(&index, &Policy::builtin("p"));
    let written: serde_json::Value = serde_json::from_str(&world.snapshot.write()).unwrap();
    let listed = written["actors"].as_array().unwrap().iter().filter(|actor| actor["fixed"] == true);
    assert_eq!(listed.count(), 0, "no other is listed");
    let left = |world: &AssembledSnapshot, resource: &str| -> Vec<u64> {
        world.snapshot.file().nodes.iter().map(|node| node.provides[resource]).collect()
    };
    let summed = left(&world, "cpuMilli");
    // A program may refer to any actor, so all are listed.
    let ruled =
        Policy { program: Some(":- run_on(A,U), run_on(B,U), A < B.".into()), ..Policy::builtin("p") };
    let world = world_of_web(&index, &ruled);
    let asked: Vec<u64> =
        left(&world, "cpuMilli").iter().zip(summed).map(|(before, now)| before - now).collect();
    assert_eq!(asked, [2000, 1000], "the requests of the summed actors are subtracted");
    let fixed = |world: &AssembledSnapshot| -> Vec<String> {
        let fixed = world.snapshot.file().actors.iter().filter(|actor| actor.fixed);
        fixed.map(|actor| format!("{} {}", actor.id, actor.current.as_deref().unwrap())).collect()
    };
    let running = ["ns/shop/s-0 n1/gpus-0", "ns/shop/s-1 n0/cpus-0"];
    assert_eq!(fixed(&world), running);
    happens(&mut index, &all, "undecided");
    assert_eq!(fixed(&world_of_web(&index, &ruled)), running, "they are where they run");
    // LimitRange defaults count as requests.
    let memory = |index: &Index| left(&world_of_web(index, &Policy::builtin("p")), "memoryMiB");
    assert_eq!(memory(&index), [8192, 8192]);
    let limits = "{apiVersion: v1, kind: LimitRange, metadata: {name: l, namespace: ns}, \
         spec: {limits: [{type: Container, defaultRequest: {memory: 64Mi}}]}}";
    all.read("limits", limits).unwrap();
    index.put_limits(all.limits[0].clone());
    assert_eq!(memory(&index), [8128, 8128]);
}
