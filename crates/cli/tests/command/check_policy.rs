//! `check-policy` with valid and invalid programs, and the effect of a program on a plan.

use serde_json::json;

use crate::{File, cairn, cairn_fed};

/// Two communicating actors and two identical nodes.
const WORLD: &str = r#"{"version": 1, "name": "two nodes",
  "units": [{"id": "n0/cpu", "kind": "cpu", "node": "n0", "capacity": 10},
            {"id": "n1/cpu", "kind": "cpu", "node": "n1", "capacity": 10}],
  "actors": [{"id": "app/a", "runsOn": {"cpu": 4}}, {"id": "app/b", "runsOn": {"cpu": 4}}],
  "messages": [{"from": "app/a", "to": "app/b", "count": 100}],
  "exchangeCost": {"kinds": {"cpu": {"cpu": 1}}, "otherNode": 30}}"#;

/// Separates the actors, although colocation costs less.
const APART: &str = "% one may fail\napart(A,B,node) :- actor(A), actor(B), A < B.\n";

/// Checks the program on the snapshot, with an effort limit.
fn checked(program: &File, world: &File, more: &[&str]) -> crate::Ran {
    let fixed = ["--strategy", "greedy", "--effort", "100"];
    cairn(&[&["check-policy", program.path(), "--snapshot", world.path()], &fixed[..], more].concat())
}

#[test]
fn valid_programs_are_accepted() {
    let facts = cairn(&["check-policy", "policies/examples/batch-off-gpus.lp"]);
    insta::assert_snapshot!(facts.all(), @r"
    exit 0
    policies/examples/batch-off-gpus.lp: valid · 2 rules · independent of the placement
    ");
    let places = cairn(&["check-policy", "policies/examples/power-cap.lp"]);
    insta::assert_snapshot!(places.all(), @r"
    exit 0
    policies/examples/power-cap.lp: valid · 2 rules · depends on the placement
    ");
    let json = cairn(&["check-policy", "policies/examples/spread-over-zones.lp", "-o", "json"]);
    assert_eq!(json.code, Some(0));
    assert_eq!(json.json(), json!({"policy": "policies/examples/spread-over-zones.lp", "statements": 6}));
    let piped = cairn_fed(&["check-policy", "-"], &config_map(APART));
    assert_eq!((piped.code, piped.err.as_str()), (Some(0), ""), "{}", piped.out);
}

#[test]
fn example_policies_are_valid() {
    let folder = crate::root().join("policies/examples");
    let mut checked = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let ran = cairn(&["check-policy", path.to_str().unwrap()]);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{}", path.display());
        checked += 1;
    }
    assert!(checked >= 6, "{checked} examples");
}

#[test]
fn faults_have_line_column_and_source() {
    let text = "forbid(A,U) :- actor(A), cu(U).\nforbid(A,U) :- actor(A).\n\tapart(A,B,node) :- nowhere(A), actor(B).\n";
    let program = File::new("rules.lp", text);
    let ran = cairn(&["check-policy", program.path()]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    insta::assert_snapshot!(program.without_path(&ran.err), @r"
    error: rules.lp:2:10: U gets no value: add an atom without `not` that says what U can be
      forbid(A,U) :- actor(A).
               ^
    error: rules.lp:3:21: nothing defines `nowhere` with 1 term, so it never holds; define it by a rule, or remove it
       apart(A,B,node) :- nowhere(A), actor(B).
                          ^
    ");
    let policy = File::new("policy.yaml", &config_map("forbid(A,U) :- actor(A).\n"));
    let ran = cairn(&["check-policy", policy.path()]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert!(
        program.without_path(&policy.without_path(&ran.err)).starts_with("error: policy.yaml:program.lp:1:"),
        "{}",
        ran.err
    );
}

#[test]
fn cost_and_effect_are_reported() {
    let (program, world) = (File::new("apart.lp", APART), File::new("world.json", WORLD));
    let ran = checked(&program, &world, &["-o", "json"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let on = &ran.json()["on"];
    assert_eq!((&on["snapshot"], &on["actors"], &on["units"]), (&json!("two nodes"), &json!(2), &json!(2)));
    assert_eq!(on["changes"].as_array().unwrap().len(), 1, "{on}");
    assert_eq!((&on["unplacedWithout"], &on["unplacedWith"]), (&json!(0), &json!(0)));
    assert_ne!(on["objectiveWithout"], on["objectiveWith"]);
    let page = checked(&program, &world, &[]);
    let page: Vec<&str> = page.out.lines().filter(|line| !line.starts_with("budget ")).collect();
    insta::assert_snapshot!(program.without_path(&page.join("\n")), @r"
    apart.lp: valid · 1 rule · independent of the placement
    on two nodes (2 actors, 2 units)
    grounding     1 conclusions, 0 rules, 0 constraints, 0 penalties
    without       overload 0 · communication 0 · annoyance 0
    with          overload 0 · communication 3,100 · annoyance 0 · policy 0
    changes       1 of 2 actors
                  app/b: n1/cpu instead of n0/cpu
    ");
    // a rule without effect
    let idle = File::new("idle.lp", "forbid(A,U) :- actor(A), cu_kind(U,\"tpu\").\n");
    let page = checked(&idle, &world, &[]).out;
    assert!(page.contains("changes       none"), "{page}");
}

#[test]
fn a_policy_of_parameters_only_is_valid() {
    let world = File::new("world.json", "{}");
    for arguments in
        [&["policies/throughput.yaml"][..], &["policies/throughput.yaml", "--snapshot", world.path()]]
    {
        let ran = cairn(&[&["check-policy"], arguments].concat());
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
        assert!(ran.out.contains("throughput.yaml: valid · parameters without a program"), "{}", ran.out);
    }
    for (text, place) in [
        ("window: soon\n", "window"),
        ("strategy: random\n", "strategy: strategy `random` is a baseline"),
        ("exchangeCost: {kinds: {cpu: {gpu: 5}, gpu: {cpu: 6}}}\n", "exchangeCost.kinds.cpu.gpu"),
    ] {
        let invalid = File::new("invalid.yaml", text);
        let ran = cairn(&["check-policy", invalid.path()]);
        assert_eq!(ran.code, Some(1), "{text}");
        assert!(ran.err.contains(place), "{}", ran.err);
    }
}

#[test]
fn errors_state_the_cause() {
    let fails = |arguments: &[&str]| {
        let ran = cairn(&[&["check-policy"], arguments].concat());
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
        ran.err
    };
    let absent = fails(&["/does/not/exist.lp"]);
    assert!(absent.starts_with("error: ") && absent.contains("/does/not/exist.lp"), "{absent}");
    let strategy = fails(&["policies/examples/power-cap.lp", "--strategy", "magic"]);
    assert!(strategy.starts_with("error: --strategy: there is no strategy `magic`"), "{strategy}");
    let (program, world) = (File::new("apart.lp", APART), File::new("world.json", "{}"));
    let bad = fails(&[program.path(), "--snapshot", world.path()]);
    assert!(world.without_path(&bad).starts_with("error: world.json"), "{bad}");
}

fn config_map(program: &str) -> String {
    let data = json!({"program.lp": program});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "p"}, "data": data}).to_string()
}
