//! The index that events keep, against one that is made of the objects that are left.
#![expect(clippy::unwrap_used, reason = "a failing read fails the test")]

use std::collections::BTreeSet;
use std::fmt::Write as _;

use jiff::Timestamp;
use kube::ResourceExt;
use world::{ApplicationKey, Index, Objects, Policy, World, own, seen, snapshot, units, units_at};

mod scene;

use scene::everything;

/// One event about the object at a position among all: it comes or goes.
fn happen(index: &mut Index, left: &mut Objects, all: &Objects, mut at: usize, comes: bool) {
    /// Looks for the position among one kind, and what to do when it is there.
    macro_rules! kind {
        ($field:ident, $put:ident, |$it:ident| $remove:expr) => {
            if let Some($it) = all.$field.get(at) {
                left.$field.retain(|other| other.uid() != $it.uid() || other.name_any() != $it.name_any());
                if comes {
                    left.$field.push($it.clone());
                    index.$put($it.clone());
                } else {
                    $remove(&mut *index);
                }
                return;
            }
            at -= all.$field.len();
        };
    }
    let key = |name: String| ApplicationKey { namespace: "ns".into(), name };
    kind!(nodes, put_node, |it| |index: &mut Index| index.remove_node(&it.name_any()));
    kind!(topologies, put_topology, |it| |index: &mut Index| index.remove_topology(&it.name_any()));
    kind!(pools, put_pool, |it| |index: &mut Index| index.remove_pool(&it.name_any()));
    kind!(applications, put_application, |it| |index: &mut Index| index
        .remove_application(&key(it.name_any())));
    kind!(placements, put_placement, |it| |index: &mut Index| index.remove_placement(&key(it.name_any())));
    kind!(instances, put_instance, |it| |index: &mut Index| index.remove_instance("ns", &it.name_any()));
    kind!(pods, put_pod, |it| |index: &mut Index| index.remove_pod("ns", &it.name_any()));
    unreachable!("{at} is beyond all objects");
}

/// All that an index is asked.
fn told(index: &Index, all: &Objects) -> String {
    let policies = ["window: 30s", "window: 7s"].map(|parameters| {
        let config_map = serde_yaml::from_str(&format!(
            "{{metadata: {{name: p}}, data: {{policy.yaml: '{parameters}'}}}}"
        ));
        Policy::read(&config_map.unwrap()).unwrap()
    });
    let mut text = String::new();
    for application in &all.applications {
        for policy in &policies {
            let key = ApplicationKey::of(application);
            let world = snapshot(index, &key, policy, Timestamp::UNIX_EPOCH);
            let world = world.map_or_else(|e| e.to_string(), |world| world.snapshot.write());
            let units = units(index, policy);
            let at: BTreeSet<String> =
                ["n0", "n1"].iter().flat_map(|node| units_at(index, node, policy).into_keys()).collect();
            assert!(at.iter().eq(units.keys()), "a node offers by itself what it offers among all");
            writeln!(text, "{world}\n{:?}\n{:?}", seen(index, application, &units), own(index, application))
                .unwrap();
        }
    }
    text
}

#[test]
fn what_events_made_is_what_the_objects_make() {
    let mut all = everything();
    // Two that were asked for, of which one has got its owner.
    let owner = "ownerReferences: [{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, name: web, uid: web-uid, controller: true}]";
    let asked = |name: &str, owner: &str| {
        format!(
            "\n---\n{{apiVersion: cairn.dev/v1alpha1, kind: Instance, metadata: {{name: {name}, namespace: ns, uid: {name}-uid, {owner}}}, \
             spec: {{applicationName: web, actorGroup: s, origin: Runtime}}}}"
        )
    };
    all.read("asked", &(asked("one", owner) + &asked("two", ""))).unwrap();
    let count = all.nodes.len()
        + all.topologies.len()
        + all.pools.len()
        + all.applications.len()
        + all.placements.len()
        + all.instances.len()
        + all.pods.len();
    // Any generator will do: this is Knuth's.
    let mut state = 1_u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let (mut index, mut left) = (Index::default(), Objects::default());
    for event in 0..300 {
        // More come than go, so that chains are whole now and then.
        happen(&mut index, &mut left, &all, next(count), next(3) > 0);
        if event % 3 == 0 {
            assert_eq!(told(&index, &all), told(&Index::of(&left), &all), "after event {event}");
        }
    }
}

#[test]
fn others_on_a_unit_are_summed_up_and_what_they_ask_for_is_off_its_node() {
    let all = everything();
    let index = Index::of(&all);
    let key = ApplicationKey { namespace: "ns".into(), name: "web".into() };
    let world = snapshot(&index, &key, &Policy::builtin("p"), Timestamp::UNIX_EPOCH).unwrap();
    let written: serde_json::Value = serde_json::from_str(&world.snapshot.write()).unwrap();
    let units = written["units"].as_array().unwrap().iter().filter(|unit| !unit["others"].is_null());
    let shown = units.map(|unit| format!("{} {}", unit["id"].as_str().unwrap(), unit["others"]));
    assert_eq!(
        shown.collect::<Vec<_>>().join("\n"),
        "n0/cpus-0 {\"count\":1,\"work\":270000}\nn1/gpus-0 {\"count\":1,\"work\":30000}"
    );
    let listed = written["actors"].as_array().unwrap().iter().filter(|actor| actor["fixed"] == true);
    assert_eq!(listed.count(), 0, "nobody else is listed");
    let left = |world: &World| -> Vec<u64> {
        world.snapshot.file().nodes.iter().map(|node| node.provides["cpuMilli"]).collect()
    };
    let summed = left(&world);
    // A program may speak of anybody: then everybody is listed.
    let ruled =
        Policy { program: Some(":- run_on(A,U), run_on(B,U), A < B.".into()), ..Policy::builtin("p") };
    let world = snapshot(&index, &key, &ruled, Timestamp::UNIX_EPOCH).unwrap();
    let fixed = world.snapshot.file().actors.iter().filter(|actor| actor.fixed);
    assert_eq!(fixed.map(|actor| actor.id.as_str()).collect::<Vec<_>>(), ["ns/shop/s-0", "ns/shop/s-1"]);
    let asked: Vec<u64> = left(&world).iter().zip(summed).map(|(before, now)| before - now).collect();
    assert_eq!(asked, [2000, 1000], "what who is summed up asks for is off");
}
