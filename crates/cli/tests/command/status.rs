//! `status` on a dump of a cluster, and `completion`.

use crate::{File, cairn};

/// An application with three actors: one runs on a GPU, one is moving, one is unplaced.
pub const DUMP: &str = r"
apiVersion: cairn.dev/v1alpha1
kind: ActorApplication
metadata: {name: web, namespace: shop, uid: web-uid}
spec:
  actors:
  - name: server
    replicas: 3
    stateBytes: 0
    implementations: [{kind: gpu, serviceTime: 1ms, template: {spec: {containers: []}}}]
status:
  phase: Degraded
  placement: web
  actors: {wanted: 3, placed: 2, running: 1, ready: 1, placedOfWanted: 2/3}
  objective: {overload: 0, communication: 40, migration: 2}
  optimal: true
  conditions:
  - {type: Ready, status: 'False', reason: Unplaced, message: 1 of 3 actors run on their units, lastTransitionTime: '2026-01-01T00:00:00Z'}
  - {type: Placed, status: 'False', reason: Unplaced, message: '1 actor is unplaced: server-2 (every gpu is taken)', lastTransitionTime: '2026-01-01T00:00:00Z'}
  - {type: Accepted, status: 'True', reason: Valid, message: the manifest can be planned, lastTransitionTime: '2026-01-01T00:00:00Z'}
  - {type: NameTaken, status: 'True', reason: NameTaken, message: 'server-1: the pod web-server-1 is not ours', lastTransitionTime: '2026-01-01T00:00:00Z'}
---
{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {name: gpus}, spec: {kind: gpu, resource: {devicePlugin: nvidia.com/gpu}}}
---
apiVersion: cairn.dev/v1alpha1
kind: Placement
metadata:
  name: web
  namespace: shop
  ownerReferences: [{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, name: web, uid: web-uid, controller: true}]
spec:
  application: web
  applicationGeneration: 1
  policy: throughput
  snapshotDigest: d
  levels: [overload, communication+migration]
  strategy: asp
  seed: 1
  effort: 1
  optimal: true
  foundBy: search
  provenBy: branch-and-bound
  judged: all
  objective: {overload: 0, communication: 40, migration: 2}
  assignments:
  - {actor: server-0, unit: a/gpus-0, node: a, pool: gpus}
  - {actor: server-1, unit: a/gpus-1, node: a, pool: gpus}
  unplaced: [{actor: server-2, reasons: [every gpu is taken]}]
  excused: [{actor: server-0, reasons: ['policy quiet line 2: N = a']}]
status:
  refusals: [{actor: server-1, node: b, reason: 'UnexpectedAdmissionError: no device', until: '2026-01-01T00:05:00Z'}]
---
apiVersion: cairn.dev/v1alpha1
kind: Instance
metadata:
  name: web-server-0
  namespace: shop
  uid: i0
  ownerReferences: [{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, name: web, uid: web-uid, controller: true}]
spec: {applicationName: web, actorGroup: server, actor: server-0, template: {kind: gpu, count: 1}}
status:
  phase: Running
  unit: a/gpus-0
  pod: web-server-0
  devices: [{resource: nvidia.com/gpu, deviceIds: [GPU-7]}]
---
apiVersion: cairn.dev/v1alpha1
kind: Instance
metadata:
  name: web-server-1
  namespace: shop
  uid: i1
  ownerReferences: [{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, name: web, uid: web-uid, controller: true}]
spec: {applicationName: web, actorGroup: server, actor: server-1, template: {kind: gpu, count: 1}}
status: {phase: Stopping, unit: b/gpus-0, pod: web-server-1}
";

#[test]
fn one_application() {
    let dump = File::new("dump.yaml", DUMP);
    insta::assert_snapshot!(cairn(&["status", "shop/web", "-f", dump.path()]).all(), @r"
    exit 2
    shop/web  Degraded  2 of 3 actors placed, 1 running, 1 ready

    ACTOR     UNIT      KIND  POD           STATE
    server-0  a/gpus-0  gpu   web-server-0  Running
    server-1  a/gpus-1  gpu   web-server-1  moves, Stopping on b/gpus-0
    server-2                                unplaced

    UNIT      KIND  DEVICES               ACTORS
    a/gpus-0  gpu   nvidia.com/gpu=GPU-7  server-0
    a/gpus-1  gpu                         server-1

    Tolerated violations
      server-0: policy quiet line 2: N = a

    Problems
      Placed: 1 actor is unplaced: server-2 (every gpu is taken)
        -> show reasons and remedies: kubectl cairn explain actorapp web -n shop
      NameTaken: server-1: the pod web-server-1 is not ours
        -> delete or rename the object with that name, or rename the application
      server-1 is refused by b until 2026-01-01T00:05:00Z: UnexpectedAdmissionError: no device
        -> other nodes are tried; to find the cause: kubectl describe node b

    overload 0 · communication+migration 42, proven optimal (found by search, proven by branch-and-bound, judged by clingo)
    ");
}

#[test]
fn a_proof_is_qualified_by_what_is_left_to_the_scheduler() {
    let left = "  leftToScheduler: ['server: preferred pod affinity', 'ResourceQuota q: its scopes']\n  foundBy: search";
    let dump = File::new("dump.yaml", &DUMP.replacen("  foundBy: search", left, 1));
    let status = ["status", "shop/web", "-f", dump.path()];
    let shown = cairn(&status).out;
    let expected = "Left to the scheduler\n  server: preferred pod affinity\n  ResourceQuota q: its scopes\n\noverload 0 · \
                    communication+migration 42, proven optimal under the rules that Cairn models (found by search, ";
    assert!(shown.contains(expected), "{shown}");
    let report = cairn(&[&status[..], &["-o", "json"]].concat()).json();
    assert_eq!(report["leftToScheduler"][1], "ResourceQuota q: its scopes");
}

#[test]
fn measured_load() {
    let load = "counters: {covered: 2, wanted: 3}\n  conditions:\n  - {type: WouldMove, status: 'True', reason: DryRun, message: would move server-0, \
                lastTransitionTime: '2026-01-01T00:00:00Z'}\n";
    let measured = DUMP.replacen("conditions:\n", load, 1);
    // The refusal has a cause and the actor runs elsewhere, so it is no problem.
    let measured =
        measured.replace("until: '2026-01-01T00:05:00Z'}", "until: '2026-01-01T00:05:00Z', cause: c}");
    let measured = measured.replace("{phase: Stopping, unit: b/gpus-0", "{phase: Running, unit: a/gpus-1");
    let shown_of = |manifest: &str| {
        let dump = File::new("dump.yaml", manifest);
        cairn(&["status", "shop/web", "-f", dump.path()]).all()
    };
    let shown = shown_of(&measured);
    let expected = "Measured load\n  2 of 3 actors are measured; mode of the default policy\n  DryRun: would move server-0\n";
    assert!(shown.contains(expected), "{shown}");
    assert!(!shown.contains("WouldMove") && !shown.contains("is refused by b"), "{shown}");

    let policy = "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: throughput, namespace: cairn-system, \
                  labels: {cairn.dev/policy: 'true'}}, data: {policy.yaml: 'rebalance: {mode: \"Off\"}'}}\n";
    for (from, to, expected) in [
        ("spec:\n", "spec:\n", "; mode Off of the default policy\n"),
        ("spec:\n", "spec:\n  policy: throughput\n", "; mode Off of the policy throughput\n"),
        ("spec:\n", "spec:\n  policy: other\n", "; mode of the policy other\n"),
        ("spec:\n", "spec:\n  rebalance: DryRun\n", "; mode DryRun\n"),
    ] {
        let shown = shown_of(&(measured.replacen(from, to, 1) + policy));
        assert!(shown.contains(expected), "{expected}: {shown}");
    }

    let gain =
        "  gain: {expectedPercent: 31, why: change, decidedAt: '2026-01-01T00:00:00.500000Z'}\n  unplaced: [";
    let moved = "  moves:\n  - {actor: server-0, from: b/gpus-0, to: a/gpus-0, decidedAt: '2026-01-01T00:00:00.500000Z', \
                 step: Judged, since: '2026-01-01T00:05:00.000000Z', realisedPercent: 28}\n  refusals: [";
    let decided = measured.replacen("  unplaced: [", gain, 1).replacen("  refusals: [", moved, 1);
    let decided = decided.replacen("spec:\n", "spec:\n  rebalance: 'On'\n", 1);
    let shown = shown_of(&decided);
    let expected = "  2 of 3 actors are measured; mode On\n  last decision 2026-01-01T00:00:01Z (change): expected gain 31 %, \
                    realised 28 %\n";
    assert!(shown.contains(expected), "{shown}");
}

#[test]
fn all_applications() {
    let healthy =
        DUMP.split("---").next().unwrap().replace("name: web", "name: calm").replace("web-uid", "calm-uid");
    let healthy = healthy.replace("phase: Degraded", "phase: Running").replace("'False'", "'True'");
    let healthy = healthy.replace(
        "placed: 2, running: 1, ready: 1, placedOfWanted: 2/3",
        "placed: 3, running: 3, ready: 3, placedOfWanted: 3/3",
    );
    let healthy = healthy.lines().filter(|line| !line.contains("NameTaken")).collect::<Vec<_>>().join("\n");
    let (dump, calm) = (File::new("dump.yaml", DUMP), File::new("calm.yaml", &healthy));
    insta::assert_snapshot!(cairn(&["status", "-f", dump.path(), calm.path()]).all(), @r"
    exit 2
    APPLICATION  PHASE     ACTORS  PLACED  RUNNING  READY  OBJECTIVE                                PROBLEMS
    shop/web     Degraded  3       2       1        1      overload 0 · communication+migration 42  Placed: 1 actor is unplaced: server-2 (every gpu is taken) (and 2 more)
    shop/calm    Running   3       3       3        3
    ");
    assert_eq!(cairn(&["status", "-f", calm.path()]).code, Some(0));
}

/// An application during a rollout, with each actor on a node of its own and one actor in a crash loop.
fn large(actors: usize) -> String {
    let owner = "ownerReferences: [{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, name: web, uid: web-uid, controller: true}]";
    let application = format!(
        "apiVersion: cairn.dev/v1alpha1
kind: ActorApplication
metadata: {{name: web, namespace: shop, uid: web-uid, generation: 3}}
spec:
  actors:
  - {{name: server, replicas: {actors}, implementations: [{{kind: cpu, serviceTime: 1ms, template: {{spec: {{containers: []}}}}}}]}}
status:
  phase: Running
  observedGeneration: 2
  actors: {{wanted: {actors}, placed: {actors}, running: {actors}, ready: {}, updated: 1, placedOfWanted: x}}
  revision: {{current: web-1, update: web-2}}
  conditions:
  - {{type: Ready, status: 'False', reason: NotReady, message: 'all run, one less is ready', lastTransitionTime: '2026-01-01T00:00:00Z'}}
---
{{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {{name: cpus}}, spec: {{kind: cpu}}}}
",
        actors - 1
    );
    let place = |n| format!("  - {{actor: server-{n}, unit: n{n}/cpus-0, node: n{n}, pool: cpus}}\n");
    let places = (0..actors).map(place).collect::<Vec<_>>().concat();
    let decision = format!(
        "---
apiVersion: cairn.dev/v1alpha1
kind: Placement
metadata: {{name: web, namespace: shop, {owner}}}
spec:
  application: web
  applicationGeneration: 2
  policy: throughput
  snapshotDigest: d
  strategy: asp
  seed: 1
  effort: 1
  assignments:
{places}"
    );
    let instance = |n: usize| {
        let (ready, why) = if n == 7 {
            ("False", "the pod is not ready: container main: CrashLoopBackOff, last exit code 1 (Error)")
        } else {
            ("True", "the pod is ready")
        };
        format!(
            "---
apiVersion: cairn.dev/v1alpha1
kind: Instance
metadata: {{name: web-server-{n}, namespace: shop, uid: i{n}, {owner}}}
spec: {{applicationName: web, actorGroup: server, actor: server-{n}, template: {{kind: cpu, count: 1}}}}
status:
  {{phase: Running, unit: n{n}/cpus-0, pod: web-server-{n}, conditions: [{{type: Ready, status: '{ready}', reason: R,
    message: '{why}', lastTransitionTime: '2026-01-01T00:00:00Z'}}]}}
"
        )
    };
    [application, decision].into_iter().chain((0..actors).map(instance)).collect()
}

#[test]
fn large_applications_are_grouped() {
    let dump = File::new("dump.yaml", &large(1200));
    insta::assert_snapshot!(cairn(&["status", "shop/web", "-f", dump.path()]).all(), @r"
    exit 2
    shop/web  Running  1200 of 1200 actors placed, 1200 running, 1199 ready · 1 of 1200 updated

    GROUP   KIND  ACTORS  HEALTHY  NODES
    server  cpu   1,200   1,199    1,200

    ACTOR     UNIT       KIND  POD           STATE
    server-7  n7/cpus-0  cpu   web-server-7  Running, not ready

    POOL  KIND  UNITS  NODES  ACTORS
    cpus  cpu   1,200  1,200  1,200

    Problems
      generation 3 is not reconciled yet; the status is of generation 2
        -> check whether the operator runs: kubectl cairn doctor
      Ready: all run, one less is ready
        -> check its pods: kubectl describe pods -n shop -l cairn.dev/application=web
      server-7 is not ready: container main: CrashLoopBackOff, last exit code 1 (Error)
        -> check its log: kubectl logs web-server-7 -n shop --previous
    ");
    let all = cairn(&["status", "shop/web", "-f", dump.path(), "--all"]).out;
    assert!(all.lines().filter(|line| line.starts_with("server-")).count() == 1200, "{all}");
    let few = File::new("few.yaml", &large(20));
    let few = cairn(&["status", "shop/web", "-f", few.path()]).out;
    assert!(few.lines().filter(|line| line.starts_with("server-")).count() == 20, "{few}");
}

#[test]
fn json_output() {
    let dump = File::new("dump.yaml", DUMP);
    let ran = cairn(&["status", "web", "-n", "shop", "-f", dump.path(), "-o", "json"]);
    let status = ran.json();
    assert_eq!(ran.code, Some(2));
    assert_eq!(status["slots"][0]["devices"][0], "nvidia.com/gpu=GPU-7");
    assert_eq!(status["actors"].as_array().unwrap().len(), 3);
    assert_eq!(status["wrong"].as_array().unwrap().len(), 3, "{status}");
    let advice = status["wrong"][2]["toDo"].as_str().unwrap();
    assert!(advice.ends_with("kubectl describe node b"), "{advice}");
    let by = ["foundBy", "provenBy", "judged"].map(|field| status[field].as_str().unwrap());
    assert_eq!(by, ["search", "branch-and-bound", "all"]);
    assert_eq!(status["excused"][0], "server-0: policy quiet line 2: N = a");
}

#[test]
fn unknown_applications_are_reported() {
    let dump = File::new("dump.yaml", DUMP);
    let ran = cairn(&["status", "web", "-f", dump.path()]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (Some(1), "error: application default/web does not exist; existing applications: shop/web\n")
    );
    let ran = cairn(&["status", "shop/web", "-n", "other", "-f", dump.path()]);
    let expected = "error: shop/web contradicts --namespace other; set only one of them\n";
    assert_eq!((ran.code, ran.err.as_str()), (Some(1), expected));
}

#[test]
fn objects_of_newer_versions_are_left_out_with_a_warning() {
    let newer = DUMP
        .replace("phase: Degraded", "phase: Sleeping")
        .replace("name: web, namespace: shop", "name: new, namespace: shop");
    let dump = File::new("dump.yaml", &format!("{DUMP}---{newer}"));
    let ran = cairn(&["status", "-f", dump.path()]);
    assert!(ran.out.contains("shop/web") && !ran.out.contains("shop/new"), "{}", ran.out);
    let start =
        "warning: dump.yaml: document 6, ActorApplication new, status.phase: unknown variant `Sleeping`";
    let err = dump.without_path(&ran.err);
    assert!(err.starts_with(start) && err.trim_end().ends_with("; the object is left out"), "{err}");
}

#[test]
fn control_characters_of_objects_are_escaped() {
    let hostile = r#"message: "\e]0;title\a\r\nall is well""#;
    let dump = File::new(
        "dump.yaml",
        &DUMP.replace("message: 'server-1: the pod web-server-1 is not ours'", hostile),
    );
    let ran = cairn(&["status", "shop/web", "-f", dump.path()]);
    assert!(ran.out.contains(r"\u001b]0;title\u0007\u000d\u000aall is well"), "{}", ran.out);
    assert!(!ran.out.contains('\u{1b}'));
}

#[test]
fn a_namespace_without_applications_is_named() {
    let dump = File::new("dump.yaml", DUMP);
    let ran = cairn(&["status", "-n", "nowhere", "-f", dump.path()]);
    let expected = "No applications found in namespace nowhere. examples/surveillance.yaml is an example.\n";
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), expected));
}

#[test]
fn completion_scripts_know_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let ran = cairn(&["completion", shell]);
        assert_eq!(ran.code, Some(0));
        for command in ["plan", "explain", "check-policy", "topology", "status", "doctor"] {
            assert!(ran.out.contains(command), "{shell} does not know {command}");
        }
    }
    // kubectl uses a script that passes the words on
    let ran = cairn(&["completion", "kubectl"]);
    assert_eq!(ran.out, "#!/bin/sh\nexec kubectl-cairn __complete \"$@\"\n");
    assert_eq!(cairn(&["__complete", "stat"]).out.split('\t').next(), Some("status"));
}
