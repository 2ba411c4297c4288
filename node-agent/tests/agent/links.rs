//! Links that drivers report, by the stub of NVML.

use crate::{
    drivers::{h100s, spec},
    tool::stub,
};

#[test]
fn the_c2c_links_of_a_gpu_join_it_to_the_processors_of_its_domain() {
    // One of eleven links is down.
    let spec = spec(&h100s("gpus=8 c2c=11", &stub("nvml"), &["-o", "yaml"]));
    let links: Vec<_> = spec.links.iter().filter(|link| link.kind == "C2C").collect();
    let pcie = spec.links.iter().filter(|link| link.kind == "PCIe");
    let ends: Vec<_> = links.iter().map(|link| (&link.source, &link.destination)).collect();
    assert_eq!(ends, pcie.map(|link| (&link.source, &link.destination)).collect::<Vec<_>>());
    assert!(links.iter().all(|link| link.bandwidth_bytes_per_second == Some(447_120_000_000)), "{links:?}");
}
