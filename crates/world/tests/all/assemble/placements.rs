//! Constraints and decided places.

use jiff::Timestamp;
use placement::file::{Constraint, Places};
use world::{Index, Objects, Policy, assemble};

use super::cluster::{BASE, changed, difference, key, placement, world_of};

#[test]
fn groups_have_constraints() {
    let group = |rule: &str| changed("replicas: 2,", &format!("replicas: 2, {rule},"), "");
    for (name, rule) in [
        ("spread", "spread: node"),
        ("pin", "pinTo: {node: n1}"),
        ("pin nowhere", "pinTo: {node: n9}"),
        ("with itself", "with: [cam]"),
    ] {
        insta::assert_snapshot!(name, difference(&group(rule)));
    }
}

#[test]
fn decided_places_are_the_current_ones() {
    insta::assert_snapshot!("own", difference(&changed("kind: cpu", "kind: cpu", &placement("app", "{}"))));
    let other = BASE.split("---").last().unwrap().replace("name: app", "name: other");
    insta::assert_snapshot!(
        "other",
        difference(&changed(
            "kind: cpu",
            "kind: cpu",
            &format!("{other}\n---\n{}", placement("other", "{}"))
        ))
    );
    assert_eq!(difference(&changed("kind: cpu", "kind: cpu", &other)), "", "without a place it is left out");
    let gone = placement("app", "{}").replace("n0/gpus-0", "n7/gpus-0");
    assert_eq!(difference(&changed("kind: cpu", "kind: cpu", &gone)), "");
}

#[test]
fn refusals_apply_until_they_expire() {
    let refused = |until: &str| {
        placement(
            "app",
            &format!("{{refusals: [{{actor: cam-0, node: n0, reason: no room, until: '{until}'}}]}}"),
        )
    };
    insta::assert_snapshot!(
        "remembered",
        difference(&changed("kind: cpu", "kind: cpu", &refused("1970-01-01T00:01:00Z")))
    );
    insta::assert_snapshot!(
        "forgotten",
        difference(&changed("kind: cpu", "kind: cpu", &refused("1969-01-01T00:01:00Z")))
    );
}

/// The rules that a refusal makes, as `ACTORS not on UNITS: REASON`.
#[test]
fn refusals_respect_their_scope() {
    let rules = |scope: &str| {
        let refusal =
            format!("{{refusals: [{{{scope}, actor: cam-0, reason: no, until: '1970-01-01T00:01:00Z'}}]}}");
        let world = world_of(&changed("kind: cpu", "kind: cpu", &placement("app", &refusal))).unwrap();
        let summary = world.snapshot.file().constraints.iter().filter_map(|rule| match rule {
            Constraint::Never { actors, places, reason: Some(reason), .. }
                if reason.starts_with("refused") =>
            {
                let (Places::Units(names) | Places::Nodes(names) | Places::Zones(names)) = places;
                Some(format!("{} not on {}: {reason}", actors.join(" "), names.join(" ")))
            }
            _ => None,
        });
        summary.collect::<Vec<_>>().join("; ")
    };
    let (one, both) = ("ns/app/cam-0", "ns/app/cam-0 ns/app/cam-1");
    let table = [
        ("node: n0", format!("{one} not on n0: refused on n0: no")),
        ("node: n0, group: cam, kind: gpu", format!("{both} not on n0/gpus-0 n0/gpus-1: refused on n0: no")),
        ("node: n7, group: cam, kind: gpu", String::new()),
        ("node: n0, group: another, kind: gpu", String::new()),
        ("scope: Template, group: cam, kind: cpu", format!("{both} not on n0/cpus-0 n1/cpus-0: refused: no")),
        ("scope: Namespace", String::new()),
    ];
    for (scope, expected) in table {
        assert_eq!(rules(scope), expected, "{scope}");
    }
}

#[test]
fn demand_digests_ignore_other_applications_and_places() {
    let demand = |yaml: &str| world_of(yaml).unwrap().demand();
    let other = BASE.split("---").last().unwrap().replace("name: app", "name: other");
    let more = format!("{other}\n---\n{}\n---\n{}", placement("other", "{}"), placement("app", "{}"));
    assert_eq!(demand(BASE), demand(&changed("kind: cpu", "kind: cpu", &more)));
    assert_ne!(demand(BASE), demand(&changed("arrivals: 1/s", "arrivals: 2/s", "")));
    // An edit of the container is only rolled out; an edit that affects placement is planned.
    assert_eq!(demand(BASE), demand(&changed("[{name: c}]", "[{name: c, image: new}]", "")));
    assert_ne!(demand(BASE), demand(&changed("replicas: 2,", "replicas: 2, spread: node,", "")));
}

/// The digest of an unchanged manifest must not change without its version: all applications would be planned again after an
/// upgrade. If this fails, increment `VERSION` in `snapshot/demand.rs`.
#[test]
fn the_demand_digest_changes_only_with_its_version() {
    let channel = "{from: cam, to: cam, rate: 1/s, pattern: AllToAll, drag: 2}";
    let talking = changed("spec: {actors", &format!("spec: {{channels: [{channel}], actors"), "");
    let decided = changed("replicas: 2,", "replicas: 1,", &placement("app", "{}"));
    let parameters =
        "{exchangeCost: {otherNode: 7, kinds: {cpu: {gpu: 5}}}, objectives: [overload, annoyance]}";
    let priced = Policy::parse("p", parameters).unwrap();
    let ruled = Policy { program: Some(":- run_on(A,U), run_on(B,U), A < B.".into()), ..priced.clone() };
    for (yaml, policy, expected) in [
        (BASE, Policy::builtin("p"), "cb9908d8d1b3748a9fd988461ce42f2242055f5acfdd3d050dcccef7febe188b"),
        (&talking, priced, "b53d0487018d0e3e4e5bc5473f412582cb3e8f62068ea5945171db10de71a7ab"),
        (&decided, ruled, "a974ce16497eb3b92ae661c036936d882961d271d447d50ed77e697a76d4bb4e"),
    ] {
        let mut objects = Objects::default();
        objects.read("test", yaml).unwrap();
        let world = assemble(&Index::of(&objects), &key("app"), &policy, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(world.demand(), format!("v2:sha256:{expected}"), "{yaml}");
    }
}
