//! `plan --policy`, enforced policies, and policies of other namespaces.

use serde_json::{Value, json};

use crate::{File, Ran, cairn};

const CLUSTER: [&str; 5] =
    ["plan", "-f", "examples/nodes.yaml", "examples/pools.yaml", "examples/surveillance.yaml"];

/// A policy's `ConfigMap`, with further metadata.
fn config_map(name: &str, label: &str, more: &str, program: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, labels: {{cairn.dev/policy: '{label}'}}{more}}}\n\
         data: {{policy.yaml: '', program.lp: '{program}'}}\n---\n"
    )
}

/// The program of the planning snapshot.
fn program(ran: &Ran) -> Value {
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    ran.json()["policy"]["program"].clone()
}

#[test]
fn enforced_policies_apply_to_a_given_policy_too() {
    let enforced = config_map("rules", "enforced", "", "p(1).");
    let elsewhere =
        config_map("elsewhere", "enforced", ", annotations: {cairn.dev/namespaces: audio}", "q(1).");
    let own = config_map("throughput", "true", "", "own(1).");
    let files = File::new("policies.yaml", &[enforced, elsewhere, own].concat());
    let with = |given: &[&str]| {
        program(&cairn(&[&CLUSTER[..], &["-f", files.path(), "-o", "snapshot"], given].concat()))
    };
    assert_eq!(with(&[]), "own(1).\n% enforced: rules\np(1).");
    let parameters = config_map("rules", "true", "", "r(1).");
    for (file, text, expected) in [
        ("fast.yaml", "window: 10s", "% enforced: rules\np(1)."),
        ("fast.lp", "r(1).", "r(1).\n% enforced: rules\np(1)."),
        ("rules.lp", "r(1).", "r(1).\n% enforced: rules\np(1)."),
        ("rules.yaml", parameters.trim_end_matches("---\n"), "r(1).\n% enforced: rules\np(1)."),
        // A newer version of the enforced policy itself.
        ("rules.yaml", config_map("rules", "enforced", "", "r(1).").trim_end_matches("---\n"), "r(1)."),
    ] {
        let given = File::new(file, text);
        assert_eq!(with(&["--policy", given.path()]), expected, "{file}: {text}");
    }
}

#[test]
fn policies_of_other_namespaces_are_refused_as_by_the_operator() {
    let of = |namespaces: &str| {
        let more = format!(", annotations: {{cairn.dev/namespaces: '{namespaces}'}}");
        let file = File::new("policies.yaml", &config_map("throughput", "true", &more, "p(1)."));
        cairn(&[&CLUSTER[..], &["-f", file.path(), "-o", "snapshot"]].concat())
    };
    assert_eq!(program(&of("audio, vision")), "p(1).");
    let refused = of("audio");
    assert_eq!((refused.code, refused.out.as_str()), (Some(1), ""));
    assert_eq!(
        refused.err,
        "error: vision/surveillance: policy throughput is not available in namespace vision; choose another one, or ask an \
         administrator to add the namespace to its annotation cairn.dev/namespaces\n"
    );
}

#[test]
fn a_given_policy_replaces_the_program_of_a_snapshot_but_not_enforced_ones() {
    let world = |program: &str| {
        let policy = json!({"name": "throughput", "program": program});
        json!({"version": 1, "units": [], "actors": [], "policy": policy}).to_string()
    };
    let parameters = ("fast.yaml", "strategy: greedy");
    for (snapshot, (file, text), expected) in [
        ("own(1).", parameters, Value::Null),
        ("own(1).\n% enforced: rules\np(1).", parameters, json!("% enforced: rules\np(1).")),
        ("own(1).\n% enforced: rules\np(1).", ("fast.lp", "r(1)."), json!("r(1).\n% enforced: rules\np(1).")),
    ] {
        let (snapshot, given) = (File::new("world.json", &world(snapshot)), File::new(file, text));
        let ran = cairn(&["plan", "--snapshot", snapshot.path(), "--policy", given.path(), "-o", "snapshot"]);
        assert_eq!((program(&ran), &ran.json()["policy"]["name"]), (expected, &json!("fast")));
    }
}
