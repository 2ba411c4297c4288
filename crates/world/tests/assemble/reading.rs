//! Files and policies.

use world::{Objects, Policy};

#[test]
fn kubectl_dumps_are_readable() {
    let list = "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Node, metadata: {name: a}}]}\n---\n{apiVersion: v1, kind: NodeList, items: [{metadata: {name: b}}]}";
    let mut objects = Objects::default();
    objects.read("dump", list).unwrap();
    assert_eq!(objects.nodes.len(), 2);
    let told = |text: &str| Objects::default().read("f.yaml", text).unwrap_err().to_string();
    assert_eq!(
        told("a: 1"),
        "f.yaml: document 1: has no `kind`; give whole objects, as `kubectl get -o yaml` prints them"
    );
    assert_eq!(
        told("{apiVersion: cairn.dev/v1alpha1, kind: Actor, metadata: {name: x}}"),
        "f.yaml: document 1, Actor x: `Actor` is not a kind of cairn.dev; correct it"
    );
    assert_eq!(
        told("{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {name: x}, spec: {kind: 1}}"),
        "f.yaml: document 1, DevicePool x, spec.kind: invalid type: integer `1`, expected a string"
    );
    assert_eq!(
        told("{apiVersion: v1, kind: Node, metadata: {name: a, name: b}}"),
        "f.yaml: document 1: metadata: `name` is given twice; keep one at line 1 column 40"
    );
    let list = told("{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {name: x}, spec: [cpu]}");
    let start =
        "f.yaml: document 1, DevicePool x, spec: is a list; give an object, with its fields by name: kind, ";
    assert!(list.starts_with(start), "{list}");
}

#[test]
fn invalid_policies_name_the_line() {
    let told = |text: &str| Policy::parse("p", text).unwrap_err().to_string();
    insta::assert_snapshot!(
        [
            told("window: 0s"),
            told("windw: 3s"),
            told("objectives: [overload, overload]"),
            told("objectives: [speed]"),
            told("exchangeCost:\n  otherNode: -1"),
            told("budget: {wall: soon}"),
            told("window: [1"),
            told("leastGainPercent: 101"),
        ]
        .join("\n")
    );
    assert_eq!(
        told("exchangeCost: {kinds: {cpu: {cpu: 1, cpu: 2}}}"),
        "policy p: policy.yaml line 1 column 29, exchangeCost.kinds.cpu.cpu: `cpu` is given twice; keep one"
    );
    assert_eq!(
        told("budget: [2s]"),
        "policy p: policy.yaml line 1 column 9, budget: invalid type: sequence, expected an object"
    );
    assert_eq!(Policy::parse("p", "").unwrap(), Policy::builtin("p"));
}
