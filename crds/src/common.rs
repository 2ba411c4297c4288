//! What the kinds share: the rules for names and numbers written as text, conditions, quantities.

use kube::core::Rule;
use schemars::{Schema, SchemaGenerator, json_schema};

pub use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// The API group of every kind.
pub const GROUP: &str = "cairn.dev";
/// The API version of every kind.
pub const VERSION: &str = "v1alpha1";

/// A DNS label (RFC 1123). The length is bounded by the field's own `maxLength`.
pub(crate) fn dns_label() -> Rule {
    Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')").message(
        "must be a DNS label: lower-case letters, digits and '-', starting and ending with a letter or digit",
    )
}

/// A DNS subdomain (RFC 1123): the name of a Kubernetes object.
pub(crate) fn object_name() -> Rule {
    Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')").message(
        "must be the name of an object: lower-case letters, digits, '-' and '.', starting and ending with a letter or digit",
    )
}

/// Messages per time: `30/s`, `0.5/m`, `100/h`.
pub(crate) fn rate() -> Rule {
    Rule::new("self.matches('^[0-9]{1,9}([.][0-9]{1,6})?/(s|m|h)$')")
        .message("must be a rate, a number, '/', and one of s, m, h, as in 30/s or 0.5/m")
}

/// A positive duration: `20ms`, `35us`, `1.5s`.
pub(crate) fn duration() -> Rule {
    Rule::new("self.matches('^[0-9]{1,9}([.][0-9]{1,6})?(us|ms|s)$') && self.matches('[1-9]')")
        .message("must be a duration above zero, a number and one of us, ms, s, as in 20ms or 1.5s")
}

/// A rational above zero: `1`, `0.5`, `3/2`.
pub(crate) fn positive_rational() -> Rule {
    Rule::new(format!("{RATIONAL} && self.matches('^[0.]*[1-9]')"))
        .message("must be a number above zero, as in \"1\", \"0.5\" or \"3/2\"")
}

/// A rational above zero and at most one: `0.9`, `1`, `9/10`.
pub(crate) fn share() -> Rule {
    Rule::new(format!(
        "{RATIONAL} && self.matches('^[0.]*[1-9]') && (self.contains('/') \
         ? int(self.split('/')[0]) <= int(self.split('/')[1]) : double(self) <= 1.0)"
    ))
    .message("must be above 0 and at most 1, as in \"0.9\" or \"9/10\"")
}

/// Digits with a fraction, or a quotient whose denominator is not zero.
const RATIONAL: &str = "self.matches('^([0-9]{1,6}([.][0-9]{1,6})?|[0-9]{1,6}/0*[1-9][0-9]{0,5})$')";

/// A byte count as people write it: `64Mi`, `32Ki`, `0`.
///
/// CEL sees an int-or-string without its `maxLength` and prices a rule over it as if it were megabytes
/// long, so this is a pattern instead.
pub(crate) fn byte_quantity(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "minimum": 0,
        // a null is pruned and becomes the default; said because kube says `true` where nothing is said
        "nullable": false,
        "pattern": "^[0-9]{1,15}([.][0-9]{1,3})?(k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$",
    })
}

/// Zero bytes: the default of every size.
pub(crate) fn no_bytes() -> Quantity {
    Quantity("0".to_owned())
}

pub(crate) fn one() -> i32 {
    1
}

/// Whether a flag has its default, so that it is left out.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field by reference")]
pub(crate) fn is_false(flag: &bool) -> bool {
    !flag
}
