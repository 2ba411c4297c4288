//! Instances requested by an application's runtime.

use std::fmt::Write as _;

use jiff::Timestamp;
use world::{
    ActorName, ApplicationKey, Index, Objects, Policy, assemble, desired_actors, observed_state, units,
};

/// A node of four cores with two GPUs of 8 GiB, and the application `web`: `server` on gpu and cpu, `client` on cpu.
const BASE: &str = r#"
{apiVersion: v1, kind: Node, metadata: {name: n0}, status: {allocatable: {cpu: "4", memory: 64Gi, pods: "10", nvidia.com/gpu: "2"}}}
---
{apiVersion: cairn.dev/v1alpha1, kind: NodeTopology, metadata: {name: n0}, spec: {devices: [
  {id: gpu-0, type: GPU, memorySpaces: [{type: Device RAM, sizeBytes: 8589934592}]},
  {id: gpu-1, type: GPU, memorySpaces: [{type: Device RAM, sizeBytes: 8589934592}]}]}}
---
{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {name: gpus}, spec: {kind: gpu, resource: {devicePlugin: nvidia.com/gpu}}}
---
{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {name: cpus}, spec: {kind: cpu}}
---
{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, metadata: {name: web, namespace: ns, uid: web-uid}, spec: {actors: [
  {name: server, replicas: 2, implementations: [
    {kind: gpu, serviceTime: 1ms, template: {spec: {containers: [{name: c}]}}},
    {kind: cpu, serviceTime: 9ms, template: {spec: {containers: [{name: c}]}}}]},
  {name: client, replicas: 1, implementations: [{kind: cpu, serviceTime: 1ms, template: {spec: {containers: [{name: c}]}}}]}],
  channels: [{from: client, to: server, rate: 60/s, pattern: AllToAll}]}}
"#;

/// Instances `NAME GROUP [kind=KIND] [memory=MIB] [count=N] [age=SECOND] [going] [unowned]`, separated by `;`.
fn objects(asked: &str) -> Objects {
    let mut text = BASE.to_owned();
    for line in asked.split(';').map(str::trim).filter(|line| !line.is_empty()) {
        let mut words = line.split_whitespace();
        let (name, group) = (words.next().unwrap(), words.next().unwrap());
        let (mut metadata, mut template) =
            (format!("name: {name}, namespace: ns, uid: {name}-uid"), String::new());
        let mut owner = ", ownerReferences: [{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, name: web, uid: web-uid, controller: true}]";
        for word in words {
            match word.split_once('=') {
                Some(("kind", kind)) => write!(template, "kind: {kind}, ").unwrap(),
                Some(("memory", memory)) => write!(template, "memoryMiB: {memory}, ").unwrap(),
                Some(("count", count)) => write!(template, "count: {count}, ").unwrap(),
                Some(("age", second)) => {
                    write!(metadata, ", creationTimestamp: '2026-01-01T00:00:{second}Z'").unwrap();
                }
                _ if word == "going" => metadata += ", deletionTimestamp: '2026-01-01T00:00:00Z'",
                _ if word == "unowned" => owner = "",
                _ => panic!("{word}"),
            }
        }
        write!(
            text,
            "\n---\n{{apiVersion: cairn.dev/v1alpha1, kind: Instance, metadata: {{{metadata}{owner}}}, \
             spec: {{applicationName: web, actorGroup: {group}, origin: Runtime, template: {{{template}}}}}}}"
        )
        .unwrap();
    }
    let mut objects = Objects::default();
    objects.read("test", &text).unwrap();
    objects
}

/// Actors beyond the manifest's, and rejected requests with the start of their message.
fn asked(text: &str) -> String {
    let objects = objects(text);
    let actors = desired_actors(&Index::of(&objects), &objects.applications[0]);
    let more = actors.names.iter().skip(3).map(|name| format!("{} of {}", name.short(), name.group));
    let refused =
        actors.rejected.iter().map(|(name, unfit)| format!("{name}: {} {}", unfit.reason, unfit.message));
    more.chain(refused).collect::<Vec<_>>().join(", ")
}

#[test]
fn requests_become_actors_or_are_rejected_with_a_reason() {
    for (text, expected) in [
        ("", ""),
        ("x server", "inst-x of server"),
        ("x server kind=cpu memory=1024 count=1", "inst-x of server"),
        (
            "b server age=02; a client age=03; c server age=01",
            "inst-c of server, inst-b of server, inst-a of client",
        ),
        // a terminating or unowned one is no actor
        ("x server going; y server unowned", ""),
        (
            "x server count=2",
            "x: Unsupported 2 devices are requested, but an Instance has one computing unit; request several Instances",
        ),
        ("x sink", "x: UnknownGroup the application has no group sink; it has server, client"),
        ("x client kind=gpu", "x: NoImplementation client cannot run on gpu; it can on cpu"),
    ] {
        assert_eq!(asked(text), expected, "{text}");
    }
}

/// The application's actors in the snapshot: where each may run, with its work.
fn planned(text: &str) -> String {
    let key = ApplicationKey { namespace: "ns".into(), name: "web".into() };
    let world =
        assemble(&Index::of(&objects(text)), &key, &Policy::builtin("p"), Timestamp::UNIX_EPOCH).unwrap();
    let actor = |actor: &placement::file::Actor| {
        let at = world.snapshot.actor(&actor.id).unwrap();
        let units = world.snapshot.candidates(at).iter().map(|&unit| world.snapshot.unit_id(unit));
        let works: Vec<_> = actor.runs_on.values().map(|runs| (runs.work / 1000).to_string()).collect();
        let name = actor.id.rsplit('/').next().unwrap();
        format!("{name} {} on {}", works.join("+"), units.collect::<Vec<_>>().join(" "))
    };
    let actors: Vec<_> = world.snapshot.file().actors.iter().map(actor).collect();
    let problem = world.snapshot.problem();
    let pairs: usize = problem.edges.iter().map(Vec::len).sum::<usize>() / 2;
    format!("{}; {pairs} pairs", actors.join(", "))
}

#[test]
fn requested_actors_share_the_work_and_respect_their_template() {
    let all = "n0/cpus-0 n0/gpus-0 n0/gpus-1";
    let two =
        |each: &str| format!("server-0 {each} on {all}, server-1 {each} on {all}, client-0 0 on n0/cpus-0");
    for (text, expected) in [
        ("", format!("{}; 2 pairs", two("8100+900"))),
        // three actors share the work of two
        ("x server", format!("{}, inst-x 5400+600 on {all}; 3 pairs", two("5400+600"))),
        ("x server kind=gpu", format!("{}, inst-x 600 on n0/gpus-0 n0/gpus-1; 3 pairs", two("5400+600"))),
        ("x server memory=8192", format!("{}, inst-x 5400+600 on {all}; 3 pairs", two("5400+600"))),
        ("x server memory=8193", format!("{}, inst-x 5400+600 on n0/cpus-0; 3 pairs", two("5400+600"))),
        // rejected requests get no share
        ("x server count=2", format!("{}; 2 pairs", two("8100+900"))),
    ] {
        assert_eq!(planned(text), expected, "{text}");
    }
}

#[test]
fn requested_instances_are_observed_by_name() {
    let pod = |owner: &str| {
        format!(
            "\n---\n{{apiVersion: v1, kind: Pod, metadata: {{name: x, namespace: ns, uid: x-pod{owner}}}, spec: {{nodeName: n0, containers: [{{name: c}}]}}}}"
        )
    };
    let owned = ", ownerReferences: [{apiVersion: cairn.dev/v1alpha1, kind: Instance, name: x, uid: x-uid, controller: true}]";
    for (text, more, expected) in [
        ("x server", String::new(), "inst-x asked"),
        ("x server", pod(owned), "inst-x asked with x"),
        (
            "x server",
            pod(""),
            "inst-x asked; inst-x waits: Foreign(\"Pod x, which is not of this application\")",
        ),
        // rejected ones are observed too, and their pods are stopped
        ("x server count=2", pod(owned), "inst-x asked with x"),
        ("x server unowned", String::new(), ""),
        // a name that the manifest needs
        (
            "web-client-0 server",
            String::new(),
            "inst-web-client-0 asked; client-0 waits: Foreign(\"Instance web-client-0, which the application requested itself\")",
        ),
    ] {
        let mut objects = objects(text);
        objects.read("more", &more).unwrap();
        let index = Index::of(&objects);
        let seen = observed_state(&index, &objects.applications[0], &units(&index, &Policy::builtin("p")));
        let instances = seen.instances.iter().map(|(actor, instance)| {
            let pod = instance.pod.as_ref().map_or(String::new(), |pod| format!(" with {}", pod.id.name));
            format!("{actor}{}{pod}", if instance.requested { " asked" } else { "" })
        });
        let waits = seen.name_conflicts.iter().map(|(actor, taken)| format!("{actor} waits: {taken:?}"));
        assert_eq!(instances.chain(waits).collect::<Vec<_>>().join("; "), expected, "{text} {more}");
        assert!(seen.surplus.is_empty(), "none is removed: {text}");
    }
    let objects = objects("x server unowned; y server");
    let key = ApplicationKey { namespace: "ns".into(), name: "web".into() };
    let index = Index::of(&objects);
    let waiting: Vec<_> = index.unowned_requests(&key).flat_map(|it| world::actors_of_instance(it)).collect();
    assert_eq!(waiting.iter().map(ActorName::short).collect::<Vec<_>>(), ["inst-x"]);
}
