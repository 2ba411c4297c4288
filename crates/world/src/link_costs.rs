//! The cost of a message by the link between two devices of a node.

use std::collections::BTreeMap;

use serde::Deserialize;
use strum::IntoEnumIterator as _;

/// How two devices of a node are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, strum::EnumIter)]
pub enum LinkKind {
    /// By NVLink, directly or through switches.
    #[serde(rename = "NVLink")]
    NvLink,
    /// By AMD's XGMI.
    #[serde(rename = "XGMI")]
    Xgmi,
    /// By Intel's Xe Link.
    #[serde(rename = "Xe Link")]
    XeLink,
    /// By the C2C links between the processors and the GPU of a superchip.
    #[serde(rename = "C2C")]
    C2c,
    /// Below one PCI root port, so behind one switch.
    #[serde(rename = "PCIRoot")]
    PciRoot,
    /// In one NUMA domain, by way of the processor.
    SameNuma,
    /// In different NUMA domains less than twice as far as local memory, as those of one socket are.
    NearNuma,
    /// In different NUMA domains, by way of the interconnect of the processors; also if a domain is unknown.
    Interconnect,
}

impl LinkKind {
    /// The cost of a message unless the policy gives another, on the scale of Table II of the APO paper, where a message between
    /// CPU and GPU, over PCIe, costs 5.
    ///
    /// The ratios are those of the bandwidths in NCCL's `src/graph/topo.h`: through the processor 6/5 of PCIe
    /// (`INTEL_P2P_OVERHEAD`), over the interconnect twice PCIe (`PCI_BW` to `QPI_BW`). GPUs with links of their own have more
    /// than five times the bandwidth of PCIe since the A100; they keep the 1 of Table II. C2C of Grace Hopper has seven times that of PCIe 5.0.
    /// Domains of one socket are mostly at 12/10 of the local distance: 6 × 12/10, rounded up.
    fn default_cost(self) -> u64 {
        match self {
            Self::NvLink | Self::Xgmi | Self::XeLink | Self::C2c => 1,
            Self::PciRoot => 5,
            Self::SameNuma => 6,
            Self::NearNuma => 8,
            Self::Interconnect => 10,
        }
    }

    /// The kind of a link in a topology, if it joins devices directly.
    pub fn of_link(name: &str) -> Option<Self> {
        match name {
            "NVLink" => Some(Self::NvLink),
            "XGMI" => Some(Self::Xgmi),
            "Xe Link" => Some(Self::XeLink),
            "C2C" => Some(Self::C2c),
            _ => None,
        }
    }
}

/// The cost of a message by kind of link; kinds that are not listed do not count.
pub type LinkCosts = BTreeMap<LinkKind, u64>;

/// The costs unless the policy gives others.
pub(crate) fn default_costs() -> LinkCosts {
    LinkKind::iter().map(|kind| (kind, kind.default_cost())).collect()
}
