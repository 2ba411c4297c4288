//! Accessors of hwloc objects.

use hwlocality::object::{TopologyObject, types::ObjectType};

/// The text of an info attribute, if present and valid.
pub fn info<'a>(object: &'a TopologyObject, key: &str) -> Option<&'a str> {
    object.info(key)?.to_str().ok().map(str::trim).filter(|text| !text.is_empty())
}

/// A numeric info attribute.
pub fn number(object: &TopologyObject, key: &str) -> Option<i64> {
    info(object, key)?.parse().ok()
}

/// The PCI device that an object is, or belongs to.
pub fn pci_of(object: &TopologyObject) -> Option<&TopologyObject> {
    std::iter::once(object).chain(object.ancestors()).find(|it| it.object_type() == ObjectType::PCIDevice)
}
