//! PCI devices as hwloc describes them, and their addresses.

use hwlocality::object::TopologyObject;
use hwlocality::object::attributes::{ObjectAttributes, PCIDeviceAttributes, UpstreamAttributes};

use crate::hardware::pci_ids;

/// The type of a device that an actor could use, by class and ids.
pub fn device_type(pci: &PCIDeviceAttributes) -> Option<&'static str> {
    pci_ids::device_type(pci.class_id(), pci.vendor_id(), pci.device_id())
}

/// An address in the form of `lspci -D`: `0000:3b:00.0`.
pub fn address(pci: &PCIDeviceAttributes) -> String {
    format!("{:04x}:{:02x}:{:02x}.{:x}", pci.domain(), pci.bus_id(), pci.bus_device(), pci.function())
}

/// The address of the root port above a PCI device: the topmost bridge that is itself a PCI device.
///
/// `None` if the device is attached to a root bus, as it is unknown what such devices share.
pub fn root_port(object: &TopologyObject) -> Option<String> {
    let bridges = object.ancestors().filter_map(|above| {
        let Some(ObjectAttributes::Bridge(bridge)) = above.attributes() else { return None };
        let UpstreamAttributes::PCI(pci) = bridge.upstream_attributes()?;
        Some(address(pci))
    });
    bridges.last()
}

/// An address in the form of [`address`]; other tools print `00000000:3B:00.0`, or omit the domain.
pub fn normal_address(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let (domain, rest) = match lower.split(':').count() {
        2 => ("", lower.as_str()),
        _ => lower.split_once(':').unwrap_or(("", &lower)),
    };
    format!("{:0>4}:{rest}", domain.trim_start_matches('0'))
}

/// Whether a text has the form `0000:3b:00.0`.
pub fn is_address(text: &str) -> bool {
    let Some((domain, rest)) = text.split_once(':') else { return false };
    let Some((bus, rest)) = rest.split_once(':') else { return false };
    let Some((slot, function)) = rest.split_once('.') else { return false };
    let hex =
        |part: &str, length: usize| part.len() >= length && part.bytes().all(|it| it.is_ascii_hexdigit());
    hex(domain, 4) && hex(bus, 2) && hex(slot, 2) && hex(function, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_one_form() {
        for text in ["0000:3b:00.0", "00000000:3B:00.0", "3b:00.0"] {
            assert_eq!(normal_address(text), "0000:3b:00.0");
        }
        assert_eq!(normal_address("00010000:01:00.0"), "10000:01:00.0");
        assert!(is_address("0000:3b:00.0") && is_address("10000:01:00.0"));
        for text in ["", "????", "0000:3b:00", "3b:00.0", "0000:3g:00.0"] {
            assert!(!is_address(text), "{text}");
        }
        assert!(!is_address(&normal_address("?")));
    }
}
