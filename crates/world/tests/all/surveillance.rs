//! The example application on the example machines, from files to a plan.

use placement::{Budget, NoPolicy, plan};
use world::{ApplicationKey, Index, Objects, Policy, assemble};

fn objects() -> Objects {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let mut objects = Objects::default();
    let mut files = vec![format!("{examples}/nodes.yaml"), format!("{examples}/pools.yaml")];
    files.push(format!("{examples}/surveillance.yaml"));
    files.extend(["cpu", "gpu", "fpga", "numa"].map(|name| format!("{examples}/topologies/{name}.yaml")));
    for file in files {
        objects.read(&file, &std::fs::read_to_string(&file).unwrap()).unwrap();
    }
    objects
}

#[test]
fn the_example_application_in_numbers() {
    let key = ApplicationKey { namespace: "vision".into(), name: "surveillance".into() };
    let world =
        assemble(&Index::of(&objects()), &key, &Policy::builtin("throughput"), jiff::Timestamp::UNIX_EPOCH)
            .unwrap();
    let file = world.snapshot.file();
    let units: Vec<String> = file.units.iter().map(|unit| format!("{} {}", unit.id, unit.capacity)).collect();
    insta::assert_snapshot!("units", units.join("\n"));
    let work = |actor: &placement::file::Actor| {
        let by_kind: Vec<String> =
            actor.runs_on.iter().map(|(kind, on)| format!("{kind} {}", on.work)).collect();
        format!("{}: {}", actor.id, by_kind.join(", "))
    };
    insta::assert_snapshot!("work", file.actors.iter().map(work).collect::<Vec<_>>().join("\n"));
    let plan = plan(&world.snapshot, &search::Greedy, &NoPolicy, &Budget::effort(None, 1)).unwrap();
    insta::assert_snapshot!("greedy", plan.cost.in_words(&world.snapshot));
    assert_eq!(world.warnings, []);
}
