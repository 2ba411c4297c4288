//! `plan -f` and `topology -f`.

use std::collections::BTreeSet;

use crds::NodeTopologySpec;
use hicr::Topology;

use crate::{File, cairn, cairn_fed, root};

const CLUSTER: [&str; 8] = [
    "plan",
    "-f",
    "examples/nodes.yaml",
    "examples/pools.yaml",
    "examples/topologies",
    "-f",
    "examples/surveillance.yaml",
    "--effort=1000",
];

fn plan(more: &[&str]) -> crate::Ran {
    cairn(&[&CLUSTER[..], more].concat())
}

#[test]
fn surveillance_example_is_proven_optimal() {
    let ran = plan(&["--application", "vision/surveillance", "-o", "json"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let plan = ran.json();
    assert_eq!(plan["objective"]["overload"], 0);
    assert_eq!(plan["objective"]["communication"], 59_040);
    assert_eq!(plan["objective"]["annoyance"], 21);
    assert_eq!(plan["optimal"], true);
    let mut on: Vec<String> = plan["assignments"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(actor, unit)| {
            let group = actor.rsplit('/').next().unwrap().split('-').next().unwrap();
            format!("{group} on {}", unit.as_str().unwrap().split('/').next().unwrap())
        })
        .collect();
    on.sort_unstable();
    let on_gpu_node = on.iter().filter(|place| place.ends_with("on cairn-gpu")).count();
    assert_eq!(on_gpu_node, 7, "{on:?}");
}

#[test]
fn surveillance_example_as_a_table() {
    let ran = plan(&["--strategy", "greedy"]);
    insta::assert_snapshot!(ran.all(), @r"
    exit 0
    vision/surveillance  strategy greedy · policy throughput · seed 1

    ACTOR       UNIT              NODE       KIND  POOL  CHANGE
    crop-0      cairn-gpu/cpus-0  cairn-gpu  cpu   cpus  starts
    crop-1      cairn-cpu/cpus-0  cairn-cpu  cpu   cpus  starts
    classify-0  cairn-gpu/gpus-0  cairn-gpu  gpu   gpus  starts
    classify-1  cairn-gpu/cpus-0  cairn-gpu  cpu   cpus  starts
    classify-2  cairn-gpu/cpus-0  cairn-gpu  cpu   cpus  starts
    classify-3  cairn-gpu/cpus-0  cairn-gpu  cpu   cpus  starts
    classify-4  cairn-gpu/gpus-1  cairn-gpu  gpu   gpus  starts
    localize-0  cairn-gpu/cpus-0  cairn-gpu  cpu   cpus  starts

    Notes
      policy throughput is not in the files: using the built-in defaults

    8/8 actors placed · overload 0 · communication 69,480 · annoyance 23
    Not proven optimal, the search ended without a proof: communication+migration has no lower bound. (found by construction, judged by clingo)
    ");
}

#[test]
fn snapshot_reproduces_the_plan() {
    let snapshot = plan(&["-o", "snapshot"]);
    assert_eq!((snapshot.code, snapshot.err.as_str()), (Some(0), ""));
    let direct = plan(&["--application", "vision/surveillance", "--strategy", "greedy", "-o", "json"]).json();
    let replay = cairn_fed(
        &["plan", "--snapshot", "-", "--effort=1000", "--strategy", "greedy", "-o", "json"],
        &snapshot.out,
    );
    for key in ["assignments", "objective", "bound", "optimal", "effort"] {
        assert_eq!(replay.json()[key], direct[key], "{key}");
    }
}

/// The example application under another name.
fn another(name: &str, change: impl Fn(String) -> String) -> File {
    let text = std::fs::read_to_string(root().join("examples/surveillance.yaml")).unwrap();
    let renamed = text.replace("name: surveillance", &format!("name: {name}"));
    File::new("another.yaml", &change(renamed))
}

#[test]
fn applications_are_planned_in_order_of_their_names() {
    let second = another("tracking", |text| text);
    let ran = plan(&["-f", second.path(), "--strategy", "greedy", "-o", "json"]);
    let plans = ran.json();
    let names: Vec<&String> = plans["applications"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["vision/surveillance", "vision/tracking"]);
    let gpus = |name: &str| {
        let places = plans["applications"][name]["assignments"].as_object().unwrap();
        let ours = places.iter().filter(|(actor, _)| actor.starts_with(&format!("{name}/")));
        ours.filter(|(_, unit)| unit.as_str().unwrap().contains("/gpus-")).count()
    };
    assert_eq!(
        (gpus("vision/surveillance"), gpus("vision/tracking")),
        (2, 0),
        "the first application uses the GPUs"
    );
    let second = plans["applications"]["vision/tracking"]["assignments"].as_object().unwrap();
    let listed: BTreeSet<&str> = second
        .keys()
        .filter_map(|actor| actor.rsplit_once('/'))
        .map(|(application, _)| application)
        .collect();
    assert_eq!(
        listed.into_iter().collect::<Vec<_>>(),
        ["vision/tracking"],
        "actors of the first application are aggregated by unit"
    );
}

#[test]
fn applications_see_the_decisions_of_those_before_them_with_uids_and_without_namespaces() {
    // The example nodes have two GPUs; `a` has a decision without them.
    let application = |name: &str, metadata: &str, replicas: u8| {
        format!(
            "apiVersion: cairn.dev/v1alpha1\nkind: ActorApplication\nmetadata: {{name: {name}{metadata}}}\nspec:\n  actors:\n  \
             - name: infer\n    replicas: {replicas}\n    implementations:\n    \
             - {{kind: gpu, serviceTime: 3ms, template: {{spec: {{containers: [{{name: actor, image: infer}}]}}}}}}\n---\n"
        )
    };
    let owner =
        "{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, name: a, uid: ua, controller: true}";
    let placement = |metadata: &str| {
        format!(
            "apiVersion: cairn.dev/v1alpha1\nkind: Placement\nmetadata: {{name: a{metadata}}}\nspec: {{application: a, \
             applicationGeneration: 1, policy: throughput, snapshotDigest: x, strategy: asp, seed: 1, effort: 1}}\n"
        )
    };
    for (a, b, decided) in [
        (
            ", namespace: vision, uid: ua",
            ", namespace: vision, uid: ub",
            format!(", namespace: vision, ownerReferences: [{owner}]"),
        ),
        ("", "", String::new()),
        (", uid: ua", ", uid: ub", format!(", ownerReferences: [{owner}]")),
        (", namespace: default", "", ", namespace: default".to_owned()),
    ] {
        let both = [application("a", a, 2), application("b", b, 1), placement(&decided)].concat();
        let file = File::new("both.yaml", &both);
        let ran = cairn(
            &[&CLUSTER[..5], &["-f", file.path(), "--strategy=greedy", "--effort=1000", "-o", "json"]]
                .concat(),
        );
        let plans = ran.json();
        let placed = |name: &str| {
            let plans = plans["applications"].as_object().unwrap().iter();
            let mut found = plans.filter(|(key, _)| key.ends_with(name));
            found.next().unwrap().1["assignments"].as_object().unwrap().len()
        };
        assert_eq!((ran.code, placed("/a"), placed("/b")), (Some(2), 2, 0), "{a} {b}: {}", ran.out);
    }
}

#[test]
fn invalid_application_does_not_affect_others() {
    let policy = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: throughput, labels: {cairn.dev/policy: 'true'}}\n\
                  data: {policy.yaml: 'strategy: greedy'}\n";
    let policy = File::new("policy.yaml", policy);
    let invalid = another("broken", |text| text.replace("policy: throughput", "policy: absent"));
    let ran = plan(&["-f", invalid.path(), policy.path(), "-o", "json"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.starts_with("error: vision/broken: "), "{}", ran.err);
    assert_eq!(ran.json()["applications"].as_object().unwrap().len(), 1);
}

#[test]
fn policy_from_files_is_used() {
    let policy = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: throughput, labels: {cairn.dev/policy: 'true'}}\n\
                  data: {policy.yaml: 'strategy: greedy'}\n";
    let file = File::new("policy.yaml", policy);
    let only = ["--application", "vision/surveillance", "-o", "json"];
    let of_file = plan(&[&["-f", file.path()], &only[..]].concat()).json();
    assert_eq!(of_file["strategy"], "greedy");
    assert!(of_file.get("notes").is_none());
    let built_in = plan(&[&only[..], &["--strategy", "greedy"]].concat()).json();
    assert_eq!(built_in["notes"][0], "policy throughput is not in the files: using the built-in defaults");
    let instead = File::new("fast.yaml", "strategy: local\nwindow: 10s\n");
    let how = ["-f", file.path(), "--policy", instead.path()];
    let given = plan(&[&how[..], &only[..]].concat()).json();
    assert_eq!(given["strategy"], "local");
    let drawn = File::new("policy.yaml", &policy.replace("greedy", "random"));
    assert_eq!(
        plan(&[&["-f", drawn.path()], &only[..]].concat()).err,
        "error: vision/surveillance: policy throughput: strategy: strategy `random` is a baseline for comparison, not \
         for production; use one of asp, greedy, local, clingo\n"
    );
    let other = File::new("policy.yaml", &policy.replace("throughput", "latency"));
    let missing = plan(&[&["-f", other.path()], &only[..]].concat());
    assert_eq!(
        missing.err,
        "error: vision/surveillance: policy throughput does not exist; existing policies: latency\n"
    );
}

#[test]
fn manifest_errors_have_file_document_and_field() {
    let error = |text: &str| {
        let file = File::new("app.yaml", text);
        let ran = cairn(&["plan", "-f", file.path()]);
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
        file.without_path(&ran.err)
    };
    let rows = [
        error(""),
        error("a: [1"),
        error("{}"),
        error("kind: ConfigMap\n---\nmetadata: {name: x}\n"),
        error("{apiVersion: cairn.dev/v1alpha1, kind: ActorAplication, metadata: {name: x}}"),
        error(
            "{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, metadata: {name: x}, spec: {actors: 7}}",
        ),
    ];
    insta::assert_snapshot!(rows.concat(), @r"
    error: there is no ActorApplication in the files
    error: app.yaml: document 1: did not find expected ',' or ']' at line 2 column 1, while parsing a flow sequence at line 1 column 4
    error: app.yaml: document 1: has no `kind`; give whole objects, as `kubectl get -o yaml` prints them
    error: app.yaml: document 2: has no `kind`; give whole objects, as `kubectl get -o yaml` prints them
    error: app.yaml: document 1, ActorAplication x: `ActorAplication` is not a kind of cairn.dev; correct it
    error: app.yaml: document 1, ActorApplication x, spec.actors: `7` is not a list
    ");
    let absent = plan(&["--application", "vision/other"]);
    assert_eq!(absent.code, Some(1));
    assert_eq!(absent.err, "error: there is no ActorApplication vision/other; known: vision/surveillance\n");
    let folder = tempfile::tempdir().unwrap();
    let empty = cairn(&["plan", "-f", folder.path().to_str().unwrap()]);
    assert!(empty.err.ends_with(": the directory contains no .yaml, .yml or .json file\n"), "{}", empty.err);
}

#[test]
fn duplicate_and_ambiguous_applications_are_rejected() {
    let twice = plan(&["-f", "examples/surveillance.yaml"]);
    assert_eq!(twice.err, "error: vision/surveillance is defined more than once; remove the duplicates\n");
    let second = another("tracking", |text| text);
    let many = plan(&["-f", second.path(), "-o", "snapshot"]);
    assert_eq!(many.err, "error: a snapshot is for one of the 2 applications; set --application\n");
    assert_eq!(many.code, Some(1));
}

#[test]
fn unplaced_actors_exit_with_2() {
    let large = another("large", |text| text.replace("cpu: 500m", "cpu: 64"));
    let ran = plan(&["-f", large.path(), "--application", "vision/large", "--strategy", "greedy"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.out.contains("0/8 actors placed"), "{}", ran.out);
    assert!(ran.out.contains("Unplaced\n"), "{}", ran.out);
}

#[test]
fn refusals_expire_at_the_newest_timestamp_or_at_now() {
    let placement = "apiVersion: cairn.dev/v1alpha1\nkind: Placement\n\
        metadata: {name: surveillance, namespace: vision, creationTimestamp: '2026-01-01T00:00:00Z'}\n\
        spec: {application: surveillance, applicationGeneration: 1, policy: throughput, snapshotDigest: x, strategy: asp, seed: 1, effort: 1}\n\
        status: {refusals: [{actor: localize-0, node: cairn-gpu, reason: full, until: '2026-01-01T00:01:00Z'}]}\n";
    let file = File::new("placement.yaml", placement);
    let refused = |more: &[&str]| {
        let ran = plan(&[&["-f", file.path(), "-o", "snapshot"], more].concat());
        ran.json()["constraints"].as_array().is_some_and(|rules| {
            rules.iter().any(|rule| rule["actors"][0] == "vision/surveillance/localize-0")
        })
    };
    assert!(refused(&[]));
    assert!(refused(&["--now", "2026-01-01T00:00:59Z"]));
    assert!(!refused(&["--now", "2026-01-01T00:01:01Z"]));
}

#[test]
fn topology_of_a_node() {
    let ran = cairn(&["topology", "cairn-numa", "-f", "examples/topologies"]);
    insta::assert_snapshot!(ran.all(), @r"
    exit 0
    cairn-numa  2 NUMA Domain

    DEVICE  TYPE         VENDOR  MODEL                        NUMA  HEALTH  COMPUTE RESOURCES  MEMORY
    numa-0  NUMA Domain  intel   Intel(R) Xeon(R) Gold 5315Y  0     ok      2 Core             16 GiB RAM
    numa-1  NUMA Domain  intel   Intel(R) Xeon(R) Gold 5315Y  1     ok      2 Core             16 GiB RAM

    LINK FROM  TO      KIND          RELATIVE LATENCY
    numa-0     numa-1  Interconnect  21
    ");
    let json = cairn(&["topology", "cairn-numa", "-f", "examples/topologies", "-o", "json"]).json();
    assert_eq!(json["devices"].as_array().unwrap().len(), 2);
    let hicr = cairn(&["topology", "cairn-numa", "-f", "examples/topologies", "-o", "hicr"]);
    assert_eq!((hicr.code, hicr.err.as_str()), (Some(0), ""));
    let read = Topology::read(&hicr.out).unwrap();
    assert_eq!(read.devices.iter().map(|device| device.compute_resources.len()).collect::<Vec<_>>(), [2, 2]);
    // equal to the published NodeTopology
    let published: NodeTopologySpec = serde_json::from_value(json).unwrap();
    assert_eq!(NodeTopologySpec::from(&read), published);
    let absent = cairn(&["topology", "nowhere", "-f", "examples/topologies"]);
    insta::assert_snapshot!(absent.all(), @r"
    exit 1
    error: node nowhere has no NodeTopology; nodes with a NodeTopology: cairn-cpu, cairn-fpga, cairn-gpu, cairn-numa
    ");
}

#[test]
fn devices_that_claims_select_are_listed_by_name() {
    let device = |name: &str, uuid: &str, more: &str| {
        format!(
            "{{name: {name}, attributes: {{uuid: {{string: {uuid}}}, productName: {{string: Example 9}}}}, capacity: {{memory: {{value: 80Gi}}}}{more}}}"
        )
    };
    let devices = [
        device("gpu-0", "GPU-0", ""),
        device("gpu-1", "GPU-1", ", taints: [{key: broken, effect: NoSchedule}]"),
    ];
    let text = format!(
        "{{apiVersion: cairn.dev/v1alpha1, kind: NodeTopology, metadata: {{name: n}}, spec: {{devices: [\
         {{id: 'gpu-0000:01:00.0', type: GPU, uuid: GPU-0, numaNode: 1}}, {{id: numa-1, type: NUMA Domain, numaNode: 1}}]}}}}\n---\n\
         {{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {{name: s}}, spec: {{driver: gpu.example.com, nodeName: n, \
         pool: {{name: n, generation: 1, resourceSliceCount: 1}}, devices: [{}]}}}}\n---\n\
         {{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {{name: c, namespace: shop}}, spec: {{}}, status: {{allocation: \
         {{devices: {{results: [{{driver: gpu.example.com, pool: n, device: gpu-0, request: r}}]}}}}}}}}\n",
        devices.join(", ")
    );
    let file = File::new("slices.yaml", &text);
    insta::assert_snapshot!(cairn(&["topology", "n", "-f", file.path()]).all());
    // without an agent there are the published devices
    let file = File::new("no-agent.yaml", text.split_once("---\n").unwrap().1);
    let page = cairn(&["topology", "n", "-f", file.path()]).all();
    assert!(page.starts_with("exit 0\nn  no NodeTopology\n\nCLAIMABLE"), "{page}");
    assert!(page.contains("\ngpu-0") && page.contains("shop/c"), "{page}");
    let json = cairn(&["topology", "n", "-f", file.path(), "-o", "json"]).all();
    assert!(json.starts_with("exit 1\nerror: node n has no NodeTopology"), "{json}");
}

/// An application with four GPU actors; the example nodes have two GPUs.
fn gang(start: &str) -> File {
    let text = format!(
        "apiVersion: cairn.dev/v1alpha1\nkind: ActorApplication\nmetadata: {{name: gang, namespace: vision}}\n\
         spec:\n  start: {start}\n  actors:\n  - name: infer\n    replicas: 4\n    implementations:\n    \
         - {{kind: gpu, serviceTime: 3ms, template: {{spec: {{containers: [{{name: actor, image: infer}}]}}}}}}\n"
    );
    File::new("gang.yaml", &text)
}

#[test]
fn devices_that_unplaced_actors_cannot_have_are_named() {
    let device =
        |name: &str, more: &str| format!("{{name: {name}, attributes: {{uuid: {{string: {name}}}}}{more}}}");
    let tainted = device("b", ", taints: [{key: broken, effect: NoSchedule}]");
    let world = format!(
        "{{apiVersion: v1, kind: Node, metadata: {{name: n}}, status: {{allocatable: {{cpu: '8', memory: 8Gi, pods: '110'}}}}}}\n---\n\
         {{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {{name: npus}}, spec: {{}}}}\n---\n\
         {{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {{name: n}}, spec: {{driver: npu.example.com, nodeName: n, \
         pool: {{name: n, generation: 1, resourceSliceCount: 1}}, devices: [{}, {tainted}]}}}}\n---\n\
         {{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {{name: c, namespace: shop}}, spec: {{devices: {{}}}}, status: \
         {{allocation: {{devices: {{results: [{{driver: npu.example.com, pool: n, device: a, request: r}}]}}}}}}}}\n---\n\
         {{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {{name: npus}}, spec: {{kind: gpu, resource: {{dra: \
         {{deviceClassName: npus}}}}}}}}\n",
        device("a", "")
    );
    let (world, gang) = (File::new("npus.yaml", &world), gang("BestEffort"));
    let ran = cairn(&["explain", "actorapp", "vision/gang", "-o", "json", "-f", world.path(), gang.path()]);
    let report = ran.json();
    let notes: Vec<&str> = report["notes"].as_array().unwrap().iter().filter_map(|it| it.as_str()).collect();
    for expected in [
        "gpu: npu.example.com/n/a of n: allocated to ResourceClaim shop/c",
        "gpu: npu.example.com/n/b of n: tainted NoSchedule",
    ] {
        assert!(notes.contains(&expected), "{notes:?}");
    }
}

#[test]
fn notes_on_pools_are_printed() {
    let pool = "{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {name: typo}, spec: {kind: gpu, \
                devices: {model: H100}, resource: {devicePlugin: nvidia.com/gpu}}}";
    let (pool, gang) = (File::new("pool.yaml", pool), gang("BestEffort"));
    let files = ["-f", "examples/nodes.yaml", "examples/topologies", pool.path(), gang.path()];
    let ran = cairn(&[&["plan", "--strategy", "greedy", "--effort=1000"], &files[..]].concat());
    let note = "pool typo: NoMatchingDevice: cairn-gpu offers nvidia.com/gpu, but the pool selects none of its devices: it has 2 GPU";
    assert!(ran.out.contains(note), "{}", ran.all());
}

#[test]
fn a_plan_by_the_manifest_says_that_actors_are_measured() {
    let note = "8 of 8 actors are measured: the operator plans with their measured load, this plan has the manifest's numbers";
    for (covered, is_noted) in [(8, true), (0, false)] {
        let status = format!("status: {{counters: {{covered: {covered}, wanted: 8}}}}\n");
        let measured = another("measured", |text| text + &status);
        let files = ["-f", measured.path(), "--application", "vision/measured", "--strategy", "greedy"];
        let ran = plan(&files);
        assert_eq!(ran.out.contains(note), is_noted, "{}", ran.all());
    }
}

#[test]
fn all_or_nothing_places_all_or_none_and_has_a_remedy_for_all() {
    let cluster = ["-f", "examples/nodes.yaml", "examples/pools.yaml", "examples/topologies", "-f"];
    let together = gang("AllOrNothing");
    let ran = cairn(
        &[&["plan", "--strategy", "greedy", "--effort=1000", "--explain"], &cluster[..], &[together.path()]]
            .concat(),
    );
    insta::assert_snapshot!(ran.all(), @r"
    exit 2
    vision/gang  strategy greedy · policy throughput · seed 1

    ACTOR    UNIT  CHANGE
    infer-0  -     unplaced
    infer-1  -     unplaced
    infer-2  -     unplaced
    infer-3  -     unplaced

    Changes that allow placing unplaced actors
      all 2 actors together: 2 more slots on cairn-gpu/gpus-0; or one more node like cairn-gpu

    Unplaced
      infer-0: spec.start is AllOrNothing, and 2 other actors cannot be placed
      infer-1: spec.start is AllOrNothing, and 2 other actors cannot be placed
      infer-2: runs on gpu only; 2 units of pool gpus: 2 of 2 slots taken
      infer-3: runs on gpu only; 2 units of pool gpus: 2 of 2 slots taken

    Notes
      policy throughput is not in the files: using the built-in defaults

    0/4 actors placed · overload 0 · communication 0 · annoyance 0
    Not proven optimal, the search ended without a proof: overload has no lower bound. (found by construction)
    ");
    // The number of actors of each remedy, and its first change.
    let remedies = |gang: &File| -> Vec<(usize, String)> {
        let explain = ["explain", "actorapp", "vision/gang", "-o", "json"];
        let report = cairn(&[&explain[..], &cluster, &[gang.path()]].concat()).json();
        let remedies = report["explanation"]["wouldMakeRoom"].as_array().unwrap().clone();
        let one = |remedy: &serde_json::Value| {
            (remedy["actors"].as_array().map_or(1, Vec::len), remedy["anyOf"][0].as_str().unwrap().to_owned())
        };
        remedies.iter().map(one).collect()
    };
    let both = (2, "2 more slots on cairn-gpu/gpus-0".to_owned());
    assert_eq!(
        remedies(&gang("BestEffort")),
        [(1, "1 more slot on cairn-gpu/gpus-0".to_owned()), both.clone()]
    );
    assert_eq!(remedies(&together), [both]);
}
