//! Ownership of objects: only the chain of controllers counts.

use std::fmt::Write as _;

use jiff::Timestamp;
use world::{
    ApplicationKey, Index, Objects, Policy, assemble, decision, desired_state, observed_state, units,
};

/// A node of four cores with two GPUs, its pool, and the application `web` with two actors in the group `server`.
const BASE: &str = r#"
{apiVersion: v1, kind: Node, metadata: {name: n0}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10", nvidia.com/gpu: "2"}}}
---
{apiVersion: cairn.dev/v1alpha1, kind: NodeTopology, metadata: {name: n0}, spec: {devices: [{id: gpu-0, type: GPU}, {id: gpu-1, type: GPU}]}}
---
{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {name: gpus}, spec: {kind: gpu, instances: {max: 2}, resource: {devicePlugin: nvidia.com/gpu}}}
---
{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, metadata: {name: web, namespace: ns, uid: web-uid}, spec: {actors: [
  {name: server, replicas: 2, arrivals: 1/s, implementations: [
    {kind: gpu, serviceTime: 1ms, template: {spec: {containers: [{name: c, resources: {requests: {cpu: "1"}}}]}}}]}]}}
"#;

fn owner(kind: &str, uid: &str) -> String {
    format!(
        "ownerReferences: [{{apiVersion: cairn.dev/v1alpha1, kind: {kind}, name: {uid}, uid: {uid}, controller: true}}]"
    )
}

/// An Instance `NAME` with uid `NAME-uid`, controlled by `owner` if given.
fn instance(name: &str, owned: Option<&str>) -> String {
    let owned = owned.map_or(String::new(), |uid| format!(", {}", owner("ActorApplication", uid)));
    format!(
        "\n---\n{{apiVersion: cairn.dev/v1alpha1, kind: Instance, metadata: {{name: {name}, namespace: ns, uid: {name}-uid{owned}}}, \
         spec: {{applicationName: web, actorGroup: server, actor: server-0, template: {{}}}}}}"
    )
}

/// A running pod on `n0` with a GPU and a core, annotated with the unit `n0/gpus-0`.
fn pod(name: &str, owned: Option<&str>) -> String {
    let owned = owned.map_or(String::new(), |uid| format!(", {}", owner("Instance", uid)));
    format!(
        "\n---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: ns, uid: {name}-pod, labels: {{cairn.dev/instance: {name}, \
         cairn.dev/application: web, cairn.dev/actor: server-0}}, annotations: {{cairn.dev/unit: n0/gpus-0}}{owned}}}, \
         spec: {{nodeName: n0, containers: [{{name: c, resources: {{requests: {{cpu: \"1\"}}, limits: {{nvidia.com/gpu: \"1\"}}}}}}]}}, \
         status: {{phase: Running}}}}"
    )
}

fn objects(more: &str) -> Objects {
    let mut objects = Objects::default();
    objects.read("test", &format!("{BASE}{more}")).unwrap();
    objects
}

/// The observed state of `web`: Instances with their pods, surplus objects, taken names, and remaining capacity.
fn shown(more: &str) -> String {
    let objects = objects(more);
    let index = Index::of(&objects);
    let units = units(&index, &Policy::builtin("p"));
    let seen = observed_state(&index, &objects.applications[0], &units);
    let mut text = String::new();
    for (actor, instance) in &seen.instances {
        let pod = instance.pod.as_ref();
        let pod = pod.map(|pod| format!(" {} {}", pod.phase, pod.unit.as_deref().unwrap_or("-")));
        writeln!(text, "{actor}{}", pod.unwrap_or_default()).unwrap();
    }
    seen.surplus.iter().for_each(|instance| writeln!(text, "surplus {}", instance.id.name).unwrap());
    seen.name_conflicts.iter().for_each(|(actor, taken)| writeln!(text, "taken {actor}: {taken:?}").unwrap());
    let slots = seen.free.units.iter().map(|(id, unit)| format!("{id}:{}", unit.slots.unwrap()));
    let node = &seen.free.nodes["n0"];
    write!(
        text,
        "left {} pool {} cpu {} gpu {}",
        slots.collect::<Vec<_>>().join(" "),
        seen.free.pools["gpus"],
        node["cpuMilli"],
        node["nvidia.com/gpu"]
    )
    .unwrap();
    text
}

/// The capacity available to a plan: offered units, and cores of the node.
fn planned(more: &str) -> String {
    let objects = objects(more);
    let key = ApplicationKey { namespace: "ns".into(), name: "web".into() };
    let world = assemble(&Index::of(&objects), &key, &Policy::builtin("p"), Timestamp::UNIX_EPOCH).unwrap();
    let file = world.snapshot.file();
    let units: Vec<&str> = file.units.iter().map(|unit| unit.id.as_str()).collect();
    let placed = file.actors.iter().filter_map(|a| Some(format!("{} at {}", a.id, a.current.as_ref()?)));
    let placed: Vec<String> = placed.collect();
    format!("{}, {} cpuMilli; {}", units.join(" "), file.nodes[0].provides["cpuMilli"], placed.join(" "))
}

const ALL: &str = "left n0/gpus-0:1 n0/gpus-1:1 pool 2 cpu 4000 gpu 2";

#[test]
fn ownership_needs_the_whole_controller_chain() {
    assert_eq!(shown(""), ALL);
    let ours = instance("web-server-0", Some("web-uid"));
    assert_eq!(shown(&ours), format!("server-0\n{ALL}"));
    let both = ours + &pod("web-server-0", Some("web-server-0-uid"));
    assert_eq!(
        shown(&both),
        "server-0 running n0/gpus-0\nleft n0/gpus-0:0 n0/gpus-1:1 pool 1 cpu 3000 gpu 1"
    );
    let observed = "n0/gpus-0 n0/gpus-1, 4000 cpuMilli; ns/web/server-0 at n0/gpus-0";
    assert_eq!(planned(&both), observed, "own pods leave a plan its room, and are where they are seen");
}

/// The API server deletes an unbound pod immediately, even if it was bound a moment ago.
#[test]
fn unbound_pods_are_deleted_with_a_resource_version() {
    let version_of = |pod: &str| {
        let objects = objects(&(instance("web-server-0", Some("web-uid")) + pod));
        let index = Index::of(&objects);
        let seen = observed_state(&index, &objects.applications[0], &units(&index, &Policy::builtin("p")));
        seen.instances["server-0"].pod.as_ref().unwrap().id.resource_version.clone()
    };
    let bound = pod("web-server-0", Some("web-server-0-uid"))
        .replace("uid: web-server-0-pod", "uid: p, resourceVersion: '7'");
    assert_eq!(version_of(&bound), None);
    let waiting = bound.replace("nodeName: n0, ", "").replace("phase: Running", "phase: Pending");
    assert_eq!(version_of(&waiting).as_deref(), Some("7"));
}

#[test]
fn a_foreign_namesake_pod_is_foreign_load() {
    let taken = "taken server-0: Foreign(\"Pod web-server-0, which is not of this application\")";
    // One unit less for plans, one GPU and one core less on the node. Slots and the pool's limit are unaffected, as the
    // annotation of a foreign pod is ignored.
    let left = "left n0/gpus-0:1 pool 2 cpu 3000 gpu 1";
    let foreign = pod("web-server-0", None);
    assert_eq!(shown(&foreign), format!("{taken}\n{left}"));
    assert_eq!(planned(&foreign), "n0/gpus-0, 3000 cpuMilli; ");
    let elsewhere = pod("anything", None);
    assert_eq!(shown(&elsewhere), left, "a forged annotation takes no unit");
    // Our Instance exists, but the pod with its name is not its own.
    let both = instance("web-server-0", Some("web-uid")) + &foreign;
    assert_eq!(shown(&both), format!("server-0\n{taken}\n{left}"));
    // Controlled by a foreign Instance, or by ours under another name.
    let theirs = instance("theirs", None) + &pod("web-server-0", Some("theirs-uid"));
    assert_eq!(shown(&theirs), format!("{taken}\n{left}"));
    let renamed = instance("web-server-0", Some("web-uid")) + &pod("other", Some("web-server-0-uid"));
    assert_eq!(shown(&renamed), format!("server-0\n{left}"));
}

#[test]
fn a_foreign_namesake_instance_is_a_name_conflict() {
    let taken = "taken server-0: Foreign(\"Instance web-server-0, which is not of this application\")";
    assert_eq!(shown(&instance("web-server-0", None)), format!("{taken}\n{ALL}"));
    // An unowned Instance is ignored, and an extra one of ours is surplus.
    assert_eq!(shown(&instance("handmade", None)), ALL);
    assert_eq!(shown(&instance("handmade", Some("web-uid"))), format!("surplus handmade\n{ALL}"));
    let other =
        BASE.split("---").last().unwrap().replace("name: web", "name: other").replace("web-uid", "other-uid");
    let other = format!("\n---\n{other}{}", instance("web-server-0", Some("other-uid")));
    let taken = "taken server-0: Foreign(\"Instance web-server-0 of another application\")";
    assert_eq!(shown(&other), format!("{taken}\n{ALL}"));
}

/// Owners are in the namespace of their objects: any user can write a known uid elsewhere.
#[test]
fn owners_in_another_namespace_are_foreign() {
    let elsewhere = |object: String| object.replace("namespace: ns", "namespace: elsewhere");
    let left = "left n0/gpus-0:1 pool 2 cpu 3000 gpu 1";
    // An Instance of our application, and its pod.
    let handmade = elsewhere(instance("handmade", Some("web-uid")));
    assert_eq!(shown(&handmade), ALL, "it is not surplus");
    let theirs =
        elsewhere(instance("web-server-0", Some("web-uid")) + &pod("web-server-0", Some("web-server-0-uid")));
    assert_eq!(shown(&theirs), left);
    assert_eq!(planned(&theirs), "n0/gpus-0, 3000 cpuMilli; ");
    // A pod of our Instance, under its name.
    let ours = instance("web-server-0", Some("web-uid"));
    let both = ours + &elsewhere(pod("web-server-0", Some("web-server-0-uid")));
    assert_eq!(shown(&both), format!("server-0\n{left}"));
    assert_eq!(planned(&both), "n0/gpus-0, 3000 cpuMilli; ");
}

#[test]
fn orphaned_objects_are_waited_for() {
    let pods = pod("web-server-0", Some("gone-uid"));
    let leaving = "taken server-0: Orphaned(\"Pod web-server-0, whose owner no longer exists,\")";
    assert_eq!(shown(&pods), format!("{leaving}\nleft n0/gpus-0:1 n0/gpus-1:1 pool 2 cpu 3000 gpu 1"));
    assert_eq!(planned(&pods), "n0/gpus-0 n0/gpus-1, 4000 cpuMilli; ", "it is deleted: no move for it");
    let instances = instance("web-server-0", Some("gone-uid"));
    let leaving = "taken server-0: Orphaned(\"Instance web-server-0, whose owner no longer exists,\")";
    assert_eq!(shown(&instances), format!("{leaving}\n{ALL}"));
}

#[test]
fn decisions_belong_to_their_application() {
    let placement = |name: &str, owned: &str| {
        format!(
            "\n---\n{{apiVersion: cairn.dev/v1alpha1, kind: Placement, metadata: {{name: {name}, namespace: ns{owned}}}, spec: {{application: web, \
             applicationGeneration: 1, policy: p, snapshotDigest: d, strategy: s, seed: 1, effort: 1, \
             assignments: [{{actor: server-0, unit: n0/gpus-1, node: n0, pool: gpus}}], unplaced: [{{actor: server-1, reasons: [full]}}]}}}}"
        )
    };
    let of = |uid: &str| format!(", {}", owner("ActorApplication", uid));
    let placed = "n0/gpus-0 n0/gpus-1, 4000 cpuMilli; ns/web/server-0 at n0/gpus-1";
    let nothing = "n0/gpus-0 n0/gpus-1, 4000 cpuMilli; ";
    assert_eq!(planned(&placement("web", &of("web-uid"))), placed);
    assert_eq!(planned(&placement("web", &of("gone-uid"))), nothing);
    assert_eq!(planned(&placement("web", "")), nothing);
    assert_eq!(planned(&placement("evil", &of("web-uid"))), nothing, "another name");
    let objects = objects(&placement("web", &of("web-uid")));
    let decision = decision(&objects.placements[0]);
    assert_eq!(decision.places["server-0"], "n0/gpus-1");
    assert_eq!(decision.unplaced.iter().collect::<Vec<_>>(), ["server-1"]);
    let wanted = desired_state(&Index::of(&objects), &objects.applications[0], "p");
    assert_eq!(
        wanted.actors.iter().map(|actor| actor.name.as_str()).collect::<Vec<_>>(),
        ["server-0", "server-1"]
    );
    assert_eq!(wanted.requests[0]["gpu"], [("cpuMilli".to_owned(), 1000), ("pods".to_owned(), 1)].into());
}

/// A change to the cluster of an actor that runs on the second GPU, and the units then; `!` marks cordoned ones.
#[test]
fn running_actors_keep_their_unit_whatever_is_offered() {
    let runs = pod("web-server-0", Some("web-server-0-uid")).replace("n0/gpus-0", "n0/gpus-1");
    let ours = instance("web-server-0", Some("web-uid")) + &runs;
    let holds = |device: &str| {
        let allocation = format!(
            "{{namespace: ns, pod: web-server-0, podUid: web-server-0-pod, container: c, resource: nvidia.com/gpu, deviceIds: [{device}]}}"
        );
        (
            "{id: gpu-0, type: GPU}",
            "{id: gpu-0, type: GPU, health: lost}",
            format!(", status: {{allocations: [{allocation}]}}"),
        )
    };
    let as_it_is = ("", "", String::new());
    let none_offered = ("nvidia.com/gpu: \"2\"", "nvidia.com/gpu: \"0\"", String::new());
    let no_agent = (
        "kind: NodeTopology, metadata: {name: n0}",
        "kind: NodeTopology, metadata: {name: n7}",
        String::new(),
    );
    let one_degraded = ("{id: gpu-1, type: GPU}", "{id: gpu-1, type: GPU, health: degraded}", String::new());
    let table = [
        ("nothing", as_it_is.clone(), "", "n0/gpus-0 n0/gpus-1"),
        ("a foreign pod on the free GPU", as_it_is, "foreign", "n0/gpus-1"),
        ("the kubelet starts anew", none_offered, "", "n0/gpus-1!"),
        ("the agent's object is gone", no_agent, "", "n0/gpus-1!"),
        ("a GPU is degraded, its holder is unknown", one_degraded, "", "n0/gpus-1"),
        ("the other GPU is lost", holds("gpu-1"), "", "n0/gpus-1"),
        ("its own GPU is lost", holds("gpu-0"), "", "n0/gpus-0"),
    ];
    for (what, (from, to, status), more, expected) in table {
        let foreign = if more.is_empty() { String::new() } else { pod("foreign", None) };
        let mut text = format!("{BASE}{ours}{foreign}");
        assert!(text.contains(from), "{what}: {from}");
        if !from.is_empty() {
            text = text.replacen(from, to, 1);
        }
        if !status.is_empty() {
            let end = "{id: gpu-1, type: GPU}]}";
            assert!(text.contains(end), "{what}");
            text = text.replacen(end, &format!("{end}{status}"), 1);
        }
        let mut objects = Objects::default();
        objects.read("test", &text).unwrap();
        let units = units(&Index::of(&objects), &Policy::builtin("p"));
        let found = units
            .values()
            .map(|unit| format!("{}{}", unit.id, if unit.cordoned.is_some() { "!" } else { "" }));
        assert_eq!(found.collect::<Vec<_>>().join(" "), expected, "{what}");
    }
}
