//! The extended resource of a pool's units: one for all, or one per NUMA domain.

use crds::DevicePool;

/// Placeholder for the number of the NUMA domain in a resource name.
const DOMAIN: &str = "{index}";

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
pub(crate) fn resource_of(pool: &DevicePool, number: &str) -> Option<String> {
    Some(pool.spec.resource.as_ref()?.device_plugin.as_ref()?.replace(DOMAIN, number))
}
