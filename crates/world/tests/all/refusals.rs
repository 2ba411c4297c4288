//! Refusals last as long as their cause for actors that run elsewhere, and refused actors go back.

use control::{RefusalKey, RefusalScope};
use jiff::Timestamp;
use placement::file::{Constraint, Places, SnapshotFile};
use world::{ApplicationKey, Index, Objects, Policy, assemble, refusal_cause};

/// Nodes `n0` and `n1`; `app` has the actors `w-0` and `w-1`, and `w-1` runs on `n1`. `n0` refused `w-0`, which came from `n1`.
const WORLD: &str = r#"
{apiVersion: v1, kind: Node, metadata: {name: n0, labels: {disk: ssd}}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}}
---
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}}
---
{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {name: cpus}, spec: {kind: cpu}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: pv, uid: pv-uid}, spec: {capacity: {storage: 1Gi}}, status: {phase: Bound}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: s}, spec: {driver: d, nodeName: n0,
  pool: {name: n0, generation: 1, resourceSliceCount: 1}, devices: [{name: g0}]}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: t}, spec: {driver: d, nodeName: n1,
  pool: {name: n1, generation: 1, resourceSliceCount: 1}, devices: [{name: g1}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: foreign, namespace: ns, uid: foreign-pod}, spec: {nodeName: n0, containers: [{name: c}]}}
---
{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, metadata: {name: app, namespace: ns, uid: app-uid}, spec: {actors: [
  {name: w, replicas: 2, arrivals: 1/s, implementations: [{kind: cpu, serviceTime: 1ms, template: {spec: {containers: [{name: c}]}}}]}]}}
---
{apiVersion: cairn.dev/v1alpha1, kind: Instance, metadata: {name: app-w-1, namespace: ns, uid: app-w-1-uid,
  ownerReferences: [{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, name: app, uid: app-uid, controller: true}]},
  spec: {applicationName: app, actorGroup: w, actor: w-1, template: {}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: app-w-1, namespace: ns, uid: app-w-1-pod, annotations: {cairn.dev/unit: n1/cpus-0},
  ownerReferences: [{apiVersion: cairn.dev/v1alpha1, kind: Instance, name: app-w-1, uid: app-w-1-uid, controller: true}]},
  spec: {nodeName: n1, containers: [{name: c}]}, status: {phase: Running}}
---
{apiVersion: cairn.dev/v1alpha1, kind: Placement, metadata: {name: app, namespace: ns, uid: app-placement,
  ownerReferences: [{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, name: app, uid: app-uid, controller: true}]},
  spec: {application: app, applicationGeneration: 1, policy: p, snapshotDigest: d, strategy: s, seed: 1, effort: 1,
    assignments: [{actor: w-0, unit: n0/cpus-0, node: n0, pool: cpus}, {actor: w-1, unit: n1/cpus-0, node: n1, pool: cpus}],
    moves: [{actor: w-0, from: n1/cpus-0, to: n0/cpus-0, reason: gain}]},
  status: {refusals: [{actor: w-0, group: w, kind: cpu, node: n0, reason: 'REASON', until: '1970-01-01T00:01:00Z', cause: 'CAUSE'}]}}
"#;

const EXPIRY: i64 = 60;

fn index(world: &str) -> Index {
    let mut objects = Objects::default();
    objects.read("test", world).unwrap();
    Index::of(&objects)
}

fn key() -> ApplicationKey {
    ApplicationKey { namespace: "ns".to_owned(), name: "app".to_owned() }
}

/// Another application, without actors that run.
const OTHER: &str = "{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, metadata: {name: other, namespace: ns, uid: other-uid}, \
    spec: {actors: [{name: v, replicas: 1, arrivals: 1/s, \
    implementations: [{kind: cpu, serviceTime: 1ms, template: {spec: {containers: [{name: c}]}}}]}]}}";

/// The actors that the refusal constrains at this time, after a change of the world since it was recorded.
fn constrained(reason: &str, change: (&str, &str), seconds: i64) -> String {
    let world = WORLD.replace("REASON", reason);
    let about = RefusalKey { scope: RefusalScope::Node("n0".into()), group: "w".into(), kind: "cpu".into() };
    let before = index(&world);
    let cause = refusal_cause(&before, before.application(&key()).unwrap(), &about, reason);
    let cause = cause.map_or_else(String::new, |cause| format!(", cause: '{cause}'"));
    assert!(change.0.is_empty() || world.contains(change.0), "{}", change.0);
    let after = world.replace(", cause: 'CAUSE'", &cause);
    let after = index(&if change.0.is_empty() { after } else { after.replace(change.0, change.1) });
    let now = Timestamp::from_second(seconds).unwrap();
    let assembled = assemble(&after, &key(), &Policy::builtin("p"), now).unwrap();
    let rules = assembled.snapshot.file().constraints.iter().filter_map(|rule| match rule {
        Constraint::Never { actors, places: Places::Units(units), reason: Some(reason), .. }
            if reason.starts_with("refused") =>
        {
            Some(format!("{} not {}", actors.join(" "), units.join(" ")))
        }
        Constraint::Only { actors, places: Places::Units(units), .. } => {
            Some(format!("{} only {}", actors.join(" "), units.join(" ")))
        }
        _ => None,
    });
    rules.collect::<Vec<_>>().join(", ").replace("ns/app/", "").replace("/cpus-0", "")
}

#[test]
fn refusals_last_as_long_as_their_cause_for_running_actors() {
    const STORAGE: &str = "node(s) did not have enough free storage";
    const FULL: &str = "Insufficient example.com/licence";
    const DEVICES: &str = "cannot allocate all claims";
    let unchanged = ("", "");
    let (both, running) = ("w-0 w-1 not n0, w-0 only n1", "w-1 not n0");
    let (more_devices, elsewhere) = (("{name: g0}", "{name: g0}, {name: g2}"), ("{name: g1}", "{name: g3}"));
    let free_volume = ("phase: Bound", "phase: Available");
    let other_status = ("{allocatable", "{conditions: [], allocatable");
    for (reason, change, seconds, expected) in [
        (STORAGE, unchanged, EXPIRY - 1, both),
        (STORAGE, unchanged, EXPIRY, running),
        (STORAGE, other_status, EXPIRY, running),
        (STORAGE, ("disk: ssd", "disk: hdd"), EXPIRY - 1, both),
        (STORAGE, ("disk: ssd", "disk: hdd"), EXPIRY, ""),
        (STORAGE, ("template: {spec: {", "template: {spec: {priority: 7, "), EXPIRY, ""),
        (STORAGE, ("foreign-pod", "another-pod"), EXPIRY, running),
        (STORAGE, ("metadata: {name: cpus}", "metadata: {name: cpu-pool}"), EXPIRY, ""),
        // Volumes and devices are a cause of refusals that are about them.
        (STORAGE, free_volume, EXPIRY, ""),
        (STORAGE, more_devices, EXPIRY, running),
        (DEVICES, free_volume, EXPIRY, running),
        (DEVICES, more_devices, EXPIRY, ""),
        (DEVICES, elsewhere, EXPIRY, running),
        ("node(s) had no available disk", ("foreign-pod", "another-pod"), EXPIRY, ""),
        // Pods are a cause only of refusals for lack of resources.
        (FULL, unchanged, EXPIRY, running),
        (FULL, ("foreign-pod", "another-pod"), EXPIRY, ""),
        (FULL, ("app-w-1-pod", "its-next-pod"), EXPIRY, running),
        // Plans evaluate affinity themselves, and its cause may be on other nodes.
        ("node(s) did not match pod anti-affinity rules", unchanged, EXPIRY, ""),
    ] {
        assert_eq!(constrained(reason, change, seconds), expected, "{reason}: {change:?} at {seconds}");
    }
    // An actor does not return to a cordoned node.
    let cordoned =
        ("metadata: {name: n1}, status", "metadata: {name: n1}, spec: {unschedulable: true}, status");
    assert_eq!(constrained(STORAGE, cordoned, 0), "w-0 w-1 not n0");
}

/// The actors at `n0/cpus-0` and `n1/cpus-0` that plans of an application of this name count as others, with these moves of `app`.
fn kept(name: &str, moves: &str, status: &str) -> [u64; 2] {
    let decision = "moves: [{actor: w-0, from: n1/cpus-0, to: n0/cpus-0, reason: gain}]}";
    assert!(WORLD.contains(decision));
    let world = WORLD.replace(decision, &format!("moves: [{moves}]}}"));
    let (before, _) = world.split_once("  status: {refusals").unwrap();
    let index = index(&format!("{}{status}}}\n---\n{OTHER}", before.trim_end()));
    let key = ApplicationKey { name: name.to_owned(), ..key() };
    let assembled = assemble(&index, &key, &Policy::builtin("p"), Timestamp::UNIX_EPOCH).unwrap();
    let units = serde_json::from_str::<SnapshotFile>(&assembled.snapshot.write()).unwrap().units;
    ["n0/cpus-0", "n1/cpus-0"].map(|id| {
        let unit = units.iter().find(|unit| unit.id == id).unwrap();
        unit.others.as_ref().map_or(0, |others| others.count)
    })
}

#[test]
fn an_actor_on_the_way_keeps_its_old_unit_free() {
    let at = "'1970-01-01T00:00:00.000000Z'";
    let moves = |actor: &str, from: &str, to: &str| {
        format!(
            "{{actor: {actor}, from: {from}/cpus-0, to: {to}/cpus-0, reason: gain, gainPercent: 9, decidedAt: {at}}}"
        )
    };
    let progress = |step: &str| {
        format!(
            " status: {{moves: [{{actor: w-0, from: n1/cpus-0, to: n0/cpus-0, decidedAt: {at}, step: {step}, since: {at}}}]}}"
        )
    };
    let one = moves("w-0", "n1", "n0");
    let none = "";
    let refused = " status: {refusals: [{actor: w-0, group: w, kind: cpu, node: n0, reason: full, until: '1970-01-01T00:01:00Z'}]}";
    let necessary = "{actor: w-0, from: n1/cpus-0, to: n0/cpus-0, reason: lost}";
    let swap = format!("{one}, {}", moves("w-1", "n0", "n1"));
    // Its own application counts only what is kept free, another one also the two actors.
    for (moves, status, own, other) in [
        (one.as_str(), none, [0, 1], [1, 2]),
        (&one, &progress("Starting"), [0, 1], [1, 2]),
        (&one, &progress("Running"), [0, 0], [1, 1]),
        // it goes back
        (&one, refused, [0, 0], [1, 2]),
        (necessary, none, [0, 0], [1, 1]),
        // each takes the place of the other
        (&swap, none, [0, 0], [1, 2]),
    ] {
        assert_eq!(kept("app", moves, status), own, "{moves} {status}");
        assert_eq!(kept("other", moves, status), other, "of another application: {moves} {status}");
    }
}
