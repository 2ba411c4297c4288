//! The extended resource of a pool's units: one for all, or one per NUMA domain.

use crds::DevicePool;

/// Placeholder for the number of the NUMA domain in a resource name.
const DOMAIN: &str = "{index}";
/// Suffix of a `DeviceClass` in the resource by which a `ResourceQuota` counts its devices.
pub(crate) const OF_CLASS: &str = ".deviceclass.resource.k8s.io/devices";

/// Units of a pool that a resource provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Provides<'a> {
    /// None.
    None,
    /// Any unit.
    Any,
    /// Units of the NUMA domain with this number.
    Domain(&'a str),
}

/// Units of the pool that the resource provides.
pub(crate) fn provides<'a>(pool: &DevicePool, resource: &'a str) -> Provides<'a> {
    let Some(given) = &pool.spec.resource else { return Provides::None };
    let Some(plugin) = &given.device_plugin else { return Provides::None };
    let Some((before, after)) = plugin.split_once(DOMAIN) else {
        return if plugin == resource { Provides::Any } else { Provides::None };
    };
    let number = resource.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    number.filter(is_number).map_or(Provides::None, Provides::Domain)
}

/// Resource of the unit with this number; units of NUMA domains have the domain's number.
///
/// For devices of claims it is the name by which a `ResourceQuota` counts them.
pub(crate) fn resource_of(pool: &DevicePool, number: &str) -> Option<String> {
    let given = pool.spec.resource.as_ref()?;
    let of_class = given.dra.as_ref().map(|devices| format!("{}{OF_CLASS}", devices.device_class_name));
    of_class.or_else(|| Some(given.device_plugin.as_ref()?.replace(DOMAIN, number)))
}
