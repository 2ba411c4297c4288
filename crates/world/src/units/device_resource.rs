//! By which resource a pool's units are had: one for all of them, or one for each NUMA domain.

use crds::DevicePool;

/// What stands for the number of a NUMA domain in the name of a pool's resource.
const DOMAIN: &str = "{index}";

/// Which of a pool's units are had through a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gives<'a> {
    /// None of them.
    Nothing,
    /// Whichever.
    Any,
    /// Those of the NUMA domain of this number.
    Domain(&'a str),
}

/// Which of the pool's units are had through the resource.
pub(crate) fn gives<'a>(pool: &DevicePool, resource: &'a str) -> Gives<'a> {
    let Some(given) = &pool.spec.resource else { return Gives::Nothing };
    let Some((before, after)) = given.device_plugin.split_once(DOMAIN) else {
        return if given.device_plugin == resource { Gives::Any } else { Gives::Nothing };
    };
    let number = resource.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    number.filter(is_number).map_or(Gives::Nothing, Gives::Domain)
}

/// The resource by which the pool's unit of this number is had: units of NUMA domains are numbered as the domains are.
pub(crate) fn resource_of(pool: &DevicePool, number: &str) -> Option<String> {
    pool.spec.resource.as_ref().map(|given| given.device_plugin.replace(DOMAIN, number))
}
