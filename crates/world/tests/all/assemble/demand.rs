//! Work and messages.

use jiff::Timestamp;
use world::{Index, Objects, Policy, assemble};

use super::cluster::{BASE, changed, difference, key, placement, shown, world_of};

#[test]
fn message_counts_are_rounded_once() {
    let channel =
        |channel: &str| changed("spec: {actors", &format!("spec: {{channels: [{channel}], actors"), "");
    let table = [
        ("{from: cam, to: cam, rate: 1/s, pattern: Ring, drag: 2}", "ring"),
        ("{from: cam, to: cam, rate: 1/h, messageBytes: 65Ki, pattern: AllToAll}", "two quanta, rounded up"),
        ("{from: cam, to: missing, rate: 1/s, pattern: AllToAll}", "no such group"),
    ];
    for (text, name) in table {
        insta::assert_snapshot!(name, difference(&channel(text)));
    }
}

#[test]
fn both_directions_of_a_pair_are_one_edge() {
    let all = "spec: {channels: [{from: cam, to: cam, rate: 1/s, pattern: AllToAll}], actors";
    let many = changed("spec: {actors", all, "").replace("replicas: 2", "replicas: 30");
    let world = world_of(&many).unwrap();
    let file = world.snapshot.file();
    let channels = &world.snapshot.problem().channels;
    assert_eq!((file.messages.len(), file.edges(), channels.pairs), (0, 1, 30 * 29 / 2));
    let ring = all.replace("AllToAll", "Ring");
    let many = changed("spec: {actors", &ring, "").replace("replicas: 2", "replicas: 30");
    assert_eq!(world_of(&many).unwrap().snapshot.file().edges(), 30);
    let back_and_forth = changed("spec: {actors", &ring, "");
    let world = world_of(&back_and_forth).unwrap();
    assert_eq!((world.snapshot.file().messages.len(), world.snapshot.file().edges()), (2, 1));
}

#[test]
fn invalid_manifests_have_actionable_messages() {
    let ring = |channel: &str| {
        let channels =
            format!("spec: {{channels: [{{from: cam, to: cam, {channel}, pattern: Ring}}], actors");
        changed("spec: {actors", &channels, "")
    };
    let table = [
        (
            changed("replicas: 2", "replicas: 5001", ""),
            "the application has 5001 actors, at most 5000 are supported; divide it",
        ),
        (
            changed(
                "containers: [{name: c}]",
                "containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]",
                "",
            ),
            "spec.actors[cam].implementations[gpu].template: requests nvidia.com/gpu itself; remove it, Cairn adds the resource of the chosen pool",
        ),
        (
            changed("arrivals: 1/s", "arrivals: 1 per second", ""),
            "spec.actors[cam].arrivals: `1 per second` is not a rate, as in 30/s, 0.5/m or 100/h",
        ),
        (
            changed("cpu: 500m", "cpu: 999999999999999999E", ""),
            "spec.actors[cam].implementations[cpu].template: has an invalid resource request: `999999999999999999E` is not a quantity that Kubernetes supports: the maximum is 2^63; correct it",
        ),
        (
            ring("rate: 999999999/s, messageBytes: 999999999999999Ei"),
            "spec.channels[0].messageBytes: `999999999999999Ei` is not a quantity that Kubernetes supports: the maximum is 2^63",
        ),
        (
            ring("rate: 999999999.999999/s, messageBytes: 1024Ei"),
            "spec.channels[0]: an actor sends too many messages in a window (rate times messageBytes); the maximum is 2^40, correct it",
        ),
        (
            changed("arrivals: 1/s", "arrivals: 999999999.999999/h", "")
                .replace("serviceTime: 10ms", "serviceTime: 999999999.999999s"),
            "spec.actors[cam].implementations[cpu].serviceTime: an actor has too much work in a window (arrivals times serviceTime); the maximum is 2^40, correct it",
        ),
        (
            ring("rate: 0.00000000000000001/h").replace("arrivals: 1/s", "arrivals: 999999999999999999/s"),
            "spec.actors[cam].implementations[cpu].serviceTime: an actor has too much work in a window (arrivals times serviceTime); the maximum is 2^40, correct it",
        ),
        (
            ring(
                "rate: 0.00000000000000001/h, pattern: Ring}, {from: cam, to: cam, rate: 999999999999999999/s",
            ),
            "spec.channels[1]: the rates of its actors' channels cannot be added exactly; write them with fewer digits",
        ),
    ];
    for (yaml, expected) in table {
        assert_eq!(world_of(&yaml).unwrap_err().to_string(), expected);
    }
    let busy = changed("arrivals: 1/s", "arrivals: 5000/s", "");
    assert!(shown(&busy).ends_with("note Saturated: an actor of cam has more work than any unit can do for one actor; add replicas or a faster kind"));
}

/// An application with excessive numbers gets an error, and the others are planned.
#[test]
fn large_numbers_affect_only_their_application() {
    let application = BASE.split("---").last().unwrap().replace("name: app", "name: other");
    for (from, to) in [
        ("cpu: 500m", "cpu: 999999999999999999E"),
        (
            "spec: {actors",
            "spec: {channels: [{from: cam, to: cam, rate: 1/s, messageBytes: 1025Ei, pattern: Ring}], actors",
        ),
        (
            "spec: {actors",
            "spec: {channels: [{from: cam, to: cam, rate: 1/s, messageBytes: 1024Ei, pattern: Ring}], actors",
        ),
        ("cpu: 500m", "cpu: 1E"),
        ("replicas: 2,", "replicas: 2, stateBytes: 4Ei,"),
        ("serviceTime: 1ms", "serviceTime: 999999999s"),
        // it fits alone, and nothing fits beside it
        ("serviceTime: 1ms", "serviceTime: 300239975s"),
    ] {
        assert!(application.contains(from), "{from}");
        let other = application.replacen(from, to, 1);
        let yaml = changed("kind: cpu", "kind: cpu", &format!("{other}\n---\n{}", placement("other", "{}")));
        let mut objects = Objects::default();
        objects.read("test", &yaml).unwrap();
        let index = Index::of(&objects);
        let ruled =
            Policy { program: Some(":- run_on(A,U), run_on(B,U), A < B.".into()), ..Policy::builtin("p") };
        for policy in [Policy::builtin("p"), ruled] {
            let world = |name: &str| assemble(&index, &key(name), &policy, Timestamp::UNIX_EPOCH);
            let (app, other) = (world("app").unwrap(), world("other").unwrap_err().to_string());
            assert!(other.starts_with("spec."), "{to}: {other}");
            let summary = |note: &world::SnapshotWarning| {
                note.condition == "Partial" && note.message.starts_with("the manifests of other are invalid")
            };
            assert!(app.warnings.iter().any(summary), "{to}: {:?}", app.warnings);
        }
    }
}

/// Applications of other namespaces are counted, not named.
#[test]
fn the_warning_about_invalid_manifests_is_short_and_names_no_other_tenant() {
    let application = BASE.split("---").last().unwrap();
    let invalid = |namespace: &str, name: &str| {
        let of = format!("name: {name}, namespace: {namespace}");
        let manifest = application.replace("name: app, namespace: ns", &of);
        let manifest = manifest.replace("serviceTime: 1ms", "serviceTime: 999999999s");
        let decision = placement(name, "{}").replace("namespace: ns", &format!("namespace: {namespace}"));
        format!("{manifest}\n---\n{decision}")
    };
    let message = |others: &[(&str, &str)]| {
        let others: Vec<String> = others.iter().map(|(namespace, name)| invalid(namespace, name)).collect();
        let world = world_of(&changed("kind: cpu", "kind: cpu", &others.join("\n---\n"))).unwrap();
        let note = world.warnings.iter().find(|note| note.condition == "Partial").unwrap();
        let rest = " are invalid; only their current assignments and pod requests are considered";
        note.message.strip_prefix("the manifests of ").unwrap().strip_suffix(rest).unwrap().to_owned()
    };
    assert_eq!(message(&[("ns", "b")]), "b");
    assert_eq!(message(&[("theirs", "secret")]), "1 other applications");
    assert_eq!(message(&[("ns", "b"), ("theirs", "secret"), ("theirs", "hidden")]), "b, 2 others");
    let many: Vec<(&str, &str)> = ["b", "c", "d", "e", "f"].map(|name| ("ns", name)).to_vec();
    assert_eq!(message(&many), "b, c, d, 2 others");
}

#[test]
fn a_namespace_limits_the_priority_of_its_applications() {
    for (label, asked, counts) in [
        (None, 7, 7),
        (Some("100"), 7, 7),
        (Some("100"), 1000, 100),
        (Some("0"), 7, 0),
        (Some("0"), -7, -7),
        // A mistake of the administrator allows nothing above the default.
        (Some("high"), 7, 0),
    ] {
        let namespace = label.map_or(String::new(), |label| {
            format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: ns, labels: {{cairn.dev/max-priority: '{label}'}}}}}}")
        });
        let yaml = changed("spec: {actors", &format!("spec: {{priority: {asked}, actors"), &namespace);
        let mut objects = Objects::default();
        objects.read("test", &yaml).unwrap();
        let index = Index::of(&objects);
        let application = index.application(&key("app")).unwrap();
        assert_eq!(index.priority(application), counts, "{label:?} {asked}");
        let world = assemble(&index, &key("app"), &Policy::builtin("p"), Timestamp::UNIX_EPOCH).unwrap();
        let is_reported = world.warnings.iter().any(|note| {
            note.condition == "PriorityLimited"
                && note.message.starts_with(&format!("spec.priority {asked} is limited to {counts}"))
        });
        assert_eq!(is_reported, counts < asked, "{label:?} {asked}");
    }
}

/// Neither its actors nor its messages are listed.
#[test]
fn excessive_sizes_affect_only_their_application() {
    let application = BASE.split("---").last().unwrap().replace("name: app", "name: other");
    let channels = vec!["{from: cam, to: cam, rate: 1/s, pattern: Ring}"; 512].join(", ");
    let large = application.replace("replicas: 2", "replicas: 500");
    let many = application.replace("replicas: 2", "replicas: 10000");
    let (at, end) = (many.find("{name: cam").unwrap(), many.rfind("]}}").unwrap());
    let group = &many[at..end];
    let groups: Vec<String> = (0..256).map(|at| group.replacen("cam", &format!("g{at}"), 1)).collect();
    for (manifest, problem) in [
        (
            format!("{}{}{}", &many[..at], groups.join(", "), &many[end..]),
            "the application has 2560000 actors, at most 5000 are supported; divide it",
        ),
        (
            large.replace("spec: {actors", &format!("spec: {{channels: [{channels}], actors")),
            "channels and avoid rules create 256000 edges, at most 200000 are supported; avoid smaller groups",
        ),
    ] {
        let decided = placement("other", "{}").replace("cam-0", "g255-9999");
        let mut objects = Objects::default();
        objects.read("test", &format!("{BASE}\n---\n{manifest}\n---\n{decided}")).unwrap();
        let index = Index::of(&objects);
        let world = |name: &str| assemble(&index, &key(name), &Policy::builtin("p"), Timestamp::UNIX_EPOCH);
        assert_eq!(world("other").unwrap_err().to_string(), problem);
        let app = world("app").unwrap();
        let names_other =
            |note: &world::SnapshotWarning| note.message.starts_with("the manifests of other are invalid");
        assert!(app.warnings.iter().any(names_other), "{problem}: {:?}", app.warnings);
        let names = world::desired_actors(&index, index.application(&key("other")).unwrap()).names;
        let is_large = problem.contains("2560000");
        assert_eq!(names.len(), if is_large { 5002 } else { 500 });
        // What was decided keeps running.
        assert_eq!(names.iter().any(|name| name.short() == "g255-9999"), is_large);
    }
}

#[test]
fn a_speed_out_of_range_makes_its_pool_invalid() {
    let fast = changed("speed: \"2\"", "speed: \"999999999999999999/0.00000000000000001\"", "");
    let found = shown(&fast);
    let problem = "pool gpus Invalid: spec.speed: speed times utilizationTarget is too large or has too many digits; correct it";
    assert!(found.contains(problem), "{found}");
    assert!(found.contains("unit n1/cpus-0 "), "{found}");
}
