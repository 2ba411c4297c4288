//! Measured numbers replace those of the manifest, group by group.

use std::collections::BTreeMap;
use std::sync::Arc;

use counters::{MeasuredGroup, MeasuredNumbers};
use jiff::Timestamp;
use world::{Index, MeasuredDemand, Objects, Policy, UnitUse, assemble, assemble_measured, observe};

use super::cluster::{BASE, changed, key, placement};

/// Two groups that send to each other; `cam` is measured.
fn world() -> String {
    let log = ", {name: log, implementations: [{kind: cpu, serviceTime: 1ms, template: {spec: {containers: [{name: c}]}}}]}], \
               channels: [{from: cam, to: log, rate: 1/s, pattern: AllToAll}, {from: log, to: cam, rate: 2/s, pattern: AllToAll, drag: 3}]}";
    let end = "{kind: gpu, serviceTime: 1ms, template: {spec: {containers: [{name: c}]}}}]}]}";
    changed(end, &format!("{}{log}", end.strip_suffix("]}").unwrap()), &placement("app", "{}"))
}

fn measured() -> MeasuredNumbers {
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    let work = |cpu, gpu| BTreeMap::from([("cpu".to_owned(), cpu), ("gpu".to_owned(), gpu)]);
    let group = MeasuredGroup { wanted: 2, windows: 8, messages: true, work: true, annoyance: true };
    MeasuredNumbers {
        groups: [("cam".to_owned(), group)].into(),
        pairs: [(pair("cam-0", "log-0"), 700), (pair("cam-1", "gone-0"), 5)].into(),
        group_messages: [(pair("cam", "log"), 2)].into(),
        work: [("cam-0".to_owned(), work(90, 9)), ("cam-1".to_owned(), work(u64::MAX, 1))].into(),
        annoyance: [(pair("log-0", "cam-1"), 4), (pair("cam-1", "log-0"), 6)].into(),
        services: BTreeMap::new(),
    }
}

#[test]
fn measured_groups_replace_their_work_and_what_they_send() {
    let mut objects = Objects::default();
    objects.read("test", &world()).unwrap();
    let (index, policy, now) = (Index::of(&objects), Policy::builtin("p"), Timestamp::UNIX_EPOCH);
    let manifest = assemble(&index, &key("app"), &policy, now).unwrap();
    let numbers = measured();
    let measured = assemble_measured(&index, &key("app"), &policy, now, Some(&numbers)).unwrap();
    let shown = |world: &world::AssembledSnapshot| {
        let file = world.snapshot.file();
        let short = |id: &str| id.strip_prefix("ns/app/").unwrap_or(id).to_owned();
        let works = file.actors.iter().map(|actor| {
            let works: Vec<u64> = actor.runs_on.values().map(|way| way.work).collect();
            format!("{} {works:?}", short(&actor.id))
        });
        let messages =
            file.messages.iter().map(|it| format!("{}>{} {}", short(&it.from), short(&it.to), it.count));
        let flows = file
            .group_messages
            .iter()
            .map(|it| format!("{}>>{} {} drag {}", short(&it.from), short(&it.to), it.count, it.drag));
        let drags = file.annoyance.iter().map(|it| format!("{}-{} {}", short(&it.a), short(&it.b), it.drag));
        works.chain(messages).chain(flows).chain(drags).collect::<Vec<_>>()
    };
    assert_eq!(
        shown(&manifest),
        [
            "cam-0 [600000, 60000]",
            "cam-1 [600000, 60000]",
            "log-0 [60000]",
            "cam>>log 30 drag 3",
            "log>>cam 30 drag 0"
        ]
    );
    assert_eq!(
        shown(&measured),
        [
            "cam-0 [90, 9]",
            "cam-1 [1099511627776, 1]",
            "log-0 [60000]",
            "cam-0>log-0 700",
            "cam>>log 2 drag 0",
            "log>>cam 30 drag 0",
            "cam-1-log-0 10",
        ]
    );
    assert!(measured.is_measured() && !manifest.is_measured());
    assert_eq!(measured.demand(), manifest.demand(), "the demand is that of manifest and policy");
    assert_ne!(measured.digest(), manifest.digest());
}

#[test]
fn other_applications_count_with_their_measured_work() {
    let other = BASE.split("---").last().unwrap().replace("name: app", "name: other");
    let mut objects = Objects::default();
    objects.read("test", &format!("{}\n---\n{other}", world())).unwrap();
    let (mut index, policy, now) = (Index::of(&objects), Policy::builtin("p"), Timestamp::UNIX_EPOCH);
    let mut load = |measured: Option<MeasuredDemand>| {
        index.set_measured(&key("app"), measured.map(Arc::new));
        let world = assemble(&index, &key("other"), &policy, now).unwrap();
        // The sum of other applications on a unit is an actor of its own.
        let of_others = world.snapshot.file().actors.iter().filter(|actor| actor.id.starts_with("*/"));
        of_others.flat_map(|actor| actor.runs_on.values()).map(|way| way.work).sum::<u64>()
    };
    // `cam-0` is placed on a GPU.
    assert_eq!(load(None), 60_000);
    let numbers = measured();
    assert_eq!(load(Some(MeasuredDemand { window: policy.window, numbers: numbers.clone() })), 9);
    assert_eq!(load(Some(MeasuredDemand { window: policy.window * 2, numbers })), 60_000, "another window");
    assert_eq!(load(None), 60_000);
}

#[test]
fn counters_without_numbers_change_no_byte_of_a_snapshot() {
    let mut objects = Objects::default();
    objects.read("test", &world()).unwrap();
    let (policy, now) = (Policy::builtin("p"), Timestamp::UNIX_EPOCH);
    let written = |prepare: fn(&mut Index)| {
        let mut index = Index::of(&objects);
        prepare(&mut index);
        assemble(&index, &key("app"), &policy, now).unwrap().snapshot.write()
    };
    let without_url = written(|_| ());
    assert_eq!(written(Index::expect_counters), without_url);
    assert_eq!(written(|index| index.set_unmeasured(&key("app"))), without_url);
}

#[test]
fn a_unit_is_used_by_its_application_and_by_others() {
    let other = BASE.split("---").last().unwrap().replace("name: app", "name: other");
    let policy = Policy::builtin("p");
    for (decision, others, other_actors) in
        [(String::new(), 0, 0), (format!("\n---\n{}", placement("other", "{}")), 30_000, 1)]
    {
        let mut objects = Objects::default();
        objects.read("test", &format!("{}\n---\n{other}{decision}", world())).unwrap();
        let mut index = Index::of(&objects);
        let capacity = world::units(&index, &policy)["n0/gpus-0"].capacity;
        for (measured, own) in [(None, 60_000), (Some(measured()), 9)] {
            let demand = measured.map(|numbers| MeasuredDemand { window: policy.window, numbers });
            index.set_measured(&key("app"), demand.map(Arc::new));
            let expected = UnitUse { own, others, other_actors, capacity };
            assert_eq!(
                index.unit_use(&key("app"), &policy),
                BTreeMap::from([("n0/gpus-0".to_owned(), expected)])
            );
        }
    }
}

#[test]
fn an_actor_is_saturated_by_its_measured_work_if_there_is_any() {
    let (idle, busy) = (world(), world().replace("arrivals: 1/s", "arrivals: 100000/s"));
    let policy = Policy::builtin("p");
    let warns = |manifest: &str, works: &[(&str, u64, u64)]| {
        let mut objects = Objects::default();
        objects.read("test", manifest).unwrap();
        let index = Index::of(&objects);
        let work = |(actor, cpu, gpu): &(&str, u64, u64)| {
            ((*actor).to_owned(), BTreeMap::from([("cpu".to_owned(), *cpu), ("gpu".to_owned(), *gpu)]))
        };
        let numbers = MeasuredNumbers { work: works.iter().map(work).collect(), ..measured() };
        let app = key("app");
        let world = assemble_measured(&index, &app, &policy, Timestamp::UNIX_EPOCH, Some(&numbers)).unwrap();
        world.warnings.iter().any(|note| note.condition == "Saturated" && note.message.contains("of cam "))
    };
    // 90 % of a window of 30 s; the GPU has speed 2.
    let (cpu, gpu) = (27_000_000, 54_000_000);
    let noise = |capacity: u64| capacity + capacity / 20;
    for (works, expected) in [
        (vec![("cam-0", noise(cpu) + 1, noise(gpu) + 1), ("cam-1", 9, 9)], true),
        (vec![("cam-0", noise(cpu), noise(gpu) + 1), ("cam-1", 9, 9)], false),
        (vec![("cam-0", noise(cpu) + 1, noise(gpu)), ("cam-1", 9, 9)], false),
        (vec![("cam-0", 9, 9), ("cam-1", 9, 9)], false),
    ] {
        for manifest in [&idle, &busy] {
            assert_eq!(warns(manifest, &works), expected, "{works:?}");
        }
    }
    // The manifest holds for actors whose work is not measured.
    for works in [vec![], vec![("cam-0", 9, 9)]] {
        assert!(!warns(&idle, &works) && warns(&busy, &works), "{works:?}");
    }
}

#[test]
fn windows_judge_load_while_counters_are_unavailable() {
    // `cam-0` overloads its GPU by the manifest.
    let manifest = |mode: &str| {
        let overloaded = world().replace("arrivals: 1/s", "arrivals: 100000/s");
        overloaded.replace("{actors: [", &format!("{{rebalance: \"{mode}\", actors: ["))
    };
    let (policy, now) = (Policy::builtin("p"), Timestamp::UNIX_EPOCH);
    for (mode, expects_counters, is_unmeasured, is_judged) in [
        ("On", false, false, false),
        // No window was read yet, or Prometheus does not answer.
        ("On", true, false, true),
        ("DryRun", true, false, true),
        ("Off", true, false, false),
        // Its actors ran, and reported nothing.
        ("On", true, true, false),
    ] {
        let mut objects = Objects::default();
        objects.read("test", &manifest(mode)).unwrap();
        let mut index = Index::of(&objects);
        if expects_counters {
            index.expect_counters();
        }
        if is_unmeasured {
            index.set_unmeasured(&key("app"));
        }
        let application = index.application(&key("app")).unwrap().clone();
        let observed = observe(&index, &application, &policy, None, now).unwrap();
        let case = format!("{mode} {expects_counters} {is_unmeasured}");
        assert_eq!(observed.assembled.is_judged_by_windows(), is_judged, "{case}");
        // It stays known, so that it is not new for an application that turns out to be unmeasured.
        assert!(!observed.inputs.pressure.overload.is_empty(), "{case}");
        assert!(!observed.assembled.is_measured());
        // Once it is measured, it stays so while counters are unavailable.
        index.set_measured(
            &key("app"),
            Some(Arc::new(MeasuredDemand { window: policy.window, numbers: measured() })),
        );
        assert!(assemble(&index, &key("app"), &policy, now).unwrap().is_judged_by_windows());
    }
}
