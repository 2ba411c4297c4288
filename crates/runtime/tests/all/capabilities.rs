//! The documented capability table matches the managers.

use std::fs;

use runtime::{
    Capability, CommunicationManager, ComputeManager, InstanceManager, MemoryManager, TopologyManager,
    backends::{Coroutines, Futures, Threads, host, processes},
    table,
};

use crate::ranks::{BY, launched_by, member};

#[test]
fn the_guide_lists_the_capabilities_of_all_managers() {
    if processes::launched() {
        member(|rank| {
            // The capabilities of a launched Instance's managers, as written by the other half of this test.
            let create = Capability::CreateInstances;
            assert!(rank.instances.supports(create) && rank.instances.supports(Capability::SeveralInstances));
            assert!(rank.communication.supports(Capability::GlobalCopies) && !rank.memory.supports(create));
            let tcp = rank.communication.name() == "tcp";
            assert_eq!(rank.memory.supports(Capability::Register), tcp);
        });
    }
    let name = "capabilities::the_guide_lists_the_capabilities_of_all_managers";
    for by in BY {
        assert!(launched_by(by, &["-n", "1"], name).status.success());
    }
    let several = host::inside(2).unwrap();
    let it = &several[0];
    let segments = processes::Segments::new(&it.topology.query().unwrap());
    let (threads, coroutines, futures) = (Threads::new(), Coroutines::new(), Futures::new());
    let host = |capability| {
        it.instances.supports(capability)
            || it.topology.supports(capability)
            || it.memory.supports(capability)
            || it.communication.supports(capability)
    };
    // These managers need a launcher, so the table is written out here; the first half of this test verifies it.
    let processes = |capability| {
        matches!(capability, Capability::CreateInstances | Capability::SeveralInstances)
            || segments.supports(capability)
            || it.communication.supports(capability)
    };
    let tcp = |capability| processes(capability) || it.memory.supports(capability);
    let text = table(&[
        ("host", &host),
        ("processes", &processes),
        ("tcp", &tcp),
        ("threads", &|capability| threads.supports(capability)),
        ("coroutines", &|capability| coroutines.supports(capability)),
        ("futures", &|capability| futures.supports(capability)),
    ]);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/runtime.md");
    let guide = fs::read_to_string(path).unwrap();
    let (before, rest) = guide.split_once("<!-- capabilities -->\n").unwrap();
    let (_, after) = rest.split_once("<!-- /capabilities -->").unwrap();
    let written = format!("{before}<!-- capabilities -->\n{text}<!-- /capabilities -->{after}");
    fs::write(path, &written).unwrap();
    assert!(
        guide == written,
        "the table in docs/reference/runtime.md did not match the managers and was rewritten; commit it"
    );
}
