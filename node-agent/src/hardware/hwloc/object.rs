//! What is asked of any of hwloc's objects.

use hwlocality::object::{TopologyObject, types::ObjectType};

/// The text of an info attribute, if there is one and it is text.
pub fn info<'a>(object: &'a TopologyObject, key: &str) -> Option<&'a str> {
    object.info(key)?.to_str().ok().map(str::trim).filter(|text| !text.is_empty())
}

/// An info attribute that is a number.
pub fn number(object: &TopologyObject, key: &str) -> Option<i64> {
    info(object, key)?.parse().ok()
}

/// The PCI device that an object is, or is a part of.
pub fn pci_of(object: &TopologyObject) -> Option<&TopologyObject> {
    std::iter::once(object).chain(object.ancestors()).find(|it| it.object_type() == ObjectType::PCIDevice)
}
