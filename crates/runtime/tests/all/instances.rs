//! Instances: launched, created and terminated.

use std::io::Write as _;

use runtime::{Capability, Error, Event, InstanceState, Key, Memcpy, Tag, hicr::Topology};
use serde_json::Value;

use crate::ranks::{Rank, everywhere, key, launched, member, soon};

#[test]
fn all_instances_agree_on_ids_and_root() {
    everywhere(3, "instances::all_instances_agree_on_ids_and_root", |rank| {
        let ids: Vec<u64> = rank.group().iter().map(|id| id.0).collect();
        assert_eq!(ids.len(), 3);
        let roots = rank.instances.instances().iter().filter(|instance| instance.is_root()).count();
        assert_eq!(roots, 1);
        assert!(rank.instances.current().state() == InstanceState::Running);
        // Each writes its view for the root to compare.
        let (seen, mine) = (rank.slot(4 * 8 * 3), rank.slot(32));
        mine.write(0, bytemuck::cast_slice(&[&ids[..], &[rank.instances.root_id().0]].concat())).unwrap();
        let bring: &[_] = if rank.index() == 0 { &[(Key(0), &seen)] } else { &[] };
        let slots = soon(rank.communication.exchange(&rank.group(), Tag(1), bring).unwrap()).unwrap();
        rank.communication.memcpy(&slots[&key(0)], 32 * rank.index(), &mine, 0, 32).unwrap();
        if rank.index() == 0 {
            soon(rank.communication.fence((&seen).into(), 0, 3).unwrap()).unwrap();
            let all = seen.read_values::<[u64; 4]>(0, 3).unwrap();
            assert!(all.iter().all(|one| one[..3] == ids && one[3] == rank.me().0), "{all:?}");
        }
        rank.barrier(2);
    });
}

#[test]
fn only_the_root_finalizes_and_no_instance_terminates_itself() {
    everywhere(2, "instances::only_the_root_finalizes_and_no_instance_terminates_itself", |rank| {
        let (me, index) = (rank.me(), rank.index());
        let error = rank.instances.terminate(me).unwrap_err().to_string();
        assert_eq!(
            error,
            "cannot terminate an Instance: it is the calling one; return from `main` or call `abort`"
        );
        let unknown = rank.instances.terminate(runtime::InstanceId(0)).unwrap_err().to_string();
        assert!(unknown.contains("Instance 0000000000000000 does not exist"), "{unknown}");
        if index == 1 {
            let error = rank.instances.finalize().unwrap_err();
            assert!(matches!(error, Error::State { .. }), "{error}");
        }
        rank.barrier(1);
        if index == 0 {
            let other = rank.ids()[1];
            let mut watch = rank.instances.watch();
            rank.instances.finalize().unwrap();
            let next = || watch.next(std::time::Instant::now() + std::time::Duration::from_mins(1)).unwrap();
            let states: Vec<_> = std::iter::repeat_with(next).take(2).collect();
            let event = |state| Event { id: other, state };
            assert_eq!(states, [event(InstanceState::Leaving), event(InstanceState::Gone)]);
        } else if rank.communication.name() != "host" {
            std::thread::park();
        }
    });
}

/// A host with this number of units and bytes, in HiCR's format.
pub fn host(units: usize, bytes: u64) -> Value {
    let unit = serde_json::json!({"Type": "Processing Unit"});
    serde_json::json!({"Devices": [{"Type": "NUMA Domain", "Compute Resources": vec![unit; units],
        "Memory Spaces": [{"Type": "RAM", "Size": bytes}]}]})
}

/// `cairn-run` over described hosts, with one Instance, which creates the others.
pub fn on_hosts(hosts: &[Value], name: &str) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(serde_json::to_string(hosts).unwrap().as_bytes()).unwrap();
    let output = launched(&["-n", "1", "--hosts", file.path().to_str().unwrap()], name);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn fitting_instances_are_created_and_the_others_get_an_error() {
    if runtime::backends::processes::launched() {
        member(create);
    }
    let hosts = [host(1, 1 << 20), host(8, 1 << 25), host(2, 1 << 25)];
    on_hosts(&hosts, "instances::fitting_instances_are_created_and_the_others_get_an_error");
}

fn create(rank: &Rank) {
    assert!(rank.instances.supports(Capability::CreateInstances));
    if rank.me() != rank.instances.root_id() {
        // A created Instance: it knows itself and the root, and runs until terminated.
        assert!(rank.ids().len() >= 2);
        std::thread::park();
        return;
    }
    let template = |topology: Value| {
        rank.instances.create_template(&Topology::from_json(topology).unwrap(), Value::Null)
    };
    assert!(rank.instances.create_instances(0, &template(Value::Object(serde_json::Map::new()))).is_empty());
    // No host fits.
    let none = rank.instances.create_instances(2, &template(host(9, 1)));
    let why: Vec<_> = none.into_iter().map(|answer| answer.unwrap_err().why).collect();
    assert_eq!(why, ["of 3 hosts 0 meet the requirements, and none of these is free"; 2]);
    // Some hosts fit: two have two units, the third is this Instance's own and has one.
    let answers = rank.instances.create_instances(3, &template(host(2, 1 << 20)));
    let (made, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!((made.len(), refused.len()), (2, 1));
    let made: Vec<_> = made.into_iter().map(Result::unwrap).collect();
    assert!(made.iter().all(|instance| instance.state() == InstanceState::Running));
    // The smallest fitting host was assigned first.
    assert_eq!(made[0].topology().devices[0].compute_resources.len(), 2);
    let id = made[0].id();
    assert_eq!(rank.instances.add_instance(id).unwrap().id(), id);
    let mut watch = rank.instances.watch();
    rank.instances.terminate(id).unwrap();
    while watch.next(None).unwrap() != (Event { id, state: InstanceState::Gone }) {}
    // Its host is free again.
    assert_eq!(
        rank.instances.create_instances(1, &template(host(2, 1))).iter().filter(|it| it.is_ok()).count(),
        1
    );
    rank.instances.finalize().unwrap();
}

#[test]
fn an_abort_ends_all_instances_and_sets_the_launchers_exit_code() {
    if runtime::backends::processes::launched() {
        member(|rank| {
            rank.barrier(1);
            if rank.index() == 1 {
                rank.instances.abort(41, "the disk is full").unwrap();
            }
            std::thread::park();
        });
    }
    let name = "instances::an_abort_ends_all_instances_and_sets_the_launchers_exit_code";
    let output = launched(&["-n", "2", "--oversubscribe"], name);
    assert_eq!(output.status.code(), Some(41));
    let output = String::from_utf8_lossy(&output.stderr);
    assert!(output.contains("aborted with code 41: the disk is full"), "{output}");
}

#[test]
fn invalid_launches_are_rejected() {
    let run = |options: &[&str]| {
        let output =
            std::process::Command::new(env!("CARGO_BIN_EXE_cairn-run")).args(options).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        String::from_utf8(output.stderr).unwrap().lines().next().unwrap().to_owned()
    };
    insta::assert_snapshot!(run(&["-n", "2"]), @"cairn-run: cannot launch: no program is given");
    insta::assert_snapshot!(run(&["-n", "none", "x"]), @"cairn-run: cannot launch: -n takes a number of at least 1");
    insta::assert_snapshot!(run(&["--fast", "x"]), @"cairn-run: cannot launch: --fast is not an option");
    insta::assert_snapshot!(run(&["--hosts", "/nowhere", "x"]), @"cairn-run: cannot read /nowhere: No such file or directory (os error 2)");
    insta::assert_snapshot!(run(&["-n", "1", "/nowhere/program"]), @"cairn-run: cannot start /nowhere/program: No such file or directory (os error 2)");
    let many = run(&["-n", "100000", "x"]);
    assert!(many.starts_with("cairn-run: cannot share out the machine in 100000 parts: it has "), "{many}");
}
